"""Large messages by HTTP: sent, got, and refused in its words."""

import hashlib
import http.client
import socket
import subprocess

import pytest
from bodies import BLOCK, SECURED, WAIT, Raw, digest, rest
from conftest import MIB


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_body_comes_by_http_in_a_file_and_is_got_from_there(serve, framing):
    server, body = serve(), BLOCK * 20
    consumer = Raw(server.port)
    consumer.subscribe("/queue/files")
    watcher = Raw(server.port)
    watcher.subscribe("/topic/files")

    def given():
        if framing == "length":
            return body
        return iter([body[at : at + 100_000] for at in range(0, len(body), 100_000)])

    headers = {"Content-Type": "video/mp4"}
    # What first requests make the server keep for later ones.
    for _ in range(4):
        assert rest(server, "POST", "/queues/files", given(), **headers)[0] == 200
        assert rest(server, "PUT", "/topics/files", given(), **headers)[0] == 200
        assert consumer.frame()[2] == watcher.frame()[2] == 20 * MIB
    before = server.anonymous()
    assert rest(server, "POST", "/queues/files", given(), **headers)[0] == 200
    assert rest(server, "PUT", "/topics/files", given(), **headers)[0] == 200
    for one in (consumer, watcher):
        _, found, length, summed = one.frame()
        assert (found["content-type"], length, summed) == ("video/mp4", 20 * MIB, digest(20))
    assert server.anonymous() - before < 10 * MIB
    status, found = rest(server, "GET", "/topics/files", None)
    assert (status, hashlib.sha256(found).hexdigest()) == (200, digest(20))
    # The next request on the same connection is answered.
    one = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT)
    for _ in range(2):
        one.request("PUT", "/topics/files", given(), headers, encode_chunked=framing == "chunked")
        answer = one.getresponse()
        assert answer.status == 200 and answer.read()
    one.request("DELETE", "/topics/files")
    assert one.getresponse().status == 204
    for _ in range(2):
        assert watcher.frame()[3] == digest(20)
    server.until("tiderace_large_message_bytes", 0)


def test_http_says_what_it_does_not_take(serve):
    server = serve('bytes_max = "8 MiB"\ndisk_bytes_max = "12 MiB"')

    def refused_by_http(method, path, mib, *statuses, **headers):
        status, why = rest(server, method, path, BLOCK * mib, **headers)
        assert status in statuses, (status, why)
        # The answer may come before the file is gone, and there is no room for another one.
        server.until("tiderace_large_message_bytes", 0)
        return why

    refused_by_http("POST", "/queues/a", 9, 413)
    why = refused_by_http("PUT", "/topics/a", 8, 413, **{"If-None-Match": "*"})
    assert b"frame-too-large" in why, why
    why = refused_by_http("POST", "/queues/a", 8, 413, **{"Idempotency-Key": "once"})
    assert b"frame-too-large" in why, why
    refused_by_http("POST", "/services/a", 8, 413)
    refused_by_http("POST", "/batch", 8, 400, 413)
    assert rest(server, "POST", "/queues/b", BLOCK * 8)[0] == 200
    status, why = rest(server, "POST", "/queues/b", BLOCK * 8)
    assert (status, b"large-messages-full" in why) == (503, True), why
    consumer = Raw(server.port)
    consumer.subscribe("/queue/b")
    assert consumer.frame()[3] == digest(8)
    server.until("tiderace_large_message_bytes", 0)
    for _ in range(50):
        one = socket.create_connection(("127.0.0.1", server.port), timeout=WAIT)
        one.sendall(b"POST /queues/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n" + BLOCK)
        one.close()
    server.until("tiderace_large_messages_arriving", 0)
    server.until("tiderace_large_message_bytes", 0)


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_curl_sends_and_gets_a_large_body(serve, version, tmp_path):
    """By HTTP/1.1 and HTTP/2, over TLS, with the wait for `100 Continue` that curl has for large bodies."""
    server, given, got = serve(more=SECURED), tmp_path / "given", tmp_path / "got"
    given.write_bytes(BLOCK * 40)
    url = f"https://127.0.0.1:{server.port}/topics/files"
    curl = ["curl", "-sSk", version, "--max-time", str(WAIT)]
    for _ in range(3):
        told = subprocess.run([*curl, "-T", given, "-H", "Expect: 100-continue", url], capture_output=True, text=True)
        assert '"accepted":1' in told.stdout, told
    subprocess.run([*curl, "-o", got, url], check=True)
    assert got.read_bytes() == given.read_bytes()
    subprocess.run([*curl, "-X", "DELETE", url], check=True)
    server.until("tiderace_large_message_bytes", 0)
