"""An honest, paced client in a process of its own: 100 messages a second by STOMP to topics of several shards, heard by itself.

Driven by lines: `begin`, then `end`, which is answered with how many came and how many milliseconds they took: `p95`, `p99`
and `most` without the time in which a shard of the server, or this process, was ready to run and had no processor, in
which the host had taken a processor away, or in which the kernel gave a shard new pages, so the answer is the same on a busy
machine; `slowest` with that time. A message that has not come within 150 seconds ends it.
"""

import itertools
import json
import os
import pathlib
import select
import sys
import time
import typing

from wire import Client

PAUSE = 0.01
TOPICS = 8
STEAL = 8
"""The column of /proc/stat that says how long the host has taken a processor away."""
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
TICK = 0.005
"""How often this process looks whether it is run when it wants to be."""
FAULT_SECONDS_MAX = 0.0001
"""The longest time that is taken off for one page fault, in which a virtual machine may have to get the page from its host."""


class Memory(typing.NamedTuple):
    """How many pages a thread has been given, and for how many seconds the kernel has worked for it.

    A virtual machine gives free pages back to its host, and pays for the next use of each, some twenty microseconds. That says
    nothing of the server, which is charged for the memory itself.
    """

    faults: int
    system: float

    @staticmethod
    def of_stat(line):
        """Of the line in /proc/…/stat; the name in it may contain anything."""
        fields = line.rpartition(b")")[2].split()
        return Memory(int(fields[7]), int(fields[12]) / TICKS_PER_SECOND)

    def taken_since(self, before):
        return min(self.system - before.system, (self.faults - before.faults) * FAULT_SECONDS_MAX)


class Processors:
    """How long each shard of the server, and this process, has waited for a processor, in seconds since its start.

    A thread that runs while the host of a virtual machine takes the processor away waits too, and the kernel counts it as
    running: that time stands in /proc/stat alone, for each processor, in ticks. So it does for the kernel's work (`Memory`).
    """

    def __init__(self):
        threads = pathlib.Path(f"/proc/{os.environ['TIDERACE_PID']}/task").iterdir()
        shards = [thread for thread in threads if (thread / "comm").read_text().startswith("shard-")]
        assert shards, "the server's shards are found by the names of their threads"
        threads = [*shards, pathlib.Path("/proc/thread-self")]
        self.files = [os.open(thread / "schedstat", os.O_RDONLY) for thread in threads]
        self.shards = [os.open(shard / "stat", os.O_RDONLY) for shard in shards]
        self.late = 0.0
        """By how much this process was run later than it wanted to be, in all."""

        self.stat = os.open("/proc/stat", os.O_RDONLY)

    def waited(self):
        return [int(os.pread(file, 64, 0).split()[1]) / 1e9 for file in self.files] + [self.late]

    def stolen(self):
        lines = os.pread(self.stat, 64 * 1024, 0).split(b"\n")
        lines = [line.split() for line in lines if line.startswith(b"cpu") and line[3:4].isdigit()]
        return [int(line[STEAL]) / TICKS_PER_SECOND for line in lines if len(line) > STEAL]

    def memory(self):
        return [Memory.of_stat(os.pread(shard, 1024, 0)) for shard in self.shards]

    def stood(self, before):
        """For how long something had to stand still since `before`, which is what `now` gave then."""
        waited, stolen, memory = self.now()
        longest = max(after - then for after, then in zip(waited, before[0]))
        longest += max((after - then for after, then in zip(stolen, before[1])), default=0.0)
        return longest + max(after.taken_since(then) for after, then in zip(memory, before[2]))

    def now(self):
        return self.waited(), self.stolen(), self.memory()


def main():
    client = Client()
    client.login(heart_beat="0,0")
    topics = [f"/topic/paced/{number}" for number in range(TOPICS)]
    for number, topic in enumerate(topics):
        client.ask("SUBSCRIBE", {"id": number, "destination": topic})
    processors = Processors()
    sent, times, due = {}, [], time.monotonic()
    for number in itertools.count():
        while (now := time.monotonic()) < due:
            pause = min(due - now, TICK)
            ready = select.select([sys.stdin, client.socket], [], [], pause)[0]
            processors.late += max(0.0, time.monotonic() - now - pause - 0.001)
            if client.socket in ready:
                hear(client, processors, sent, times)
            if sys.stdin in ready:
                word = sys.stdin.readline().strip()
                if not word:
                    return
                if word == "begin":
                    times.clear()
                    print(json.dumps("begun"), flush=True)
                else:
                    while sent:
                        hear(client, processors, sent, times, wait=150)
                    print(json.dumps(measured(times)), flush=True)
        due += PAUSE
        sent[str(number)] = (processors.now(), time.monotonic())
        client.send("SEND", {"destination": topics[number % TOPICS]}, str(number))


def hear(client, processors, sent, times, wait=0.001):
    """Takes what has come."""
    while True:
        try:
            frame = client.frame(wait)
        except TimeoutError:
            if wait > 1:
                raise
            return
        before, began = sent.pop(frame.text)
        took = time.monotonic() - began
        stood = processors.stood(before)
        times.append((max(0.0, took - stood), took))
        if not sent:
            return
        wait = wait if wait > 1 else 0.001


def measured(times):
    waited = sorted(time for time, _ in times) or [0.0]
    slowest = max((time for _, time in times), default=0.0)

    def quantile(percent):
        return round(waited[min(len(waited) * percent // 100, len(waited) - 1)] * 1000, 2)

    return {
        "count": len(times),
        "p95": quantile(95),
        "p99": quantile(99),
        "most": round(waited[-1] * 1000, 2),
        "slowest": round(slowest * 1000, 2),
    }


if __name__ == "__main__":
    main()
