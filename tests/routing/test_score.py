"""The proposal's score is that of the reference on random groups."""

import random
from collections.abc import Sequence

import pytest
from tests.reference import kep_2004
from tests.routing.algorithms.running import PER_SLICE

from zoneward.routing.score import IN_ZONE, MAX_OVERLOAD, MEAN_OVERLOAD, MEAN_SQUARE, MEASURES, SLICES, measure, total

Groups = Sequence[tuple[Sequence[int], Sequence[float]]]
"""Of each group: how many endpoints are located in each zone, and the weight for each zone."""


def measured(demand: Sequence[int], groups: Groups, per_slice: int = PER_SLICE) -> list[float]:
    """In-zone share, worst and mean overload, slices. The room is full of sevens: nothing may be read that was not
    written."""
    composition = [count for located, _ in groups for count in located]
    weights = [weight for _, row in groups for weight in row]
    measures = [7.0] * MEASURES
    measure(demand, len(groups), composition, weights, per_slice, measures, [7.0] * len(demand))
    return measures[:MEAN_SQUARE]


def score(demand: Sequence[int], groups: Groups) -> float:
    measures = measured(demand, groups)
    endpoints = sum(count for located, _ in groups for count in located)
    return total(
        in_zone=measures[IN_ZONE],
        max_overload=measures[MAX_OVERLOAD],
        mean_overload=measures[MEAN_OVERLOAD],
        slices=-(-endpoints // PER_SLICE) / measures[SLICES],
    )


def test_any_groups_score_as_in_the_reference() -> None:
    rng = random.Random(2433)
    for _ in range(2000):
        zones = rng.randint(1, 6)
        demand = [rng.choice((1, 1, 2, rng.randint(1, 9000))) for _ in range(zones)]
        groups = [
            (
                tuple(rng.choice((0, 0, 1, rng.randint(0, 150))) for _ in range(zones)),
                tuple(rng.choice((0.0, 0.0, 1.0, rng.random())) for _ in range(zones)),
            )
            for _ in range(rng.randint(1, 2 * zones + 2))
        ]
        located = [sum(column) for column in zip(*(row for row, _ in groups), strict=True)]
        if not any(located):
            continue
        wanted = kep_2004.score([kep_2004.Group(*group) for group in groups if any(group[0])], demand, located)
        measures = measured(demand, groups)
        case = f"demand {demand}, groups {groups}"
        assert score(demand, groups) == pytest.approx(wanted.total, abs=1e-9), case
        assert 100 * measures[IN_ZONE] == pytest.approx(wanted.in_zone, abs=1e-9), case
        assert 100 * (1 - measures[MAX_OVERLOAD]) == pytest.approx(wanted.max_overload, abs=1e-9), case
        assert 100 * (1 - measures[MEAN_OVERLOAD]) == pytest.approx(wanted.mean_overload, abs=1e-9), case
