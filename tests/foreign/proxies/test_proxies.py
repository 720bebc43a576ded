"""Clients behind real proxies have their own addresses, whatever they speak and whatever they pretend."""

import base64
import itertools
import json
import ssl
import subprocess

import pytest
import websocket

from conftest import CONNECTIONS_MAX, PROXY, WAIT, connect, until

NAMES = (f"somebody-{number}" for number in itertools.count())
SPOOFED = {
    "X-Forwarded-For": "203.0.113.1, 203.0.113.2",
    "Forwarded": "for=203.0.113.1;proto=https, for=203.0.113.2",
    "X-Real-IP": "203.0.113.3",
    "X-Forwarded-Proto": "http",
}
HTTP = {"http1": "--http1.1", "http2": "--http2"}
SHAPES = ["plain", "spoofed"]


def curl(world, source, path, *arguments, version="http1", user=None, password="x", fields=()):
    """Status and body of a request by curl from an address, over TLS to the proxy."""
    command = ["curl", "--silent", "--insecure", HTTP[version], "--interface", source, "--max-time", str(WAIT)]
    command += ["--write-out", "\n%{http_code} %{http_version}"]
    command += [argument for name, value in dict(fields).items() for argument in ("--header", f"{name}: {value}")]
    if user:
        command += ["--user", f"{user}:{password}"]
    done = subprocess.run([*command, *arguments, f"https://localhost:{world.web}{path}"], capture_output=True)
    body, _, last = done.stdout.decode().rpartition("\n")
    assert last, (done.returncode, done.stderr)
    status, spoken = last.split()
    assert spoken.startswith("2" if version == "http2" else "1.1"), spoken
    return int(status), body


def stream(world, source, user, version="http1", fields=()):
    """A stream of events that goes on, and the status with which it began."""
    command = ["curl", "--silent", "--insecure", "--no-buffer", "--include", HTTP[version], "--interface", source]
    command += [argument for name, value in dict(fields).items() for argument in ("--header", f"{name}: {value}")]
    command += ["--user", f"{user}:x", f"https://localhost:{world.web}/events?topic={user}"]
    one = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    status = int(one.stdout.readline().split()[1])
    return one, status


def open_websocket(world, source, fields=(), origin=None):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    raw = context.wrap_socket(connect(world.web, source), server_hostname="localhost")
    address = f"wss://localhost:{world.web}/stomp"
    return websocket.create_connection(
        address, socket=raw, timeout=WAIT, header=dict(fields), subprotocols=["v12.stomp"],
        origin=origin or f"https://localhost:{world.web}",
    )


def log_in(send, receive, user, password):
    """By STOMP; the command of the answer, and all of it."""
    send(f"CONNECT\naccept-version:1.2\nhost:localhost\nlogin:{user}\npasscode:{password}\n\n\0")
    answer = receive()
    answer = answer.decode() if isinstance(answer, bytes) else answer
    return answer.split("\n", 1)[0], answer


def stomp_by_websocket(world, source, user, password="x", fields=()):
    one = open_websocket(world, source, fields)
    try:
        return log_in(one.send, one.recv, user, password)
    finally:
        one.close()


def stomp_by_tcp(world, source, user, password="x"):
    with connect(world.tcp, source) as one:
        return log_in(lambda text: one.sendall(text.encode()), lambda: one.recv(4096), user, password)


def fields_of(shape):
    return SPOOFED if shape == "spoofed" else {}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("version", HTTP)
def test_a_request_has_the_address_of_its_client(world, client, other, version, shape):
    for source in (client, other, client):
        user = next(NAMES)
        status, body = curl(world, source, "/topics/nothing", version=version, user=user, fields=fields_of(shape))
        assert status == 404, body
        assert world.asked.addresses[user] == source


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("version", HTTP)
def test_a_stream_has_the_address_of_its_client(world, client, version, shape):
    user = next(NAMES)
    one, status = stream(world, client, user, version, fields_of(shape))
    try:
        assert status == 200
        assert world.asked.addresses[user] == client
        # It comes through as it is sent.
        sent, _ = curl(world, PROXY, f"/topics/{user}", "--data", "hello", version=version, user=next(NAMES))
        assert sent in (200, 202, 204)
        assert any(b"hello" in line for line in one.stdout)
    finally:
        one.kill()
        one.wait()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_websocket_has_the_address_of_its_client(world, client, other, shape):
    for source in (client, other):
        user = next(NAMES)
        assert stomp_by_websocket(world, source, user, fields=fields_of(shape))[0] == "CONNECTED"
        assert world.asked.addresses[user] == source


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("version", HTTP)
def test_polling_has_the_address_of_its_client(world, client, version, shape):
    def ask(path, *arguments):
        status, body = curl(world, client, path, *arguments, version=version, fields=fields_of(shape))
        assert status == 200, body
        return body

    path = "/socket.io/?EIO=4&transport=polling"
    session = json.loads(ask(path)[1:])["sid"]
    user, path = next(NAMES), f"{path}&sid={session}"
    login = "40" + json.dumps({"user": user, "password": "x"})
    assert ask(path, "--header", "Content-Type: text/plain", "--data", login) == "ok"
    assert ask(path).startswith("40")
    assert world.asked.addresses[user] == client


def test_connections_over_tcp_have_the_addresses_of_their_clients(tcp_world, client, other):
    for source in (client, other, PROXY):
        user = next(NAMES)
        assert stomp_by_tcp(tcp_world, source, user)[0] == "CONNECTED"
        assert tcp_world.asked.addresses[user] == source


def lock_out(attempt, client, other):
    for _ in range(3):
        assert "too many" not in attempt(client, "wrong")[1]
    refused = attempt(client, "swordfish")
    assert "too many failed logins" in refused[1], refused
    assert attempt(other, "swordfish")[0] in ("CONNECTED", 404)


@pytest.mark.parametrize("version", HTTP)
def test_failed_requests_lock_their_client_out_and_nobody_else(world, client, other, version):
    lock_out(
        lambda source, password: curl(
            world, source, "/topics/nothing", version=version, user="ann", password=password, fields=SPOOFED
        ),
        client, other,
    )


def test_failed_logins_by_websocket_lock_their_client_out_and_nobody_else(world, client, other):
    lock_out(lambda source, password: stomp_by_websocket(world, source, "ann", password), client, other)


def test_failed_logins_over_tcp_lock_their_client_out_and_nobody_else(tcp_world, client, other):
    lock_out(lambda source, password: stomp_by_tcp(tcp_world, source, "ann", password), client, other)


def test_websockets_are_counted_for_their_client(world, client, other):
    held = [open_websocket(world, client) for _ in range(CONNECTIONS_MAX)]
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        open_websocket(world, client, SPOOFED)
    assert refused.value.status_code == 503
    open_websocket(world, other).close()
    for one in held:
        one.close()

    def has_room():
        try:
            open_websocket(world, client).close()
            return True
        except websocket.WebSocketBadStatusException:
            return False

    until(has_room, "the places of connections that have ended are free again")


@pytest.mark.parametrize("version", HTTP)
def test_streams_are_counted_for_their_client(world, client, other, version):
    held = []

    def begin(source):
        one, status = stream(world, source, next(NAMES), version)
        held.append(one)
        return status

    try:
        assert [begin(client) for _ in range(CONNECTIONS_MAX)] == [200] * CONNECTIONS_MAX
        assert begin(client) == 503
        assert begin(other) == 200
        while held:
            one = held.pop()
            one.kill()
            one.wait()
        until(lambda: begin(client) == 200, "the places of streams that have ended are free again")
    finally:
        for one in held:
            one.kill()
            one.wait()


def test_connections_over_tcp_are_counted_for_their_client(tcp_world, client, other):
    held = [connect(tcp_world.tcp, client) for _ in range(CONNECTIONS_MAX)]
    for one in held:
        one.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\nlogin:bob\npasscode:x\n\n\0")
        assert one.recv(4096).startswith(b"CONNECTED")
    with connect(tcp_world.tcp, client) as one:
        assert one.recv(4096) == b""
    assert stomp_by_tcp(tcp_world, other, next(NAMES))[0] == "CONNECTED"
    for one in held:
        one.close()

    def has_room():
        try:
            return stomp_by_tcp(tcp_world, client, next(NAMES))[0] == "CONNECTED"
        except OSError:
            return False

    until(has_room, "the places of connections that have ended are free again")


def test_a_page_of_the_proxy_may_connect_and_the_log_has_the_client_of_one_that_may_not(world, client):
    open_websocket(world, client).close()
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        open_websocket(world, client, origin="https://elsewhere.example.org")
    assert refused.value.status_code == 403
    until(lambda: f"a request of {client}:" in world.log(), "the log names the client")


def test_who_is_no_proxy_is_not_believed(world, client):
    """The server itself can be reached here, as it should not be; nobody gains anything by it."""
    with connect(world.server, client) as one:
        one.sendall(b"PROXY TCP4 203.0.113.1 127.0.0.1 1 2\r\nCONNECT\n\n\0")
        assert one.recv(4096) == f"a header of the PROXY protocol is not taken from {client}\n".encode()
    until(lambda: "proxy-not-trusted" in world.log(), "the log says so")
    user = next(NAMES)
    shown = base64.b64encode(f"{user}:x".encode()).decode()
    spoofed = "".join(f"{name}: {value}\r\n" for name, value in SPOOFED.items())
    with connect(world.server, client) as one:
        one.sendall(
            f"GET /topics/nothing HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {shown}\r\n{spoofed}"
            "Connection: close\r\n\r\n".encode()
        )
        assert one.recv(4096).startswith(b"HTTP/1.1 404")
    assert world.asked.addresses[user] == client


def test_the_server_is_spoken_to_as_the_page_says(world, client):
    """So that what is tested as HTTP/2 is HTTP/2 as far as the server."""
    curl(world, client, "/topics/nothing", user=next(NAMES))
    with connect(world.server, PROXY) as one:
        one.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        text = b"".join(iter(lambda: one.recv(65536), b"")).decode()
    line = next(line for line in text.splitlines() if line.startswith("tiderace_http2_streams_opened_total "))
    assert (int(line.split()[1]) > 0) == (world.name == "haproxy-http2")
