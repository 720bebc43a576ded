"""Quotas with stomp.py: one user takes all that he can get of queues, and another one goes on.

Mallory and Ann have a server of their own, with a store, that says what each may have. While Mallory does his worst, Ann sends
herself messages: each comes, none late, and nothing of hers is refused. Whatever Mallory does ends with a code that says what he
has too much of, also after the server was killed. Waits only bound failure.
"""

import hashlib
import http.client
import json
import os
import re
import select
import socket
import sys
import threading
import time
import urllib.request
from pathlib import Path

import conftest
import pytest
from conftest import WAIT, Peer

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / folder) for folder in ("kill", "raw")]
from lives import Server  # noqa: E402
from wire import encode  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
BYTES_MAX = 4 * MIB
QUEUES_MAX = 300
UPLOADS_MAX = 16
LATE_SECONDS = 1
"""Ann's slowest message but one in a hundred. She is as fast as without Mallory, but the machine may be busy."""
PERSISTENT = {"persistent": "true"}

CONFIG = f"""
[large_messages]
directory = "{{folder}}/large"
bytes_min = "64 KiB"
user_bytes_max = "16 MiB"
user_uploads_max = {UPLOADS_MAX}
[memory]
messages_bytes_max = "128 MiB"
[[quota]]
principal = "root"
bytes_max = 0
queues_max = 0
"""
USER = """
[[token]]
name = "{name}"
secret = "sha256:{hash}"
[[rule]]
allow = ["send", "receive", "browse", "manage", "create", "subscribe", "publish", "monitor"]
principals = ["user:{name}"]
"""


class Served(Server):
    """A server with quotas, which can be killed and started again."""

    def __init__(self, shards):
        super().__init__(os.environ["TIDERACE_BINARY"], "always", shards)
        text = self.config.read_text()
        own = f'[queues]\nprincipal_bytes_max = "{BYTES_MAX}"\nprincipal_queues_max = {QUEUES_MAX}\n'
        text = text.replace("[queues]\n", own).replace('message_bytes_max = "64 KiB"', 'message_bytes_max = "1 MiB"')
        text = text.replace('memory_bytes_max = "64 KiB"', 'memory_bytes_max = "1 MiB"')
        users = [(name, hashlib.sha256(secret(name).encode()).hexdigest()) for name in ("ann", "mallory", "root")]
        text += CONFIG.format(folder=self.folder) + "".join(USER.format(name=name, hash=of) for name, of in users)
        self.config.write_text(text)
        self.begin()

    def begin(self):
        self.spawn()
        self.wait()

    def restart(self):
        """Another life, after an end without a warning."""
        self.kill()
        self.begin()

    def resident(self):
        """Memory that is no file's, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) * KIB

    def disk(self):
        """Bytes that the store and the files of large messages take."""
        files = (file for folder in ("store", "large") for file in (self.folder / folder).glob("*"))
        return sum(file.stat().st_blocks * 512 for file in files)

    def operate(self, operation, name="root"):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/operations", json.dumps(operation).encode(),
            {"Authorization": f"Bearer {secret(name)}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=WAIT) as answer:
            return json.load(answer)

    def metric(self, name):
        headers = {"Authorization": f"Bearer {secret('root')}"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/metrics", headers=headers)
        with urllib.request.urlopen(request, timeout=WAIT) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


def secret(name):
    return f"{name}-secret"


def connect(name, **options):
    return Peer("1.2", login="", passcode=secret(name), **options)


class Ann(threading.Thread):
    """Sends herself messages until she is told to stop: how long each has taken, and what was refused."""

    def __init__(self):
        super().__init__(daemon=True)
        self.peer, self.seconds, self.failure, self.ends = connect("ann"), [], None, threading.Event()
        self.peer.subscribe("/queue/ann.own")
        self.start()

    def run(self):
        try:
            while not self.ends.is_set():
                begun = time.monotonic()
                self.peer.publish("/queue/ann.own", "hello", headers=PERSISTENT)
                assert self.peer.next().body == "hello"
                self.seconds.append(time.monotonic() - begun)
        except Exception as error:  # noqa: BLE001
            errors = self.peer.listener.of["error"]
            self.failure = errors.get_nowait().body if not errors.empty() else repr(error)

    def end(self):
        # So many that one in a hundred is more than one.
        until(lambda: self.failure or len(self.seconds) > 300, WAIT * 6)
        self.ends.set()
        self.join(WAIT)
        assert self.failure is None, self.failure
        # What was new to her goes as well.
        self.peer.publish("/queue/ann.new", "new", headers=PERSISTENT)
        self.peer.subscribe("/queue/ann.new")
        assert self.peer.next().body == "new"
        self.peer.close()
        late = sorted(self.seconds)[len(self.seconds) * 99 // 100]
        assert late < LATE_SECONDS, (len(self.seconds), late)


@pytest.fixture(params=[1, 2])
def own(request, monkeypatch):
    """The server, with Ann at work; at the end all of hers was as always."""
    server = Served(request.param)
    monkeypatch.setattr(conftest, "HOST", "127.0.0.1")
    monkeypatch.setattr(conftest, "PORT", str(server.port))
    server.ann = Ann()
    yield server
    try:
        server.ann.end()
        server.end()
    finally:
        server.close(keep=False)


class Refused(Exception):
    """The server has said ERROR."""

    def __init__(self, frame):
        super().__init__(frame.body)
        self.code, self.text = frame.headers["code"], frame.body


def answer(peer, id):
    """Waits for a receipt, or raises what was said instead."""
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        try:
            assert peer.listener.of["receipt"].get(timeout=0.05).headers["receipt-id"] == id
            return
        except conftest.queue.Empty:
            if not peer.listener.of["error"].empty():
                raise Refused(peer.listener.of["error"].get()) from None
    raise AssertionError("no answer")


def fill(destination, size, count=100_000, **headers):
    """Mallory sends until he is refused, to one queue after the other: how many were taken, and why no more were."""
    peer, sent = connect("mallory"), 0
    try:
        for sent in range(count):
            id = conftest.unique("r")
            body = f"{sent} ".ljust(size, ".")
            peer.connection.send(destination(sent), body, receipt=id, headers=headers)
            answer(peer, id)
    except Refused as refused:
        return sent, refused
    finally:
        peer.close()
    return count, None


def check_full(refused, code="account-full", said="queues.principal_bytes_max"):
    assert refused is not None, "it is not bounded"
    assert refused.code == code and said in refused.text, (refused.code, refused.text)


def until(attempt, seconds=WAIT):
    deadline = time.monotonic() + seconds
    while not (found := attempt()):
        assert time.monotonic() < deadline, "nothing has changed"
        time.sleep(0.02)
    return found


def drain(name, queues):
    """Takes all that is there, so that the queues are empty."""
    peer = connect(name)
    for queue in queues:
        peer.subscribe(queue)
    while not conftest.is_quiet(peer):
        pass
    peer.close()


def test_who_fills_his_account_is_told_so_and_others_go_on(own):
    queues = [f"/queue/mallory.{number}" for number in range(20)]
    sent, refused = fill(lambda number: queues[number % 20], 16 * KIB, **PERSISTENT)
    check_full(refused)
    # Two shards know of each other what was there a moment ago.
    assert 150 <= sent <= 300, sent
    assert own.disk() < 6 * BYTES_MAX
    # Whichever queue it is, and by another protocol.
    for destination in (queues[7], "/queue/mallory.new"):
        check_full(fill(lambda _, to=destination: to, 16 * KIB, count=1, **PERSISTENT)[1])
    status, text = post(own, "mallory", "mallory.3", b"x" * 16 * KIB)
    assert (status, json.loads(text)["code"]) == (503, "account-full")
    shown = own.operate({"do": "queue", "path": "mallory/0"})
    assert (shown["owner"], shown["owner_bytes_max"], shown["full"]) == ("mallory", BYTES_MAX, True)
    assert shown["owner_bytes"] > BYTES_MAX * 9 // 10
    assert own.operate({"do": "queue", "path": "ann/own"})["owner"] == "ann"
    # Metrics are as of a moment ago.
    until(lambda: own.metric("tiderace_queue_quota_refused_total") >= 4)
    until(lambda: own.metric("tiderace_queue_owners_full") >= 1)
    # Service resumes as soon as some are taken.
    drain("mallory", queues[:10])
    until(lambda: fill(lambda _: queues[7], 16 * KIB, count=1)[1] is None)


def known(own, path):
    """A queue, once its home knows what all homes have of its owner."""
    shown = own.operate({"do": "queue", "path": path})
    return shown if shown["owner_bytes"] > BYTES_MAX * 8 // 10 else None


def test_what_he_holds_is_known_again_after_a_kill(own):
    sent, refused = fill(lambda number: f"/queue/mallory.{number % 5}", 16 * KIB, **PERSISTENT)
    check_full(refused)
    own.ann.end()
    own.restart()
    own.ann = Ann()
    # Homes tell each other at their first ticks.
    for number in range(5):
        shown = until(lambda: known(own, f"mallory/{number}"))
        assert shown["owner"] == "mallory", shown
    more, refused = fill(lambda number: f"/queue/mallory.{number % 5}", 16 * KIB, **PERSISTENT)
    check_full(refused)
    assert more <= sent // 10, (sent, more)
    drain("mallory", [f"/queue/mallory.{number}" for number in range(5)])
    until(lambda: fill(lambda _: "/queue/mallory.0", 16 * KIB, count=1, **PERSISTENT)[1] is None)


def post(server, name, queue, body, connection=None):
    """Status and text of a message that is sent by REST."""
    connection = connection or http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT)
    headers = {"Authorization": f"Bearer {secret(name)}", "Content-Type": "application/octet-stream"}
    connection.request("POST", f"/queues/{queue.replace('.', '/')}", body, headers)
    response = connection.getresponse()
    return response.status, response.read().decode()


def test_ten_thousand_names_of_queues_are_bounded(own):
    before = own.resident()
    connection = http.client.HTTPConnection("127.0.0.1", own.port, timeout=WAIT)
    answers = [post(own, "mallory", f"name.{number}", b"x", connection) for number in range(10_000)]
    connection.close()
    taken = sum(status == 200 for status, _ in answers)
    assert QUEUES_MAX <= taken <= 2 * QUEUES_MAX
    refused = [(status, json.loads(text)) for status, text in answers if status != 200]
    assert {(status, found["code"]) for status, found in refused} == {(503, "account-full")}
    assert "queues.principal_queues_max" in refused[0][1]["message"]
    assert own.resident() - before < 64 * MIB
    # Nor by consuming from them.
    peer, made = connect("mallory"), 0
    with pytest.raises(Refused) as refused:
        for made in range(2 * QUEUES_MAX + 1):
            peer.connection.subscribe(f"/queue/consumed.{made}", id=str(made), headers={"receipt": f"s{made}"})
            answer(peer, f"s{made}")
    assert refused.value.code == "account-full"
    assert made + taken <= 2 * QUEUES_MAX
    peer.close()


def test_messages_for_a_time_that_is_far_off_are_bounded(own):
    sent, refused = fill(lambda number: f"/queue/later.{number % 50}", 4 * KIB, **PERSISTENT, delay=str(29 * 86_400_000))
    check_full(refused)
    assert 500 <= sent <= 1_100, sent


def test_names_of_groups_by_the_thousand_are_bounded(own):
    before = own.resident()
    peer = connect("mallory")
    # A consumer that takes what it gets and never settles any of it.
    peer.subscribe("/queue/grouped.*", ack="client-individual", headers={"credit": "100000,0"})
    sender, sent, refused = connect("mallory"), 0, None
    try:
        for sent in range(50_000):
            headers = {"message_group": f"{sent}".rjust(250, "g")}
            sender.connection.send(f"/queue/grouped.{sent % 20}", "x", receipt=f"g{sent}", headers=headers)
            if sent % 500 == 499:
                # Receipts come in the order of what was sent.
                while sender.listener.of["receipt"].get(timeout=WAIT).headers["receipt-id"] != f"g{sent}":
                    pass
    except (conftest.queue.Empty, conftest.stomp.exception.StompException, OSError):
        # The connection may have ended while this was written.
        refused = Refused(sender.listener.of["error"].get(timeout=WAIT))
    check_full(refused)
    assert sent < 20_000
    assert own.resident() - before < 64 * MIB
    for one in (peer, sender):
        one.close()


def test_selectors_by_the_thousand_disturb_nobody(own):
    peer = connect("mallory")
    for number in range(3_000):
        headers = {"selector": f"colour = '{number}' AND size > {number}"}
        peer.connection.subscribe("/queue/selected", id=str(number), headers=headers)
    for number in range(300):
        peer.connection.send("/queue/selected", "x", headers={"colour": "none", "size": "1"})
    peer.publish("/queue/selected", "the last", headers={"colour": "7", "size": "8"})
    assert peer.next().body == "the last"
    peer.close()


def test_a_thousand_uploads_that_do_not_go_on_are_bounded(own):
    before, sockets, refused = own.resident(), [], 0
    begun = encode("CONNECT", {"accept-version": "1.2", "host": "localhost", "token": secret("mallory")})
    head = f"SEND\ndestination:/queue/mallory.large\ncontent-length:{MIB}\n\n".encode()
    try:
        for _ in range(1_000):
            one = socket.create_connection(("127.0.0.1", own.port), timeout=WAIT)
            one.sendall(begun)
            assert one.recv(KIB).startswith(b"CONNECTED")
            # As much as makes a file of it.
            one.sendall(head + b"x" * 66 * KIB)
            sockets.append(one)
        # All but some are told, whichever they are.
        waiting, deadline = {one: b"" for one in sockets}, time.monotonic() + WAIT
        while refused < 1_000 - 2 * UPLOADS_MAX and time.monotonic() < deadline:
            for one in select.select(list(waiting), [], [], 0.1)[0]:
                said = waiting[one] = waiting[one] + one.recv(64 * KIB)
                if b"code:large-messages-full" in said:
                    del waiting[one]
                    refused += 1
        assert refused >= 1_000 - 2 * UPLOADS_MAX, (refused, set(waiting.values()))
        until(lambda: own.metric("tiderace_large_messages_arriving") == UPLOADS_MAX)
        # Hers arrive meanwhile.
        ann = connect("ann")
        ann.publish("/queue/ann.large", "y" * (512 * KIB))
        ann.subscribe("/queue/ann.large")
        assert len(ann.next().body) == 512 * KIB
        ann.close()
        assert own.resident() - before < 128 * MIB
    finally:
        for one in sockets:
            one.close()


def test_large_persistent_messages_are_bounded_also_after_a_kill(own):
    sent, refused = fill(lambda number: f"/queue/mallory.large.{number % 3}", 1_000_000, **PERSISTENT)
    check_full(refused, "large-messages-full", "")
    assert 10 <= sent <= 17, sent
    own.ann.end()
    own.restart()
    own.ann = Ann()
    more, refused = fill(lambda _: "/queue/mallory.large.0", 1_000_000, **PERSISTENT)
    check_full(refused, "large-messages-full", "")
    assert more <= 2, "what he had counts"
    ann = connect("ann")
    ann.publish("/queue/ann.large", "y" * (512 * KIB), headers=PERSISTENT)
    ann.close()
    assert own.disk() < 64 * MIB
