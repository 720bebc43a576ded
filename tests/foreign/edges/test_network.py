"""An edge and its source with a network between them that cuts, loses and delays packets.

Both are in network namespaces of their own: this process is in that of the edge (the suite begins it there), the source is in
another one. The clients are stomp.py at the edge and `tiderace pub` at the source.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time

import pytest
import stomp

BINARY = os.environ["TIDERACE_BINARY"]
WAIT = float(os.environ.get("TIDERACE_WAIT", "10"))
EDGE, SOURCE = "10.213.0.1", "10.213.0.2"
LIFE = "[native]\nping_interval = \"1s\"\n"
VALUES = "[topics]\nretain = true\nhistory_count = 20000\n"


def run(*command):
    subprocess.run(command, check=True, capture_output=True, text=True)


class Server:
    """A server, and what its log says."""

    def __init__(self, command, file, config, prefix=()):
        file.write_text(config)
        self.command = [*prefix, BINARY, *command, "--config", str(file)]
        self.changed = threading.Condition()
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        # A life of the server has lines of its own: the last ones of the one before may be read late.
        self.lines = []
        threading.Thread(target=self.read, args=(self.process, self.lines), daemon=True).start()
        # An upstream may be connected before that is said.
        self.says("server-started", forgets=False)

    def read(self, process, lines):
        for line in process.stderr:
            with self.changed:
                lines.append(json.loads(line))
                self.changed.notify_all()

    def says(self, event, forgets=True):
        """Waits for a line of the log that has not been waited for, and forgets those before it."""

        def is_there():
            return any(line.get("event") == event for line in self.lines)

        with self.changed:
            assert self.changed.wait_for(is_there, WAIT * 6), f"{event} is not in {self.lines}"
            place = next(at for at, line in enumerate(self.lines) if line.get("event") == event)
            line = self.lines[place]
            del self.lines[0 if forgets else place : place + 1]
            return line

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Network:
    """What lies between the two namespaces. `at` is a process that is in the source's."""

    def __init__(self, at):
        self.at = at

    def source(self, *command):
        run("nsenter", "-t", str(self.at), "-n", *command)

    @contextlib.contextmanager
    def losing(self, *share):
        """Packets are lost in either direction, or some of them, and nobody is told."""
        rule = ["INPUT", "-i", "to-source", *share, "-j", "DROP"]
        back = [word.replace("to-source", "to-edge") for word in rule]
        run("iptables", "-A", *rule)
        self.source("iptables", "-A", *back)
        yield
        run("iptables", "-D", *rule)
        self.source("iptables", "-D", *back)

    @contextlib.contextmanager
    def slow(self):
        """So little goes through that what is sent waits for half a second."""
        self.source("tc", "qdisc", "add", "dev", "to-edge", "root", "tbf", "rate", "256kbit", "burst", "4k", "latency", "500ms")
        yield
        self.source("tc", "qdisc", "del", "dev", "to-edge", "root")


@pytest.fixture
def network():
    holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    between = Network(holder.pid)
    try:
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{holder.pid}/ns/net") == own:
            assert holder.poll() is None
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "to-source", "type", "veth", "peer", "name", "to-edge", "netns", str(holder.pid))
        run("ip", "addr", "add", f"{EDGE}/24", "dev", "to-source")
        run("ip", "link", "set", "to-source", "up")
        between.source("ip", "addr", "add", f"{SOURCE}/24", "dev", "to-edge")
        between.source("ip", "link", "set", "lo", "up")
        between.source("ip", "link", "set", "to-edge", "up")
        yield between
    finally:
        holder.kill()
        holder.wait()
        subprocess.run(["ip", "link", "del", "to-source"], check=False, capture_output=True)


class Pair:
    """A source and an edge of it."""

    def __init__(self, network, folder, more=""):
        self.network = network
        self.prefix = ("nsenter", "-t", str(network.at), "-n")
        kept = f"[store]\ndirectory = \"{folder}/store\"\n"
        source = f"[server]\nlisten = [\"{SOURCE}:7800\"]\n[auth]\nallow_anonymous = true\n{kept}{LIFE}{VALUES}persistent = true\n"
        self.source = Server(["serve"], folder / "source.toml", source, self.prefix)
        upstream = (
            f"[[upstream]]\nname = \"far\"\nurls = [\"ws://{SOURCE}:7800\"]\ntopics = [\"fx/**\"]\ntimeout = \"1s\"\n{more}"
        )
        edge = f"[server]\nlisten = [\"127.0.0.1:7801\"]\n{LIFE}{VALUES}{upstream}"
        self.edge = Server(["serve"], folder / "edge.toml", edge)
        self.edge.says("upstream-connected")

    def end(self):
        for server in (self.edge, self.source):
            server.kill()


@pytest.fixture
def pair(network, tmp_path):
    both = Pair(network, tmp_path)
    yield both
    both.end()


class Publisher:
    """Publishes rising numbers at the source, some a second, until it ends."""

    def __init__(self, pair, rate=200, padding=0):
        self.is_over, self.count, self.rate = threading.Event(), 0, rate
        self.padding = " " * padding
        command = [*pair.prefix, BINARY, "pub", "-s", f"{SOURCE}:7800", "-l", "fx/a"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.thread = threading.Thread(target=self.go_on)
        self.thread.start()

    def go_on(self):
        while not self.is_over.wait(1 / self.rate):
            self.count += 1
            self.process.stdin.write(f"{self.count}{self.padding}\n")
            self.process.stdin.flush()

    def end(self):
        """How many there were; all of them are confirmed."""
        self.is_over.set()
        self.thread.join()
        self.process.stdin.close()
        assert self.process.wait(WAIT * 3) == 0
        return self.count


class Subscriber(stomp.ConnectionListener):
    """A client of the edge, and the numbers that it has got."""

    def __init__(self):
        self.numbers, self.changed = [], threading.Condition()
        self.connection = stomp.Connection12([("127.0.0.1", 7801)])
        self.connection.set_listener("", self)
        self.connection.connect(wait=True)
        self.connection.subscribe("/topic/fx.a", id="1")

    def on_message(self, frame):
        with self.changed:
            self.numbers.append(int(re.match(r"\d+", frame.body)[0]))
            self.changed.notify_all()

    def on_error(self, frame):
        raise AssertionError(frame)

    def waits_for(self, number):
        with self.changed:
            got = self.changed.wait_for(lambda: self.numbers and self.numbers[-1] >= number, WAIT * 6)
            assert got, f"{number} has not come: {self.numbers[-3:]}"

    def end(self):
        self.connection.disconnect()


def test_what_was_missed_in_a_silent_cut_comes_once_and_in_order(pair):
    publisher = Publisher(pair)
    subscriber = Subscriber()
    subscriber.waits_for(100)
    for _ in range(3):
        with pair.network.losing():
            # Nobody says so: the edge finds it out by itself.
            pair.edge.says("upstream-failed")
        pair.edge.says("upstream-connected")
        subscriber.waits_for(publisher.count)
    count = publisher.end()
    subscriber.waits_for(count)
    first = subscriber.numbers[0]
    assert subscriber.numbers == list(range(first, count + 1))
    subscriber.end()


def test_a_network_that_loses_packets_loses_no_message(pair):
    publisher = Publisher(pair)
    subscriber = Subscriber()
    subscriber.waits_for(50)
    with pair.network.losing("-m", "statistic", "--mode", "random", "--probability", "0.05"):
        seen = publisher.count
        subscriber.waits_for(seen + 600)
    count = publisher.end()
    subscriber.waits_for(count)
    first = subscriber.numbers[0]
    assert subscriber.numbers == list(range(first, count + 1))
    subscriber.end()


def test_an_edge_that_is_behind_holds_up_no_publisher_and_gets_the_newest(pair):
    subscriber = Subscriber()
    with pair.network.slow():
        publisher = Publisher(pair, rate=400, padding=400)
        # Five times of what goes through.
        while publisher.count < 1600:
            time.sleep(0.05)
        count = publisher.end()
        subscriber.waits_for(count)
    assert subscriber.numbers[-1] == count
    assert all(one < next_one for one, next_one in zip(subscriber.numbers, subscriber.numbers[1:], strict=False))
    subscriber.end()


@pytest.mark.parametrize("order", ["source first", "edge first", "source last"])
def test_restarts_in_every_order_end_with_the_present_value(pair, order):
    publisher = Publisher(pair, rate=100)
    subscriber = Subscriber()
    subscriber.waits_for(20)
    subscriber.end()
    count = publisher.end()
    if order == "edge first":
        pair.edge.kill()
        pair.edge.start()
        pair.edge.says("upstream-connected")
        pair.source.kill()
        pair.source.start()
    else:
        pair.source.kill()
        if order == "source first":
            pair.source.start()
            pair.edge.says("upstream-connected")
        pair.edge.kill()
        pair.edge.start()
        if order == "source last":
            pair.source.start()
    late = Subscriber()
    pair.edge.says("upstream-connected")
    late.waits_for(count)
    assert late.numbers == [count]
    publisher = Publisher(pair, rate=100)
    while publisher.count < 20:
        publisher.is_over.wait(0.01)
    # Numbers begin anew: they are other messages. Some may be skipped, and many may come at once.
    last = publisher.end()
    with late.changed:
        assert late.changed.wait_for(lambda: late.numbers[1:] and late.numbers[-1] == last, WAIT * 3), late.numbers
    late.end()
