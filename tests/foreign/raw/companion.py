"""A well-behaved RSocket client beside the attacks: sends an echo every few milliseconds and notes how long it took.

It is a process of its own, so that what an attack costs the attacker does not count. `Companion` drives it by lines:
`begin`, then `end` with the least number of echoes, which is answered with how many came back and how long they took.
"""

import json
import pathlib
import select
import subprocess
import sys
import time

from rswire import REQUEST_RESPONSE, Client, keepalive, request, route

PAUSE = 0.005
"""Seconds between an answer and the next echo."""
SOON = 1.0
"""Seconds between keep-alives."""


class Companion:
    """The process, seen from the tests."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=pathlib.Path(__file__).parent,
        )
        self.begin()
        self.undisturbed = self.end(200)

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def begin(self):
        assert self.tell("begin") == "begun", "the companion is gone"

    def end(self, least=20):
        """How many echoes were answered since `begin`, and milliseconds: median, 99th percentile, slowest."""
        return json.loads(self.tell(f"end {least}"))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measured(times):
    times = sorted(times)
    places = [len(times) // 2, len(times) * 99 // 100, len(times) - 1]
    return {"count": len(times), "milliseconds": [round(times[place] * 1000, 2) for place in places]}


def main():
    client, times, running = Client().login(lifetime=60_000), [], False
    said = time.monotonic()
    while True:
        if select.select([sys.stdin], [], [], PAUSE)[0]:
            word = sys.stdin.readline().strip()
            if not word:
                return
            if word == "begin":
                times, running = [], True
                print("begun", flush=True)
            else:
                while len(times) < int(word.split()[1]):
                    times.append(echo(client))
                running = False
                print(json.dumps(measured(times)), flush=True)
        if running:
            times.append(echo(client))
        if time.monotonic() - said > SOON:
            said = time.monotonic()
            client.send(keepalive(respond=False))


def echo(client):
    """One echo; how long it took. Anything but the answer ends the companion, which the test notices."""
    stream, began = next(client.streams), time.monotonic()
    client.send(request(REQUEST_RESPONSE, stream, b"x" * 64, route("echo")))
    got = client.next(stream)
    assert got.stream == stream and got.data == b"x" * 64, got
    return time.monotonic() - began


if __name__ == "__main__":
    main()
