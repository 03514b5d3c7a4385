"""local-kep-tool, where it differs from local (``docs/subsetting.md`` § The algorithms)."""

from collections.abc import Sequence

from tests.routing.algorithms.running import run

from zoneward.routing.algorithms.local import local
from zoneward.routing.algorithms.local_kep_tool import local_kep_tool
from zoneward.routing.score import MAX_OVERLOAD


def located(demand: Sequence[int], supply: Sequence[int]) -> list[list[int]] | None:
    """Where the endpoints of each zone's group are; None where it is impossible."""
    result = run(local_kep_tool, demand, supply)
    return None if result is None else result.located


def test_it_ends_where_the_next_giver_has_less_than_a_whole_endpoint_to_spare() -> None:
    """4.33 expected in each. Zone A has three then, 44 % above; by the prose zone B gives it one more."""
    assert located([1, 1, 1], [0, 5, 8]) == [[0, 0, 3], [0, 5, 0], [0, 0, 5]]
    results = [run(rule, [1, 1, 1], [0, 5, 8]) for rule in (local_kep_tool, local)]
    assert [round(100 * result.measures()[MAX_OVERLOAD]) for result in results if result is not None] == [44, 8]


def test_whole_endpoints_go_to_the_most_loaded_zone_first() -> None:
    """Ten expected in each. Zone B lacks two, zone C three; zone A has five to spare."""
    assert located([1, 1, 1], [15, 8, 7]) == [[10, 0, 0], [2, 8, 0], [3, 0, 7]]


def test_filling_stops_where_less_than_one_is_lacking_or_left() -> None:
    """11.5 expected in each: two go, and 12 and 11 are as near as whole endpoints come."""
    assert located([1, 1], [14, 9]) == [[12, 0], [2, 9]]


def test_it_ends_where_the_most_loaded_zone_lacks_less_than_one() -> None:
    """Zone B has one to spare, and zone A lacks one of 8.33. But zone C is more loaded, with one for 1.25."""
    assert located([20, 1, 3], [7, 2, 1]) == [[7, 0, 0], [0, 2, 0], [0, 0, 1]]


def test_what_can_not_be_lifted_below_the_threshold_is_impossible_as_for_local() -> None:
    assert located([9, 1, 1, 1], [6, 0, 0, 0]) is None
    assert located([1, 1], [0, 0]) is None
    assert located([0, 0], [3, 3]) is None
