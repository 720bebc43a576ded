"""How many messages a second this client takes, beside python-socketio at the same server and nats-py at its own.

    python bench.py http://127.0.0.1:7800 --rounds 5 --nats nats://127.0.0.1:4222

One process publishes numbered messages of 100 bytes to one topic as fast as it can, another receives them all: JSON,
read by both. What is printed is messages a second from the first to the last that came, and the processor time that the
receiving process took for one message. The others are measured if they are installed (`python-socketio`, `aiohttp`,
`nats-py`); to all but NATS it is this client that publishes. With several rounds, the clients are in another, random
order in each, and the last lines are the medians.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import multiprocessing
import os
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Coroutine
from multiprocessing.connection import Connection
from typing import Any

from tiderace import connect

PADDING = "x" * 82
#: Messages that a publisher has under way.
AHEAD = 2000


def value(number: int) -> dict[str, Any]:
    """A hundred bytes or so as JSON."""
    return {"n": number, "pad": PADDING}


class Clock:
    """From the first message to the last, and the processor time between."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0
        self.many = 0

    def take(self, number: int) -> None:
        if not self.many:
            self.wall, self.cpu = time.perf_counter(), time.process_time()
        assert number == self.many, f"{number} instead of {self.many}"
        self.many += 1

    def result(self) -> tuple[float, float]:
        """Messages a second, and microseconds of processor time for each."""
        wall, cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        return self.many / wall, cpu / self.many * 1e6


async def receive_tiderace(url: str, topic: str, many: int, ready: Callable[[], None]) -> tuple[float, float]:
    clock = Clock()
    async with connect(url, window=0) as client, client.topic(topic).subscribe(deltas=False) as subscription:
        ready()
        async for update in subscription:
            clock.take(update.value["n"])
            if clock.many == many:
                break
    return clock.result()


async def prepare(url: str, topic: str) -> None:
    """A slow reader holds its publisher back, so that nothing is left out."""
    async with connect(url) as client:
        await client.topic(topic).create({"slow_consumer": "block", "grace": "60s"})


async def publish_tiderace(url: str, topic: str, many: int) -> None:
    async with connect(url) as client:
        target = client.topic(topic)
        for number in range(many):
            await target.publish(value(number), confirm=number % AHEAD == AHEAD - 1)
        await target.publish(value(many), confirm=True)


async def receive_socketio(url: str, topic: str, many: int, ready: Callable[[], None]) -> tuple[float, float]:
    import socketio

    clock, done = Clock(), asyncio.Event()
    client = socketio.AsyncClient()

    def message(path: str, body: dict[str, Any], *_: Any) -> None:
        if clock.many < many:
            clock.take(body["n"])
            if clock.many == many:
                done.set()

    client.on("message", message)
    await client.connect(url, transports=["websocket"])
    await client.call("subscribe", topic)
    ready()
    await done.wait()
    result = clock.result()
    await client.disconnect()
    return result


async def receive_nats(url: str, topic: str, many: int, ready: Callable[[], None]) -> tuple[float, float]:
    import nats

    clock = Clock()
    client = await nats.connect(url)
    subscription = await client.subscribe(topic, pending_msgs_limit=-1, pending_bytes_limit=-1)
    await client.flush()
    ready()
    async for message in subscription.messages:
        clock.take(json.loads(message.data)["n"])
        if clock.many == many:
            break
    result = clock.result()
    await client.close()
    return result


async def publish_nats(url: str, topic: str, many: int) -> None:
    import nats

    client = await nats.connect(url)
    for number in range(many + 1):
        await client.publish(topic, json.dumps(value(number)).encode())
        if number % AHEAD == AHEAD - 1:
            await client.flush()
    await client.close()


Publish = Callable[[str, str, int], Coroutine[Any, Any, None]]
Receive = Callable[[str, str, int, Callable[[], None]], Awaitable[tuple[float, float]]]


def receiver(receive: Receive, url: str, topic: str, many: int, pipe: Connection) -> None:
    async def run() -> None:
        pipe.send(await receive(url, topic, many, lambda: pipe.send(None)))

    asyncio.run(run())


Result = tuple[float, float]


def measure(name: str, receive: Receive, publish: Publish, url: str, topic: str, many: int) -> Result | None:
    """Messages a second, and microseconds of processor time for each; nothing if the receiver gave up."""
    here, there = multiprocessing.Pipe()
    if url.startswith("http"):
        asyncio.run(prepare(url, topic))
    process = multiprocessing.get_context("spawn").Process(target=receiver, args=(receive, url, topic, many, there))
    process.start()
    there.close()
    try:
        here.recv()
        asyncio.run(publish(url, topic, many))
        result: Result = here.recv()
    except EOFError:
        print(f"{name:16} gave up", flush=True)
        return None
    finally:
        process.join()
    show(name, [result])
    return result


def show(name: str, results: list[Result]) -> None:
    """The median of some rounds, and the rates of the slowest and the fastest if there are several."""
    rates, cpus = zip(*results, strict=True)
    extremes = f"  ({min(rates):,.0f} to {max(rates):,.0f})" if len(results) > 1 else ""
    rate, cpu = statistics.median(rates), statistics.median(cpus)
    print(f"{name:16} {rate:10,.0f} messages/s {cpu:8.1f} us of processor time each{extremes}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:7800", help="the server (http://127.0.0.1:7800)")
    parser.add_argument("--messages", type=int, default=50_000, help="messages of a round (50000)")
    parser.add_argument("--rounds", type=int, default=1, help="rounds, each in another order (1)")
    parser.add_argument("--nats", help="a nats-server, such as nats://127.0.0.1:4222")
    arguments = parser.parse_args()
    clients: dict[str, tuple[Receive, Publish, str]] = {"tiderace": (receive_tiderace, publish_tiderace, arguments.url)}
    if importlib.util.find_spec("socketio") and importlib.util.find_spec("aiohttp"):
        clients["python-socketio"] = (receive_socketio, publish_tiderace, arguments.url)
    if arguments.nats and importlib.util.find_spec("nats"):
        clients["nats-py"] = (receive_nats, publish_nats, arguments.nats)
    results: dict[str, list[Result]] = {name: [] for name in clients}
    for number in range(arguments.rounds):
        for name in random.sample(list(clients), len(clients)):
            receive, publish, url = clients[name]
            topic = f"bench.{os.getpid()}.{number}.{name}"
            result = measure(name, receive, publish, url, topic, arguments.messages)
            results[name] += [result] if result else []
    if arguments.rounds > 1:
        load = " ".join(f"{load:.1f}" for load in os.getloadavg())
        print(f"medians of {arguments.rounds} rounds; load of the machine {load}, of {os.cpu_count()} cores:")
        for name in clients:
            if results[name]:
                show(name, results[name])


if __name__ == "__main__":
    main()
