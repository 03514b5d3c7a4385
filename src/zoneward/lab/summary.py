"""Makes the figures that people look at out of a tally: means, differences, quantiles, plots."""

from math import sqrt
from typing import Final

import numpy as np

from zoneward.lab.tally import (
    BANDS,
    CURVE_POINTS,
    JOINT_BINS,
    JOINT_WIDTH,
    Counts,
    SimulationSpec,
    Tally,
    bin_credit,
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
    found: Tally,
    *,
    dataset: str,
    of: int,
    whole: int = 0,
    seed: int = 0,
    partial: bool = False,
    bounds: bool = False,
    shares: tuple[float, ...] = (),
) -> Simulation:
    """A tally as figures. ``shares`` are the quantiles wanted; ``bounds`` adds what no algorithm can pass."""
    if not found.sums:
        return Simulation(
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
    rows = found.counts["rows"]
    everything = slice(None)
    return Simulation(
        dataset=dataset,
        rows=int(rows.sum()),
        of=of,
        whole=whole or of,
        unscored=int(found.counts["unscored"][0]),
        partial=partial,
        seed=seed,
        means=_means(spec, found, everything, bounds=bounds),
        by=spec.by,
        bands=_bands(spec, found, bounds=bounds),
        quantiles=_quantiles(spec, found, shares),
        differences=_differences(spec, found),
        worst=_worst(spec, found),
        plots=_plots(spec, found, bounds=bounds) if spec.plots else Plots(),
    )


def _means(spec: SimulationSpec, found: Tally, bands: slice | int, *, bounds: bool) -> tuple[Means, ...]:
    rows = int(np.sum(found.counts["rows"][bands]))
    if rows == 0:
        return ()
    bound = _credits(float(np.sum(found.sums[0]["possible"][bands])) / rows, 1.0, 1.0, 1.0)
    means = []
    for number, encoding in enumerate(spec.encodings):
        for contender, each in enumerate(spec.contenders):
            if encoding == WEIGHTS and not spec.can_encode(contender, encoding):
                continue
            wins = found.counts["wins"][number, :, contender, bands].reshape(2, -1).sum(axis=1)
            in_zone, most, mean, slices = (
                float(np.sum(values[bands])) / rows for values in found.sums[0]["means"][contender]
            )
            credits_: dict[str, float] | None = None
            if encoding == WEIGHTS:
                credits_ = bound
            elif spec.can_encode(contender, encoding):
                credits_ = _credits(in_zone, most, mean, slices if encoding == SLICE_GROUPS else 1.0)
            fell_back = int(np.sum(found.counts["fell back"][contender, bands]))
            means.append(
                Means(
                    algorithm=each.label,
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


def _bands(spec: SimulationSpec, found: Tally, *, bounds: bool) -> tuple[Band, ...]:
    if not spec.by:
        return ()
    if spec.by == "zones":
        names = [f"{number} zones" for number in range(spec.bands)]
    else:
        edges = (0, *BANDS)
        names = [f"{low + 1} to {high}" for low, high in zip(edges, BANDS, strict=False)] + [f"over {BANDS[-1]}"]
    return tuple(
        Band(name=names[band], rows=int(rows), means=_means(spec, found, band, bounds=bounds))
        for band, rows in enumerate(found.counts["rows"])
        if rows
    )


def _quantiles(spec: SimulationSpec, found: Tally, shares: tuple[float, ...]) -> tuple[Quantiles, ...]:
    if not spec.quantiles or not found.counts["rows"].any():
        return ()
    results = []
    for contender, encoding in spec.encoded_contenders:
        histograms = {"total": found.counts[f"total {contender} {encoding}"]}
        for credit in _MEASURED[encoding]:
            histograms[credit] = found.counts[f"{credit} {'possible' if encoding == WEIGHTS else contender}"]
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
    number = int(np.searchsorted(above, (1 - share) * above[-1], side="left"))
    return bin_credit(min(number, len(counts) - 1))


def _differences(spec: SimulationSpec, found: Tally) -> tuple[Difference, ...]:
    rows = int(found.counts["rows"].sum())
    results = []
    for number, encoding in enumerate(spec.encodings):
        for index, (one, other) in enumerate(spec.pairs):
            if rows and spec.can_encode(one, encoding) and spec.can_encode(other, encoding):
                sum_, squares = map(float, found.sums[0]["pairs"][number, index])
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


def _worst(spec: SimulationSpec, found: Tally) -> tuple[WorstRow, ...]:
    return tuple(
        WorstRow(
            algorithm=spec.contenders[contender].label,
            encoding=encoding,
            total=float(worst.totals[number]),
            row=int(worst.numbers[number]),
            name=worst.names[number],
            nodes=worst.demand[number],
            endpoints=worst.supply[number],
        )
        for (contender, encoding), worst in found.worst.items()
        for number in range(len(worst.totals))
    )


# --- plots ------------------------------------------------------------------------------------------------------------


def _plots(spec: SimulationSpec, found: Tally, *, bounds: bool) -> Plots:
    rows, endpoints = found.counts["curve rows"], found.counts["curve endpoints"]
    label = [each.label for each in spec.contenders]
    curves = tuple(
        Curve(
            algorithm=label[contender],
            encoding=encoding,
            points=tuple(
                (float(endpoints[point]) / int(rows[point]), float(sums[point]) / int(rows[point]))
                for point in range(CURVE_POINTS)
                if rows[point]
            ),
        )
        for contender, encoding in spec.encoded_contenders
        for sums in (found.sums[0][f"curve {contender} {encoding}"],)
    )
    spreads = tuple(
        ScoreHistogram(
            algorithm=label[contender],
            encoding=encoding,
            width=_SPREAD_WIDTH,
            bins=_coarser(found.counts[f"total {contender} {encoding}"]),
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
        for counts in (found.counts[f"joint {one} {other} {encoding}"],)
    )
    if bounds:
        points = tuple(
            (
                float(endpoints[point]) / int(rows[point]),
                _credits(float(possible[point]) / int(rows[point]), 1.0, 1.0, 1.0)["total"],
            )
            for possible in (found.sums[0]["curve possible"],)
            for point in range(CURVE_POINTS)
            if rows[point]
        )
        curves += tuple(Curve(algorithm=BOUND, encoding=encoding, points=points) for encoding in spec.encodings)
    return Plots(curves=curves, spreads=spreads, joints=joints)


def _coarser(counts: Counts) -> tuple[tuple[float, int], ...]:
    """Totals above 0 in wider bins, from the lowest up; what is below 0 counts for the lowest."""
    per_bin = round(_SPREAD_WIDTH * 100)
    number = 100 * 100 // per_bin
    wide: Counts = counts[: number * per_bin].reshape(number, per_bin).sum(axis=1)
    wide[-1] += counts[number * per_bin :].sum()
    return tuple(
        (100 - (index + 1) * _SPREAD_WIDTH, int(wide[index])) for index in range(number - 1, -1, -1) if wide[index]
    )
