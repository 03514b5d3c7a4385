"""Every endpoint serves its own zone, whatever demand, thresholds and previous allocation say."""

import pytest

from zoneward.routing.algorithms.same_zone import same_zone
from zoneward.routing.algorithms.signature import max_groups


@pytest.mark.parametrize("demand", [[1, 1, 1], [0, 5, 0], [0, 0, 0]])
@pytest.mark.parametrize("previous", [[0] * 9, [0, 2, 0, 0, 0, 0, 0, 0, 1]])
def test_all_of_a_zones_supply_goes_to_that_zone(demand: list[int], previous: list[int]) -> None:
    room = max_groups(3) * 3
    composition, weights = [0] * room, [0.0] * room
    assert same_zone(demand, [2, 0, 3], [1, 5, 1, 5], previous, composition, weights, [], []) == 3
    assert composition == [2, 0, 0, 0, 0, 0, 0, 0, 3] + [0] * (room - 9)
    assert weights == [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0] + [0.0] * (room - 9)
