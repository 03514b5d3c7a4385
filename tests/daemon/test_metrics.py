"""What instruments hold is what the page shows, under the names that were declared."""

import asyncio

from prometheus_client import CollectorRegistry, Counter, Histogram

from zoneward.daemon.metrics import (
    CounterFunc,
    GaugeFunc,
    MetricsPage,
    UnsuffixedCounter,
    counter_total,
    histogram_totals,
)


def page(registry: CollectorRegistry) -> list[str]:
    text = asyncio.run(MetricsPage(registry).text()).decode()
    return [line for line in text.splitlines() if "process_" not in line]


def test_what_is_read_is_read_for_each_page() -> None:
    registry, queued = CollectorRegistry(), {"due": 1}
    GaugeFunc("depth", "How many", lambda: sum(queued.values()), registry=registry)
    GaugeFunc("queued", "By state", lambda: queued, ["state"], registry=registry)
    CounterFunc("sent_total", "By zones", lambda: [(("a", "b"), 3)], ["source", "target"], registry=registry)
    queued["failing"] = 2
    assert [line for line in page(registry) if not line.startswith("#")] == [
        "depth 3.0",
        'queued{state="due"} 1.0',
        'queued{state="failing"} 2.0',
        'sent_total{source="a",target="b"} 3.0',
    ]


def test_a_counter_can_be_shown_with_the_suffix_and_without_and_the_time_of_its_birth_is_not() -> None:
    registry = CollectorRegistry()
    changes = Counter("changes", "Writes", ["operation"], registry=registry)
    UnsuffixedCounter(changes, registry=registry)
    changes.labels("create").inc(2)
    assert page(registry) == [
        "# HELP changes_total Writes",
        "# TYPE changes_total counter",
        'changes_total{operation="create"} 2.0',
        "# HELP changes Writes",
        "# TYPE changes counter",
        'changes{operation="create"} 2.0',
    ]


def test_a_total_is_that_of_the_series_with_the_labels_asked_for() -> None:
    errors = Counter("errors", "Calls", ["kind", "resource"], registry=CollectorRegistry())
    for kind, resource in (("stale", "pods"), ("stale", "services"), ("refused", "pods")):
        errors.labels(kind, resource).inc()
    assert (counter_total(errors), counter_total(errors, kind="stale"), counter_total(errors, kind="x")) == (3, 2, 0)
    assert counter_total(errors.labels("stale", "pods")) == 1
    seconds = Histogram("seconds", "How long", buckets=(0.5, 2.0), registry=CollectorRegistry())
    seconds.observe(0.5)
    seconds.observe(3.0)
    assert histogram_totals(seconds) == (2, 3.5)
