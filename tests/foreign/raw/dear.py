"""What the dear cases share: a server of their own, an honest client beside each case, and the table of results.

A case sends at most a megabyte that is meant to cost the server as much as possible, over as many sessions as it likes.
An honest client (`paced.py`) meanwhile sends 20 messages a second by STOMP to itself on each shard. It is judged by
work: the most units that any turn has spent (`tiderace_work_turn_most`), which does not depend on the machine. How long
the honest client's messages took stands in the table.

To add cases: a function that returns the sockets it has opened, below the decorator `@dear(group, name)`. See `dear_values.py`.
"""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from wire import Client, address

BYTES_MAX = 1_000_000
"""What one case may send, in all and over all its sessions."""
TURN_UNITS_MAX = 10 * 2**20
"""The budget of a turn and the price of the dearest operation: TURN_WORK and PRICE_MAX in core/broker/src/work.rs."""
SHARDS = 2
BAR_MILLISECONDS = 50
"""What an honest client may wait more, at the 99th percentile."""
SECONDS = float(os.environ.get("DEAR_SECONDS", "2"))
"""How long the honest client is watched in each case, from the attack on; 60 for the table."""
CASES = []
RESULTS = []


class Case:
    def __init__(self, group, sends, attack):
        self.group, self.sends, self.attack = group, sends, attack

    def __repr__(self):
        return f"{self.group}-{self.sends}"


def dear(group, sends):
    """Registers the function below it: it prepares what it needs, then yields once, attacks, and returns its sockets."""

    def register(attack):
        CASES.append(Case(group, sends, attack))
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
        }.items():
            value = value if value.isdigit() else f'"{value}"'
            config = re.sub(rf"^{name} = .*$", f"{name} = {value}", config, flags=re.MULTILINE)
        self.folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(self.folder.name) / "tiderace.toml"
        path.write_text(config)
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
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
        self.process.wait(30)
        self.folder.cleanup()


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


def resident_bytes():
    status = pathlib.Path(f"/proc/{os.environ['TIDERACE_PID']}/statm").read_text()
    return int(status.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run(case, paced):
    """Runs a case beside the honest client; what was measured."""
    attack = case.attack()
    next(attack)
    paced.tell("begin")
    time.sleep(min(SECONDS, 5))
    without = paced.tell("end")
    busy, units, deferred = busy_seconds(), metric("tiderace_work_total"), metric("tiderace_work_deferred_total")
    paced.tell("begin")
    began = time.monotonic()
    try:
        next(attack)
        sockets = []
    except StopIteration as done:
        sockets = done.value or []
    time.sleep(max(0.0, SECONDS - (time.monotonic() - began)))
    resident = resident_bytes()
    beside = paced.tell("end")
    result = {
        "without": without,
        "beside": beside,
        "busy": busy_seconds() - busy,
        "units": metric("tiderace_work_total") - units,
        "deferred": metric("tiderace_work_deferred_total") - deferred,
        "turn": metric("tiderace_work_turn_most"),
        "resident": resident,
    }
    for one in sockets:
        one.close()
    RESULTS.append((case, result))
    return result


def page():
    lines = [
        "# Dear inputs",
        "",
        "<!-- Written by `DEAR_SECONDS=60 DEAR_TABLE=docs/dear-inputs.md tests/foreign/run dear`; edit the cases in",
        "tests/foreign/raw/dear_*.py instead. -->",
        "",
        "What an honest client waits for its messages while somebody else sends at most a megabyte that is meant to cost the",
        f"server as much as possible. It sends 20 messages a second by STOMP to topics of {SHARDS} shards and hears them itself;",
        f"the times are from sending to hearing, the 99th percentile of {SECONDS:g} seconds from the attack on, and of the seconds",
        f"before it. The bar is {BAR_MILLISECONDS} ms more. *Worked* is the processor time of the server in that time, *units* what the",
        "work budget has charged, *deferred* how many operations had to wait for a later turn. Attacker, honest client and",
        "server share two processors.",
        "",
        "| # | by | input | 99 % without | 99 % beside | slowest | worked | units | deferred |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for number, (case, got) in enumerate(RESULTS, 1):
        without, beside = got["without"]["milliseconds"], got["beside"]["milliseconds"]
        lines.append(
            f"| {number} | {case.group} | {case.sends} | {without[1]:,.1f} ms | {beside[1]:,.1f} ms | {beside[2]:,.1f} ms "
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
