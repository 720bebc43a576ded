"""Malformed and hostile input: each gets its error, the server lives on and its memory is bounded.

With HOSTILE_TABLE set, the results are written there as a Markdown page.
"""

import os
import pathlib
import re
import signal
import time

import pytest
from companion import Companion

import hostile
import hostile_engineio  # noqa: F401  (registers its cases)
import hostile_events  # noqa: F401
import hostile_http  # noqa: F401
import hostile_http2  # noqa: F401
import hostile_login  # noqa: F401
import hostile_operations  # noqa: F401
import hostile_rsocket  # noqa: F401
import hostile_rsocket_floods  # noqa: F401
import hostile_rsocket_http2  # noqa: F401
import hostile_websocket  # noqa: F401

import hostile_session  # noqa: F401  isort: skip  (last: its last case fills the server)

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "hostile-inputs.md"
LIMIT_SECONDS = 240
WRITTEN = pathlib.Path(path) if (path := os.environ.get("HOSTILE_TABLE")) else None


@pytest.fixture(scope="module", autouse=True)
def page():
    yield
    if WRITTEN:
        WRITTEN.write_text(hostile.page())


@pytest.fixture(autouse=True)
def limit():
    """Ends an attack that does not end by itself."""

    def over(*_):
        raise TimeoutError(f"the attack went on for {LIMIT_SECONDS} s")

    signal.signal(signal.SIGALRM, over)
    signal.alarm(LIMIT_SECONDS)
    yield
    signal.alarm(0)


@pytest.fixture(scope="module")
def companion():
    one = Companion()
    hostile.UNDISTURBED.append(one.undisturbed)
    yield one
    one.close()


@pytest.mark.parametrize("case", hostile.CASES, ids=repr)
def test_hostile(case, request):
    beside = request.getfixturevalue("companion") if case.beside else None
    if beside:
        beside.begin()
    before, busy, began = hostile.resident_bytes(), hostile.busy_seconds(), time.monotonic()
    hostile.begin_peak()
    outcome = case.attack()
    took = time.monotonic() - began
    after, peak = hostile.resident_bytes(), hostile.peak_bytes()
    grown = None if before is None else after - before
    worked = None if busy is None else hostile.busy_seconds() - busy
    measured = beside.end() if beside else None
    hostile.record(case, outcome, peak, grown, took, worked, measured)
    assert re.fullmatch(case.expected, outcome), f"{case.sends}: got {outcome}, expected {case.expected}"
    assert hostile.served() is True, "the server no longer answers"
    assert peak is None or peak <= hostile.RESIDENT_MAX, f"{peak} bytes were resident"
    assert grown is None or case.fills or grown < hostile.GROWTH_MAX, f"resident memory grew by {grown} bytes"


def test_the_table_is_long_enough():
    assert len(hostile.CASES) >= 40


def test_the_documented_cases_are_these():
    page = hostile.page() if WRITTEN == PAGE else PAGE.read_text()
    assert hostile.named_in(page) == hostile.names_of_page(), (
        "write the page again: HOSTILE_TABLE=docs/hostile-inputs.md tests/foreign/run hostile"
    )
