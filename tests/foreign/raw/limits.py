"""The limits the server was configured with, read from tiderace.toml so that they stand once."""

import pathlib
import re
import tomllib

_CONFIG = tomllib.loads((pathlib.Path(__file__).parent.parent / "tiderace.toml").read_text())
_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "ms": 0.001, "s": 1}


def _plain(value):
    found = re.fullmatch(r"(\d+) ?([A-Za-z]*)", value) if isinstance(value, str) else None
    return int(found[1]) * _UNITS[found[2]] if found else value


LIMITS = {key: _plain(value) for key, value in _CONFIG["limits"].items()}
QUEUE_BYTES_MAX = _plain(_CONFIG["queues"]["memory_bytes_max"])
MESSAGES_BYTES_MAX = _plain(_CONFIG["memory"]["messages_bytes_max"])
LOGIN_FAILURES_MAX = _CONFIG["auth"]["login_failures_max"]
HEART_BEAT_GRACE = _CONFIG["stomp"]["heart_beat_grace"]
REDELIVERIES_MAX = _CONFIG["queue"][0]["redeliveries_max"]
# Fixed in the server (core/base/src/limits.rs), not options.
PATH_BYTES_MAX = 1024
PATH_DEPTH_MAX = 64
