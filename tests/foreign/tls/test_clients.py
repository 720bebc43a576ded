"""What clients do over TLS: every protocol, every version, names, tickets, renewal."""

import json
import os
import queue
import shutil
import signal
import socket
import ssl
import subprocess
import urllib.request
from pathlib import Path

import pytest
import stomp
import websocket

from conftest import WAIT

CONNECT = b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0"


def read_until(one, end):
    data = b""
    while not data.endswith(end):
        piece = one.recv(65536)
        assert piece, data
        data += piece
    return data


def common_name(one):
    return dict(pair for (pair,) in one.getpeercert()["subject"])["commonName"]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_stomp_in_both_versions(server, version):
    context = server.trusting()
    context.minimum_version = context.maximum_version = version
    with server.connect(context) as one:
        one.sendall(CONNECT)
        assert read_until(one, b"\0").startswith(b"CONNECTED\n")
        body = os.urandom(1_000_000).hex().encode()
        one.sendall(b"SUBSCRIBE\nid:1\ndestination:/topic/large\n\n\0")
        one.sendall(b"SEND\ndestination:/topic/large\ncontent-length:%d\n\n" % len(body) + body + b"\0")
        frame = read_until(one, b"\0")
        assert frame.endswith(b"\n\n" + body + b"\0")
        # Half of the connection may end before the other.
        one.sendall(b"DISCONNECT\nreceipt:bye\n\n\0")
        assert b"receipt-id:bye" in read_until(one, b"\0")
        assert one.unwrap()


def test_old_versions_are_refused(server):
    context = server.trusting()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        server.connect(context)


def test_plain_text_and_tls_share_the_port(server):
    with server.plain() as one:
        one.sendall(CONNECT)
        assert read_until(one, b"\0").startswith(b"CONNECTED\n")
    with server.plain(server.only) as one:
        one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = one.makefile("rb").read()
        head, body = answer.split(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ") and b"https://" in body
        assert f"content-length: {len(body)}".encode() in head.lower()
    with server.plain(server.only) as one:
        one.sendall(CONNECT)
        assert read_until(one, b"\n") == b"TLS is required here\n"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        server.connect(port=server.off)


def test_stomp_py(server):
    received = queue.Queue()

    class Listener(stomp.ConnectionListener):
        def on_message(self, frame):
            received.put(frame.body)

    address = ("localhost", server.only)
    one = stomp.Connection12([address], reconnect_attempts_max=1, timeout=WAIT)
    one.set_ssl(for_hosts=[address], ca_certs=str(server.authority.file))
    one.set_listener("", Listener())
    one.connect(wait=True)
    one.subscribe("/topic/tls", id="1")
    for count in range(100):
        one.send("/topic/tls", f"message {count}")
    assert [received.get(timeout=WAIT) for _ in range(100)] == [f"message {n}" for n in range(100)]
    one.disconnect()


def test_websocket(server):
    options = {"ca_certs": str(server.authority.file)}
    url = f"wss://localhost:{server.only}/stomp"
    one = websocket.create_connection(url, timeout=WAIT, sslopt=options, subprotocols=["v12.stomp"])
    one.send(CONNECT)
    assert one.recv().startswith("CONNECTED\n")
    one.send("SUBSCRIBE\nid:1\ndestination:/topic/ws\n\n\0")
    one.send("SEND\ndestination:/topic/ws\n\nhello\0")
    assert one.recv().endswith("\n\nhello\0")
    one.close()


def test_http(server):
    url = f"https://localhost:{server.only}"
    context = server.trusting()
    post = urllib.request.Request(f"{url}/topics/rest/tls", data=b'{"a":1}', method="POST")
    post.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(post, context=context, timeout=WAIT) as answer:
        assert answer.status in (200, 202, 204)
    with urllib.request.urlopen(f"{url}/livez", context=context, timeout=WAIT) as answer:
        assert answer.read() == b"live\n"


def test_alpn(server):
    context = server.trusting()
    for offered, chosen in [(["http/1.1"], "http/1.1"), (["http/1.1", "h2"], "h2")]:
        context.set_alpn_protocols(offered)
        with server.connect(context) as one:
            assert one.selected_alpn_protocol() == chosen
    context.set_alpn_protocols(["nonsense/7"])
    with pytest.raises(ssl.SSLError, match="no application protocol|NO_APPLICATION_PROTOCOL"):
        server.connect(context)


def test_each_name_has_its_certificate(server):
    for name, expected in [("localhost", "localhost"), ("other.example", "other"), ("a.wild.example", "other")]:
        with server.connect(name=name) as one:
            assert common_name(one) == expected
    with pytest.raises(ssl.SSLCertVerificationError):
        server.connect(name="stranger.example")
    server.reaches('tiderace_tls_failures_total{reason="alert"}', 1)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_who_comes_back_brings_a_ticket(server, version):
    context = server.trusting()
    context.minimum_version = context.maximum_version = version
    with server.connect(context) as one:
        one.sendall(CONNECT)
        # In TLS 1.3 the ticket comes behind the handshake.
        read_until(one, b"\0")
        ticket = one.session
    again = context.wrap_socket(server.plain(), server_hostname="localhost", session=ticket)
    with again as one:
        assert one.session_reused


def test_certificates_are_renewed_without_a_restart(server):
    before = server.connect()
    before.sendall(CONNECT)
    read_until(before, b"\0")
    old = before.getpeercert()["serialNumber"]
    # A file that is no good changes nothing.
    file = server.authority.folder / "localhost.pem"
    good = file.read_text()
    file.write_text("nonsense")
    server.process.send_signal(signal.SIGHUP)
    server.reaches('tiderace_tls_reloads_total{outcome="failed"}', 1)
    with server.connect() as one:
        assert one.getpeercert()["serialNumber"] == old
    file.write_text(good)
    server.authority.sign("localhost", "DNS:localhost,IP:127.0.0.1")
    server.process.send_signal(signal.SIGHUP)
    server.reaches('tiderace_tls_reloads_total{outcome="done"}', 1)
    with server.connect() as one:
        assert one.getpeercert()["serialNumber"] != old
    before.sendall(b"SEND\ndestination:/topic/x\nreceipt:still\n\n\0")
    assert b"receipt-id:still" in read_until(before, b"\0")
    before.close()


def test_clients_show_certificates_where_they_must(guarded):
    # In TLS 1.3 a client hears of the refusal with its first answer.
    with pytest.raises((ssl.SSLError, ConnectionError)):
        with guarded.connect() as one:
            one.sendall(CONNECT)
            read_until(one, b"\0")
    guarded.reaches('tiderace_tls_failures_total{reason="certificate"}', 1)
    context = guarded.trusting()
    context.load_cert_chain(*guarded.authority.sign("client", "DNS:client"))
    with guarded.connect(context) as one:
        one.sendall(CONNECT)
        assert read_until(one, b"\0").startswith(b"CONNECTED\n")


def test_openssl(server):
    for version in ["-tls1_2", "-tls1_3"]:
        command = ["openssl", "s_client", version, "-quiet", "-verify_return_error"]
        command += ["-connect", f"127.0.0.1:{server.only}", "-CAfile", server.authority.file]
        shown = subprocess.run(command, input=CONNECT + b"DISCONNECT\n\n\0", capture_output=True, timeout=WAIT)
        assert b"CONNECTED\n" in shown.stdout, shown.stderr


def test_node(server):
    assert shutil.which("node"), "node is missing"
    environment = {**os.environ, "NODE_EXTRA_CA_CERTS": str(server.authority.file)}
    script = Path(__file__).with_name("peer.js")
    shown = subprocess.run(
        ["node", script, str(server.only)], env=environment, capture_output=True, timeout=WAIT * 3
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert json.loads(shown.stdout) == {
        "live": "live\n",
        "http2": "h2 live\n",
        "protocol": "TLSv1.3",
        "stomp": "CONNECTED",
        "event": "7",
    }


def test_the_server_keeps_no_session_for_who_takes_no_ticket(server):
    context = server.trusting()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_TICKET
    session = None
    for _ in range(2):
        with server.connect(context) if session is None else context.wrap_socket(
            server.plain(), server_hostname="localhost", session=session
        ) as one:
            one.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert one.recv(12) == b"HTTP/1.1 200"
            assert not one.session_reused
            session = one.session
