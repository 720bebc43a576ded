"""Services: requests with one answer, and conversations (docs/protocol.md, section 9)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any

from . import _messages as m
from ._client_frames import Call, Cancel, Destination, Send
from ._connection import log
from ._content import NOTHING, Encoded, decode_properties, decode_value, encode_value
from ._core import Core
from ._errors import TideraceError
from ._exchanges import CALLER, RESPONDER, ExchangeEnd, Transmit
from ._inbox import Inbox
from ._interest import Wish
from ._ready import Ready
from ._server_frames import Exchange
from ._times import milliseconds

#: Bytes of what the other side has said that may wait for the application: exchanges have no credit of their own.
EXCHANGE_BYTES_MAX = 4 * 1024 * 1024


class Conversation:
    """One end of an exchange: values in both directions, in order, until both sides have said their last.

    Iterating gives what the other side says; it raises if the exchange ended before its last word. For who serves,
    `value` and `properties` are those of the call, and iterating gives what is said after it.
    """

    def __init__(self, core: Core, number: int, side: int, transmit: Transmit, buffer: int) -> None:
        #: What the caller asked, for who serves.
        self.value: Any = None
        #: Properties of the other side's first message.
        self.properties: dict[str, str] = {}
        self._core = core
        self._number = number
        self._side = side
        self._transmit = transmit
        self._buffer = buffer
        self._inbox: Inbox[Any] = Inbox()
        self._said = False
        self._heard = False
        self._begun = False
        self._ended = False
        self._over = asyncio.Event()

    @property
    def done(self) -> bool:
        """Whether the other side has nothing more to say, or all is over."""
        return self._heard or self._ended

    async def send(
        self, value: Any, *, type: str | None = None, properties: Mapping[str, str] | None = None, last: bool = False
    ) -> None:
        """Says something; waits while too much waits to be sent."""
        encoded = encode_value(value, type, properties)
        self._may_say()
        await self._core.admit(encoded.size)
        self._may_say()
        self._say(encoded, m.LAST if last else 0)

    async def end(
        self, value: Any = NOTHING, *, type: str | None = None, properties: Mapping[str, str] | None = None
    ) -> None:
        """Says the last, and no more; without a value it says only that."""
        if value is not NOTHING:
            await self.send(value, type=type, properties=properties, last=True)
        elif not self._said and not self._ended:
            self._say(Encoded(0, None, b""), m.LAST | m.BARE)

    def cancel(self, sentence: str = "cancelled") -> None:
        """Ends it for both sides at once."""
        self._cancel(TideraceError("closed", sentence, m.DONE_CODE))

    def __aiter__(self) -> Conversation:
        return self

    async def __anext__(self) -> Any:
        return await self._inbox.get()

    async def __aenter__(self) -> Conversation:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended:
            self.cancel()

    # What the table of exchanges tells.

    def take(self, frame: Exchange) -> None:
        flags, body = frame.flags, frame.body
        if flags & m.FIRST or not self._begun:
            self.properties = decode_properties(frame.properties)
        is_value = not flags & m.BARE
        if is_value and self._side == RESPONDER and not self._begun:
            self.value = decode_value(flags, frame.properties, body)
        elif is_value:
            if len(self._inbox) and self._inbox.size + len(body) > self._buffer:
                sentence = f"more than {self._buffer} bytes wait for the application"
                self._cancel(TideraceError("slow-consumer", sentence, m.SLOW_CONSUMER_CODE))
                return
            self._inbox.push(decode_value(flags, frame.properties, body), len(body))
        self._begun = True
        if flags & m.LAST:
            self._heard = True
            self._inbox.end()
            self._finish_if_over()

    def fail(self, error: TideraceError) -> None:
        if self._ended:
            return
        self._ended = True
        self._inbox.end(error)
        self._finish()

    def _may_say(self) -> None:
        if self._said or self._ended:
            raise TideraceError("closed", "this side has said its last, or the exchange is over")

    def _say(self, encoded: Encoded, flags: int) -> None:
        flags |= encoded.flags | (m.RESPONDER if self._side == RESPONDER else 0)
        self._transmit(Send(self._number, flags, encoded.body, encoded.properties))
        if flags & m.LAST:
            self._finish_saying()

    def _cancel(self, error: TideraceError) -> None:
        if not self._ended:
            code = error.code or (m.FAILED_CODE if self._side == RESPONDER else m.CANCELLED_CODE)
            self._transmit(Cancel(self._side, self._number, code, error.sentence))
            self.fail(error)

    def _finish_saying(self) -> None:
        self._said = True
        self._finish_if_over()

    def _finish_if_over(self) -> None:
        if self._said and self._heard and not self._ended:
            self._ended = True
            self._finish()

    def _finish(self) -> None:
        self._over.set()
        self._core.exchanges.close(self._side, self._number, self)


async def begin(
    core: Core, service: str, value: Encoded, timeout: float, last: bool, buffer: int = EXCHANGE_BYTES_MAX
) -> Conversation:
    """Calls a service, as soon as there is a connection."""
    session = await core.admit(value.size)
    number = core.exchanges.next_call()
    conversation = Conversation(core, number, CALLER, session.send, buffer)
    core.exchanges.open(CALLER, number, conversation)
    flags = value.flags | (m.LAST if last else 0)
    target = Destination(m.SERVICE_KIND, service)
    session.send(Call(number, flags, milliseconds(timeout), target, value.body, value.properties))
    if last:
        conversation._finish_saying()
    return conversation


async def call(core: Core, service: str, value: Encoded, timeout: float) -> Any:
    """Asks a service and waits for its answer."""

    async def ask() -> Any:
        conversation = await begin(core, service, value, timeout, last=True)
        try:
            async for answer in conversation:
                return answer
            return None
        finally:
            # Given up, or answered by more than was asked for.
            if not conversation._ended:
                conversation._cancel(TideraceError("call-cancelled", "given up by the caller", m.CANCELLED_CODE))

    try:
        return await asyncio.wait_for(ask(), timeout)
    except asyncio.TimeoutError:
        raise TideraceError("timeout", f"{service} has not answered in {timeout:g} s") from None


#: Answers a call: what it returns is the answer. What it raises is told to the caller as `call-failed`. For more than
#: one answer, or to hear more, it uses the conversation.
ServiceHandler = Callable[[Conversation], Awaitable[Any]]


class Responder(Ready):
    """Serves a service; ends by `stop`, or with its `async with`. Calls that are open then may still be answered."""

    def __init__(self, core: Core, path: str, handler: ServiceHandler, concurrency: int, buffer: int) -> None:
        super().__init__(core)
        self.path = path
        flags = m.WINDOW | m.pattern_flag(path)
        self.wish = Wish(m.SERVICE_KIND, path, flags, window=(concurrency, 0))
        self._handler = handler
        self._concurrency = concurrency
        self._buffer = buffer
        self._running = 0

    async def stop(self) -> None:
        self._refuse(TideraceError("closed", "the service was stopped by the application"))
        await self._core.remove(self)

    def failed(self, error: TideraceError) -> None:
        self._refuse(error)

    def called(self, frame: Exchange, transmit: Transmit) -> ExchangeEnd | None:
        conversation = Conversation(self._core, frame.number, RESPONDER, transmit, self._buffer)
        if self._running >= self._concurrency:
            sentence = f"{self._running} calls are being answered, and no more were let in"
            conversation._cancel(TideraceError("service-busy", sentence, m.BUSY_CODE))
            return conversation
        self._running += 1
        self._core.spawn(self._answer(conversation))
        return conversation

    async def _answer(self, conversation: Conversation) -> None:
        """Runs the handler; it is cancelled when the exchange has ended and nobody waits for its answer."""
        try:
            work = asyncio.ensure_future(self._handler(conversation))
            over = asyncio.ensure_future(conversation._over.wait())
            try:
                await asyncio.wait([work, over], return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    work.cancel()
                answer = await work
            finally:
                work.cancel()
                over.cancel()
            if not conversation._said and not conversation._ended:
                await conversation.end(NOTHING if answer is None else answer)
        except TideraceError as error:
            conversation._cancel(error)
        except asyncio.CancelledError:
            conversation._cancel(TideraceError("call-failed", "the handler was cancelled", m.FAILED_CODE))
            if not conversation._over.is_set():
                raise
        except Exception as thrown:
            log.warning("a call of %s failed", self.path, exc_info=thrown)
            conversation._cancel(TideraceError("call-failed", str(thrown) or type(thrown).__name__, m.FAILED_CODE))
        finally:
            self._running -= 1
