"""What algorithms write into arrays, as an allocation."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

from zoneward.routing.algorithms.heuristics import SUBSETTING_ALGORITHMS
from zoneward.routing.allocation import Allocation, Supply, allocate, allocation_of, threshold_parameters

A, B, ALL = ("a",), ("b",), ("a", "b", "c")


def run(algorithm: str, **supply: int) -> Allocation | None:
    return allocate(
        SUBSETTING_ALGORITHMS[algorithm],
        {"a": 1, "b": 1, "c": 1},
        Supply(supply),
        parameters=threshold_parameters(Fraction(1, 5), Fraction(1, 5)),
    )


def test_zones_that_share_all_endpoints_are_one_group_of_consumers() -> None:
    assert run("random", a=1, b=2) == Allocation(ALL, {(ALL, "a"): 1, (ALL, "b"): 2})


def test_weights_are_those_that_slices_keep() -> None:
    allocation = run("local-opt", a=3, b=1)
    assert allocation is not None
    assert allocation.counts == {(A, "a"): 1, (B, "b"): 1, (("c",), "a"): 1, (ALL, "a"): 1}
    assert allocation.group(ALL).weights == (0.333333, 0.333333, 0.333333)


def test_single_consumers_come_before_those_that_share_and_zeros_are_left_out() -> None:
    allocation = allocation_of("abc", {(ALL, "a"): 1, (B, "a"): 0, (("c",), "a"): 2, (A, "b"): 3})
    assert list(allocation.counts.items()) == [((A, "b"), 3), ((("c",), "a"), 2), ((ALL, "a"), 1)]
    assert allocation.as_map() == {"a": {"c": 2, "a,b,c": 1}, "b": {"a": 3}}
    assert allocation.by_zone() == {"a": {"a": 1, "b": 1, "c": 3}, "b": {"a": 3}}


def test_a_group_that_weighs_in_one_zone_only_is_part_of_that_zones_own() -> None:
    def algorithm(*arrays: Any) -> int:
        arrays[4][:8] = [2, 0, 0, 1, 0, 3, 4, 0]
        arrays[5][:8] = [1.0, 0.0, 0.0, 1.0, 0.5, 0.0, 4e-7, 1.0]
        return 4

    heuristic = replace(SUBSETTING_ALGORITHMS["local"], allocate=algorithm)
    allocation = allocate(heuristic, {"a": 1, "b": 1}, Supply({"a": 6, "b": 4}), parameters=(1, 5, 1, 5))
    assert allocation == allocation_of("ab", {(A, "a"): 2, (A, "b"): 3, (B, "a"): 4, (B, "b"): 1})
