"""Runs a simulation: scores the chunks of a dataset on all cores of this machine, adds them up in their order, and
computes the figures from their tally: means, differences, quantiles, plots.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import sqrt
from typing import Final, Protocol

import numpy as np

from zoneward.lab.datasets import Chunk, Dataset, Inputs
from zoneward.lab.scoring import Floats, bound_totals, compile_kernels
from zoneward.lab.tally import (
    BANDS,
    JOINT_BINS,
    JOINT_WIDTH,
    Counts,
    SimulationSpec,
    Tally,
    bin_credit,
    merge_tallies,
    tally_chunk,
)
from zoneward.routing.score import total
from zoneward.routing.simulation_results import (
    BOUND,
    CREDITS,
    HINTS,
    SLICE_GROUPS,
    WEIGHTS,
    Band,
    Curve,
    Difference,
    JointHistogram,
    Means,
    Plots,
    Quantiles,
    ScoreHistogram,
    Simulation,
    WorstRow,
)

SHARES: Final = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_CONFIDENT: Final = 1.959964
"""Standard errors on either side that hold the mean with 95 % confidence."""
_SPREAD_WIDTH: Final = 0.5
_MEASURED: Final = {SLICE_GROUPS: CREDITS[1:], HINTS: CREDITS[1:-1], WEIGHTS: CREDITS[1:2]}
"""The credits beside the total that are less than full in some rows, by encoding."""


def summarize(
    spec: SimulationSpec,
    tally: Tally,
    *,
    dataset: str,
    of: int,
    whole: int = 0,
    seed: int = 0,
    partial: bool = False,
    bounds: bool = False,
    shares: tuple[float, ...] = (),
) -> Simulation:
    """A tally as figures. ``shares`` are the quantiles wanted; ``bounds`` adds bounds that no algorithm can exceed."""
    of_nothing = Simulation(
        dataset=dataset,
        rows=0,
        of=of,
        whole=whole or of,
        by=spec.by,
        unscored=0,
        partial=partial,
        seed=seed,
        means=(),
    )
    if not tally.sums:
        return of_nothing
    everything = slice(None)
    return replace(
        of_nothing,
        rows=int(tally.counts["rows"].sum()),
        unscored=int(tally.counts["unscored"][0]),
        means=_means(spec, tally, everything, bounds=bounds),
        bands=_bands(spec, tally, bounds=bounds),
        quantiles=_quantiles(spec, tally, shares),
        differences=_differences(spec, tally),
        worst=_worst(spec, tally),
        plots=_plots(spec, tally, bounds=bounds) if spec.plots else Plots(),
    )


def _means(spec: SimulationSpec, tally: Tally, bands: slice | int, *, bounds: bool) -> tuple[Means, ...]:
    rows = int(np.sum(tally.counts["rows"][bands]))
    if rows == 0:
        return ()
    bound = _credits(float(np.sum(tally.sums[0]["possible"][bands])) / rows, 1.0, 1.0, 1.0)
    means = []
    for encoding_index, encoding in enumerate(spec.encodings):
        for index, contender in enumerate(spec.contenders):
            if encoding == WEIGHTS and not spec.can_encode(index, encoding):
                continue
            wins = tally.counts["wins"][encoding_index, :, index, bands].reshape(2, -1).sum(axis=1)
            in_zone, most, mean, slices = (
                float(np.sum(values[bands])) / rows for values in tally.sums[0]["means"][index]
            )
            credits_: dict[str, float] | None = None
            if encoding == WEIGHTS:
                credits_ = bound
            elif spec.can_encode(index, encoding):
                credits_ = _credits(in_zone, most, mean, slices if encoding == SLICE_GROUPS else 1.0)
            fell_back = int(np.sum(tally.counts["fell back"][index, bands]))
            means.append(
                Means(
                    algorithm=contender.label,
                    encoding=encoding,
                    credits=credits_,
                    gap_to_bound=bound["total"] - credits_["total"] if bounds and credits_ else None,
                    wins=int(wins[0]),
                    ties=int(wins[1]),
                    fell_back=0 if encoding == WEIGHTS else fell_back,
                )
            )
        if bounds:
            means.append(Means(algorithm=BOUND, encoding=encoding, credits=bound))
    return tuple(means)


def _credits(in_zone: float, max_overload: float, mean_overload: float, slices: float) -> dict[str, float]:
    """The proposal's columns from four shares, where 1 is best."""
    values = (
        total(in_zone=in_zone, max_overload=1 - max_overload, mean_overload=1 - mean_overload, slices=slices),
        100 * in_zone,
        100 * max_overload,
        100 * mean_overload,
        50 * (max_overload + mean_overload),
        100 * slices,
    )
    return dict(zip(CREDITS, values, strict=True))


def _bands(spec: SimulationSpec, tally: Tally, *, bounds: bool) -> tuple[Band, ...]:
    if not spec.by:
        return ()
    if spec.by == "zones":
        names = [f"{zones} zones" for zones in range(spec.bands)]
    else:
        edges = (0, *BANDS)
        names = [f"{low + 1} to {high}" for low, high in zip(edges, BANDS, strict=False)] + [f"over {BANDS[-1]}"]
    return tuple(
        Band(name=names[band], rows=int(rows), means=_means(spec, tally, band, bounds=bounds))
        for band, rows in enumerate(tally.counts["rows"])
        if rows
    )


def _quantiles(spec: SimulationSpec, tally: Tally, shares: tuple[float, ...]) -> tuple[Quantiles, ...]:
    if not spec.quantiles or not tally.counts["rows"].any():
        return ()
    results = []
    for contender, encoding in spec.encoded_contenders:
        histograms = {"total": tally.counts[f"total {contender} {encoding}"]}
        for credit in _MEASURED[encoding]:
            histograms[credit] = tally.counts[f"{credit} {'possible' if encoding == WEIGHTS else contender}"]
        by_share = {
            share: {
                credit: _quantile(histograms[credit], share) if credit in histograms else 100.0 for credit in CREDITS
            }
            for share in shares
        }
        results.append(Quantiles(algorithm=spec.contenders[contender].label, encoding=encoding, by_share=by_share))
    return tuple(results)


def _quantile(counts: Counts, share: float) -> float:
    """The credit below which a share of the rows lies. Bins go from the best credit down."""
    above = np.cumsum(counts)
    bin_ = int(np.searchsorted(above, (1 - share) * above[-1], side="left"))
    return bin_credit(min(bin_, len(counts) - 1))


def _differences(spec: SimulationSpec, tally: Tally) -> tuple[Difference, ...]:
    rows = int(tally.counts["rows"].sum())
    results = []
    for encoding_index, encoding in enumerate(spec.encodings):
        for index, (one, other) in enumerate(spec.pairs):
            if rows and spec.can_encode(one, encoding) and spec.can_encode(other, encoding):
                sum_, squares = map(float, tally.sums[0]["pairs"][encoding_index, index])
                mean = sum_ / rows
                variance = max(squares / rows - mean * mean, 0.0) * rows / max(rows - 1, 1)
                margin = _CONFIDENT * sqrt(variance / rows)
                results.append(
                    Difference(
                        algorithm=spec.contenders[one].label,
                        other=spec.contenders[other].label,
                        encoding=encoding,
                        mean=mean,
                        low=mean - margin,
                        high=mean + margin,
                    )
                )
    return tuple(results)


def _worst(spec: SimulationSpec, tally: Tally) -> tuple[WorstRow, ...]:
    return tuple(
        WorstRow(
            algorithm=spec.contenders[contender].label,
            encoding=encoding,
            total=float(worst.totals[row]),
            row=int(worst.numbers[row]),
            name=worst.names[row],
            nodes=worst.demand[row],
            endpoints=worst.supply[row],
        )
        for (contender, encoding), worst in tally.worst.items()
        for row in range(len(worst.totals))
    )


# --- plots ------------------------------------------------------------------------------------------------------------


def _plots(spec: SimulationSpec, tally: Tally, *, bounds: bool) -> Plots:
    rows, endpoints = tally.counts["curve rows"], tally.counts["curve endpoints"]
    label = [contender.label for contender in spec.contenders]
    filled = np.flatnonzero(rows)

    def curve(algorithm: str, encoding: str, sums: Floats) -> Curve:
        """``sums`` are those of totals, by point."""
        points = zip((endpoints[filled] / rows[filled]).tolist(), (sums[filled] / rows[filled]).tolist(), strict=True)
        return Curve(algorithm=algorithm, encoding=encoding, points=tuple(points))

    curves = tuple(
        curve(label[contender], encoding, tally.sums[0][f"curve {contender} {encoding}"])
        for contender, encoding in spec.encoded_contenders
    )
    if bounds:
        possible = bound_totals(tally.sums[0]["curve possible"] / np.maximum(rows, 1)) * rows
        curves += tuple(curve(BOUND, encoding, possible) for encoding in spec.encodings)
    spreads = tuple(
        ScoreHistogram(
            algorithm=label[contender],
            encoding=encoding,
            width=_SPREAD_WIDTH,
            bins=_coarser(tally.counts[f"total {contender} {encoding}"]),
        )
        for contender, encoding in spec.encoded_contenders
    )
    joints = tuple(
        JointHistogram(
            algorithm=label[one],
            other=label[other],
            encoding=encoding,
            width=JOINT_WIDTH,
            cells=tuple(
                (float(cell // JOINT_BINS) * JOINT_WIDTH, float(cell % JOINT_BINS) * JOINT_WIDTH, int(counts[cell]))
                for cell in np.flatnonzero(counts).tolist()
            ),
        )
        for encoding in spec.encodings
        for one, other in spec.pairs
        if spec.can_encode(one, encoding) and spec.can_encode(other, encoding)
        for counts in (tally.counts[f"joint {one} {other} {encoding}"],)
    )
    return Plots(curves=curves, spreads=spreads, joints=joints)


def _coarser(counts: Counts) -> tuple[tuple[float, int], ...]:
    """Totals above 0 in wider bins, from the lowest up; those below 0 count for the lowest."""
    per_bin = round(_SPREAD_WIDTH * 100)
    bins = 100 * 100 // per_bin
    wide: Counts = counts[: bins * per_bin].reshape(bins, per_bin).sum(axis=1)
    wide[-1] += counts[bins * per_bin :].sum()
    return tuple(
        (100 - (index + 1) * _SPREAD_WIDTH, int(wide[index])) for index in range(bins - 1, -1, -1) if wide[index]
    )


@dataclass(frozen=True, slots=True)
class ScoredChunks:
    """The result of some consecutive chunks. ``rows`` are the inputs and the columns of each contender, where they
    are written to a file.
    """

    processed: int
    tally: Tally
    rows: tuple[tuple[Inputs, list[Floats]], ...] = ()


class Runner(Protocol):
    """Scores chunks somewhere, and yields the results in the order of the chunks."""

    def run(self, spec: SimulationSpec, chunks: Iterable[Chunk], *, rows: bool) -> Iterator[ScoredChunks]: ...


def score_chunk(spec: SimulationSpec, chunk: Chunk, *, rows: bool) -> ScoredChunks:
    """Score one chunk; the same function on every machine."""
    inputs = chunk.inputs()
    counted, columns = tally_chunk(spec, inputs)
    return ScoredChunks(len(inputs.numbers), counted, ((inputs, columns),) if rows else ())


@dataclass(frozen=True, slots=True)
class ThreadRunner:
    """The cores of this machine. Compiled rules release the interpreter, so that threads are enough."""

    jobs: int

    def run(self, spec: SimulationSpec, chunks: Iterable[Chunk], *, rows: bool) -> Iterator[ScoredChunks]:
        compile_kernels(spec.contenders)
        waiting: deque[Future[ScoredChunks]] = deque()
        left = iter(chunks)
        with ThreadPoolExecutor(self.jobs, thread_name_prefix="scoring") as pool:
            try:
                for chunk in left:
                    waiting.append(pool.submit(score_chunk, spec, chunk, rows=rows))
                    # More than can run, so that no thread waits while the first result is used.
                    if len(waiting) > 2 * self.jobs:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


RowSink = Callable[[Inputs, list[Floats]], None]


def simulate(
    spec: SimulationSpec,
    dataset: Dataset,
    *,
    runner: Runner,
    seed: int = 0,
    bounds: bool = False,
    shares: tuple[float, ...] = (),
    advanced: Callable[[int], None] = lambda _rows: None,
    sink: RowSink | None = None,
) -> Simulation:
    """Score a dataset. ``advanced`` gets the number of rows that were done, ``sink`` each chunk with its columns.

    Ctrl-C (KeyboardInterrupt) ends it early, with the figures of the rows so far.
    """
    tally = Tally()
    partial = False
    try:
        for scored in runner.run(spec, dataset.chunks(), rows=sink is not None):
            for inputs, columns in scored.rows:
                if sink is not None:
                    sink(inputs, columns)
            # A new one each time, so that Ctrl-C never leaves it half added.
            tally = merge_tallies(spec, (tally, scored.tally))
            advanced(scored.processed)
    except KeyboardInterrupt:
        partial = True
    return summarize(
        spec,
        tally,
        dataset=dataset.name,
        of=dataset.rows,
        whole=dataset.whole,
        seed=seed,
        partial=partial,
        bounds=bounds,
        shares=shares,
    )
