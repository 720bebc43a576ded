"""Connecting: versions, the STOMP command, heart-beat header, CONNECTED, DISCONNECT, login."""

import pytest

from wire import LIMITED, LIMITED_PASSCODE, LOGIN, PASSCODE, encode


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_the_version_asked_for_is_the_version_spoken(dial, version):
    assert dial().login(version)["version"] == version


@pytest.mark.parametrize(
    "offered, spoken",
    [("1.0,1.1,1.2", "1.2"), ("1.2,1.1,1.0", "1.2"), ("1.0,1.1", "1.1"), ("1.0,1.1,9.7", "1.1"), ("1.0", "1.0")],
)
def test_the_highest_common_version_wins(dial, offered, spoken):
    connected = dial().login(offered)
    assert connected.get("version", "1.0") == spoken


def test_no_accept_version_means_1_0(dial):
    client = dial()
    connected = client.login("1.0")
    assert connected.get("version", "1.0") == "1.0"
    assert connected["session"]


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_the_stomp_command_is_a_connect(dial, version):
    assert dial().login(version, command="STOMP").command == "CONNECTED"


def test_connected_names_server_and_session(client, dial):
    other = dial().login()
    again = dial().login()
    assert other["server"].lower().startswith("tiderace")
    assert other["session"] and other["session"] != again["session"]


def test_an_unsupported_version_is_told_which_are_supported(dial):
    client = dial()
    client.raw(encode("CONNECT", {"accept-version": "2.0,3.1", "host": "localhost"}))
    error = client.error()
    assert error["code"] == "unsupported-version"
    assert {"1.0", "1.1", "1.2"} <= set(error["version"].split(","))


def test_eols_before_connect_are_skipped(dial):
    client = dial()
    client.raw(b"\n\r\n\n")
    assert client.login()["version"] == "1.2"


def test_connect_may_have_a_body_only_if_it_may_be_1_0(dial):
    """A newline too many, as RabbitMQ's own suite connects."""
    client = dial()
    client.raw(encode("CONNECT", {"login": LOGIN, "passcode": PASSCODE}, "\n"))
    assert client.frame().command == "CONNECTED"
    client = dial()
    fields = {"accept-version": "1.2", "host": "localhost", "login": LOGIN, "passcode": PASSCODE}
    client.raw(encode("CONNECT", fields, "\n"))
    assert client.error()["code"] == "bad-frame"


def test_connect_may_come_byte_by_byte(dial):
    client = dial()
    fields = {"accept-version": "1.2", "host": "localhost", "login": LOGIN, "passcode": PASSCODE}
    for byte in encode("CONNECT", fields):
        client.raw(bytes([byte]))
    assert client.frame().command == "CONNECTED"


def test_frames_may_follow_connect_in_the_same_segment(dial):
    client = dial()
    fields = {"accept-version": "1.2", "host": "localhost", "login": LOGIN, "passcode": PASSCODE}
    client.raw(encode("CONNECT", fields) + encode("BEGIN", {"transaction": "t", "receipt": "early"}))
    assert client.frame().command == "CONNECTED"
    client.receipt("early")


def test_disconnect_answers_its_receipt_then_closes(client):
    client.send("DISCONNECT", {"receipt": "bye"})
    assert client.receipt("bye")["receipt-id"] == "bye"
    client.closed()


def test_disconnect_without_receipt_closes(client):
    client.send("DISCONNECT")
    client.closed()


def test_the_receipt_of_disconnect_means_everything_before_it_was_handled(clients, queue):
    producer, consumer = clients(2)
    for n in range(50):
        producer.send("SEND", {"destination": queue}, str(n))
    producer.send("DISCONNECT", {"receipt": "all"})
    producer.receipt("all")
    consumer.subscribe(queue)
    assert [m.text for m in consumer.messages(50)] == [str(n) for n in range(50)]


@pytest.mark.parametrize("login, passcode", [(LOGIN, "wrong"), ("nobody", "x"), (LOGIN, "")])
def test_wrong_credentials_are_refused_without_saying_which_part_was_wrong(dial, login, passcode):
    client = dial()
    fields = {"accept-version": "1.2", "host": "localhost", "login": login, "passcode": passcode}
    client.raw(encode("CONNECT", fields))
    error = client.error()
    assert error["code"] == "login-failed"
    told = (error["message"] + error.text).lower()
    assert "no such user" not in told and "unknown user" not in told


@pytest.mark.parametrize("headers", [{}, {"login": "", "passcode": ""}])
def test_a_login_is_required_where_users_are_configured(dial, headers):
    client = dial()
    client.raw(encode("CONNECT", {"accept-version": "1.2", "host": "localhost"} | headers))
    assert client.error()["code"] in ("login-required", "login-failed")


def test_two_users_live_side_by_side(dial):
    assert dial().login(login=LIMITED, passcode=LIMITED_PASSCODE).command == "CONNECTED"
    assert dial().login().command == "CONNECTED"
