"""Attacks by a client that is logged in: malformed frames, lies about lengths, and greed."""

from hostile import case, chunks, finish, push, served, simple, small_window, tcp
from limits import LIMITS, MESSAGES_BYTES_MAX, PATH_BYTES_MAX, PATH_DEPTH_MAX, QUEUE_BYTES_MAX
from wire import Client, encode, unique

MIB = 2**20
TOPIC = {"destination": "/topic/hostile"}
TOO_LARGE = "frame-too-large|bad-frame|closed"


def logged_in():
    client = tcp()
    client.login()
    return client


def send_with(length, body=b"x"):
    return encode("SEND", TOPIC | {"content-length": length}, body)


simple(
    "frame",
    "bad-header|frame-too-large",
    a_content_length_that_is_no_number=send_with("many"),
    a_content_length_with_rubbish_after_it=send_with("12abc"),
    a_negative_content_length=send_with("-1"),
    a_signed_content_length=send_with("+1"),
    a_hexadecimal_content_length=send_with("0x10"),
    an_exponential_content_length=send_with("1e3"),
    an_empty_content_length=send_with(""),
    a_padded_content_length=send_with(" 1"),
    a_content_length_of_2_to_the_64=send_with(2**64),
    a_content_length_of_100_digits=send_with("9" * 100),
)
simple(
    "frame",
    "frame-too-large",
    a_declared_body_of_10_GB_and_one_byte_of_it=send_with(10 * 10**9),
    a_declared_body_one_byte_over_the_limit=send_with(LIMITS["message_bytes_max"] + 1),
)
simple(
    "frame",
    "bad-frame",
    no_NUL_after_content_length=send_with(3, b"abcd"),
    NUL_in_the_middle_of_a_header=b"SEND\ndestination:/topic\0/a\n\n\0",
    NUL_right_after_the_command=b"SEND\0",
)
simple(
    "frame",
    "bad-frame|unexpected-frame",
    an_unknown_command=b"JUMP\n\n\0",
    a_lower_case_command=b"send\ndestination:/topic/a\n\n\0",
    a_command_with_a_space=b"SEND \ndestination:/topic/a\n\n\0",
    a_command_of_1_MiB=b"S" * MIB + b"\n\n\0",
    a_frame_of_a_server=encode("MESSAGE", TOPIC | {"message-id": "1", "subscription": "1"}, "x"),
    a_frame_of_random_bytes=bytes(n * 167 % 251 + 1 for n in range(2000)) + b"\0",
    a_second_CONNECT=encode("CONNECT", {"accept-version": "1.2", "host": "h"}),
    a_second_login_as_STOMP=encode("STOMP", {"accept-version": "1.2", "host": "h", "login": "limited"}),
)
simple(
    "frame",
    "bad-header|bad-frame",
    a_header_without_a_colon=b"SEND\ndestination:/topic/a\nnonsense\n\n\0",
    a_header_without_a_name=b"SEND\ndestination:/topic/a\n:value\n\n\0",
    an_undefined_escape=b"SEND\ndestination:/topic/a\nx:a\\tb\n\n\0",
    an_escape_cut_short=b"SEND\ndestination:/topic/a\nx:a\\\n\n\0",
)
simple(
    "frame",
    "bad-text|bad-header",
    invalid_UTF__8_in_a_header=b"SEND\ndestination:/topic/a\nx:\xff\n\n\0",
    a_surrogate_in_a_header=b"SEND\ndestination:/topic/a\nx:\xed\xa0\x80\n\n\0",
    invalid_UTF__8_in_the_destination=b"SEND\ndestination:/topic/\xc3\n\n\0",
)
simple(
    "frame",
    "frame-too-large|bad-header|closed",
    a_header_of_1_MiB=encode("SEND", TOPIC | {"x": "y" * MIB}),
    ten_thousand_headers=encode("SEND", list(TOPIC.items()) + [(f"h{n}", "v") for n in range(10_000)]),
    one_header_more_than_allowed=encode(
        "SEND", list(TOPIC.items()) + [(f"h{n}", "v") for n in range(LIMITS["headers_max"])]
    ),
)
simple(
    "command",
    "bad-header",
    SUBSCRIBE_without_id=encode("SUBSCRIBE", TOPIC),
    SUBSCRIBE_with_an_unknown_ack_mode=encode("SUBSCRIBE", TOPIC | {"id": "1", "ack": "perhaps"}),
    SUBSCRIBE_with_a_credit_that_overflows=encode("SUBSCRIBE", TOPIC | {"id": "1", "credit": "9" * 30}),
    SEND_without_destination=encode("SEND", {}),
)
simple("command", "duplicate-subscription", a_subscription_id_twice=encode("SUBSCRIBE", TOPIC | {"id": "1"}) * 2)
simple("command", "unknown-subscription", UNSUBSCRIBE_of_nothing=encode("UNSUBSCRIBE", {"id": "nothing"}))
simple(
    "command",
    "unknown-ack",
    ACK_of_nothing=encode("ACK", {"id": "nothing"}),
    ACK_of_a_guessed_number=encode("ACK", {"id": "18446744073709551615"}),
    NACK_of_nothing=encode("NACK", {"id": "-1"}),
)
simple(
    "command",
    "unknown-transaction",
    COMMIT_of_nothing=encode("COMMIT", {"transaction": "nothing"}),
    SEND_in_a_transaction_never_begun=encode("SEND", TOPIC | {"transaction": "nothing"}),
)
simple(
    "selector",
    "bad-selector|frame-too-large|bad-header",
    **{
        sends: encode("SUBSCRIBE", TOPIC | {"id": "1", "selector": text})
        for sends, text in {
            "a_selector_that_ends_early": "a =",
            "a_selector_with_an_open_string": "a = 'b",
            "parentheses_3_000_deep": "(" * 3000 + "a = 1" + ")" * 3000,
            "NOT_3_000_times": "NOT " * 3000 + "a = 1",
            "a_minus_sign_12_000_times": "a = " + "-" * 12_000 + "1",
            "a_selector_in_another_language": "'; DROP TABLE users; --",
        }.items()
    },
)
simple(
    "destination",
    "bad-destination",
    **{
        sends: encode("SEND", {"destination": destination})
        for sends, destination in {
            "an_empty_destination": "",
            "an_empty_path": "/topic/",
            "a_kind_that_does_not_exist": "/nowhere/a",
            "an_empty_level": "/topic/a//b",
            "a_wildcard_in_SEND": "/topic/a.*.b",
            "a_control_character": "/topic/a\x07b",
            "a_newline": "/topic/a\nb",
            "a_path_that_is_too_deep": "/topic/" + ".".join("a" * (PATH_DEPTH_MAX + 1)),
            "a_path_that_is_too_long": "/topic/" + "a" * (PATH_BYTES_MAX + 1),
            "an_empty_part_of_a_composite": "/topic/a,,/topic/b",
            "a_composite_of_1_000_parts": ",".join(f"/topic/{n}" for n in range(1000)),
        }.items()
    },
)
simple(
    "destination",
    "bad-destination",
    a_pattern_with_stars_everywhere=encode("SUBSCRIBE", {"id": "1", "destination": "/topic/" + "*a" * 200}),
    rest_of_path_in_the_middle_again_and_again=encode(
        "SUBSCRIBE", {"id": "1", "destination": "/topic/" + "**." * 100 + "a"}
    ),
)


@case("selector", "a LIKE with 200 per cent signs against a long value, 100 times", "answered")
def like_bomb():
    client = logged_in()
    client.subscribe("/topic/like", selector="a LIKE '" + "%x" * 200 + "%y'")
    for _ in range(100):
        client.send("SEND", {"destination": "/topic/like", "a": "x" * 10_000})
    client.ask("SEND", {"destination": "/topic/like", "a": "x" * 201 + "y"}, "hit")
    assert client.message().text == "hit"
    client.close()
    return "answered"


@case("flood", "16 MiB of a header without a line end", TOO_LARGE + "|bad-header")
def endless_header():
    client = logged_in()
    push(client, b"SEND\ndestination:")
    assert push(client, chunks(b"a", 16 * MIB)) != "taken", "the server read all of it"
    return finish(client)


@case("flood", "64 MiB of body without content-length or NUL", TOO_LARGE)
def endless_body():
    client = logged_in()
    push(client, b"SEND\ndestination:/topic/hostile\n\n")
    assert push(client, chunks(b"x", 64 * MIB)) != "taken", "the server read all of it"
    return finish(client)


@case("flood", "10,000 subscriptions more than allowed", "too-many-subscriptions|closed")
def subscriptions():
    client = logged_in()
    count = LIMITS["subscriptions_per_session_max"] + 10_000
    push(client, (encode("SUBSCRIBE", {"id": n, "destination": f"/topic/many.{n}"}) for n in range(count)))
    return finish(client)


@case("flood", "one transaction name more than allowed", "transaction-too-large")
def transaction_names():
    client = logged_in()
    push(client, b"".join(encode("BEGIN", {"transaction": n}) for n in range(LIMITS["transactions_max"] + 1)))
    return finish(client)


@case("flood", "256 MiB into one open transaction", "transaction-too-large|closed")
def transaction_bytes():
    client = logged_in()
    client.ask("BEGIN", {"transaction": "t"})
    frame = encode("SEND", TOPIC | {"transaction": "t"}, b"x" * 65_000)
    assert push(client, chunks(frame, 256 * MIB)) != "taken", "the server read all of it"
    return finish(client)


@case("flood", "a million acknowledgements into one open transaction", "unknown-ack|transaction-too-large|closed")
def transaction_frames():
    client = logged_in()
    client.ask("BEGIN", {"transaction": "t"})
    push(client, chunks(encode("ACK", {"id": "x", "transaction": "t"}), 36 * MIB))
    return finish(client)


@case("flood", "100,000 subscriptions made and ended", "answered")
def subscription_churn():
    client = logged_in()
    pair = encode("SUBSCRIBE", {"id": "1", "destination": "/topic/churn.*.x"}) + encode("UNSUBSCRIBE", {"id": "1"})
    assert push(client, pair * 100_000) == "taken"
    client.ask("BEGIN", {"transaction": "t"})
    client.close()
    return "answered"


@case("greed", "128 MiB of receipts asked for and never read", "held back|too-many-receipts|refused")
def unread_receipts():
    client = Client()
    small_window(client)
    client.login()
    id = "r" * 1000
    outcome = push(client, chunks(encode("SEND", TOPIC | {"receipt": id}), 128 * MIB), seconds=3)
    client.close()
    return outcome


@case("greed", "256 MiB to a topic whose subscriber never reads", "taken|held back")
def unread_messages():
    sleeper, producer = Client(), logged_in()
    small_window(sleeper)
    sleeper.login()
    topic = f"/topic/{unique('sleeper')}"
    sleeper.subscribe(topic)
    outcome = push(producer, chunks(encode("SEND", {"destination": topic}, b"x" * 8000), 256 * MIB), seconds=3)
    sleeper.close()
    producer.close()
    return outcome


@case("greed", "256 MiB to a queue that nobody empties", "held back")
def full_queue():
    producer = logged_in()
    queue = f"/queue/{unique('full')}"
    outcome = push(
        producer, chunks(encode("SEND", {"destination": queue}, b"x" * 8000), 32 * QUEUE_BYTES_MAX), seconds=3
    )
    producer.close()
    drain_queue(queue)
    return outcome


def drain_queue(queue):
    """Empties what an attack left behind, so that the memory of the next case starts level."""
    client = logged_in()
    client.subscribe(queue)
    client.publish(queue, "the end")
    while client.message().text != "the end":
        pass
    client.ask("DISCONNECT")


def vanish(data, login):
    """Clients that go in the middle of a frame: their places are free again at once."""
    for _ in range(3 * LIMITS["connections_per_ip_max"] // 100 + 1):
        for _ in range(100):
            client = logged_in() if login else tcp()
            client.raw(data)
            client.close()
        answer = served()
        if answer is not True:
            return str(answer)
    return "answered"


@case("greed", "1,000 clients gone in the middle of CONNECT", "answered")
def vanished_before_login():
    return vanish(b"CONNECT\naccept-version:1.2\nhost:h\nlo", login=False)


@case("greed", "1,000 clients gone in the middle of SEND", "answered")
def vanished_in_a_frame():
    return vanish(b"SEND\ndestination:/topic/a\ncontent-length:100\n\nabc", login=True)


@case("greed", "256 MiB of retained values, a topic each", "memory-full|closed", fills=True)
def retained_flood():
    """The last case of all: what it leaves behind fills the server's memory for messages."""
    producer = logged_in()
    root, count = unique("kept"), 2 * MESSAGES_BYTES_MAX // 1024
    frames = (encode("SEND", {"destination": f"/topic/{root}.{n}", "retain": "set"}, b"x" * 1024) for n in range(count))
    assert push(producer, frames) != "taken", "the server kept all of it"
    return finish(producer)
