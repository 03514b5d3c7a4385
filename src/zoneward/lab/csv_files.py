"""A CSV file of the proposal's tool as a dataset (KEP-2004 § Evaluation Tool; github.com/googleinterns/k8s-topology-
simulator, ``process/input-parser.go``).

The first line is ``name`` and the names of the zones; then comes a row an input: its name, and for each zone a cell
with nodes and endpoints, ``1 zone empty,30 100,30 100,30 0``. `zoneward.lab.csv_rows` says what a row may look like.
Zones take part in the order of their names, as in the tool: where two are alike, the first one goes first.
"""

import stat
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from zoneward.kube.input_error import FieldMismatch, InputError, show
from zoneward.lab.csv_lines import BLANK, NOTHING, Stretch, blocks, extent, stretches
from zoneward.lab.csv_rows import Rows, cells_of, parsed
from zoneward.lab.datasets import MOST_ZONES, ROWS_PER_CHUNK, Chunk, Held, Inputs, stratified

MOST_ROWS: Final = 999_999_999
"""Rows of a file that is scored whole."""
_MOST_HEADER: Final = 16_384
_BOM: Final = b"\xef\xbb\xbf"
_HEADER: Final = "a first line such as name,zone1,zone2"
_FIRST_ROW: Final = 2
"""The number of the line after the header, as editors count."""


class CsvFile:
    """The rows of a file, or a sample of them; `rows` leaves out those that were ``skipped`` so far.

    The file is read twice: once to count its lines, when this is made, and again by each call of `chunks`, in memory
    that does not depend on its size. With ``sample``, one row by chance is taken from each of as many equal stretches,
    and the others are not looked at.

    Raises `InputError` for what is no such file, has no row, or has more than `MOST_ROWS` without ``sample``; `chunks`
    raises it at the first row that is not valid, or with ``skip_invalid`` where no row is.
    """

    def __init__(self, path: Path, *, skip_invalid: bool = False, sample: int | None = None, seed: int = 0) -> None:
        self._path = path
        self._skip_invalid = skip_invalid
        self._seed = seed
        self.skipped = 0
        """Invalid rows that were left out by the last `chunks`."""
        with _opened(path) as file:
            self.zones = _zones(str(path), file)
            self._start = file.tell()
            self._counted, self._stop = extent(file)
        if not self._counted:
            raise InputError(str(path), "expected a row after the first line, got none")
        if sample is None and self._counted > MOST_ROWS:
            wanted = f"at most {MOST_ROWS:,} rows, or --sample-size"
            raise InputError(str(path), f"expected {wanted}, got {self._counted:,} rows")
        self._wanted = self._counted if sample is None else min(sample, self._counted)

    @property
    def name(self) -> str:
        return str(self._path)

    @property
    def whole(self) -> int:
        return self._counted if self._wanted < self._counted else self.rows

    @property
    def rows(self) -> int:
        return self._wanted - self.skipped

    def chunks(self) -> Iterator[Chunk]:
        """Chunks are of `ROWS_PER_CHUNK` rows, less those that are skipped. ``numbers`` count from the first row."""
        self.skipped = 0
        # Lines become numbers in a thread of their own, a chunk ahead of whoever scores and writes them.
        with _opened(self._path) as file, ThreadPoolExecutor(1, thread_name_prefix="parsing") as pool:
            file.seek(self._start)
            whole = self._checked(stretches(blocks(file, self._stop - self._start), of=ROWS_PER_CHUNK))
            ahead: deque[tuple[Stretch, Future[Rows]]] = deque()
            for stretch in whole if self._wanted == self._counted else self._sampled(whole):
                ahead.append((stretch, pool.submit(parsed, stretch.lines, stretch.ends, self.zones)))
                if len(ahead) > 1:
                    yield from self._given(*ahead.popleft())
            while ahead:
                yield from self._given(*ahead.popleft())
        if not self.rows:
            raise InputError(self.name, f"expected a valid row, got {self.skipped:,} that are not")

    def _given(self, stretch: Stretch, coming: "Future[Rows]") -> Iterator[Chunk]:
        rows = coming.result()
        if rows.bad is not None and not self._skip_invalid:
            row, misfit = rows.bad
            raise _error(self.name, int(stretch.numbers[row]) + _FIRST_ROW, misfit)
        self.skipped += len(stretch.ends) - len(rows.lines)
        if rows.names:
            by_name = sorted(range(len(self.zones)), key=self.zones.__getitem__)
            demand, supply = (np.ascontiguousarray(part[:, by_name]) for part in (rows.demand, rows.supply))
            yield Held(Inputs(stretch.numbers[rows.lines], demand, supply, rows.names))

    def _checked(self, whole: Iterator[Stretch]) -> Iterator[Stretch]:
        found = 0
        for stretch in whole:
            found += len(stretch.ends)
            yield stretch
        if found != self._counted:
            raise InputError(self.name, f"expected {self._counted:,} rows, as when they were counted, got {found:,}")

    def _sampled(self, whole: Iterator[Stretch]) -> Iterator[Stretch]:
        """The lines that the sample takes, as many at once as make a chunk."""
        at = next(whole, NOTHING)
        for start in range(0, self._wanted, ROWS_PER_CHUNK):
            stop = min(start + ROWS_PER_CHUNK, self._wanted)
            numbers = stratified(self._counted, self._wanted, seed=self._seed, start=start, stop=stop)
            lines: list[bytes] = []
            while len(lines) < len(numbers):
                here = numbers[len(lines) :] - at.numbers[0]
                lines += [at.line(number) for number in here[: np.searchsorted(here, len(at.ends))].tolist()]
                if len(lines) < len(numbers):
                    at = next(whole)
            yield Stretch(numbers, b"".join(lines), np.cumsum([len(line) for line in lines]))


def _opened(path: Path) -> BinaryIO:
    try:
        # A pipe would be waited for, and could not be read twice.
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            got = "a directory" if stat.S_ISDIR(mode) else "something that can't be read twice"
            raise InputError(str(path), f"expected a CSV file, got {got}")
        return path.open("rb")
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(str(path), problem.lower()) from None


def _zones(path: str, file: BinaryIO) -> tuple[str, ...]:
    """The zones that the first line names; the file then stands behind it."""
    line = file.readline(_MOST_HEADER + len(_BOM) + 2)
    if not line:
        raise InputError(path, f"expected {_HEADER}, got an empty file")
    try:
        name, *zones = (cell.strip() for cell in cells_of(line.removeprefix(_BOM).rstrip(BLANK), most=_MOST_HEADER))
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
