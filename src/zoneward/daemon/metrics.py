"""Metrics on `prometheus_client` instruments, and the page that shows them in Prometheus' text format.

Each program declares its metrics in one table, on a separate registry: `Counter` and `Histogram` of the library for
what is counted when it happens, and `GaugeFunc` and `CounterFunc`, named as in the Go client, for what is read when the
page is asked for. A new metric is one more entry of that table.

On hot paths call a child that was bound once: `Counter.labels` costs four times as much as `Counter.inc`. All that the
controller counts of a sync takes 12 µs (8 µs with plain numbers in place of the library), of some 700 µs for the sync.
"""

import asyncio
import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from zoneward.client.api_errors import CallFailed, Gone
from zoneward.client.informers import WatchHealth
from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.client.resources import AnyWatchedResource

PER_SYNC: Final = tuple(float(2**power) for power in range(1, 16))
"""Upstream's bounds for what is counted in each sync: 2 to 32,768."""
SLICES_PER_SYNC: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0)
"""Upstream's bounds for changed slices are Prometheus' defaults, made for seconds; with three more at the end."""
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
SHORT_SECONDS: Final = (0.0001, 0.00025, 0.0005, *SECONDS)
"""A transaction of one element takes the kernel a tenth of a millisecond."""

LabeledValues = Mapping[str, float] | Iterable[tuple[Sequence[str], float]]
"""Values by that of the label; of several labels, in the order in which the metric declares them."""


class _Func(Collector):
    """``read`` is called for each page. It returns the value, or where there are labels one for each series."""

    kind = "gauge"

    def __init__(
        self,
        name: str,
        documentation: str,
        read: Callable[[], float | LabeledValues],
        labelnames: Sequence[str] = (),
        *,
        registry: CollectorRegistry,
    ) -> None:
        self._name, self._documentation, self._labelnames, self._read = name, documentation, labelnames, read
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        metric = Metric(self._name.removesuffix("_total"), self._documentation, self.kind)
        values = self._read()
        if isinstance(values, int | float):
            values = [((), values)]
        elif isinstance(values, Mapping):
            values = [((label,), value) for label, value in values.items()]
        for labels, value in values:
            metric.add_sample(self._name, dict(zip(self._labelnames, labels, strict=True)), float(value))
        yield metric


class GaugeFunc(_Func):
    """A gauge whose values are read when the page is asked for."""


class CounterFunc(_Func):
    """A counter whose values are kept elsewhere. Its name ends in ``_total``."""

    kind = "counter"


class UnsuffixedCounter(Collector):
    """Shows a counter without ``_total``, which the library adds to all names: some of upstream's do not have it."""

    def __init__(self, counter: Counter, *, registry: CollectorRegistry) -> None:
        self._counter = counter
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        for metric in self._counter.collect():
            samples = metric.samples
            metric.samples = [
                sample._replace(name=metric.name) for sample in samples if sample.name == f"{metric.name}_total"
            ]
            yield metric


class MetricAlias(Collector):
    """Shows a metric under another name, too."""

    def __init__(self, metric: Collector, name: str, *, registry: CollectorRegistry) -> None:
        self._metric, self._name = metric, name
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        for metric in self._metric.collect():
            alias = Metric(self._name, metric.documentation, metric.type)
            alias.samples = [
                sample._replace(name=self._name + sample.name.removeprefix(metric.name)) for sample in metric.samples
            ]
            yield alias


class WatchMetrics:
    """What each program shows of its lists and watches, below its own ``prefix``."""

    def __init__(self, prefix: str, *, registry: CollectorRegistry) -> None:
        self._prefix, self._registry = prefix, registry
        self.errors: Final = Counter(
            f"{prefix}watch_troubles_total", "Lists and watches that broke off", ["resource"], registry=registry
        )

    def declare_state(
        self,
        health: WatchHealth,
        *,
        is_synced: Callable[[], bool],
        resources: Iterable[AnyWatchedResource],
        unreadable: Callable[[], Iterable[UnreadableObject]],
    ) -> None:
        """What is read from the running program."""
        gauge, kinds = partial(GaugeFunc, registry=self._registry), tuple(resource.kind for resource in resources)
        gauge(f"{self._prefix}cache_synced", "1 once all kinds have been listed", is_synced)
        gauge(
            f"{self._prefix}watch_trouble_seconds",
            "Seconds since the watch of some kind was last in sync; 0: all are",
            lambda: health.trouble_seconds,
        )
        gauge(
            f"{self._prefix}unreadable_objects",
            "Objects that cannot be read and are set aside",
            lambda: dict.fromkeys(kinds, 0) | collections.Counter(object_.resource.kind for object_ in unreadable()),
            ["kind"],
        )

    def record_error(self, error: CallFailed, *, kind: str) -> None:
        """A list or watch broke off. ``kind`` is the plural. That the server no longer has a version is normal."""
        if not isinstance(error, Gone):
            self.errors.labels(kind).inc()


class MetricsPage:
    """``/metrics``: what is in the registry, and memory and CPU of the process, where /proc has them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._process = ProcessCollector(registry=CollectorRegistry())

    async def text(self) -> bytes:
        """Other tasks get their turn between two metrics."""
        parts = []
        for collector in (self._registry, self._process):
            for metric in collector.collect():
                parts.append(_text(metric))
                await asyncio.sleep(0)
        return b"".join(parts)


class _Single(Collector):
    """What the library takes for a registry, with one metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return (self._metric,)


def _text(metric: Metric) -> bytes:
    # Nobody asks when a series was made, and it would be one more of each.
    metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
    text = generate_latest(_Single(metric))
    if metric.type == "counter" and metric.samples and metric.samples[0].name == metric.name:
        # The library adds the suffix in these two lines with any name of the samples.
        for word in ("HELP", "TYPE"):
            text = text.replace(f"# {word} {metric.name}_total ".encode(), f"# {word} {metric.name} ".encode(), 1)
    return text


# --- values -----------------------------------------------------------------------------------------------------------


def counter_total(counter: Counter, **labels: str) -> int:
    """The sum of a counter over all series with these labels."""
    return int(_sum(counter, "_total", labels))


def histogram_totals(histogram: Histogram, **labels: str) -> tuple[int, float]:
    """How many values a histogram has in the series with these labels, and their sum."""
    return int(_sum(histogram, "_count", labels)), _sum(histogram, "_sum", labels)


def _sum(instrument: Counter | Histogram, suffix: str, labels: dict[str, str]) -> float:
    return sum(
        sample.value
        for metric in instrument.collect()
        for sample in metric.samples
        if sample.name == metric.name + suffix and labels.items() <= sample.labels.items()
    )
