"""The confirmed defects of ActiveMQ Apollo 1.7.1, each as the behaviour a successor owes.

Those of STOMP and of this server's present features; each test fails against Apollo itself.
"""

import re
import time

import pytest

from wire import encode


def test_undefined_escapes_are_fatal(client, topic):
    """Apollo accepts `\\t` and passes it on, against STOMP 1.2 "Value Encoding"."""
    client.raw(f"SEND\ndestination:{topic}\nodd:a\\tb\nreceipt:r\n\n\0".encode())
    assert client.error()["code"] == "bad-header"


def test_error_carries_receipt_id_and_content_length(client):
    """Apollo's ERROR has neither."""
    client.send("SEND", {"destination": "/nowhere/x", "receipt": "r"})
    error = client.error()
    assert error["receipt-id"] == "r"
    assert int(error["content-length"]) == len(error.body)


def test_the_connection_ends_at_once_after_error(client):
    """Apollo lingers five seconds."""
    client.send("JUMP")
    error = client.frame()
    told = time.monotonic()
    assert error.command == "ERROR"
    client.closed()
    assert time.monotonic() - told < 4


def test_commit_of_an_unknown_transaction_is_a_plain_error(client):
    """Apollo: "Internal Server Error … IllegalFormatConversionException"."""
    client.send("COMMIT", {"transaction": "nope"})
    error = client.error()
    assert error["code"] == "unknown-transaction"
    assert "internal" not in error["message"].lower()


@pytest.mark.parametrize("destination", ["/topic/", "x", "/queue/a..b", "/topic/a,,/topic/b", "", "/topic/a\tb"])
def test_a_bad_destination_shows_no_inner_names(client, destination):
    """Apollo shows class names such as PathParser$PathException."""
    client.send("SEND", {"destination": destination})
    error = client.error()
    assert error["code"] == "bad-destination"
    assert not re.search(r"\w+\.\w+\.\w+\$|Exception|::|\.rs", error["message"] + error.text)


@pytest.mark.parametrize("command", ["SEND", "ACK", "NACK"])
def test_an_unknown_transaction_is_not_opened_silently(client, queue, command):
    """Apollo opens it, so the message is lost with no error."""
    client.subscribe(queue, ack="client-individual")
    client.publish(queue, "1")
    id = client.message()["ack"]
    headers = {"destination": queue} if command == "SEND" else {"id": id}
    client.send(command, headers | {"transaction": "never-begun", "receipt": "r"})
    error = client.error()
    assert (error["code"], error["receipt-id"]) == ("unknown-transaction", "r")


def test_retain_true_retains(clients, topic):
    """Documented by Apollo, but only `retain:set` worked; `true` was ignored silently."""
    producer, consumer = clients(2)
    producer.publish(topic, "kept", retain="true")
    consumer.subscribe(topic)
    assert consumer.message().text == "kept"


def test_the_producers_receipt_is_not_passed_on(client, topic):
    client.subscribe(topic)
    client.publish(topic, "x")
    assert client.message().get("receipt") is None


@pytest.mark.parametrize("header", ["transaction", "retain", "ttl"])
def test_headers_meant_for_the_server_are_not_passed_on(clients, topic, header):
    producer, consumer = clients(2)
    consumer.subscribe(topic)
    value = {"transaction": "t", "retain": "set", "ttl": "60000"}[header]
    producer.ask("BEGIN", {"transaction": "t"})
    producer.send("SEND", {"destination": topic, header: value}, "x")
    producer.ask("COMMIT", {"transaction": "t"})
    assert consumer.message().get(header) is None


@pytest.mark.parametrize("mode", [None, "auto"])
def test_no_ack_header_on_messages_that_need_no_ack(client, topic, mode):
    client.subscribe(topic, **({"ack": mode} if mode else {}))
    client.publish(topic, "x")
    assert client.message().get("ack") is None


def test_no_heart_beat_header_for_1_0(dial):
    assert dial().login("1.0").get("heart-beat") is None


def test_messages_of_temporary_queues_carry_each_header_once(clients):
    """Apollo sends two `destination` and two `reply-to` headers; libraries keep different ones."""
    (client,) = clients(1)
    client.subscribe("/temp-queue/box")
    client.publish("/temp-queue/box", "x", reply_to="/temp-queue/box")
    message = client.message()
    for name in ("destination", "reply-to", "message-id", "subscription"):
        assert len(message.all(name)) == 1, message


def test_no_header_of_any_frame_is_repeated(client, topic, queue):
    connected_pairs = client.ask("BEGIN", {"transaction": "t"}).pairs
    client.subscribe(topic)
    client.subscribe(queue, ack="client")
    client.publish(topic, "x", subscription="forged", message_id="forged", ack="forged")
    client.publish(queue, "y", subscription="forged", message_id="forged", ack="forged")
    for frame in client.messages(2):
        names = [name for name, _ in frame.pairs]
        assert len(names) == len(set(names)), frame
        assert "forged" not in (frame["subscription"], frame["message-id"], frame.get("ack"))
    assert len(connected_pairs) == 1


@pytest.mark.parametrize("destination", ["/topic/w.*", "/topic/w.**", "/topic/*", "/queue/w.*", "/topic/a,/topic/w.*"])
def test_a_wildcard_send_is_refused(client, destination):
    """Apollo accepts it with a RECEIPT although its documentation allows wildcards in SUBSCRIBE only."""
    client.send("SEND", {"destination": destination, "receipt": "r"})
    error = client.error()
    assert (error["code"], error["receipt-id"]) == ("bad-destination", "r")


def test_a_newline_in_a_header_comes_back_as_a_newline(client, topic):
    """Apollo's encode_header writes `\\c` for it."""
    client.subscribe(topic)
    client.send("SEND", {"destination": topic, "odd": "a\nb"})
    message = client.message()
    assert message["odd"] == "a\nb" and b"odd:a\\nb\n" in message.raw


def test_a_body_without_content_length_has_a_limit(client, topic):
    """Apollo buffers without end. Sends up to 64 MiB and expects to be stopped long before."""
    client.raw(f"SEND\ndestination:{topic}\n\n".encode())
    try:
        for _ in range(64):
            client.raw(b"x" * 1_048_576)
    except OSError:
        pass
    else:
        raise AssertionError("64 MiB of body without content-length were taken")
    rest = client.drain()
    assert rest == b"" or b"code:frame-too-large" in rest


def test_a_transaction_has_a_limit(client, topic):
    """Apollo keeps all of an open transaction in memory. Sends up to 512 MiB into one."""
    client.ask("BEGIN", {"transaction": "t"})
    frame = encode("SEND", {"destination": topic, "transaction": "t", "content-length": 262144}, b"x" * 262144)
    try:
        for _ in range(2048):
            client.raw(frame)
    except OSError:
        pass
    else:
        raise AssertionError("half a GiB was taken into one transaction")
    rest = client.drain()
    assert rest == b"" or b"code:transaction-too-large" in rest


def test_pattern_text_is_never_a_regular_expression(client, topic):
    """Apollo takes `{regex}` levels from any client, which invites catastrophic backtracking."""
    client.send("SUBSCRIBE", {"id": "1", "destination": "/topic/{(a+)+}", "receipt": "r"})
    answer = client.frame()
    assert answer.command in ("RECEIPT", "ERROR")
    if answer.command == "RECEIPT":
        client.subscribe("/topic/aaaa", id="fence")
        client.publish("/topic/aaaa", "x")
        assert client.message()["subscription"] == "fence"


def test_one_slow_topic_consumer_does_not_starve_the_others(clients, topic):
    """Apollo's topic 10-1-1 cell measured 0 received; its default policy blocks the producer."""
    producer, slow, fast = clients(3)
    slow.subscribe(topic)
    fast.subscribe(topic)
    body = b"x" * 8192
    for _ in range(2000):
        producer.send("SEND", {"destination": topic, "content-length": len(body)}, body)
        assert fast.message().body == body
