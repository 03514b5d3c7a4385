"""Rows of a CSV file with inputs, from lines to numbers.

What a row may look like is said once, by `row_of`. Nearly all are of the plainest form, and `parsed` reads those as
columns, a hundred times faster; it hands every other row to `row_of`, which reads it or says what is wrong.
"""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zoneward.kube.input_error import Misfit, show
from zoneward.lab.datasets import MOST_PER_ZONE, Integers

MOST_BYTES: Final = 2048
"""The longest line: the largest numbers for 30 zones leave a thousand characters and more for the name."""
_NUMBER: Final = re.compile(r"\+?[0-9]+")
_QUOTE: Final = ord('"')


@dataclass(frozen=True, slots=True)
class Rows:
    """What became of lines: arrays of shape (rows, zones), and which lines they were.

    ``bad`` are the other lines by number, each with what is wrong with it, in order.
    """

    names: list[str]
    demand: Integers
    supply: Integers
    lines: Integers
    bad: list[tuple[int, Misfit]]


def row_of(line: bytes, zones: Sequence[str]) -> tuple[str, list[int]]:
    """A row's name, and the nodes of each zone followed by the endpoints of each. Raises `Misfit`.

    Cells are cut at commas and may be quoted as in RFC 4180, but for line ends in quotes. Spaces before a cell don't
    count, and any number of them may stand between nodes and endpoints and after them, as for the proposal's tool.
    """
    cells = _cells(line)
    columns = len(zones) + 1
    if len(cells) < columns:
        got = str(len(cells)) if line.strip() else "an empty line"
        raise Misfit(zones[len(cells) - 1], f"{columns} columns", got)
    if len(cells) > columns:
        raise Misfit("", f"{columns} columns", str(len(cells)))
    demand, supply = [], []
    for zone, cell in zip(zones, cells[1:], strict=True):
        numbers = cell.split()
        if len(numbers) != 2:
            raise Misfit(zone, "nodes and endpoints with a space between", show(cell))
        demand.append(_count(zone, "nodes", numbers[0]))
        supply.append(_count(zone, "endpoints", numbers[1]))
    if not any(demand):
        raise Misfit("", "a node in one of the zones", "none")
    return cells[0].lstrip(" "), demand + supply


def _count(zone: str, what: str, written: str) -> int:
    if not _NUMBER.fullmatch(written) or int(written) > MOST_PER_ZONE:
        raise Misfit(zone, f"{what} as a whole number from 0 to {MOST_PER_ZONE:,}", show(written))
    return int(written)


def _cells(line: bytes) -> list[str]:
    if len(line) > MOST_BYTES:
        raise Misfit("", f"at most {MOST_BYTES:,} bytes", "more")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise Misfit("", "UTF-8", f"byte 0x{line[error.start]:02x}") from None
    if '"' not in text:
        return text.split(",")
    try:
        return next(csv.reader([text], strict=True, skipinitialspace=True))
    except csv.Error:
        raise Misfit("", "quotes in pairs around cells, and doubled within", show(text)) from None


def parsed(lines: bytes, ends: Integers, zones: Sequence[str]) -> Rows:
    """Lines as rows; ``ends`` are their ends in ``lines``, behind the line feed that each of them has."""
    names, numbers, plain = _plainly(lines, ends, len(zones))
    bad = []
    for row in np.flatnonzero(~plain).tolist():
        line = lines[ends[row - 1] if row else 0 : ends[row] - 1].removesuffix(b"\r")
        try:
            names[row], numbers[row] = row_of(line, zones)
        except Misfit as misfit:
            bad.append((row, misfit))
    kept = np.arange(len(ends))
    if bad:
        kept = np.delete(kept, [row for row, _ in bad])
        numbers = numbers[kept]
        names = [names[row] for row in kept.tolist()]
    demand, supply = (np.ascontiguousarray(part) for part in np.split(numbers, 2, axis=1))
    return Rows(names, demand, supply, kept, bad)


def _plainly(lines: bytes, ends: Integers, zones: int) -> tuple[list[str], Integers, NDArray[np.bool_]]:
    """Names and numbers of the rows, and of which of them that is the truth. None of those is bad."""
    flat = lines
    for untidy, tidy in ((b"\r\n", b"\n"), (b", ", b",")):
        if untidy in flat:
            flat = flat.replace(untidy, tidy)
    text = flat[:-1].decode(errors="replace")
    cells = pl.Series("line", [text]).str.split("\n").explode().str.splitn(",", zones + 2).struct.unnest()
    names = cells["field_0"]
    if text.startswith(" ") or "\n " in text:
        names = names.str.strip_chars_start(" ")
    pairs = cells.select(pl.col(f"field_{zone + 1}").str.splitn(" ", 2) for zone in range(zones))
    counts = pairs.select(
        pl.col(pair).struct.field(f"field_{part}").cast(pl.Int64, strict=False).fill_null(-1).alias(f"{part} {pair}")
        for part in (0, 1)
        for pair in pairs.columns
    )
    numbers = counts.to_numpy(order="c", writable=True)
    plain: NDArray[np.bool_] = (
        cells[f"field_{zones + 1}"].is_null().to_numpy()
        & (numbers.min(axis=1) >= 0)
        & (numbers.max(axis=1) <= MOST_PER_ZONE)
        & (numbers[:, :zones].max(axis=1) > 0)
    )
    lengths = np.diff(ends, prepend=0)
    if lengths.max() > MOST_BYTES:
        plain &= lengths <= MOST_BYTES
    if b'"' in lines:
        quotes = np.flatnonzero(np.frombuffer(lines, np.uint8) == _QUOTE)
        plain[np.searchsorted(ends, quotes, side="right")] = False
    if not lines.isascii():
        # Also where a byte was not UTF-8.
        plain &= ~cells["field_0"].str.contains("\ufffd", literal=True).to_numpy()
    return names.to_list(), numbers, plain
