"""Runs a rule of KEP-2004 over plain lists, as `zoneward.routing.allocation` does, and shows all that it wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tests.reference import kep_2004

from zoneward.routing.algorithms.heuristics import LOCAL_KEP_TOOL, SUBSETTING_ALGORITHMS
from zoneward.routing.algorithms.signature import (
    IMPOSSIBLE,
    AllocateFunction,
    max_groups,
    reals_length,
    scratch_length,
)
from zoneward.routing.score import IN_ZONE, MAX_OVERLOAD, MEAN_OVERLOAD, MEASURES, SLICES, measure, total

HALF: Final = Fraction(1, 2)
"""The threshold of the proposal's table."""
PER_SLICE: Final = 100

Row = tuple[tuple[int, ...], tuple[float, ...]]
"""A group: how many of its endpoints are located in each zone, and its weight for each zone."""


@dataclass(frozen=True)
class Result:
    """The arrays that a rule wrote."""

    demand: tuple[int, ...]
    groups: int
    composition: list[int]
    weights: list[float]

    @property
    def rows(self) -> list[Row]:
        """Every group in order, also those without endpoints."""
        n = len(self.demand)
        return [
            (tuple(self.composition[at : at + n]), tuple(self.weights[at : at + n]))
            for at in range(0, self.groups * n, n)
        ]

    @property
    def used(self) -> list[Row]:
        """The groups that have endpoints, sorted: a multiset."""
        return sorted(row for row in self.rows if any(row[0]))

    @property
    def located(self) -> list[list[int]]:
        """Where the endpoints of every group are, in the order of groups."""
        return [list(located) for located, _ in self.rows]

    @property
    def sizes(self) -> list[int]:
        return [sum(located) for located, _ in self.rows]

    def measures(self) -> list[float]:
        measures = [7.0] * MEASURES
        measure(self.demand, self.groups, self.composition, self.weights, PER_SLICE, measures, [7.0] * len(self.demand))
        return measures


def run(
    rule: AllocateFunction,
    demand: Sequence[int],
    supply: Sequence[int],
    threshold: Fraction = HALF,
    *,
    parameters: Sequence[int] = (),
    previous: Sequence[int] = (),
) -> Result | None:
    """None where it is impossible. The room that a rule gets is full of sevens: it must not read what it did not
    write."""
    zones = len(demand)
    composition = [0] * (max_groups(zones) * zones)
    weights = [0.0] * (max_groups(zones) * zones)
    groups = rule(
        tuple(demand),
        tuple(supply),
        parameters or threshold.as_integer_ratio(),
        previous or (0,) * zones**2,
        composition,
        weights,
        [7] * scratch_length(zones),
        [7.0] * reals_length(zones),
    )
    if groups == IMPOSSIBLE:
        return None
    assert 0 <= groups <= max_groups(zones)
    return Result(tuple(demand), groups, composition, weights)


def rule_of(algorithm: str) -> AllocateFunction:
    return {**SUBSETTING_ALGORITHMS, LOCAL_KEP_TOOL.name: LOCAL_KEP_TOOL}[algorithm].allocate


def score_of(result: Result | None, demand: Sequence[int], supply: Sequence[int]) -> kep_2004.Score:
    """The columns of the proposal's table, as the product measures them; what is impossible counts as random."""
    shown = result or run(rule_of("random"), demand, supply)
    assert shown is not None
    measures = shown.measures()
    slices = -(-sum(supply) // PER_SLICE) / measures[SLICES]
    max_credit, mean_credit = 100 * (1 - measures[MAX_OVERLOAD]), 100 * (1 - measures[MEAN_OVERLOAD])
    return kep_2004.Score(
        total=total(
            in_zone=measures[IN_ZONE],
            max_overload=measures[MAX_OVERLOAD],
            mean_overload=measures[MEAN_OVERLOAD],
            slices=slices,
        ),
        in_zone=100 * measures[IN_ZONE],
        max_overload=max_credit,
        mean_overload=mean_credit,
        overload=(max_credit + mean_credit) / 2,
        slices=100 * slices,
    )


def difference(
    result: Result | None,
    groups: Sequence[kep_2004.Group] | None,
    score: kep_2004.Score,
    demand: Sequence[int],
    supply: Sequence[int],
) -> str:
    """What the product's result has that the reference's does not; empty where they are the same.

    Groups and weights are equal to the last bit, in any order; scores up to 1e-9, for sums are added in another order.
    """
    case = f"demand {tuple(demand)}, supply {tuple(supply)}"
    if (result is None) != (groups is None):
        return f"{case}: the product has {result and result.used}, the reference {groups}"
    if result is not None and groups is not None:
        wanted = sorted((group.located, group.weights) for group in groups)
        if result.used != wanted:
            return f"{case}: the product has {result.used}, the reference {wanted}"
    measured = score_of(result, demand, supply)
    if any(abs(getattr(measured, column) - getattr(score, column)) > 1e-9 for column in measured.__dataclass_fields__):
        return f"{case}: the product scores {measured}, the reference {score}"
    return ""
