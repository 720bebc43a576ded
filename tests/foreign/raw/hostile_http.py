"""Attacks on the HTTP side of the port: garbage, smuggling, floods, and handshakes that are wrong."""

import time

from hostile import case, chunks, finish, name, push, simple, tcp
from wire import WAIT
from wsclient import request

REFUSED = "HTTP (400|411|413|414|431|501|505)|closed"

simple("HTTP", "HTTP 400|unknown-protocol", login=False, a_request_line_of_one_word=b"GET\r\n\r\n")
simple(
    "HTTP",
    REFUSED,
    login=False,
    no_version=b"GET /\r\n\r\n",
    an_unknown_version=b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    no_Host=b"GET /livez HTTP/1.1\r\n\r\n",
    two_Hosts=b"GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    a_space_before_the_colon=b"GET /livez HTTP/1.1\r\nHost : a\r\n\r\n",
    a_folded_header=b"GET /livez HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n",
    NUL_in_a_header=b"GET /livez HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n",
    a_lone_CR_in_a_header=b"GET /livez HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n",
    a_header_without_a_colon=b"GET /livez HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n",
    control_bytes_in_the_target=b"GET /li\x01vez HTTP/1.1\r\nHost: a\r\n\r\n",
    both_content_length_and_chunked=(
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    two_different_content_lengths=b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    a_list_of_content_lengths=b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4, 5\r\n\r\nabcde",
    a_negative_content_length=b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    a_signed_content_length=b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +4\r\n\r\nabcd",
    an_obscured_chunked=b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    chunked_twice=b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    a_header_of_1_MiB=b"GET /livez HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 2**20 + b"\r\n\r\n",
    a_target_of_1_MiB=b"GET /" + b"y" * 2**20 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    ten_thousand_headers=b"GET /livez HTTP/1.1\r\nHost: a\r\n"
    + b"".join(b"h%d: v\r\n" % n for n in range(10_000))
    + b"\r\n",
)
simple(
    "HTTP",
    "HTTP (400|404)|closed",
    login=False,
    a_path_out_of_the_tree=b"GET /../../etc/passwd HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    an_encoded_path_out_of_the_tree=b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
)
simple(
    "HTTP",
    "HTTP (400|401|403|404|405|411|413|426|501)|closed",
    login=False,
    a_declared_body_of_8_EiB=b"POST /stomp HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775807\r\n\r\nx",
    a_chunk_of_8_EiB=b"POST /stomp HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\nx",
    a_CONNECT_tunnel=b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n",
)

HANDSHAKES = {
    "another WebSocket version": ("HTTP (400|426)", {"Sec_WebSocket_Version": "12"}),
    "no WebSocket version": ("HTTP (400|426)", {"Sec_WebSocket_Version": None}),
    "no key": ("HTTP 400", {"Sec_WebSocket_Key": None}),
    "a key that is too short": ("HTTP 400", {"Sec_WebSocket_Key": "c2hvcnQ="}),
    "a key that is not base64": ("HTTP 400", {"Sec_WebSocket_Key": "!!!!!!!!!!!!!!!!!!!!!!=="}),
    "no Upgrade": ("HTTP (400|404|426)", {"Upgrade": None}),
    "no Connection": ("HTTP (400|426)", {"Connection": None}),
    "Upgrade to something else": ("HTTP (400|404|426|501)", {"Upgrade": "h2c"}),
    "only unknown subprotocols": ("HTTP 400", {"Sec_WebSocket_Protocol": "chat, soap"}),
    "a malformed list of subprotocols": ("HTTP 400", {"Sec_WebSocket_Protocol": "v12.stomp,,@@ ;"}),
    "a foreign origin": ("HTTP 403", {"Origin": "https://evil.example"}),
    "the origin null": ("HTTP 403", {"Origin": "null"}),
    "a path nobody serves": ("HTTP 404", {"path": "/no/such/path", "Sec_WebSocket_Protocol": None}),
}


def register_handshake(sends, expected, changes):
    @case("handshake", sends, expected)
    def attack():
        client = tcp()
        push(client, request(**changes))
        while b"\r\n\r\n" not in client.buffer and client.fill(time.monotonic() + WAIT):
            pass
        outcome = name(bytes(client.buffer))
        client.close()
        return outcome


for sends, (expected, changes) in HANDSHAKES.items():
    register_handshake(sends, expected, changes)


@case("HTTP", "16 MiB of a header without a line end", REFUSED)
def endless_header():
    client = tcp()
    push(client, b"GET / HTTP/1.1\r\nHost: a\r\nX: ")
    assert push(client, chunks(b"a", 16 * 2**20)) != "taken", "the server read all of it"
    return finish(client)


@case("HTTP", "10,000 requests in one go, no answer read", "held back|refused|taken")
def pipelining():
    client = tcp()
    outcome = push(client, b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n" * 10_000, seconds=2)
    client.close()
    return outcome


@case("HTTP", "a smuggled second request after a refused one", "one answer")
def smuggling():
    client = tcp()
    push(
        client,
        b"POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
    )
    answer = client.drain()
    return "one answer" if answer.count(b"HTTP/1.1 ") <= 1 and b"200" not in answer[:20] else repr(answer[:80])
