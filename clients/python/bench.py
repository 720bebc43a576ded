"""How many messages a second this client takes, beside python-socketio at the same server and nats-py at its own.

    python bench.py http://127.0.0.1:7800 [MESSAGES] [nats://127.0.0.1:4222]

One process publishes numbered messages of 100 bytes to one topic as fast as it can, another receives them all: JSON,
read by both. What is printed is messages a second from the first to the last that came, and the processor time that the
receiving process took for one message. The others are measured if they are installed (`python-socketio`, `aiohttp`,
`nats-py`); to all but NATS it is this client that publishes.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import multiprocessing
import os
import sys
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


def measure(name: str, receive: Receive, publish: Publish, url: str, many: int) -> None:
    """Prints a line."""
    here, there = multiprocessing.Pipe()
    topic = f"bench.{os.getpid()}.{name}"
    if url.startswith("http"):
        asyncio.run(prepare(url, topic))
    process = multiprocessing.get_context("spawn").Process(target=receiver, args=(receive, url, topic, many, there))
    process.start()
    there.close()
    try:
        here.recv()
        asyncio.run(publish(url, topic, many))
        rate, cpu = here.recv()
    except EOFError:
        print(f"{name:16} gave up", flush=True)
    else:
        print(f"{name:16} {rate:10,.0f} messages/s {cpu:8.1f} us of processor time each", flush=True)
    process.join()


def main() -> None:
    url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7800"
    many = int(sys.argv[2]) if len(sys.argv) > 2 else 50_000
    measure("tiderace", receive_tiderace, publish_tiderace, url, many)
    if importlib.util.find_spec("socketio") and importlib.util.find_spec("aiohttp"):
        measure("python-socketio", receive_socketio, publish_tiderace, url, many)
    if len(sys.argv) > 3 and importlib.util.find_spec("nats"):
        measure("nats-py", receive_nats, publish_nats, sys.argv[3], many)


if __name__ == "__main__":
    main()
