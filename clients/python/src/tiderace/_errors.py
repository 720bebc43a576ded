"""What goes wrong: a number and a short name for programs, a sentence for people."""

from __future__ import annotations


class TideraceError(Exception):
    """A refusal or an end.

    `name` is one of the server's names (docs/close-codes.md), or one of the client's own: `closed` (by `close()`),
    `connection-lost`, `unreachable`, `timeout`, `too-much-waiting`, `slow-consumer`.
    """

    def __init__(self, name: str, sentence: str, code: int = 0) -> None:
        super().__init__(name, sentence, code)
        self.name = name
        self.sentence = sentence
        #: The server's number for the name; 0 if it came from the client itself.
        self.code = code

    def __str__(self) -> str:
        return f"{self.name}: {self.sentence}"


def malformed(sentence: str) -> TideraceError:
    """The server has sent bytes that break the rules of the protocol: the connection ends."""
    return TideraceError("bad-frame", sentence)
