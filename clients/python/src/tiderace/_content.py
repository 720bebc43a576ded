"""Values and the bytes of bodies: JSON unless said otherwise, bytes as bytes, and the properties beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from . import _messages as m

JSON_TYPE = "application/json"
TEXT_TYPE = "text/plain"
BYTES_TYPE = "application/octet-stream"
#: By the two bits that stand for them.
TYPES = ("", JSON_TYPE, TEXT_TYPE, BYTES_TYPE)


class _Nothing:
    """What is said where there is no value at all; `None` is JSON's null."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()


class Encoded(NamedTuple):
    """A value ready to be written: content bits, with PROPERTIES if there are any."""

    flags: int
    properties: bytes | None
    body: bytes

    @property
    def size(self) -> int:
        return len(self.body) + len(self.properties or b"")


def is_json(content_type: str) -> bool:
    return content_type == JSON_TYPE or content_type.endswith("+json")


def encode_value(value: Any, content_type: str | None = None, properties: Mapping[str, str] | None = None) -> Encoded:
    """`content_type` is JSON if it is not said, and that of bytes for bytes."""
    if isinstance(value, bytes | bytearray | memoryview):
        chosen = content_type or BYTES_TYPE
        body = bytes(value)
    elif value is NOTHING:
        chosen, body = content_type or "", b""
    else:
        chosen = content_type or JSON_TYPE
        body = (to_json(value) if is_json(chosen) else str(value)).encode()
    rows = dict(properties or {})
    known = TYPES.index(chosen) if chosen in TYPES else 0
    if chosen and not known:
        rows["content-type"] = chosen
    if not rows:
        return Encoded(known, None, body)
    return Encoded(known | m.PROPERTIES, encode_properties(rows), body)


#: Made once: `json.dumps` makes one for each value.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def to_json(value: Any) -> str:
    """Raises `TypeError` or `ValueError` for what is no JSON."""
    return _ENCODER.encode(value)


def content_type(flags: int, properties: bytes | None) -> str:
    """What a message says that it is; empty if it says nothing."""
    known = TYPES[flags & m.CONTENT]
    if known or properties is None:
        return known
    return decode_properties(properties).get("content-type", "")


def decode_value(flags: int, properties: bytes | None, body: bytes) -> Any:
    """What a body says: JSON that is none is given as text, text that is none as bytes."""
    kind = content_type(flags, properties)
    if is_json(kind):
        try:
            return json.loads(body.decode())
        except (ValueError, RecursionError):
            return body.decode(errors="replace")
    if kind.startswith("text/"):
        return body.decode(errors="replace")
    if kind:
        return body
    if not body:
        return None
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body


_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", ":": "\\c"}
_MEANINGS = {"n": "\n", "r": "\r", "c": ":"}
_TO_ESCAPE = re.compile(r"[\\\n\r:]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def _escape(value: str) -> str:
    return _TO_ESCAPE.sub(lambda found: _ESCAPES[found[0]], value)


def _unescape(value: str) -> str:
    return _ESCAPED.sub(lambda found: _MEANINGS.get(found[1], found[1]), value) if "\\" in value else value


def encode_properties(properties: Mapping[str, str]) -> bytes:
    return "".join(f"{_escape(name)}:{_escape(value)}\n" for name, value in properties.items()).encode()


def decode_properties(block: bytes | None) -> dict[str, str]:
    """Of equal names the first counts."""
    found: dict[str, str] = {}
    for line in (block or b"").decode(errors="replace").split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(_unescape(name), _unescape(value))
    return found
