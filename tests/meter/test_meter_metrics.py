"""The documentation lists every metric of the meter."""

import asyncio
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.deploy.queries import documented_metrics

from zoneward.daemon.metrics import MetricsPage
from zoneward.meter import conntrack_reader
from zoneward.meter.conntrack_reader import tracked_connections
from zoneward.meter.flow_meter import FlowTable
from zoneward.meter.meter_cache import MeterCache
from zoneward.meter.meter_metrics import PREFIX, MeterMetrics
from zoneward.meter.traffic_totals import TrafficRoute, TrafficTotals


def shown() -> dict[str, set[str]]:
    """Each metric of the page with its labels, after traffic and a failed watch."""
    totals = TrafficTotals(since=datetime.now(UTC))
    totals.total(TrafficRoute(("shop", "cart"), "ip", "a", "b")).has_bytes = True
    meter: Any = SimpleNamespace(totals=totals, flows=FlowTable(lambda _: None), lost=0, dump_seconds=0.0)
    health: Any = SimpleNamespace(trouble_seconds=0)
    metrics = MeterMetrics()
    metrics.declare_state(meter, MeterCache("n1"), health)
    metrics.watches.errors.labels("services").inc()
    labels_by_name: dict[str, set[str]] = {}
    text = asyncio.run(MetricsPage(metrics.registry).text()).decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels_by_name.setdefault(sample.name.removesuffix("_created"), set()).update(sample.labels)
    return {name: labels for name, labels in labels_by_name.items() if name.startswith(PREFIX)}


def test_the_documentation_has_every_metric_with_its_labels_and_no_other() -> None:
    documented = documented_metrics().items()
    assert {name: labels for name, labels in documented if name.startswith(PREFIX)} == shown()


def test_a_limit_of_0_is_no_limit_of_the_table_of_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reads it so; divided by 0, any number of entries would be an alert."""
    monkeypatch.setattr(conntrack_reader, "_SETTINGS", tmp_path)
    for name, value in (("count", 700), ("max", 1000)):
        (tmp_path / f"nf_conntrack_{name}").write_text(f"{value}\n")
    assert tracked_connections() == (700, 1000)
    (tmp_path / "nf_conntrack_max").write_text("0\n")
    assert tracked_connections() == (700, inf)
