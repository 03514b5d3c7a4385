"""What is wrong with input, said in one line that points: where, field, expected, got."""

from typing import Final

from zoneward.kube.safe_text import printable

MAX_LENGTH: Final = 300
"""Longest message, in characters: a line that a terminal still shows as a few rows."""
_LONGEST_VALUE: Final = 60


class InputError(Exception):
    """Input that cannot be used. ``str(error)`` is always one visible line of at most 300 characters.

    The parts, a few, go from the large to the small and are joined with ``: ``; empty ones are left out::

        InputError("a.yaml", "document 3", "Service shop/cart", "spec.ports[0].port", "expected an integer, got 'http'")
    """

    def __init__(self, source: str, *parts: str) -> None:
        told = [part for part in (source, *parts) if part]
        room = MAX_LENGTH - len(": ") * (len(told) - 1)
        # Only the longest parts are cut, and all of them to the same length.
        limit = next((limit for limit in range(MAX_LENGTH, 1, -1) if sum(min(len(p), limit) for p in told) <= room), 1)
        line = ": ".join(_cut(part, limit) for part in told)
        # Names in a file may hold anything, sequences that steer a terminal included.
        super().__init__(printable(line))


class FieldMismatch(Exception):  # noqa: N818  (never leaves the package: readers turn it into an InputError with its place)
    """A value that does not fit its field, as it is found by code that does not know the value's place."""

    def __init__(self, field: str, expected: str, got: str, *, subject: str = "", place: str = "") -> None:
        super().__init__(field, expected, got, subject, place)
        self.field, self.expected, self.got = field, expected, got
        self.subject = subject
        """``Kind namespace/name``, where known."""
        self.place = place
        """Where in its document the object stands, such as ``items[3]``; empty for the document itself."""

    def inside(self, place: str) -> "FieldMismatch":
        """The same, seen from one level further out."""
        self.place = f"{place}.{self.place}" if self.place else place
        return self

    def error(self, source: str, document: int) -> InputError:
        return InputError(
            source,
            f"document {document}",
            self.place,
            self.subject,
            self.field,
            f"expected {self.expected}, got {self.got}",
        )


def show(value: object) -> str:
    """A value as it may stand after "got": text in quotes, numbers bare, collections by their kind; never long."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return repr(_cut(value, _LONGEST_VALUE))
        case int():
            # Beyond some thousand digits Python refuses to write an int out.
            return str(value) if abs(value) < 10**_LONGEST_VALUE else "a very large number"
        case float():
            return repr(value)
        case list() | tuple():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return _cut(type(value).__name__, _LONGEST_VALUE)


def _cut(text: str, limit: int) -> str:
    """Text without its middle: of paths and messages the end tells as much as the beginning."""
    tail = limit // 2
    return text if len(text) <= limit else f"{text[: limit - tail - 1]}…{text[-tail:]}"
