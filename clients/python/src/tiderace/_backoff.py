"""How long to wait before the next round of attempts: a random part of a window that grows."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Backoff:
    """Seconds: the first window, unless the server advises one, and the largest."""

    base: float = 1.0
    most: float = 30.0

    def delay(self, attempt: int, advised: float, random: Random) -> float:
        """Seconds. `attempt` is 0 for the first one after a connection was lost."""
        first = advised or self.base
        window = min(max(self.most, advised), first * 2.0 ** min(attempt, 30))
        return random.random() * window
