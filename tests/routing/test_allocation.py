"""The allocation as a value, and a heuristic's rule run over plain lists."""

from fractions import Fraction

from zoneward.routing.algorithms.heuristics import SUBSETTING_ALGORITHMS as SUBSETTING
from zoneward.routing.algorithms.heuristics import Heuristic
from zoneward.routing.allocation import Allocation, allocate, allocation_of, threshold_parameters
from zoneward.routing.placement.groups import ZoneGroup, own_group

ZONES = ("a", "b", "c")
OWN = tuple(map(own_group, ZONES))
EVERYBODY = ZoneGroup(ZONES, (1.0, 1.0, 1.0))


def run(heuristic: Heuristic, supply: list[int]) -> Allocation | None:
    return allocate(
        heuristic,
        zones=ZONES,
        demand=[1, 1, 1],
        supply=supply,
        previous=[0] * 9,
        parameters=threshold_parameters(Fraction(1, 5), Fraction(1, 5)),
    )


def test_groups_that_zones_share_come_after_the_zones_own_even_where_these_are_empty() -> None:
    assert run(SUBSETTING["random"], [1, 2, 0]) == Allocation(ZONES, (*OWN, EVERYBODY), (*(0,) * 9, 1, 2, 0))


def test_weights_are_those_that_slices_keep() -> None:
    third = ZoneGroup(ZONES, (0.333333, 0.333333, 0.333333))
    assert run(SUBSETTING["local-opt"], [3, 1, 0]) == Allocation(
        ZONES, (*OWN, third), (1, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0)
    )


def test_a_shared_group_that_is_empty_is_left_out() -> None:
    counts = [2, 0, 0, 1, 0, 0, 0, 1, 0, 0]
    weights = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.5, 0.25, 1.0, 1.0]
    found = allocation_of(("a", "b"), 5, counts, weights)
    assert found == Allocation(
        ("a", "b"), (own_group("a"), own_group("b"), ZoneGroup(("a", "b"), (0.5, 0.25))), (2, 0, 0, 1, 0, 1)
    )


def test_a_shared_group_that_one_zone_consumes_is_part_of_its_own() -> None:
    counts = [2, 0, 0, 1, 0, 3, 4, 0]
    weights = [1.0, 0.0, 0.0, 1.0, 0.5, 0.0, 4e-7, 1.0]
    found = allocation_of(("a", "b"), 4, counts, weights)
    assert found == Allocation(("a", "b"), (own_group("a"), own_group("b")), (2, 3, 4, 1))
