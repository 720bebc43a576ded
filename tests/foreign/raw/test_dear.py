"""Dear inputs: whatever one client sends within a megabyte, no turn of the server does more than its budget and one operation.

With DEAR_TABLE set, the results are written there as a Markdown page, and the honest client's times are held to the bar.
"""

import os
import pathlib

import pytest

import dear
import dear_many  # noqa: F401  (registers its cases)
import dear_values  # noqa: F401  (registers its cases)

TABLE = os.environ.get("DEAR_TABLE")


@pytest.fixture(scope="module")
def server():
    one = dear.Server()
    yield one
    if TABLE:
        pathlib.Path(TABLE).write_text(dear.page())
    one.end()


@pytest.fixture(scope="module")
def paced(server):
    one = dear.Paced()
    yield one
    one.end()


@pytest.mark.parametrize("case", dear.CASES, ids=repr)
def test_dear(case, paced):
    got = dear.run(case, paced)
    assert got["turn"] <= dear.SHARDS * dear.TURN_UNITS_MAX, f"one turn did {got['turn']:,.0f} units"
    assert dear.served()
    if TABLE:
        more = got["beside"]["milliseconds"][1] - got["without"]["milliseconds"][1]
        assert more <= dear.BAR_MILLISECONDS, f"an honest client waits {more:,.1f} ms more"


def test_the_table_is_long_enough():
    assert len(dear.CASES) >= 60
