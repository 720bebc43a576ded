"""What lists and `tiderace top` cost a server with many clients and many topics: STOMP clients on loopback that are sent messages
all the while, and many topics with a value.

    python3 tests/foreign/lists/at_scale.py target/release/tiderace --connections 15000 --topics 1000000

Lists are asked for in random order, beside a request for nothing; spans with `top` alternate with spans without. The program
fails if a first page took longer than 300 ms, if more turns above 1.05 ms or above 4.19 ms came with a list than without, if `top`
took more than 0.5 % of a core of the server, or if clients did not get their messages.
It wants a machine with nothing else to do: turns that are interrupted are long as well, and with a list there are more of them.
"""

import argparse
import http.client
import json
import os
import random
import re
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from math import exp, lgamma, log

LISTS = {
    "sessions": "/manage/sessions",
    "sessions by backlog": "/manage/sessions?sort=backlog&limit=50",
    "sessions by age": "/manage/sessions?sort=since&limit=50",
    "sessions of a principal": "/manage/sessions?principal=nobody",
    "topics": "/manage/topics",
    "topics below a path": "/manage/topics?selector=scale/7/**&limit=500",
    "one level of topics": "/manage/topics?depth=1",
    "a topic": "/manage/topics/news%2F7",
    "queues": "/manage/queues",
    "services": "/manage/services",
    "subscriptions": "/manage/subscriptions",
    "alarms": "/manage/alarms",
}
GROUPS = 1000
# What is asked for beside the lists, to know what a request costs.
NOTHING = "no list"
PAGE_MAX = 0.300
# The bounds of the metric's buckets above which turns are counted, in seconds. The first is next to a millisecond: nearly all turns are
# much shorter, so that one which becomes longer by more than a millisecond comes above it.
LONG_TURNS = [2**20 / 1e9, 2**22 / 1e9]
# What is less likely than this to be chance is not taken for it.
CHANCE = 0.001
TOP_MAX = 0.005


class Server:
    """The server, and what it says of itself."""

    def __init__(self, program, directory):
        config = f"{directory}/tiderace.toml"
        with open(config, "w", encoding="utf-8") as file:
            file.write('[server]\nlisten = ["127.0.0.1:0"]\nshards = 2\n')
        self.process = subprocess.Popen([program, "serve", "--config", config], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            said = json.loads(line)
            if said.get("event") == "listening":
                host, port = said["address"].rsplit(":", 1)
                self.address = (host, int(port))
            if said.get("event") == "server-started":
                break
        threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()

    def get(self, target):
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        begun = time.monotonic()
        connection.request("GET", target)
        answer = connection.getresponse()
        body = answer.read()
        took = time.monotonic() - begun
        connection.close()
        assert answer.status == 200, (target, answer.status, body[:200])
        return body, took

    def turns(self):
        """Seconds of all turns, how many there were, and how many of them were longer than each of `LONG_TURNS`."""
        text = self.get("/metrics")[0].decode()
        seconds, count = (float(re.search(rf"^tiderace_turn_seconds_{what} (\S+)", text, re.M)[1]) for what in ("sum", "count"))
        buckets = re.findall(r'^tiderace_turn_seconds_bucket{le="([^"]+)"} (\S+)', text, re.M)
        short = {round(float(bound) * 1e9): float(number) for bound, number in buckets if bound != "+Inf"}
        return [seconds, count, *(count - short[round(bound * 1e9)] for bound in LONG_TURNS)]

    def cpu(self):
        """Seconds of all threads."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def frame(command, headers, body=b""):
    head = "".join(f"{name}:{value}\n" for name, value in headers.items())
    return f"{command}\n{head}\n".encode() + body + b"\0"


def read_until(client, word):
    answer = b""
    while word not in answer or not answer.endswith((b"\0", b"\0\n")):
        answer += client.recv(1 << 16) or sys.exit(f"a connection ended early: {answer!r}")
    return answer


CONNECT = frame("CONNECT", {"accept-version": "1.2", "host": "localhost"})


def connect(address, count):
    """Clients that have logged in and listen."""
    clients = []
    while len(clients) < count:
        some = [socket.create_connection(address) for _ in range(min(250, count - len(clients)))]
        for number, client in enumerate(some, len(clients)):
            group = f"/topic/news/{number % GROUPS}"
            client.sendall(CONNECT + frame("SUBSCRIBE", {"id": "0", "destination": group, "receipt": "0"}))
        for client in some:
            read_until(client, b"RECEIPT")
        clients += some
    return clients


def fill(address, topics):
    """Makes so many topics with a value."""
    client = socket.create_connection(address)
    client.sendall(CONNECT)
    read_until(client, b"CONNECTED")
    for first in range(0, topics, 1000):
        numbers = range(first, min(first + 1000, topics))
        values = [
            frame("SEND", {"destination": f"/topic/scale/{n % 100}/{n}", "retain": "set"}, b"%d" % n) for n in numbers
        ]
        last = frame("SEND", {"destination": "/topic/scale/last", "retain": "set", "receipt": "r"}, b"x")
        client.sendall(b"".join(values) + last)
        read_until(client, b"RECEIPT")
    client.close()


class Load(threading.Thread):
    """Sends each client a message now and then, and reads what comes."""

    def __init__(self, address, clients, rate):
        super().__init__(daemon=True)
        self.rate, self.sent, self.received, self.is_over = rate, 0, 0, threading.Event()
        self.failure = "the load has ended too soon"
        self.live = selectors.DefaultSelector()
        for client in clients:
            client.setblocking(False)
            self.live.register(client, selectors.EVENT_READ)
        self.publisher = socket.create_connection(address)
        self.publisher.sendall(CONNECT)
        read_until(self.publisher, b"CONNECTED")

    def run(self):
        due = time.monotonic()
        while not self.is_over.is_set():
            self.sent, due = self.sent + 1, due + 1 / self.rate
            self.publisher.sendall(frame("SEND", {"destination": f"/topic/news/{self.sent % GROUPS}"}, b"x" * 100))
            while (left := due - time.monotonic()) > 0:
                self.read(left)
        while self.read(1.0):
            pass
        self.failure = None

    def read(self, seconds):
        """Reads what is there, or comes within that time; whether something was."""
        ready = self.live.select(seconds)
        for key, _ in ready:
            data = key.fileobj.recv(1 << 16)
            if not data:
                raise ConnectionError("a client was dropped")
            self.received += data.count(b"MESSAGE\n")
        return bool(ready)


def of_lists(server, rounds):
    """The times of first pages, and for each of them what `Server.turns` counts from before it to after. Without a list the request is
    asked for four times as often, to know better what is usual."""
    targets = {**LISTS, NOTHING: "/livez"}
    times, turns = {name: [] for name in targets}, {name: [] for name in targets}
    for _ in range(rounds):
        for name in random.sample([*targets, *[NOTHING] * 3], len(targets) + 3):
            before = server.turns()
            times[name].append(server.get(targets[name])[1])
            turns[name].append([now - then for now, then in zip(server.turns(), before)])
    return times, turns


def has_more(counts, usual):
    """Whether there were more of something with a list than without, and than chance explains. Each span counts the same, since in
    each there is one request for the metrics, whose own turns are most of the long ones. If the list made no difference, each of
    the turns that were counted would have come in any of the spans with the same likelihood."""
    with_list, all_turns = int(sum(counts)), int(sum(counts) + sum(usual))
    share = len(counts) / (len(counts) + len(usual))
    likelihood = 0.0
    for count in range(with_list, all_turns + 1):
        ways = lgamma(all_turns + 1) - lgamma(count + 1) - lgamma(all_turns - count + 1)
        likelihood += exp(ways + count * log(share) + (all_turns - count) * log(1 - share))
    return with_list > 0 and likelihood < CHANCE


def of_top(program, server, spans, seconds):
    """Shares of a core that the server took with `top` and without."""
    shares = {"with": [], "without": []}
    host, port = server.address
    for _ in range(spans):
        for kind in random.sample(["with", "without"], 2):
            top = None
            if kind == "with":
                command = [program, "top", "-s", f"{host}:{port}", "--json"]
                top = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(1)
            before, begun = server.cpu(), time.monotonic()
            time.sleep(seconds)
            shares[kind].append((server.cpu() - before) / (time.monotonic() - begun))
            if top:
                assert top.poll() is None, "top has ended by itself"
                top.terminate()
                top.wait()
    return shares


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--connections", type=int, default=15_000)
    parser.add_argument("--topics", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=100, help="messages a second, each to a thousandth of the clients")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--spans", type=int, default=5, help="spans with top, and as many without")
    parser.add_argument("--seconds", type=float, default=10, help="of each of these spans")
    arguments = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as directory:
        server = Server(arguments.program, directory)
        try:
            sys.exit(measure(server, arguments))
        finally:
            server.process.terminate()
            server.process.wait()


def measure(server, arguments):
    begun = time.monotonic()
    clients = connect(server.address, arguments.connections)
    fill(server.address, arguments.topics)
    print(f"{len(clients)} clients and {arguments.topics} topics after {time.monotonic() - begun:.0f} s", flush=True)
    load = Load(server.address, clients, arguments.rate)
    load.start()
    shares = of_top(arguments.program, server, arguments.spans, arguments.seconds)
    times, turns = of_lists(server, arguments.rounds)
    load.is_over.set()
    load.join()
    for name, took in times.items():
        page = f"p50 {statistics.median(took) * 1e3:.1f} ms, at most {max(took) * 1e3:.1f} ms"
        seconds, count, *long = [statistics.mean(of) for of in zip(*turns[name])]
        each = f"{count:.1f} turns of {seconds / count * 1e3:.3f} ms each"
        print(f"{name}: {page}; {each}, {long[0]:.2f} above 1.05 ms and {long[1]:.2f} above 4.19 ms")
    medians = {kind: statistics.median(values) for kind, values in shares.items()}
    cost = medians["with"] - medians["without"]
    print(f"the server takes {medians['without']:.2%} of a core, {medians['with']:.2%} with top: {cost:.2%}")
    wanted = load.sent * arguments.connections // GROUPS
    print(f"{load.sent} messages were sent, {load.received} of {wanted} deliveries came")
    wrong = [load.failure] if load.failure else []
    if load.received < wanted * 0.99:
        wrong.append("messages are missing")
    if max(map(max, times.values())) > PAGE_MAX:
        wrong.append("a first page took too long")
    counts = {name: list(zip(*of))[2:] for name, of in turns.items()}
    longer = [name for name, of in counts.items() if any(map(has_more, of, counts[NOTHING]))]
    all_lists = [sum(map(list, of), []) for of in zip(*(of for name, of in counts.items() if name != NOTHING))]
    if any(map(has_more, all_lists, counts[NOTHING])):
        longer.append("all lists together")
    if longer:
        wrong.append(f"there are more turns above 1.05 or 4.19 ms with {', '.join(longer)}")
    if cost > TOP_MAX:
        wrong.append("top costs too much")
    print("; ".join(wrong) or "all as it has to be")
    return bool(wrong)


main()
