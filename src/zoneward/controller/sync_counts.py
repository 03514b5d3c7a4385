"""What metrics count of a sync: its labels, and the endpoints and slices of its Service.

The proposals name the labels (KEP-2004 § Observability, KEP-2433 § Observability): ``approach`` is ``random`` or
``auto``, ``result`` of endpoints with hints ``Auto`` or ``SameZone``. Each proposal describes one feature; this
controller has them all, so ``feature`` says which. ``topology`` and ``traffic_distribution`` are upstream's. All have
few values, independent of Services.

Totals over all Services are updated, not recounted: each sync subtracts the Service's earlier counts and adds its
current ones. As upstream's ``metrics/cache.go``, but by Service and address family: upstream's
dual-stack Services count with one of their families alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from zoneward.kube import names
from zoneward.kube.names import ZONE_LABEL, ZONES_ANNOTATION
from zoneward.kube.objects import EndpointSlice, ObjectKey, Service
from zoneward.routing.algorithms.heuristics import BALANCED, PROPORTIONAL_ZONE_CPU
from zoneward.routing.decision import Decision
from zoneward.routing.request import Approach
from zoneward.slices.plan import FamilyPlan

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
    for there, held in groups:
        endpoints += there
        slices += held
        desired += -(-there // max_endpoints)
    return FamilyTotals(
        endpoints=endpoints, slices=slices, desired_slices=desired or 1, hinted=hinted, hinted_by=hinted_by
    )


_Entry = tuple[tuple[FamilyTotals, ...], TrafficDistribution | None]


class SliceTotals:
    """The totals of all Services. A change costs the families of its Service."""

    def __init__(self) -> None:
        self.endpoints = self.slices = self.desired_slices = 0
        self.hinted: Final[Counter[HintedBy]] = Counter()
        self.by_traffic_distribution: Final[Counter[TrafficDistribution]] = Counter()
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


_NO_PORTS: Final = object()
"""Unlike any tuple of ports, and unlike None, which means all ports."""


def _hinted_in(slices: Iterable[EndpointSlice]) -> int:
    return sum(endpoint.hints is not None for slice_ in slices for endpoint in slice_.endpoints or ())


def _groups(slices: Iterable[EndpointSlice]) -> Iterable[tuple[int, int]]:
    """(endpoints, slices) by ports and consuming zones."""
    counts: dict[object, list[int]] = {}
    ports: object = _NO_PORTS
    group: list[int] | None = None
    for slice_ in slices:
        metadata = slice_.metadata
        zones = (metadata.labels or {}).get(ZONE_LABEL)
        if zones is not None:
            zones += " " + (metadata.annotations or {}).get(ZONES_ANNOTATION, "")
        # Nearly all slices of a Service share one tuple of ports, which need not be hashed again for each of them.
        if group is None or zones is not None or slice_.ports is not ports:
            group = counts.setdefault((slice_.ports, zones), [0, 0])
            ports = slice_.ports if zones is None else _NO_PORTS
        group[0] += len(slice_.endpoints or ())
        group[1] += 1
    return ((endpoints, slices) for endpoints, slices in counts.values())
