"""Totals that are mended at each sync are those of a count from scratch."""

from hypothesis import given
from hypothesis import strategies as st

from zoneward.controller.sync_counts import FamilyTotals, HintedBy, SliceTotals, TrafficDistribution, family_totals

COUNTS = st.builds(
    FamilyTotals,
    endpoints=st.integers(0, 500),
    slices=st.integers(0, 9),
    desired_slices=st.integers(1, 9),
    hinted=st.integers(0, 500),
    hinted_by=st.sampled_from([None, *HintedBy]),
)
ENTRIES = st.tuples(
    st.dictionaries(st.sampled_from(["IPv4", "IPv6"]), COUNTS), st.sampled_from([None, *TrafficDistribution])
)
STEPS = st.lists(st.tuples(st.sampled_from("abcd"), st.none() | ENTRIES))


@given(STEPS)
def test_after_any_changes_totals_are_the_sums_over_the_services_that_are_left(
    steps: list[tuple[str, tuple[dict[str, FamilyTotals], TrafficDistribution | None] | None]],
) -> None:
    accounts = SliceTotals()
    left: dict[str, tuple[dict[str, FamilyTotals], TrafficDistribution | None]] = {}
    for name, entry in steps:
        if entry is None:
            left.pop(name, None)
            accounts.drop(("shop", name))
        else:
            left[name] = entry
            accounts.put(("shop", name), entry[0], traffic_distribution=entry[1])
    counts = [count for families, _ in left.values() for count in families.values()]
    assert accounts.endpoints == sum(each.endpoints for each in counts)
    assert accounts.slices == sum(each.slices for each in counts)
    assert accounts.desired_slices == sum(each.desired_slices for each in counts)
    for by in HintedBy:
        assert accounts.hinted[by] == sum(each.hinted for each in counts if each.hinted_by is by)
    for asked in TrafficDistribution:
        assert accounts.by_traffic_distribution[asked] == sum(each is asked for _, each in left.values())
    assert {name for _, name in accounts} == left.keys()


def test_each_family_without_endpoints_should_have_one_slice() -> None:
    assert family_totals([], max_endpoints=100).desired_slices == 1
    assert family_totals([(0, 1), (0, 1)], max_endpoints=100).desired_slices == 1


def test_slices_for_other_ports_or_zones_are_filled_apart() -> None:
    assert family_totals([(101, 2), (1, 1)], max_endpoints=100).desired_slices == 3
