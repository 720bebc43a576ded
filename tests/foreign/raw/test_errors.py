"""The error contract: what an ERROR frame carries, and that the connection ends after it."""

import re

import pytest

from wire import encode, unique

MISTAKES = {
    "unknown command": ("bad-frame|unexpected-frame", "JUMP", {}),
    "second CONNECT": ("unexpected-frame", "CONNECT", {"accept-version": "1.2", "host": "h"}),
    "a server's frame": ("bad-frame|unexpected-frame", "MESSAGE", {"destination": "/topic/x"}),
    "SEND without destination": ("bad-header", "SEND", {}),
    "SUBSCRIBE without id": ("bad-header", "SUBSCRIBE", {"destination": "/topic/x"}),
    "SUBSCRIBE without destination": ("bad-header", "SUBSCRIBE", {"id": "1"}),
    "SUBSCRIBE with an unknown ack mode": (
        "bad-header",
        "SUBSCRIBE",
        {"id": "1", "destination": "/topic/x", "ack": "maybe"},
    ),
    "UNSUBSCRIBE without id": ("bad-header", "UNSUBSCRIBE", {}),
    "UNSUBSCRIBE of an unknown id": ("unknown-subscription", "UNSUBSCRIBE", {"id": "nope"}),
    "ACK without id": ("bad-header", "ACK", {}),
    "ACK of an unknown id": ("unknown-ack", "ACK", {"id": "nope"}),
    "NACK of an unknown id": ("unknown-ack", "NACK", {"id": "nope"}),
    "BEGIN without transaction": ("bad-header", "BEGIN", {}),
    "COMMIT without transaction": ("bad-header", "COMMIT", {}),
    "ABORT without transaction": ("bad-header", "ABORT", {}),
    "COMMIT of an unknown transaction": ("unknown-transaction", "COMMIT", {"transaction": "nope"}),
    "ABORT of an unknown transaction": ("unknown-transaction", "ABORT", {"transaction": "nope"}),
    "SEND in an unknown transaction": (
        "unknown-transaction",
        "SEND",
        {"destination": "/topic/x", "transaction": "nope"},
    ),
    "unknown kind of destination": ("bad-destination", "SEND", {"destination": "/nowhere/x"}),
    "no kind of destination": ("bad-destination", "SEND", {"destination": "x"}),
    "empty path": ("bad-destination", "SEND", {"destination": "/topic/"}),
    "empty level": ("bad-destination", "SEND", {"destination": "/topic/a..b"}),
    "wildcard in SEND": ("bad-destination", "SEND", {"destination": "/topic/a.*"}),
    "bad selector": ("bad-selector", "SUBSCRIBE", {"id": "1", "destination": "/topic/x", "selector": "colour = = 'x'"}),
    "bad credit": ("bad-header", "SUBSCRIBE", {"id": "1", "destination": "/queue/x", "credit": "many"}),
    "bad ttl": ("bad-header", "SEND", {"destination": "/queue/x", "ttl": "soon"}),
    "bad expires": ("bad-header", "SEND", {"destination": "/queue/x", "expires": "tomorrow"}),
    "persistent for a queue that lives in memory": ("no-store", "SEND", {"destination": "/queue/x", "persistent": "true"}),
    "bad retain": ("bad-header", "SEND", {"destination": "/topic/x", "retain": "perhaps"}),
    "a name of a queue of 1,025 bytes": ("bad-destination", "SEND", {"destination": "/queue/" + "x" * 1_025}),
    "a name of a queue with 65 levels": ("bad-destination", "SEND", {"destination": "/queue/" + ".".join("x" * 65)}),
    "a name of a queue with a control character": ("bad-destination", "SEND", {"destination": "/queue/a\x07b"}),
    "a queue of somebody else's session": ("bad-destination|not-authorised", "SEND", {"destination": "/queue/temp.x"}),
    "a consumer of a queue with a control character in its name": (
        "bad-destination",
        "SUBSCRIBE",
        {"id": "1", "destination": "/queue/a\x07b"},
    ),
    "a delay that is no number": ("bad-schedule", "SEND", {"destination": "/queue/x", "delay": "soon"}),
    "a delay below zero": ("bad-schedule", "SEND", {"destination": "/queue/x", "delay": "-1"}),
    "a delay of 100 digits": ("bad-schedule", "SEND", {"destination": "/queue/x", "delay": "9" * 100}),
    "a delay of 100 years": ("bad-schedule", "SEND", {"destination": "/queue/x", "delay": "3155760000000"}),
    "a time that is no number": ("bad-schedule", "SEND", {"destination": "/queue/x", "deliver-at": "\u0661\u0662"}),
    "a time of 20 digits": ("bad-schedule", "SEND", {"destination": "/queue/x", "deliver-at": "18446744073709551616"}),
    "the last time there is": ("bad-schedule", "SEND", {"destination": "/queue/x", "deliver-at": str(2**64 - 1)}),
    "a group without a name": ("bad-group", "SEND", {"destination": "/queue/x", "message_group": ""}),
    "a group with a name of 257 bytes": ("bad-group", "SEND", {"destination": "/queue/x", "message_group": "g" * 257}),
    "a priority of 10": ("bad-priority", "SEND", {"destination": "/queue/x", "priority": "10"}),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_has_its_error(client, name):
    code, command, headers = MISTAKES[name]
    client.send(command, headers | {"receipt": "the:receipt"})
    error = client.error()
    assert re.fullmatch(code, error["code"]), error
    check_contract(error)
    assert error["receipt-id"] == "the:receipt"


def check_contract(error):
    """What every ERROR carries, whatever its cause."""
    assert 0 < len(error["message"]) <= 160 and "\n" not in error["message"]
    assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", error["code"])
    assert error["content-type"].split(";")[0] == "text/plain"
    assert int(error["content-length"]) == len(error.body) > 0
    assert re.search(r"[.!?]\s*$", error.text), f"not a sentence: {error.text!r}"
    for inner in ("panicked", "unwrap", "src/", ".rs:", "Exception", "Result::"):
        assert inner not in error.text + error["message"], "inner names shown to a client"


def test_no_receipt_id_where_none_was_asked(client):
    client.send("COMMIT", {"transaction": "nope"})
    error = client.error()
    assert error.get("receipt-id") is None


def test_nothing_after_the_mistake_is_handled(clients, topic):
    wrong, watcher = clients(2)
    watcher.subscribe(topic)
    wrong.raw(encode("COMMIT", {"transaction": "nope"}) + encode("SEND", {"destination": topic}, "unwanted"))
    assert wrong.error()["code"] == "unknown-transaction"
    watcher.publish(topic, "fence")
    assert watcher.message().text == "fence"


def test_what_came_before_the_mistake_is_handled(clients, topic):
    wrong, watcher = clients(2)
    watcher.subscribe(topic)
    wrong.raw(encode("SEND", {"destination": topic}, "before") + encode("JUMP"))
    wrong.error()
    assert watcher.message().text == "before"


def test_the_connections_of_others_live_on(clients, topic):
    wrong, watcher = clients(2)
    watcher.subscribe(topic)
    wrong.send("JUMP")
    wrong.error()
    watcher.publish(topic, "still here")
    assert watcher.message().text == "still here"


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_errors_are_told_in_the_version_spoken(dial, version):
    client = dial()
    client.login(version)
    client.send("COMMIT", {"transaction": "nope", "receipt": "r"})
    error = client.error()
    assert error["code"] == "unknown-transaction"
    assert error["receipt-id"] == "r"


def test_a_duplicate_subscription_id_is_an_error(client, topic):
    client.subscribe(topic, id="same")
    client.send("SUBSCRIBE", {"id": "same", "destination": topic, "receipt": "r"})
    error = client.error()
    assert (error["code"], error["receipt-id"]) == ("duplicate-subscription", "r")


def test_a_duplicate_transaction_is_an_error(client):
    client.ask("BEGIN", {"transaction": "same"})
    client.send("BEGIN", {"transaction": "same", "receipt": "r"})
    error = client.error()
    assert (error["code"], error["receipt-id"]) == ("duplicate-transaction", "r")


def test_a_second_ack_of_the_same_message_is_an_error(client, queue):
    client.subscribe(queue, ack="client-individual")
    client.publish(queue, "1")
    id = client.message()["ack"]
    client.ask("ACK", {"id": id})
    client.send("ACK", {"id": id, "receipt": "r"})
    error = client.error()
    assert (error["code"], error["receipt-id"]) == ("unknown-ack", "r")


def test_an_ack_of_somebody_elses_message_is_an_error(clients, queue):
    owner, thief = clients(2)
    owner.subscribe(queue, ack="client-individual")
    owner.publish(queue, "1")
    thief.subscribe(queue + unique(), ack="client-individual")
    thief.send("ACK", {"id": owner.message()["ack"]})
    assert thief.error()["code"] == "unknown-ack"
