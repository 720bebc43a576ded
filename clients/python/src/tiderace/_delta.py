"""Deltas of codec 1 (docs/protocol.md, section 8): a new body made of pieces of the one before."""

from __future__ import annotations

from ._errors import malformed
from ._wire import Reader, Writer

#: Above what any server lets a body be by default.
BODY_BYTES_MAX = 256 * 1024 * 1024


def apply_delta(old: bytes, delta: bytes) -> bytes:
    """The new body."""
    data = Reader(delta)
    prefix, suffix = data.varint(), data.varint()
    if prefix + suffix > len(old):
        raise malformed(f"a delta keeps {prefix + suffix} bytes of a body of {len(old)}")
    pieces = [old[:prefix]]
    length, cursor = prefix + suffix, prefix
    while not data.empty:
        head = data.varint()
        count, kind = head >> 2, head & 3
        if count < 1 or kind > 2:
            raise malformed(f"a delta has the unknown operation {head}")
        if kind == 1:
            pieces.append(data.take(count))
            cursor = min(cursor + count, len(old))
        else:
            if kind == 2:
                move = data.varint()
                cursor += -((move + 1) // 2) if move & 1 else move // 2
            if cursor < 0 or cursor + count > len(old):
                raise malformed(f"a delta copies {count} bytes at byte {cursor} of a body of {len(old)}")
            pieces.append(old[cursor : cursor + count])
            cursor += count
        length += count
        if length > BODY_BYTES_MAX:
            raise malformed(f"a delta makes a body of more than {BODY_BYTES_MAX} bytes")
    pieces.append(old[len(old) - suffix :])
    return b"".join(pieces)


def make_delta(old: bytes, new: bytes) -> bytes:
    """What has changed of a body: all between what is the same at its beginning and at its end."""
    most = min(len(old), len(new))
    prefix = _common(old, new, most)
    rest = most - prefix
    suffix = _common(old[len(old) - rest :][::-1], new[len(new) - rest :][::-1], rest)
    middle = new[prefix : len(new) - suffix]
    out = Writer().varint(prefix).varint(suffix)
    if middle:
        out.varint(len(middle) << 2 | 1).raw(middle)
    return out.done()


def _common(one: bytes, other: bytes, most: int) -> int:
    """How many bytes two blocks have in common at their beginnings: by halves, each compared as a whole."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
