"""Text that is no JSON or no YAML, with the place where that shows."""

from typing import Final

_LONG_LINE: Final = 1 << 16


class MalformedText(Exception):  # noqa: N818  (whoever reads a file turns it into an InputError)
    """``line`` and ``column`` count from 1, the column in characters. ``offset`` is in bytes, where it is known."""

    def __init__(self, line: int, column: int, problem: str, *, offset: int = 0) -> None:
        super().__init__(line, column, problem)
        self.line, self.column, self.problem, self.offset = line, column, problem, offset

    @classmethod
    def at(cls, data: bytes | bytearray, offset: int, problem: str) -> "MalformedText":
        """A problem at a byte of UTF-8 text."""
        line_start = data.rfind(b"\n", 0, offset) + 1
        # On a line of megabytes nobody counts characters: there it is bytes.
        is_long = offset - line_start > _LONG_LINE
        column = 1 + (offset - line_start if is_long else len(data[line_start:offset].decode("utf-8", "replace")))
        return cls(data.count(b"\n", 0, offset) + 1, column, problem, offset=offset)
