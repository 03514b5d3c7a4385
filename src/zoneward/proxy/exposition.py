"""A proxy's metrics in Prometheus' text format. Needs ``prometheus_client``, which comes with the extra ``controller``.

Names below ``kubeproxy_`` are upstream's, for what means the same there; those below ``zoneward_proxy_`` are ours. What
each means, and what to do about it: ``docs/metrics-and-events.md``.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics_core import Metric

from zoneward import __version__
from zoneward.daemon.metric_text import Value, counter, gauge, histogram, text_of
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.measure.measured import Total
from zoneward.proxy.model.served import ADDRESS_TYPES, Served
from zoneward.proxy.proxy_metrics import ProxyMetrics

UPSTREAM: Final = "kubeproxy_"
OURS: Final = "zoneward_proxy_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What is looked at when metrics are asked for. ``elements``, ``services``, ``refused`` and ``lost`` (Services that
    do not get what others have) by family; ``left_out`` are Services with values that cannot be served. ``slices`` are
    decoded, ``sealed_slices`` are not. ``watch_trouble``: seconds for which some kind has not been heard of.
    """

    elements: Mapping[Family, int] = field(default_factory=dict)
    services: Mapping[Family, int] = field(default_factory=dict)
    refused: Mapping[Family, int] = field(default_factory=dict)
    lost: Mapping[Family, int] = field(default_factory=dict)
    left_out: int = 0
    served: Iterable[Served] = ()
    slices: int = 0
    sealed_slices: int = 0
    is_synced: bool = False
    watch_trouble: float = 0.0
    waiting: float = 0.0
    unreadable: Mapping[str, int] = field(default_factory=dict)
    """Objects that cannot be read, by kind."""
    zone: str | None = None
    connections: Iterable[Total] = ()


class MetricsPage:
    """``look`` tells what is only looked at."""

    def __init__(self, metrics: ProxyMetrics, look: Callable[[], Moment] = Moment) -> None:
        self._metrics, self._look = metrics, look
        self._process = ProcessCollector(registry=CollectorRegistry())

    async def text(self) -> bytes:
        """The page. Between two metrics others have their turn in the event loop."""
        parts = []
        for metric in self.collect():
            parts.append(text_of(metric))
            await asyncio.sleep(0)
        return b"".join(parts)

    def collect(self) -> Iterator[Metric]:
        moment = self._look()
        yield from _of_times(self._metrics)
        yield from _of_counts(self._metrics)
        yield from _of_the_moment(moment)
        yield _of_services(moment.served)
        yield _of_connections(moment)
        info = {"version": __version__, "zone": moment.zone or ""}
        yield gauge(f"{OURS}info", "The version that runs, and the zone of its node; always 1", [(info, 1)])
        yield from self._process.collect()


def _of_times(metrics: ProxyMetrics) -> Iterator[Metric]:
    yield histogram(
        f"{UPSTREAM}network_programming_duration_seconds",
        "Seconds from the change of an endpoint, as its EndpointSlice tells it, until the kernel has it",
        [({}, metrics.programming)],
    )
    yield histogram(
        f"{OURS}sync_seconds", "Seconds from a change in the cache until the kernel has it", [({}, metrics.sync)]
    )
    yield histogram(f"{OURS}apply_seconds", "Seconds that the kernel took for a transaction", [({}, metrics.apply)])


def _of_counts(metrics: ProxyMetrics) -> Iterator[Metric]:
    for name, help_, counted in (
        ("transactions_total", "Transactions that the kernel took", metrics.transactions),
        ("changed_elements_total", "Elements of sets and maps that came or went", metrics.changed_elements),
        ("refusals_total", "Services that the kernel refused, or that are too large, each time", metrics.refused),
    ):
        yield counter(f"{OURS}{name}", help_, [(_family(each), counted[each]) for each in FAMILIES])
    yield counter(
        f"{OURS}mended_total",
        "Rules and elements that others had changed, and that were mended",
        [({"what": what}, number) for what, number in metrics.mended.items()],
    )
    yield counter(
        f"{OURS}kernel_process_restarts_total",
        "How often the process that programs the kernel was started again",
        [({}, metrics.restarts)],
    )
    yield counter(
        f"{OURS}udp_flows_removed_total",
        "Stale flows of UDP that the kernel was told to forget",
        [({}, metrics.flows_removed)],
    )
    yield counter(
        f"{OURS}watch_troubles_total",
        "Lists and watches that broke off",
        [({"resource": resource}, number) for resource, number in metrics.watch_troubles.items()],
    )


def _of_the_moment(moment: Moment) -> Iterator[Metric]:
    for name, help_, counted in (
        ("elements", "Elements of sets and maps in the kernel", moment.elements),
        ("services", "Services that are served", moment.services),
        (
            "refused_services",
            "Services that the kernel does not take as they are, or that are too large",
            moment.refused,
        ),
        ("contested_services", "Services that do not get what other Services have", moment.lost),
    ):
        yield gauge(f"{OURS}{name}", help_, [(_family(each), number) for each, number in counted.items()])
    yield gauge(
        f"{OURS}slices",
        "EndpointSlices that are known: decoded, or kept as they came, being for other zones",
        [({"state": "decoded"}, moment.slices), ({"state": "sealed"}, moment.sealed_slices)],
    )
    for name, value, help_ in (
        ("partly_programmed_services", moment.left_out, "Services of which a part is left out"),
        ("cache_synced", moment.is_synced, "1 once all kinds have been listed"),
        ("watch_trouble_seconds", moment.watch_trouble, "For how long some kind has not been heard of; 0: all are"),
        ("waiting_seconds", moment.waiting, "For how long the oldest change has waited for the kernel"),
    ):
        yield gauge(f"{OURS}{name}", help_, [({}, float(value))])
    yield gauge(
        f"{OURS}unreadable_objects",
        "Objects that cannot be read and are set aside",
        [({"kind": kind}, number) for kind, number in moment.unreadable.items()],
    )


def _of_services(served: Iterable[Served]) -> Metric:
    values: list[Value] = []
    for each in served:
        labels = {"namespace": each.namespace, "service": each.name, "address_type": ADDRESS_TYPES[each.family]}
        values += [(labels | {"port": port.name, "rule": port.rule.value}, len(port.reachable)) for port in each.ports]
    return gauge(
        f"{OURS}service_endpoints", "Endpoints that this node may send to, by the rule that chose them", values
    )


def _of_connections(moment: Moment) -> Metric:
    values: list[Value] = [
        (
            {
                "namespace": each.service[0],
                "service": each.service[1],
                "address_type": ADDRESS_TYPES[each.family],
                "from_zone": moment.zone or "",
                "to_zone": each.zone,
                "asked": "cluster-ip" if each.internal else "external",
            },
            each.connections,
        )
        for each in moment.connections
    ]
    return counter(f"{OURS}connections_total", "Connections to endpoints, by the zone they went to", values)


def _family(family: Family) -> dict[str, str]:
    return {"address_type": ADDRESS_TYPES[family]}
