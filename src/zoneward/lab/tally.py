"""Scores of rows added up: small sums that can be merged in any order of work, always to the same bits.

A chunk of rows becomes one `Tally`. Counts are whole numbers; sums of doubles are kept chunk by chunk, and added in the
order of the dataset, so that it does not matter how many workers there were.
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
from zoneward.lab.scoring import FATE, FELL_BACK, Reals, scores, slices_share, totals
from zoneward.routing.score import IN_ZONE, MAX_OVERLOAD, MEAN_OVERLOAD
from zoneward.routing.simulation_results import HINTS, SLICE_GROUPS

BANDS: Final = (8, 20, 50, 100, 300, 1000)
"""The largest number of endpoints of each band but the last."""
CURVE_POINTS: Final = 64
JOINT_WIDTH: Final = 1.0
JOINT_BINS: Final = 100
_EQUAL: Final = 1e-9
"""Totals that differ by less are the same, written down in another order."""

MEASURED: Final = 4
"""Credits that are measured: in zone, worst overload, mean overload, slices; the others come of them."""
_FINE: Final = 20_000
_COARSE: Final = 16_000
QUANTILE_BINS: Final = _FINE + _COARSE
"""Bins around every 0.01 from 100 down to -100, then of one in a thousand."""

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to add up. ``by`` splits rows into bands; ``quantiles`` and ``plots`` need histograms."""

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

    def can_say(self, contender: int, encoding: str) -> bool:
        """Whether an encoding can say what a contender decides."""
        return encoding != HINTS or not self.contenders[contender].weighs

    @property
    def shown(self) -> tuple[tuple[int, str], ...]:
        """Every contender in every encoding that can say it."""
        return tuple(
            (contender, encoding)
            for encoding in self.encodings
            for contender in range(len(self.contenders))
            if self.can_say(contender, encoding)
        )


@dataclass(slots=True)
class Worst:
    """The rows with the lowest totals of one contender in one encoding, lowest first."""

    totals: Reals
    numbers: Counts
    names: list[str]
    demand: list[tuple[int, ...]]
    supply: list[tuple[int, ...]]


@dataclass(slots=True)
class Tally:
    """What is known of some chunks: ``counts`` of all of them, ``sums`` of each, in their order."""

    counts: dict[str, Counts] = field(default_factory=dict)
    sums: list[dict[str, Reals]] = field(default_factory=list)
    worst: dict[tuple[int, str], Worst] = field(default_factory=dict)


def tally(wanted: Wanted, inputs: Inputs) -> tuple[Tally, list[Reals]]:
    """Score a chunk with every contender; also gives the columns of each, for whoever writes rows down."""
    rows = [scores(contender, inputs.demand, inputs.supply) for contender in wanted.contenders]
    return _Adding(wanted, inputs, rows).tally(), rows


def merged(wanted: Wanted, tallies: Iterable[Tally], *, fold: bool = True) -> Tally:
    """Tallies of chunks that follow each other as one; with ``fold`` their sums are added up, in order."""
    found = Tally()
    for each in tallies:
        for name, counts in each.counts.items():
            if name in found.counts:
                found.counts[name] += counts
            else:
                found.counts[name] = counts.copy()
        for sums in each.sums:
            if fold and found.sums:
                for name, values in sums.items():
                    found.sums[0][name] += values
            else:
                found.sums.append({name: values.copy() for name, values in sums.items()} if fold else sums)
        for key, worst in each.worst.items():
            found.worst[key] = _lowest(wanted.worst, (*filter(None, [found.worst.get(key)]), worst))
    return found


class _Adding:
    """One chunk on its way into a tally. Arrays are over the rows that could be scored."""

    def __init__(self, wanted: Wanted, inputs: Inputs, rows: Sequence[Reals]) -> None:
        self.wanted = wanted
        scored = (inputs.supply.sum(axis=1) > 0) & (inputs.demand.sum(axis=1) > 0)
        self.unscored = len(scored) - int(scored.sum())
        if self.unscored:
            kept = np.flatnonzero(scored)
            names = [inputs.names[row] for row in kept.tolist()] if inputs.names else ()
            inputs = Inputs(inputs.numbers[kept], inputs.demand[kept], inputs.supply[kept], names)
            rows = [each[:, kept] for each in rows]
        self.inputs = inputs
        self.rows = rows
        self.endpoints = inputs.supply.sum(axis=1)
        self.slices = [
            slices_share(contender, each, self.endpoints)
            for contender, each in zip(wanted.contenders, rows, strict=True)
        ]
        self.totals = {
            (contender, encoding): totals(rows[contender], self.slices[contender] if encoding == SLICE_GROUPS else 1.0)
            for contender, encoding in wanted.shown
        }

    def tally(self) -> Tally:
        found = Tally(sums=[{}])
        found.counts["unscored"] = np.array([self.unscored], np.int64)
        self._means(found)
        self._wins(found)
        self._pairs(found)
        if self.wanted.quantiles or self.wanted.plots:
            self._histograms(found)
        if self.wanted.plots:
            self._plots(found)
        if self.wanted.worst:
            for key, values in self.totals.items():
                found.worst[key] = self._worst(values)
        return found

    @cached_property
    def _bands(self) -> Counts | None:
        if self.wanted.by == "endpoints":
            bands: Counts = np.searchsorted(BANDS, self.endpoints)
            return bands
        if self.wanted.by == "zones":
            return np.full(len(self.endpoints), self.inputs.supply.shape[1])
        return None

    def _means(self, found: Tally) -> None:
        wanted = self.wanted
        bands = self._bands
        found.counts["rows"] = _by(bands, np.ones(len(self.endpoints)), wanted.bands).astype(np.int64)
        found.sums[0]["possible"] = _by(bands, self._possible, wanted.bands)
        means = np.empty((len(wanted.contenders), MEASURED, wanted.bands))
        fell_back = np.empty((len(wanted.contenders), wanted.bands), np.int64)
        for contender, rows in enumerate(self.rows):
            measured = (rows[IN_ZONE], 1 - rows[MAX_OVERLOAD], 1 - rows[MEAN_OVERLOAD], self.slices[contender])
            for column, values in enumerate(measured):
                means[contender, column] = _by(bands, values, wanted.bands)
            fell_back[contender] = _by(bands, (rows[FATE] == FELL_BACK).astype(float), wanted.bands)
        found.sums[0]["means"] = means
        found.counts["fell back"] = fell_back

    @cached_property
    def _possible(self) -> Reals:
        """As much traffic as can stay in its zone while everybody has a fair load (docs/lab.md § More tables)."""
        share = self.inputs.demand / self.inputs.demand.sum(axis=1, keepdims=True)
        located = self.inputs.supply / self.endpoints[:, None]
        possible: Reals = np.minimum(share, located).sum(axis=1)
        return possible

    def _wins(self, found: Tally) -> None:
        wanted = self.wanted
        bands = self._bands
        wins = np.zeros((len(wanted.encodings), 2, len(wanted.contenders), wanted.bands), np.int64)
        for number, encoding in enumerate(wanted.encodings):
            mine = [key for key in self.totals if key[1] == encoding]
            if not mine:
                continue
            best = np.maximum.reduce([self.totals[key] for key in mine]) - _EQUAL
            reached = {key: self.totals[key] >= best for key in mine}
            alone = np.add.reduce([each.astype(np.int8) for each in reached.values()]) == 1
            for key, each in reached.items():
                wins[number, 0, key[0]] = _by(bands, (each & alone).astype(float), wanted.bands)
                wins[number, 1, key[0]] = _by(bands, (each & ~alone).astype(float), wanted.bands)
        found.counts["wins"] = wins

    def _pairs(self, found: Tally) -> None:
        wanted = self.wanted
        sums = np.zeros((len(wanted.encodings), len(wanted.pairs), 2))
        for number, encoding in enumerate(wanted.encodings):
            for index, (one, other) in enumerate(wanted.pairs):
                if wanted.can_say(one, encoding) and wanted.can_say(other, encoding):
                    difference = self.totals[one, encoding] - self.totals[other, encoding]
                    sums[number, index] = difference.sum(), np.square(difference).sum()
        found.sums[0]["pairs"] = sums

    def _histograms(self, found: Tally) -> None:
        for key, values in self.totals.items():
            found.counts[f"total {key[0]} {key[1]}"] = _histogram(values)
        if self.wanted.quantiles:
            for contender, rows in enumerate(self.rows):
                worst, mean = 100 * (1 - rows[MAX_OVERLOAD]), 100 * (1 - rows[MEAN_OVERLOAD])
                found.counts[f"in_zone {contender}"] = _histogram(100 * rows[IN_ZONE])
                found.counts[f"max_overload {contender}"] = _histogram(worst)
                found.counts[f"mean_overload {contender}"] = _histogram(mean)
                found.counts[f"overload {contender}"] = _histogram((worst + mean) / 2)
                found.counts[f"slices {contender}"] = _histogram(100 * self.slices[contender])

    def _plots(self, found: Tally) -> None:
        points = np.minimum(np.log2(self.endpoints) * 4, CURVE_POINTS - 1).astype(np.int64)
        found.counts["curve rows"] = _by(points, np.ones(len(points)), CURVE_POINTS).astype(np.int64)
        found.counts["curve endpoints"] = _by(points, self.endpoints.astype(float), CURVE_POINTS).astype(np.int64)
        found.sums[0]["curve possible"] = _by(points, self._possible, CURVE_POINTS)
        for key, values in self.totals.items():
            found.sums[0][f"curve {key[0]} {key[1]}"] = _by(points, values, CURVE_POINTS)
        for encoding in self.wanted.encodings:
            for one, other in self.wanted.pairs:
                if (one, encoding) in self.totals and (other, encoding) in self.totals:
                    cells = _joint(self.totals[one, encoding]) * JOINT_BINS + _joint(self.totals[other, encoding])
                    counts = np.bincount(cells, minlength=JOINT_BINS**2)
                    found.counts[f"joint {one} {other} {encoding}"] = counts

    def _worst(self, values: Reals) -> Worst:
        inputs, most = self.inputs, self.wanted.worst
        if len(values) > most:
            # All that are as low as the last one that counts, so that the first of equals are taken.
            edge = np.partition(values, most - 1)[most - 1]
            rows = np.flatnonzero(values <= edge)
        else:
            rows = np.arange(len(values))
        rows = rows[np.argsort(values[rows], kind="stable")][:most]
        return Worst(
            values[rows],
            inputs.numbers[rows],
            [inputs.name(int(row)) for row in rows],
            [tuple(inputs.demand[row].tolist()) for row in rows],
            [tuple(inputs.supply[row].tolist()) for row in rows],
        )


def _lowest(most: int, found: Sequence[Worst]) -> Worst:
    totals = np.concatenate([each.totals for each in found])
    numbers = np.concatenate([each.numbers for each in found])
    order = np.lexsort((numbers, totals))[:most]
    names = [name for each in found for name in each.names]
    demand = [row for each in found for row in each.demand]
    supply = [row for each in found for row in each.supply]
    return Worst(
        totals[order],
        numbers[order],
        [names[number] for number in order],
        [demand[number] for number in order],
        [supply[number] for number in order],
    )


def _by(bands: Counts | None, values: Reals, number: int) -> Reals:
    """Sums of values by band; one sum without bands."""
    if bands is None:
        return np.array([values.sum()])
    return np.bincount(bands, weights=values, minlength=number).astype(np.float64)


def _joint(credits_: Reals) -> Counts:
    bins: Counts = np.clip(credits_ / JOINT_WIDTH, 0, JOINT_BINS - 1).astype(np.int64)
    return bins


def _histogram(credits_: Reals) -> Counts:
    """Rows by how far a credit is from 100."""
    lack = np.maximum(100 - credits_, 0)
    fine = np.rint(lack * 100).astype(np.int64)
    coarse = _FINE + (np.log(np.maximum(lack, 200) / 200) * 1000).astype(np.int64)
    bins = np.where(fine < _FINE, fine, np.minimum(coarse, QUANTILE_BINS - 1))
    return np.bincount(bins, minlength=QUANTILE_BINS)


def credit_of(number: int) -> float:
    """The middle of a bin."""
    if number < _FINE:
        return (10_000 - number) / 100
    return 100 - 200 * float(np.exp((number - _FINE + 0.5) / 1000))
