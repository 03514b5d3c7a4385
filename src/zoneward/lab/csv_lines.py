"""Lines of a file, so many at once, in memory that does not depend on how many there are or how long they are."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np

from zoneward.lab.csv_rows import MOST_BYTES
from zoneward.lab.datasets import Integers

BLOCK: Final = 1 << 20
"""Bytes that are read at once. Nothing but speed depends on it."""
BLANK: Final = b" \t\r\n"
_KEPT: Final = MOST_BYTES + 2
"""Of a longer line: one byte too many, even where the last is a carriage return."""
_LINE_FEED: Final = ord("\n")


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Lines with the numbers of their rows; each ends before ``ends``, with a line feed."""

    numbers: Integers
    lines: bytes
    ends: Integers

    def line(self, number: int) -> bytes:
        return self.lines[self.ends[number - 1] if number else 0 : self.ends[number]]


NOTHING: Final = Stretch(np.zeros(1, np.int64), b"", np.zeros(0, np.int64))


def extent(file: BinaryIO) -> tuple[int, int]:
    """How many lines are left, and where the last one ends; blank ones at the end don't count."""
    lines = feeds = 0
    at = stop = file.tell()
    while block := file.read(BLOCK):
        solid = block.rstrip(BLANK)
        feeds += solid.count(b"\n")
        if solid:
            lines, stop = feeds + 1, at + len(solid)
        feeds += block.count(b"\n", len(solid))
        at += len(block)
    return lines, stop


def stretches(pieces: Iterator[bytes], *, of: int) -> Iterator[Stretch]:
    """``of`` lines at once, wherever ``pieces`` of the file end.

    Of a line that is too long only so much is kept that this can be seen.
    """
    number, tail = 0, b""
    held, ends = bytearray(), _ends(b"")
    for block in pieces:
        begun = tail + block
        cut = begun.rfind(b"\n") + 1
        whole, tail = begun[:cut], begun[cut:][:_KEPT]
        stops = _ends(whole)
        if np.diff(stops, prepend=0).max(initial=0) > _KEPT:
            whole = b"".join(line[:_KEPT] + b"\n" for line in whole[:-1].split(b"\n"))
            stops = _ends(whole)
        ends = np.concatenate([ends, stops + len(held)])
        held += whole
        while len(ends) >= of:
            cut = int(ends[of - 1])
            yield Stretch(np.arange(number, number + of), bytes(held[:cut]), ends[:of])
            number += of
            ends = ends[of:] - cut
            del held[:cut]
    if len(ends):
        yield Stretch(np.arange(number, number + len(ends)), bytes(held), ends)


def blocks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """All there is up to ``size`` bytes, and a line feed behind the last line if it has none."""
    last = b"\n"
    while size and (block := file.read(min(BLOCK, size))):
        size -= len(block)
        last = block
        yield block
    if not last.endswith(b"\n"):
        yield b"\n"


def _ends(lines: bytes) -> Integers:
    ends: Integers = np.flatnonzero(np.frombuffer(lines, np.uint8) == _LINE_FEED) + 1
    return ends
