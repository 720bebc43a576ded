"""What the dear cases share: a server for each, an honest client beside it, and the table of results.

A case sends at most a megabyte that is meant to cost the server as much as possible, over as many sessions as it likes, and
reads what is answered. An honest client (`paced.py`) meanwhile sends 100 messages a second by STOMP to itself, to topics of
both shards. Two things are judged: what the honest client waits more than just before (`BAR_MILLISECONDS`), and the most
units of work that any turn has spent (`TURN_UNITS_MAX`). A case fails also if its attack did not get in: each says what is
answered to it, or which metrics it makes grow.

To add cases: a function that prepares one and returns an `Attack`, below the decorator `@dear(group, name, answers)`. See
`dear_values.py`.
"""

import json
import os
import pathlib
import re
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from wire import Client, address

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from ports import free_ports  # noqa: E402

BYTES_MAX = 1_000_000
"""What one case may send, in all and over all its sessions."""
TURN_UNITS_MAX = 10 * 2**20
"""The budget of a turn and the price of the dearest operation: TURN_WORK and PRICE_MAX in core/broker/src/work.rs."""
SHARDS = 2
BAR_MILLISECONDS = 50
"""What an honest client may wait more."""
SECONDS = float(os.environ.get("DEAR_SECONDS", "1"))
"""How long the honest client is watched in each case, from the attack on."""
PERCENT = 99 if SECONDS >= 10 else 95
"""Which percentile is judged. Of a minute of messages the bar lets sixty be later. The attack is over within seconds, so it is
judged by its first second: there the 99th percentile would be the slowest message, which says more of the machine than of the
server, and the 95th lets five be later. An input that blocks a shard again and again is above the bar, and so is one that
blocks it once for somewhat more than a tenth of a second."""
WITHOUT_SECONDS = min(SECONDS * 0.4, 6)
"""How long it is watched before it."""
CALM_SECONDS_MAX = 60
"""The processor time within which a server has done what is left over of a case."""
WAIT_SECONDS_MAX = 300
"""How long that may take on a busy machine, or a metric to change, or the first answer of a kind to come."""
CASES = []
RESULTS = []
DONE = "done"
"""The answer of an operation that was carried out."""
TOO_FAST = {"too-many-receipts", "too-many-calls"}
"""What is answered beside that to a client that asks for more at once than it may."""
_NAMES = pathlib.Path(__file__).parents[3] / "docs" / "close-codes.md"
_CODES = sorted(set(re.findall(r"^\| \d+ \| `([a-z0-9-]+)`", _NAMES.read_text(), re.MULTILINE)) - {DONE}, key=len, reverse=True)
_REFUSED = re.compile(rb"(?<![a-z-])(?<![Cc]ontrol: )(" + "|".join(_CODES).encode() + rb")")
"""A code of refusal, wherever it stands, but for the directive of `Cache-Control` that has the same name as one."""
_DONE = re.compile(rb'HTTP/1\.1 20\d|"ok":true|"version":|"more":|"events":')
SCANNED_BYTES_MAX = 4 * 2**20
TAIL_BYTES = 96
BEFORE_CODE_BYTES = 32
"""More than stands before a code in `_REFUSED`."""


class Case:
    """`answers` is what the attack may be answered: `DONE` and codes of refusal; None if it is not asked."""

    def __init__(self, group, sends, answers, attack):
        self.group, self.sends, self.answers, self.attack = group, sends, answers, attack

    def __repr__(self):
        return f"{self.group}-{self.sends}"


class Attack:
    """Prepared: what to send on which socket, the sockets that are only held open, or that end with the attack.

    `has` says what metrics have to be at least before it, `grows` by how much they have to grow with it, the honest client's
    messages aside. `last` is the code with which the server may end a session of it.
    """

    def __init__(self, sends=(), holds=(), ends=(), grows=None, has=None, last=None):
        self.sends, self.holds, self.ends, self.grows = list(sends), list(holds), list(ends), grows or {}
        self.has, self.last = has or {}, last
        assert sum(len(data) for _, data in self.sends) <= BYTES_MAX * 1.3


def dear(group, sends, *answers):
    """Registers the function below it: it prepares what it needs and returns an `Attack`."""

    def register(attack):
        CASES.append(Case(group, sends, set(answers), attack))
        return attack

    return register


def filled(pieces):
    """The pieces again and again, as long as they fit into a megabyte. They may be functions of their number."""
    out, size, number = [], 0, 0
    while True:
        piece = pieces(number) if callable(pieces) else pieces[number % len(pieces)]
        size += len(piece)
        if size > BYTES_MAX:
            return out
        out.append(piece)
        number += 1


class Server:
    """A server with the limits of a default installation, but for its rules and its memory."""

    def __init__(self):
        config = (pathlib.Path(__file__).parent.parent / "tiderace.toml").read_text()
        for name, value in {
            "message_bytes_max": "16 MiB",
            "messages_bytes_max": "256 MiB",
            "outbox_bytes_max": "16 MiB",
            "connections_per_ip_max": "5000",
            "subscriptions_per_session_max": "100000",
            "heart_beat_grace": "100",
            "transaction_bytes_max": "64 MiB",
            "memory_bytes_max": "64 MiB",
            "fragments_bytes_max": "16 MiB",
            "ping_interval": "60s",
            "ping_timeout": "60s",
        }.items():
            value = value if value.isdigit() else f'"{value}"'
            config = re.sub(rf"^{name} = .*$", f"{name} = {value}", config, flags=re.MULTILINE)
        self.folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(self.folder.name) / "tiderace.toml"
        path.write_text(config)
        [port] = free_ports(1)
        self.log = open(pathlib.Path(self.folder.name) / "server.log", "wb")
        command = [os.environ["TIDERACE_BINARY"], "serve", "--config", str(path), "--listen", f"127.0.0.1:{port}"]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        os.environ["TIDERACE_STOMP"] = f"127.0.0.1:{port}"
        os.environ["TIDERACE_WS"] = f"ws://127.0.0.1:{port}/stomp"
        os.environ["TIDERACE_PID"] = str(self.process.pid)
        for _ in range(400):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("the server did not start")

    def end(self):
        self.process.terminate()
        try:
            status = self.process.wait(30)
        finally:
            self.process.kill()
            self.folder.cleanup()
        assert status == 0, f"the server ended with status {status}"


def metric(name):
    """The sum of a metric's values."""
    host, port = address()
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=120) as page:
        text = page.read().decode()
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE))


class Paced:
    """The honest client: a process of its own, so that what an attack costs the attacker does not count."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, str(pathlib.Path(__file__).parent / "paced.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait(30)


def busy_seconds():
    total = 0
    for schedule in pathlib.Path(f"/proc/{os.environ['TIDERACE_PID']}/task").glob("*/schedstat"):
        total += int(schedule.read_text().split()[0])
    return total / 1e9


def become_calm():
    """Waits until the server has done all that it was asked for."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    begin = before = busy_seconds()
    while time.monotonic() < deadline and before - begin < CALM_SECONDS_MAX:
        time.sleep(0.02)
        now = busy_seconds()
        if now - before < 0.004 and metric("tiderace_work_waiting") == 0:
            return
        before = busy_seconds()
    raise AssertionError(f"after {before - begin:.0f} s of its processor time the server still has work from before")


def comes_to(name, least):
    """Whether a metric comes to be at least so much. What was sent may lie in sockets still, and shards write their metrics down
    some twenty times a second."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < deadline:
        if metric(name) >= least:
            return True
        time.sleep(0.02)
    return False


def more(result):
    """What the honest client has waited more, in milliseconds."""
    return judged(result["beside"]) - judged(result["without"])


def judged(measured):
    return measured[f"p{PERCENT}"]


class Answers:
    """What the server says to an attack."""

    def __init__(self):
        self.seen, self.bytes, self.closed, self.last = set(), 0, 0, b""
        self._tails = {}

    def take(self, connection, data):
        """Takes what a connection received. The end of what it received before is read again, for a code may be cut, but for the
        bytes at its head, which only say what stands before a code."""
        if not data:
            self.closed += 1
        if self.bytes < SCANNED_BYTES_MAX:
            text = self._tails.get(connection, b"") + data
            seen_before = BEFORE_CODE_BYTES if len(text) > len(data) + BEFORE_CODE_BYTES else 0
            self.seen.update(found[1].decode() for found in _REFUSED.finditer(text, seen_before))
            if _DONE.search(text):
                self.seen.add(DONE)
            self._tails[connection] = text[-TAIL_BYTES:]
        self.bytes += len(data)
        self.last = data or self.last


def carry_out(attack, seconds, wanted=()):
    """Sends what is to be sent as fast as the server takes it, and reads what it answers, for so long and until some answer that is
    wanted has come: in a thread that lets the server go first, for in earnest an attacker has processors of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(send_and_read, attack, seconds, set(wanted)).result()


def send_and_read(attack, seconds, wanted):
    own = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, own, min(19, os.getpriority(os.PRIO_PROCESS, own) + 10))
    answers, deadline = Answers(), time.monotonic() + seconds
    latest = deadline + (WAIT_SECONDS_MAX if wanted else 0)
    for one in attack.ends:
        one.close()
    with selectors.DefaultSelector() as selector:
        for one, data in [*attack.sends, *((held, b"") for held in attack.holds)]:
            one.setblocking(False)
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if data else 0)
            selector.register(one, events, memoryview(data))
        while (left := (deadline if answers.seen & wanted else latest) - time.monotonic()) > 0:
            for key, events in selector.select(min(left, seconds)):
                try:
                    go_on(selector, key, events, answers)
                except ConnectionError:
                    answers.closed += 1
                    selector.unregister(key.fileobj)
            if not selector.get_map():
                time.sleep(max(0.0, deadline - time.monotonic()))
                break
    return answers


def go_on(selector, key, events, answers):
    if events & selectors.EVENT_READ:
        data = key.fileobj.recv(262_144)
        answers.take(key.fileobj, data)
        if not data:
            selector.unregister(key.fileobj)
            return
    if events & selectors.EVENT_WRITE:
        rest = key.data[key.fileobj.send(key.data) :]
        selector.modify(key.fileobj, selectors.EVENT_READ | (selectors.EVENT_WRITE if rest else 0), rest)


def run(case, paced):
    """Runs a case beside the honest client; what was measured."""
    attack = case.attack()
    become_calm()
    misses = [f"{name} is {metric(name):g}, not {least}" for name, least in attack.has.items() if not comes_to(name, least)]
    paced.tell("begin")
    time.sleep(WITHOUT_SECONDS)
    without = paced.tell("end")
    names = ["tiderace_work_total", "tiderace_work_deferred_total", *attack.grows]
    before = {name: metric(name) for name in names}
    busy = busy_seconds()
    paced.tell("begin")
    answers = carry_out(attack, SECONDS, case.answers)
    beside = paced.tell("end")
    busy = busy_seconds() - busy
    grown = {name: metric(name) - before[name] for name in names}
    if "tiderace_messages_received_total" in grown:
        grown["tiderace_messages_received_total"] -= beside["count"]
    result = {
        "without": without,
        "beside": beside,
        "busy": busy,
        "units": grown["tiderace_work_total"],
        "deferred": grown["tiderace_work_deferred_total"],
        "turn": metric("tiderace_work_turn_most"),
        "answers": answers,
        "ended": 0 if attack.last in answers.seen else answers.closed,
        "misses": misses
        + [f"{name} grew by {grown[name]:g}" for name, least in attack.grows.items() if not grown_enough(grown[name], least)],
    }
    for one in [*(one for one, _ in attack.sends), *attack.holds]:
        # What is not sent yet is not waited for.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()
    RESULTS.append((case, result))
    return result


def grown_enough(grown, least):
    return grown >= least if least > 0 else grown <= least


def page():
    above = sum(more(got) > BAR_MILLISECONDS for _, got in RESULTS)
    lines = [
        "# Dear inputs",
        "",
        "<!-- Written by `DEAR_TABLE=docs/dear-inputs.md tests/foreign/run dear`; edit the cases in",
        "tests/foreign/raw/dear_*.py instead. -->",
        "",
        "What an honest client waits for its messages while somebody else sends at most a megabyte that is meant to cost the",
        f"server as much as possible. It sends 100 messages a second by STOMP to topics of {SHARDS} shards and hears them itself;",
        f"the times are from sending to hearing, the {PERCENT}th percentile of {SECONDS:g} seconds from the attack on, and of {WITHOUT_SECONDS:g}",
        f"seconds before it. The bar is {BAR_MILLISECONDS} ms more; rows above it: {above}. It is meant for the 99th percentile of a minute",
        "(`DEAR_SECONDS=60`), which lets sixty messages be later. The attack is over within seconds, so its first second is",
        "judged: by the 95th percentile, since the 99th would be the slowest of a hundred messages. An input that blocks a",
        "shard again and again is above the bar, and so is one that blocks it once for somewhat more than a tenth of a second.",
        "",
        "The time in which a thread of the server, or the client itself, was ready to run and had no processor is taken off:",
        "attacker, honest client and server share two processors. So is the time in which the kernel gives the server new pages,",
        "for which a virtual machine has to ask its host. *Slowest* is the slowest message with that time in it.",
        "*Worked* is the processor time of the server, *units* what the work budget has charged, *deferred* how many",
        "operations had to wait for a later turn, *answered* what the attacker was told. A row fails also if a turn was",
        f"charged more than {TURN_UNITS_MAX / 2**20:g} Mi units, or if what was sent did not get in.",
        "",
        f"| # | by | input | answered | {PERCENT} % without | {PERCENT} % beside | slowest | worked | units | deferred |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for number, (case, got) in enumerate(RESULTS, 1):
        without, beside = got["without"], got["beside"]
        lines.append(
            f"| {number} | {case.group} | {case.sends} | {', '.join(sorted(got['answers'].seen)) or 'nothing'} "
            f"| {judged(without):,.1f} ms | {judged(beside):,.1f} ms | {beside['slowest']:,.1f} ms "
            f"| {got['busy']:,.1f} s | {got['units'] / 1e6:,.1f} M | {got['deferred']:,.0f} |"
        )
    return "\n".join(lines) + "\n"


def served():
    """Whether a fresh client is served."""
    client = Client()
    client.login()
    client.ask("BEGIN", {"transaction": "alive"})
    client.close()
    return True
