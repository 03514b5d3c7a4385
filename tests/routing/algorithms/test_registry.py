"""Heuristics by name, and what each is like."""

import pytest

from zoneward.kube import names
from zoneward.routing.algorithms.proportional_zone_cpu import proportional_zone_cpu
from zoneward.routing.algorithms.registry import HEURISTICS, Heuristic, find
from zoneward.routing.algorithms.same_zone import same_zone


def test_there_are_four() -> None:
    """One balances, and one hints to nodes; each stands under its own name."""
    assert list(HEURISTICS.values()) == [
        Heuristic("ProportionalZoneCPU", proportional_zone_cpu, balances=True),
        Heuristic("PreferZone", same_zone),
        Heuristic("PreferSameZone", same_zone),
        Heuristic("PreferSameNode", same_zone, node_hints=True),
    ]
    assert all(name == heuristic.name for name, heuristic in HEURISTICS.items())


@pytest.mark.parametrize("name", HEURISTICS)
def test_each_is_found_under_our_domain(name: str) -> None:
    assert find(f"{names.DOMAIN}/{name}") is HEURISTICS[name]


@pytest.mark.parametrize(
    "value",
    ["", "/", "PreferZone", "zoneward.dev", "zoneward.dev/", "/PreferZone", "example.com/PreferZone",
     "ZONEWARD.dev/PreferZone", "zoneward.dev/preferzone", "zoneward.dev/PreferZone/", "x/zoneward.dev/PreferZone"],
)  # fmt: skip
def test_nothing_else_is_found(value: str) -> None:
    assert find(value) is None
