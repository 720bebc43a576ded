"""Handshakes, and requests that are none."""

import json

import pytest

from conftest import PATH, Client, socket_of


@pytest.mark.parametrize("revision", [4, 3])
def test_the_open_packet(revision):
    handshake = Client(revision, "b64=1" if revision == 3 else "").open()
    assert handshake["upgrades"] == ["websocket"]
    assert (handshake["pingInterval"], handshake["pingTimeout"]) == (1000, 4000)
    assert len(handshake["sid"]) >= 20
    if revision == 4:
        assert handshake["maxPayload"] == 1_000_000


def test_the_fields_of_answers(client):
    got = client.ask()
    assert got.status == 200 and got.headers["content-type"].lower().startswith("text/plain; charset=utf-8")
    assert "set-cookie" not in got.headers
    client.sid = json.loads(got.text[1:])["sid"]
    taken = client.post('40{"token":"x"}')
    assert (taken.status, taken.text, taken.headers["content-length"]) == (200, "ok", "2")
    assert taken.headers["content-type"] == "text/html"


def test_ids_are_not_given_twice():
    ids = {Client(4).open()["sid"] for _ in range(100)}
    assert len(ids) == 100


@pytest.mark.parametrize("path", ["/socket.io", "/socket.io/"])
def test_the_last_slash_is_optional(path, client, monkeypatch):
    monkeypatch.setattr("conftest.PATH", path)
    client.open()


@pytest.mark.parametrize(
    "changes, method, status, code",
    [
        ({"EIO": None}, "GET", 400, 5),
        ({"EIO": "5"}, "GET", 400, 5),
        ({"EIO": "4x"}, "GET", 400, 5),
        ({"EIO": ""}, "GET", 400, 5),
        ({"EIO": "-1"}, "GET", 400, 5),
        ({"transport": None}, "GET", 400, 0),
        ({"transport": "carrier"}, "GET", 400, 0),
        ({"transport": "__proto__"}, "GET", 400, 0),
        ({"transport": "constructor"}, "GET", 400, 0),
        ({"transport": "websocket"}, "GET", 400, 3),
        ({}, "POST", 400, 2),
        ({}, "PUT", 400, 2),
        ({}, "DELETE", 400, 2),
        ({"sid": "abc"}, "GET", 400, 1),
        ({"sid": "abc"}, "POST", 400, 1),
        ({"sid": "__proto__"}, "GET", 400, 1),
        ({"sid": "A" * 36}, "GET", 400, 1),
        ({"sid": "%00%ff"}, "GET", 400, 1),
        ({"sid": "x" * 5000}, "GET", 400, 1),
    ],
)
def test_bad_requests(client, changes, method, status, code):
    got = client.ask(method, b"4x" if method == "POST" else None, **changes)
    assert (got.status, got.code) == (status, code)


def test_the_secret_in_an_id_counts(client):
    client.open()
    for at in (len(client.sid) - 1, len(client.sid) // 2):
        other = "A" if client.sid[at] != "A" else "B"
        forged = client.sid[:at] + other + client.sid[at + 1 :]
        assert client.ask(sid=forged).status == 400
    assert client.post('40{"token":"x"}').status == 200


def test_other_keys_of_the_query_are_tolerated(client):
    client.extra = "t=abc&token=x&token=y&=&&empty"
    client.open()


@pytest.mark.parametrize("sid", ["abc", "__proto__"])
def test_a_websocket_for_nobody(sid):
    websocket = socket_of(f"EIO=4&transport=websocket&sid={sid}")
    assert websocket.status == 400
    websocket.close()


@pytest.mark.parametrize("query", ["transport=websocket", "EIO=5&transport=websocket", "EIO=4&transport=polling", "EIO=4"])
def test_a_websocket_handshake_that_is_wrong(query):
    websocket = socket_of(query)
    assert websocket.status == 400
    websocket.close()


def test_pages_of_other_origins(client):
    got = client.ask(headers={"Origin": "https://evil.example"})
    assert (got.status, got.code) == (403, "origin-denied")
    assert "`https://evil.example`" in got.text and "server.origins" in got.text
    assert got.headers["access-control-allow-origin"] == "https://evil.example"
    host, port = client.begin().host, client.begin().port
    own = f"http://{host}:{port}"
    got = client.ask(headers={"Origin": own})
    assert (got.status, got.headers["access-control-allow-origin"]) == (200, own)
    fields = {"Origin": own, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-a"}
    got = client.ask("OPTIONS", headers=fields)
    assert (got.status, got.headers["access-control-allow-headers"]) == (204, "x-a")
    for bad in ["null", "\x80\x81", "http://" + "x" * 3000]:
        assert client.ask(headers={"Origin": bad.encode("latin-1")}).status in (400, 403), bad


def test_the_path_is_exact():
    assert PATH == "/socket.io/"
