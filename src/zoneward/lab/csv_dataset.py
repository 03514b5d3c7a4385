"""A CSV file of the proposal's tool as a dataset (KEP-2004 § Evaluation Tool; github.com/googleinterns/k8s-topology-
simulator, ``process/input-parser.go``).

The first line is ``name`` and the names of the zones. A row for each input follows: its name, and for each zone a cell
with nodes and endpoints, ``1 zone empty,30 100,30 100,30 0``. Zones take part in the order of their names, as in the
tool: of two equal zones, the first one wins.

polars reads the rows that are written plainly, which are nearly all. `parse_row` reads the others: its errors name the
column, which those of polars don't.
"""

import csv
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from zoneward.kube.input_error import FieldMismatch, InputError, show
from zoneward.lab.datasets import (
    MOST_PER_ZONE,
    MOST_ZONES,
    ROWS_PER_CHUNK,
    Chunk,
    Inputs,
    Integers,
    stratified_sample,
)

MOST_ROWS: Final = 999_999_999
"""Rows of a file that is scored whole."""
MOST_BYTES: Final = 2048
"""The longest line: the largest numbers for 30 zones leave a thousand characters and more for the name."""
_MOST_HEADER_BYTES: Final = 16_384
_LONG_LINE: Final = MOST_BYTES + 2
"""Bytes of a line that is too long, even where the last one is a carriage return."""
_BLOCK_BYTES: Final = 1 << 20
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r\n"
_HEADER: Final = "a first line such as name,zone1,zone2"
_FIRST_ROW: Final = 2
"""The line of the first row, as editors count."""
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


class CsvDataset:
    """The rows of a file, or a sample of them; `rows` leaves out those that were ``skipped`` so far.

    The file is read twice: once to count its lines, when this is made, and again by each call of `chunks`, in memory
    that does not depend on its size. With ``sample``, one random row is taken from each of as many equal stretches, and
    the others are not parsed.

    Raises `InputError` for what is no such file, has no row, or has more than `MOST_ROWS` without ``sample``; `chunks`
    raises it at the first row that is not valid, or with ``skip_invalid`` where no row is.
    """

    def __init__(self, path: Path, *, skip_invalid: bool = False, sample: int | None = None, seed: int = 0) -> None:
        self._path = path
        self._skip_invalid = skip_invalid
        self._seed = seed
        self.skipped = 0
        """Invalid rows that the last `chunks` left out."""
        with _open_file(path) as file:
            self.zones = _read_header(str(path), file)
            self._start = file.tell()
            self._line_count = _count_lines(file)
        if not self._line_count:
            raise InputError(str(path), "expected a row after the first line, got none")
        if sample is None and self._line_count > MOST_ROWS:
            expected = f"at most {MOST_ROWS:,} rows, or --sample-size"
            raise InputError(str(path), f"expected {expected}, got {self._line_count:,} rows")
        self._sample_size = self._line_count if sample is None else min(sample, self._line_count)

    @property
    def name(self) -> str:
        return str(self._path)

    @property
    def whole(self) -> int:
        return self._line_count if self._sample_size < self._line_count else self.rows

    @property
    def rows(self) -> int:
        return self._sample_size - self.skipped

    def chunks(self) -> Iterator[Chunk]:
        """Chunks of `ROWS_PER_CHUNK` rows, less those that are skipped. ``numbers`` count from the first row."""
        self.skipped = 0
        with _open_file(self._path) as file:
            file.seek(self._start)
            lines = _read_lines(file)
            next_line = 0
            for start in range(0, self._sample_size, ROWS_PER_CHUNK):
                numbers = self._row_numbers(start)
                offsets = numbers - next_line
                next_line = int(numbers[-1]) + 1
                if len(numbers) == offsets[-1] + 1:
                    texts = list(islice(lines, len(numbers)))
                else:
                    chosen = set(offsets.tolist())
                    ahead = enumerate(islice(lines, int(offsets[-1]) + 1))
                    texts = [line for offset, line in ahead if offset in chosen]
                if len(texts) < len(numbers):
                    raise self._changed(file)
                yield from self._chunk(numbers, texts)
        if not self.rows:
            raise InputError(self.name, f"expected a valid row, got {self.skipped:,} that are not")

    def _row_numbers(self, start: int) -> Integers:
        stop = min(start + ROWS_PER_CHUNK, self._sample_size)
        if self._sample_size == self._line_count:
            return np.arange(start, stop)
        return stratified_sample(self._line_count, self._sample_size, seed=self._seed, start=start, stop=stop)

    def _chunk(self, numbers: Integers, lines: list[bytes]) -> Iterator[Chunk]:
        """The valid rows, if there are any. Raises `InputError` at an invalid one that is not to be skipped."""
        rows = parse_lines(lines, self.zones)
        if rows.first_invalid is not None and not self._skip_invalid:
            row, misfit = rows.first_invalid
            raise _error(self.name, int(numbers[row]) + _FIRST_ROW, misfit)
        self.skipped += len(lines) - len(rows.lines)
        if rows.names:
            by_name = sorted(range(len(self.zones)), key=self.zones.__getitem__)
            demand, supply = (np.ascontiguousarray(part[:, by_name]) for part in (rows.demand, rows.supply))
            yield Inputs(numbers[rows.lines], demand, supply, rows.names)

    def _changed(self, file: BinaryIO) -> InputError:
        file.seek(self._start)
        expected = f"expected {self._line_count:,} rows, as when they were counted"
        return InputError(self.name, f"{expected}, got {_count_lines(file):,}")


# --- the file and its header ------------------------------------------------------------------------------------------


def _open_file(path: Path) -> BinaryIO:
    try:
        # Opening a pipe would wait for its writer, and a pipe can't be read twice.
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            got = "a directory" if stat.S_ISDIR(mode) else "something that can't be read twice"
            raise InputError(str(path), f"expected a CSV file, got {got}")
        return path.open("rb")
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(str(path), problem.lower()) from None


def _read_header(path: str, file: BinaryIO) -> tuple[str, ...]:
    """The zones that the first line names; leaves the file at the first row."""
    line = file.readline(_MOST_HEADER_BYTES + len(_BYTE_ORDER_MARK) + 2)
    if not line:
        raise InputError(path, f"expected {_HEADER}, got an empty file")
    try:
        header = line.removeprefix(_BYTE_ORDER_MARK).rstrip(_BLANK)
        name, *zones = (cell.strip() for cell in split_line(header, most=_MOST_HEADER_BYTES))
    except FieldMismatch as misfit:
        raise _error(path, 1, misfit) from None
    if name != "name":
        raise InputError(path, "row 1", f"expected {_HEADER}, got {show(name)} first")
    if not 2 <= len(zones) <= MOST_ZONES:
        raise InputError(path, "row 1", f"expected 2 to {MOST_ZONES} zones, got {len(zones)}")
    for index, zone in enumerate(zones):
        if not zone or zone in zones[:index]:
            raise InputError(path, "row 1", f"expected a unique name for each zone, got {show(zone)}")
    return tuple(zones)


def _error(path: str, row: int, misfit: FieldMismatch) -> InputError:
    return InputError(path, f"row {row}", misfit.field, f"expected {misfit.expected}, got {misfit.got}")


def _count_lines(file: BinaryIO) -> int:
    """Lines from here on; blank lines at the end don't count."""
    lines = feeds = 0
    while block := file.read(_BLOCK_BYTES):
        text = block.rstrip(_BLANK)
        feeds += text.count(b"\n")
        if text:
            lines = feeds + 1
        feeds += block.count(b"\n", len(text))
    return lines


def _read_lines(file: BinaryIO) -> Iterator[bytes]:
    """Each line without its line feed; of one that is too long, as much as shows that."""
    tail = b""
    while block := file.read(_BLOCK_BYTES):
        *lines, tail = (tail[:_LONG_LINE] + block).split(b"\n")
        yield from (line[:_LONG_LINE] for line in lines)
    if tail:
        yield tail


# --- from lines to numbers --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParsedRows:
    """Valid rows, as arrays of shape (rows, zones), and which ``lines`` they were, by number.

    ``first_invalid`` is the number of the first other line, with what is wrong with it.
    """

    names: list[str]
    demand: Integers
    supply: Integers
    lines: Integers
    first_invalid: tuple[int, FieldMismatch] | None


def parse_lines(lines: Sequence[bytes], zones: Sequence[str]) -> ParsedRows:
    """Rows from lines, each without its line feed: plain ones by polars, the others by `parse_row`."""
    names, numbers, valid = _parse_plain(lines, len(zones))
    first_invalid = None
    for row in np.flatnonzero(~valid).tolist():
        try:
            names[row], numbers[row] = parse_row(lines[row].removesuffix(b"\r"), zones)
            valid[row] = True
        except FieldMismatch as misfit:
            first_invalid = first_invalid or (row, misfit)
    indices = np.flatnonzero(valid)
    if first_invalid is not None:
        numbers = numbers[indices]
        names = [names[row] for row in indices.tolist()]
    return ParsedRows(names, numbers[:, : len(zones)], numbers[:, len(zones) :], indices, first_invalid)


def _parse_plain(lines: Sequence[bytes], zones: int) -> tuple[list[str], Integers, NDArray[np.bool_]]:
    """Names and numbers of the rows, and which rows are plain: of the others, both are arbitrary.

    A plain row has no quotes, no space but before a cell, and one space between nodes and endpoints.
    """
    text = pl.col("line").str.strip_suffix("\r")
    # The replacement character may be in the file too: `parse_row` finds out.
    is_plain = (text.str.len_bytes() <= MOST_BYTES) & ~text.str.contains('["\ufffd]')
    cells = pl.DataFrame({"line": [line.decode(errors="replace") for line in lines]}).select(
        text.str.split_exact(",", zones + 1).alias("cells"), is_plain.alias("plain")
    )

    def cell(index: int) -> pl.Expr:
        return pl.col("cells").struct.field(f"field_{index}").str.strip_chars_start(" ")

    parts = [cell(zone + 1).str.split_exact(" ", 2).alias(str(zone)) for zone in range(zones)]
    columns = cells.select("plain", cell(0).alias("name"), cell(zones + 1).is_null().alias("ends"), *parts)
    counts = [
        pl.col(str(zone)).struct.field(field).cast(pl.Int64, strict=False).alias(f"{zone} {field}")
        for field in ("field_0", "field_1")
        for zone in range(zones)
    ]
    fields = columns.select(*counts)
    in_range = pl.all_horizontal(pl.all().is_between(0, MOST_PER_ZONE))
    has_nodes = pl.any_horizontal(pl.col("^.* field_0$") > 0)
    are_pairs = pl.all_horizontal(pl.col(str(zone)).struct.field("field_2").is_null() for zone in range(zones))
    plain = (
        columns.select(pl.col("plain") & pl.col("ends") & are_pairs).to_series()
        & fields.select(in_range & has_nodes).to_series()
    )
    names = columns["name"].to_list()
    return names, fields.fill_null(0).to_numpy(writable=True), plain.fill_null(False).to_numpy().copy()


def parse_row(line: bytes, zones: Sequence[str]) -> tuple[str, list[int]]:
    """A row's name, and the nodes of each zone followed by the endpoints of each. Raises `FieldMismatch`.

    This is the definition of a row. Commas separate cells, which may be quoted as in RFC 4180, but without line ends
    in quotes. Spaces before a cell don't count, and any number of them may be between nodes and endpoints and after
    them, as for the proposal's tool.
    """
    cells = split_line(line)
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
        demand.append(_parse_count(zone, "nodes", numbers[0]))
        supply.append(_parse_count(zone, "endpoints", numbers[1]))
    if not any(demand):
        raise FieldMismatch("", "a node in one of the zones", "none")
    return cells[0].lstrip(" "), demand + supply


def _parse_count(zone: str, what: str, text: str) -> int:
    count = int(text) if _NUMBER.fullmatch(text) else -1
    if not 0 <= count <= MOST_PER_ZONE:
        raise FieldMismatch(zone, f"{what} as a whole number from 0 to {MOST_PER_ZONE:,}", show(text))
    return count


def split_line(line: bytes, *, most: int = MOST_BYTES) -> list[str]:
    """The cells of a line, quoted ones without their quotes. Raises `FieldMismatch`."""
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
