"""Types and flags of messages (docs/protocol.md, sections 4 and 5)."""

from __future__ import annotations

import re

HELLO = 0x01
LOGIN = 0x02
SUBSCRIBE = 0x03
UNSUBSCRIBE = 0x04
DECLARE = 0x05
PUBLISH = 0x06
SETTLE = 0x07
CALL = 0x08
SEND = 0x09
CANCEL = 0x0A
CREDIT = 0x0B
PING = 0x0C
BYE = 0x0D
OPERATE = 0x0E

WELCOME = 0x41
OK = 0x42
ERROR = 0x43
TOPIC = 0x44
UPDATES = 0x45
QUEUED = 0x46
EXCHANGE = 0x47
POSITION = 0x48
RECOVERED = 0x49
ENDED = 0x4A
PONG = 0x4B
CLOSE = 0x4C
LOGGED_IN = 0x4D
RESULT = 0x4E
JOINED = 0x4F
LEFT = 0x50
FOLLOWS = 0x51
BROWSED = 0x52
UNSUBSCRIBED = 0x55

TOPIC_KIND = 0
QUEUE_KIND = 1
SERVICE_KIND = 2

# Flags of SUBSCRIBE.
SNAPSHOT = 0x001
RECOVERABLE = 0x002
DELTAS = 0x004
SELECTOR = 0x008
WINDOW = 0x010
RESUME = 0x020
EXPLICIT = 0x040
EXCLUSIVE = 0x080
PATTERN = 0x100
REPLAY = 0x200
INTERVAL = 0x400
NOTICES = 0x800
VALUES = 0x1000
OK_LAST = 0x2000
BROWSE = 0x4000
FOLLOW = 0x8000
START = 0x10000

# Flags of messages with a body: the two lowest bits are the content.
CONTENT = 0x03
PROPERTIES = 0x04

# Flags of PUBLISH.
RETAIN = 0x08
REMOVE = 0x10
EXPIRES = 0x20
PERSISTENT = 0x40
QUEUE_FIELDS = 0x80

# Flags of entries of UPDATES, and of QUEUED and FOLLOWS.
ANNOUNCED = 0x08
FULL_VERSION = 0x10
DELTA = 0x20
REMOVED = 0x40
VALUE = 0x80

# Flags of CALL, SEND and EXCHANGE.
LAST = 0x08
RESPONDER = 0x10
FIRST = 0x20
EXCHANGE_ANNOUNCED = 0x40
BARE = 0x80

#: The flag of HELLO that says that the name of a virtual host follows.
HOST = 0x01
#: The flag of OPERATE that says that there is a body.
BODY = 0x01

#: What the features of WELCOME tell of a server: it knows the flags VALUES and OK_LAST.
CAN_TELL_VALUES = 0x1

#: Codecs of deltas (docs/protocol.md, section 8).
CODEC_TIDERACE = 1
CODEC_VCDIFF = 2

#: Of names of the table of codes: `done`, `slow-consumer`, `call-cancelled`, `call-failed`, `service-busy`.
DONE_CODE = 100
SLOW_CONSUMER_CODE = 603
BUSY_CODE = 701
CANCELLED_CODE = 705
FAILED_CODE = 708

_MANY = re.compile(r"^[?\[]|[*+#]")


def pattern_flag(path: str) -> int:
    """Whether a path names many: by wildcards, regular expressions (`?a/.*`) or as a set (`[a, b]`)."""
    return PATTERN if _MANY.search(path) else 0


def after(number: int) -> int:
    """The next number of a request or call: behind the last of 32 bits they begin anew."""
    return number % 0xFFFF_FFFF + 1
