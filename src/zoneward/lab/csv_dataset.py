"""A CSV file of the proposal's tool as a dataset (KEP-2004 § Evaluation Tool; github.com/googleinterns/k8s-topology-
simulator, ``process/input-parser.go``).

The first line is ``name`` and the names of the zones. A row for each input follows: its name, and for each zone a cell
with nodes and endpoints, ``1 zone empty,30 100,30 100,30 0``. Zones take part in the order of their names, as in the
tool: where two zones are alike, the first one goes first.

Why this is no library: measured with polars 2.1 on two cores, over a million rows of three zones. This file reads a
row in 0.14 microseconds. polars needs 0.23 without any of the guards below, and 0.38 with them (lines from polars, cut
and checked by its expressions). From file to file, ``random`` takes 0.58 microseconds here and 0.75 with polars: both
keep the bar of 1.05 (``bench/csv_files.py``), but polars would make a benchmark slower to replace `parse_plain_rows`
alone. Its CSV reader drops an empty column at the end of a row, takes line ends in quotes for text, does not name the
row of a bad cell, and holds a line of any length: `parse_row`, `split_line` and `read_lines` would stay.
"""

import csv
import re
import stat
from collections import deque
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from zoneward.kube.input_error import FieldMismatch, InputError, show
from zoneward.lab.datasets import (
    MOST_PER_ZONE,
    MOST_ZONES,
    ROWS_PER_CHUNK,
    Chunk,
    InMemoryChunk,
    Inputs,
    Integers,
    stratified_sample,
)
from zoneward.lab.scoring import machine_code_cache
from zoneward.routing.numba_compiler import compile_function

MOST_ROWS: Final = 999_999_999
"""Rows of a file that is scored whole."""
MOST_BYTES: Final = 2048
"""The longest line: the largest numbers for 30 zones leave a thousand characters and more for the name."""
BLOCK_SIZE: Final = 1 << 20
"""Bytes that are read at once. Only speed depends on it."""
_MOST_HEADER_BYTES: Final = 16_384
_KEPT_BYTES: Final = MOST_BYTES + 2
"""What is kept of a line that is too long: one byte too many, even where the last one is a carriage return."""
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r\n"
_HEADER: Final = "a first line such as name,zone1,zone2"
_FIRST_ROW: Final = 2
"""The number of the line after the header, as editors count."""
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_DIGITS: Final = len(str(MOST_PER_ZONE))
_LINE_FEED, _RETURN, _SPACE, _QUOTE, _COMMA, _ZERO, _NINE = b'\n\r ",09'


class CsvDataset:
    """The rows of a file, or a sample of them; `rows` leaves out those that were ``skipped`` so far.

    The file is read twice: once to count its lines, when this is made, and again by each call of `chunks`, in memory
    that does not depend on its size. With ``sample``, one random row is taken from each of as many equal stretches, and
    the others are not parse_lines.

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
            self._line_count, self._stop = _count_lines(file)
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
        # A thread of its own parses lines, one chunk ahead of the threads that score them.
        with _open_file(self._path) as file, ThreadPoolExecutor(1, thread_name_prefix="parsing") as pool:
            file.seek(self._start)
            batches = self._check_count(read_lines(_read_blocks(file, self._stop - self._start), batch=ROWS_PER_CHUNK))
            pending: deque[tuple[LineBatch, Future[ParsedRows]]] = deque()
            for lines in batches if self._sample_size == self._line_count else self._sample_lines(batches):
                pending.append((lines, pool.submit(parse_lines, lines.text, lines.ends, self.zones)))
                if len(pending) > 1:
                    yield from self._chunk(*pending.popleft())
            while pending:
                yield from self._chunk(*pending.popleft())
        if not self.rows:
            raise InputError(self.name, f"expected a valid row, got {self.skipped:,} that are not")

    def _chunk(self, lines: "LineBatch", future: "Future[ParsedRows]") -> Iterator[Chunk]:
        """The valid rows, if there are any. Raises `InputError` at an invalid one that is not to be skipped."""
        rows = future.result()
        if rows.first_invalid is not None and not self._skip_invalid:
            row, misfit = rows.first_invalid
            raise _error(self.name, int(lines.numbers[row]) + _FIRST_ROW, misfit)
        self.skipped += len(lines.ends) - len(rows.lines)
        if rows.names:
            by_name = sorted(range(len(self.zones)), key=self.zones.__getitem__)
            demand, supply = (np.ascontiguousarray(part[:, by_name]) for part in (rows.demand, rows.supply))
            yield InMemoryChunk(Inputs(lines.numbers[rows.lines], demand, supply, rows.names))

    def _check_count(self, batches: Iterator["LineBatch"]) -> Iterator["LineBatch"]:
        count = 0
        for lines in batches:
            count += len(lines.ends)
            yield lines
        if count != self._line_count:
            raise InputError(self.name, f"expected {self._line_count:,} rows, as when they were counted, got {count:,}")

    def _sample_lines(self, batches: Iterator["LineBatch"]) -> Iterator["LineBatch"]:
        """The lines that the sample takes, as many at once as make a chunk."""
        current = LineBatch(np.zeros(1, np.int64), b"", np.zeros(0, np.int64))
        for start in range(0, self._sample_size, ROWS_PER_CHUNK):
            stop = min(start + ROWS_PER_CHUNK, self._sample_size)
            numbers = stratified_sample(self._line_count, self._sample_size, seed=self._seed, start=start, stop=stop)
            taken: list[bytes] = []
            while len(taken) < len(numbers):
                here = numbers[len(taken) :] - current.numbers[0]
                taken += [current.line(number) for number in here[: np.searchsorted(here, len(current.ends))].tolist()]
                if len(taken) < len(numbers):
                    current = next(batches)
            yield LineBatch(numbers, b"".join(taken), np.cumsum([len(line) for line in taken]))


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
    for number, zone in enumerate(zones):
        if not zone or zone in zones[:number]:
            raise InputError(path, "row 1", f"expected zones with names of their own, got {show(zone)}")
    return tuple(zones)


def _error(path: str, row: int, misfit: FieldMismatch) -> InputError:
    return InputError(path, f"row {row}", misfit.field, f"expected {misfit.expected}, got {misfit.got}")


# --- from blocks of the file to lines ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class LineBatch:
    """Lines with the numbers of their rows. ``ends`` are their ends in ``text``, behind the line feed of each."""

    numbers: Integers
    text: bytes
    ends: Integers

    def line(self, number: int) -> bytes:
        return self.text[self.ends[number - 1] if number else 0 : self.ends[number]]


def _count_lines(file: BinaryIO) -> tuple[int, int]:
    """How many lines are left, and where the last one ends; blank lines at the end don't count."""
    lines = feeds = 0
    position = stop = file.tell()
    while block := file.read(BLOCK_SIZE):
        solid = block.rstrip(_BLANK)
        feeds += solid.count(b"\n")
        if solid:
            lines, stop = feeds + 1, position + len(solid)
        feeds += block.count(b"\n", len(solid))
        position += len(block)
    return lines, stop


def _read_blocks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The next ``size`` bytes, with a line feed behind the last line if it has none."""
    last = b"\n"
    while size and (block := file.read(min(BLOCK_SIZE, size))):
        size -= len(block)
        last = block
        yield block
    if not last.endswith(b"\n"):
        yield b"\n"


def read_lines(blocks: Iterator[bytes], *, batch: int) -> Iterator[LineBatch]:
    """``batch`` lines at once, wherever the blocks end. Only the first `_KEPT_BYTES` of longer lines are kept."""
    number, tail = 0, b""
    text, ends = bytearray(), _find_ends(b"")
    for block in blocks:
        begun = tail + block
        cut = begun.rfind(b"\n") + 1
        whole, tail = begun[:cut], begun[cut:][:_KEPT_BYTES]
        stops = _find_ends(whole)
        if np.diff(stops, prepend=0).max(initial=0) > _KEPT_BYTES:
            whole = b"".join(line[:_KEPT_BYTES] + b"\n" for line in whole[:-1].split(b"\n"))
            stops = _find_ends(whole)
        ends = np.concatenate([ends, stops + len(text)])
        text += whole
        while len(ends) >= batch:
            cut = int(ends[batch - 1])
            yield LineBatch(np.arange(number, number + batch), bytes(text[:cut]), ends[:batch])
            number += batch
            ends = ends[batch:] - cut
            del text[:cut]
    if len(ends):
        yield LineBatch(np.arange(number, number + len(ends)), bytes(text), ends)


def _find_ends(text: bytes) -> Integers:
    ends: Integers = np.flatnonzero(np.frombuffer(text, np.uint8) == _LINE_FEED) + 1
    return ends


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


def parse_lines(text: bytes, ends: Integers, zones: Sequence[str]) -> ParsedRows:
    """Rows from lines, each with a line feed at its end.

    Nearly all rows are plain, and compiled code reads those a hundred times faster; `parse_row` reads the others.
    """
    names, numbers, plain = _parse_plain(text, ends, len(zones))
    valid = np.ones(len(ends), np.bool_)
    first_invalid = None
    for row in np.flatnonzero(~plain).tolist():
        line = text[ends[row - 1] if row else 0 : ends[row] - 1].removesuffix(b"\r")
        try:
            names[row], numbers[row] = parse_row(line, zones)
        except FieldMismatch as misfit:
            valid[row] = False
            first_invalid = first_invalid or (row, misfit)
    lines = np.flatnonzero(valid)
    if first_invalid is not None:
        numbers = numbers[lines]
        names = [names[row] for row in lines.tolist()]
    demand, supply = (np.ascontiguousarray(part) for part in np.split(numbers, 2, axis=1))
    return ParsedRows(names, demand, supply, lines, first_invalid)


def parse_row(line: bytes, zones: Sequence[str]) -> tuple[str, list[int]]:
    """A row's name, and the nodes of each zone followed by the endpoints of each. Raises `FieldMismatch`.

    This is the definition of a row. Commas separate cells, which may be quoted as in RFC 4180, but without line ends
    in quotes. Spaces before a cell don't count, and any number of them may stand between nodes and endpoints and after
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
    number = int(text) if _NUMBER.fullmatch(text) else -1
    if not 0 <= number <= MOST_PER_ZONE:
        raise FieldMismatch(zone, f"{what} as a whole number from 0 to {MOST_PER_ZONE:,}", show(text))
    return number


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


def _parse_plain(text: bytes, ends: Integers, zones: int) -> tuple[list[str], Integers, NDArray[np.bool_]]:
    """Names and numbers of the rows, and which rows are plain: of the others, both are arbitrary."""
    name_ends = np.empty(len(ends), np.int64)
    numbers = np.empty((len(ends), 2 * zones), np.int64)
    plain = np.empty(len(ends), np.bool_)
    _compiled_parser()(np.frombuffer(text, np.uint8), ends, zones, name_ends, numbers, plain)
    bounds = zip([0, *ends[:-1].tolist()], name_ends.tolist(), strict=True)
    if text.isascii():
        decoded = text.decode()
        return [decoded[start:stop] for start, stop in bounds], numbers, plain
    names = [text[start:stop].decode(errors="replace") for start, stop in bounds]
    # U+FFFD stands for bytes that are not UTF-8. The file may hold it too: `parse_row` finds out.
    plain &= np.array(["\ufffd" not in name for name in names])
    return names, numbers, plain


@cache
def _compiled_parser() -> Callable[..., None]:
    return compile_function(parse_plain_rows, cache_dir=machine_code_cache(), cache_name="parse_plain_rows")


def parse_plain_rows(
    text: Sequence[int],
    ends: Sequence[int],
    zones: int,
    name_ends: MutableSequence[int],
    numbers: MutableSequence[MutableSequence[int]],
    plain: MutableSequence[bool],
) -> None:
    """Read plain rows: where the name of each ends, and the numbers of its zones, nodes first.

    A plain row has no quotes, at most one space after a comma and none before the name, one space between nodes and
    endpoints, and at most seven digits in each. Every other row is not ``plain``, and what is written for it has no
    meaning. numba compiles this as it is.
    """
    start = 0
    for row in range(len(ends)):
        end = ends[row] - 1
        fits = end - start <= MOST_BYTES and text[start] != _SPACE
        if end > start and text[end - 1] == _RETURN:
            end -= 1
        at = start
        while at < end and text[at] != _COMMA and text[at] != _QUOTE:
            at += 1
        name_ends[row] = at
        nodes = 0
        for cell in range(2 * zones):
            is_nodes = cell % 2 == 0
            fits = fits and at < end and text[at] == (_COMMA if is_nodes else _SPACE)
            at += 1
            if is_nodes and at < end and text[at] == _SPACE:
                at += 1
            number = 0
            first = at
            while at < end and _ZERO <= text[at] <= _NINE:
                number = number * 10 + text[at] - _ZERO
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
