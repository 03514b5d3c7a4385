"""Errors about input, in one line: the file, the field, what was expected, what the input has, and similar names."""

import heapq
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final

from zoneward.kube.safe_text import printable

MAX_LENGTH: Final = 300
"""Longest message, in characters: a few rows of a terminal."""
_LONGEST_VALUE: Final = 60
_LONG_LINE: Final = 1 << 16


class InputError(Exception):
    """Input that cannot be used. ``str(error)`` is always one printable line of at most 300 characters.

    The parts narrow down the error and are joined with ``: ``, without empty ones::

        InputError("a.yaml", "document 3", "Service shop/cart", "spec.ports[0].port", "expected an integer, got 'http'")
    """

    def __init__(self, source: str, *parts: str) -> None:
        present = [part for part in (source, *parts) if part]
        room = MAX_LENGTH - len(": ") * (len(present) - 1)
        # Shorten the longest parts, all to the same length.
        limit = next(
            (limit for limit in range(MAX_LENGTH, 1, -1) if sum(min(len(p), limit) for p in present) <= room), 1
        )
        line = ": ".join(_cut(part, limit) for part in present)
        # Names in a file may contain control sequences of a terminal.
        super().__init__(printable(line))


class FieldMismatch(Exception):  # noqa: N818 -- readers turn it into an InputError with file and document
    """A value that does not fit its field, raised by code that does not know the file."""

    def __init__(self, field: str, expected: str, got: str, *, subject: str = "", path: str = "") -> None:
        super().__init__(field, expected, got, subject, path)
        self.field, self.expected, self.got = field, expected, got
        self.subject = subject
        """``Kind namespace/name``, where known."""
        self.path = path
        """The object within its document, such as ``items[3]``; empty for the document itself."""

    def __str__(self) -> str:
        """Without the object."""
        field = f"{self.field}: " if self.field else ""
        return f"{field}expected {self.expected}{f', got {self.got}' if self.got else ''}"

    def inside(self, path: str) -> "FieldMismatch":
        """Prepend an outer level to the path, and return the error itself."""
        self.path = f"{path}.{self.path}" if self.path else path
        return self

    def error(self, source: str, document: int) -> InputError:
        return InputError(
            source,
            f"document {document}",
            self.path,
            self.subject,
            self.field,
            f"expected {self.expected}, got {self.got}",
        )


class MalformedText(Exception):  # noqa: N818 -- readers turn it into an InputError with file and document
    """A syntax error in JSON or YAML.

    ``line`` and ``column`` count from 1, the column in characters. ``offset`` is in bytes, 0 if unknown.
    """

    def __init__(self, line: int, column: int, problem: str, *, offset: int = 0) -> None:
        super().__init__(line, column, problem)
        self.line, self.column, self.problem, self.offset = line, column, problem, offset

    @classmethod
    def at(cls, data: bytes | bytearray, offset: int, problem: str) -> "MalformedText":
        """A problem at an offset of UTF-8 text."""
        line_start = data.rfind(b"\n", 0, offset) + 1
        # On a line of megabytes the column is in bytes.
        is_long = offset - line_start > _LONG_LINE
        column = 1 + (offset - line_start if is_long else len(data[line_start:offset].decode("utf-8", "replace")))
        return cls(data.count(b"\n", 0, offset) + 1, column, problem, offset=offset)


def show(value: object) -> str:
    """A value for an error message, shortened: text in quotes, numbers as written, collections by their kind."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return repr(_cut(value, _LONGEST_VALUE))
        case int():
            # Python refuses to format an int of thousands of digits.
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
    """Shorten in the middle: the end of a path is as important as its beginning."""
    tail = limit // 2
    return text if len(text) <= limit else f"{text[: limit - tail - 1]}…{text[-tail:]}"


class ConfigurationError(ValueError):
    """An invalid setting. The text is one line: the field, what was expected, and the value."""


# --- names that were meant --------------------------------------------------------------------------------------------


_ALIKE: Final = 0.6
"""The least similarity of two words, as in `difflib.get_close_matches`."""
_MAX_NAMES: Final = 3
_MARGIN: Final = 0.1
"""Largest difference in similarity to the nearest name."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'shop'?)`` for the end of a message; empty if no name is similar."""
    near = [repr(name) for name in near_names(word, known)]
    if not near:
        return ""
    return f" (did you mean {' or '.join(filter(None, (', '.join(near[:-1]), near[-1])))}?)"


def near_names(word: str, known: Iterable[str], *, least: float = _ALIKE) -> list[str]:
    """Up to three known names similar to ``word``, the nearest first; ``least`` is the lowest similarity, 1 is equal.

    Case is ignored. A name that differs only in case is the only answer.
    """
    folded = word.casefold()
    matcher = SequenceMatcher(autojunk=False)
    # difflib caches its analysis of the second sequence.
    matcher.set_seq2(folded)
    scores: list[tuple[float, str]] = []
    for name in sorted(set(known)):
        other = name.casefold()
        if other == folded:
            return [name]
        matcher.set_seq1(other)
        if matcher.real_quick_ratio() >= least and matcher.quick_ratio() >= least and matcher.ratio() >= least:
            scores.append((-matcher.ratio(), name))
    nearest = heapq.nsmallest(_MAX_NAMES, scores)
    return [name for score, name in nearest if score <= nearest[0][0] + _MARGIN]
