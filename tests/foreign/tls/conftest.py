"""A server of this suite's own, with certificates made for it by OpenSSL, and clients that trust them."""

import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
from ports import free_ports  # noqa: E402

WAIT = float(os.environ.get("TIDERACE_WAIT", "10"))
BINARY = os.environ["TIDERACE_BINARY"]

CONFIGURATION = """
[server]
listen = ["127.0.0.1:{either}"]
shards = 2
shutdown_grace = "2s"
[[listener]]
address = "127.0.0.1:{only}"
tls = "only"
[[listener]]
address = "127.0.0.1:{off}"
tls = "off"
[tls]
certificate = "{folder}/localhost.pem"
key = "{folder}/localhost.key"
handshake_timeout = "6s"
{more}
[[certificate]]
chain = "{folder}/other.pem"
key = "{folder}/other.key"
[limits]
first_byte_timeout = "6s"
[[topic]]
match = "blocking/**"
slow_consumer = "block"
[auth]
allow_anonymous = true
[log]
format = "text"
"""


def openssl(*arguments, **options):
    return subprocess.run(
        ["openssl", *arguments], check=True, capture_output=True, timeout=60, **options
    ).stdout


class Authority:
    """Signs certificates for hosts and clients."""

    def __init__(self, folder):
        self.folder = folder
        self.file = folder / "authority.pem"
        self.key = folder / "authority.key"
        openssl(
            *"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30".split(),
            *["-subj", "/CN=authority", "-keyout", self.key, "-out", self.file],
        )

    def sign(self, name, alternatives, algorithm=("ec", "-pkeyopt", "ec_paramgen_curve:P-256")):
        key, request, pem = (self.folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
        openssl(
            *["req", "-new", "-newkey", *algorithm, "-nodes", "-subj", f"/CN={name}"],
            *["-keyout", key, "-out", request],
        )
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternatives}\n")
        signed = openssl(
            *["x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self.key, "-days", "20"],
            *["-set_serial", str(time.time_ns()), "-extfile", extensions],
        )
        key.chmod(0o600)
        pem.write_bytes(signed)
        return pem, key


class Server:
    """A running server."""

    def __init__(self, folder, authority, more=""):
        self.authority = authority
        self.either, self.only, self.off = free_ports(3)
        ports = {"either": self.either, "only": self.only, "off": self.off}
        configuration = folder / "tiderace.toml"
        configuration.write_text(CONFIGURATION.format(folder=folder, more=more, **ports))
        self.log = folder / "server.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [BINARY, "serve", "--config", configuration], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        end = time.monotonic() + WAIT
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.either)).close()
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                assert time.monotonic() < end, "the server did not start"
                time.sleep(0.05)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(WAIT) == 0, self.log.read_text()

    def trusting(self):
        context = ssl.create_default_context(cafile=self.authority.file)
        return context

    def plain(self, port=None):
        one = socket.create_connection(("127.0.0.1", port or self.either), WAIT)
        one.settimeout(WAIT)
        return one

    def connect(self, context=None, name="localhost", port=None):
        return (context or self.trusting()).wrap_socket(self.plain(port), server_hostname=name)

    def metric(self, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.either}/metrics", timeout=WAIT) as page:
            lines = page.read().decode().splitlines()
        return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.rsplit(" ", 1)[0] == name)

    def reaches(self, name, value):
        """Waits until a metric is that much."""
        end = time.monotonic() + WAIT
        while self.metric(name) < value:
            assert time.monotonic() < end, f"{name} is {self.metric(name)}, not {value}"
            time.sleep(0.05)


def make_server(folder, more="", authority=None):
    authority = authority or Authority(folder)
    authority.sign("localhost", "DNS:localhost,IP:127.0.0.1")
    authority.sign("other", "DNS:other.example,DNS:*.wild.example", ("rsa:2048",))
    return Server(folder, authority, more)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    one = make_server(tmp_path_factory.mktemp("tls"))
    yield one
    one.stop()


@pytest.fixture(scope="session")
def guarded(tmp_path_factory):
    """A server that clients need a certificate for."""
    folder = tmp_path_factory.mktemp("guarded")
    authority = Authority(folder)
    one = make_server(folder, f'client_authorities = "{authority.file}"', authority)
    yield one
    one.stop()
