"""What the application has begun and the server confirms: subscriptions, consumers, responders."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TypeVar

from ._core import Core
from ._errors import TideraceError
from ._interest import Interest

S = TypeVar("S", bound="Ready")


class Ready(Interest):
    """What the server confirms, and what a `with` block ends."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # A caller that does not ask is told by iterating.
        self._confirmed.add_done_callback(lambda future: future.cancelled() or future.exception())

    async def ready(self) -> None:
        """Returns when the server has confirmed it; raises if it was refused."""
        await asyncio.shield(self._confirmed)

    async def stop(self) -> None:
        """Ends it; returns when the server knows."""
        raise NotImplementedError

    async def __aenter__(self: S) -> S:
        try:
            await self.ready()
        except BaseException:
            self._core.drop(self)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def begun(self, settled: bool) -> None:
        if not self._confirmed.done():
            self._confirmed.set_result(None)

    def _refuse(self, error: TideraceError) -> None:
        if not self._confirmed.done():
            self._confirmed.set_exception(TideraceError(error.name, error.sentence, error.code))
