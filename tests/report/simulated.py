"""Simulations made by hand, with numbers that are easy to find again."""

from typing import Any

from zoneward.routing.simulation_results import (
    BOUND,
    CREDITS,
    HINTS,
    SLICE_GROUPS,
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

NASTY = '<script>alert("1 & 2")</script>'


def credits_of(total: float, *others: float) -> dict[str, float]:
    return dict(zip(CREDITS, (total, *(others or (81.5, 97.25, 98.75, 98.0, 63.125))), strict=True))


def means_of(algorithm: str, total: float | None, encoding: str = SLICE_GROUPS, **others: Any) -> Means:
    return Means(algorithm=algorithm, encoding=encoding, credits=None if total is None else credits_of(total), **others)


def plots_of(*algorithms: str, encoding: str = SLICE_GROUPS) -> Plots:
    """Something to draw for each, and for each pair."""
    pairs = [(one, other) for index, one in enumerate(algorithms) for other in algorithms[index + 1 :]]
    return Plots(
        curves=tuple(
            Curve(algorithm=item, encoding=encoding, points=((1.0, 70.0 + index), (10.5, 80.0), (3000.0, 95.0)))
            for index, item in enumerate(algorithms)
        ),
        spreads=tuple(
            ScoreHistogram(algorithm=algorithm, encoding=encoding, width=0.5, bins=((70.0, 10), (85.5, 80), (99.5, 10)))
            for algorithm in algorithms
        ),
        joints=tuple(
            JointHistogram(
                algorithm=one, other=other, encoding=encoding, width=1.0,
                cells=((70.0, 71.0, 20), (80.0, 80.0, 50), (90.0, 85.0, 30)),
            )
            for one, other in pairs
        ),
    )  # fmt: skip


def simulation_of(**changes: Any) -> Simulation:
    """Everything a simulation can hold, over two encodings."""
    means = (
        means_of("random", 72.484, wins=1_200, ties=34),
        means_of("local", 86.716, wins=5_678, ties=3_000, fell_back=77),
        means_of(BOUND, 92.76),
        means_of("random", 72.484, HINTS),
        means_of("local", None, HINTS),
        means_of(BOUND, 92.76, HINTS),
    )
    values: dict[str, Any] = {
        "dataset": "kep",
        "rows": 10_000,
        "of": 12_345,
        "unscored": 0,
        "partial": False,
        "seed": 17,
        "means": means,
        "bands": (Band(name="1 to 8", rows=4_321, means=(means_of("random", 61.11), means_of("local", 62.22))),),
        "quantiles": (Quantiles(algorithm="local", encoding=SLICE_GROUPS, by_share={0.05: credits_of(55.55)}),),
        "differences": (
            Difference(
                algorithm="random", other="local", encoding=SLICE_GROUPS, mean=-14.2323, low=-14.5678, high=-13.9012
            ),
        ),
        "worst": (
            WorstRow(
                algorithm="local", encoding=SLICE_GROUPS, total=-33.33, row=1233, name="shop/cart",
                nodes=(1, 22, 30), endpoints=(0, 7, 144),
            ),
        ),
        "plots": plots_of("random", "local"),
    }  # fmt: skip
    return Simulation(**{**values, **changes})
