"""Short lives of real servers, and what the checks find in servers that lose something.

The long form is `lives.py --kills 1000`.
"""

import os
import random
import re
import socket
import time

import pytest

from ledger import Ledger
from lives import ORDERED, WAIT, Reader, Run, Server

BINARY = os.environ["TIDERACE_BINARY"]
SECONDS = float(os.environ.get("KILL_SECONDS", "6"))
"""For each way of running."""


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("sync", ["never", "always"])
def test_queues_keep_what_they_have_confirmed(sync, shards):
    seed = int(os.environ.get("KILL_SEED", random.SystemRandom().randrange(1 << 32)))
    said = [f"--seed {seed} --sync {sync} --shards {shards}"]
    run = Run(BINARY, seed, sync, shards, say=said.append)
    found = run.lives(10_000, time.monotonic() + SECONDS)
    print("\n".join(said))
    assert not found.violations
    assert run.kills > 0 and found.totals["confirmed"] > 0 and found.totals["settled"] > 0


def test_a_server_that_keeps_them_in_memory_is_found_out():
    found = Run(BINARY, 1, in_memory=True, keep=False).lives(30)
    assert "lost" in found.kinds(), found.violations


def said_until(connection, wanted):
    """What the server says until it has said something."""
    connection.settimeout(WAIT)
    text = b""
    while not re.search(wanted, text):
        data = connection.recv(65_536)
        assert data, f"the server closed the connection: {text[-500:]}"
        text += data
    return text


def client(server):
    connection = socket.create_connection(server.address)
    connection.sendall(b"CONNECT\naccept-version:1.2\nhost:a\n\n\0")
    said_until(connection, rb"CONNECTED")
    return connection


def test_the_receipt_of_disconnect_says_that_all_that_was_sent_is_stored():
    server, lives, each = Server(BINARY, "always", 2), 8, 100
    queues = ["a", "b", "c"]
    try:
        for life in range(lives):
            server.spawn()
            server.wait()
            sender = client(server)
            frames = [
                f"SEND\ndestination:/queue/{queue}\npersistent:true\n\n{life}.{number}.\0"
                for number in range(each)
                for queue in queues
            ]
            sender.sendall("".join(frames).encode() + b"DISCONNECT\nreceipt:bye\n\n\0")
            said_until(sender, rb"receipt-id:bye")
            server.kill()
        server.spawn()
        server.wait()
        expected = [f"{life}.{number}." for life in range(lives) for number in range(each)]
        for queue in queues:
            consumer = client(server)
            consumer.sendall(f"SUBSCRIBE\nid:0\ndestination:/queue/{queue}\nack:auto\n\n\0".encode())
            text = said_until(consumer, expected[-1].encode()).decode()
            assert re.findall(r"\n\n(\d+\.\d+\.)", text) == expected
        server.end()
    finally:
        server.close(keep=False)


def test_the_receipt_of_disconnect_says_that_all_that_was_acknowledged_is_stored():
    server, lives, each = Server(BINARY, "always", 2), 8, 50
    queues = ["a", "b", "c"]
    try:
        server.spawn()
        server.wait()
        sender = client(server)
        frames = [
            f"SEND\ndestination:/queue/{queue}\npersistent:true\n\n{number}.\0"
            for number in range(lives * each)
            for queue in queues
        ]
        sender.sendall("".join(frames).encode() + b"DISCONNECT\nreceipt:bye\n\n\0")
        said_until(sender, rb"receipt-id:bye")
        for life in range(lives):
            consumer = client(server)
            for queue in queues:
                consumer.sendall(
                    f"SUBSCRIBE\nid:{queue}\ndestination:/queue/{queue}\nack:client\n"
                    f"credit:{each}\n\n\0".encode()
                )
            tags, text = {}, ""
            while len(tags) < len(queues) * each:
                data = consumer.recv(65_536).decode()
                assert data, "the server closed the connection"
                text += data
                *whole, text = text.split("\0")
                for frame in whole:
                    head, _, body = frame.partition("\n\n")
                    queue = re.search(r"subscription:(\w)", head)[1]
                    tags[queue, int(body.rstrip("."))] = re.search(r"\nack:(\S+)", head)[1]
            # Those of this life and no others: what was acknowledged before does not come again.
            numbers = range(life * each, (life + 1) * each)
            assert set(tags) == {(queue, number) for queue in queues for number in numbers}
            acks = [f"ACK\nid:{tags[queue, numbers[-1]]}\n\n\0" for queue in queues]
            consumer.sendall("".join(acks).encode() + b"DISCONNECT\nreceipt:bye\n\n\0")
            said_until(consumer, rb"receipt-id:bye")
            server.kill()
            server.spawn()
            server.wait()
        server.end()
    finally:
        server.close(keep=False)


# The checks themselves: what a lawful server does is none of their business, and everything else is.


@pytest.fixture
def ledger():
    return Ledger(homes=1, ordered=ORDERED)


def sent(ledger, queue, count, confirmed=True):
    source = ledger.source(queue, 1)
    numbers = [ledger.number(source) for _ in range(count)]
    for number in numbers if confirmed else ():
        ledger.confirmed[number] = 1
    return numbers


def take(ledger, queue, numbers, life=2, present=True):
    reader = Reader()
    for number in numbers:
        ledger.deliver(number, queue, reader, life)
        ledger.present[number] = present
    return reader


def test_what_was_taken_in_order_is_lawful(ledger):
    numbers = sent(ledger, "one", 5)
    take(ledger, "one", numbers[:2], life=1, present=False).is_open = False
    take(ledger, "one", numbers)
    ledger.audit()
    assert not ledger.violations


def test_what_was_not_confirmed_may_be_gone_from_the_end_on(ledger):
    take(ledger, "one", sent(ledger, "one", 5, confirmed=False)[:3])
    ledger.audit()
    assert not ledger.violations


@pytest.mark.parametrize("delivered", [False, True])
def test_a_confirmed_message_that_does_not_come_is_lost(ledger, delivered):
    numbers = sent(ledger, "many", 2)
    if delivered:
        take(ledger, "many", numbers, life=1, present=False).is_open = False
    take(ledger, "many", [numbers[0]])
    ledger.audit()
    assert ledger.kinds() == {"lost"}


def test_a_hole_before_a_message_that_came_is_found(ledger):
    numbers = sent(ledger, "many", 3, confirmed=False)
    take(ledger, "many", [numbers[0], numbers[2]])
    ledger.audit()
    assert ledger.kinds() == {"hole"}


def test_a_message_that_came_before_it_was_stored_proves_nothing(ledger):
    numbers = sent(ledger, "many", 3, confirmed=False)
    take(ledger, "many", [numbers[2]], life=1, present=False)
    transaction = ledger.transaction(1)
    transaction.state = "asked"
    transaction.sent["many"] = sent(ledger, "many", 2, confirmed=False)
    ledger.sources.pop()
    take(ledger, "many", transaction.sent["many"][:1], life=1, present=False)
    ledger.audit()
    assert not ledger.violations


def test_a_settled_message_may_not_come_again_ever(ledger):
    [number] = sent(ledger, "many", 1)
    take(ledger, "many", [number]).is_open = False
    ledger.acked[number] = ledger.settled[number] = 1
    ledger.audit()
    assert not ledger.violations
    take(ledger, "many", [number], life=9)
    assert ledger.kinds() == {"settled"}


def test_an_order_that_is_not_kept_is_found(ledger):
    numbers = sent(ledger, "one", 3)
    take(ledger, "one", [numbers[1], numbers[0]])
    assert ledger.kinds() == {"order"}


def test_two_consumers_with_one_message_are_found(ledger):
    [number] = sent(ledger, "many", 1)
    take(ledger, "many", [number])
    ledger.is_ending = True
    first = take(ledger, "many", [number])
    assert not ledger.violations, "the server may have ended the one before"
    ledger.is_ending = False
    first.is_open = False
    take(ledger, "many", [number])
    assert not ledger.violations
    take(ledger, "many", [number])
    assert ledger.kinds() == {"twice"}


@pytest.mark.parametrize(
    ("state", "came", "kind"),
    [
        ("open", [], None), ("open", [0], "transaction"), ("aborted", [1], "transaction"),
        ("asked", [], None), ("asked", [0, 1], None), ("asked", [1], "transaction"),
        ("confirmed", [0, 1], None), ("confirmed", [0], "lost"), ("confirmed", [], "lost"),
    ],
)
def test_transactions_are_all_or_nothing(ledger, state, came, kind):
    transaction = ledger.transaction(1)
    transaction.state = state
    numbers = sent(ledger, "one", 2, confirmed=False)
    ledger.sources.clear()
    transaction.sent["one"] = numbers
    take(ledger, "one", [numbers[at] for at in came])
    ledger.audit()
    assert ledger.kinds() == ({kind} if kind else set())


@pytest.mark.parametrize(("copied", "again"), [(False, False), (False, True), (True, False), (True, True)])
def test_one_home_moves_a_message_or_leaves_it(ledger, copied, again):
    [number] = sent(ledger, "many", 1)
    take(ledger, "many", [number], life=1, present=False).is_open = False
    ledger.acked[number] = 1
    transaction = ledger.transaction(1)
    transaction.state, transaction.settled = "asked", [number]
    copies = sent(ledger, "one", 1, confirmed=False)
    transaction.sent["one"] = copies
    take(ledger, "one", copies if copied else [])
    take(ledger, "many", [number] if again else [])
    ledger.audit()
    assert ledger.kinds() == ({"transaction"} if copied == again else set())
