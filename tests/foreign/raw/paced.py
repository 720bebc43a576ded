"""An honest, paced client in a process of its own: 20 messages a second by STOMP to topics of several shards, heard by itself.

Driven by lines: `begin`, then `end`, which is answered with how many came and the milliseconds they took: median, 99th
percentile, slowest. A message that has not come within 150 seconds ends it.
"""

import itertools
import json
import select
import sys
import time

from wire import Client

PAUSE = 0.05
TOPICS = 8


def main():
    client = Client()
    client.login(heart_beat="0,0")
    topics = [f"/topic/paced/{number}" for number in range(TOPICS)]
    for number, topic in enumerate(topics):
        client.ask("SUBSCRIBE", {"id": number, "destination": topic})
    sent, times, due = {}, [], time.monotonic()
    for number in itertools.count():
        now = time.monotonic()
        while now < due:
            ready = select.select([sys.stdin, client.socket], [], [], due - now)[0]
            if client.socket in ready:
                hear(client, sent, times)
            if sys.stdin in ready:
                word = sys.stdin.readline().strip()
                if not word:
                    return
                if word == "begin":
                    times.clear()
                    print(json.dumps("begun"), flush=True)
                else:
                    while sent:
                        hear(client, sent, times, wait=150)
                    print(json.dumps(measured(times)), flush=True)
            now = time.monotonic()
        due += PAUSE
        if sys.stdin.closed:
            return
        sent[str(number)] = time.monotonic()
        client.send("SEND", {"destination": topics[number % TOPICS]}, str(number))


def hear(client, sent, times, wait=0.001):
    """Takes what has come."""
    while True:
        try:
            frame = client.frame(wait)
        except TimeoutError:
            if wait > 1:
                raise
            return
        times.append(time.monotonic() - sent.pop(frame.text))
        if not sent:
            return
        wait = min(wait, 150) if wait > 1 else 0.001


def measured(times):
    times = sorted(times) or [0.0]
    places = [len(times) // 2, len(times) * 99 // 100, len(times) - 1]
    return {"count": len(times), "milliseconds": [round(times[place] * 1000, 2) for place in places]}


if __name__ == "__main__":
    main()
