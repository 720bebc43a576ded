"""Where to connect: the application's addresses in a random order, those of a goodbye before them."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from urllib.parse import urlsplit, urlunsplit

#: Of a goodbye's addresses no more are taken.
ADVISED_MAX = 16
ADDRESS_CHARACTERS_MAX = 2048
_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}


def websocket_url(address: str) -> str:
    """The WebSocket of a server's address, such as `http://127.0.0.1:7800` or `https://live.example.org/base`."""
    parts = urlsplit(address)
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None or not parts.hostname:
        raise ValueError(f"{address!r} is no address of a server: write http://HOST:PORT or https://HOST")
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + "/tiderace", "", ""))


class Addresses:
    """Each round has every address once."""

    def __init__(self, own: Iterable[str], random: Random) -> None:
        self._own = [websocket_url(address) for address in own]
        self._advised: list[str] = []
        self._random = random
        if not self._own:
            raise ValueError("at least one address is wanted")

    def round(self) -> list[str]:
        """The addresses in the order in which to try them."""
        return self._shuffled(self._advised) + self._shuffled(url for url in self._own if url not in self._advised)

    def advise(self, addresses: Iterable[str], present: str) -> None:
        """Takes the addresses of a goodbye that came from the present one. None of them gives up its TLS."""
        scheme = urlsplit(present).scheme
        taken: list[str] = []
        for address in addresses:
            if len(taken) == ADVISED_MAX:
                break
            if len(address) > ADDRESS_CHARACTERS_MAX:
                continue
            try:
                url = websocket_url(address if "://" in address else f"{scheme}://{address}")
            except ValueError:
                continue
            if url not in taken and not (scheme == "wss" and url.startswith("ws:")):
                taken.append(url)
        self._advised = taken

    def reached(self) -> None:
        """A server has let the client in: the advice has served."""
        self._advised = []

    def _shuffled(self, addresses: Iterable[str]) -> list[str]:
        found = list(addresses)
        self._random.shuffle(found)
        return found
