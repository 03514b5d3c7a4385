"""When weights of zones are too old to use, and when they are worth a write."""

import pytest

from zoneward.routing.zone_weights import ZoneWeights, have_moved, is_stale


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
