"""Headers: escapes by version, repeats, spaces, names, UTF-8."""

import pytest

from wire import LOGIN, encode

ODD = "colon: backslash\\ newline\n return\r end"


def test_all_four_escapes_of_1_2_survive_the_journey(client, topic):
    client.subscribe(topic)
    client.send("SEND", {"destination": topic, "odd": ODD, "odd:name\n": "v"})
    message = client.message()
    assert message["odd"] == ODD
    assert message["odd:name\n"] == "v"


def test_escapes_on_the_wire_are_exactly_those_of_the_specification(client, topic):
    client.subscribe(topic)
    client.raw(f"SEND\ndestination:{topic}\nodd:a\\nb\\cc\\\\d\\re\n\n\0".encode())
    message = client.message()
    assert message["odd"] == "a\nb:c\\d\re"
    assert b"\nodd:a\\nb\\cc\\\\d\\re\n" in message.raw


@pytest.mark.parametrize("escape", ["\\t", "\\0", "\\C", "\\N", "\\ ", "\\x41"])
def test_an_undefined_escape_is_fatal_in_1_2(client, topic, escape):
    client.raw(f"SEND\ndestination:{topic}\nodd:a{escape}b\nreceipt:r\n\n\0".encode())
    assert client.error()["code"] == "bad-header"


def test_a_lone_backslash_at_the_end_is_fatal_in_1_2(client, topic):
    client.raw(f"SEND\ndestination:{topic}\nodd:a\\\n\n\0".encode())
    assert client.error()["code"] == "bad-header"


@pytest.mark.parametrize("escape", ["\\t", "\\r"])
def test_an_undefined_escape_is_fatal_in_1_1(dial, topic, escape):
    client = dial()
    client.login("1.1")
    client.raw(f"SEND\ndestination:{topic}\nodd:a{escape}b\n\n\0".encode())
    assert client.error()["code"] == "bad-header"


def test_1_1_escapes_newline_colon_and_backslash(dial, topic):
    client = dial()
    client.login("1.1")
    client.subscribe(topic)
    client.send("SEND", {"destination": topic, "odd": "a:b\\c\nd"})
    assert client.message()["odd"] == "a:b\\c\nd"


def test_1_0_escapes_nothing(dial, topic):
    client = dial()
    client.login("1.0")
    client.subscribe(topic)
    client.raw(f"SEND\ndestination:{topic}\nodd:a\\nb:c\\x\n\n\0".encode())
    assert client.message()["odd"] == "a\\nb:c\\x"


def test_a_value_crosses_versions_unchanged(dial, topic):
    """From 1.2 to 1.1 and back: each consumer reads the same text."""
    modern, older = dial(), dial()
    modern.login("1.2")
    older.login("1.1")
    modern.subscribe(topic)
    older.subscribe(topic)
    modern.send("SEND", {"destination": topic, "odd": "a:b\\c\nd"})
    assert modern.message()["odd"] == older.message()["odd"] == "a:b\\c\nd"


def test_connect_is_not_unescaped(dial):
    """A backslash in a CONNECT header is a backslash, so this passcode is simply wrong."""
    client = dial()
    fields = {"accept-version": "1.2", "host": "localhost", "login": LOGIN, "passcode": "a\\tb:c"}
    client.raw(encode("CONNECT", fields))
    assert client.error()["code"] == "login-failed"


def test_connected_is_not_escaped(dial):
    """Its text may hold a colon as it is; the strict reader of this suite would refuse `\\c`."""
    connected = dial().login()
    assert b"\\c" not in connected.raw


def test_the_first_of_repeated_headers_wins(client, topic):
    client.subscribe(topic)
    headers = [("destination", topic), ("destination", "/queue/never"), ("foo", "first"), ("foo", "second")]
    client.send("SEND", headers)
    message = client.message()
    assert message["foo"] == "first"
    assert message["destination"] == topic


def test_the_first_of_repeated_content_lengths_wins(client, topic):
    client.subscribe(topic)
    client.send("SEND", [("destination", topic), ("content-length", "3"), ("content-length", "999")], b"a\0b")
    assert client.message().body == b"a\0b"


def test_spaces_belong_to_the_value_in_1_2(client, topic):
    client.subscribe(topic)
    client.raw(f"SEND\ndestination:{topic}\n padded :  two before, one after \n\n\0".encode())
    assert client.message()[" padded "] == "  two before, one after "


def test_an_empty_value_is_a_value(client, topic):
    client.subscribe(topic)
    client.send("SEND", {"destination": topic, "empty": ""})
    assert client.message()["empty"] == ""


def test_header_names_are_case_sensitive(client, topic):
    client.subscribe(topic)
    client.send("SEND", {"destination": topic, "Destination": "/queue/other", "Foo": "A", "foo": "b"})
    message = client.message()
    assert (message["Foo"], message["foo"], message["destination"]) == ("A", "b", topic)


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_headers_and_destinations_are_utf_8(dial, topic, version):
    client = dial()
    client.login(version)
    client.subscribe(topic + "-größe-水-🌊")
    client.send("SEND", {"destination": topic + "-größe-水-🌊", "naïve": "ça va ☕"}, "тело")
    message = client.message()
    assert message["naïve"] == "ça va ☕"
    assert message["destination"] == topic + "-größe-水-🌊"
    assert message.text == "тело"


def test_receipt_ids_are_escaped_in_the_answer(client, topic):
    client.send("SEND", {"destination": topic, "receipt": "a:b\nc\\d"})
    assert client.receipt("a:b\nc\\d").raw.startswith(b"RECEIPT\n")
