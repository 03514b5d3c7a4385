"""The page of metrics is what Prometheus reads, under upstream's names and ours, and the docs have all of it."""

import asyncio
import re
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.clusters import Cluster, a_service, nodes_in, pods_in
from zoneward.daemon.metrics import MetricsPage

from zoneward.client.api_errors import Conflict, Unreachable
from zoneward.controller.controller_metrics import OURS, UPSTREAM, ControllerMetrics, Moment
from zoneward.controller.predictions import Prediction, Predictions
from zoneward.controller.queue.work_queue import QueueDepth
from zoneward.controller.sync_counts import Operation, SyncResult

DOCS = Path(__file__).parents[2] / "docs" / "metrics-and-events.md"
ALERTS = Path(__file__).parents[2] / "deploy" / "alerts.yaml"
MOMENT = Moment(
    depth=QueueDepth(due=1, gathering=2, working=3),
    oldest=1.5,
    leads=True,
    watch_trouble=0.25,
    contested=4,
    unreadable={"Service": 2, "Pod": 0},
)


def busy() -> ControllerMetrics:
    """ControllerMetrics in which everything has happened once."""
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


def page(metrics: ControllerMetrics, moment: Moment = MOMENT) -> str:
    return asyncio.run(MetricsPage(metrics, lambda: moment).text()).decode()


def samples(text: str) -> dict[str, float]:
    """Each line by its name and labels, as written."""
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def families(text: str) -> set[str]:
    return set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))


def test_prometheus_reads_every_line_and_each_series_once() -> None:
    text = page(busy())
    parsed = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert len(parsed) == len(samples(text)) == sum(not line.startswith("#") for line in text.splitlines())
    for line in re.findall(r"^# HELP .*", text, re.MULTILINE):
        assert text.count(line.split()[2] + " ") >= 1


def test_every_line_belongs_to_the_metric_whose_type_was_told_last() -> None:
    told = ""
    for line in page(busy()).splitlines():
        if line.startswith("# TYPE "):
            told = line.split()[2]
        elif not line.startswith("#"):
            name = line.split("{")[0].split(" ")[0]
            assert name in (told, f"{told}_bucket", f"{told}_count", f"{told}_sum")


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
    assert samples(page(ControllerMetrics(), Moment()))[f"{OURS}leader"] == 0


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
    assert not any('service="cart"' in name for name in samples(page(metrics)))


def test_others_have_their_turn_while_a_page_is_made() -> None:
    async def test() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        running = asyncio.create_task(other())
        await MetricsPage(busy()).text()
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
