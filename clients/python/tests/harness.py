"""What the suites share: tests that are coroutines, and a place to await what comes one by one."""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import pytest

from tiderace import TideraceError

T = TypeVar("T")

#: Bounds failure only: seconds after which a test has not ended.
TIMEOUT = 120.0
_names = itertools.count(1)


def asynchronous(body: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs a test in a loop of its own. An exception that no task has taken fails it."""

    @functools.wraps(body)
    def run(*arguments: Any, **named: Any) -> None:
        unhandled: list[dict[str, Any]] = []

        async def guarded() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
            await asyncio.wait_for(body(*arguments, **named), TIMEOUT)

        asyncio.run(guarded())
        assert not unhandled, unhandled

    return run


def fresh(name: str) -> str:
    """A path that no other test has used."""
    return f"py/{os.getpid()}/{next(_names)}/{name}"


async def take(many: int, source: AsyncIterator[T]) -> list[T]:
    """The next so many."""
    return [await source.__anext__() for _ in range(many)]


async def every(source: AsyncIterator[T]) -> list[T]:
    """All to the end."""
    return [one async for one in source]


async def refused(work: Awaitable[object], name: str) -> TideraceError:
    """What is refused with that name."""
    with pytest.raises(TideraceError) as found:
        await work
    assert found.value.name == name, found.value
    return found.value


async def until(holds: Callable[[], bool]) -> None:
    """Waits for something that nobody tells; the test's deadline bounds it."""
    while not holds():
        await asyncio.sleep(0.005)
