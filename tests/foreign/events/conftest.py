"""REST and Server-Sent Events of a running server, by curl, requests and sseclient.

A `Stream` reads in a thread of its own and puts what it reads into a queue, so that a test reads the
events in order. Waits only bound failure.
"""

import itertools
import json
import os
import queue
import subprocess
import threading
import time

import pytest
import requests
import sseclient

WAIT = float(os.environ.get("TIDERACE_WAIT", "10"))
BASE = "http://" + os.environ.get("TIDERACE_STOMP", "127.0.0.1:7800")
TOKEN = os.environ.get("TIDERACE_TOKEN", "robot-secret")
LOGIN, PASSCODE = os.environ.get("TIDERACE_LOGIN", "tide:tide-passcode").split(":", 1)
LIMITED = ("limited", "limited-passcode")
BEARER = {"Authorization": f"Bearer {TOKEN}"}

_serial = itertools.count(1)


def unique(prefix="t"):
    return f"{prefix}-ev-{os.getpid()}-{next(_serial)}"


def call(method, path, body=None, **fields):
    """One request by the token's owner; underscores in the names of fields stand for hyphens."""
    headers = BEARER | {name.replace("_", "-"): value for name, value in fields.items()}
    headers = {name: value for name, value in headers.items() if value is not None}
    return requests.request(method, BASE + path, data=body, headers=headers, timeout=WAIT)


def until(what, done):
    """Waits until something holds."""
    deadline = time.monotonic() + WAIT
    while not (got := done()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)
    return got


class Stream:
    """A stream of events. The first one says where it stands."""

    def __init__(self, query, accept="text/event-stream", **fields):
        headers = BEARER | {"Accept": accept} | {name.replace("_", "-"): value for name, value in fields.items()}
        self.response = requests.get(f"{BASE}/events?{query}", headers=headers, stream=True, timeout=60)
        assert self.response.status_code == 200, self.response.text
        self.inbox = queue.Queue()
        self.lines = accept == "application/x-ndjson"
        threading.Thread(target=self._read, daemon=True).start()
        self.first = self.next()

    def _read(self):
        try:
            if self.lines:
                for line in self.response.iter_lines(chunk_size=1):
                    self.inbox.put(json.loads(line))
            else:
                for event in sseclient.SSEClient(self.response).events():
                    self.inbox.put(event)
        except Exception as problem:  # the connection was closed, by either side
            self.inbox.put(problem)

    def next(self):
        got = self.inbox.get(timeout=WAIT)
        assert not isinstance(got, Exception), got
        return got

    def data(self, count):
        return [self.next().data for _ in range(count)]

    def close(self):
        self.response.close()


@pytest.fixture
def listen():
    opened = []

    def open_one(query, **options):
        opened.append(Stream(query, **options))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def topic():
    return unique("topic")


def curl(*arguments, stdin=b""):
    """Runs curl and gives its output: status, head and body."""
    command = ["curl", "-s", "-i", "--max-time", str(WAIT), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=WAIT + 5)
    return parts(done.stdout)


def curl_head(*arguments):
    """Runs curl until it has written the head of an answer that never ends: status, head and what is there of the body."""
    command = ["curl", "-s", "-i", "--max-time", str(WAIT), *arguments]
    said = b""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as running:
        while b"\r\n\r\n" not in said and (piece := running.stdout.read1(65536)):
            said += piece
        running.kill()
    assert b"\r\n\r\n" in said, said
    return parts(said)


def parts(said):
    """What curl has written, as status, head and body."""
    head, _, body = said.partition(b"\r\n\r\n")
    while head.startswith(b"HTTP/1.1 100"):
        head, _, body = body.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode(), body
