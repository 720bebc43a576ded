"""What came of an operation (docs/protocol.md, sections 5 and 12): JSON, with the values that came beside it."""

from __future__ import annotations

import json
from typing import Any

from ._content import decode_properties, decode_value
from ._errors import malformed
from ._server_frames import Entry, Result


def result_of(answer: Result) -> dict[str, Any]:
    """The result, with each value in its place."""
    try:
        result = json.loads(answer.result)
        entries = iter(answer.entries)
        for name in ("topics", "events", "messages"):
            for row in _rows(result, name):
                if "bytes" in row:
                    _fill(row, next(entries))
    except (ValueError, RecursionError, StopIteration, AttributeError, TypeError):
        raise malformed("the result of an operation is not what the protocol says") from None
    return dict(result)


def _rows(result: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = result.get(name)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _fill(row: dict[str, Any], entry: Entry) -> None:
    del row["bytes"]
    row["value"] = decode_value(entry.flags, entry.properties, entry.body)
    if entry.properties is not None:
        row["properties"] = decode_properties(entry.properties)
