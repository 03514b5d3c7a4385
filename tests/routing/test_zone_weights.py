"""When weights of zones are too old to use, and when they are worth a write."""

import pytest
from tests.clusters import demand_in

from zoneward.routing.zone_weights import OutcomeMeasures, ZoneWeights, have_moved, is_stale, measure_weights


@pytest.mark.parametrize(
    ("counted", "ready", "stale"),
    [
        ({"a": 4}, {"a": 4}, False),
        ({"a": 4}, {"a": 5}, False),
        ({"a": 4}, {"a": 3}, False),
        ({"a": 4}, {"a": 6}, True),
        ({"a": 4}, {"a": 2}, True),
        ({"a": 20}, {"a": 22}, False),
        ({"a": 20}, {"a": 18}, False),
        ({"a": 20}, {"a": 23}, True),
        ({"a": 19}, {"a": 21}, True),
        ({"a": 1}, {}, False),
        ({"a": 2}, {}, True),
        ({}, {"a": 1}, False),
        ({"a": 0}, {"a": 2}, True),
        ({"a": 100, "b": 4}, {"a": 100, "b": 6}, True),
        ({"a": 100, "b": 4}, {"a": 100, "b": 4, "c": 2}, True),
    ],
)
def test_weights_are_stale_when_a_zone_differs_by_more_than_a_tenth_and_more_than_one(
    counted: dict[str, int], ready: dict[str, int], stale: bool
) -> None:
    assert is_stale(ZoneWeights({}, counted), ready) is stale


@pytest.mark.parametrize(
    ("shares", "moved"),
    [
        ({"a": {"a": 1.0}, "b": {"a": 0.25, "b": 0.75}}, False),
        ({"a": {"a": 1.0}, "b": {"a": 0.27, "b": 0.73}}, False),
        ({"a": {"a": 1.0}, "b": {"a": 0.2701, "b": 0.7299}}, True),
        ({"a": {"a": 0.98, "b": 0.02}, "b": {"a": 0.25, "b": 0.75}}, False),
        ({"a": {"a": 0.97, "b": 0.03}, "b": {"a": 0.25, "b": 0.75}}, True),
        ({"a": {"a": 1.0}}, True),
        ({"a": {"a": 1.0}, "b": {"a": 0.25, "b": 0.75}, "c": {"c": 1.0}}, True),
    ],
)
def test_weights_have_moved_when_a_share_differs_by_more_than_two_points(
    shares: dict[str, dict[str, float]], moved: bool
) -> None:
    before, after = ZoneWeights({"a": {"a": 1.0}, "b": {"a": 0.25, "b": 0.75}}, {}), ZoneWeights(shares, {"a": 9})
    assert have_moved(before, after) is moved
    assert have_moved(after, before) is moved


def test_what_weights_do_with_another_demand_is_measured_and_a_zone_without_any_uses_all() -> None:
    weights = ZoneWeights({"a": {"a": 0.75, "b": 0.25}, "b": {"b": 1.0}}, {"a": 2, "b": 2})
    assert measure_weights(weights, demand_in(a=2, b=1)).in_zone == pytest.approx(0.5 + 1 / 3)
    assert measure_weights(weights, demand_in(a=1, b=3)) == OutcomeMeasures(0.9375, 0.625)
    assert measure_weights(weights, demand_in(c=1)) == OutcomeMeasures(0.0, 0.0)
    assert measure_weights(ZoneWeights({}, {}), demand_in(a=1)) == OutcomeMeasures(0.0, 0.0)
