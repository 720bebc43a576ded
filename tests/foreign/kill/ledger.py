"""What was sent to queues, confirmed, delivered and settled, and what must follow from that.

A message is a number, given in the order of sending. Threads only set marks of their own kind, each in an array of its
own, so that no two of them write the same byte; the checks that need all marks are made when nothing runs (`audit`).
"""

import threading
from array import array


class Source:
    """What one connection sends to one queue in one life of the server: its numbers are in order."""

    def __init__(self, queue, life, kept=True):
        self.queue, self.life, self.kept = queue, life, kept
        self.numbers = array("Q")


class Transaction:
    """Messages that take effect together, and those that are settled with them."""

    def __init__(self, life):
        self.life = life
        self.state = "open"
        """Then `aborted`, or `asked` when COMMIT may have been sent, and `confirmed` when its receipt was read."""
        self.sent = {}
        """Numbers by queue."""
        self.settled = []


class Ledger:
    """All marks, and the violations that were found."""

    def __init__(self, homes, ordered=()):
        self.homes = homes
        """With one home, what a transaction does in several queues is done together, too."""
        self.ordered = frozenset(ordered)
        """Queues with one consumer at a time: of those the order of first deliveries is known."""
        self.lock = threading.Lock()
        self.count = 0
        self.sources, self.transactions = [], []
        self.source_of = {}
        self.confirmed, self.delivered, self.acked, self.settled, self.present = (bytearray() for _ in range(5))
        self.last_life = array("L")
        self.last_first = {}
        self.holder = {}
        self.is_ending = False
        """The server was asked to end: it may have ended a reader's connection before that reader sees it."""
        self.violations = []
        self.totals = {"confirmed": 0, "delivered": 0, "settled": 0, "transactions": 0}

    def violation(self, kind, text):
        with self.lock:
            self.violations.append((kind, text))

    def kinds(self):
        return {kind for kind, _ in self.violations}

    # What happens.

    def source(self, queue, life, kept=True):
        one = Source(queue, life, kept)
        with self.lock:
            self.sources.append(one)
        return one

    def transaction(self, life):
        one = Transaction(life)
        with self.lock:
            self.transactions.append(one)
        return one

    def number(self, source):
        """The number of the next message of that source."""
        with self.lock:
            number = self.count
            self.count += 1
            if number >= len(self.confirmed):
                for marks in (self.confirmed, self.delivered, self.acked, self.settled, self.present):
                    marks.extend(bytes(65536))
                self.last_life.extend([0] * 65536)
            source.numbers.append(number)
            self.source_of[number] = source
        return number

    def number_in(self, text, queue, life):
        """The number of the message with that body; None for what marked the end of an audit, which was settled."""
        number = text.split(" ", 1)[0]
        if number.startswith("end-"):
            self.violation("settled", f"{text} of {queue} came again in life {life}, after its ACK was confirmed")
            return None
        return int(number)

    def deliver(self, number, queue, reader, life):
        """A message was read by a reader: an object with `is_open`."""
        source = self.source_of.get(number)
        if number >= self.count or (source and queue not in (source.queue, f"dlq/{source.queue}")):
            self.violation("strange", f"message {number} came from {queue} in life {life}")
            return
        # A dead letter is moved to another home at least once, not exactly once.
        may_be_twice = queue.startswith("dlq/") and self.homes > 1
        if self.settled[number] and not may_be_twice:
            self.violation("settled", f"message {number} of {queue} came in life {life}, after its ACK was confirmed")
        elif source is None:
            self.violation("late", f"message {number} of {queue} came in life {life}, and not when everything was taken")
        holder = self.holder.get(number)
        is_held = holder and holder is not reader and holder.is_open and not self.is_ending
        if is_held and not may_be_twice:
            self.violation("twice", f"message {number} of {queue} came to two consumers at a time in life {life}")
        self.holder[number] = reader
        if not self.delivered[number] and source and queue in self.ordered:
            key = (queue, source)
            if number < self.last_first.get(key, -1):
                before = self.last_first[key]
                self.violation("order", f"message {number} of {queue} came after {before} in life {life}")
            self.last_first[key] = number
        self.delivered[number] = 1
        self.last_life[number] = life

    def give_back(self, number):
        """The reader has rejected it: somebody else may have it."""
        self.holder.pop(number, None)

    # What must hold when everything that was left has been taken.

    def audit(self):
        """Checks what was sent since the last audit. Every message that the server still had must have been marked
        as `present` before. Afterwards only settled messages are remembered."""
        for source in self.sources:
            self.audit_source(source)
        for transaction in self.transactions:
            self.audit_transaction(transaction)
        self.totals["confirmed"] += sum(self.confirmed[number] for number in self.source_of)
        self.totals["delivered"] += sum(self.delivered[number] for number in self.source_of)
        self.totals["settled"] += sum(self.settled[number] for number in self.source_of)
        self.totals["transactions"] += sum(one.state == "confirmed" for one in self.transactions)
        self.sources, self.transactions, self.source_of = [], [], {}
        self.last_first, self.holder = {}, {}

    def audit_source(self, source):
        where = f"of {source.queue}, sent in life {source.life}"
        gone = None
        for number in source.numbers if source.kept else ():
            if self.confirmed[number]:
                self.audit_confirmed(number, where)
            if not self.delivered[number]:
                gone = number if gone is None else gone
            elif gone is not None and self.is_stored(number, source.life):
                self.violation("hole", f"message {number} {where}, is there, {gone} before it is not")
                gone = None

    def audit_confirmed(self, number, where):
        if not self.acked[number] and not self.present[number]:
            what = "was delivered once and then" if self.delivered[number] else "was"
            self.violation("lost", f"message {number} {where}, was confirmed and {what} never seen again")

    def is_stored(self, number, life):
        """Whether the store must have had it: it came in a later life than it was sent in, or its ACK was confirmed.
        That a consumer had it in the same life says nothing: consumers do not wait for the store."""
        return self.last_life[number] > life or bool(self.settled[number])

    def audit_transaction(self, one):
        numbers = [number for queue in one.sent.values() for number in queue]
        where = f"in life {one.life}, messages {list(one.sent.values())}"
        if one.state in ("open", "aborted"):
            if any(self.delivered[number] for number in numbers):
                self.violation("transaction", f"a transaction that was {one.state} has sent something {where}")
        elif one.state == "confirmed":
            for number in numbers:
                self.audit_confirmed(number, f"of a transaction {where}")
        elif self.homes == 1:
            self.audit_whole(one, numbers, where)
            self.audit_moved(one, numbers, where)
        else:
            # Each home does its part as a whole, and a queue is in one.
            for queue, numbers in one.sent.items():
                self.audit_whole(one, numbers, f"for {queue} {where}")

    def audit_whole(self, one, numbers, where):
        stored = [number for number in numbers if self.is_stored(number, one.life)]
        gone = [number for number in numbers if not self.delivered[number]]
        if stored and gone:
            self.violation("transaction", f"a half transaction {where}: {stored} were stored, {gone} were not")

    def audit_moved(self, one, numbers, where):
        """One home settles and sends, or does neither, whether that was confirmed or not."""
        is_done = any(self.is_stored(number, one.life) for number in numbers)
        # What was acknowledged in that life may have been stored, and be gone for good.
        is_left = not is_done and not any(self.acked[number] for number in numbers)
        for number in one.settled:
            source = self.source_of.get(number)
            if source is None or not source.kept:
                continue
            again = self.last_life[number] > one.life
            # A consumer may have had it before the store, which then never had it: nothing was promised of that one.
            was_stored = self.confirmed[number] or source.life < one.life
            if is_done and again:
                self.violation("transaction", f"what a transaction moved came again: {number} {where}")
            elif is_left and was_stored and not again:
                self.violation("transaction", f"what a transaction did not move is gone: {number} {where}")
