"""ControllerMetrics in Prometheus' text format. Needs ``prometheus_client``, which comes with the extra ``controller``.

Names below ``endpoint_slice_controller_`` are upstream's (``k8s.io/endpointslice/metrics``) and the proposals'; those
below ``zoneward_controller_`` are ours. What each means, and what to do about it: ``docs/metrics-and-events.md``.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from zoneward import __version__
from zoneward.controller.controller_metrics import ControllerMetrics, Moment
from zoneward.controller.sync_counts import HintedBy, SyncResult, TrafficDistribution
from zoneward.daemon.metric_text import counter, gauge, histogram, text_of

UPSTREAM: Final = "endpoint_slice_controller_"
OURS: Final = "zoneward_controller_"
_UNSUFFIXED: Final = (f"{UPSTREAM}changes", f"{UPSTREAM}syncs")
"""Counters that upstream calls so, without ``_total``."""


class MetricsPage(Collector):
    """``look`` tells what is only looked at. Also a collector for a registry of prometheus_client."""

    def __init__(self, metrics: ControllerMetrics, look: Callable[[], Moment] = Moment) -> None:
        self._metrics, self._look = metrics, look
        # Memory and CPU of the process, where /proc tells them.
        self._process = ProcessCollector(registry=CollectorRegistry())

    def collect(self) -> Iterator[Metric]:
        yield from _of_syncs(self._metrics)
        yield from _of_accounts(self._metrics)
        yield from _of_the_moment(self._look())
        yield from _of_calls(self._metrics)
        if self._metrics.predictions is not None:
            yield from _of_services(self._metrics)
        yield gauge(f"{OURS}info", "The version that runs; always 1", [({"version": __version__}, 1)])
        yield from self._process.collect()

    async def text(self) -> bytes:
        """The page. Between two metrics others have their turn in the event loop."""
        parts = []
        for metric in self.collect():
            parts.append(text_of(metric, unsuffixed=_UNSUFFIXED))
            await asyncio.sleep(0)
        return b"".join(parts)


# --- upstream's and the proposals' ------------------------------------------------------------------------------------


def _of_syncs(metrics: ControllerMetrics) -> Iterator[Metric]:
    yield counter(
        f"{UPSTREAM}syncs",
        "Number of EndpointSlice syncs",
        [
            ({"result": "success" if result is SyncResult.SUCCESS else "failure", "cause": result.value}, number)
            for result, number in metrics.syncs.items()
        ],
    )
    for suffix in ("", "_total"):
        yield counter(
            f"{UPSTREAM}changes{suffix}",
            "Number of EndpointSlice changes",
            [({"operation": operation.value}, number) for operation, number in metrics.changes.items()],
        )
    yield histogram(
        f"{UPSTREAM}endpointslices_changed_per_sync",
        "Number of EndpointSlices changed on each Service sync",
        [(labels._asdict(), each) for labels, each in metrics.changed_slices.items()],
    )
    for name, observed, what in (
        ("endpoints_added_per_sync", metrics.added, "added"),
        ("endpoints_removed_per_sync", metrics.removed, "removed"),
        ("reallocated_endpoints_per_sync", metrics.reallocated, "being reallocated to other zones"),
    ):
        yield histogram(f"{UPSTREAM}{name}", f"Number of endpoints {what} on each Service sync", [({}, observed)])


def _of_accounts(metrics: ControllerMetrics) -> Iterator[Metric]:
    accounts = metrics.totals
    for name, value, help_ in (
        ("endpoints_desired", accounts.endpoints, "Number of endpoints desired"),
        ("total_endpoints", accounts.endpoints, "Number of endpoints in all EndpointSlices that are kept"),
        ("num_endpoint_slices", accounts.slices, "Number of EndpointSlices"),
        (
            "desired_endpoint_slices",
            accounts.desired_slices,
            "Number of EndpointSlices that would exist with perfect endpoint allocation",
        ),
    ):
        yield gauge(f"{UPSTREAM}{name}", help_, [({}, value)])
    yield gauge(
        f"{UPSTREAM}endpoints_with_hints",
        "Number of endpoints that have hints assigned",
        [({"result": by.value}, accounts.hinted[by]) for by in HintedBy],
    )
    yield gauge(
        f"{UPSTREAM}services_count_by_traffic_distribution",
        "Number of Services using some specific trafficDistribution",
        [
            ({"traffic_distribution": each.value}, accounts.by_traffic_distribution[each])
            for each in TrafficDistribution
        ],
    )


# --- ours -------------------------------------------------------------------------------------------------------------


def _of_the_moment(moment: Moment) -> Iterator[Metric]:
    depth = moment.depth
    states = {
        "due": depth.due,
        "gathering": depth.gathering,
        "failing": depth.failing,
        "stale": depth.stale,
        "working": depth.working,
    }
    yield gauge(
        f"{OURS}queue_services",
        "Services that have to be synced, by what they wait for",
        [({"state": state}, number) for state, number in states.items()],
    )
    for name, value, help_ in (
        ("queue_oldest_seconds", moment.oldest, "Seconds since the oldest change that is not written yet"),
        ("leader", moment.leads, "1 where this replica holds the Lease and writes"),
        ("cache_synced", moment.is_synced, "1 once all kinds have been listed"),
        ("watch_trouble_seconds", moment.watch_trouble, "For how long some kind has not been heard of; 0: all are"),
        ("contested_services", moment.contested, "Services that the built-in controller writes beside this one"),
    ):
        yield gauge(f"{OURS}{name}", help_, [({}, float(value))])
    yield gauge(
        f"{OURS}unreadable_objects",
        "Objects that cannot be read and are set aside",
        [({"kind": kind}, number) for kind, number in moment.unreadable.items()],
    )


def _of_calls(metrics: ControllerMetrics) -> Iterator[Metric]:
    yield histogram(
        f"{OURS}change_to_write_seconds",
        "Seconds from a Service's first change in the cache until all that it led to is written",
        [({}, metrics.latency)],
    )
    yield counter(
        f"{OURS}retries_total", "Syncs that failed and were put back to be tried again", [({}, metrics.retries)]
    )
    yield counter(
        f"{OURS}api_errors_total",
        "Calls to the API server that failed, by what is known of their outcome",
        [
            ({"kind": outcome.value, "resource": resource}, number)
            for (resource, outcome), number in metrics.api_errors.items()
        ],
    )
    yield counter(
        f"{OURS}watch_troubles_total",
        "Lists and watches that broke off",
        [({"resource": resource}, number) for resource, number in metrics.watch_troubles.items()],
    )


def _of_services(metrics: ControllerMetrics) -> Iterator[Metric]:
    predictions = metrics.predictions
    assert predictions is not None
    yield gauge(
        f"{OURS}service_series_left_out",
        "Services without series of their own, beyond the limit",
        [({}, predictions.left_out)],
    )
    made = [
        ({"namespace": service[0], "service": service[1], "address_type": family}, each)
        for service, family, each in predictions
    ]
    yield gauge(
        f"{OURS}service_in_zone_traffic",
        "Predicted share of all requests that never leave their zone",
        [(labels, each.in_zone) for labels, each in made],
    )
    yield gauge(
        f"{OURS}service_max_overload",
        "Predicted overload of the busiest endpoint; 0.5 is 50 % above fair",
        [(labels, each.max_overload) for labels, each in made],
    )
