"""Apollo's own STOMP scenarios where the bytes are the point, or where the client misbehaves.

After the names of ActiveMQ Apollo's tests (StompParallelTest, StompSecurityTest, StompCustomSecurityTest,
DeadLetterQueueLoadTest); those that a library can hold are in python/test_apollo.py, those over TLS in tls. Its
refusal of unknown virtual hosts has no place here: a server is one.
"""

import socket

import pytest

from wire import LIMITED, LIMITED_PASSCODE, LOGIN, PASSCODE, WAIT, encode, unique

CREDENTIALS = f"login:{LOGIN}\npasscode:{PASSCODE}\n"


def connect(client, text):
    client.raw(text.encode() + b"\0")
    return client.frame()


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_connect(dial, version):
    connected = dial().login(version)
    assert connected["session"] and connected.get("version", "1.0") == version


def test_connect_by_the_stomp_action(dial):
    connected = connect(dial(), f"STOMP\naccept-version:1.0,1.1\nhost:localhost\n{CREDENTIALS}\n")
    assert (connected.command, connected["version"]) == ("CONNECTED", "1.1")
    assert connected["session"]


def test_connect_falls_back_to_a_version_that_both_know(dial):
    connected = connect(dial(), f"CONNECT\naccept-version:1.0,10.0\nhost:localhost\n{CREDENTIALS}\n")
    assert (connected.command, connected.get("version", "1.0")) == ("CONNECTED", "1.0")
    assert connected["session"]


def test_connect_without_a_version_that_both_know(dial):
    client = dial()
    client.raw(f"CONNECT\naccept-version:9.0,10.0\nhost:localhost\n{CREDENTIALS}\n\0".encode())
    error = client.error()
    assert error["version"] and error["message"]


def test_the_broker_sends_heart_beats(dial):
    client = dial()
    connected = connect(client, f"CONNECT\naccept-version:1.1\nhost:localhost\nheart-beat:0,300\n{CREDENTIALS}\n")
    assert connected["heart-beat"]
    client.socket.settimeout(WAIT)
    seen = bytes(client.buffer)
    while len(seen) < 4:
        seen += client.socket.recv(1)
    assert set(seen) == {ord("\n")}


def test_the_broker_ends_a_connection_that_is_idle(dial):
    client = dial()
    connect(client, f"CONNECT\naccept-version:1.1\nhost:localhost\nheart-beat:200,0\n{CREDENTIALS}\n")
    assert client.error()["code"] == "heart-beat-timeout"


def test_sending_as_a_telnet_client(dial):
    client = dial()
    for line in ("CONNECT", "accept-version:1.2", *CREDENTIALS.split(), "", "\0"):
        client.raw(f"{line}\r\n".encode())
    connected = client.frame()
    assert connected.command == "CONNECTED" and connected["session"]
    client.version = "1.2"
    client.raw(b"SUBSCRIBE\r\nid:0\r\ndestination:/queue/somedest\r\nreceipt:0\r\n\r\n\0\r\n")
    client.receipt("0")


def test_an_empty_line_after_the_headers_of_connect(dial):
    """STOMP 1.0 says nothing of bodies of CONNECT: old clients send a line end too many."""
    connected = connect(dial(), f"CONNECT\n{CREDENTIALS}\n\n")
    assert connected.command == "CONNECTED"


def test_an_empty_header_name(client):
    """APLO-349."""
    client.raw(b"SUBSCRIBE\ndestination:/queue/APLO-349\nid:0\n:invalid header\n\n\0")
    assert client.error()["code"] == "bad-header"


def test_odd_reply_to_headers_do_not_cause_errors(client, queue):
    client.publish(queue, "", reply_to="sms:8139993334444")
    client.subscribe(queue)
    assert client.message()["reply-to"] == "sms:8139993334444"


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("separator", [".", "/"])
def test_a_trailing_separator_is_dropped(dial, version, separator):
    """Apollo's paths end before it, so clients that add one reach the same queue."""
    name = unique("trailing")
    client = dial()
    client.login(version)
    client.ask("SEND", {"destination": f"/queue/{name}{separator}"}, "x")
    client.ask("SUBSCRIBE", {"id": "0", "destination": f"/queue/{name}"})
    assert client.message().text == "x"


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_temporary_destinations(clients, kind):
    owner, other, late = clients(3)
    box = f"/temp-{kind}/test"
    owner.subscribe(box, id="mine")
    owner.publish(box, "1", reply_to=box)
    message = owner.message()
    address = message["reply-to"]
    assert message.text == "1" and address.startswith(f"/{kind}/temp.")
    other.publish(address, "2")
    message = owner.message()
    assert (message.text, message["subscription"]) == ("2", "mine")
    other.send("SUBSCRIBE", {"id": "1", "destination": address, "receipt": "0"})
    assert other.error()["code"] in ("not-owner", "not-authorised")
    # It is gone with its owner: nothing that is sent there comes to the same name of another session.
    owner.ask("DISCONNECT")
    late.subscribe(box)
    late.publish(box, "mine alone")
    assert late.message().text == "mine alone"


def test_persistent_messages_of_queues_are_refused_not_forgotten(client, queue):
    """Apollo keeps them; without a store queues live in memory here, and say so."""
    client.send("SEND", {"destination": queue, "persistent": "true", "receipt": "r"}, "x")
    error = client.error()
    assert (error["code"], error["receipt-id"]) == ("no-store", "r")


@pytest.mark.parametrize("number", range(4))
def test_a_load_of_refusals(clients, number):
    """DeadLetterQueueLoadTest: each message is refused twice and comes to the dead letters, in order."""
    name = unique(f"load{number}")
    consumer, dead = clients(2)
    consumer.subscribe(f"/queue/nacker.{name}", ack="client")
    dead.subscribe(f"/queue/dlq.nacker.{name}", ack="client")
    for n in range(100):
        consumer.send("SEND", {"destination": f"/queue/nacker.{name}"}, str(n))
        for _ in range(2):
            message = consumer.message()
            assert message.text == str(n)
            consumer.send("NACK", {"id": message["ack"]})
        letter = dead.message()
        assert letter.text == str(n)
        dead.send("ACK", {"id": letter["ack"]})


def test_a_producer_that_does_not_read_its_receipts(client, topic):
    """APLO-315: it is made to wait, and when it reads again every receipt comes, in order."""
    # Long ids, so that few thousands of them fill what waits on the way.
    receipt = "r" * 4000
    sent, rest = 0, b""
    client.socket.settimeout(1)
    try:
        while sent < 100_000:
            rest = encode("SEND", {"destination": topic, "receipt": f"{sent}-{receipt}"}, "x")
            done = 0
            while done < len(rest):
                done += client.socket.send(rest[done:])
            sent, rest = sent + 1, b""
    except socket.timeout:
        rest = rest[done:]
    assert sent < 100_000, "400 MB of receipts were taken without one being read"
    for n in range(sent):
        assert client.receipt(f"{n}-{receipt}")
    client.raw(rest)
    if rest:
        client.receipt(f"{sent}-{receipt}")


# StompSecurityTest: the user `limited` of tiderace.toml


@pytest.fixture
def limited(dial):
    client = dial()
    client.login("1.1", LIMITED, LIMITED_PASSCODE)
    return client


@pytest.mark.parametrize("headers", ["", "login:foo\npasscode:bar\n"])
def test_connect_with_no_or_wrong_credentials(dial, headers):
    client = dial()
    client.raw(f"CONNECT\naccept-version:1.1\nhost:localhost\n{headers}\n\0".encode())
    assert client.error()["code"] == ("login-failed" if headers else "login-required")


def test_connect_with_right_credentials(limited):
    assert limited.version == "1.1"


@pytest.mark.parametrize(
    "command, destination",
    [
        ("SEND", "/queue/secure.a"),
        ("SUBSCRIBE", "/queue/secure.a"),
        ("SEND", "/queue/readable.a"),
        ("SEND", "/topic/secure.a"),
        ("SUBSCRIBE", "/topic/secure.a"),
        ("SEND", "/queue/user.tide"),
        ("SUBSCRIBE", "/queue/user.tide"),
    ],
)
def test_what_is_not_authorised(limited, command, destination):
    limited.send(command, {"id": "0", "destination": destination, "receipt": "0"}, "Hello" if command == "SEND" else "")
    error = limited.error()
    assert (error["code"], error["receipt-id"]) == ("not-authorised", "0")


def test_what_is_authorised_by_a_pattern(limited):
    queue = f"/queue/open.{unique()}"
    limited.publish(queue, "Hello")
    limited.subscribe(queue)
    assert limited.message().text == "Hello"


def test_consuming_alone_can_be_authorised(limited, client):
    queue = f"/queue/readable.{unique()}"
    client.publish(queue, "Hello")
    limited.subscribe(queue)
    assert limited.message().text == "Hello"


def test_a_users_own_destinations(limited, client):
    """Nobody else listens there, whatever the rules allow."""
    topic = f"/topic/user.{LIMITED}.{unique()}"
    limited.subscribe(topic)
    client.publish(topic, "Hello")
    assert limited.message().text == "Hello"
    client.send("SUBSCRIBE", {"id": "0", "destination": topic, "receipt": "0"})
    assert client.error()["code"] == "not-authorised"
