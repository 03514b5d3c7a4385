"""Adds up the scores of rows: small tallies that can be merged in any order, always to the same bits.

A chunk of rows becomes one `Tally`. Counts are integers. Sums of doubles are stored chunk by chunk and added in the
order of the dataset, so that the number of workers does not matter. Histograms have fixed bins, which numpy counts:
sketches of a library have other figures in another order.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoneward.lab.contenders import Contender
from zoneward.lab.datasets import MOST_ZONES, Inputs
from zoneward.lab.scoring import (
    FATE,
    FELL_BACK,
    Floats,
    bound_totals,
    possible_in_zone,
    score_columns,
    slices_share,
    totals,
)
from zoneward.routing.score import IN_ZONE, MAX_OVERLOAD, MEAN_OVERLOAD
from zoneward.routing.simulation_results import HINTS, SLICE_GROUPS, WEIGHTS

BANDS: Final = (8, 20, 50, 100, 300, 1000)
"""The largest number of endpoints of each band but the last."""
CURVE_POINTS: Final = 64
JOINT_WIDTH: Final = 1.0
JOINT_BINS: Final = 100
_TOLERANCE: Final = 1e-9
"""Totals that differ by less are equal, added in another order."""

MEASURED: Final = 4
"""Credits that are measured: in zone, worst overload, mean overload, slices; the others are computed from them."""
_FINE: Final = 20_000
_COARSE: Final = 16_000
QUANTILE_BINS: Final = _FINE + _COARSE
"""Bins around every 0.01 from 100 down to -100, then of one in a thousand."""

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSpec:
    """What a simulation computes. ``by`` splits rows into bands; ``quantiles`` and ``plots`` need histograms."""

    contenders: tuple[Contender, ...]
    encodings: tuple[str, ...] = (SLICE_GROUPS,)
    by: str = ""
    quantiles: bool = False
    plots: bool = False
    worst: int = 0

    @property
    def bands(self) -> int:
        return {"endpoints": len(BANDS) + 1, "zones": MOST_ZONES + 1}.get(self.by, 1)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        return tuple(combinations(range(len(self.contenders)), 2))

    def can_encode(self, contender: int, encoding: str) -> bool:
        """Whether an encoding can express what a contender decides."""
        if encoding == WEIGHTS:
            return self.contenders[contender].balanced
        return encoding != HINTS or not self.contenders[contender].weighs

    @property
    def encoded_contenders(self) -> tuple[tuple[int, str], ...]:
        """Every contender with every encoding that can express it."""
        return tuple(
            (contender, encoding)
            for encoding in self.encodings
            for contender in range(len(self.contenders))
            if self.can_encode(contender, encoding)
        )


@dataclass(slots=True)
class WorstInputs:
    """The rows with the lowest totals of one contender in one encoding, lowest first."""

    totals: Floats
    numbers: Counts
    names: list[str]
    demand: list[tuple[int, ...]]
    supply: list[tuple[int, ...]]


@dataclass(slots=True)
class Tally:
    """The scores of some chunks: ``counts`` of all of them together, ``sums`` of each, in their order."""

    counts: dict[str, Counts] = field(default_factory=dict)
    sums: list[dict[str, Floats]] = field(default_factory=list)
    worst: dict[tuple[int, str], WorstInputs] = field(default_factory=dict)


def tally_chunk(spec: SimulationSpec, inputs: Inputs) -> tuple[Tally, list[Floats]]:
    """Score a chunk with every contender; also returns the columns of each, for files of rows."""
    rows = [score_columns(contender, inputs.demand, inputs.supply) for contender in spec.contenders]
    return _ChunkTally(spec, inputs, rows).add_up(), rows


def merge_tallies(spec: SimulationSpec, tallies: Iterable[Tally], *, fold: bool = True) -> Tally:
    """Tallies of chunks that follow each other as one; with ``fold`` their sums are added up, in order."""
    merged = Tally()
    for tally in tallies:
        for name, counts in tally.counts.items():
            if name in merged.counts:
                merged.counts[name] += counts
            else:
                merged.counts[name] = counts.copy()
        for sums in tally.sums:
            if fold and merged.sums:
                for name, values in sums.items():
                    merged.sums[0][name] += values
            else:
                merged.sums.append({name: values.copy() for name, values in sums.items()} if fold else sums)
        for key, worst in tally.worst.items():
            merged.worst[key] = _merge_worst(spec.worst, (*filter(None, [merged.worst.get(key)]), worst))
    return merged


class _ChunkTally:
    """Adds up one chunk. Arrays are over the rows that could be scored."""

    def __init__(self, spec: SimulationSpec, inputs: Inputs, rows: Sequence[Floats]) -> None:
        self.spec = spec
        scored = (inputs.supply.sum(axis=1) > 0) & (inputs.demand.sum(axis=1) > 0)
        self.unscored = len(scored) - int(scored.sum())
        if self.unscored:
            indices = np.flatnonzero(scored)
            names = [inputs.names[row] for row in indices.tolist()] if inputs.names else ()
            inputs = Inputs(inputs.numbers[indices], inputs.demand[indices], inputs.supply[indices], names)
            rows = [row[:, indices] for row in rows]
        self.inputs = inputs
        self.rows = rows
        self.endpoints = inputs.supply.sum(axis=1)
        self.slices = [
            slices_share(contender, columns, self.endpoints)
            for contender, columns in zip(spec.contenders, rows, strict=True)
        ]
        self.totals = {key: self._totals(*key) for key in spec.encoded_contenders}

    def _totals(self, contender: int, encoding: str) -> Floats:
        if encoding == WEIGHTS:
            return bound_totals(self._possible)
        return totals(self.rows[contender], self.slices[contender] if encoding == SLICE_GROUPS else 1.0)

    def add_up(self) -> Tally:
        tally = Tally(sums=[{}])
        tally.counts["unscored"] = np.array([self.unscored], np.int64)
        self._add_means(tally)
        self._add_wins(tally)
        self._add_pairs(tally)
        if self.spec.quantiles or self.spec.plots:
            self._add_histograms(tally)
        if self.spec.plots:
            self._add_plots(tally)
        if self.spec.worst:
            for key, values in self.totals.items():
                tally.worst[key] = self._find_worst(values)
        return tally

    @cached_property
    def _bands(self) -> Counts | None:
        if self.spec.by == "endpoints":
            bands: Counts = np.searchsorted(BANDS, self.endpoints)
            return bands
        if self.spec.by == "zones":
            return np.full(len(self.endpoints), self.inputs.supply.shape[1])
        return None

    def _add_means(self, tally: Tally) -> None:
        spec = self.spec
        bands = self._bands
        tally.counts["rows"] = _sum_by_band(bands, np.ones(len(self.endpoints)), spec.bands).astype(np.int64)
        tally.sums[0]["possible"] = _sum_by_band(bands, self._possible, spec.bands)
        means = np.empty((len(spec.contenders), MEASURED, spec.bands))
        fell_back = np.empty((len(spec.contenders), spec.bands), np.int64)
        for contender, rows in enumerate(self.rows):
            measured = (rows[IN_ZONE], 1 - rows[MAX_OVERLOAD], 1 - rows[MEAN_OVERLOAD], self.slices[contender])
            for column, values in enumerate(measured):
                means[contender, column] = _sum_by_band(bands, values, spec.bands)
            fell_back[contender] = _sum_by_band(bands, (rows[FATE] == FELL_BACK).astype(float), spec.bands)
        tally.sums[0]["means"] = means
        tally.counts["fell back"] = fell_back

    @cached_property
    def _possible(self) -> Floats:
        return possible_in_zone(self.inputs.demand, self.inputs.supply)

    def _add_wins(self, tally: Tally) -> None:
        spec = self.spec
        bands = self._bands
        wins = np.zeros((len(spec.encodings), 2, len(spec.contenders), spec.bands), np.int64)
        for index, encoding in enumerate(spec.encodings):
            keys = [key for key in self.totals if key[1] == encoding]
            if not keys:
                continue
            best = np.maximum.reduce([self.totals[key] for key in keys]) - _TOLERANCE
            reached = {key: self.totals[key] >= best for key in keys}
            alone = np.add.reduce([is_best.astype(np.int8) for is_best in reached.values()]) == 1
            for key, is_best in reached.items():
                wins[index, 0, key[0]] = _sum_by_band(bands, (is_best & alone).astype(float), spec.bands)
                wins[index, 1, key[0]] = _sum_by_band(bands, (is_best & ~alone).astype(float), spec.bands)
        tally.counts["wins"] = wins

    def _add_pairs(self, tally: Tally) -> None:
        spec = self.spec
        sums = np.zeros((len(spec.encodings), len(spec.pairs), 2))
        for encoding_index, encoding in enumerate(spec.encodings):
            for index, (one, other) in enumerate(spec.pairs):
                if spec.can_encode(one, encoding) and spec.can_encode(other, encoding):
                    difference = self.totals[one, encoding] - self.totals[other, encoding]
                    sums[encoding_index, index] = difference.sum(), np.square(difference).sum()
        tally.sums[0]["pairs"] = sums

    def _add_histograms(self, tally: Tally) -> None:
        for key, values in self.totals.items():
            tally.counts[f"total {key[0]} {key[1]}"] = _histogram(values)
        if self.spec.quantiles:
            if WEIGHTS in self.spec.encodings:
                tally.counts["in_zone possible"] = _histogram(100 * self._possible)
            for contender, rows in enumerate(self.rows):
                worst, mean = 100 * (1 - rows[MAX_OVERLOAD]), 100 * (1 - rows[MEAN_OVERLOAD])
                tally.counts[f"in_zone {contender}"] = _histogram(100 * rows[IN_ZONE])
                tally.counts[f"max_overload {contender}"] = _histogram(worst)
                tally.counts[f"mean_overload {contender}"] = _histogram(mean)
                tally.counts[f"overload {contender}"] = _histogram((worst + mean) / 2)
                tally.counts[f"slices {contender}"] = _histogram(100 * self.slices[contender])

    def _add_plots(self, tally: Tally) -> None:
        points = np.minimum(np.log2(self.endpoints) * 4, CURVE_POINTS - 1).astype(np.int64)
        tally.counts["curve rows"] = _sum_by_band(points, np.ones(len(points)), CURVE_POINTS).astype(np.int64)
        endpoints = _sum_by_band(points, self.endpoints.astype(float), CURVE_POINTS)
        tally.counts["curve endpoints"] = endpoints.astype(np.int64)
        tally.sums[0]["curve possible"] = _sum_by_band(points, self._possible, CURVE_POINTS)
        for key, values in self.totals.items():
            tally.sums[0][f"curve {key[0]} {key[1]}"] = _sum_by_band(points, values, CURVE_POINTS)
        for encoding in self.spec.encodings:
            for one, other in self.spec.pairs:
                if (one, encoding) in self.totals and (other, encoding) in self.totals:
                    up, across = (_joint_bins(self.totals[contender, encoding]) for contender in (one, other))
                    counts = np.bincount(up * JOINT_BINS + across, minlength=JOINT_BINS**2)
                    tally.counts[f"joint {one} {other} {encoding}"] = counts

    def _find_worst(self, values: Floats) -> WorstInputs:
        inputs, most = self.inputs, self.spec.worst
        if len(values) > most:
            # All rows that are as low as the last of the worst: of equal ones, the first are taken.
            edge = np.partition(values, most - 1)[most - 1]
            rows = np.flatnonzero(values <= edge)
        else:
            rows = np.arange(len(values))
        rows = rows[np.argsort(values[rows], kind="stable")][:most]
        return WorstInputs(
            values[rows],
            inputs.numbers[rows],
            [inputs.name(int(row)) for row in rows],
            [tuple(inputs.demand[row].tolist()) for row in rows],
            [tuple(inputs.supply[row].tolist()) for row in rows],
        )


def _merge_worst(most: int, parts: Sequence[WorstInputs]) -> WorstInputs:
    totals = np.concatenate([part.totals for part in parts])
    numbers = np.concatenate([part.numbers for part in parts])
    order = np.lexsort((numbers, totals))[:most]
    names = [name for part in parts for name in part.names]
    demand = [row for part in parts for row in part.demand]
    supply = [row for part in parts for row in part.supply]
    return WorstInputs(
        totals[order],
        numbers[order],
        [names[index] for index in order],
        [demand[index] for index in order],
        [supply[index] for index in order],
    )


def _sum_by_band(bands: Counts | None, values: Floats, length: int) -> Floats:
    """Sums of values by band; one sum without bands."""
    if bands is None:
        return np.array([values.sum()])
    return np.bincount(bands, weights=values, minlength=length).astype(np.float64)


def _joint_bins(credits_: Floats) -> Counts:
    bins: Counts = np.clip(credits_ / JOINT_WIDTH, 0, JOINT_BINS - 1).astype(np.int64)
    return bins


def _histogram(credits_: Floats) -> Counts:
    """Rows by how far a credit is from 100."""
    lack = np.maximum(100 - credits_, 0)
    fine = np.rint(lack * 100).astype(np.int64)
    coarse = _FINE + (np.log(np.maximum(lack, 200) / 200) * 1000).astype(np.int64)
    bins = np.where(fine < _FINE, fine, np.minimum(coarse, QUANTILE_BINS - 1))
    return np.bincount(bins, minlength=QUANTILE_BINS)


def bin_credit(bin_: int) -> float:
    """The middle of a bin."""
    if bin_ < _FINE:
        return (10_000 - bin_) / 100
    return 100 - 200 * float(np.exp((bin_ - _FINE + 0.5) / 1000))
