"""WebSocket from the start, and upgrades from polling."""

import base64
import json

import pytest

from conftest import TOKEN, Client, next_of, socket_of

BINARY = 2


def connected(revision):
    websocket = socket_of(f"EIO={revision}&transport=websocket&token={TOKEN}")
    assert websocket.status == 101
    handshake = json.loads(next_of(websocket)[1:])
    if revision == 4:
        websocket.send('40{"token":"%s"}' % TOKEN)
    assert next_of(websocket).startswith("40")
    return websocket, handshake


@pytest.mark.parametrize("revision", [4, 3])
def test_from_the_start(revision, topic):
    websocket, handshake = connected(revision)
    assert handshake["upgrades"] == []
    websocket.send(f'420["subscribe","{topic}"]')
    assert next_of(websocket).startswith("430")
    data = bytes(range(256))
    websocket.send(f'451-["publish","{topic}",{{"_placeholder":true,"num":0}}]')
    websocket.send((b"\4" if revision == 3 else b"") + data, BINARY)
    assert next_of(websocket).startswith("451-")
    assert next_of(websocket) == (b"\4" if revision == 3 else b"") + data
    websocket.close()


def test_the_server_pings_revision_4():
    websocket, _ = connected(4)
    for _ in range(3):
        assert next_of(websocket, skip=()) == "2"
        websocket.send("3")
    assert next_of(websocket, skip=()) == "2"
    assert next_of(websocket, skip=()) in (None, "1")


def test_the_client_pings_in_revision_3():
    websocket, _ = connected(3)
    for data in ["", "probe", "🌊"]:
        websocket.send("2" + data)
        assert next_of(websocket, skip=()) == "3" + data
    assert next_of(websocket, skip=()) in (None, "1")


@pytest.mark.parametrize("revision", [4, 3])
@pytest.mark.parametrize("packet", ["", "9", "x", "0", "0{}"])
def test_packets_that_are_none(revision, packet):
    websocket, _ = connected(revision)
    websocket.send(packet)
    while next_of(websocket) is not None:
        pass


@pytest.mark.parametrize("revision", [4, 3])
def test_close_from_the_client(revision):
    websocket, _ = connected(revision)
    websocket.send("1")
    while next_of(websocket) is not None:
        pass


@pytest.mark.parametrize("revision", [4, 3])
def test_an_upgrade(revision, topic):
    client = Client(revision, f"token={TOKEN}" + ("&b64=1" if revision == 3 else ""))
    client.connect()
    client.post(client.payload(f'420["subscribe","{topic}"]'))
    client.next()
    poll = client.begin()
    websocket = client.upgrade()
    assert websocket.status == 101
    websocket.send("2probe")
    assert next_of(websocket, skip=()) == "3probe"
    # The poll is let go so that nothing is under way on the old transport.
    packets = client.packets(client.end(poll).text)
    assert packets and set(packets) <= {"6", "2"}
    other = Client(4)
    other.connect()
    other.post(f'42["publish","{topic}","meanwhile"]')
    websocket.send("5")
    if "2" in packets:
        websocket.send("3")
    text = next_of(websocket)
    assert text.startswith(f'42["message","{topic}","meanwhile"')
    websocket.send(f'42["publish","{topic}","later"]')
    assert "later" in next_of(websocket)
    # Polling is over for this session.
    assert client.ask().status == 400
    assert client.post(client.payload("4x")).status == 400
    websocket.send(f'42["publish","{topic}","still here"]')
    assert "still here" in next_of(websocket)
    websocket.close()


@pytest.mark.parametrize("first", ["", "x", "5", "2", "3probe", "2probed", "40", "1"])
def test_an_upgrade_that_begins_wrong(client, first, topic):
    client.connect()
    websocket = client.upgrade()
    websocket.send(first)
    assert next_of(websocket, skip=()) is None
    client.post(f'420["subscribe","{topic}"]')
    assert client.next().startswith("430")


def test_an_upgrade_that_is_not_finished(client, topic):
    client.connect()
    websocket = client.upgrade()
    websocket.send("2probe")
    assert next_of(websocket, skip=()) == "3probe"
    assert next_of(websocket, skip=()) is None
    client.post(f'420["subscribe","{topic}"]')
    assert client.next().startswith("430")


def test_an_upgrade_that_is_cut(client, topic):
    client.connect()
    websocket = client.upgrade()
    websocket.send("2probe")
    assert next_of(websocket, skip=()) == "3probe"
    websocket.close()
    client.post(f'420["subscribe","{topic}"]')
    assert client.next().startswith("430")


def test_a_second_upgrade_is_closed(client, topic):
    client.connect()
    first = client.upgrade()
    first.send("2probe")
    assert next_of(first, skip=()) == "3probe"
    poll = client.begin()
    client.end(poll)
    first.send("5")
    first.send(f'420["subscribe","{topic}"]')
    while not (got := next_of(first)).startswith("430"):
        assert got in ("6",), got
    second = client.upgrade()
    if second.status == 101:
        second.send("2probe")
        assert next_of(second, skip=()) is None
    first.send(f'421["publish","{topic}",1]')
    assert next_of(first)[:2] in ("43", "42")
    first.close()


def test_base64_on_a_websocket(topic):
    websocket = socket_of(f"EIO=4&transport=websocket&b64=1&token={TOKEN}")
    assert next_of(websocket)[0] == "0"
    websocket.send('40{"token":"%s"}' % TOKEN)
    next_of(websocket)
    websocket.send(f'420["subscribe","{topic}"]')
    next_of(websocket)
    data = base64.b64encode(b"\0\xff").decode()
    websocket.send(f'451-["publish","{topic}",{{"_placeholder":true,"num":0}}]')
    websocket.send("b" + data)
    assert next_of(websocket).startswith("451-")
    assert next_of(websocket) == "b" + data
    websocket.close()


def test_a_message_above_the_limit():
    websocket, _ = connected(4)
    try:
        websocket.send("4" + "x" * 1_100_000)
    except OSError:
        return
    while next_of(websocket) is not None:
        pass
