"""What is counted of a sync is what the plan says, and Prometheus reads it under upstream's names and ours.

The documentation and the alerts have all of it.
"""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.clusters import Cluster
from tests.properties.random_clusters import clusters, examples

from zoneward.client.api_errors import Conflict, Forbidden, Gone, ServerFault, Unreachable
from zoneward.client.resources import SERVICES
from zoneward.client.writer import WriteOutcome
from zoneward.controller.controller_metrics import OURS, UPSTREAM, ControllerMetrics
from zoneward.controller.predictions import Prediction, Predictions
from zoneward.controller.queue.work_queue import QueueDepth
from zoneward.controller.sync_counts import Operation, SyncResult, TrafficDistribution
from zoneward.daemon.metrics import MetricsPage, counter_total, histogram_totals
from zoneward.slices.plan import ServicePlan

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
    metrics, plan = ControllerMetrics(max_endpoints=cluster.configuration.max_endpoints_per_slice), cluster.plan()
    metrics.record_sync(plan)
    found = list(hinted(plan))
    assert metrics.totals.endpoints == len(found)
    assert sum(metrics.totals.hinted.values()) == sum(found)
    assert metrics.totals.slices == sum(len(family.changes.after) for family in plan.families)
    added, removed, moved = (histogram_totals(each) for each in (metrics.added, metrics.removed, metrics.reallocated))
    assert added[0] == len(plan.families)
    assert added[1] == sum(family.changes.added for family in plan.families)
    assert removed[1] == sum(family.changes.removed for family in plan.families)
    assert moved[1] == sum(family.decision.moved for family in plan.families)


def test_a_second_sync_takes_the_place_of_the_first_and_a_service_that_goes_leaves_nothing() -> None:
    cluster = Cluster(service=a_service(distribution="PreferClose"), nodes=NODES, pods=pods_in(EVEN))
    metrics = ControllerMetrics()
    metrics.record_sync(cluster.plan())
    metrics.record_sync(cluster.with_(pods=pods_in({"a": 1, "b": 1, "c": 1})).plan())
    assert metrics.totals.endpoints == 3
    assert metrics.totals.by_traffic_distribution == {TrafficDistribution.PREFER_CLOSE: 1}
    metrics.forget_service(KEY)
    metrics.forget_service(KEY)
    assert (metrics.totals.endpoints, metrics.totals.slices, metrics.totals.desired_slices) == (0, 0, 0)
    assert sum(metrics.totals.by_traffic_distribution.values()) == 0
    assert counter_total(metrics.syncs, result="success") == 2


def test_who_no_longer_leads_counts_no_services_and_forgets_no_syncs() -> None:
    metrics = ControllerMetrics(predictions=Predictions())
    metrics.record_sync(Cluster(service=a_service("Auto"), nodes=NODES, pods=pods_in(EVEN)).plan())
    metrics.forget_all_services()
    assert (metrics.totals.endpoints, metrics.totals.slices, sum(metrics.totals.hinted.values())) == (0, 0, 0)
    assert metrics.predictions is not None
    assert not metrics.predictions.due
    assert (counter_total(metrics.syncs, result="success"), histogram_totals(metrics.added)) == (1, (1, 12))


def test_calls_that_fail_are_counted_by_what_is_known_of_them() -> None:
    metrics = ControllerMetrics()
    for error in (
        Conflict(409, "Conflict", "x"),
        Conflict(409, "AlreadyExists", "x"),
        Forbidden(403, "Forbidden", "x"),
        ServerFault(500, "", "x"),
        Unreachable("x", sent=False),
    ):
        metrics.record_api_error(error, kind="endpointslices")
    metrics.record_api_error(Unreachable("x"), kind="services")
    for outcome in (
        WriteOutcome.STALE,
        WriteOutcome.EXISTS,
        WriteOutcome.REFUSED,
        WriteOutcome.UNKNOWN,
        WriteOutcome.NOT_DONE,
    ):
        assert counter_total(metrics.api_errors, resource="endpointslices", kind=outcome.value) == 1
    assert counter_total(metrics.api_errors, resource="services", kind=WriteOutcome.UNKNOWN.value) == 1


def test_a_watch_that_is_too_old_is_no_trouble() -> None:
    metrics = ControllerMetrics()
    metrics.record_watch_error(Gone(410, "Expired", "x"), kind="pods")
    metrics.record_watch_error(Unreachable("x"), kind="pods")
    assert counter_total(metrics.watch_errors) == counter_total(metrics.watch_errors, resource="pods") == 1


def test_writes_and_waits_are_counted_one_by_one() -> None:
    metrics = ControllerMetrics()
    metrics.record_write(Operation.UPDATE)
    metrics.record_latency(0.02)
    assert [counter_total(metrics.writes, operation=each.value) for each in Operation] == [0, 1, 0]
    assert histogram_totals(metrics.latency) == (1, 0.02)


def test_a_synced_service_is_predicted_anew_where_predictions_are_switched_on() -> None:
    metrics = ControllerMetrics(predictions=Predictions(limit=1))
    plan = Cluster(service=a_service(), nodes=NODES, pods=pods_in(EVEN)).plan()
    metrics.record_sync(plan)
    assert metrics.predictions is not None
    assert list(metrics.predictions.due) == [KEY]
    metrics.forget_service(KEY)
    assert list(metrics.predictions.due) == []


# --- the page ---------------------------------------------------------------------------------------------------------

DOCS = Path(__file__).parents[2] / "docs" / "metrics-and-events.md"
ALERTS = Path(__file__).parents[2] / "deploy" / "alerts.yaml"


def a_program(**queue: int) -> Any:
    """What the gauges read of a running program."""
    synced = asyncio.Event()
    controller = SimpleNamespace(
        queue=SimpleNamespace(depth=lambda: QueueDepth(**queue), longest_wait=lambda: 1.5),
        cache=SimpleNamespace(synced=synced),
        contested={("shop", f"s{number}") for number in range(4)},
        unreadable=(SimpleNamespace(resource=SERVICES), SimpleNamespace(resource=SERVICES)),
    )
    return SimpleNamespace(controller=controller, is_leader=True, watch_health=SimpleNamespace(trouble_seconds=0.25))


def busy() -> ControllerMetrics:
    """Metrics in which everything has happened once."""
    metrics = ControllerMetrics(predictions=Predictions())
    nodes, pods = nodes_in({"a": 4, "b": 4, "c": 4}), pods_in({"a": 4, "b": 4, "c": 4})
    metrics.record_sync(Cluster(service=a_service("Auto"), nodes=nodes, pods=pods).plan())
    metrics.record_sync(Cluster(service=a_service(distribution="PreferClose"), nodes=nodes, pods=pods).plan())
    metrics.record_failed_sync(SyncResult.STALE)
    metrics.record_failed_sync()
    metrics.record_retry()
    metrics.record_write(Operation.CREATE)
    metrics.record_latency(0.02)
    metrics.record_api_error(Conflict(409, "Conflict", "x"), kind="endpointslices")
    metrics.record_watch_error(Unreachable("x"), kind="pods")
    return metrics


def page(metrics: ControllerMetrics) -> str:
    """Once for each: a program runs once."""
    metrics.declare_state(a_program(due=1, gathering=2, working=3))
    return asyncio.run(MetricsPage(metrics.registry).text()).decode()


def samples(text: str) -> dict[str, float]:
    """Each line by its name and labels, as written."""
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def families(text: str) -> set[str]:
    return set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))


def test_syncs_have_the_proposals_results_and_upstreams_causes() -> None:
    found = samples(page(busy()))
    assert found[f'{UPSTREAM}syncs{{cause="",result="success"}}'] == 2
    assert found[f'{UPSTREAM}syncs{{cause="stale",result="failure"}}'] == 1
    assert found[f'{UPSTREAM}syncs{{cause="error",result="failure"}}'] == 1


def test_changed_slices_have_the_labels_of_both_proposals_and_of_upstream() -> None:
    found = samples(page(busy()))
    name = f"{UPSTREAM}endpointslices_changed_per_sync_count"
    labels = 'approach="auto",feature="TopologyAwareHints",topology="Auto",traffic_distribution=""'
    assert found[f"{name}{{{labels}}}"] == 1
    labels = (
        'approach="auto",feature="ServiceTrafficDistribution",topology="Disabled",traffic_distribution="PreferClose"'
    )
    assert found[f"{name}{{{labels}}}"] == 1


def test_what_is_looked_at_is_looked_at_for_each_page() -> None:
    found = samples(page(ControllerMetrics()))
    assert found[f'{OURS}queue_services{{state="gathering"}}'] == 2
    assert (found[f"{OURS}leader"], found[f"{OURS}cache_synced"]) == (1, 0)
    assert (found[f"{OURS}queue_oldest_seconds"], found[f"{OURS}watch_trouble_seconds"]) == (1.5, 0.25)
    assert found[f"{OURS}contested_services"] == 4
    assert found[f'{OURS}unreadable_objects{{kind="Service"}}'] == 2
    assert found[f'{OURS}unreadable_objects{{kind="Pod"}}'] == 0


def test_series_of_services_come_with_the_switch_and_go_with_the_services() -> None:
    assert not any("service_max_overload" in name for name in families(page(ControllerMetrics())))
    metrics = busy()
    predictions = metrics.predictions
    assert predictions is not None

    async def predicted() -> None:
        running = asyncio.create_task(
            predictions.run(lambda _: lambda: {"IPv4": Prediction(0.75, 0.5)}, pause=0),
        )
        while predictions.due or not list(predictions):
            await asyncio.sleep(0.001)
        running.cancel()

    asyncio.run(predicted())
    labels = '{address_type="IPv4",namespace="shop",service="cart"}'
    found = samples(page(metrics))
    assert (found[f"{OURS}service_in_zone_traffic{labels}"], found[f"{OURS}service_max_overload{labels}"]) == (
        0.75,
        0.5,
    )
    metrics.forget_service(("shop", "cart"))
    assert 'service="cart"' not in asyncio.run(MetricsPage(metrics.registry).text()).decode()


def test_others_have_their_turn_while_a_page_is_made() -> None:
    async def test() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        running = asyncio.create_task(other())
        await MetricsPage(busy().registry).text()
        running.cancel()
        return turns

    assert asyncio.run(test()) > 10


# --- the documentation ------------------------------------------------------------------------------------------------


def documented() -> dict[str, set[str]]:
    """Each metric in the tables of the page, with its labels."""
    rows = re.findall(r"^\| `(\w+)`[^|]*\|([^|]*)\|", DOCS.read_text(), re.MULTILINE)
    names = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    return {name: labels for name, labels in names.items() if name.startswith((UPSTREAM, OURS))}


def shown() -> dict[str, set[str]]:
    metrics = busy()
    assert metrics.predictions is not None
    metrics.predictions._made[("shop", "cart")] = {"IPv4": Prediction(1, 0)}
    found: dict[str, set[str]] = {}
    for name in samples(page(metrics)):
        bare, _, labels = name.partition("{")
        bare = re.sub(r"_(bucket|count|sum)$", "", bare)
        found.setdefault(bare, set()).update(set(re.findall(r'(\w+)="', labels)) - {"le"})
    return {name: labels for name, labels in found.items() if name.startswith((UPSTREAM, OURS))}


def test_the_documentation_has_every_metric_with_its_labels_and_no_other() -> None:
    assert documented() == shown()


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load(ALERTS.read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def test_alert_rules_ask_for_metrics_and_labels_that_there_are() -> None:
    known = {name: {*labels, "le", "job"} for name, labels in shown().items()}
    used = set()
    for rule in rules():
        for name, labels in re.findall(rf"\b((?:{UPSTREAM}|{OURS})\w+)(?:\{{([^}}]*)\}})?", rule["expr"]):
            bare = re.sub(r"_(bucket|count|sum)$", "", name)
            assert set(re.findall(r"(\w+)[=!~]+\"", labels)) <= known[bare], rule["alert"]
            used.add(bare)
        assert {"summary", "description"} <= rule["annotations"].keys(), rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule["alert"]
    assert f"{UPSTREAM}syncs" in used
    assert f"{OURS}leader" in used


def test_alert_rules_judge_the_controller_of_each_cluster_by_itself() -> None:
    """One Prometheus may scrape several clusters: two leaders in two clusters are as they should be."""
    seen = 0
    for rule in rules():
        for what, labels in re.findall(r"\b(sum|max|on|ignoring)\b(?: by)? ?\(([^()]*)", rule["expr"]):
            seen += 1
            assert {"job", "namespace", "cluster"} <= set(re.findall(r"\w+", labels)), (rule["alert"], what)
    assert seen >= 10


def test_each_alert_has_a_row_that_says_what_to_do() -> None:
    alerts = [rule["alert"] for rule in rules()]
    assert len(set(alerts)) == len(alerts)
    rows = re.findall(r"^\| `(Zoneward\w+)` \|", DOCS.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(alerts)
