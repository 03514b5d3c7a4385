"""Errors about input, each in one line: where, which field, what was expected, what was found."""

from typing import Final

from zoneward.kube.safe_text import printable

MAX_LENGTH: Final = 300
"""Longest message, in characters: a line that a terminal still shows as a few rows."""
_LONGEST_VALUE: Final = 60
_LONG_LINE: Final = 1 << 16


class InputError(Exception):
    """Input that cannot be used. ``str(error)`` is always one printable line of at most 300 characters.

    The parts, a few, go from the large to the small and are joined with ``: ``; empty ones are left out::

        InputError("a.yaml", "document 3", "Service shop/cart", "spec.ports[0].port", "expected an integer, got 'http'")
    """

    def __init__(self, source: str, *parts: str) -> None:
        present = [part for part in (source, *parts) if part]
        room = MAX_LENGTH - len(": ") * (len(present) - 1)
        # Only the longest parts are cut, and all of them to the same length.
        limit = next(
            (limit for limit in range(MAX_LENGTH, 1, -1) if sum(min(len(p), limit) for p in present) <= room), 1
        )
        line = ": ".join(_cut(part, limit) for part in present)
        # Names in a file may hold anything, also sequences that control a terminal.
        super().__init__(printable(line))


class FieldMismatch(Exception):  # noqa: N818 -- readers turn it into an InputError with its place
    """A value that does not fit its field, found by code that does not know where in the file it stands."""

    def __init__(self, field: str, expected: str, got: str, *, subject: str = "", place: str = "") -> None:
        super().__init__(field, expected, got, subject, place)
        self.field, self.expected, self.got = field, expected, got
        self.subject = subject
        """``Kind namespace/name``, where known."""
        self.place = place
        """Where in its document the object stands, such as ``items[3]``; empty for the document itself."""

    def inside(self, place: str) -> "FieldMismatch":
        """Add an outer level to the place, and return the error itself."""
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


class MalformedText(Exception):  # noqa: N818 -- whoever reads a file turns it into an InputError
    """Text that is neither JSON nor YAML, and where that shows.

    ``line`` and ``column`` count from 1, the column in characters. ``offset`` is in bytes, where it is known.
    """

    def __init__(self, line: int, column: int, problem: str, *, offset: int = 0) -> None:
        super().__init__(line, column, problem)
        self.line, self.column, self.problem, self.offset = line, column, problem, offset

    @classmethod
    def at(cls, data: bytes | bytearray, offset: int, problem: str) -> "MalformedText":
        """A problem at a byte of UTF-8 text."""
        line_start = data.rfind(b"\n", 0, offset) + 1
        # Nobody counts characters on a line of megabytes: there the column is in bytes.
        is_long = offset - line_start > _LONG_LINE
        column = 1 + (offset - line_start if is_long else len(data[line_start:offset].decode("utf-8", "replace")))
        return cls(data.count(b"\n", 0, offset) + 1, column, problem, offset=offset)


def show(value: object) -> str:
    """Word a value for an error message: text in quotes, numbers as they are, collections by their kind; never long."""
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
    """Leave out the middle: the end of a path or a message says as much as its beginning."""
    tail = limit // 2
    return text if len(text) <= limit else f"{text[: limit - tail - 1]}…{text[-tail:]}"


class ConfigurationError(ValueError):
    """An invalid setting. The text is one line: the field, what was expected, what was found."""
