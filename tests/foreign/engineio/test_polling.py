"""Long polling: payloads of both revisions, overlaps, heartbeats, ends."""

import base64
import json
import select
import time
import urllib.parse

import pytest

from conftest import TOKEN, WAIT, Client


def test_messages_both_ways(client, topic):
    client.connect()
    assert client.post(f'420["subscribe","{topic}"]\x1e421["publish","{topic}","grüße 🌊"]').text == "ok"
    got = sorted(client.next() for _ in range(3))
    assert got[0].startswith(f'42["message","{topic}","grüße 🌊"')
    assert [packet[:4] for packet in got[1:]] == ["430[", "431["]


def test_binary_is_base64(client, topic):
    client.connect()
    client.post(f'420["subscribe","{topic}"]')
    client.next()
    data = base64.b64encode(bytes(range(256))).decode()
    client.post(f'451-["publish","{topic}",{{"_placeholder":true,"num":0}}]\x1eb{data}')
    assert client.next().startswith("451-")
    assert client.next() == "b" + data


def test_a_second_poll_ends_the_session(client):
    client.connect()
    # Either may be the first to arrive.
    polls, answers = [client.begin(), client.begin()], []
    deadline = time.monotonic() + WAIT
    while polls:
        assert time.monotonic() < deadline, "both are held"
        ready, _, _ = select.select([poll.sock for poll in polls], [], [], WAIT)
        poll = next(poll for poll in polls if poll.sock in ready)
        polls.remove(poll)
        answer = client.end(poll)
        # A ping may have been the answer of one before the other came; then it is held again.
        if answer.text == "2" and client.post("3").text == "ok":
            polls.append(client.begin())
        else:
            answers.append(answer)
    refused = [answer for answer in answers if answer.status == 400]
    assert len(refused) == 1, answers
    assert all(answer.text in ("1", "6", "2") for answer in answers if answer.status == 200)
    assert client.is_gone()


def test_overlapping_posts_are_taken_in_order(client, topic):
    client.connect()
    client.post(f'420["subscribe","{topic}"]')
    client.next()
    posts = [client.begin("POST", f'42["publish","{topic}",{n}]'.encode()) for n in range(5)]
    answers = [client.end(post) for post in posts]
    assert all(answer.status in (200, 400) for answer in answers)


@pytest.mark.parametrize(
    "payload",
    ["", "x", "9", "7", "0", "0{}", "\x1e", "4a\x1e", "5", "2probe", "6x\x1e\x1e", "b!!!", "b", "\x00", "-1", "é"],
)
def test_payloads_that_are_none(client, payload):
    client.connect()
    got = client.post(payload)
    assert got.status in (200, 400), got.body
    assert client.is_gone()


def test_invalid_utf8(client):
    client.connect()
    assert client.post(b"4\xff\xfe").status == 400
    assert client.is_gone()


def test_binary_bodies_are_not_for_revision_4(client):
    client.connect()
    assert client.post(b"4x", "application/octet-stream").status == 400
    assert client.is_gone()


def test_a_body_above_the_limit(client):
    client.connect()
    assert client.post("4" + "x" * 1_000_000).status == 413


def test_too_many_packets(client):
    client.connect()
    got = client.post("\x1e".join(["6"] * 10_001))
    assert got.status == 400


def test_a_poll_that_is_given_up_ends_the_session(client):
    client.connect()
    client.begin().close()
    # The session ends at once or, if the poll had been answered by a heartbeat, when it falls silent.
    got = client.ask()
    assert got.status in (200, 400)


def test_close_from_the_client(client):
    client.connect()
    poll = client.begin()
    assert client.post("1").text == "ok"
    got = client.end(poll)
    # The two came by connections of their own, so the second may have been handled first; or a ping was there before it.
    assert got.text in ("6", "1", "2") or (got.status == 400 and "Session ID unknown" in got.text)
    assert client.is_gone()


def test_the_server_pings_and_wants_an_answer(client):
    client.connect()
    # The first may have come with what was the answer to CONNECT.
    for _ in range(3):
        assert client.packet() == "2"
        assert client.post("3").text == "ok"
    assert client.packet() == "2"
    # No answer: the next poll ends with the session.
    got = client.ask()
    assert got.status == 400 or got.text in ("1", "6")
    assert client.is_gone()


def test_a_ping_of_a_revision_4_client_is_a_mistake(client):
    client.connect()
    client.post("2")
    assert client.is_gone()


def test_any_connection_carries_any_request(topic):
    # Each request is a connection of its own; the server has two shards.
    clients = [Client(4) for _ in range(8)]
    for one in clients:
        one.connect()
        one.post(f'420["subscribe","{topic}"]')
        one.next()
    for n in range(8):
        clients[n].post(f'42["publish","{topic}",{n}]')
    heard = [[json.loads(one.next()[2:])[2] for _ in range(8)] for one in clients]
    assert all(one == heard[0] for one in heard) and sorted(heard[0]) == list(range(8))


# Revision 3


def test_lengths_are_utf16(old, topic):
    old.connect()
    assert old.post(old.payload(f'420["subscribe","{topic}"]', f'421["publish","{topic}","h€ 🌊🌊"]')).text == "ok"
    got = sorted(old.next() for _ in range(3))
    assert got[0].startswith(f'42["message","{topic}","h€ 🌊🌊"')


def test_connects_at_once(old):
    handshake = old.open()
    assert handshake["sid"]
    assert (old.waiting or [old.next()])[0] == "40"


def test_the_client_pings(old):
    old.connect()
    for data in ["", "probe", "x" * 100]:
        old.post(old.payload("2" + data))
        assert old.next() == "3" + data


def test_a_silent_client_of_revision_3_ends(old):
    old.connect()
    got = old.ask()
    assert got.status == 400 or old.packets(got.text) in (["1"], ["6"])
    assert old.is_gone()


@pytest.mark.parametrize("payload", ["", "x", "4:4x", "-1:4", "3:4x", "99999999999999999999:4", "1:9", ":4", "2:4x3:"])
def test_old_payloads_that_are_none(old, payload):
    old.connect()
    got = old.post(payload)
    assert got.status in (200, 400)
    assert old.is_gone()


def test_base64_in_text_payloads(old, topic):
    old.connect()
    old.post(old.payload(f'420["subscribe","{topic}"]'))
    old.next()
    data = base64.b64encode(bytes(range(256))).decode()
    old.post(old.payload(f'451-["publish","{topic}",{{"_placeholder":true,"num":0}}]', "b4" + data))
    assert old.next().startswith("451-")
    assert old.next() == "b4" + data


def binary(*packets):
    """Packets as revision 3 writes them in binary: kind, digits, 255, data."""
    out = b""
    for packet in packets:
        data = packet.encode() if isinstance(packet, str) else packet
        out += bytes([isinstance(packet, bytes)]) + bytes(map(int, str(len(data)))) + b"\xff" + data
    return out


def unbinary(data):
    found = []
    while data:
        end = data.index(255)
        length = int("".join(map(str, data[1:end])))
        piece = data[end + 1 : end + 1 + length]
        found.append(piece if data[0] else piece.decode())
        data = data[end + 1 + length :]
    return found


def test_binary_payloads(topic):
    client = Client(3, f"token={TOKEN}")
    client.sid = json.loads(client.ask().text.partition(":")[2].partition("}")[0][1:] + "}")["sid"]
    found = []

    def until(count):
        while len(found) < count:
            got = client.ask()
            is_binary = got.headers["content-type"] == "application/octet-stream"
            found.extend(unbinary(got.body) if is_binary else client.packets(got.text))
        return [found.pop(0) for _ in range(count)]

    data = bytes(range(256))
    message = f'451-["publish","{topic}",{{"_placeholder":true,"num":0}}]'
    first = until(1)
    if first == ["40"]:
        first = []
    got = client.post(binary(f'420["subscribe","{topic}"]', message, b"\4" + data), "application/octet-stream")
    assert got.text == "ok"
    packets = until(3)
    assert any(isinstance(one, bytes) and one == b"\4" + data for one in packets), packets


def test_jsonp(topic):
    client = Client(3, f"token={TOKEN}&j=7")
    got = client.ask()
    assert got.headers["content-type"].lower().startswith("text/javascript")
    assert got.text.startswith('___eio[7]("') and got.text.endswith('");')
    payload = json.loads(got.text[len("___eio[7](") : -2])
    packets = client.packets(payload)
    client.sid = json.loads(packets[0][1:])["sid"]
    seen = packets[1:]
    # Who speaks before its login is decided is not heard.
    while "40" not in seen:
        seen += client.packets(json.loads(client.ask().text[len("___eio[7](") : -2]))
    # Scripts escape what would be taken for the line breaks that forms mangle.
    payload = client.payload('420["subscribe","%s"]' % topic, '42["publish","%s","a\\nb"]' % topic)
    body = "d=" + urllib.parse.quote(payload.replace("\\n", "\\\\n"))
    got = client.ask("POST", body.encode(), {"Content-Type": "application/x-www-form-urlencoded"})
    assert (got.status, got.text) == (200, "ok")
    while not any(packet.startswith("42[") for packet in seen):
        text = client.ask().text
        seen += client.packets(json.loads(text[len("___eio[7](") : -2]))


@pytest.mark.parametrize("index", ["", "x", "-1", "1e9", "7);alert(1", "%22"])
def test_a_jsonp_index_is_a_number(index):
    got = Client(3, f"token={TOKEN}&j={index}").ask()
    assert got.status == 400 or b"alert" not in got.body and got.body[:8] == b"___eio[" + got.body[7:8]
