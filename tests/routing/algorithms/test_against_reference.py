"""The product beside the reference, which shares no line with it, on 20,000 inputs drawn at random."""

import random
from collections.abc import Iterator

import pytest
from tests.reference.kep_2004 import allocate, score
from tests.routing.algorithms.running import difference, rule_of, run

NUMBER = {
    "local": 4000,
    "local-kep-tool": 4000,
    "local-shared": 6000,
    "local-weighted": 3000,
    "local-opt": 2000,
    "random": 1000,
}
SEED = 20040

Input = tuple[list[int], list[int]]
"""Demand and supply of each zone."""


def drawn(algorithm: str) -> Iterator[Input]:
    rng = random.Random(f"{SEED} {algorithm}")
    for _ in range(NUMBER[algorithm]):
        demand, supply = rng.choice((_any, _any, _any, _any, _one_large_zone))(rng)
        # Half of them ascending, as in the dataset; there, supply follows demand.
        if rng.random() < 0.5:
            demand, supply = sorted(demand), sorted(supply)
        if not any(supply):
            supply[rng.randrange(len(supply))] = 1
        yield demand, supply


def _any(rng: random.Random) -> Input:
    zones = rng.choice((2, 3, 3, 3, 3, 3, 3, 4, 5, 6, 7, 8) * 8 + (12, 12, 30))
    one = rng.randint(1, 9)
    demand = rng.choice(
        (
            lambda: [rng.randint(1, 10) for _ in range(zones)],
            lambda: [one] * zones,  # ties everywhere
            lambda: [rng.choice((one, one, 2 * one)) for _ in range(zones)],  # ties, also of one zone with two others
            lambda: [rng.choice((1, 1, 3, 30, 1000, 10**6)) for _ in range(zones)],
            lambda: [rng.choice((250, 940, 1930, 3920, 7910)) * rng.randint(1, 9) for _ in range(zones)],  # milli-CPU
        )
    )()
    most = rng.choice((1, 2, 5, 5, 15, 15, 60, 1000 if zones <= 3 else 60))
    supply = rng.choice(
        (
            lambda: [rng.randint(0, most) for _ in range(zones)],
            lambda: [rng.randint(1, most) * rng.randint(0, 1) for _ in range(zones)],  # empty zones
            lambda: [most] * zones,
            lambda: [rng.choice((0, 1, 1, 2, most)) for _ in range(zones)],
            lambda: [
                max(0, zones * most * weight // sum(demand) + rng.randint(-2, 1)) for weight in demand
            ],  # nearly fair
        )
    )()
    return demand, supply


def _one_large_zone(rng: random.Random) -> Input:
    """Where local-shared pools."""
    zones, small = rng.randint(3, 8), rng.randint(1, 4)
    demand = [small + rng.choice((0, 0, 0, 1)) for _ in range(zones)]
    supply = [rng.choice((0, 1, 1, 1, 1, 2)) for _ in range(zones)]
    large = rng.randrange(zones)
    demand[large], supply[large] = small * rng.randint(2, 12), rng.randint(2, 30)
    return demand, supply


@pytest.mark.parametrize("algorithm", NUMBER)
def test_groups_weights_and_scores_are_those_of_the_reference(algorithm: str) -> None:
    different = []
    impossible = 0
    for demand, supply in drawn(algorithm):
        result = run(rule_of(algorithm), demand, supply)
        groups = allocate(algorithm, demand, supply, starting_threshold=0)
        impossible += groups is None
        wrong = difference(result, groups, score(groups, demand, supply), demand, supply)
        if wrong:
            different.append(wrong)
    assert not different, "\n".join([f"seed {SEED}: {len(different)} inputs differ", *different[:3]])
    # What is drawn has to reach every way out.
    balances = algorithm in ("local", "local-kep-tool", "local-shared")
    assert (impossible > 500) if balances else impossible == 0
