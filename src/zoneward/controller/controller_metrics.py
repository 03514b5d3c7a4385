"""The controller's metrics: one table, what the controller calls when something happens, and what a sync counts as.

Names below ``endpoint_slice_controller_`` are upstream's (``k8s.io/endpointslice/metrics``) and the proposals'; those
below ``zoneward_controller_`` are Zoneward's. What each means, and what to do about it: ``docs/metrics-and-events.md``.
Everything happens in the event loop's thread.

The proposals name the labels (KEP-2004 § Observability, KEP-2433 § Observability): ``approach`` is ``random`` or
``auto``, ``result`` of endpoints with hints ``Auto`` or ``SameZone``. Each proposal describes one feature; this
controller has them all, so ``feature`` says which. ``topology`` and ``traffic_distribution`` are upstream's. All have
few values, independent of Services.

Totals over all Services are updated, not recounted: each sync subtracts the Service's earlier counts and adds its
current ones. As upstream's ``metrics/cache.go``, but by Service and address family: upstream's
dual-stack Services count with one of their families alone.
"""

import collections
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple, Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram

from zoneward import __version__
from zoneward.client.api_errors import CallFailed
from zoneward.client.informer_cache import InformerCache
from zoneward.client.informers import WatchHealth
from zoneward.client.list_watch_decoder import UnreadableObject
from zoneward.client.resources import CACHED_RESOURCES, LEASES
from zoneward.client.writer import write_outcome
from zoneward.controller.predictions import Prediction, Predictions
from zoneward.controller.queue.work_queue import WorkQueue
from zoneward.daemon.metrics import (
    PER_SYNC,
    SECONDS,
    SLICES_PER_SYNC,
    GaugeFunc,
    LabeledValues,
    MetricAlias,
    UnsuffixedCounter,
    WatchMetrics,
)
from zoneward.kube import names
from zoneward.kube.names import ZONE_LABEL, ZONES_ANNOTATION
from zoneward.kube.objects import EndpointSlice, ObjectKey, Service
from zoneward.routing.algorithms.heuristics import BALANCED, PROPORTIONAL_ZONE_CPU
from zoneward.routing.decision import Decision
from zoneward.routing.request import Approach
from zoneward.slices.plan import FamilyPlan, ServicePlan

# --- labels -----------------------------------------------------------------------------------------------------------


class Operation(StrEnum):
    """What a write does with a slice."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class SyncResult(StrEnum):
    """How a sync ended, as the label ``cause``. The proposals have ``success`` and ``failure`` and count a stale cache
    among failures; upstream counts it separately, as ``stale``."""

    SUCCESS = ""
    STALE = "stale"
    """The cache had not seen the controller's own writes: nothing was done."""
    ERROR = "error"


class HintedBy(StrEnum):
    """What endpoints have their hints from: demand by CPU, or the zone that they are in."""

    AUTO = "Auto"
    SAME_ZONE = "SameZone"


class TrafficDistribution(StrEnum):
    """Upstream's values, and upstream's word for all others."""

    PREFER_CLOSE = names.PREFER_CLOSE
    PREFER_SAME_ZONE = names.PREFER_SAME_ZONE
    PREFER_SAME_NODE = names.PREFER_SAME_NODE
    OTHER = "ImplementationSpecific"


class SyncLabels(NamedTuple):
    """The labels of ``endpointslices_changed_per_sync``, under their names."""

    approach: str
    feature: str
    topology: str
    traffic_distribution: str


_FEATURES: Final = {
    Approach.CLUSTER_WIDE: "",
    Approach.HINTS: "TopologyAwareHints",
    Approach.SUBSETTING: "TopologyAwareSubsetting",
    Approach.TRAFFIC_DISTRIBUTION: "ServiceTrafficDistribution",
}
"""What a Service asks for, in force or not."""


def sync_labels(service: Service, decision: Decision) -> SyncLabels:
    """``approach`` is ``auto`` where what is asked for is in force, else ``random``."""
    approach, asked = decision.approach, traffic_distribution(service, decision)
    return SyncLabels(
        approach="auto" if decision.active else "random",
        feature=_FEATURES[approach],
        topology="Auto" if approach is Approach.HINTS else "Disabled",
        traffic_distribution=asked.value if asked is not None else "",
    )


def traffic_distribution(service: Service, decision: Decision) -> TrafficDistribution | None:
    """What ``spec.trafficDistribution`` has; None where something else decides, as upstream counts."""
    value = service.spec.traffic_distribution
    if value is None or decision.approach is not Approach.TRAFFIC_DISTRIBUTION:
        return None
    return TrafficDistribution(value) if value in names.TRAFFIC_DISTRIBUTIONS else TrafficDistribution.OTHER


def hinted_by(decision: Decision) -> HintedBy | None:
    """None where the decision sets no hints. Hints in place of slice groups are made from demand, too."""
    kind = None if decision.targets is None else decision.targets.encoding
    # Upstream's ways set hints that no target has, or some hints where not all can be set.
    if not (kind == "hints" or (kind == "nothing" and decision.active)):
        return None
    if decision.approach is Approach.SUBSETTING or decision.heuristic in (PROPORTIONAL_ZONE_CPU.name, BALANCED.name):
        return HintedBy.AUTO
    return HintedBy.SAME_ZONE


# --- totals -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyTotals:
    """One address family of a Service. ``desired_slices`` are as many as there would be if all were full."""

    endpoints: int = 0
    slices: int = 0
    desired_slices: int = 0
    hinted: int = 0
    hinted_by: HintedBy | None = None


def family_totals(
    groups: Iterable[tuple[int, int]], *, max_endpoints: int, hinted: int = 0, hinted_by: HintedBy | None = None
) -> FamilyTotals:
    """Count a family by its groups of slices: (endpoints, slices) of those with the same ports for the same zones.

    A family without endpoints should have one slice: the placeholder.
    """
    endpoints = slices = desired = 0
    for endpoint_count, slice_count in groups:
        endpoints += endpoint_count
        slices += slice_count
        desired += -(-endpoint_count // max_endpoints)
    return FamilyTotals(
        endpoints=endpoints, slices=slices, desired_slices=desired or 1, hinted=hinted, hinted_by=hinted_by
    )


_Entry = tuple[tuple[FamilyTotals, ...], TrafficDistribution | None]


class SliceTotals:
    """The totals of all Services. A change costs the families of its Service."""

    def __init__(self) -> None:
        self.endpoints = self.slices = self.desired_slices = 0
        self.hinted: Final[collections.Counter[HintedBy]] = collections.Counter()
        self.by_traffic_distribution: Final[collections.Counter[TrafficDistribution]] = collections.Counter()
        self._entries: dict[ObjectKey, _Entry] = {}

    def put(
        self,
        service: ObjectKey,
        families: Mapping[str, FamilyTotals],
        *,
        traffic_distribution: TrafficDistribution | None = None,
    ) -> None:
        """What a Service counts now, in place of what it did. ``families`` is by address type."""
        entry = tuple(families.values()), traffic_distribution
        self._add(self._entries.get(service), -1)
        self._entries[service] = entry
        self._add(entry, 1)

    def drop(self, service: ObjectKey) -> None:
        """A Service was deleted, or is no longer managed. It may never have been counted."""
        self._add(self._entries.pop(service, None), -1)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._entries)

    def _add(self, entry: _Entry | None, sign: int) -> None:
        families, distribution = entry or ((), None)
        for family in families:
            self.endpoints += sign * family.endpoints
            self.slices += sign * family.slices
            self.desired_slices += sign * family.desired_slices
            if family.hinted_by is not None:
                self.hinted[family.hinted_by] += sign * family.hinted
        if distribution is not None:
            self.by_traffic_distribution[distribution] += sign


def totals_of_plan(family: FamilyPlan, *, max_endpoints: int) -> FamilyTotals:
    """What the slices of a family have once the plan is written."""
    changes, decision = family.changes, family.decision
    slices = (*changes.create, *changes.update, *changes.unchanged)
    by, hinted = hinted_by(decision), 0
    if by is not None and decision.targets is not None:
        # With --compat=upstream, hints depend on slices, and the decision does not have them.
        by_targets = decision.targets.encoding == "hints"
        hinted = decision.targets.count_hinted() if by_targets else _hinted_in(slices)
    return family_totals(_groups(slices), max_endpoints=max_endpoints, hinted=hinted, hinted_by=by)


def _hinted_in(slices: Iterable[EndpointSlice]) -> int:
    return sum(endpoint.hints is not None for slice_ in slices for endpoint in slice_.endpoints or ())


def _groups(slices: Iterable[EndpointSlice]) -> Iterable[tuple[int, int]]:
    """(endpoints, slices) by ports and consuming zones."""
    endpoints: collections.Counter[object] = collections.Counter()
    held: collections.Counter[object] = collections.Counter()
    for slice_ in slices:
        zone = (slice_.metadata.labels or {}).get(ZONE_LABEL)
        zones = None if zone is None else (zone, (slice_.metadata.annotations or {}).get(ZONES_ANNOTATION))
        group = slice_.ports, zones
        endpoints[group] += len(slice_.endpoints or ())
        held[group] += 1
    return ((endpoints[group], count) for group, count in held.items())


UPSTREAM: Final = "endpoint_slice_controller_"
ZONEWARD: Final = "zoneward_controller_"


class ObservedController(Protocol):
    """What the metrics read from the running controller."""

    @property
    def queue(self) -> WorkQueue[ObjectKey]: ...
    @property
    def cache(self) -> InformerCache: ...
    @property
    def contested(self) -> Collection[ObjectKey]: ...
    @property
    def services_without_stored_hints(self) -> int: ...
    @property
    def unreadable(self) -> Iterable[UnreadableObject]: ...


class ObservedControllerProgram(Protocol):
    """What the metrics read from the running program."""

    @property
    def controller(self) -> ObservedController: ...
    @property
    def is_leader(self) -> bool: ...
    @property
    def watch_health(self) -> WatchHealth: ...


class ControllerMetrics:
    """``max_endpoints`` of a slice; ``predictions`` None: no series for single Services."""

    def __init__(self, *, max_endpoints: int = 100, predictions: Predictions | None = None) -> None:
        self._max_endpoints = max_endpoints
        self.predictions: Final = predictions
        self.totals: Final = SliceTotals()
        self.registry: Final = CollectorRegistry()
        self._gauge = partial(GaugeFunc, registry=self.registry)
        self._declare_events()
        self._declare_totals()
        if predictions is not None:
            self._declare_predictions(predictions)
        # Bound once: it takes longer to find a series by its labels than to count.
        self._syncs = {
            result: self.syncs.labels("success" if result is SyncResult.SUCCESS else "failure", result.value)
            for result in SyncResult
        }
        self._writes = {operation: self.writes.labels(operation.value) for operation in Operation}

    # --- the table ----------------------------------------------------------------------------------------------------

    def _declare_events(self) -> None:
        """What is counted when it happens."""
        counter, histogram = partial(Counter, registry=self.registry), partial(Histogram, registry=self.registry)
        self.syncs = Counter(f"{UPSTREAM}syncs", "Number of EndpointSlice syncs", ["result", "cause"], registry=None)
        UnsuffixedCounter(self.syncs, registry=self.registry)
        self.writes = counter(f"{UPSTREAM}changes", "Number of EndpointSlice changes", ["operation"])
        UnsuffixedCounter(self.writes, registry=self.registry)
        self.changed_slices = histogram(
            f"{UPSTREAM}endpointslices_changed_per_sync",
            "Number of EndpointSlices changed on each Service sync",
            SyncLabels._fields,
            buckets=SLICES_PER_SYNC,
        )
        # KEP-2004's first version has this name, its last one the other.
        MetricAlias(self.changed_slices, f"{UPSTREAM}changes_endpointslices_per_sync", registry=self.registry)
        self.added = histogram(
            f"{UPSTREAM}endpoints_added_per_sync",
            "Number of endpoints added on each Service sync",
            buckets=PER_SYNC,
        )
        self.removed = histogram(
            f"{UPSTREAM}endpoints_removed_per_sync",
            "Number of endpoints removed on each Service sync",
            buckets=PER_SYNC,
        )
        self.reallocated = histogram(
            f"{UPSTREAM}reallocated_endpoints_per_sync",
            "Number of endpoints being reallocated to other zones on each Service sync",
            buckets=PER_SYNC,
        )
        self.latency = histogram(
            f"{ZONEWARD}change_to_write_seconds",
            "Seconds from a Service's first change in the cache until all that it led to is written",
            buckets=SECONDS,
        )
        self.retries = counter(f"{ZONEWARD}retries_total", "Syncs that failed and were requeued")
        self.api_errors = counter(
            f"{ZONEWARD}api_errors_total",
            "Failed calls to the API server, by what is known of their outcome",
            ["kind", "resource"],
        )
        self.overlay_writes = counter(
            f"{ZONEWARD}overlay_parameter_writes_total", "Writes of a ConfigMap with parameters of the overlay"
        )
        self.overlay_touches = counter(
            f"{ZONEWARD}overlay_touches_total", "Empty patches of EndpointSlices, by which they get their hints"
        )
        self.demand_reads = counter(
            f"{ZONEWARD}demand_reads_total", "Reads of measured demand, by their result", ["result"]
        )
        self.demand_changes = counter(
            f"{ZONEWARD}demand_changes_total",
            "Changes of the demand of a Service that moved something, by their cause",
            ["cause"],
        )
        self.watches = WatchMetrics(ZONEWARD, registry=self.registry)

    def _declare_totals(self) -> None:
        """What `SliceTotals` has."""
        totals, gauge = self.totals, self._gauge
        gauge(f"{UPSTREAM}endpoints_desired", "Number of endpoints desired", lambda: totals.endpoints)
        gauge(
            f"{UPSTREAM}total_endpoints",
            "Number of endpoints in all EndpointSlices",
            lambda: totals.endpoints,
        )
        gauge(f"{UPSTREAM}num_endpoint_slices", "Number of EndpointSlices", lambda: totals.slices)
        gauge(
            f"{UPSTREAM}desired_endpoint_slices",
            "Number of EndpointSlices that would exist with perfect endpoint allocation",
            lambda: totals.desired_slices,
        )
        gauge(
            f"{UPSTREAM}endpoints_with_hints",
            "Number of endpoints that have hints assigned",
            lambda: {by.value: totals.hinted[by] for by in HintedBy},
            ["result"],
        )
        gauge(
            f"{UPSTREAM}services_count_by_traffic_distribution",
            "Number of Services using some specific trafficDistribution",
            lambda: {value.value: totals.by_traffic_distribution[value] for value in TrafficDistribution},
            ["traffic_distribution"],
        )

    def _declare_predictions(self, predictions: Predictions) -> None:
        """What is predicted of each Service."""

        def of_services(value: Callable[[Prediction], float | None]) -> LabeledValues:
            values = (((*service, family), value(prediction)) for service, family, prediction in predictions)
            return [(labels, known) for labels, known in values if known is not None]

        gauge, labels = self._gauge, ["namespace", "service", "address_type"]
        gauge(
            f"{ZONEWARD}service_series_left_out",
            "Services without their own series, beyond the limit",
            lambda: predictions.left_out,
        )
        gauge(
            f"{ZONEWARD}service_in_zone_traffic",
            "Predicted share of all requests that never leave their zone",
            lambda: of_services(lambda prediction: prediction.in_zone),
            labels,
        )
        gauge(
            f"{ZONEWARD}service_max_overload",
            "Predicted overload of the busiest endpoint; 0.5 is 50 % above fair",
            lambda: of_services(lambda prediction: prediction.max_overload),
            labels,
        )

    def declare_demand(
        self, *, services: Callable[[], Mapping[str, int]], waiting: Callable[[], int], figures_age: Callable[[], float]
    ) -> None:
        """Where demand is measured, what is known of it. ``services`` by the reason of their condition."""
        gauge = self._gauge
        gauge(
            f"{ZONEWARD}demand_services",
            "Services that measured demand can change, by the reason of their condition about it",
            services,
            ["reason"],
        )
        gauge(
            f"{ZONEWARD}demand_waiting_services",
            "Services whose demand changes as soon as the limit of an hour has room",
            waiting,
        )
        gauge(
            f"{ZONEWARD}demand_figures_age_seconds",
            "Seconds since the source of measured demand last responded",
            figures_age,
        )

    def declare_overlay(
        self, *, services: Callable[[], int], refused: Callable[[], int], pending_slices: Callable[[], int]
    ) -> None:
        """In the overlay's mode, the state of the Services in it."""
        gauge = self._gauge
        gauge(f"{ZONEWARD}overlay_services", "Services in the overlay", services)
        gauge(f"{ZONEWARD}overlay_refused_services", "Services that the overlay cannot take: see their Events", refused)
        gauge(
            f"{ZONEWARD}overlay_pending_slices",
            "EndpointSlices that do not have the hints of the overlay yet",
            pending_slices,
        )

    def declare_state(self, program: ObservedControllerProgram) -> None:
        """What is read from the running program."""
        controller, gauge = program.controller, self._gauge
        gauge(
            f"{ZONEWARD}queue_services",
            "Services that have to be synced, by what they wait for",
            lambda: asdict(controller.queue.depth()),
            ["state"],
        )
        gauge(
            f"{ZONEWARD}queue_oldest_seconds",
            "Seconds since the oldest change that is not written yet",
            lambda: controller.queue.longest_wait(),
        )
        gauge(f"{ZONEWARD}leader", "1 where this replica holds the Lease and writes", lambda: program.is_leader)
        self.watches.declare_state(
            program.watch_health,
            is_synced=controller.cache.synced.is_set,
            resources=(*CACHED_RESOURCES, LEASES),
            unreadable=lambda: controller.unreadable,
        )
        gauge(
            f"{ZONEWARD}contested_services",
            "Services whose EndpointSlices the built-in controller writes too",
            lambda: len(controller.contested),
        )
        gauge(
            f"{ZONEWARD}contested_namespaces",
            "Namespaces with such Services; more than one indicates that the built-in controller runs",
            lambda: len({namespace for namespace, _ in controller.contested}),
        )
        gauge(
            f"{ZONEWARD}hints_not_stored_services",
            "Services whose hints the API server did not store",
            lambda: controller.services_without_stored_hints,
        )
        gauge(f"{ZONEWARD}info", "The version that runs; always 1", lambda: {__version__: 1}, ["version"])

    # --- syncs --------------------------------------------------------------------------------------------------------

    def record_sync(self, plan: ServicePlan) -> None:
        """A Service was planned and written."""
        service = plan.service
        for family in plan.families:
            changes = family.changes
            self.added.observe(changes.added)
            self.removed.observe(changes.removed)
            changed = self.changed_slices.labels(*sync_labels(service, family.decision))
            changed.observe(len(changes.create) + len(changes.update) + len(changes.delete))
        self.record_plan(plan)

    def record_plan(self, plan: ServicePlan) -> None:
        """A Service was planned, and what follows is written, by Zoneward or by the built-in controller."""
        service = plan.service
        key = service.metadata.namespace, service.metadata.name
        self._syncs[SyncResult.SUCCESS].inc()
        families = {}
        asked = None
        for family in plan.families:
            asked = asked or traffic_distribution(service, family.decision)
            self.reallocated.observe(family.decision.moved)
            families[family.address_type] = totals_of_plan(family, max_endpoints=self._max_endpoints)
        self.totals.put(key, families, traffic_distribution=asked)
        if self.predictions is not None:
            self.predictions.touch(key)

    def record_failed_sync(self, result: SyncResult = SyncResult.ERROR) -> None:
        """A sync failed. The counts of its Service do not change."""
        self._syncs[result].inc()

    def record_write(self, operation: Operation) -> None:
        """One slice was written."""
        self._writes[operation].inc()

    def forget_service(self, service: ObjectKey) -> None:
        """A Service was deleted, or is no longer managed."""
        self.totals.drop(service)
        if self.predictions is not None:
            self.predictions.drop(service)

    def forget_all_services(self) -> None:
        """This replica no longer leads. The leader counts all Services; otherwise they would count twice."""
        for service in list(self.totals):
            self.forget_service(service)

    # --- the API ------------------------------------------------------------------------------------------------------

    def record_api_error(self, error: CallFailed, *, kind: str) -> None:
        """A call failed. ``kind`` is the plural: ``endpointslices``."""
        self.api_errors.labels(write_outcome(error).value, kind).inc()
