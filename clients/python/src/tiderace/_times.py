"""Times as the protocol writes them: in milliseconds."""

from __future__ import annotations

from datetime import datetime


def milliseconds(seconds: float) -> int:
    """Of a span in seconds, rounded up; none if it is negative."""
    return max(0, -int(-seconds * 1000 // 1))


def moment(time: datetime | float) -> int:
    """Milliseconds since 1970."""
    return round((time.timestamp() if isinstance(time, datetime) else time) * 1000)
