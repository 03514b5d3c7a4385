from collections.abc import Callable, Mapping

from hypothesis import given
from hypothesis import strategies as st
from tests.properties.random_clusters import examples

from zoneward.advice.count_search import CountSearch, PodChanges

ALIKE: Mapping[str, int] = {"a": 1, "b": 1, "c": 1}


def search(
    pods: Mapping[str, int], suffices: Callable[[PodChanges], bool], *, demand: Mapping[str, int] = ALIKE
) -> CountSearch:
    return CountSearch(pods=pods, zones=list(demand), demand=demand, suffices=suffices, limit=1_000)


def test_search_handles_sizes_that_are_not_monotone() -> None:
    changes = search({"a": 5}, lambda pods: sum(pods.values()) in (3, 5))
    assert [sum(next(changes.more(most)).values()) for most in (3, 4, 10)] == [3, 3, 3]


def test_search_tries_every_placement_of_a_size() -> None:
    wanted = {"a": 4}
    assert next(search({"a": 9, "b": 0, "c": 0}, lambda pods: pods == wanted).more(6)) == wanted


@examples(50)
@given(st.lists(st.integers(0, 400), min_size=2, max_size=4), st.lists(st.integers(1, 9), min_size=4, max_size=4))
def test_search_finds_the_smallest_size_by_load(counts: list[int], weights: list[int]) -> None:
    """Below 20 % above fair, checked by the least number that each zone needs: n > T r / 1.2."""
    pods = dict(zip("abcd", counts, strict=False))
    demand = dict(zip(pods, weights, strict=False))
    total = sum(demand.values())

    def has_room(extra: int) -> bool:
        count = sum(pods.values()) + extra
        return sum(max(pods[zone], count * demand[zone] * 5 // (total * 6) + 1) for zone in pods) <= count

    def suffices(changes: PodChanges) -> bool:
        after = {zone: count + changes.get(zone, 0) for zone, count in pods.items()}
        count = sum(after.values())
        return all(after[zone] * total * 6 > count * demand[zone] * 5 for zone in pods)

    changes = next(search(pods, suffices, demand=demand).more(4_000), None)
    assert changes is not None
    assert suffices(changes)
    size = sum(changes.values())
    assert not any(has_room(extra) for extra in range(1, size))


def test_even_spread_lists_every_placement_of_the_rest() -> None:
    ways = search({"a": 5, "b": 0, "c": 0}, lambda _: True).spread(0)
    assert sorted(map(sorted, (way.items() for way in ways))) == [
        [("a", -4), ("b", 2), ("c", 2)],
        [("a", -3), ("b", 1), ("c", 2)],
        [("a", -3), ("b", 2), ("c", 1)],
    ]
    assert search({"": 5, "a": 1}, lambda _: True).spread(0) == []


def test_last_pod_is_never_removed() -> None:
    assert list(search({"a": 1}, lambda _: True).fewer(3)) == []
