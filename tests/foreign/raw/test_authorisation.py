"""Authorisation: what the rules of tiderace.toml allow the user `limited`, by every way in.

The rules: `limited` may publish and subscribe under `open/`, may only read under `readable/`,
and may do nothing under `open/secret/` or anywhere else. `tide` may do everything.
"""

import pytest

from wire import LIMITED, LIMITED_PASSCODE, unique


@pytest.fixture
def limited(dial):
    client = dial()
    client.login(login=LIMITED, passcode=LIMITED_PASSCODE)
    return client


def test_what_is_allowed_works(limited):
    name = f"/topic/open.{unique()}"
    limited.subscribe(name)
    limited.publish(name, "fine")
    assert limited.message().text == "fine"


def test_reading_alone_can_be_allowed(limited, client):
    name = f"/topic/readable.{unique()}"
    limited.subscribe(name)
    client.publish(name, "look")
    assert limited.message().text == "look"
    limited.send("SEND", {"destination": name, "receipt": "r"}, "no")
    error = limited.error()
    assert (error["code"], error["receipt-id"]) == ("not-authorised", "r")


@pytest.mark.parametrize(
    "destination",
    [
        "/topic/open.secret.a",
        "/topic/open/secret/a",
        "/topic/other.a",
        "/queue/other.a",
        "/queue/open.secret.a",
        "/topic/open.a,/topic/other.a",
        "/queue/open.a,/queue/open.secret.a",
    ],
)
@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
def test_what_is_not_allowed_is_refused_however_it_is_spelled(limited, command, destination):
    limited.send(command, {"id": "1", "destination": destination, "receipt": "r"})
    error = limited.error()
    assert (error["code"], error["receipt-id"]) == ("not-authorised", "r")


@pytest.mark.parametrize("pattern", ["**", "*.*", "other.**", "open.**", "open.secret.*", "op*.**"])
def test_a_wildcard_is_no_way_around_the_rules(dial, client, pattern):
    """A pattern that reaches forbidden paths is refused, or hears nothing of them."""
    limited = dial()
    limited.login(login=LIMITED, passcode=LIMITED_PASSCODE)
    limited.send("SUBSCRIBE", {"id": "1", "destination": f"/topic/{pattern}", "receipt": "r"})
    answer = limited.frame()
    if answer.command == "ERROR":
        assert answer["code"] == "not-authorised"
        return
    name = unique()
    limited.subscribe(f"/topic/readable.{name}.fence")
    client.publish(f"/topic/other.{name}", "hidden")
    client.publish(f"/topic/open.secret.{name}", "hidden")
    client.publish(f"/topic/readable.{name}.fence", "fence")
    assert limited.message().text == "fence"


def test_refused_in_a_transaction_as_well(limited):
    limited.send("BEGIN", {"transaction": "t"})
    limited.send("SEND", {"destination": "/topic/other.a", "transaction": "t"}, "x")
    limited.send("COMMIT", {"transaction": "t", "receipt": "r"})
    assert limited.error()["code"] == "not-authorised"


def test_a_retained_value_is_guarded_too(limited, client):
    client.publish("/topic/other.kept", "secret", retain="set")
    limited.send("SUBSCRIBE", {"id": "1", "destination": "/topic/other.kept", "receipt": "r"})
    assert limited.error()["code"] == "not-authorised"


def test_temporary_destinations_need_no_rule(limited):
    limited.subscribe("/temp-queue/answers")
    limited.publish("/temp-queue/answers", "x")
    assert limited.message().text == "x"
