"""Results of a simulation, which scores algorithms over many inputs, as plain values: the lab computes them, reports
show them.

Scores are credits as in the proposal's table (KEP-2004 § Test Results): of 100, more is better. ``total`` is their
weighted sum (`zoneward.routing.score.total`), ``overload`` the mean of the two credits for overload.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SLICE_GROUPS: Final = "slice-groups"
HINTS: Final = "hints"
WEIGHTS: Final = "weights"
ENCODINGS: Final = (SLICE_GROUPS, HINTS, WEIGHTS)
"""How groups are encoded. Hints need no separate slices, so they have full credit for slices. Weights of zones are
what Zoneward's proxy uses in place of ``Balanced``'s groups: they reach the bound for every row."""

CREDITS: Final = ("total", "in_zone", "max_overload", "mean_overload", "overload", "slices")
"""The proposal's columns in their order."""
BOUND: Final = "bound"
"""The label of the bound that no algorithm can exceed (docs/lab.md § More tables)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """The mean credits of one algorithm in one encoding, over some rows.

    ``wins`` counts rows in which no other had as much, ``ties`` those in which it shared the best total; ``fell_back``
    those in which some zone reached no endpoint of its groups and used all. ``credits`` is None where hints cannot
    express the weights. ``gap_to_bound`` is the mean of what totals lack to the bound, where bounds were asked for.
    """

    algorithm: str
    encoding: str
    credits: Mapping[str, float] | None
    gap_to_bound: float | None = None
    wins: int = 0
    ties: int = 0
    fell_back: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Means over a class of rows, such as those with few endpoints."""

    name: str
    rows: int
    means: tuple[Means, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Credits that a share of the rows does not reach, ``{0.05: {"total": 61.2}}``: to 0.01, below -100 to 0.1 %."""

    algorithm: str
    encoding: str
    by_share: Mapping[float, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much more one algorithm scores than another on the same rows, in total; between ``low`` and ``high`` with
    95 % confidence, if the rows are a sample.
    """

    algorithm: str
    other: str
    encoding: str
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstRow:
    """One of the rows with the lowest total."""

    algorithm: str
    encoding: str
    total: float
    row: int
    name: str
    nodes: tuple[int, ...]
    endpoints: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Mean totals by the number of endpoints: ``points`` are (mean endpoints, mean total)."""

    algorithm: str
    encoding: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreHistogram:
    """How totals are distributed: (lower edge, rows) of bins of equal width."""

    algorithm: str
    encoding: str
    width: float
    bins: tuple[tuple[float, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JointHistogram:
    """Rows by the totals of two algorithms: (lower edge of one, of the other, rows)."""

    algorithm: str
    other: str
    encoding: str
    width: float
    cells: tuple[tuple[float, float, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plots:
    """The data of the plots on a page."""

    curves: tuple[Curve, ...] = ()
    spreads: tuple[ScoreHistogram, ...] = ()
    joints: tuple[JointHistogram, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """Algorithms over a dataset of ``of`` rows, a sample of ``whole`` where that is more.

    ``rows`` were scored; ``unscored`` had no endpoint or no node. ``partial``: it was stopped before the end. ``by`` is
    what bands are by: ``endpoints``, ``zones`` or nothing.
    """

    dataset: str
    rows: int
    of: int
    unscored: int
    partial: bool
    seed: int
    means: tuple[Means, ...]
    whole: int = 0
    by: str = ""
    bands: tuple[Band, ...] = ()
    quantiles: tuple[Quantiles, ...] = ()
    differences: tuple[Difference, ...] = ()
    worst: tuple[WorstRow, ...] = ()
    plots: Plots = field(default_factory=Plots)
