"""The allocation as a value, and a heuristic's rule run over plain lists."""

from fractions import Fraction

from zoneward.routing.algorithms.registry import PREFER_SAME_ZONE, PROPORTIONAL_ZONE_CPU, Heuristic
from zoneward.routing.allocation import Allocation, allocate

ZONES = ("a", "b", "c")
ALLOCATION = Allocation(ZONES, (2, 1, 0, 0, 0, 0, 0, 1, 3))
"""Zone a serves itself twice and b once, b has none, c serves b once and itself three times."""


def test_consumed_is_a_column() -> None:
    assert [ALLOCATION.consumed(zone) for zone in range(3)] == [2, 2, 3]


def test_as_a_map_zeros_and_zones_without_endpoints_are_left_out() -> None:
    assert ALLOCATION.as_map() == {"a": {"a": 2, "b": 1}, "c": {"b": 1, "c": 3}}
    assert Allocation((), ()).as_map() == {}


def run(heuristic: Heuristic, supply: list[int]) -> Allocation | None:
    return allocate(
        heuristic,
        zones=ZONES,
        demand=[1, 1, 1],
        supply=supply,
        previous=[0] * 9,
        threshold=Fraction(1, 5),
        start_threshold=Fraction(1, 5),
    )


def test_a_heuristic_is_run_over_all_zones() -> None:
    assert run(PROPORTIONAL_ZONE_CPU, [1, 2, 0]) == Allocation(ZONES, (1, 0, 0, 0, 1, 1, 0, 0, 0))
    assert run(PREFER_SAME_ZONE, [1, 2, 0]) == Allocation(ZONES, (1, 0, 0, 0, 2, 0, 0, 0, 0))


def test_what_a_heuristic_finds_impossible_is_none() -> None:
    assert run(PROPORTIONAL_ZONE_CPU, [2, 2, 0]) is None
