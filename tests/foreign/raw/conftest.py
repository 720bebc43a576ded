"""Fixtures: connections that are closed after each test, and names nobody else uses."""

import pytest

from wire import Client, unique


@pytest.fixture
def dial():
    """Opens plain connections and closes them all afterwards."""
    opened = []

    def open_one(**options):
        opened.append(Client(**options))
        return opened[-1]

    yield open_one
    for client in opened:
        client.close()


@pytest.fixture
def client(dial):
    """A client that is logged in with STOMP 1.2."""
    one = dial()
    one.login()
    return one


@pytest.fixture
def clients(dial):
    """Makes logged-in clients: `clients(2)` is a list of two."""

    def make(count, **options):
        made = [dial() for _ in range(count)]
        for one in made:
            one.login(**options)
        return made

    return make


@pytest.fixture
def topic():
    return f"/topic/{unique('topic')}"


@pytest.fixture
def queue():
    return f"/queue/{unique('queue')}"
