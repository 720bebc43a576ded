"""Malformed and hostile input: each gets its error, the server lives on and its memory is bounded.

With HOSTILE_TABLE set, the results are written there as a Markdown table.
"""

import os
import re

import pytest

import hostile
import hostile_http  # noqa: F401  (registers its cases)
import hostile_login  # noqa: F401

import hostile_websocket  # noqa: F401  isort: skip
import hostile_session  # noqa: F401  isort: skip  (last: its last case fills the server)


@pytest.fixture(scope="module", autouse=True)
def table():
    yield
    if path := os.environ.get("HOSTILE_TABLE"):
        with open(path, "w") as file:
            file.write(hostile.table())


@pytest.mark.parametrize("case", hostile.CASES, ids=repr)
def test_hostile(case):
    before = hostile.resident_bytes()
    outcome = case.attack()
    after = hostile.resident_bytes()
    grown = None if before is None else after - before
    hostile.record(case, outcome, grown)
    assert re.fullmatch(case.expected, outcome), f"{case.sends}: got {outcome}, expected {case.expected}"
    assert hostile.served() is True, "the server no longer answers"
    assert grown is None or grown < hostile.RSS_GROWTH_MAX, f"resident memory grew by {grown} bytes"


def test_the_table_is_long_enough():
    assert len(hostile.CASES) >= 40
