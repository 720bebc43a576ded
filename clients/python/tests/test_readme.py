"""Runs the Python that the README prints, as it is printed, against a real server, and compares what it says."""

from __future__ import annotations

import contextlib
import io
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from harness import asynchronous

import tiderace

README = Path(__file__).resolve().parents[1] / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
ADDRESS = "http://127.0.0.1:7800"


def snippets() -> list[tuple[str, str | None]]:
    """Each piece of Python, with the output that stands right behind it."""
    found: list[tuple[str, str | None]] = []
    end = -1
    for block in BLOCK.finditer(README.read_text()):
        if block[1] == "python":
            found.append((block[2], None))
            end = block.end()
        elif block[1] == "text" and block.start() == end:
            found[-1] = (found[-1][0], block[2])
    return found


SNIPPETS = snippets()


def test_the_readme_has_snippets_and_says_what_they_print() -> None:
    assert len(SNIPPETS) >= 10
    assert sum(output is not None for _, output in SNIPPETS) >= len(SNIPPETS) - 1


@pytest.mark.parametrize("number", range(1, len(SNIPPETS)))
@asynchronous
async def test_a_snippet_of_the_readme_does_what_it_says(url: str, number: int) -> None:
    code, wanted = SNIPPETS[number]
    scope: dict[str, Any] = {"TideraceError": tiderace.TideraceError}
    exec(f"async def snippet(client):\n{textwrap.indent(code, '    ')}", scope)
    printed = io.StringIO()
    async with tiderace.connect(url) as client:
        with contextlib.redirect_stdout(printed):
            await scope["snippet"](client)
    if wanted is not None:
        assert printed.getvalue() == wanted
    else:
        # What comes between cut and recovery depends on the moment; that nothing is missed does not.
        lines = printed.getvalue().splitlines()
        assert {"all is recovered: True", "update log/b hello"} <= set(lines), lines
        assert not any(line.startswith("missed") for line in lines), lines


def test_the_first_snippet_is_a_whole_program(url: str) -> None:
    code, wanted = SNIPPETS[0]
    assert ADDRESS in code
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code.replace(ADDRESS, url), {})
    assert printed.getvalue() == wanted
