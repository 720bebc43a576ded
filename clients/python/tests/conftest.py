"""The server that tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from server import Server

#: Files of tests against a real server.
REAL = ("test_real_", "test_restart", "test_readme")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """So that they can be left out where there is no server."""
    for item in items:
        if item.path.name.startswith(REAL):
            item.add_marker(pytest.mark.server)


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """Of a server in development mode, with a store."""
    with Server() as server:
        yield server.url
        server.stop()
