"""Dear inputs: whatever one client sends within a megabyte, an honest one beside it waits at most 50 milliseconds more.

With DEAR_TABLE set, the results are written there as a Markdown page.
"""

import mmap
import os
import pathlib

import pytest

import dear
import dear_many  # noqa: F401  (registers its cases)
import dear_values  # noqa: F401  (registers its cases)

USED_MEMORY_BYTES = 512 * 2**20
"""More than the server of a case may have."""


@pytest.fixture(scope="module", autouse=True)
def table():
    yield
    if os.environ.get("DEAR_TABLE"):
        pathlib.Path(os.environ["DEAR_TABLE"]).write_text(dear.page())


@pytest.fixture(scope="module", autouse=True)
def used_memory():
    """Uses 512 MiB of the machine's memory once, which the servers of the cases most likely get afterwards.

    A virtual machine pays its host for the first use of a page, ten microseconds in some places: 40 ms for a value of 15 MB,
    which say nothing of the server.
    """
    with mmap.mmap(-1, USED_MEMORY_BYTES) as memory:
        for page in range(0, USED_MEMORY_BYTES, mmap.PAGESIZE):
            memory[page] = 1


@pytest.fixture
def server():
    one = dear.Server()
    yield one
    one.end()


@pytest.fixture
def paced(server):
    one = dear.Paced()
    yield one
    one.end()


@pytest.mark.parametrize("case", dear.CASES, ids=repr)
def test_dear(case, paced):
    got = dear.run(case, paced)
    answers = got["answers"]
    # That the attack got in.
    assert got["ended"] == 0, f"the server ended {got['ended']} connections; it said last {answers.last[-300:]!r}"
    assert not got["misses"], got["misses"]
    if case.answers:
        got_in, others = answers.seen & case.answers, answers.seen - case.answers - dear.TOO_FAST
        assert got_in and not others, f"answered {answers.seen}, not {case.answers}"
    # That nobody else waits.
    more = dear.more(got)
    assert more <= dear.BAR_MILLISECONDS, f"an honest client waits {more:,.1f} ms more: {got['without']}, {got['beside']}"
    assert got["turn"] <= dear.SHARDS * dear.TURN_UNITS_MAX, f"one turn did {got['turn']:,.0f} units"
    assert dear.served()
    dear.become_calm()


def test_answers_say_the_same_however_they_arrive():
    """The tail that is read again began within `Cache-Control: no-store` now and then, and its directive counted as a refusal."""
    one = b'HTTP/1.1 422 Unprocessable Content\r\nContent-Length: 68\r\nCache-Control: no-store\r\n\r\n{"code":"bad-selector"}'
    other = b"HTTP/1.1 403 Forbidden\r\nCache-Control: no-store\r\nX: 1\r\n\r\n"
    for size in range(1, 200):
        answers = dear.Answers()
        for start in range(0, len(one * 3), size):
            answers.take("one", (one * 3)[start : start + size])
            answers.take("other", (other * 3)[start : start + size])
        assert answers.seen == {"bad-selector"}, size


def test_the_table_is_long_enough():
    assert len(dear.CASES) >= 60


def test_the_page_has_these_cases():
    page = (pathlib.Path(__file__).parents[3] / "docs" / "dear-inputs.md").read_text()
    rows = [row.split(" | ")[1:3] for row in page.splitlines() if row[:3].strip("| ").isdigit()]
    assert rows == [[case.group, case.sends] for case in dear.CASES], "write the page anew, see its head"
