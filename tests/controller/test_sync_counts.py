"""The labels of a sync, and totals that are the same as if all Services were counted anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.clusters import Cluster

from zoneward.controller.controller_metrics import ControllerMetrics
from zoneward.controller.sync_counts import (
    FamilyTotals,
    Feature,
    HintedBy,
    SliceTotals,
    SyncLabels,
    TrafficDistribution,
    family_totals,
    sync_labels,
    traffic_distribution,
)
from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.routing.configuration import Configuration, SubsettingSettings

NODES = nodes_in({"a": 4, "b": 4, "c": 4})
EVEN = {"a": 4, "b": 4, "c": 4}


NO_LABELS = None
"""None that says what traffic distribution is asked for."""


@pytest.mark.parametrize(
    ("service", "pods", "labels"),
    [
        (a_service(), EVEN, SyncLabels("random", "", "Disabled", "")),
        (a_service("Auto"), EVEN, SyncLabels("auto", Feature.HINTS, "Auto", "")),
        (a_service("Auto"), {"a": 1}, SyncLabels("random", Feature.HINTS, "Auto", "")),
        (a_service(subsetting="Auto"), EVEN, SyncLabels("auto", Feature.SUBSETTING, "Disabled", "")),
        *(
            (a_service(distribution=each), EVEN, SyncLabels("auto", Feature.TRAFFIC_DISTRIBUTION, "Disabled", each))
            for each in names.TRAFFIC_DISTRIBUTIONS
        ),
        # A Service can make no label of its own.
        *((a_service(distribution=each), EVEN, NO_LABELS) for each in ("zoneward.dev/local", "", "x" * 300)),
    ],
)
def test_labels_say_what_is_asked_for_and_whether_it_is_in_force(
    service: Service, pods: dict[str, int], labels: SyncLabels | None
) -> None:
    (family,) = Cluster(service=service, nodes=NODES, pods=pods_in(pods)).plan().families
    found = sync_labels(service, family.decision)
    assert found == labels if labels is not None else found.traffic_distribution == ""
    assert traffic_distribution(service, family.decision) == (found.traffic_distribution or None)


HINTED = {
    "Auto": (a_service("Auto"), HintedBy.AUTO),
    "PreferZone": (a_service("PreferZone"), HintedBy.SAME_ZONE),
    "PreferSameNode": (a_service(distribution="PreferSameNode"), HintedBy.SAME_ZONE),
    "subsetting": (a_service(subsetting="Auto", algorithm="local"), HintedBy.AUTO),
}


@pytest.mark.parametrize(("service", "by"), HINTED.values(), ids=HINTED)
def test_endpoints_with_hints_are_told_apart_by_where_the_hints_are_from(service: Service, by: HintedBy) -> None:
    configuration = Configuration(subsetting=SubsettingSettings(encoding="hints"))
    cluster = Cluster(service=service, nodes=NODES, pods=pods_in(EVEN), configuration=configuration)
    metrics = ControllerMetrics()
    metrics.record_sync(cluster.plan())
    assert metrics.totals.hinted == {by: 12}


def test_groups_of_slices_for_zones_have_no_hints_and_are_filled_apart() -> None:
    cluster = Cluster(service=a_service(subsetting="Auto"), nodes=NODES, pods=pods_in(EVEN))
    metrics = ControllerMetrics()
    metrics.record_sync(cluster.plan())
    assert not metrics.totals.hinted
    assert (metrics.totals.slices, metrics.totals.desired_slices) == (3, 3)


# --- totals -----------------------------------------------------------------------------------------------------------

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


def test_slices_for_other_ports_or_zones_are_filled_apart_and_without_endpoints_there_should_be_one() -> None:
    assert family_totals([(101, 2), (1, 1)], max_endpoints=100).desired_slices == 3
    assert family_totals([(0, 1), (0, 1)], max_endpoints=100).desired_slices == 1
    assert family_totals([], max_endpoints=100).desired_slices == 1
