"""Heart-beats: what CONNECTED announces, the MAX rule of both directions, and being cut off."""

import time

import pytest

from limits import HEART_BEAT_GRACE
from wire import LOGIN, PASSCODE, WAIT, encode


def numbers(connected):
    return tuple(int(n) for n in connected["heart-beat"].split(","))


def test_connected_announces_what_the_server_does_and_wants(dial):
    send, want = numbers(dial().login(heart_beat="1000,1000"))
    assert send > 0 and want > 0


def test_zero_means_no_heart_beats(dial):
    client = dial()
    client.login(heart_beat="0,0")
    client.ask("BEGIN", {"transaction": "t"})


def test_without_the_header_no_heart_beats_flow_towards_the_client(dial):
    client = dial()
    client.login()
    client.ask("BEGIN", {"transaction": "t"})
    assert client.beats <= 1


def test_a_1_0_client_sees_no_heart_beat_header(dial):
    assert dial().login("1.0").get("heart-beat") is None


def test_the_server_beats_at_the_slower_of_both_wishes(dial):
    """MAX(what the server can, what the client wants): three beats take at least two intervals."""
    client = dial()
    can, _ = numbers(client.login(heart_beat="0,300"))
    interval = max(can, 300) / 1000
    times = []
    start = time.monotonic()
    client.socket.settimeout(WAIT)
    while len(times) < 3:
        data = client.socket.recv(1024)
        assert data.strip(b"\r\n") == b"", data
        times.append(time.monotonic())
    assert times[0] - start <= interval * 3 + 5
    assert times[2] - start >= interval * 1.5, "beats came faster than agreed"


def test_a_silent_client_that_promised_heart_beats_is_cut(dial):
    client = dial()
    _, want = numbers(client.login(heart_beat="200,0"))
    start = time.monotonic()
    rest = client.drain(max(want, 200) / 1000 * 5 + 10)
    elapsed = time.monotonic() - start
    assert elapsed >= max(want, 200) / 1000, "cut before one interval had passed"
    assert rest.strip(b"\n") == b"" or b"code:heart-beat-timeout" in rest


def test_beating_keeps_the_connection(dial):
    """EOLs alone, sent on the server's own rhythm, keep a connection for longer than it may be silent."""
    client = dial()
    can, want = numbers(client.login(heart_beat="200,200"))
    interval = max(can, 200, want) / 1000
    until = time.monotonic() + interval * (HEART_BEAT_GRACE + 2)
    client.socket.settimeout(WAIT)
    while time.monotonic() < until:
        assert client.socket.recv(1024).strip(b"\r\n") == b""
        client.raw(b"\n")
    client.kept.clear()
    client.ask("BEGIN", {"transaction": "alive"})


def test_frames_count_as_heart_beats_too(dial):
    client = dial()
    can, want = numbers(client.login(heart_beat="200,200"))
    interval = max(can, 200, want) / 1000
    until = time.monotonic() + interval * (HEART_BEAT_GRACE + 2)
    client.socket.settimeout(WAIT)
    while time.monotonic() < until:
        client.socket.recv(1024)
        client.send("SEND", {"destination": "/topic/heart.beats"})
    client.ask("BEGIN", {"transaction": "alive"})


@pytest.mark.parametrize("value", ["", "1", "a,b", "-1,0", "1,2,3"])
def test_a_malformed_heart_beat_header_is_an_error(dial, value):
    client = dial()
    fields = {"accept-version": "1.2", "host": "localhost", "login": LOGIN, "passcode": PASSCODE, "heart-beat": value}
    client.raw(encode("CONNECT", fields))
    assert client.error()["code"] == "bad-header"
