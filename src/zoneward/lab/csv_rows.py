"""Rows of a CSV file with inputs, from lines to numbers.

What a row may look like is said once, by `row_of`. Nearly all are of the plainest form, and `parsed` has those read by
`scan`, a hundred times faster; it hands every other row to `row_of`, which reads it or says what is wrong.
"""

import csv
import re
from collections.abc import Callable, MutableSequence, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoneward.kube.input_error import FieldMismatch, show
from zoneward.lab.datasets import MOST_PER_ZONE, Integers
from zoneward.lab.scoring import kept_in
from zoneward.routing.compiled import compiled

MOST_BYTES: Final = 2048
"""The longest line: the largest numbers for 30 zones leave a thousand characters and more for the name."""
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_DIGITS: Final = len(str(MOST_PER_ZONE))
_RETURN, _SPACE, _QUOTE, _COMMA, _ZERO, _NINE = b'\r ",09'


@dataclass(frozen=True, slots=True)
class Rows:
    """What became of lines: arrays of shape (rows, zones), and which lines they were, by number.

    ``bad`` is the first of the other lines, with what is wrong with it.
    """

    names: list[str]
    demand: Integers
    supply: Integers
    lines: Integers
    bad: tuple[int, FieldMismatch] | None


def row_of(line: bytes, zones: Sequence[str]) -> tuple[str, list[int]]:
    """A row's name, and the nodes of each zone followed by the endpoints of each. Raises `FieldMismatch`.

    Cells are cut at commas and may be quoted as in RFC 4180, but for line ends in quotes. Spaces before a cell don't
    count, and any number of them may stand between nodes and endpoints and after them, as for the proposal's tool.
    """
    cells = cells_of(line)
    columns = len(zones) + 1
    if len(cells) < columns:
        got = str(len(cells)) if line.strip() else "an empty line"
        raise FieldMismatch(zones[len(cells) - 1], f"{columns} columns", got)
    if len(cells) > columns:
        raise FieldMismatch("", f"{columns} columns", str(len(cells)))
    demand, supply = [], []
    for zone, cell in zip(zones, cells[1:], strict=True):
        numbers = cell.split()
        if len(numbers) != 2:
            raise FieldMismatch(zone, "nodes and endpoints with a space between", show(cell))
        demand.append(_count(zone, "nodes", numbers[0]))
        supply.append(_count(zone, "endpoints", numbers[1]))
    if not any(demand):
        raise FieldMismatch("", "a node in one of the zones", "none")
    return cells[0].lstrip(" "), demand + supply


def _count(zone: str, what: str, written: str) -> int:
    number = int(written) if _NUMBER.fullmatch(written) else -1
    if not 0 <= number <= MOST_PER_ZONE:
        raise FieldMismatch(zone, f"{what} as a whole number from 0 to {MOST_PER_ZONE:,}", show(written))
    return number


def cells_of(line: bytes, *, most: int = MOST_BYTES) -> list[str]:
    """A line cut at its commas; quoted cells without their quotes. Raises `FieldMismatch`."""
    if len(line) > most:
        raise FieldMismatch("", f"at most {most:,} bytes", "more")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise FieldMismatch("", "UTF-8", f"byte 0x{line[error.start]:02x}") from None
    if '"' not in text:
        return text.split(",")
    try:
        return next(csv.reader([text], strict=True, skipinitialspace=True))
    except csv.Error:
        raise FieldMismatch("", "quotes in pairs around cells, and doubled within", show(text)) from None


def parsed(lines: bytes, ends: Integers, zones: Sequence[str]) -> Rows:
    """Lines as rows; ``ends`` are their ends in ``lines``, behind the line feed that each of them has."""
    names, numbers, plain = _plainly(lines, ends, len(zones))
    good = np.ones(len(ends), np.bool_)
    bad = None
    for row in np.flatnonzero(~plain).tolist():
        line = lines[ends[row - 1] if row else 0 : ends[row] - 1].removesuffix(b"\r")
        try:
            names[row], numbers[row] = row_of(line, zones)
        except FieldMismatch as misfit:
            good[row] = False
            bad = bad or (row, misfit)
    kept = np.flatnonzero(good)
    if bad is not None:
        numbers = numbers[kept]
        names = [names[row] for row in kept.tolist()]
    demand, supply = (np.ascontiguousarray(part) for part in np.split(numbers, 2, axis=1))
    return Rows(names, demand, supply, kept, bad)


def _plainly(lines: bytes, ends: Integers, zones: int) -> tuple[list[str], Integers, NDArray[np.bool_]]:
    """Names and numbers of the rows, and of which of them that is the truth. None of those is bad."""
    stops = np.empty(len(ends), np.int64)
    numbers = np.empty((len(ends), 2 * zones), np.int64)
    plain = np.empty(len(ends), np.bool_)
    _scan()(np.frombuffer(lines, np.uint8), ends, zones, stops, numbers, plain)
    bounds = zip([0, *ends[:-1].tolist()], stops.tolist(), strict=True)
    if lines.isascii():
        text = lines.decode()
        return [text[start:stop] for start, stop in bounds], numbers, plain
    names = [lines[start:stop].decode(errors="replace") for start, stop in bounds]
    # What stands for bytes that are not UTF-8; it may as well have been written there.
    plain &= np.array(["\ufffd" not in name for name in names])
    return names, numbers, plain


@cache
def _scan() -> Callable[..., None]:
    return compiled(scan, kept_in=kept_in(), kept_as="csv_rows")


def scan(
    lines: Sequence[int],
    ends: Sequence[int],
    zones: int,
    stops: MutableSequence[int],
    numbers: MutableSequence[MutableSequence[int]],
    plain: MutableSequence[bool],
) -> None:
    """Read rows of the plainest form: where the name of each stops, and the numbers of its zones, nodes first.

    Such a row has no quotes, at most one space after a comma and none before the name, one between nodes and endpoints,
    and at most seven digits in each. Whatever else there is, it is not ``plain``, and what is written for it is of no
    use. A compiler can take this as it is.
    """
    start = 0
    for row in range(len(ends)):
        end = ends[row] - 1
        fits = end - start <= MOST_BYTES and lines[start] != _SPACE
        if end > start and lines[end - 1] == _RETURN:
            end -= 1
        at = start
        while at < end and lines[at] != _COMMA and lines[at] != _QUOTE:
            at += 1
        stops[row] = at
        nodes = 0
        for cell in range(2 * zones):
            is_nodes = cell % 2 == 0
            fits = fits and at < end and lines[at] == (_COMMA if is_nodes else _SPACE)
            at += 1
            if is_nodes and at < end and lines[at] == _SPACE:
                at += 1
            number = 0
            first = at
            while at < end and _ZERO <= lines[at] <= _NINE:
                number = number * 10 + lines[at] - _ZERO
                at += 1
            fits = fits and 0 < at - first <= _DIGITS and number <= MOST_PER_ZONE
            if not fits:
                break
            if is_nodes:
                nodes += number
                numbers[row][cell // 2] = number
            else:
                numbers[row][zones + cell // 2] = number
        plain[row] = fits and at == end and nodes > 0
        start = ends[row]
