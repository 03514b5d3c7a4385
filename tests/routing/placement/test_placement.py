"""Which endpoints go into which group: as many as allocated, as few moved as possible, whatever the order."""

from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.structs import an_endpoint

from zoneward.kube.objects import EndpointIdentity
from zoneward.routing.placement.endpoint_index import Bucket, IndexedEndpoint
from zoneward.routing.placement.groups import own_group
from zoneward.routing.placement.placement import PlacementUnit, with_guests_kept
from zoneward.routing.placement.placement import place as place_units

ZONES = 3


def identities(number: int) -> list[EndpointIdentity]:
    return [((f"10.0.0.{each}",), "shop", f"pod-{each}") for each in range(number)]


GROUPS = ZONES + 2
"""The zones' own, and two that zones share."""


def place(
    located: list[int], before: list[int], names: list[EndpointIdentity], counts: list[int], zones: int
) -> list[int | None]:
    """Place endpoints that lie in buckets; the group of each."""
    buckets = {key: Bucket(str(key[0]), own_group(str(key[1])), True) for key in zip(located, before, strict=True)}
    members = [IndexedEndpoint(an_endpoint(), name) for name in names]
    for member, key in zip(members, zip(located, before, strict=True), strict=True):
        member.bucket = buckets[key]
        buckets[key].add(member)
    units = {key: PlacementUnit(bucket, *key) for key, bucket in buckets.items()}
    found = place_units(units.values(), counts, zones)
    for (unit, group), number in found.part_sizes.items():
        inside = [found.endpoint_groups.get(each, found.unit_groups.get(unit)) for each in unit.in_order()]
        assert inside.count(group) == number
    return [
        found.endpoint_groups.get(member, found.unit_groups.get(units[key]))
        for member, key in zip(members, zip(located, before, strict=True), strict=True)
    ]


def placed(located: list[int], before: list[int], allocation: dict[tuple[int, int], int]) -> list[int | None]:
    """``allocation``: how many of a zone are to be in a group."""
    buckets = [allocation.get((zone, group), 0) for group in range(GROUPS) for zone in range(ZONES)]
    return place(located, before, identities(len(located)), buckets, ZONES)


def test_new_ones_take_a_group_that_zones_share_after_all_that_one_zone_has() -> None:
    assert placed([1, 1, 1, 1], [-1] * 4, {(1, 4): 1, (1, 3): 1, (1, 2): 1, (1, 1): 1}) == [1, 2, 3, 4]


def test_who_was_in_a_group_that_is_no_more_goes_home_first() -> None:
    assert placed([0, 0], [4, 4], {(0, 0): 1, (0, 3): 1}) == [0, 3]


small = st.lists(
    st.tuples(st.integers(0, ZONES - 1), st.integers(-1, GROUPS - 1), st.integers(0, GROUPS - 1)), max_size=6
)
"""Per endpoint: where it is, the group it was in, and the one that somebody there will be in."""


def counts_of(endpoints: list[tuple[int, int, int]]) -> list[int]:
    wanted = Counter((group, located) for located, _, group in endpoints)
    return [wanted[group, zone] for group in range(GROUPS) for zone in range(ZONES)]


@settings(max_examples=100, print_blob=True)
@given(small)
def test_counts_are_met_with_the_fewest_moves(endpoints: list[tuple[int, int, int]]) -> None:
    located = [each[0] for each in endpoints]
    before = [each[1] for each in endpoints]
    result = place(located, before, identities(len(endpoints)), counts_of(endpoints), ZONES)
    assert Counter(zip(located, result, strict=True)) == Counter((each[0], each[2]) for each in endpoints)

    def moves(placement: tuple[int | None, ...]) -> int:
        return sum(1 for was, now in zip(before, placement, strict=True) if was not in (-1, now))

    every = {
        placement
        for placement in permutations(each[2] for each in endpoints)
        if Counter(zip(located, placement, strict=True)) == Counter(zip(located, result, strict=True))
    }
    assert moves(tuple(result)) == min(map(moves, every))


@settings(max_examples=50, print_blob=True)
@given(small, st.randoms(use_true_random=False))
def test_the_order_of_endpoints_does_not_matter(endpoints: list[tuple[int, int, int]], random: Random) -> None:
    names = identities(len(endpoints))
    counts = counts_of(endpoints)
    order = random.sample(range(len(endpoints)), len(endpoints))
    straight = place([each[0] for each in endpoints], [each[1] for each in endpoints], names, counts, ZONES)
    shuffled = place(
        [endpoints[each][0] for each in order],
        [endpoints[each][1] for each in order],
        [names[each] for each in order],
        counts,
        ZONES,
    )
    assert [straight[each] for each in order] == shuffled


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
    found = [list(counts)]
    for bucket in buckets:
        found[0][bucket] = 0
    for bucket in buckets:
        home, zone = bucket % zones, bucket // zones
        grown = []
        for each in found:
            lent_out = sum(each[other] for other in buckets if other % zones == home)
            borrowed = sum(each[other] for other in buckets if other // zones == zone)
            for number in range(min(lends[home] - lent_out, borrows[zone] - borrowed) + 1):
                more = list(each)
                more[bucket] = number
                grown.append(more)
        found = grown
    return [each for each in found if sum(each) == sum(counts)]


@settings(max_examples=75)
@given(lent())
def test_as_many_guests_as_possible_stay(given_: tuple[list[int], list[int], int]) -> None:
    counts, before, zones = given_

    def stay(allocation: Sequence[int]) -> int:
        return sum(map(min, allocation, before))

    found = list(with_guests_kept(counts, before, zones))
    ways = all_with_the_same_guests(counts, zones)
    assert found in ways
    assert stay(found) == max(map(stay, ways))
