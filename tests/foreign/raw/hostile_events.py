"""Attacks on REST and Server-Sent Events: paths, bodies, keys, and streams that nobody reads."""

import base64
import json
import os
import time

from hostile import case, chunks, name, push, simple, small_window, tcp
from limits import LIMITS
from wire import LOGIN, PASSCODE, WAIT, unique

MIB = 2**20
TOKEN = os.environ.get("TIDERACE_TOKEN", "robot-secret")


def request(line, body=b"", **fields):
    """The bytes of a request by somebody who may do everything."""
    headers = {"Host": "a", "Authorization": f"Bearer {TOKEN}", "Connection": "close"}
    headers |= {name.replace("_", "-"): value for name, value in fields.items()}
    if body and "Content-Length" not in headers:
        headers["Content-Length"] = len(body)
    lines = [f"{line} HTTP/1.1"] + [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def json_request(line, text, **fields):
    return request(line, text.encode(), Content_Type="application/json", **fields)


simple(
    "REST",
    "HTTP 400",
    login=False,
    a_name_with_half_an_escape=request("GET /topics/a%2"),
    a_name_that_is_not_UTF__8=request("GET /topics/%ff%fe"),
    a_name_with_NUL=request("PUT /topics/a%00b", b"x"),
    a_name_with_line_breaks=request("PUT /topics/a%0d%0ab", b"x"),
    a_name_out_of_the_tree_of_topics=request("GET /topics/%2e%2e//etc"),
    a_wildcard_to_publish_to=request("PUT /topics/**", b"x"),
    a_name_of_2_KiB=request("GET /topics/" + "x" * 2048),
    a_name_of_100_levels=request("GET /topics/" + "x/" * 99 + "x"),
    a_time_to_live_of_10_to_the_30=request("PUT /topics/a?ttl=" + "9" * 30, b"x"),
    a_list_of_10_to_the_18_values=request("GET /topics?limit=" + "9" * 18),
    an_idempotency_key_of_4_KiB=request("POST /topics/a", b"x", Idempotency_Key="k" * 4096),
    a_hundred_properties=request("PUT /topics/a", b"x", **{f"Tiderace-Property-{n}": "v" for n in range(58)} | {"Tiderace-Property-z": "\xff"}),
    a_batch_that_is_no_array=json_request("POST /batch", "{}"),
    a_batch_nested_100_000_deep=json_request("POST /batch", "[" * 100_000),
    a_batch_cut_within_a_text=json_request("POST /batch", '[{"topic":"a'),
    a_body_of_JSON_nested_10_000_deep=json_request("PUT /topics/a", "[" * 10_000 + "]" * 10_000),
    a_body_of_JSON_with_a_lone_surrogate_byte=request("PUT /topics/a", b'"\xed\xa0\x80"', Content_Type="application/json"),
)
simple(
    "REST",
    "HTTP 401",
    login=False,
    no_credentials=request("PUT /topics/a", b"x", Authorization=None),
    a_scheme_nobody_knows=request("GET /topics/a", Authorization="Negotiate abc"),
    a_token_of_8_KiB=request("GET /topics/a", Authorization="Bearer " + "t" * 8192),
    credentials_without_a_colon=request("GET /topics/a", Authorization="Basic QQ=="),
    credentials_with_NUL=request("GET /topics/a", Authorization="Basic " + base64.b64encode(b"tide\0:x").decode()),
)
simple(
    "REST",
    "HTTP 403",
    login=False,
    a_page_that_publishes_across_origins=request("POST /topics/a", b"x", Origin="https://evil.example"),
    a_page_of_the_origin_null=request("POST /topics/a", b"x", Origin="null"),
)
simple(
    "REST",
    "HTTP (413|429|414|431)",
    login=False,
    a_batch_of_1_001_messages=json_request("POST /batch", json.dumps([{"topic": "a", "value": 1}] * 1001)),
    a_stream_of_101_topics=request("GET /events?" + "&".join(f"topic={n}" for n in range(101))),
    a_stream_of_100_000_topics=request("GET /events?" + "&".join(f"topic={n}" for n in range(100_000))),
    a_body_one_byte_over_the_limit=request("PUT /topics/a", b"x" * (LIMITS["message_bytes_max"] + 1)),
    a_declared_body_of_10_GB_and_one_byte_of_it=request("PUT /topics/a", b"x", Content_Length=10 * 10**9),
    a_declared_batch_of_10_GB_and_one_byte_of_it=request("POST /batch", b"[", Content_Length=10 * 10**9),
)


def ask(*requests):
    """Sends requests one after the other; names the last answer, with its head."""
    for data in requests:
        client = tcp()
        push(client, data)
        answer = client.drain()
        client.close()
    return answer


@case("REST", "a page of HTML with a script as a value, fetched", "sandboxed")
def stored_script():
    body = b"<script>alert(document.domain)</script>"
    got = ask(request("PUT /topics/hostile/page", body, Content_Type="text/html"), request("GET /topics/hostile/page"))
    safe = b"Content-Security-Policy: sandbox" in got and b"X-Content-Type-Options: nosniff" in got
    return "sandboxed" if safe and body in got else name(got)


@case("REST", "a content type with an escaped line break, published by STOMP and fetched", "left out")
def split_answer():
    topic = unique("hostile")
    client = tcp()
    client.login()
    client.ask("SEND", {"destination": f"/topic/{topic}", "retain": "true", "content-type": "a\r\nSet-Cookie: x=y"}, b"x")
    client.close()
    got = ask(request(f"GET /topics/{topic}"))
    return "left out" if b"Set-Cookie" not in got and got.startswith(b"HTTP/1.1 200") else name(got)


@case("REST", "an origin with control bytes", "HTTP (400|403)")
def odd_origin():
    return name(ask(request("GET /topics/a", Origin="https://x\x01\x7f")))


@case("REST", "20,000 idempotency keys", "all published")
def many_keys():
    client = tcp()
    one = lambda n: request("POST /topics/hostile/keys", b"x", Idempotency_Key=f"{n}" + "k" * 200, Connection="keep-alive")
    done = 0
    for begin in range(0, 20_000, 200):
        push(client, b"".join(one(n) for n in range(begin, begin + 200)))
        while client.buffer.count(b"HTTP/1.1 ") < 200 and client.fill(time.monotonic() + WAIT):
            pass
        done += client.buffer.count(b"HTTP/1.1 200")
        client.buffer.clear()
    client.close()
    return "all published" if done == 20_000 else f"{done} published"


@case("events", "64 MiB published to a stream that nobody reads", "published")
def unread_stream():
    topic = unique("hostile")
    reader = tcp()
    small_window(reader)
    push(reader, request(f"GET /events?topic={topic}"))
    while b"event: ready" not in reader.buffer and reader.fill(time.monotonic() + WAIT):
        pass
    publisher = tcp()
    publisher.login()
    for _ in range(64):
        publisher.send("SEND", {"destination": f"/topic/{topic}"}, b"x" * MIB)
    publisher.ask("SEND", {"destination": f"/topic/{topic}"}, b"last")
    publisher.close()
    reader.close()
    return "published"


@case("events", "a stream that sends 8 MiB more after its request", "goes on|closed")
def talking_stream():
    client = tcp()
    push(client, request("GET /events?topic=a"))
    push(client, chunks(b"GET / HTTP/1.1\r\n\r\n", 8 * MIB), seconds=3)
    while b"event: ready" not in client.buffer:
        if not client.fill(time.monotonic() + WAIT):
            return "closed"
    client.close()
    return "goes on"


@case("events", "a position of 8 KiB", "gap")
def long_position():
    client = tcp()
    push(client, request("GET /events?topic=a", Last_Event_ID="A" * 8192))
    while b"\n\n" not in client.buffer and client.fill(time.monotonic() + WAIT):
        pass
    told = b"event: gap" in client.buffer
    client.close()
    return "gap" if told else name(bytes(client.buffer))


@case("events", "200 streams opened and dropped at once", "closed")
def dropped_streams():
    for _ in range(200):
        client = tcp()
        push(client, request("GET /events?topic=hostile/**"))
        client.close()
    return "closed"


@case("REST", "twelve wrong passwords, then the right one", "HTTP (404|429)")
def guessing():
    wrong = "Basic " + base64.b64encode(f"{LOGIN}:guess".encode()).decode()
    right = "Basic " + base64.b64encode(f"{LOGIN}:{PASSCODE}".encode()).decode()
    attempts = [request("GET /topics/hostile/none", Authorization=wrong)] * 12
    return name(ask(*attempts, request("GET /topics/hostile/none", Authorization=right)))


