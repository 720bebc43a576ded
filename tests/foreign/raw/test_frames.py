"""Framing: line ends, content-length, NUL in bodies, receipts on every frame, segmentation."""

import pytest

from wire import encode, unique


def test_the_body_ends_where_content_length_says(client, topic):
    client.subscribe(topic)
    body = b"a\0b\0\0c\n\n"
    client.send("SEND", {"destination": topic, "content-length": len(body)}, body)
    message = client.message()
    assert message.body == body
    assert message["content-length"] == str(len(body))


def test_without_content_length_the_body_ends_at_the_first_nul(client, topic):
    client.subscribe(topic)
    client.send("SEND", {"destination": topic}, "up to here")
    assert client.message().body == b"up to here"


def test_every_byte_value_survives(client, topic):
    client.subscribe(topic)
    body = bytes(range(256)) * 8
    client.send(
        "SEND", {"destination": topic, "content-length": len(body), "content-type": "application/octet-stream"}, body
    )
    message = client.message()
    assert message.body == body
    assert message["content-type"] == "application/octet-stream"


@pytest.mark.parametrize("size", [0, 1, 2047, 2048, 65535, 65536, 1_000_000])
def test_bodies_of_many_sizes(client, topic, size):
    client.subscribe(topic)
    body = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    client.send("SEND", {"destination": topic, "content-length": size}, body)
    assert client.message().body == body


def test_an_empty_body_stays_empty(client, topic):
    client.subscribe(topic)
    client.send("SEND", {"destination": topic})
    assert client.message().body == b""


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_message_carries_destination_id_subscription_and_the_senders_headers(dial, topic, version):
    client = dial()
    client.login(version)
    client.subscribe(topic, id="s7")
    client.send("SEND", {"destination": topic, "content-type": "text/plain", "colour": "blue"}, "x")
    message = client.message()
    assert message["destination"] == topic
    assert message["subscription"] == "s7"
    assert message["message-id"]
    assert message["content-type"] == "text/plain"
    assert message["colour"] == "blue"


def test_message_ids_differ(client, topic):
    client.subscribe(topic)
    for _ in range(100):
        client.send("SEND", {"destination": topic})
    assert len({m["message-id"] for m in client.messages(100)}) == 100


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_lf_ends_lines_in_every_version(dial, topic, version):
    client = dial()
    client.login(version)
    client.subscribe(topic)
    client.send("SEND", {"destination": topic}, "plain")
    assert client.message().text == "plain"


def test_crlf_ends_lines_in_1_2(client, topic):
    client.subscribe(topic)
    client.raw(encode("SEND", {"destination": topic, "colour": "blue", "receipt": "crlf"}, "x", eol="\r\n"))
    assert client.receipt("crlf")
    assert client.message()["colour"] == "blue"


def test_eols_between_frames_are_heart_beats_not_frames(client, topic):
    client.subscribe(topic)
    client.raw(b"\n\n\r\n\n")
    client.send("SEND", {"destination": topic}, "1")
    client.raw(b"\r\n" * 20)
    client.send("SEND", {"destination": topic}, "2")
    assert [m.text for m in client.messages(2)] == ["1", "2"]


def test_a_frame_may_come_byte_by_byte(client, topic):
    client.subscribe(topic)
    for byte in encode("SEND", {"destination": topic, "content-length": 3}, b"a\0b"):
        client.raw(bytes([byte]))
    assert client.message().body == b"a\0b"


def test_many_frames_in_one_segment(client, topic):
    client.subscribe(topic)
    client.raw(b"".join(encode("SEND", {"destination": topic}, str(n)) for n in range(1000)))
    assert [m.text for m in client.messages(1000)] == [str(n) for n in range(1000)]


@pytest.mark.parametrize("split", [1, 5, 17, 40])
def test_a_segment_may_end_anywhere(client, topic, split):
    client.subscribe(topic)
    data = b"".join(encode("SEND", {"destination": topic, "content-length": 4}, f"{n:04}") for n in range(40))
    for at in range(0, len(data), split):
        client.raw(data[at : at + split])
    assert [m.text for m in client.messages(40)] == [f"{n:04}" for n in range(40)]


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_every_client_frame_is_answered_with_its_receipt(dial, version):
    client = dial()
    client.login(version)
    queue = f"/queue/{unique('receipts')}"
    ack_mode = "client" if version == "1.0" else "client-individual"
    client.ask("SUBSCRIBE", {"id": "s", "destination": queue, "ack": ack_mode})
    client.ask("SEND", {"destination": queue}, "1")
    client.ask("SEND", {"destination": queue}, "2")
    first, second = client.messages(2)
    client.ask("BEGIN", {"transaction": "t"})
    client.send("SEND", {"destination": queue, "transaction": "t", "receipt": "inside"}, "3")
    client.ask("COMMIT", {"transaction": "t"})
    client.receipt("inside")
    client.ask("ACK", acknowledges(first, version))
    client.ask("ACK" if version == "1.0" else "NACK", acknowledges(second, version))
    client.ask("BEGIN", {"transaction": "t"})
    client.ask("ABORT", {"transaction": "t"})
    client.ask("UNSUBSCRIBE", {"id": "s"})
    client.ask("DISCONNECT")
    client.closed()


def acknowledges(message, version):
    """The headers of the ACK or NACK for a message, which differ in every version."""
    if version == "1.2":
        return {"id": message["ack"]}
    headers = {"message-id": message["message-id"]}
    if version == "1.1":
        headers["subscription"] = message["subscription"]
    return headers


def test_receipts_come_in_the_order_of_their_frames(client, topic):
    ids = [unique("r") for _ in range(200)]
    for id in ids:
        client.send("SEND", {"destination": topic, "receipt": id})
    assert [client.frame()["receipt-id"] for _ in ids] == ids


def test_a_receipt_says_nothing_but_its_id(client, topic):
    client.send("SEND", {"destination": topic, "receipt": "odd: one\\\n"})
    receipt = client.receipt("odd: one\\\n")
    assert receipt.body == b""


def test_no_receipt_is_sent_unasked(client, topic):
    client.send("SEND", {"destination": topic})
    client.send("BEGIN", {"transaction": "t"})
    client.send("ABORT", {"transaction": "t"})
    client.send("SEND", {"destination": topic, "receipt": "only"})
    assert client.frame()["receipt-id"] == "only"
