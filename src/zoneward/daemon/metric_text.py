"""Metrics in Prometheus' text format, made at the moment in which they are asked for. Needs ``prometheus_client``."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from zoneward.daemon.histogram import Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
Value = tuple[Mapping[str, str], float]


class _One(Collector):
    """A registry of one metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return (self._metric,)


def text_of(metric: Metric, *, unsuffixed: Collection[str] = ()) -> bytes:
    """Its lines. ``unsuffixed``: counters that keep their names, where the library gives all a suffix."""
    text = generate_latest(_One(metric))
    if metric.name in unsuffixed and metric.samples[0].name == metric.name:
        # In these two lines.
        for word in ("HELP", "TYPE"):
            text = text.replace(f"# {word} {metric.name}_total ".encode(), f"# {word} {metric.name} ".encode(), 1)
    return text


def gauge(name: str, documentation: str, values: Iterable[Value]) -> Metric:
    metric = Metric(name, documentation, "gauge")
    for labels, value in values:
        metric.add_sample(name, dict(labels), value)
    return metric


def counter(name: str, documentation: str, values: Iterable[Value]) -> Metric:
    metric = Metric(name.removesuffix("_total"), documentation, "counter")
    for labels, value in values:
        metric.add_sample(name, dict(labels), value)
    return metric


def histogram(name: str, documentation: str, values: Iterable[tuple[Mapping[str, str], Histogram]]) -> Metric:
    metric = Metric(name, documentation, "histogram")
    for labels, histogram in values:
        for bound, number in histogram.buckets():
            told = "+Inf" if bound == float("inf") else str(bound)
            metric.add_sample(f"{name}_bucket", {**labels, "le": told}, number)
        metric.add_sample(f"{name}_count", dict(labels), histogram.count)
        metric.add_sample(f"{name}_sum", dict(labels), histogram.total)
    return metric
