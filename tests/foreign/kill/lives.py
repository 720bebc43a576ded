#!/usr/bin/env python3
"""Kills a server again and again while clients send to queues and settle what they get, and checks what is left.

    tests/foreign/kill/lives.py --kills 1000                  both ways of syncing, one shard and two
    tests/foreign/kill/lives.py --seed 7 --sync always        the schedule of another run, as it printed it
    tests/foreign/kill/lives.py --in-memory --kills 20        a server that must be found out

The server is `$TIDERACE_BIN`, or the release build. Of each life the seed says what clients there are, what they do,
how long it lasts and whether the server is killed while it still starts; when exactly a signal strikes, the machine
says. Plain sockets, no library: nothing is sent again behind the schedule's back.
"""

import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "raw")]
from ledger import Ledger  # noqa: E402
from ports import free_ports  # noqa: E402
from wire import WAIT, Client, Closed, encode  # noqa: E402

ORDERED = ("one", "two/deep")
"""Queues with one consumer at a time."""
SHARED = ("many", "many/more")
REJECTED = "bad/ones"
"""Nobody accepts what is in there: it ends as a dead letter."""
QUEUES = (*ORDERED, *SHARED, REJECTED)
AUDIT_EVERY = 25
"""Lives between two audits: what is wrong is told with so many lives to look at."""

CONFIGURATION = """
[server]
listen = ["127.0.0.1:{port}"]
shards = {shards}
shutdown_grace = "1s"
[limits]
message_bytes_max = "64 KiB"
[queues]
memory_bytes_max = "64 KiB"
redeliveries_max = 0
idle_removal = "1s"
[[queue]]
match = "bad/**"
redeliveries_max = 2
[auth]
allow_anonymous = true
[log]
level = "warn"
format = "text"
{durable}
"""
STORE = """
[store]
directory = "{folder}/store"
sync = "{sync}"
segment_bytes = "1 MiB"
reserve_bytes = "1 MiB"
"""
IN_MEMORY = """
[stomp]
persistent_in_memory = true
"""


class Server:
    """One server after the other at the same address, with the same store."""

    def __init__(self, binary, sync, shards, in_memory=False):
        self.binary = binary
        self.folder = Path(tempfile.mkdtemp(prefix="tiderace-kill-"))
        [self.port] = free_ports(1)
        durable = IN_MEMORY if in_memory else STORE.format(folder=self.folder, sync=sync)
        self.config = self.folder / "tiderace.toml"
        self.config.write_text(CONFIGURATION.format(port=self.port, shards=shards, durable=durable))
        self.log = (self.folder / "server.log").open("ab")
        self.process = None

    @property
    def address(self):
        return "127.0.0.1", self.port

    def spawn(self):
        self.process = subprocess.Popen(
            [self.binary, "serve", "--config", self.config],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
        )

    def wait(self):
        deadline = time.monotonic() + 3 * WAIT
        while True:
            try:
                return socket.create_connection(self.address, timeout=1).close()
            except OSError:
                if self.process.poll() is not None:
                    raise AssertionError(f"the server ended by itself: {self.tail()}") from None
                if time.monotonic() > deadline:
                    raise AssertionError("the server does not start") from None
                time.sleep(0.001)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        """As an operator does; a server that was asked to end says that all is well."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(3 * WAIT)
        assert status == 0, f"the server ended with status {status}: {self.tail()}"

    def tail(self):
        return (self.folder / "server.log").read_text(errors="replace")[-2000:]

    def close(self, keep):
        if self.process and self.process.poll() is None:
            self.kill()
        self.log.close()
        if not keep:
            shutil.rmtree(self.folder)


class Worker(threading.Thread):
    """A client on a connection of its own, which works until the server is gone."""

    def __init__(self, run, life, name, plan):
        super().__init__(name=name, daemon=True)
        self.run_, self.ledger, self.life, self.plan = run, run.ledger, life, plan
        self.random = random.Random(f"{run.seed}/{life}/{name}")
        self.client, self.reader = None, None

    def connect(self):
        self.client = Client(self.run_.server.address)
        self.client.login(login=None, passcode=None)

    def run(self):
        try:
            self.connect()
            self.work()
        except TimeoutError:
            self.ledger.violation("silent", f"{self.name}: no answer in {WAIT} s in life {self.life}")
        except (Closed, OSError):
            pass
        except AssertionError as error:
            self.ledger.violation("answer", f"{self.name} in life {self.life}: {error}")
        finally:
            if self.reader:
                self.reader.is_open = False
            if self.client:
                self.client.close()

    def frame(self):
        return self.judged(self.client.frame())

    def judged(self, frame):
        if frame.command == "ERROR" and self.run_.is_ending:
            raise Closed("a server that ends says so")
        assert frame.command in ("RECEIPT", "MESSAGE"), frame
        return frame

    def send_frame(self, source, receipt=True, transaction=None):
        """The bytes of the next message of a source, and its number."""
        number = self.ledger.number(source)
        headers = {"destination": f"/queue/{source.queue}"}
        if source.kept:
            headers["persistent"] = "true"
        if receipt:
            headers["receipt"] = f"s{number}"
        if transaction:
            headers["transaction"] = transaction
        size = self.plan.get("size", 20)
        return number, encode("SEND", headers, f"{number} ".ljust(self.random.randint(min(20, size), size), "."))


class Producer(Worker):
    """Sends to one queue, with so many receipts under way; some messages of some producers are not persistent."""

    def work(self):
        plan, under_way = self.plan, 0
        source = self.ledger.source(plan["queue"], self.life)
        volatile = self.ledger.source(plan["queue"], self.life, kept=False)
        while True:
            out = b""
            while under_way < plan["window"]:
                which = volatile if self.random.random() < plan["volatile"] else source
                out += self.send_frame(which)[1]
                under_way += 1
            self.client.raw(out)
            # Some at a time, so that several messages go into one run.
            for _ in range(self.random.randint(1, under_way)):
                self.ledger.confirmed[int(self.frame()["receipt-id"][1:])] = 1
                under_way -= 1


LEFT_OPEN_MAX = 50
"""Transactions that one client leaves open in a life. The server takes a hundred, and how many turns fit into a life is the
machine's affair."""


class Transactor(Worker):
    """Sends in transactions, of which some are aborted and some are left open."""

    def work(self):
        sources = {queue: self.ledger.source(queue, self.life) for queue in self.plan["queues"]}
        turn = left_open = 0
        while True:
            turn += 1
            one = self.ledger.transaction(self.life)
            out = encode("BEGIN", {"transaction": f"t{turn}"})
            numbers = []
            for _ in range(self.random.randint(1, self.plan["messages"])):
                source = sources[self.random.choice(self.plan["queues"])]
                number, frame = self.send_frame(source, receipt=False, transaction=f"t{turn}")
                # Numbers of a transaction are no hole in a source's line when it is not done.
                source.numbers.pop()
                one.sent.setdefault(source.queue, []).append(number)
                numbers.append(number)
                out += frame
                if self.random.random() < 0.2:
                    self.client.raw(out)
                    out = b""
            fate = self.random.random()
            if fate < 0.1 and left_open < LEFT_OPEN_MAX:
                left_open += 1
                self.client.raw(out)
            elif fate < 0.2:
                one.state = "aborted"
                self.client.raw(out + encode("ABORT", {"transaction": f"t{turn}"}))
            else:
                one.state = "asked"
                self.client.raw(out + encode("COMMIT", {"transaction": f"t{turn}", "receipt": f"c{turn}"}))
                assert self.frame()["receipt-id"] == f"c{turn}"
                one.state = "confirmed"


class Consumer(Worker):
    """Takes messages of one queue and settles them, some with a receipt, some in a transaction that passes them on."""

    def work(self):
        plan, ledger = self.plan, self.ledger
        target = ledger.source(plan["target"], self.life)
        while True:
            self.subscribe()
            self.waiting, self.asked = [], {}
            while True:
                frame = self.frame()
                if frame.command == "RECEIPT":
                    for number in self.asked.pop(frame["receipt-id"]):
                        ledger.settled[number] = 1
                    continue
                number = ledger.number_in(frame.text, plan["queue"], self.life)
                if number is None:
                    continue
                ledger.deliver(number, plan["queue"], self.reader, self.life)
                self.waiting.append((number, frame["ack"]))
                if plan["rejects"] and self.random.random() < plan["rejects"]:
                    number, ack = self.waiting.pop()
                    ledger.give_back(number)
                    self.client.send("NACK", {"id": ack})
                elif len(self.waiting) >= plan["settles"]:
                    self.settle(target)
                if plan["leaves"] and self.random.random() < plan["leaves"]:
                    break
            # What it has not settled is another's from here on.
            self.reader.is_open = False
            self.client.close()
            self.connect()

    def subscribe(self):
        self.reader = Reader()
        headers = {"id": "0", "destination": f"/queue/{self.plan['queue']}", "ack": self.plan["mode"]}
        self.client.send("SUBSCRIBE", headers)

    def settle(self, target):
        waiting, self.waiting = self.waiting, []
        numbers = [number for number, _ in waiting]
        if self.random.random() < self.plan["moves"]:
            return self.move(target, waiting)
        for number in numbers:
            self.ledger.acked[number] = 1
        if self.plan["mode"] == "client":
            # One acknowledgement covers all before it.
            name = f"a{numbers[-1]}"
            self.asked[name] = numbers
            self.client.send("ACK", {"id": waiting[-1][1], "receipt": name})
            return
        out = b""
        for number, ack in waiting:
            headers = {"id": ack}
            if self.random.random() < 0.7:
                headers["receipt"] = f"a{number}"
                self.asked[f"a{number}"] = [number]
            out += encode("ACK", headers)
        self.client.raw(out)

    def move(self, target, waiting):
        """Settles and sends as many, together."""
        one = self.ledger.transaction(self.life)
        name = f"m{waiting[0][0]}-{self.random.randrange(10**9)}"
        one.settled = [number for number, _ in waiting]
        out = encode("BEGIN", {"transaction": name})
        acks = waiting[-1:] if self.plan["mode"] == "client" else waiting
        for _, ack in acks:
            out += encode("ACK", {"id": ack, "transaction": name})
        for _ in waiting:
            number, frame = self.send_frame(target, receipt=False, transaction=name)
            target.numbers.pop()
            one.sent.setdefault(target.queue, []).append(number)
            out += frame
        one.state = "asked"
        for number in one.settled:
            self.ledger.acked[number] = 1
        self.asked[name] = one.settled
        self.client.raw(out + encode("COMMIT", {"transaction": name, "receipt": name}))
        while name in self.asked:
            frame = self.judged(self.client.next_that(lambda frame: frame.command in ("RECEIPT", "ERROR"), WAIT))
            for number in self.asked.pop(frame["receipt-id"]):
                self.ledger.settled[number] = 1
        one.state = "confirmed"


class Reader:
    """A subscription that holds what it has not settled, until its connection is closed."""

    is_open = True


def plan(seed, life):
    """What happens in a life: how it ends, when, and what clients there are."""
    dice = random.Random(f"{seed}/{life}")
    workers = []
    for _ in range(dice.randint(1, 4)):
        size = dice.choice((20, 100, 1000, 1000, 30_000))
        window = min(dice.choice((1, 10, 100)), 1_000_000 // size)
        volatile = dice.choice((0, 0, 0.3))
        workers.append((Producer, {"queue": dice.choice(QUEUES), "size": size, "window": window, "volatile": volatile}))
    for _ in range(dice.randint(0, 2)):
        queues = dice.sample(QUEUES, dice.randint(1, 2))
        workers.append((Transactor, {"queues": queues, "messages": dice.choice((1, 5, 20)), "size": 200}))
    # Without consumers, or with few, what was sent stays for later lives.
    taken = set()
    for _ in range(dice.randint(0, 3)):
        queue = dice.choice(QUEUES)
        if queue in taken and queue in ORDERED:
            continue
        taken.add(queue)
        rejects = 1 if queue == REJECTED else dice.choice((0, 0, 0.05))
        workers.append((Consumer, {
            "queue": queue,
            "mode": "client-individual" if rejects else dice.choice(("client", "client-individual")),
            "settles": dice.choice((1, 5, 50)),
            "rejects": rejects,
            "leaves": 0.01 if queue in SHARED and dice.random() < 0.3 else 0,
            "moves": dice.choice((0, 0, 0.5)),
            "target": dice.choice(SHARED),
        }))
    end = dice.random()
    return {
        "end": "starting" if end < 0.1 else "asked" if end < 0.14 else "killed",
        "seconds": dice.choice((0.005, 0.03, 0.1)) * dice.uniform(0.2, 2),
        "workers": workers,
    }


class Run:
    """Many lives of one server with one configuration."""

    def __init__(self, binary, seed, sync="never", shards=2, in_memory=False, say=lambda text: None,
                 keep=True):
        self.seed, self.sync, self.shards, self.say = seed, sync, shards, say
        self.server = Server(binary, sync, shards, in_memory)
        self.ledger = Ledger(homes=shards, ordered=ORDERED)
        self.keep = keep
        """Whether the store and the log of a server that was found out are left to be looked at."""
        self.kills = 0
        self.is_ending = False

    def lives(self, kills, deadline=None):
        """So many kills, or until the time is over; ends at the first audit that finds something."""
        first, life = 0, 0
        try:
            while self.kills < kills and not (deadline and time.monotonic() > deadline):
                life += 1
                self.live(life)
                if life % AUDIT_EVERY == 0:
                    self.audit(life)
                    if self.ledger.violations:
                        break
                    first = life
            else:
                self.audit(life)
        except AssertionError as error:
            self.ledger.violation("server", str(error))
        for kind, text in self.ledger.violations[:20]:
            self.say(f"{kind}: {text}")
        if self.ledger.violations:
            more = len(self.ledger.violations) - 20
            self.say(f"lives {first + 1} to {life} of --seed {self.seed} --sync {self.sync} --shards {self.shards}"
                     f"{f', {more} more' if more > 0 else ''}; the store and the log are in {self.server.folder}")
        self.server.close(keep=self.keep and bool(self.ledger.violations))
        return self.ledger

    def live(self, life):
        its = plan(self.seed, life)
        self.server.spawn()
        if its["end"] == "starting":
            time.sleep(its["seconds"])
            self.server.kill()
            self.kills += 1
            return
        self.server.wait()
        workers = [kind(self, life, f"{kind.__name__} {at}", what) for at, (kind, what) in enumerate(its["workers"])]
        for worker in workers:
            worker.start()
        time.sleep(its["seconds"])
        assert self.server.process.poll() is None, f"the server ended by itself: {self.server.tail()}"
        self.is_ending = self.ledger.is_ending = its["end"] == "asked"
        if self.is_ending:
            self.server.end()
        else:
            self.server.kill()
            self.kills += 1
        for worker in workers:
            worker.join(2 * WAIT)
            assert not worker.is_alive(), f"{worker.name} does not end in life {life}"
        self.is_ending = self.ledger.is_ending = False

    def audit(self, life):
        """Takes everything that the server still has, and checks all that was noted."""
        self.server.spawn()
        self.server.wait()
        self.ledger.holder.clear()
        for queue in (*QUEUES, f"dlq/{REJECTED}"):
            self.empty(queue, life + 0.5)
        self.server.kill()
        self.ledger.audit()
        totals = ", ".join(f"{count:,} {name}" for name, count in self.ledger.totals.items())
        self.say(f"{self.kills} kills, {totals}, {len(self.ledger.violations)} violations")

    def empty(self, queue, life):
        ledger, reader = self.ledger, Reader()
        client, sender = Client(self.server.address), Client(self.server.address)
        try:
            client.login(login=None, passcode=None)
            end = f"end-{queue}-{life}"
            # What is sent last comes last. By a connection of its own: a full queue makes it wait.
            sender.login(login=None, passcode=None)
            sender.send("SEND", {"destination": f"/queue/{queue}", "persistent": "true", "receipt": end}, end)
            client.send("SUBSCRIBE", {"id": "0", "destination": f"/queue/{queue}", "ack": "client"})
            numbers, last = [], None
            while last is None:
                message = client.message()
                text, _, _ = message.text.partition(" ")
                if text == end:
                    last = message["ack"]
                elif (number := ledger.number_in(text, queue, life)) is not None:
                    ledger.deliver(number, queue, reader, int(life) + 1)
                    ledger.present[number] = 1
                    numbers.append(number)
                    # One by one: what is not settled may be all that a full queue has room for.
                    client.send("ACK", {"id": message["ack"]})
            sender.receipt(end)
            client.ask("ACK", {"id": last})
            for number in numbers:
                ledger.acked[number] = ledger.settled[number] = 1
        except (Closed, OSError) as error:
            raise AssertionError(f"{queue} could not be emptied in life {life}: {error!r}") from error
        finally:
            reader.is_open = False
            client.close()
            sender.close()


def main():
    parser = argparse.ArgumentParser(
        description="Kills a server under load and checks what its queues have kept.",
        epilog="example: tests/foreign/kill/lives.py --kills 1000")
    parser.add_argument("--kills", type=int, default=200, help="how often, over all ways of running (200)")
    parser.add_argument("--seconds", type=float, help="at most so long for each way of running")
    parser.add_argument("--seed", type=int, help="the schedule of an earlier run")
    parser.add_argument("--sync", choices=("always", "interval", "never"), help="never and always if left out")
    parser.add_argument("--shards", type=int, help="one and two if left out")
    parser.add_argument("--in-memory", action="store_true", help="no store: losses must be found")
    parser.add_argument("--binary", default=os.environ.get("TIDERACE_BIN", HERE.parents[2] / "target/release/tiderace"))
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    ways = [(sync, shards) for sync in ([options.sync] if options.sync else ["never", "always"])
            for shards in ([options.shards] if options.shards else [1, 2])]
    status = 0
    for sync, shards in ways:
        print(f"--seed {seed} --sync {sync} --shards {shards}", flush=True)
        say = lambda text: print(f"  {text}", flush=True)  # noqa: E731
        run = Run(options.binary, seed, sync, shards, options.in_memory, say)
        deadline = time.monotonic() + options.seconds if options.seconds else None
        if run.lives(-(-options.kills // len(ways)), deadline).violations:
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
