"""A node meter's metrics: one table.

What each means, and what to do about it: ``docs/metrics-and-events.md``.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from zoneward import __version__
from zoneward.client.informers import WatchHealth
from zoneward.daemon.metrics import CounterFunc, GaugeFunc, WatchMetrics
from zoneward.meter.conntrack_reader import accounting_is_on, tracked_connections
from zoneward.meter.flow_meter import FlowMeter
from zoneward.meter.meter_cache import MeterCache
from zoneward.meter.traffic_totals import TrafficRoute, TrafficTotals
from zoneward.netlink.messages import ADDRESS_TYPES

PREFIX: Final = "zoneward_meter_"


class MeterMetrics:
    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()
        self.read_errors = Counter(
            f"{PREFIX}read_errors_total", "How often connection tracking could not be read", registry=self.registry
        )
        self.watches = WatchMetrics(PREFIX, registry=self.registry)

    def declare_state(self, meter: FlowMeter, cache: MeterCache, watch_health: WatchHealth) -> None:
        gauge, counter = partial(GaugeFunc, registry=self.registry), partial(CounterFunc, registry=self.registry)
        totals, flows = meter.totals, meter.flows
        declare_traffic(
            PREFIX,
            totals,
            "Connections to Services, by the zones where they started and where they went",
            label_names=("namespace", "service", "address_type", "from_zone", "to_zone"),
            labels=lambda route: (*route.service, ADDRESS_TYPES[route.family], route.from_zone, route.to_zone),
            registry=self.registry,
        )
        gauge(f"{PREFIX}series", f"Series of {PREFIX}connections_total", lambda: len(totals))
        gauge(f"{PREFIX}series_limit", "The most that there may be", lambda: totals.limit)
        gauge(
            f"{PREFIX}set_aside_services",
            "Services whose connections are not counted, because their namespace or the node has too many entries",
            lambda: cache.services.budget.counts(),
            ["limit"],
        )
        counter(
            f"{PREFIX}unlisted_connections_total",
            "Connections to Services that are in no other series, because there are too many",
            lambda: totals.unlisted.connections,
        )
        counter(
            f"{PREFIX}lost_messages_total",
            "Messages about connections that ended for which the kernel had no room",
            lambda: meter.lost,
        )
        counter(
            f"{PREFIX}unannounced_connections_total",
            "Connections that ended without a message: what they sent after the last dump is missing",
            lambda: flows.unannounced,
        )
        counter(
            f"{PREFIX}connections_without_bytes_total",
            "Connections that began while the kernel did not count bytes",
            lambda: flows.without_counters,
        )
        gauge(f"{PREFIX}accounting", "1 where the kernel counts bytes of connections", lambda: accounting_is_on())
        gauge(f"{PREFIX}live_connections", "Connections to Services that the last dump showed", lambda: len(flows))
        gauge(f"{PREFIX}dump_seconds", "How long the last dump took", lambda: meter.dump_seconds)
        gauge(
            f"{PREFIX}counting_since_seconds",
            "When this meter began to count, in seconds since 1970: what came before it is missing",
            lambda: totals.since.timestamp(),
        )
        gauge(
            f"{PREFIX}conntrack_entries",
            "Connections in the kernel's table, to Services and others",
            lambda: tracked_connections()[0],
        )
        gauge(
            f"{PREFIX}conntrack_limit",
            "Connections for which the kernel's table has room; it drops packets of others",
            lambda: tracked_connections()[1],
        )
        gauge(
            f"{PREFIX}objects",
            "Services and EndpointSlices that are known",
            lambda: dict(zip(("Service", "EndpointSlice"), cache.counts, strict=True)),
            ["kind"],
        )
        self.watches.declare_state(
            watch_health,
            is_synced=cache.synced.is_set,
            resources=cache.resources,
            unreadable=lambda: cache.unreadable,
        )
        gauge(
            f"{PREFIX}info",
            "The version that runs, and its node with its zone; always 1",
            lambda: [((__version__, cache.node_name, cache.node.zone or ""), 1)],
            ["version", "node", "zone"],
        )


def declare_traffic(
    prefix: str,
    totals: TrafficTotals,
    documentation: str,
    *,
    label_names: tuple[str, ...],
    labels: Callable[[TrafficRoute], tuple[str, ...]],
    registry: CollectorRegistry,
) -> None:
    """Declare the counters of connections and bytes of a program, with its labels of a route."""
    counter = partial(CounterFunc, registry=registry)
    counter(
        f"{prefix}connections_total",
        documentation,
        lambda: ((labels(route), total.connections) for route, total in totals.totals()),
        label_names,
    )
    counter(
        f"{prefix}bytes_total",
        "Bytes of IP packets of these connections: to endpoints (request) and from them (response)",
        lambda: (
            ((*labels(route), direction), count)
            for route, total in totals.totals()
            if total.has_bytes
            for direction, count in (("request", total.request), ("response", total.response))
        ),
        (*label_names, "direction"),
    )
