"""Dear inputs: whatever one client sends within a megabyte, an honest one beside it waits at most 50 milliseconds more.

With DEAR_TABLE set, the results are written there as a Markdown page.
"""

import os
import pathlib

import pytest

import dear
import dear_many  # noqa: F401  (registers its cases)
import dear_values  # noqa: F401  (registers its cases)
import paced as honest


@pytest.fixture(scope="module", autouse=True)
def table():
    yield
    if os.environ.get("DEAR_TABLE"):
        pathlib.Path(os.environ["DEAR_TABLE"]).write_text(dear.page())


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


def test_only_the_kernels_time_for_new_pages_is_taken_off():
    def stat(faults, ticks):
        return honest.Memory.of_stat(f"7 (shard-0 (a) b) S 1 7 7 0 -1 4194368 {faults} 0 0 0 90 {ticks} 0 0 20 0".encode())

    before = stat(100, 50)
    assert before == honest.Memory(faults=100, system=0.5)
    assert stat(100, 90).taken_since(before) == 0, "a system call that takes long is the server's"
    assert stat(101, 90).taken_since(before) == honest.FAULT_SECONDS_MAX, "one page is given in that time"
    assert stat(10_000, 90).taken_since(before) == pytest.approx(0.4), "and no more than the kernel has worked"


def test_the_table_is_long_enough():
    assert len(dear.CASES) >= 60


def test_the_page_has_these_cases():
    page = (pathlib.Path(__file__).parents[3] / "docs" / "dear-inputs.md").read_text()
    rows = [row.split(" | ")[1:3] for row in page.splitlines() if row[:3].strip("| ").isdigit()]
    assert rows == [[case.group, case.sends] for case in dear.CASES], "write the page anew, see its head"
