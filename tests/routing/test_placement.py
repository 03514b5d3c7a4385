"""Which endpoints each group gets: as many as allocated, as few moved as possible, in any order of the input."""

from collections import Counter
from itertools import permutations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.structs import an_endpoint

from zoneward.kube.objects import EndpointIdentity
from zoneward.routing.allocation import Zones, allocation_of
from zoneward.routing.endpoint_index import Bucket, IndexedEndpoint
from zoneward.routing.placement import Pool, with_guests_kept
from zoneward.routing.placement import place as place_pools
from zoneward.routing.zone_groups import own_group

GROUPS: tuple[Zones, ...] = (("a",), ("b",), ("c",), ("a", "b"), ("b", "c"))
"""The zones' own, and two that zones share."""
ZONES = 3


def identities(count: int) -> list[EndpointIdentity]:
    return [((f"10.0.0.{index}",), "shop", f"pod-{index}") for index in range(count)]


def place(
    located: list[int], before: list[int], names: list[EndpointIdentity], counts: dict[tuple[int, int], int]
) -> list[int]:
    """The group of each endpoint. ``counts`` says how many of a zone are to be in a group; -1 is in no group."""
    keys = list(zip(located, before, strict=True))
    buckets = {key: Bucket("abc"[key[0]], own_group(str(key[1])), True) for key in keys}
    members = [IndexedEndpoint(an_endpoint(), name) for name in names]
    for member, key in zip(members, keys, strict=True):
        member.bucket = buckets[key]
        buckets[key].add(member)
    pools = [Pool(bucket, bucket.zone, None if group < 0 else GROUPS[group]) for (_, group), bucket in buckets.items()]
    allocation = allocation_of("abc", {(GROUPS[group], "abc"[zone]): count for (zone, group), count in counts.items()})
    placed = place_pools(pools, allocation.counts)
    consumers = {
        member: placed.consumers.get(member) or placed.consumers[buckets[key]]
        for member, key in zip(members, keys, strict=True)
    }
    for (pool, group), count in placed.parts.items():
        assert [consumers[member] for member in pool.in_order()].count(group) == count
    return [GROUPS.index(consumers[member]) for member in members]


def test_new_endpoints_go_to_their_own_zone_first_and_to_shared_groups_last() -> None:
    counts = {(1, 4): 1, (1, 3): 1, (1, 2): 1, (1, 1): 1}
    assert place([1, 1, 1, 1], [-1] * 4, identities(4), counts) == [1, 2, 3, 4]


def test_endpoints_of_a_group_that_no_longer_exists_go_home_first() -> None:
    assert place([0, 0], [4, 4], identities(2), {(0, 0): 1, (0, 3): 1}) == [0, 3]


small = st.lists(
    st.tuples(st.integers(0, ZONES - 1), st.integers(-1, len(GROUPS) - 1), st.integers(0, len(GROUPS) - 1)), max_size=6
)
"""Per endpoint: where it is, the group it was in, and the one that somebody there will be in."""


def counts_of(endpoints: list[tuple[int, int, int]]) -> dict[tuple[int, int], int]:
    return Counter((located, group) for located, _, group in endpoints)


@settings(max_examples=100, print_blob=True)
@given(small)
def test_counts_are_met_with_the_fewest_moves(endpoints: list[tuple[int, int, int]]) -> None:
    located = [endpoint[0] for endpoint in endpoints]
    before = [endpoint[1] for endpoint in endpoints]
    result = place(located, before, identities(len(endpoints)), counts_of(endpoints))
    assert Counter(zip(located, result, strict=True)) == Counter((endpoint[0], endpoint[2]) for endpoint in endpoints)

    def moves(placement: tuple[int, ...]) -> int:
        return sum(1 for was, now in zip(before, placement, strict=True) if was not in (-1, now))

    every = {
        placement
        for placement in permutations(endpoint[2] for endpoint in endpoints)
        if Counter(zip(located, placement, strict=True)) == Counter(zip(located, result, strict=True))
    }
    assert moves(tuple(result)) == min(map(moves, every))


@settings(max_examples=50, print_blob=True)
@given(small, st.randoms(use_true_random=False))
def test_the_order_of_endpoints_does_not_matter(endpoints: list[tuple[int, int, int]], random: Random) -> None:
    names = identities(len(endpoints))
    counts = counts_of(endpoints)
    order = random.sample(range(len(endpoints)), len(endpoints))
    straight = place([endpoint[0] for endpoint in endpoints], [endpoint[1] for endpoint in endpoints], names, counts)
    shuffled = place(
        [endpoints[index][0] for index in order],
        [endpoints[index][1] for index in order],
        [names[index] for index in order],
        counts,
    )
    assert [straight[index] for index in order] == shuffled


@st.composite
def lent(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    """An allocation in which some zones lend and others borrow, and one from before, both by group, then by home."""
    zones = draw(st.integers(2, 4))
    lenders = draw(st.sets(st.integers(0, zones - 1), min_size=1, max_size=zones - 1))
    counts, before = [0] * (zones * zones), [0] * (zones * zones)
    for home in range(zones):
        counts[home * zones + home] = draw(st.integers(0, 2))
        for zone in range(zones):
            if home in lenders and zone not in lenders:
                counts[zone * zones + home] = draw(st.integers(0, 2))
            before[zone * zones + home] = draw(st.integers(0, 3))
    return counts, before, zones


def all_with_the_same_guests(counts: list[int], zones: int) -> list[list[int]]:
    """Every allocation in which zones lend and borrow as many as in this one."""
    buckets = [bucket for bucket in range(zones * zones) if bucket % zones != bucket // zones]
    lends = [sum(counts[bucket] for bucket in buckets if bucket % zones == zone) for zone in range(zones)]
    borrows = [sum(counts[bucket] for bucket in buckets if bucket // zones == zone) for zone in range(zones)]
    allocations = [list(counts)]
    for bucket in buckets:
        allocations[0][bucket] = 0
    for bucket in buckets:
        home, zone = bucket % zones, bucket // zones
        grown = []
        for allocation in allocations:
            lent_out = sum(allocation[other] for other in buckets if other % zones == home)
            borrowed = sum(allocation[other] for other in buckets if other // zones == zone)
            for index in range(min(lends[home] - lent_out, borrows[zone] - borrowed) + 1):
                more = list(allocation)
                more[bucket] = index
                grown.append(more)
        allocations = grown
    return [candidate for candidate in allocations if sum(candidate) == sum(counts)]


@settings(max_examples=75)
@given(lent())
def test_as_many_guests_as_possible_stay(lending: tuple[list[int], list[int], int]) -> None:
    counts, before, size = lending
    zones = "abcd"[:size]
    keys = [((zones[cell // size],), zones[cell % size]) for cell in range(size * size)]

    def stay(allocation: list[int]) -> int:
        return sum(map(min, allocation, before))

    allocation = allocation_of(zones, dict(zip(keys, counts, strict=True)))
    new_counts = with_guests_kept(allocation, dict(zip(keys, before, strict=True))).counts
    result = [new_counts.get(key, 0) for key in keys]
    ways = all_with_the_same_guests(counts, size)
    assert result in ways
    assert stay(result) == max(map(stay, ways))
