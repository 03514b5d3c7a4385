"""Balanced on plain arrays: the optimum where there are few endpoints, its limit, and never less than the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from random import Random
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.routing.algorithms.running import run

from zoneward.kube.validation import MAX_ZONE_HINTS
from zoneward.routing.algorithms.balanced import balanced
from zoneward.routing.algorithms.heuristics import HEURISTICS
from zoneward.routing.algorithms.set_value import COST_UNIT, LOCALITY, SCORE
from zoneward.routing.algorithms.transport import weigh_zones

FIFTH: Final = Fraction(1, 5)
NOISE: Final = 1e-7

Sets = list[tuple[frozenset[int], int]]
"""Of each endpoint, the zones that use it and the zone where it is."""


@dataclass(frozen=True)
class Case:
    demand: tuple[int, ...]
    supply: tuple[int, ...]
    limit: Fraction = FIFTH
    objective: int = SCORE
    costs: tuple[int, ...] | None = None

    @property
    def zones(self) -> int:
        return len(self.demand)

    @property
    def parameters(self) -> tuple[int, ...]:
        zone_count = self.zones
        plain = tuple(COST_UNIT * (start != end) for start in range(zone_count) for end in range(zone_count))
        return (*self.limit.as_integer_ratio() * 2, self.objective, *(self.costs or plain))

    def cost(self, start: int, end: int) -> float:
        return self.parameters[5 + start * self.zones + end] / COST_UNIT


@dataclass(frozen=True)
class Outcome:
    cost: float
    worst: float
    mean: float

    @property
    def score(self) -> float:
        return 45 * (1 - self.cost) + 20 * (1 - self.worst) + 20 * (1 - self.mean) + 15


def outcome_of(case: Case, sets: Sets) -> Outcome:
    """What the issue's formulas say, endpoint by endpoint. Every zone with demand has one."""
    total, everything = len(sets), sum(case.demand)
    used = [sum(zone in members for members, _ in sets) for zone in range(case.zones)]
    parts = [weight / everything / size if weight else 0.0 for weight, size in zip(case.demand, used, strict=True)]
    loads = [total * sum(parts[zone] for zone in members) - 1 for members, _ in sets]
    cost = sum(parts[zone] * case.cost(zone, located) for members, located in sets for zone in members)
    return Outcome(cost, max(0.0, *loads), sum(map(abs, loads)) / total)


def everybody(case: Case) -> Sets:
    consumers = frozenset(zone for zone, weight in enumerate(case.demand) if weight)
    return [(consumers, located) for located, count in enumerate(case.supply) for _ in range(count)]


def sets_of(case: Case, heuristic: str = "Balanced", parameters: Sequence[int] = ()) -> Sets | None:
    """None where it is impossible."""
    rule = balanced if heuristic == "Balanced" else HEURISTICS[heuristic].allocate
    result = run(rule, case.demand, case.supply, parameters=parameters or case.parameters)
    if result is None:
        return None
    sets: Sets = []
    for located, weights in result.rows:
        members = frozenset(zone for zone, weight in enumerate(weights) if weight and case.demand[zone])
        for zone, count in enumerate(located):
            assert count >= 0
            sets += [(members, zone)] * count
    return sets


def decided(case: Case) -> Sets:
    sets = sets_of(case)
    return everybody(case) if sets is None else sets


def best_by_enumeration(case: Case) -> Outcome:
    """The best of all ways to give each endpoint a set of zones, and of all endpoints for all zones."""
    consumers = [zone for zone, weight in enumerate(case.demand) if weight]
    shares = np.array([case.demand[zone] / sum(case.demand) for zone in consumers])
    total = sum(case.supply)
    kinds = np.array([[kind >> bit & 1 for bit in range(len(consumers))] for kind in range(1, 1 << len(consumers))])
    # A row a way: how many endpoints each consumer uses, what they cost it, and how many there are of each kind.
    rows = np.zeros((1, 2 * len(consumers) + len(kinds)))
    for located in range(case.zones):
        rows = (rows[:, np.newaxis] + _ways(case, located, consumers, kinds)).reshape(-1, rows.shape[1])
    used, costs, numbers = np.split(rows, [len(consumers), 2 * len(consumers)], axis=1)
    complete = used.all(axis=1)
    parts = shares / used[complete]
    deviations = total * parts @ kinds.T - 1
    numbers = numbers[complete]
    worst = np.where(numbers > 0, deviations, 0.0).max(axis=1, initial=0.0)
    within = worst <= case.limit + 1e-9
    cost = (parts * costs[complete]).sum(axis=1)[within]
    mean = (numbers * abs(deviations)).sum(axis=1)[within] / total
    best = outcome_of(case, everybody(case))
    ranked = [mean.round(9), worst[within].round(9), cost.round(9)]
    if case.objective == SCORE:
        ranked = [45 * cost + 20 * worst[within] + 20 * mean]
    if len(cost):
        first = np.lexsort(ranked)[0]
        optimum = Outcome(float(cost[first]), float(worst[within][first]), float(mean[first]))
        best = optimum if is_better(case, optimum, best) else best
    return best


def _ways(case: Case, located: int, consumers: Sequence[int], kinds: NDArray[np.int64]) -> NDArray[np.float64]:
    rows = []
    for chosen in combinations_with_replacement(range(len(kinds)), case.supply[located]):
        numbers = np.bincount(chosen, minlength=len(kinds)) if chosen else np.zeros(len(kinds))
        used = numbers @ kinds
        rows.append(np.concatenate([used, used * [case.cost(zone, located) for zone in consumers], numbers]))
    return np.array(rows)


def is_better(case: Case, one: Outcome, other: Outcome) -> bool:
    if case.objective == SCORE:
        return one.score > other.score + 1e-9
    for mine, theirs in ((one.cost, other.cost), (one.worst, other.worst), (one.mean, other.mean)):
        if abs(mine - theirs) > 1e-9:
            return mine < theirs
    return False


def assert_valid(case: Case, sets: Sets) -> None:
    """Every endpoint is where it is, in 1 to 8 sets, and every zone with demand has an endpoint."""
    for located, count in enumerate(case.supply):
        assert sum(where == located for _, where in sets) == count
    if sets != everybody(case):
        assert all(1 <= len(members) <= MAX_ZONE_HINTS for members, _ in sets)
    used = frozenset().union(*(members for members, _ in sets))
    assert used == {zone for zone, weight in enumerate(case.demand) if weight}


# --- the optimum ------------------------------------------------------------------------------------------------------

DEMANDS: Final = st.integers(0, 6)
LIMITS: Final = st.sampled_from([Fraction(0), Fraction(1, 10), FIFTH, Fraction(1, 2), Fraction(10)])
COSTS: Final = st.integers(0, 4).map(lambda quarters: quarters * COST_UNIT // 4)


@st.composite
def small_cases(draw: st.DrawFn, zones: int, most: int) -> Case:
    demand = draw(st.lists(DEMANDS, min_size=zones, max_size=zones).filter(any))
    located = draw(st.lists(st.integers(0, zones - 1), min_size=1, max_size=most))
    costs = None
    if draw(st.booleans()):
        table = draw(st.lists(COSTS, min_size=zones**2, max_size=zones**2))
        costs = tuple(cost * (cell % (zones + 1) != 0) for cell, cost in enumerate(table))
    return Case(
        tuple(demand),
        tuple(located.count(zone) for zone in range(zones)),
        draw(LIMITS),
        draw(st.sampled_from([SCORE, LOCALITY])),
        costs,
    )


@pytest.mark.parametrize(("zones", "most", "max_examples"), [(2, 12, 60), (3, 6, 60), (3, 8, 12)])
def test_it_finds_the_optimum_of_small_services(zones: int, most: int, max_examples: int) -> None:
    @settings(max_examples=max_examples, deadline=None)
    @given(small_cases(zones, most))
    def check(case: Case) -> None:
        assert_best(case)

    check()


@pytest.mark.parametrize(
    ("demand", "supply"),
    [((1, 1, 1), (8, 0, 0)), ((5, 3, 1), (1, 6, 1)), ((4, 3, 3), (0, 4, 4)), ((40, 32, 28), (3, 3, 2))],
)
def test_it_finds_the_optimum_of_eight_endpoints_in_three_zones(
    demand: tuple[int, ...], supply: tuple[int, ...]
) -> None:
    assert_best(Case(demand, supply))


def assert_best(case: Case) -> None:
    sets = decided(case)
    assert_valid(case, sets)
    outcome, best = outcome_of(case, sets), best_by_enumeration(case)
    assert outcome.worst <= case.limit + NOISE
    assert not is_better(case, best, Outcome(outcome.cost - NOISE, outcome.worst - NOISE, outcome.mean - NOISE)), best


# --- what always holds ------------------------------------------------------------------------------------------------


@st.composite
def cases(draw: st.DrawFn) -> Case:
    zones = draw(st.integers(2, 10))
    demand = draw(st.lists(st.integers(1, 20), min_size=zones, max_size=zones))
    supply = draw(st.lists(st.integers(0, draw(st.sampled_from([2, 20, 60]))), min_size=zones, max_size=zones))
    return Case(tuple(demand), tuple(supply), draw(LIMITS), draw(st.sampled_from([SCORE, LOCALITY])))


@settings(max_examples=30, deadline=None)
@given(cases())
def test_overload_is_within_the_limit_and_no_zone_or_endpoint_is_left_out(case: Case) -> None:
    if any(case.supply):
        sets = decided(case)
        assert_valid(case, sets)
        assert outcome_of(case, sets).worst <= case.limit + NOISE


@settings(max_examples=30, deadline=None)
@given(cases())
def test_no_other_approach_scores_more_within_the_limit(case: Case) -> None:
    if not any(case.supply) or case.objective != SCORE:
        return
    score = outcome_of(case, decided(case)).score
    assert score >= outcome_of(case, everybody(case)).score - NOISE
    for heuristic in ("ProportionalZoneCPU", "PreferSameZone", "local"):
        if not case.limit and heuristic != "PreferSameZone":
            continue
        sets = sets_of(case, heuristic, case.limit.as_integer_ratio() * 2)
        if sets is None or frozenset().union(*(members for members, _ in sets)) != set(range(case.zones)):
            continue
        other = outcome_of(case, sets)
        if other.worst <= case.limit:
            assert score >= other.score - NOISE, heuristic


@settings(max_examples=30, deadline=None)
@given(cases().filter(lambda case: any(case.supply)), st.randoms(use_true_random=False))
def test_the_order_of_zones_changes_neither_score_nor_overload(case: Case, random: Random) -> None:
    first = outcome_of(case, decided(case))
    order = random.sample(range(case.zones), case.zones)
    other = Case(
        tuple(case.demand[zone] for zone in order),
        tuple(case.supply[zone] for zone in order),
        case.limit,
        case.objective,
    )
    outcome = outcome_of(other, decided(other))
    assert (outcome.score, outcome.worst) == pytest.approx((first.score, first.worst))


def test_nothing_is_better_than_one_group_for_a_single_endpoint_or_a_single_zone() -> None:
    assert sets_of(Case((1, 1, 1), (1, 0, 0))) is None
    assert sets_of(Case((1, 0, 0), (3, 2, 1))) is None
    assert sets_of(Case((1, 1, 1), (0, 0, 0))) is None


def test_one_endpoint_serves_no_more_zones_than_a_hint_may_have() -> None:
    """Nine zones and two endpoints: any sets are of more than four zones, and none of more than eight."""
    sets = sets_of(Case((1,) * 9, (1, 1) + (0,) * 7, Fraction(10), LOCALITY))
    assert sets is not None
    assert max(len(members) for members, _ in sets) <= MAX_ZONE_HINTS


def test_traffic_stays_in_the_region_where_a_zone_has_too_few_endpoints() -> None:
    """Zones 0 and 1 are near each other: what 0 lacks comes from 1, none from 2."""
    near, far = COST_UNIT // 4, COST_UNIT
    case = Case((2, 1, 1), (1, 8, 3), costs=(0, near, far, near, 0, far, far, far, 0))
    assert {located for members, located in decided(case) if 0 in members} == {0, 1}


@pytest.mark.parametrize("objective", [SCORE, LOCALITY])
def test_zones_without_endpoints_use_those_of_their_region(objective: int) -> None:
    """Two regions of two zones, one endpoint in each."""
    near = [COST_UNIT // 10 if start // 2 == end // 2 else COST_UNIT for start in range(4) for end in range(4)]
    costs = tuple(0 if cell % 5 == 0 else cost for cell, cost in enumerate(near))
    case = Case((30, 25, 25, 20), (1, 0, 1, 0), FIFTH, objective, costs)
    assert sorted((sorted(members), located) for members, located in decided(case)) == [([0, 1], 0), ([2, 3], 2)]


def test_of_sets_with_equal_costs_those_with_less_overload_are_chosen() -> None:
    """Disjoint sets from two starts cost the same, and one of them has 14.6 % overload."""
    case = Case((2000, 2000, 1980, 1000), (0, 3, 5, 0), objective=LOCALITY)
    outcome = outcome_of(case, decided(case))
    assert outcome.cost == pytest.approx(0.4298, abs=1e-4)
    assert outcome.worst == pytest.approx(0.0556, abs=1e-4)


# --- weights of zones -------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(cases().filter(lambda case: any(case.supply)))
def test_weights_reach_the_bound_without_overload(case: Case) -> None:
    case = Case(case.demand, case.supply)
    rows = weigh_zones(case.demand, case.supply, case.parameters)
    total, everything = sum(case.supply), sum(case.demand)
    shares = [weight / everything for weight in case.demand]
    stays = sum(share * row[zone] for zone, (share, row) in enumerate(zip(shares, rows, strict=True)))
    bound = sum(min(share, supplied / total) for share, supplied in zip(shares, case.supply, strict=True))
    assert stays >= bound - 1e-9
    for row in rows:
        assert sum(row) == pytest.approx(1)
    for located, count in enumerate(case.supply):
        load = sum(share * row[located] for share, row in zip(shares, rows, strict=True))
        assert load <= count / total + 1e-9


def test_weights_for_locality_overload_no_more_than_they_have_to() -> None:
    """Zone 0 sends 1.5 times a fair load to its endpoint where that is allowed, and no more than allowed."""
    case = Case((1, 1), (1, 2), Fraction(1, 10), LOCALITY)
    first, second = weigh_zones(case.demand, case.supply, case.parameters)
    assert first == pytest.approx((0.7333, 0.2667), abs=1e-3)
    assert second == (0.0, 1.0)
    case = Case((1, 1), (1, 2), Fraction(10), LOCALITY)
    assert weigh_zones(case.demand, case.supply, case.parameters) == ((1.0, 0.0), (0.0, 1.0))
