"""What the hostile cases share: sending without being stopped by a closing peer, naming what came
back, measuring the server's memory, and the table of results.

A case is a function that attacks once and returns its outcome as a short text: the code of the
ERROR, the HTTP status, the WebSocket close code, or `closed`. The decorator records what is
expected, as a regular expression over the whole outcome.
"""

import os
import pathlib
import re
import socket
import struct
import time

from limits import MESSAGES_BYTES_MAX
from wire import WAIT, Client

CASES = []
RESULTS = []
RESIDENT_MAX = MESSAGES_BYTES_MAX + 128 * 2**20
"""Bytes that may be resident at any time during a case: the whole budget, and as much as README promises beside it.
The attacks on memory send or declare several times as much."""
GROWTH_MAX = 96 * 2**20
"""Bytes that resident memory may have grown by after a case that leaves nothing behind."""


class Case:
    def __init__(self, group, sends, expected, attack):
        self.group, self.sends, self.expected, self.attack = group, sends, expected, attack
        self.beside = False
        """Whether a well-behaved connection is to be watched meanwhile."""
        self.fills = False
        """Whether what it leaves behind may have the whole budget."""

    def __repr__(self):
        return f"{self.group}-{self.sends}"


def case(group, sends, expected, beside=False, fills=False):
    """Registers the function below it as an attack."""

    def register(attack):
        CASES.append(Case(group, sends, expected, attack))
        CASES[-1].beside, CASES[-1].fills = beside, fills
        return attack

    return register


def simple(group, expected, login=True, **attacks):
    """Registers attacks that are nothing but bytes: `name="bytes"`; `_` reads as a space, `__` as a hyphen."""
    for name, data in attacks.items():
        data = data.encode() if isinstance(data, str) else data
        attack = lambda data=data: outcome_of(data, login)
        CASES.append(Case(group, name.replace("__", "-").replace("_", " "), expected, attack))


def outcome_of(data, login=True, wait=WAIT):
    """Sends the bytes on a fresh connection and names what comes back."""
    client = Client()
    try:
        if login:
            client.login()
        push(client, data)
        return finish(client, wait)
    finally:
        client.close()


def push(client, data, seconds=WAIT):
    """Sends bytes, or the chunks of an iterable, until done, refused or held back; says which."""
    client.socket.settimeout(seconds)
    try:
        for chunk in [data] if isinstance(data, bytes) else data:
            client.socket.sendall(chunk)
    except TimeoutError:
        return "held back"
    except OSError:
        return "refused"
    return "taken"


def finish(client, wait=WAIT):
    """Reads to the end of the connection and names the last thing said."""
    try:
        rest = client.drain(wait)
    except TimeoutError:
        return f"open after {name(bytes(client.buffer))}" if client.buffer else "open, no answer"
    return name(rest)


def name(data):
    """A short name for what a server said."""
    if found := re.search(rb"ERROR\n(?:.*\n)*?code:([a-z0-9-]+)\n", data):
        return found[1].decode()
    if b"ERROR\n" in data:
        return "ERROR without code"
    if found := re.match(rb"HTTP/1\.1 (\d+)", data):
        return f"HTTP {found[1].decode()}"
    if b"spoken here" in data:
        return "unknown-protocol"
    if b"PROXY protocol is not taken" in data:
        return "proxy-not-trusted"
    if data[:2] == b"\x15\x03":
        return "TLS alert"
    if not data.strip(b"\r\n"):
        return "closed"
    return f"{data[:60]!r}"


def websocket_outcome(websocket, wait=WAIT):
    """Reads to the end of an upgraded connection and names the close code."""
    deadline = time.monotonic() + wait
    try:
        while (got := websocket.receive(max(0.01, deadline - time.monotonic()))) is not None:
            if got[0] == 8:
                return f"close {struct.unpack('!H', got[1][:2])[0]}" if len(got[1]) >= 2 else "close"
    except TimeoutError:
        return "open"
    return "closed"


def served(source=None):
    """Whether the server answers a fresh login and a receipt."""
    try:
        client = Client(source=source)
        client.login()
        client.ask("BEGIN", {"transaction": "alive"})
        client.close()
        return True
    except Exception as problem:  # whatever it is, the test reports it
        return repr(problem)


def resident_bytes():
    """The server's resident memory, or None if its pid is not known."""
    pid = os.environ.get("TIDERACE_PID")
    if not pid:
        return None
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def begin_peak():
    """From now on the peak of the server's resident memory is that of what follows."""
    if pid := os.environ.get("TIDERACE_PID"):
        pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_bytes():
    """The most resident memory since then, or None if the server's pid is not known."""
    pid = os.environ.get("TIDERACE_PID")
    if not pid:
        return None
    found = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024


def busy_seconds():
    """The processor time that the server has used, or None if its pid is not known."""
    pid = os.environ.get("TIDERACE_PID")
    if not pid:
        return None
    total = 0
    for schedule in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        total += int(schedule.read_text().split()[0])
    return total / 1e9


def record(case, outcome, peak, grown, took, worked, beside=None):
    """`beside` is what the companion measured meanwhile, if it was there."""
    RESULTS.append((case, outcome, peak, grown, took, worked, beside))


def page():
    """The results as a page of the documentation."""
    lines = [
        "# Hostile inputs",
        "",
        "<!-- Written by `HOSTILE_TABLE=docs/hostile-inputs.md tests/foreign/run hostile`; edit the cases in",
        "tests/foreign/raw/hostile*.py instead. -->",
        "",
        "What a client gets from a running server for malformed or hostile input, as `tests/foreign/run hostile` saw it:",
        "the code of the ERROR frame, the status of the HTTP answer, the code of the WebSocket close, or what else became",
        "of the connection. The server has an address space of 1 GiB and a memory budget (`memory.messages_bytes_max`) of",
        f"{mib(MESSAGES_BYTES_MAX)}. At no time may more than {mib(RESIDENT_MAX)} be resident: the budget, and 128 MiB for everything beside it.",
        "After each case the server must answer a fresh login, and unless the case leaves something behind its resident",
        f"memory may have grown by no more than {mib(GROWTH_MAX)}.",
        most_resident(),
        "",
        "*Took* is the time of the whole case for the client, waits for deadlines included; *worked* is the processor time of",
        "all threads of the server meanwhile; *peak* is the most resident memory during the case; *grew* is resident memory",
        "from before to after it, negative where some was given back.",
        "",
        *HEAD,
    ]
    ordered = sorted(RESULTS, key=lambda result: result[0].beside)
    for number, (case, outcome, peak, grown, took, worked, beside) in enumerate(ordered, 1):
        if case.beside and (number == 1 or not ordered[number - 2][0].beside):
            lines += beside_others()
        between = "" if beside is None else "".join(f"{value:,.1f} ms | " for value in beside["milliseconds"])
        measured = f"{between}{milliseconds(took)} | {milliseconds(worked)} | {mib(peak)} | {kib(grown)}"
        lines.append(f"| {number} | {' | '.join(cells(case))} | {cell(outcome)} | {measured} |")
    return "\n".join(lines) + "\n"


HEAD = [
    "| # | against | input | the client got | took | worked | peak | grew |",
    "|---|---|---|---|---|---|---|---|",
]
UNDISTURBED = []
"""What the companion measured before anything was attacked."""


def beside_others():
    """The head of the table of cases that ran beside a well-behaved connection."""
    median, slow, slowest = (UNDISTURBED or [{"milliseconds": [0, 0, 0]}])[0]["milliseconds"]
    return [
        "",
        "## RSocket, beside a connection that behaves",
        "",
        "During each of these a client on a connection of its own sent an echo every 5 ms and waited for the answer; it must get",
        "them all. *Median*, *99 %* and *slowest* are the times that its echoes took; with nothing else to do for the server they",
        f"were {median:,.1f} ms, {slow:,.1f} ms and {slowest:,.1f} ms. Attacker, companion and server share two processors.",
        "",
        "| # | against | input | the attacker got | median | 99 % | slowest | took | worked | peak | grew |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]


def cells(case):
    """What names a case in the page."""
    return cell(case.group), cell(case.sends)


def names_of_page():
    """Of all cases, in the order of the page."""
    return [cells(case) for case in sorted(CASES, key=lambda case: case.beside)]


def cell(text):
    return text.replace("|", "\\|")


def named_in(page):
    """The names of the cases of such a page, in their order."""
    return re.findall(r"^\| \d+ \| (.*?) \| (.*?) \| .* \|$", page, re.MULTILINE)


def milliseconds(seconds):
    return "" if seconds is None else f"{seconds * 1000:,.1f} ms" if seconds < 0.1 else f"{seconds * 1000:,.0f} ms"


def kib(count):
    return "" if count is None else f"{count / 2**10:,.0f} KiB"


def most_resident():
    known = [(peak, case) for case, _, peak, *_ in RESULTS if peak is not None]
    if not known:
        return "It was not measured here."
    peak, case = max(known, key=lambda one: one[0])
    return f"The most that was resident were {mib(peak)}, in \"{case.sends}\"."


def mib(count):
    return "" if count is None else f"{count / 2**20:.0f} MiB"


def chunks(piece, total):
    """The piece again and again until so many bytes are reached."""
    block = piece * max(1, 65536 // len(piece))
    for _ in range(total // len(block) + 1):
        yield block


def tcp(source=None):
    """A plain socket to the server's port."""
    return Client(source=source)


def small_window(client):
    """Makes the kernel hold little for this client, so that not reading is felt soon."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
