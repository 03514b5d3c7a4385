"""Prometheus can parse the metrics of a proxy, and the documentation matches them."""

import asyncio
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from tests.deploy.queries import documented_metrics
from tests.proxy.drawn_services import node_service, one_port

from zoneward.client.api_errors import Gone, Unreachable
from zoneward.client.resources import NODES, SERVICES
from zoneward.daemon.metrics import MetricsPage
from zoneward.meter.traffic_totals import EXTERNAL, TrafficRoute, TrafficTotal
from zoneward.proxy.model.node_service import Backend
from zoneward.proxy.proxy_metrics import PREFIX, UPSTREAM, ProxyMetrics
from zoneward.routing.selection.endpoint_selection import SelectionRule
from zoneward.routing.selection.entry_budget import EntryBudget

SERVED = node_service(
    one_port(
        Backend("10.1.0.1", 8080), Backend("10.1.0.2", 8080), name="http", selection_rule=SelectionRule.ZONE_HINTS
    ),
    name="cart",
)


def declare_state(metrics: ProxyMetrics) -> None:
    """Declare what is read of a running program."""
    synced = asyncio.Event()
    synced.set()
    services = {"ip": {("shop", "cart"): SERVED}, "ip6": {}}
    proxier: Any = SimpleNamespace(
        node_services=lambda family: services[family],
        too_large={},
        budget=EntryBudget(most=10, most_of_namespace=5),
        conflicts={"ip": {("shop", "a"), ("shop", "b")}, "ip6": set()},
        tables={
            "ip": SimpleNamespace(element_count=7, refused_services=set()),
            "ip6": SimpleNamespace(element_count=0, refused_services=set()),
        },
        waiting_seconds=lambda: 1.5,
    )
    cache: Any = SimpleNamespace(
        slice_counts=(3, 4),
        left_out_values={1, 2, 3},
        synced=synced,
        unreadable=(SimpleNamespace(resource=SERVICES), SimpleNamespace(resource=SERVICES)),
        resources=(SERVICES, NODES),
        node=SimpleNamespace(name="n1", zone="a"),
    )
    totals: Any = SimpleNamespace(
        totals=lambda: (
            (TrafficRoute(("shop", "cart"), "ip", "a", "a"), TrafficTotal(5, 100, 200, has_bytes=True)),
            (TrafficRoute(("shop", "cart"), "ip", EXTERNAL, ""), TrafficTotal(2)),
        )
    )
    health: Any = SimpleNamespace(trouble_seconds=0.5)
    metrics.declare_state(proxier, cache, watch_health=health, totals=totals)


def busy() -> ProxyMetrics:
    """Metrics in which everything has happened once."""
    metrics = ProxyMetrics()
    metrics.sync_duration.observe(0.002)
    metrics.transaction_duration.observe(0.0001)
    metrics.programming_duration.observe(0.1)
    for by_family in (metrics.transactions, metrics.changed_elements, metrics.refusals):
        by_family["ip"].inc()
    metrics.repairs.labels("rules").inc()
    metrics.watches.record_error(Unreachable("x"), kind="services")
    metrics.watches.record_error(Gone(410, "Expired", "x"), kind="nodes")
    return metrics


def page(metrics: ProxyMetrics) -> str:
    """The page of ``metrics``. To be called once for each, as a program runs once."""
    declare_state(metrics)
    return asyncio.run(MetricsPage(metrics.registry).text()).decode()


def samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


def shown() -> dict[str, set[str]]:
    """Each metric of the page, with its labels."""
    labels_by_name: dict[str, set[str]] = {}
    for name, labels, _ in samples(page(busy())):
        bare = re.sub(r"_(bucket|count|sum|created)$", "", name)
        labels_by_name.setdefault(bare, set()).update(labels.keys() - {"le"})
    return {name: labels for name, labels in labels_by_name.items() if name.startswith((UPSTREAM, PREFIX))}


def test_a_service_has_its_endpoints_with_the_rule_that_chose_them_and_its_connections_by_zones_and_address() -> None:
    all_samples = list(samples(page(busy())))
    ((labels, value),) = (
        (labels, value) for name, labels, value in all_samples if name == f"{PREFIX}service_endpoints"
    )
    assert [labels[name] for name in ("namespace", "service", "port", "rule")] == ["shop", "cart", "http", "zone-hints"]
    assert value == 2
    sizes = {labels["direction"]: value for name, labels, value in all_samples if "_bytes_" in name}
    assert sizes == {"request": 100, "response": 200}
    connections = [(labels, value) for name, labels, value in all_samples if "_connections_" in name]
    assert [
        (connection["from_zone"], connection["to_zone"], connection["asked"], value)
        for connection, value in connections
    ] == [
        ("a", "a", "cluster-ip", 5),
        ("a", "", "external", 2),
    ]


def test_repair_counters_begin_at_zero() -> None:
    """A series that begins above 0 has no rate, and no alert."""
    repairs = {
        labels["what"]: value
        for name, labels, value in samples(page(ProxyMetrics()))
        if name == f"{PREFIX}repairs_total"
    }
    assert repairs == dict.fromkeys(("table", "chains", "sets", "elements", "rules"), 0)


def test_the_documentation_has_every_metric_with_its_labels_and_no_other() -> None:
    documented = documented_metrics().items()
    assert {name: labels for name, labels in documented if name.startswith((UPSTREAM, PREFIX))} == shown()
