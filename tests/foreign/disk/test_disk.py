"""A disk that is full or fails below a real server: who is refused, what goes on, and what is there afterwards.

The disk is the one that there is; `fault.c`, preloaded into the server, makes the store's directory small or bad. That
needs no rights and no file system of its own, so it is the same everywhere.
"""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "raw"), str(HERE.parent / "kill")]
from lives import Server  # noqa: E402
from wire import WAIT, Client, Closed  # noqa: E402

BINARY = os.environ["TIDERACE_BINARY"]
KIB, MIB = 1 << 10, 1 << 20
BODY = 4 * KIB
QUEUE, OTHER = "jobs/a", "jobs/b"
NO = "no ".ljust(60 * KIB, ".")
"""Longer than what may be left on a disk that has refused some messages."""
PERSISTENT_TOPICS = """
[[topic]]
match = "kept/**"
retain = true
persistent = true
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    library = tmp_path_factory.mktemp("fault") / "fault.so"
    command = ["cc", "-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o", library, HERE / "fault.c", "-ldl"]
    subprocess.run(command, check=True)
    return library


class Disk(Server):
    """A server whose store lies on a disk that is as is said."""

    def __init__(self, library, shards, more=""):
        super().__init__(BINARY, "always", shards)
        text = self.config.read_text().replace('memory_bytes_max = "64 KiB"', 'memory_bytes_max = "64 MiB"')
        self.config.write_text(text + more + PERSISTENT_TOPICS)
        self.control = self.folder / "control"
        self.faults = {
            "LD_PRELOAD": str(library),
            "DISK_DIRECTORY": str(self.folder.resolve() / "store"),
            "DISK_CONTROL": str(self.control),
        }

    def holds(self, text):
        new = self.control.with_suffix(".new")
        new.write_text(text)
        new.replace(self.control)

    def start(self):
        self.process = subprocess.Popen(
            [self.binary, "serve", "--config", self.config], env=os.environ | self.faults,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
        )
        self.wait()

    def restart_on_a_good_disk(self):
        self.kill()
        self.control.unlink(missing_ok=True)
        self.start()

    def client(self):
        client = Client(self.address)
        client.login(login=None, passcode=None)
        return client

    def http(self, path, body=None):
        """Status and text of the answer; a body is posted."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", body, timeout=WAIT) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def rest(self, queue, body):
        return self.http(f"/queues/{queue}?persistent=true", body.encode())

    def native(self, queue, body):
        """What the command line says, which speaks the native protocol."""
        command = [self.binary, "pub", queue, body, "--queue", "--persistent", "-s", f"127.0.0.1:{self.port}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=WAIT)

    def metric(self, name):
        lines = self.http("/metrics")[1].splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


@pytest.fixture
def disk(library, request):
    servers = []

    def make(*arguments, **named):
        server = Disk(library, *arguments, **named)
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.close(keep=False)


def until(attempt):
    """What it gives as soon as that is something."""
    deadline = time.monotonic() + WAIT
    while not (found := attempt()):
        assert time.monotonic() < deadline, "nothing has changed"
        time.sleep(0.02)
    return found


def sent(server, destination, text, **headers):
    """None when it was confirmed, or the ERROR."""
    client = server.client()
    try:
        client.send("SEND", {"destination": destination, "receipt": "r", **headers}, text)
        frame = client.frame()
        assert frame.command in ("RECEIPT", "ERROR"), frame
        return frame if frame.command == "ERROR" else None
    finally:
        client.close()


def kept(server, queue, text):
    return sent(server, f"/queue/{queue}", text, persistent="true")


class Filling:
    """Sends to a queue with some receipts under way until it is refused, or so often."""

    def __init__(self, server, queue, count=1 << 20, window=8):
        client = server.client()
        self.sent, self.confirmed, self.error = 0, set(), None
        try:
            while len(self.confirmed) < count and not self.error:
                while self.sent < min(count, len(self.confirmed) + window):
                    headers = {"destination": f"/queue/{queue}", "persistent": "true", "receipt": self.sent}
                    client.send("SEND", headers, f"{self.sent} ".ljust(BODY, "."))
                    self.sent += 1
                frame = client.frame()
                if frame.command == "ERROR":
                    self.error = frame
                else:
                    self.confirmed.add(int(frame["receipt-id"]))
        except (Closed, OSError) as error:
            raise AssertionError(f"closed without a word: {error}, {server.tail()}") from None
        finally:
            client.close()

    @property
    def unknown(self):
        """Neither confirmed nor certainly refused."""
        return set(range(self.sent)) - self.confirmed


def settle(server, queue, count):
    """Takes so many messages and settles each with a receipt."""
    client = server.client()
    client.subscribe(f"/queue/{queue}", ack="client-individual")
    taken = set()
    for _ in range(count):
        message = client.message()
        client.ask("ACK", {"id": message["ack"]})
        taken.add(message.text.split(" ", 1)[0])
    client.close()
    return taken


def drain(server, queue):
    """Everything that is there, in its order."""
    sent(server, f"/queue/{queue}", "end")
    client = server.client()
    client.subscribe(f"/queue/{queue}")
    found = []
    while (text := client.message().text) != "end":
        found.append(text.split(" ", 1)[0])
    client.close()
    return found


def check_refused(server, code="store-unavailable"):
    """Whoever wants something kept is refused with that code, by every protocol; all else goes on."""
    for error in (kept(server, QUEUE, NO), kept(server, OTHER, NO), sent(server, "/topic/kept/a", NO)):
        assert error and error["code"] == code, error
        assert error["receipt-id"] == "r"
    status, text = server.rest(OTHER, NO)
    assert status == 503 and json.loads(text)["code"] == code, text
    done = server.native(OTHER, NO)
    assert done.returncode != 0 and code in done.stderr, done
    assert sent(server, f"/queue/{OTHER}/memory", "yes") is None
    assert sent(server, "/topic/other", "yes") is None


@pytest.mark.parametrize("shards", [1, 2])
def test_a_full_disk_refuses_and_loses_nothing_and_service_resumes(disk, shards):
    server = disk(shards)
    server.holds(f"capacity {6 * MIB}")
    server.start()
    filling = Filling(server, QUEUE)
    assert filling.error["code"] == "store-unavailable" and "no room" in filling.error.text
    assert len(filling.confirmed) > 400
    check_refused(server)
    assert server.metric("tiderace_store_refused_total") > 0
    # What makes room goes on.
    settled = settle(server, QUEUE, 100)
    server.holds(f"capacity {64 * MIB}")
    until(lambda: kept(server, QUEUE, "stomp") is None)
    until(lambda: sent(server, "/topic/kept/a", "value") is None)
    assert server.rest(QUEUE, "rest")[0] == 200
    assert server.native(QUEUE, "native").returncode == 0
    server.restart_on_a_good_disk()
    found = drain(server, QUEUE)
    numbers = [int(text) for text in found if text.isdigit()]
    expected = filling.confirmed - {int(number) for number in settled}
    assert set(numbers) >= expected, f"lost: {sorted(expected - set(numbers))[:20]}"
    assert set(numbers) <= expected | filling.unknown
    assert numbers == sorted(set(numbers))
    assert [text for text in found if not text.isdigit()] == ["stomp", "rest", "native"]
    status, text = server.http("/topics/kept/a")
    assert status == 200 and "value" in text


def test_room_comes_from_consuming_alone(disk):
    server = disk(1)
    server.holds(f"capacity {6 * MIB}")
    server.start()
    filling = Filling(server, QUEUE)
    assert filling.error["code"] == "store-unavailable"
    settle(server, QUEUE, len(filling.confirmed) * 9 // 10)
    until(lambda: kept(server, OTHER, "there is room") is None)
    server.restart_on_a_good_disk()
    assert drain(server, OTHER) == ["there"]


@pytest.mark.parametrize("fault", ["write", "sync"])
def test_a_disk_that_fails_refuses_until_the_next_start_and_loses_nothing(disk, fault):
    server = disk(2)
    server.holds("")
    server.start()
    filling = Filling(server, QUEUE, count=50)
    settled = {int(number) for number in settle(server, QUEUE, 10)}
    server.holds(f"fail {fault}")
    error = kept(server, QUEUE, "unknown")
    assert error["code"] == "store-unavailable", error
    check_refused(server)
    assert server.http("/readyz")[0] == 503
    # Nobody knows what the disk has, so nothing is taken until the server has looked.
    server.holds("")
    check_refused(server)
    server.restart_on_a_good_disk()
    found = drain(server, QUEUE)
    assert found[: 50 - len(settled)] == [str(number) for number in sorted(filling.confirmed - settled)]
    assert set(found[50 - len(settled):]) <= {"unknown", "no"}
    assert server.http("/readyz")[0] == 200
    assert kept(server, QUEUE, "again") is None


def test_queues_that_fill_their_share_disturb_nobody_else(disk):
    server = disk(2)
    text = server.config.read_text()
    server.config.write_text(text.replace("[store]", '[store]\nqueue_bytes_max = "1 MiB"'))
    server.holds("")
    server.start()
    filling = Filling(server, QUEUE)
    assert filling.error["code"] == "store-unavailable"
    assert "store.queue_bytes_max" in filling.error.text, filling.error
    # What is under way when the share is filled is taken: a few receipts.
    assert 200 < len(filling.confirmed) < 300
    assert server.metric("tiderace_store_queues_full") == 1
    assert server.rest(OTHER, "no")[0] == 503
    assert sent(server, "/topic/kept/a", "a value") is None
    server.restart_on_a_good_disk()
    assert kept(server, OTHER, "no")["code"] == "store-unavailable", "it is known at the start"
    settle(server, QUEUE, len(filling.confirmed) // 2)
    until(lambda: kept(server, OTHER, "there is room") is None)
    assert drain(server, OTHER) == ["there"]
