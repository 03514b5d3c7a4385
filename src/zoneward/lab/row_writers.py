"""Writes each input with its scores: as Parquet files, or as CSV in the columns of the proposal's tool."""

import re
import secrets
import shutil
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

import numpy as np
import polars as pl

from zoneward.kube.input_error import InputError
from zoneward.kube.safe_text import CSV_FORMULA
from zoneward.lab.contenders import Contender
from zoneward.lab.datasets import Inputs
from zoneward.lab.scoring import (
    FATE,
    FELL_BACK,
    SCORED,
    UNSCORED,
    Floats,
    bound_totals,
    possible_in_zone,
    slices_share,
    totals,
)
from zoneward.routing.score import IN_ZONE, MAX_OVERLOAD, MEAN_OVERLOAD, MEAN_SQUARE, SLICES

ROWS_PER_FILE: Final = 1 << 20
"""Rows that are held until they are written; a file has about 40 MB."""


class ParquetWriter:
    """Writes into a new directory, which appears, complete, when `finish` is called.

    Columns: ``input`` (number, from 0), ``name`` where inputs have names, ``nodes_1``, ..., ``endpoints_1``, ...,
    ``endpoints``, and for each algorithm ``<algorithm>_total`` (slice groups), ``_total_hints``, ``_total_weights``
    (where it has that encoding), ``_in_zone``, ``_max_overload``, ``_mean_overload``, ``_slices`` (a number of slices)
    and ``_fell_back``; in its name everything but letters and digits is ``_``. Shares and totals are doubles; all of an
    algorithm's are null for an input that can't be scored.
    """

    def __init__(self, path: Path, contenders: Sequence[Contender]) -> None:
        if path.exists():
            raise InputError("--to", str(path), "expected a directory that does not exist yet")
        self._path = path
        # The name cannot be guessed, and `mkdir` refuses a directory that exists.
        self._temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.making")
        try:
            self._temporary.mkdir()
        except OSError as error:
            raise InputError(
                "--to", str(path), f"expected a directory that can be created: {error.strerror}"
            ) from error
        self._contenders = contenders
        self._frames: list[pl.DataFrame] = []
        self._held = 0
        self._files = 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="parquet")
        self._writing: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True)
        self.discard()

    def discard(self) -> None:
        """Delete what is not finished."""
        shutil.rmtree(self._temporary, ignore_errors=True)

    def write(self, inputs: Inputs, columns: list[Floats]) -> None:
        """A sink of `zoneward.lab.simulation.simulate`."""
        frame = self._make_frame(inputs, columns)
        if self._frames and self._frames[0].columns != frame.columns:
            # Inputs with another number of zones have other columns, and get another file.
            self._flush()
        self._frames.append(frame)
        self._held += len(frame)
        if self._held >= ROWS_PER_FILE:
            self._flush()

    def finish(self, *, partial: str = "") -> None:
        """Write the rest, and give the directory its name. ``partial`` says what is missing, in an extra file."""
        self._flush()
        if self._writing is not None:
            self._writing.result()
        if partial:
            (self._temporary / "PARTIAL.txt").write_text(f"{partial}\n", encoding="utf-8")
        try:
            self._temporary.rename(self._path)
        except OSError as error:
            expected = "expected a directory that does not exist yet"
            raise InputError("--to", str(self._path), f"{expected}: {error.strerror}") from error

    def _flush(self) -> None:
        if not self._frames:
            return
        if self._writing is not None:
            # One file at a time: the rows of every other file wait in memory.
            self._writing.result()
        self._writing = self._pool.submit(_write_file, self._frames, self._temporary / f"part-{self._files:05}.parquet")
        self._files += 1
        self._frames = []
        self._held = 0

    def _make_frame(self, inputs: Inputs, columns: list[Floats]) -> pl.DataFrame:
        zones = inputs.supply.shape[1]
        endpoints = inputs.supply.sum(axis=1)
        data: dict[str, pl.Series] = {"input": pl.Series(inputs.numbers)}
        if inputs.names:
            data["name"] = pl.Series(inputs.names)
        for zone in range(zones):
            data[f"nodes_{zone + 1}"] = pl.Series(inputs.demand[:, zone].astype(np.int32))
        for zone in range(zones):
            data[f"endpoints_{zone + 1}"] = pl.Series(inputs.supply[:, zone].astype(np.int32))
        data["endpoints"] = pl.Series(endpoints.astype(np.int32))
        for contender, rows in zip(self._contenders, columns, strict=True):
            prefix = _column_prefix(contender)
            data |= {f"{prefix}_{name}": column for name, column in _score_columns(contender, rows, inputs).items()}
        return pl.DataFrame(data)


def _column_prefix(contender: Contender) -> str:
    """A label as SQL takes it without quotes."""
    return re.sub(r"\W+", "_", contender.label.replace("-", "_"))


def _score_columns(contender: Contender, rows: Floats, inputs: Inputs) -> dict[str, pl.Series]:
    endpoints = inputs.supply.sum(axis=1)
    shares = {"in_zone": rows[IN_ZONE], "max_overload": rows[MAX_OVERLOAD], "mean_overload": rows[MEAN_OVERLOAD]}
    series = {"total": pl.Series(totals(rows, slices_share(contender, rows, endpoints)))}
    if not contender.weighs:
        series["total_hints"] = pl.Series(totals(rows, 1.0))
    if contender.balanced:
        series["total_weights"] = pl.Series(bound_totals(possible_in_zone(inputs.demand, inputs.supply)))
    series |= {name: pl.Series(values) for name, values in shares.items()}
    series["slices"] = pl.Series(rows[SLICES].astype(np.int32))
    series["fell_back"] = pl.Series(rows[FATE] == FELL_BACK)
    unscored = rows[FATE] == UNSCORED
    if unscored.any():
        is_scored = pl.Series(~unscored)
        series = {name: pl.select(pl.when(is_scored).then(values)).to_series() for name, values in series.items()}
    return series


def _write_file(frames: Sequence[pl.DataFrame], path: Path) -> None:
    try:
        pl.concat(frames, rechunk=False).write_parquet(path, compression="zstd", compression_level=1)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError("--to", str(path), f"expected a file that can be written: {error}") from error


# --- the columns of the proposal's tool -------------------------------------------------------------------------------


COLUMNS: Final = (
    *("input name", "score", "in-zone-traffic score", "deviation score", "slice score"),
    *("max deviation", "mean deviation", "SD of deviation"),
)
INVALID: Final = "invalid"
_PERCENT: Final = ("max deviation", "mean deviation")
_UNITS: Final = 10_000
_DECIMALS: Final = pl.Decimal(18, 4)
"""Written ten times faster than doubles."""


class TopologySimulatorWriter:
    """Writes one contender's rows to a file as the proposal's tool does, so that programs that read its files work.

    The format is that of github.com/googleinterns/k8s-topology-simulator, ``process/output-parser.go``: numbers with
    four decimals, the two deviations in percent and with ``%``, their SD a share without. The score is that of
    KEP-2004's table, ``docs/lab.md`` § What is scored.

    In-zone-traffic and slice score are of 100; the deviation score is 100 less half of each deviation in percent; the
    score is 0.45, 0.15 and 0.4 of them. All seven are `INVALID` in a row in which a zone reaches no endpoint, and where
    there is none.

    The SD is the root of the mean, over endpoints, of the squared distance of the signed deviation from the mean
    absolute one. As all traffic is sent somewhere, signed deviations add up to 0, and that mean is
    the mean square of the deviations and the square of their mean size.
    """

    def __init__(self, file: IO[bytes], contender: Contender) -> None:
        self._file = file
        self._contender = contender
        file.write((",".join(COLUMNS) + "\n").encode())

    def write(self, inputs: Inputs, columns: list[Floats]) -> None:
        """A sink of `zoneward.lab.simulation.simulate`; ``columns`` are those of the one contender."""
        (measured,) = columns
        slices = slices_share(self._contender, measured, inputs.supply.sum(axis=1))
        deviations = measured[MAX_OVERLOAD], measured[MEAN_OVERLOAD]
        values = (
            totals(measured, slices),
            100 * measured[IN_ZONE],
            100 - 50 * (deviations[0] + deviations[1]),
            100 * slices,
            100 * deviations[0],
            100 * deviations[1],
            np.sqrt(measured[MEAN_SQUARE] + np.square(deviations[1])),
        )
        frame = pl.DataFrame(dict(zip(COLUMNS[1:], _rounded(np.array(values)), strict=True)))
        invalid = measured[FATE] != SCORED
        if invalid.any():
            frame = frame.select(pl.when(pl.lit(pl.Series(~invalid))).then(pl.all()))
        names = pl.Series(COLUMNS[0], inputs.names or list(map(inputs.name, range(len(inputs.numbers)))))
        written = frame.with_columns(pl.all().cast(_DECIMALS)).with_columns(
            pl.col(_PERCENT).cast(pl.String) + pl.lit("%")
        )
        # Through memory: polars would write past the buffer of the file.
        text = BytesIO()
        # The user chose the names.
        names = names.str.replace(CSV_FORMULA, "'${1}")
        written.insert_column(0, names).write_csv(text, include_header=False, null_value=INVALID)
        self._file.write(text.getbuffer())


def _rounded(values: Floats) -> Floats:
    """In place to four decimals, to even where a double lies just between two, as ``%.4f`` does."""
    values *= _UNITS
    np.rint(values, out=values)
    # On to decimals some versions of polars round, others cut: both end at the same from a quarter of a unit further.
    values += np.copysign(0.25, values)
    values /= _UNITS
    return values
