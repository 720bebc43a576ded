"""The examples of docs/protocol.md in machine-readable form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "protocols/native/tests/vectors"


def load(name: str) -> list[dict[str, Any]]:
    return list(json.loads((FOLDER / f"{name}.json").read_text()))


MESSAGES = load("messages")
DELTAS = load("deltas")


def message(name: str) -> bytes:
    """The bytes of a message of that name."""
    return bytes.fromhex(next(row["hex"] for row in MESSAGES if row["name"] == name))
