"""Each input with each algorithm's scores, as a directory of Parquet files, written piece by piece."""

import re
import secrets
import shutil
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
import polars as pl

from zoneward.kube.input_error import InputError
from zoneward.lab.contenders import Contender
from zoneward.lab.datasets import Inputs
from zoneward.lab.scoring import FATE, FELL_BACK, UNSCORED, Integers, Reals, slices_share, totals
from zoneward.routing.score import IN_ZONE, MAX_OVERLOAD, MEAN_OVERLOAD, SLICES

ROWS_PER_FILE: Final = 1 << 20
"""Rows that are held until they are written; a file is some 40 MB."""


class ParquetWriter:
    """Writes into a directory that must not exist yet, and that is there, whole, only when `finished` was called.

    Columns: ``input`` (number, from 0), ``name`` where inputs have names, ``nodes_1``, ..., ``endpoints_1``, ...,
    ``endpoints``, and for each algorithm ``<algorithm>_total`` (slice groups), ``_total_hints``, ``_in_zone``,
    ``_max_overload``, ``_mean_overload``, ``_slices`` (a number of slices) and ``_fell_back``; in its name everything
    but letters and digits is ``_``. Shares and totals are doubles; all of an algorithm's are null for an input that
    can't be scored.
    """

    def __init__(self, path: Path, contenders: Sequence[Contender]) -> None:
        if path.exists():
            raise InputError("--to", str(path), "expected a directory that does not exist yet")
        self._path = path
        # Nobody can know it beforehand, and what is there already is not taken.
        self._making = path.with_name(f"{path.name}.{secrets.token_hex(8)}.making")
        try:
            self._making.mkdir()
        except OSError as error:
            raise InputError("--to", str(path), f"expected a directory that can be made: {error.strerror}") from error
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
        shutil.rmtree(self._making, ignore_errors=True)

    def write(self, inputs: Inputs, columns: list[Reals]) -> None:
        """A sink of `zoneward.lab.simulation.simulate`."""
        frame = self._frame(inputs, columns)
        if self._frames and self._frames[0].columns != frame.columns:
            # Inputs of other numbers of zones have other columns, and go into files of their own.
            self._flush()
        self._frames.append(frame)
        self._held += len(frame)
        if self._held >= ROWS_PER_FILE:
            self._flush()

    def finished(self, *, partial: str = "") -> None:
        """Everything is written: give the directory its name. ``partial`` says what is missing, in a file beside."""
        self._flush()
        if self._writing is not None:
            self._writing.result()
        if partial:
            (self._making / "PARTIAL.txt").write_text(f"{partial}\n", encoding="utf-8")
        try:
            self._making.rename(self._path)
        except OSError as error:
            told = f"expected a directory that does not exist yet: {error.strerror}"
            raise InputError("--to", str(self._path), told) from error

    def _flush(self) -> None:
        if not self._frames:
            return
        if self._writing is not None:
            # One file at a time: what is not written is held in memory.
            self._writing.result()
        self._writing = self._pool.submit(_write, self._frames, self._making / f"part-{self._files:05}.parquet")
        self._files += 1
        self._frames = []
        self._held = 0

    def _frame(self, inputs: Inputs, columns: list[Reals]) -> pl.DataFrame:
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
            data |= {
                f"{_column(contender)}_{name}": series for name, series in _scores(contender, rows, endpoints).items()
            }
        return pl.DataFrame(data)


def _column(contender: Contender) -> str:
    """A label as SQL takes it without quotes."""
    return re.sub(r"\W+", "_", contender.label.replace("-", "_"))


def _scores(contender: Contender, rows: Reals, endpoints: Integers) -> dict[str, pl.Series]:
    shares = {"in_zone": rows[IN_ZONE], "max_overload": rows[MAX_OVERLOAD], "mean_overload": rows[MEAN_OVERLOAD]}
    found = {"total": pl.Series(totals(rows, slices_share(contender, rows, endpoints)))}
    if not contender.weighs:
        found["total_hints"] = pl.Series(totals(rows, 1.0))
    found |= {name: pl.Series(values) for name, values in shares.items()}
    found["slices"] = pl.Series(rows[SLICES].astype(np.int32))
    found["fell_back"] = pl.Series(rows[FATE] == FELL_BACK)
    unscored = rows[FATE] == UNSCORED
    if unscored.any():
        kept = pl.Series(~unscored)
        found = {name: pl.select(pl.when(kept).then(values)).to_series() for name, values in found.items()}
    return found


def _write(frames: Sequence[pl.DataFrame], path: Path) -> None:
    try:
        pl.concat(frames, rechunk=False).write_parquet(path, compression="zstd", compression_level=1)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError("--to", str(path), f"expected a file that can be written: {error}") from error
