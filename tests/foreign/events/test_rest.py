"""REST by requests: every row of the table in protocols/events/README.md."""

import http.client
import json
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from conftest import BASE, BEARER, LIMITED, LOGIN, PASSCODE, WAIT, call, unique


def test_put_get_delete(topic):
    assert call("GET", f"/topics/{topic}").status_code == 404
    assert call("PUT", f"/topics/{topic}", b"1.07", Content_Type="text/plain").json() == {"accepted": 1}
    got = call("GET", f"/topics/{topic}")
    assert (got.status_code, got.text, got.headers["Content-Type"]) == (200, "1.07", "text/plain")
    assert call("DELETE", f"/topics/{topic}").status_code == 204
    assert call("GET", f"/topics/{topic}").json()["code"] == "not-found"


def test_head(topic):
    call("PUT", f"/topics/{topic}", b"12345")
    head = call("HEAD", f"/topics/{topic}")
    assert (head.status_code, head.headers["Content-Length"], head.content) == (200, "5", b"")


def test_etags_and_versions(topic):
    call("PUT", f"/topics/{topic}", b"one")
    first = call("GET", f"/topics/{topic}")
    again = call("GET", f"/topics/{topic}", If_None_Match=first.headers["ETag"])
    assert (again.status_code, again.content) == (304, b"")
    call("PUT", f"/topics/{topic}", b"two")
    second = call("GET", f"/topics/{topic}", If_None_Match=first.headers["ETag"])
    assert (second.status_code, second.text) == (200, "two")
    assert int(second.headers["Tiderace-Version"]) == int(first.headers["Tiderace-Version"]) + 1


def test_post_is_retained_only_if_asked(topic):
    call("POST", f"/topics/{topic}", b"x")
    assert call("GET", f"/topics/{topic}").status_code == 404
    call("POST", f"/topics/{topic}?retain=true", b"x")
    assert call("GET", f"/topics/{topic}").status_code == 200


@pytest.mark.parametrize("body", [b"", bytes(range(256)), "fünf 🌊".encode(), b"x" * 500_000, b"x" * 2_000_000])
def test_bodies_come_back_as_they_were(topic, body):
    call("PUT", f"/topics/{topic}", body, Content_Type="application/octet-stream")
    assert call("GET", f"/topics/{topic}").content == body


def test_a_body_above_the_limit_is_refused(topic):
    got = call("PUT", f"/topics/{topic}", b"x" * (2 * 2**20 + 1))
    assert (got.status_code, got.json()["code"]) == (413, "frame-too-large")


def test_chunked_bodies(topic):
    call("PUT", f"/topics/{topic}", (piece for piece in [b"one ", b"two ", b"three"]))
    assert call("GET", f"/topics/{topic}").text == "one two three"


def test_names_are_percent_decoded(topic):
    call("PUT", f"/topics/{topic}/m%C3%BCnchen%20%F0%9F%8C%8A", b"x")
    assert call("GET", f"/topics/{topic}%2Fm%C3%BCnchen%20%F0%9F%8C%8A").text == "x"


def test_a_list_of_values(topic):
    for n in range(5):
        call("PUT", f"/topics/{topic}/{n}", json.dumps({"n": n}), Content_Type="application/json")
    got = call("GET", f"/topics?pattern={topic}/*").json()
    assert got["complete"] is True
    assert [(row["topic"], row["value"]) for row in got["topics"]] == [(f"{topic}/{n}", {"n": n}) for n in range(5)]
    assert len(call("GET", f"/topics?pattern={topic}/**&limit=2").json()["topics"]) == 2


def test_users_have_topics_of_their_own():
    name = unique("own")
    assert call("PUT", f"/topics/~/{name}", b"mine").status_code == 200
    assert call("GET", f"/topics/user/robot/{name}").text == "mine"
    other = requests.get(f"{BASE}/topics/user/robot/{name}", auth=(LOGIN, PASSCODE), timeout=WAIT)
    assert other.status_code == 403


@pytest.mark.parametrize(
    "options, status, code",
    [
        ({"headers": BEARER}, 404, "not-found"),
        ({"auth": (LOGIN, PASSCODE)}, 404, "not-found"),
        ({"params": {"access_token": BEARER["Authorization"].split()[1]}}, 404, "not-found"),
        ({}, 401, "login-required"),
        ({"headers": {"Authorization": "Bearer wrong"}}, 401, "login-failed"),
        ({"auth": (LOGIN, "wrong")}, 401, "login-failed"),
        ({"headers": {"Authorization": "Negotiate x"}}, 401, "login-failed"),
        ({"auth": LIMITED}, 403, "not-authorised"),
    ],
)
def test_who_asks(topic, options, status, code):
    got = requests.get(f"{BASE}/topics/{topic}", timeout=WAIT, **options)
    assert got.status_code == status and got.json()["code"] in (code, "login-failed"), got.text
    assert ("WWW-Authenticate" in got.headers) == (status == 401)


@pytest.mark.parametrize("path", ["a//b", "a/", "%", "%zz", "%ff", "a%00b", "*", "a/%23", "x" * 1025])
def test_bad_names(path):
    # By the standard library: requests mends paths.
    connection = http.client.HTTPConnection(BASE.removeprefix("http://"), timeout=WAIT)
    connection.request("GET", f"/topics/{path}", headers=BEARER)
    got = connection.getresponse()
    assert got.status == 400 and json.load(got)["code"] in ("bad-destination", "bad-request")
    connection.close()


def test_methods_and_preflights(topic):
    got = call("POST", "/topics")
    assert (got.status_code, got.headers["Allow"]) == (405, "GET, HEAD, DELETE, OPTIONS")
    origin = {"Origin": BASE, "Access-Control-Request-Method": "PUT"}
    got = requests.options(f"{BASE}/topics/{topic}", headers=origin, timeout=WAIT)
    assert (got.status_code, got.headers["Access-Control-Allow-Origin"]) == (204, BASE)
    got = call("PUT", f"/topics/{topic}", b"x", Origin="https://evil.example")
    assert (got.status_code, got.json()["code"]) == (403, "origin-denied")
    assert call("GET", f"/topics/{topic}").status_code == 404


def test_a_value_that_ends_by_itself(topic):
    call("PUT", f"/topics/{topic}?ttl=1ms", b"x")
    call("PUT", f"/topics/{topic}-2?ttl=1h", b"x")
    assert call("GET", f"/topics/{topic}-2").status_code == 200
    assert call("GET", f"/topics/{topic}").status_code == 404


def test_a_batch():
    name = unique("batch")
    items = [
        {"topic": f"{name}/a", "value": {"x": [1, 2]}, "retain": True},
        {"topic": f"{name}/b", "text": "grüße 🌊", "retain": True, "contentType": "text/csv"},
        {"topic": f"{name}/c", "base64": "/wA=", "retain": True},
        {"topic": "a//b", "value": 1},
        {"queue": name, "value": None},
    ]
    got = call("POST", "/batch", json.dumps(items)).json()
    assert (got["accepted"], got["refused"]) == (4, 1)
    assert got["results"][3]["code"] == "bad-destination"
    assert call("GET", f"/topics/{name}/a").json() == {"x": [1, 2]}
    assert call("GET", f"/topics/{name}/b").content == "grüße 🌊".encode()
    assert call("GET", f"/topics/{name}/c").content == b"\xff\0"
    assert call("POST", "/batch", b"{}").status_code == 400
    assert call("POST", "/batch", json.dumps([1] * 1001)).status_code == 413


def test_a_batch_of_somebody_who_may_do_little():
    items = [{"topic": "open/x", "value": 1}, {"topic": "open/secret/x", "value": 1}]
    got = requests.post(f"{BASE}/batch", data=json.dumps(items), auth=LIMITED, timeout=WAIT).json()
    assert [row.get("code") for row in got["results"]] == [None, "not-authorised"]


def test_idempotency(listen, topic):
    stream = listen(f"topic={topic}")
    key = unique("key")
    with ThreadPoolExecutor(8) as pool:
        post = lambda _: call("POST", f"/topics/{topic}", b"once", Idempotency_Key=key)
        got = list(pool.map(post, range(8)))
    assert {one.status_code for one in got} <= {200, 409}
    assert sum("Idempotency-Replayed" not in one.headers for one in got if one.status_code == 200) == 1
    assert call("POST", f"/topics/{topic}", b"other", Idempotency_Key=key).status_code == 422
    call("POST", f"/topics/{topic}", b"last")
    assert stream.data(2) == ["once", "last"]


def test_durable_subscriptions(topic):
    name = unique("durable")
    about = {"topics": [f"{topic}/**", "gold"], "selector": "colour = 'red'"}
    assert call("PUT", f"/subscriptions/{name}", json.dumps(about)).json() == {}
    for colour in ("red", "blue", "red"):
        call("POST", f"/topics/{topic}/x", colour.encode(), Tiderace_Property_Colour=colour)
    shown = call("GET", f"/subscriptions/{name}").json()
    assert (shown["path"], shown["messages"], shown["topics"]) == (f"dsub/{name}", 2, f"{topic}/**,gold")
    messages = call("GET", f"/queues/dsub/{name}?messages").json()["messages"]
    assert {message["properties"]["source-topic"] for message in messages} == {f"{topic}/x"}
    listed, after = [], None
    while True:
        page = call("GET", f"/subscriptions?pattern={name}" + (f"&after={after}" if after else "")).json()
        listed += page["queues"]
        if not page["more"]:
            break
        after = page["next"]
    assert [queue["selector"] for queue in listed] == ["colour = 'red'"]
    assert call("DELETE", f"/subscriptions/{name}").status_code == 200
    assert call("DELETE", f"/subscriptions/{name}").json()["code"] == "queue-unknown"
    assert call("PUT", f"/subscriptions/{name}", b'{"topic":"x"}').status_code == 400
    denied = requests.put(
        f"{BASE}/subscriptions/{name}", json={"topics": "closed/**"}, auth=LIMITED, timeout=WAIT
    )
    assert (denied.status_code, denied.json()["code"]) == (403, "not-authorised")


def test_a_service_nobody_serves():
    got = call("POST", f"/services/{unique('service')}?timeout=1s", b"x")
    assert (got.status_code, got.json()["code"]) == (503, "no-responder")


def test_one_connection_for_many_requests(topic):
    with requests.Session() as session:
        session.headers.update(BEARER)
        for n in range(100):
            assert session.put(f"{BASE}/topics/{topic}/{n}", data=str(n), timeout=WAIT).status_code == 200
            assert session.get(f"{BASE}/topics/{topic}/{n}", timeout=WAIT).text == str(n)


def test_many_at_once(topic):
    def turn(n):
        call("PUT", f"/topics/{topic}/{n}", str(n))
        return call("GET", f"/topics/{topic}/{n}").text == str(n)

    with ThreadPoolExecutor(50) as pool:
        assert all(pool.map(turn, range(200)))


def test_a_value_is_told_only_if_it_is_the_wanted_one(topic):
    call("PUT", f"/topics/{topic}", b"one")
    tag = call("GET", f"/topics/{topic}").headers["ETag"]
    call("PUT", f"/topics/{topic}", b"two")
    for method in ("GET", "HEAD"):
        assert call(method, f"/topics/{topic}", If_Match=tag).status_code == 412
        assert call(method, f"/topics/{topic}", If_Match="*").status_code == 200
    now = call("GET", f"/topics/{topic}").headers["ETag"]
    assert call("GET", f"/topics/{topic}", If_Match=f"{tag}, {now}").text == "two"
    assert call("PUT", f"/topics/{topic}", b"three", If_Match=f"{tag}, {now}").status_code == 200
    assert call("PUT", f"/topics/{topic}", b"four", If_Match=f"{tag}, {now}").status_code == 412


def test_the_head_of_a_stream(topic):
    head = call("HEAD", f"/events?topic={topic}")
    assert (head.status_code, head.headers["Content-Type"], head.content) == (200, "text/event-stream", b"")


@pytest.mark.parametrize("accept", ["text/event-stream;q=0", "*/*;q=0", "text/html"])
def test_a_stream_does_not_come_in_an_unwanted_form(topic, accept):
    with requests.get(f"{BASE}/events?topic={topic}", headers=BEARER | {"Accept": accept}, stream=True, timeout=WAIT) as got:
        assert got.status_code == 406


def test_the_types_of_patches_are_named(topic):
    call("PUT", f"/topics/{topic}", b"{}", Content_Type="application/json")
    refused = call("PATCH", f"/topics/{topic}", b"x", Content_Type="text/plain")
    assert refused.status_code == 415
    assert "application/merge-patch+json" in refused.headers["Accept-Patch"]


@pytest.mark.parametrize("begin", [b"\r\nGET /livez", b"PROPFIND /livez", b"BREW /pot"])
def test_whatever_begins_as_a_request_is_answered_by_http(begin):
    host, port = BASE.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), WAIT) as one:
        one.sendall(begin + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = one.recv(100)
    assert answer.startswith(b"HTTP/1.1 "), answer
