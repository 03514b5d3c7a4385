"""What is counted of a sync is what the plan says; the documentation has all that Prometheus reads."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.clusters import Cluster
from tests.deploy.manifests import ROOT
from tests.deploy.queries import documented_metrics, rules
from tests.properties.random_clusters import clusters, examples

from zoneward.client.api_errors import Conflict, Gone, Unreachable
from zoneward.client.resources import SERVICES
from zoneward.controller.controller_metrics import (
    UPSTREAM,
    ZONEWARD,
    ControllerMetrics,
    FamilyTotals,
    HintedBy,
    Operation,
    SliceTotals,
    SyncLabels,
    SyncResult,
    TrafficDistribution,
    hinted_by,
    sync_labels,
    traffic_distribution,
)
from zoneward.controller.predictions import Prediction, Predictions
from zoneward.controller.queue.work_queue import QueueDepth
from zoneward.daemon.metrics import MetricsPage, counter_total, histogram_totals
from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.routing.configuration import Configuration, SubsettingSettings
from zoneward.slices.plan import ServicePlan

NODES = nodes_in({"a": 4, "b": 4, "c": 4})
EVEN = {"a": 4, "b": 4, "c": 4}
KEY = ("shop", "cart")


def hinted(plan: ServicePlan) -> Iterator[bool]:
    for family in plan.families:
        for slice_ in family.changes.after:
            for endpoint in slice_.endpoints or ():
                yield bool(endpoint.hints and (endpoint.hints.for_zones or endpoint.hints.for_nodes))


@given(clusters(), st.booleans())
@examples(30)
def test_totals_count_the_slices_of_a_plan(cluster: Cluster, as_upstream: bool) -> None:
    cluster = cluster.with_(configuration=msgspec.structs.replace(cluster.configuration, upstream=as_upstream))
    metrics, plan = ControllerMetrics(max_endpoints=cluster.configuration.max_endpoints_per_slice), cluster.plan()
    metrics.record_sync(plan)
    are_hinted = list(hinted(plan))
    assert metrics.totals.endpoints == len(are_hinted)
    assert sum(metrics.totals.hinted.values()) == sum(are_hinted)
    assert metrics.totals.slices == sum(len(family.changes.after) for family in plan.families)
    added, removed, moved = (
        histogram_totals(histogram) for histogram in (metrics.added, metrics.removed, metrics.reallocated)
    )
    assert added[0] == len(plan.families)
    assert added[1] == sum(family.changes.added for family in plan.families)
    assert removed[1] == sum(family.changes.removed for family in plan.families)
    assert moved[1] == sum(family.decision.moved for family in plan.families)


def test_a_former_leader_counts_no_services_and_keeps_its_sync_counts() -> None:
    metrics = ControllerMetrics(predictions=Predictions())
    assert metrics.predictions is not None
    metrics.record_sync(Cluster(service=a_service("Auto"), nodes=NODES, pods=pods_in(EVEN)).plan())
    assert list(metrics.predictions.due) == [KEY]
    metrics.forget_all_services()
    assert (len(metrics.totals), metrics.totals.endpoints, len(metrics.predictions.due)) == (0, 0, 0)
    assert (counter_total(metrics.syncs, result="success"), histogram_totals(metrics.added)) == (1, (1, 12))


def test_a_watch_that_is_too_old_is_not_an_error() -> None:
    metrics = ControllerMetrics()
    metrics.watches.record_error(Gone(410, "Expired", "x"), kind="pods")
    metrics.watches.record_error(Unreachable("x"), kind="pods")
    assert counter_total(metrics.watches.errors) == counter_total(metrics.watches.errors, resource="pods") == 1


# --- the page ---------------------------------------------------------------------------------------------------------


def a_program(**queue: int) -> Any:
    """What the gauges read of a running program."""
    synced = asyncio.Event()
    controller = SimpleNamespace(
        queue=SimpleNamespace(depth=lambda: QueueDepth(**queue), longest_wait=lambda: 1.5),
        cache=SimpleNamespace(synced=synced),
        contested={("shop", f"s{index}") for index in range(4)},
        services_without_stored_hints=2,
        unreadable=(SimpleNamespace(resource=SERVICES), SimpleNamespace(resource=SERVICES)),
    )
    return SimpleNamespace(controller=controller, is_leader=True, watch_health=SimpleNamespace(trouble_seconds=0.25))


def busy() -> ControllerMetrics:
    """Metrics in which everything has happened once. Without zone labels on nodes, a share of traffic is unknown."""
    predictions = Predictions()
    predictions._made[KEY] = {"IPv4": Prediction(0.75, 0.5), "IPv6": Prediction(None, 0.25)}
    metrics = ControllerMetrics(predictions=predictions)
    for service in (a_service("Auto"), a_service(distribution="PreferClose")):
        metrics.record_sync(Cluster(service=service, nodes=NODES, pods=pods_in(EVEN)).plan())
    metrics.record_failed_sync(SyncResult.STALE)
    metrics.record_failed_sync()
    metrics.retries.inc()
    metrics.record_write(Operation.CREATE)
    metrics.latency.observe(0.02)
    metrics.record_api_error(Conflict(409, "Conflict", "x"), kind="endpointslices")
    metrics.watches.record_error(Unreachable("x"), kind="pods")
    metrics.demand_reads.labels("failure").inc()
    metrics.demand_changes.labels("overload").inc()
    return metrics


def page(metrics: ControllerMetrics) -> str:
    """Once for each: a program runs once."""
    metrics.declare_state(a_program(due=1, gathering=2, working=3))
    metrics.declare_demand(services=lambda: {"Measured": 4}, waiting=lambda: 1, figures_age=lambda: 12.5)
    metrics.declare_overlay(services=lambda: 5, refused=lambda: 6, pending_slices=lambda: 7)
    return asyncio.run(MetricsPage(metrics.registry).text()).decode()


def samples(text: str) -> dict[str, float]:
    """Each line by its name and labels, as written."""
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def test_a_page_has_counters_and_current_values() -> None:
    values = samples(page(busy()))
    changed = f"{UPSTREAM}endpointslices_changed_per_sync_count"
    auto = 'approach="auto",feature="TopologyAwareHints",topology="Auto",traffic_distribution=""'
    close = (
        'approach="auto",feature="ServiceTrafficDistribution",topology="Disabled",traffic_distribution="PreferClose"'
    )
    expected = {
        # The proposal's results and upstream's causes, and the labels of both proposals and of upstream.
        f'{UPSTREAM}syncs{{cause="",result="success"}}': 2,
        f'{UPSTREAM}syncs{{cause="stale",result="failure"}}': 1,
        f'{UPSTREAM}syncs{{cause="error",result="failure"}}': 1,
        f"{changed}{{{auto}}}": 1,
        f"{changed}{{{close}}}": 1,
        # The name in the first version of KEP-2004.
        f"{UPSTREAM}changes_endpointslices_per_sync_count{{{auto}}}": 1,
        f'{ZONEWARD}queue_services{{state="gathering"}}': 2,
        f"{ZONEWARD}leader": 1,
        f"{ZONEWARD}cache_synced": 0,
        f"{ZONEWARD}queue_oldest_seconds": 1.5,
        f"{ZONEWARD}watch_trouble_seconds": 0.25,
        f"{ZONEWARD}contested_services": 4,
        f"{ZONEWARD}contested_namespaces": 1,
        f"{ZONEWARD}hints_not_stored_services": 2,
        f'{ZONEWARD}unreadable_objects{{kind="Service"}}': 2,
        f'{ZONEWARD}unreadable_objects{{kind="Pod"}}': 0,
    }
    assert {name: values[name] for name in expected} == expected


def test_series_of_services_need_predictions_and_end_with_the_service() -> None:
    assert not any("service_max_overload" in name for name in samples(page(ControllerMetrics())))
    metrics = busy()
    values = samples(page(metrics))
    assert {name.removeprefix(ZONEWARD): value for name, value in values.items() if 'service="cart"' in name} == {
        'service_in_zone_traffic{address_type="IPv4",namespace="shop",service="cart"}': 0.75,
        'service_max_overload{address_type="IPv4",namespace="shop",service="cart"}': 0.5,
        'service_max_overload{address_type="IPv6",namespace="shop",service="cart"}': 0.25,
    }
    metrics.forget_service(KEY)
    assert 'service="cart"' not in asyncio.run(MetricsPage(metrics.registry).text()).decode()


async def test_other_tasks_run_while_a_page_is_made() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(other())
    await MetricsPage(busy().registry).text()
    running.cancel()
    assert turns > 10


# --- the documentation ------------------------------------------------------------------------------------------------


def shown() -> dict[str, set[str]]:
    labels_by_name: dict[str, set[str]] = {}
    for name in samples(page(busy())):
        bare, _, labels = name.partition("{")
        bare = re.sub(r"_(bucket|count|sum)$", "", bare)
        labels_by_name.setdefault(bare, set()).update(set(re.findall(r'(\w+)="', labels)) - {"le"})
    return {name: labels for name, labels in labels_by_name.items() if name.startswith((UPSTREAM, ZONEWARD))}


def test_the_documentation_has_every_metric_with_its_labels_and_no_other() -> None:
    documented = documented_metrics().items()
    assert {name: labels for name, labels in documented if name.startswith((UPSTREAM, ZONEWARD))} == shown()


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def test_alert_rules_evaluate_the_controller_of_each_cluster_separately() -> None:
    """One Prometheus may scrape several clusters: two leaders in two clusters are as they should be."""
    seen = 0
    for rule in alerts():
        for what, labels in re.findall(r"\b(sum|max|on|ignoring)\b(?: by)? ?\(([^()]*)", rule["expr"]):
            seen += 1
            assert {"job", "namespace", "cluster"} <= set(re.findall(r"\w+", labels)), (rule["alert"], what)
    assert seen >= 10


def test_every_alert_is_documented_once() -> None:
    text = (ROOT / "docs" / "metrics-and-events.md").read_text()
    rows = re.findall(r"^\| `(Zoneward\w+)` \|", text, re.MULTILINE)
    assert sorted(rows) == sorted({rule["alert"] for rule in alerts()})
    assert len(rows) == len(alerts())


# --- The labels of a sync, and totals that are the same as if all Services were counted again -------------------------


NO_LABELS = None
"""None that says what traffic distribution is asked for."""


@pytest.mark.parametrize(
    ("service", "pods", "labels"),
    [
        (a_service(), EVEN, SyncLabels("random", "", "Disabled", "")),
        (a_service("Auto"), EVEN, SyncLabels("auto", "TopologyAwareHints", "Auto", "")),
        (a_service("Auto"), {"a": 1}, SyncLabels("random", "TopologyAwareHints", "Auto", "")),
        (a_service(subsetting="Auto"), EVEN, SyncLabels("auto", "TopologyAwareSubsetting", "Disabled", "")),
        *(
            (
                a_service(distribution=distribution),
                EVEN,
                SyncLabels("auto", "ServiceTrafficDistribution", "Disabled", distribution),
            )
            for distribution in names.TRAFFIC_DISTRIBUTIONS
        ),
        # A Service cannot create a custom label.
        *(
            (a_service(distribution=distribution), EVEN, NO_LABELS)
            for distribution in ("zoneward.dev/local", "", "x" * 300)
        ),
    ],
)
def test_labels_have_the_request_and_whether_it_is_in_force(
    service: Service, pods: dict[str, int], labels: SyncLabels | None
) -> None:
    (family,) = Cluster(service=service, nodes=NODES, pods=pods_in(pods)).plan().families
    result = sync_labels(service, family.decision)
    assert result == labels if labels is not None else result.traffic_distribution == ""
    assert traffic_distribution(service, family.decision) == (result.traffic_distribution or None)


HINTED = {
    "Auto": (a_service("Auto"), HintedBy.AUTO),
    "PreferZone": (a_service("PreferZone"), HintedBy.SAME_ZONE),
    "PreferSameNode": (a_service(distribution="PreferSameNode"), HintedBy.SAME_ZONE),
    "subsetting": (a_service(subsetting="Auto", algorithm="local"), HintedBy.AUTO),
}


def test_hints_of_balanced_are_from_demand() -> None:
    (family,) = Cluster(service=a_service("Auto"), nodes=NODES, pods=pods_in(EVEN)).plan().families
    assert hinted_by(replace(family.decision, heuristic="Balanced")) is HintedBy.AUTO


@pytest.mark.parametrize(("service", "by"), HINTED.values(), ids=HINTED)
def test_endpoints_with_hints_are_counted_by_the_source_of_the_hints(service: Service, by: HintedBy) -> None:
    configuration = Configuration(subsetting=SubsettingSettings(encoding="hints"))
    cluster = Cluster(service=service, nodes=NODES, pods=pods_in(EVEN), configuration=configuration)
    metrics = ControllerMetrics()
    metrics.record_sync(cluster.plan())
    assert metrics.totals.hinted == {by: 12}


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
def test_totals_are_the_sums_over_the_remaining_services(
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
    assert accounts.endpoints == sum(count.endpoints for count in counts)
    assert accounts.slices == sum(count.slices for count in counts)
    assert accounts.desired_slices == sum(count.desired_slices for count in counts)
    for by in HintedBy:
        assert accounts.hinted[by] == sum(count.hinted for count in counts if count.hinted_by is by)
    for asked in TrafficDistribution:
        assert accounts.by_traffic_distribution[asked] == sum(
            distribution is asked for _, distribution in left.values()
        )
    assert {name for _, name in accounts} == left.keys()
