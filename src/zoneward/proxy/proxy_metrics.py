"""The metrics of a node's proxy.

Names with ``kubeproxy_`` are upstream's and have the same meaning; those with ``zoneward_proxy_`` are Zoneward's.
``docs/metrics-and-events.md`` explains each of them. Everything runs in the event loop's thread.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from zoneward import __version__
from zoneward.client.informers import WatchHealth
from zoneward.daemon.metrics import SECONDS, SHORT_SECONDS, GaugeFunc, WatchMetrics
from zoneward.meter.meter_metrics import declare_traffic
from zoneward.meter.traffic_totals import EXTERNAL, TrafficRoute, TrafficTotals
from zoneward.netlink.messages import ADDRESS_TYPES, FAMILIES, Family
from zoneward.proxy.model.node_cache import NodeCache
from zoneward.proxy.proxier import Proxier

UPSTREAM: Final = "kubeproxy_"
PREFIX: Final = "zoneward_proxy_"
_REPAIRED: Final = ("table", "chains", "sets", "elements", "rules")
"""The label values for parts of a table that other programs may change."""


class ProxyMetrics:
    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()
        counter, histogram = partial(Counter, registry=self.registry), partial(Histogram, registry=self.registry)
        self.programming_duration = histogram(
            f"{UPSTREAM}network_programming_duration_seconds",
            "Seconds from the change of an endpoint, according to its EndpointSlice, until the kernel has it",
            buckets=SECONDS,
        )
        self.sync_duration = histogram(
            f"{PREFIX}sync_seconds", "Seconds from a change in the cache until the kernel has it", buckets=SHORT_SECONDS
        )
        self.transaction_duration = histogram(
            f"{PREFIX}apply_seconds", "Seconds that the kernel took for a transaction", buckets=SHORT_SECONDS
        )

        def by_family(name: str, documentation: str) -> dict[Family, Counter]:
            """The counter of each family, bound once: a lookup by labels takes longer than counting."""
            families = counter(f"{PREFIX}{name}", documentation, ["address_type"])
            return {family: families.labels(ADDRESS_TYPES[family]) for family in FAMILIES}

        self.transactions = by_family("transactions_total", "Transactions that the kernel took")
        self.changed_elements = by_family(
            "changed_elements_total", "Elements of sets and maps that were added or removed"
        )
        self.refusals = by_family(
            "refusals_total", "Services that the kernel refused, or that are too large, each time"
        )
        self.repairs = counter(
            f"{PREFIX}repairs_total", "Repairs of rules and elements that another program had changed", ["what"]
        )
        for what in _REPAIRED:
            # Start at 0: a series that starts above 0 has no rate.
            self.repairs.labels(what)
        self.process_restarts = counter(
            f"{PREFIX}kernel_process_restarts_total",
            "How often the process that programs the kernel was started again",
        )
        self.flows_removed = counter(
            f"{PREFIX}udp_flows_removed_total", "Stale UDP flows that were removed from connection tracking"
        )
        self.watches = WatchMetrics(PREFIX, registry=self.registry)

    def declare_state(
        self, loop: Proxier, cache: NodeCache, *, watch_health: WatchHealth, totals: TrafficTotals
    ) -> None:
        """Declare the metrics that are read from the running program."""
        gauge = partial(GaugeFunc, registry=self.registry)

        def by_family(
            name: str, documentation: str, families: Iterable[Family], count: Callable[[Family], int]
        ) -> None:
            def counts() -> dict[str, float]:
                return {ADDRESS_TYPES[family]: count(family) for family in families}

            gauge(f"{PREFIX}{name}", documentation, counts, ["address_type"])

        def refused(family: Family) -> int:
            too_large = sum(error.family == family for error in loop.too_large.values())
            return len(tables[family].refused_services) + too_large

        tables = loop.tables
        by_family(
            "elements", "Elements of sets and maps in the kernel", tables, lambda family: tables[family].element_count
        )
        by_family("services", "Services that are served", FAMILIES, lambda family: len(loop.node_services(family)))
        by_family("refused_services", "Services that the kernel refuses, or that are too large", tables, refused)
        gauge(f"{PREFIX}entries", "Entries of all Services that are programmed", lambda: loop.budget.used)
        gauge(f"{PREFIX}entries_limit", "The most that there may be", lambda: loop.budget.most)
        gauge(
            f"{PREFIX}set_aside_services",
            "Services that are not programmed, because their namespace or the node has too many entries",
            lambda: loop.budget.counts(),
            ["limit"],
        )
        by_family(
            "contested_services",
            "Services that request addresses or node ports of other Services",
            FAMILIES,
            lambda family: len(loop.conflicts[family]),
        )
        gauge(
            f"{PREFIX}slices",
            "EndpointSlices in the cache: decoded, or compressed because they are for other zones",
            lambda: dict(zip(("decoded", "sealed"), cache.slice_counts, strict=True)),
            ["state"],
        )
        gauge(
            f"{PREFIX}partly_programmed_services",
            "Services of which a part is left out",
            lambda: len(cache.left_out_values),
        )
        self.watches.declare_state(
            watch_health,
            is_synced=cache.synced.is_set,
            resources=cache.resources,
            unreadable=lambda: cache.unreadable,
        )
        gauge(
            f"{PREFIX}waiting_seconds",
            "For how long the oldest change has waited for the kernel",
            loop.waiting_seconds,
        )
        gauge(
            f"{PREFIX}service_endpoints",
            "Endpoints that this node may send to, by the rule that chose them",
            lambda: [
                (
                    (service.namespace, service.name, ADDRESS_TYPES[family], port.name, port.selection_rule.value),
                    len(port.all_reachable_endpoints),
                )
                for family in FAMILIES
                for service in tuple(loop.node_services(family).values())
                for port in service.ports
            ],
            ["namespace", "service", "address_type", "port", "rule"],
        )

        def labels(route: TrafficRoute) -> tuple[str, ...]:
            is_external = route.from_zone == EXTERNAL
            zone, asked = (cache.node.zone or "", "external") if is_external else (route.from_zone, "cluster-ip")
            return (*route.service, ADDRESS_TYPES[route.family], zone, route.to_zone, asked)

        declare_traffic(
            PREFIX,
            totals,
            "Connections to endpoints, by the zone they went to",
            label_names=("namespace", "service", "address_type", "from_zone", "to_zone", "asked"),
            labels=labels,
            registry=self.registry,
        )
        gauge(
            f"{PREFIX}info",
            "The version that runs, and its node with its zone; always 1",
            lambda: [((__version__, cache.node.name, cache.node.zone or ""), 1)],
            ["version", "node", "zone"],
        )
