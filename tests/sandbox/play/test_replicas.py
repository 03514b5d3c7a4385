"""How many pods come and go is what the controllers of Deployments and ReplicaSets decide."""

from dataclasses import astuple

import pytest

from zoneward.sandbox.play.play_model import CountOrPercent, Rollout
from zoneward.sandbox.play.workload_controller import change_of


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ((0, 0), (0, 0), (10, 0, 0, 0)),
        ((12, 12), (0, 0), (0, 2, 0, 0)),
        ((0, 0), (10, 10), (3, 0, 0, 2)),
        ((3, 0), (8, 8), (2, 0, 0, 0)),
        ((5, 1), (8, 8), (0, 0, 0, 1)),
        ((0, 0), (10, 6), (3, 0, 2, 0)),
        ((10, 10), (3, 3), (0, 0, 0, 3)),
        ((10, 8), (1, 1), (0, 0, 0, 1)),
        ((10, 7), (1, 1), (0, 0, 0, 0)),
        ((11, 9), (2, 1), (0, 1, 1, 1)),
    ],
)
def test_a_rollout_of_ten_with_three_more_and_two_fewer(
    new: tuple[int, int], old: tuple[int, int], expected: tuple[int, int, int, int]
) -> None:
    """Pods and ready pods, of the new and the old template; to create, and to delete: new, old unready, old ready."""
    change = change_of(replicas=10, surge=3, unavailable=2, new=new[0], new_ready=new[1], old=old[0], old_ready=old[1])
    assert astuple(change) == expected


@pytest.mark.parametrize(
    ("rollout", "replicas", "expected"),
    [
        (Rollout(), 10, (3, 2)),
        (Rollout(), 1, (1, 0)),
        (Rollout(max_surge=CountOrPercent(0), max_unavailable=CountOrPercent(10, is_percent=True)), 5, (0, 1)),
        (Rollout(max_surge=CountOrPercent(2), max_unavailable=CountOrPercent(1)), 5, (2, 1)),
    ],
)
def test_parts_are_rounded_up_for_the_surge_and_down_for_the_rest(
    rollout: Rollout, replicas: int, expected: tuple[int, int]
) -> None:
    assert rollout.bounds(replicas) == expected
