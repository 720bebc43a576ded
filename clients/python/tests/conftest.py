"""The server that tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from server import Server

# How long an example takes says nothing on a busy machine, and other runs leave nothing behind.
settings.register_profile("tiderace", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tiderace")

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
