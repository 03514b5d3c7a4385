"""What is counted of a sync is what the plan says, and what the slices hold when it is written."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.clusters import Cluster, a_service, nodes_in, pods_in
from tests.properties.random_clusters import clusters, examples

from zoneward.client.api_errors import Conflict, Forbidden, Gone, ServerFault, Unreachable
from zoneward.client.writer import WriteOutcome
from zoneward.controller.metric_labels import (
    Feature,
    HintedBy,
    SyncLabels,
    TrafficDistribution,
    sync_labels,
    traffic_distribution,
)
from zoneward.controller.metrics import Metrics, Operation, SyncResult
from zoneward.controller.predictions import Predictions
from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.routing.configuration import Configuration, SubsettingSettings
from zoneward.slices.planned import ServicePlan

NODES = nodes_in({"a": 4, "b": 4, "c": 4})
EVEN = {"a": 4, "b": 4, "c": 4}
KEY = ("shop", "cart")


def hinted(plan: ServicePlan) -> Iterator[bool]:
    for family in plan.families:
        for each in family.changes.after:
            for endpoint in each.endpoints or ():
                yield bool(endpoint.hints and (endpoint.hints.for_zones or endpoint.hints.for_nodes))


@given(clusters(), st.booleans())
@examples(50)
def test_totals_are_what_the_slices_of_a_plan_hold(cluster: Cluster, as_upstream: bool) -> None:
    cluster = cluster.with_(configuration=replace(cluster.configuration, upstream=as_upstream))
    metrics, plan = Metrics(max_endpoints=cluster.configuration.max_endpoints_per_slice), cluster.plan()
    metrics.synced(plan)
    found = list(hinted(plan))
    assert metrics.accounts.endpoints == len(found)
    assert sum(metrics.accounts.hinted.values()) == sum(found)
    assert metrics.accounts.slices == sum(len(family.changes.after) for family in plan.families)
    assert metrics.added.count == len(plan.families)
    assert metrics.added.total == sum(family.changes.added for family in plan.families)
    assert metrics.removed.total == sum(family.changes.removed for family in plan.families)
    assert metrics.reallocated.total == sum(family.decision.moved for family in plan.families)


def labels_of(cluster: Cluster) -> SyncLabels:
    (family,) = cluster.plan().families
    return sync_labels(cluster.service, family.decision)


ASKED = {
    "nothing": (Cluster(service=a_service()), SyncLabels("random", "", "Disabled", "")),
    "Auto": (Cluster(service=a_service("Auto")), SyncLabels("auto", Feature.HINTS, "Auto", "")),
    "Auto that is not possible": (
        Cluster(service=a_service("Auto"), pods=pods_in({"a": 1})),
        SyncLabels("random", Feature.HINTS, "Auto", ""),
    ),
    "subsetting": (
        Cluster(service=a_service(subsetting="Auto")),
        SyncLabels("auto", Feature.SUBSETTING, "Disabled", ""),
    ),
    **{
        value: (
            Cluster(service=a_service(distribution=value)),
            SyncLabels("auto", Feature.TRAFFIC_DISTRIBUTION, "Disabled", value),
        )
        for value in names.TRAFFIC_DISTRIBUTIONS
    },
}


@pytest.mark.parametrize(("cluster", "labels"), ASKED.values(), ids=ASKED)
def test_labels_say_what_is_asked_for_and_whether_it_is_in_force(cluster: Cluster, labels: SyncLabels) -> None:
    cluster = cluster.with_(nodes=NODES, pods=cluster.pods or pods_in(EVEN))
    assert labels_of(cluster) == labels
    metrics = Metrics()
    metrics.synced(cluster.plan())
    assert {each: histogram.total for each, histogram in metrics.changed_slices.items()} == {
        labels: len(cluster.plan().families[0].changes.create)
    }


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
    metrics = Metrics()
    metrics.synced(cluster.plan())
    assert metrics.accounts.hinted == {by: 12}


def test_groups_of_slices_for_zones_have_no_hints_and_are_filled_apart() -> None:
    cluster = Cluster(service=a_service(subsetting="Auto"), nodes=NODES, pods=pods_in(EVEN))
    metrics = Metrics()
    metrics.synced(cluster.plan())
    assert not metrics.accounts.hinted
    assert (metrics.accounts.slices, metrics.accounts.desired_slices) == (3, 3)


@pytest.mark.parametrize("value", [*names.TRAFFIC_DISTRIBUTIONS, "zoneward.dev/local", "", "x" * 300])
def test_a_service_can_make_no_label_of_its_own(value: str) -> None:
    service = a_service(distribution=value)
    known = value in names.TRAFFIC_DISTRIBUTIONS
    cluster = Cluster(service=service, nodes=NODES, pods=pods_in(EVEN))
    (family,) = cluster.plan().families
    assert traffic_distribution(service, family.decision) == (value if known else None)
    assert labels_of(cluster).traffic_distribution == (value if known else "")


def test_a_second_sync_takes_the_place_of_the_first_and_a_service_that_goes_leaves_nothing() -> None:
    cluster = Cluster(service=a_service(distribution="PreferClose"), nodes=NODES, pods=pods_in(EVEN))
    metrics = Metrics()
    metrics.synced(cluster.plan())
    metrics.synced(cluster.with_(pods=pods_in({"a": 1, "b": 1, "c": 1})).plan())
    assert metrics.accounts.endpoints == 3
    assert metrics.accounts.by_traffic_distribution == {TrafficDistribution.PREFER_CLOSE: 1}
    metrics.forget(KEY)
    metrics.forget(KEY)
    assert (metrics.accounts.endpoints, metrics.accounts.slices, metrics.accounts.desired_slices) == (0, 0, 0)
    assert sum(metrics.accounts.by_traffic_distribution.values()) == 0
    assert metrics.syncs[SyncResult.SUCCESS] == 2


def test_who_no_longer_leads_counts_no_services_and_forgets_no_syncs() -> None:
    metrics = Metrics(predictions=Predictions())
    metrics.synced(Cluster(service=a_service("Auto"), nodes=NODES, pods=pods_in(EVEN)).plan())
    metrics.stepped_down()
    assert (metrics.accounts.endpoints, metrics.accounts.slices, sum(metrics.accounts.hinted.values())) == (0, 0, 0)
    assert metrics.predictions is not None
    assert not metrics.predictions.due
    assert (metrics.syncs[SyncResult.SUCCESS], metrics.added.total) == (1, 12)


def test_a_sync_that_fails_counts_as_such_and_changes_no_totals() -> None:
    metrics = Metrics()
    metrics.not_synced(SyncResult.STALE)
    metrics.not_synced()
    metrics.retried()
    assert metrics.syncs == {SyncResult.SUCCESS: 0, SyncResult.STALE: 1, SyncResult.ERROR: 1}
    assert (metrics.retries, len(metrics.accounts), metrics.added.count) == (1, 0, 0)


def test_calls_that_fail_are_counted_by_what_is_known_of_them() -> None:
    metrics = Metrics()
    for error in (
        Conflict(409, "Conflict", "x"),
        Conflict(409, "AlreadyExists", "x"),
        Forbidden(403, "Forbidden", "x"),
        ServerFault(500, "", "x"),
        Unreachable("x", sent=False),
    ):
        metrics.call_failed(error, kind="endpointslices")
    metrics.call_failed(Unreachable("x"), kind="services")
    assert metrics.api_errors == {
        ("endpointslices", WriteOutcome.STALE): 1,
        ("endpointslices", WriteOutcome.EXISTS): 1,
        ("endpointslices", WriteOutcome.REFUSED): 1,
        ("endpointslices", WriteOutcome.UNKNOWN): 1,
        ("endpointslices", WriteOutcome.NOT_DONE): 1,
        ("services", WriteOutcome.UNKNOWN): 1,
    }


def test_a_watch_that_is_too_old_is_no_trouble() -> None:
    metrics = Metrics()
    metrics.watch_failed(Gone(410, "Expired", "x"), kind="pods")
    metrics.watch_failed(Unreachable("x"), kind="pods")
    assert metrics.watch_troubles == {"pods": 1}


def test_writes_and_waits_are_counted_one_by_one() -> None:
    metrics = Metrics()
    metrics.wrote(Operation.UPDATE)
    metrics.waited(0.02)
    assert metrics.changes == {Operation.CREATE: 0, Operation.UPDATE: 1, Operation.DELETE: 0}
    assert (metrics.latency.count, metrics.latency.total) == (1, 0.02)


def test_a_synced_service_is_predicted_anew_where_predictions_are_switched_on() -> None:
    metrics = Metrics(predictions=Predictions(limit=1))
    plan = Cluster(service=a_service(), nodes=NODES, pods=pods_in(EVEN)).plan()
    metrics.synced(plan)
    assert metrics.predictions is not None
    assert list(metrics.predictions.due) == [KEY]
    metrics.forget(KEY)
    assert list(metrics.predictions.due) == []
