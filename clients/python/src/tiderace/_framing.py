"""Messages within transport messages: type, length, payload (docs/protocol.md, sections 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterator

from ._client_frames import ClientFrame, read_client_frame
from ._errors import malformed
from ._server_frames import ServerFrame, read_server_frame
from ._wire import Reader, Writer


def encode(frame: ClientFrame | ServerFrame) -> bytes:
    """A whole message."""
    payload = Writer()
    frame.write(payload)
    message = Writer().u8(frame.TYPE).varint(len(payload.block)).block
    message += payload.block
    return bytes(message)


def split(data: bytes) -> Iterator[tuple[int, Reader, int]]:
    """The messages of a transport message: type, payload, and the size of all."""
    whole = Reader(data)
    while not whole.empty:
        start = whole.at
        kind, length = whole.u8(), whole.varint()
        end = whole.at + length
        if end > whole.end:
            raise malformed(f"the message of type {kind:#04x} at byte {start} ends behind its transport message")
        yield kind, Reader(data, whole.at, end), end - start
        whole.at = end


def decode_server(data: bytes) -> Iterator[tuple[ServerFrame, int]]:
    """What a client reads: messages and their sizes; unknown ones are skipped."""
    for kind, payload, size in split(data):
        frame = read_server_frame(kind, payload)
        if frame is not None:
            yield frame, size


def decode_client(data: bytes) -> Iterator[ClientFrame]:
    """What a server reads."""
    for kind, payload, _ in split(data):
        frame = read_client_frame(kind, payload)
        if frame is not None:
            yield frame
