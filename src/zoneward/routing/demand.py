"""Demand: the share of traffic expected to start in each zone: from the ready Nodes' allocatable CPU, or as set, or by
figures of single Services.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from math import gcd
from typing import Final, Literal

from zoneward.kube import names
from zoneward.kube.demand import DemandFigures
from zoneward.kube.formats import in_milli, parse_quantity
from zoneward.kube.objects import Node, ObjectKey, has_ready_condition, is_virtual_node, node_region, node_zone
from zoneward.routing.configuration import Configuration, MissingCPU, compatibility_of
from zoneward.routing.phrases import counted, listed

MAX_CPU: Final = Fraction(10**9)
"""Allocatable CPUs of one Node that count. No machine has as many, and sums over all Nodes stay within 64 bits in
milli-CPU; API servers take any quantity."""
DemandUnit = Literal["milliCPU", "nodes", "even", "parts", "figures"]
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
"""Times as an API server writes them compare as text."""
_PARTS: Final = 10**9
"""Demand that is set is in parts of this whole."""


@dataclass(frozen=True, slots=True)
class NodeDemand:
    """What one ready Node adds to demand. ``zone`` is None where its label is missing or empty."""

    name: str
    zone: str | None
    weight: int


@dataclass(frozen=True)
class Demand:
    """Demand per zone as whole numbers: ``weights`` in milli-CPU, in nodes, or in parts: as they were set, the same for
    all zones (``even``), or by the figures of one Service. Zones are in name order, every weight is above 0.

    Shares are weights over their sum; nothing is a float before that. Nodes that are not ready, virtual Nodes, and
    those with one of the excluded labels add nothing to it. ``regions`` has (zone, region), by zone, for zones whose
    Nodes name one and the same; ``idle_zones`` are zones of ready Nodes that no traffic is expected from: their proxies
    need endpoints. ``without_zone`` are Nodes that void hints, ``new_without_zone`` those that are new: their zone may
    follow. ``control_planes`` counts ready Nodes with an excluded label, where no other is ready.
    """

    zones: tuple[str, ...]
    weights: tuple[int, ...]
    unit: DemandUnit
    nodes: tuple[NodeDemand, ...] = ()
    without_zone: tuple[str, ...] = ()
    without_cpu: tuple[str, ...] = ()
    regions: tuple[tuple[str, str], ...] = ()
    idle_zones: tuple[str, ...] = ()
    new_without_zone: tuple[str, ...] = ()
    control_planes: int = 0

    @cached_property
    def total(self) -> int:
        return sum(self.weights)

    @cached_property
    def weight_by_zone(self) -> dict[str, int]:
        """The sum of the Nodes' weights in each zone; ``""`` is for Nodes without a zone."""
        if not self.nodes:
            return self.weight_of
        weights: dict[str, int] = {}
        for node in self.nodes:
            weights[node.zone or ""] = weights.get(node.zone or "", 0) + node.weight
        return dict(sorted(weights.items()))

    @cached_property
    def unzoned(self) -> int:
        """The weight of ready Nodes without a zone: no zone's demand, but traffic starts there, too."""
        return self.weight_by_zone.get("", 0)

    @cached_property
    def only_zone(self) -> str | None:
        """The zone of all Nodes; None where they are in several, and where one has none."""
        return self.zones[0] if len(self.zones) == 1 and all(node.zone for node in self.nodes) else None

    @cached_property
    def ready_zones(self) -> tuple[str, ...]:
        """All zones of ready Nodes, in name order, also those that no traffic is expected from."""
        return tuple(sorted({*self.zones, *self.idle_zones}))

    @cached_property
    def weight_of(self) -> dict[str, int]:
        return dict(zip(self.zones, self.weights, strict=True))

    @cached_property
    def node_of(self) -> dict[str, NodeDemand]:
        """What each Node adds, by its name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def reduced(self) -> dict[str, int]:
        """The weights divided by their greatest common divisor: the same shares in smaller numbers."""
        common = gcd(*self.weights) or 1
        return {zone: weight // common for zone, weight in self.weight_of.items()}

    def share(self, zone: str) -> float:
        """Share of a zone, 0 to 1; 0 for a zone without demand."""
        return self.weight_of.get(zone, 0) / self.total if self.total else 0.0

    def only(self, nodes: Iterable[NodeDemand]) -> "Demand":
        """The part of demand that some of its Nodes add."""
        nodes = tuple(nodes)
        sums: dict[str, int] = {}
        for node in nodes:
            if node.zone is not None:
                sums[node.zone] = sums.get(node.zone, 0) + node.weight
        weights = {zone: weight for zone, weight in sorted(sums.items()) if weight}
        return replace(self, zones=tuple(weights), weights=tuple(weights.values()), nodes=nodes)

    @cached_property
    def by_count(self) -> "Demand":
        """Demand by the number of Nodes instead of their CPU, in all zones."""
        if self.unit == "nodes":
            return self
        nodes = Counter(node.zone for node in self.nodes if node.zone is not None)
        return Demand(
            zones=tuple(sorted(nodes)),
            weights=tuple(nodes[zone] for zone in sorted(nodes)),
            unit="nodes",
            nodes=tuple(replace(node, weight=1) for node in self.nodes),
            without_zone=self.without_zone,
            without_cpu=self.without_cpu,
            regions=self.regions,
            idle_zones=tuple(zone for zone in self.idle_zones if zone not in nodes),
            new_without_zone=self.new_without_zone,
            control_planes=self.control_planes,
        )


def compute_demand(
    nodes: Iterable[Node],
    *,
    missing_cpu: MissingCPU = "count-nodes",
    new_since: str | None = None,
    counts_virtual: bool = False,
) -> Demand:
    """Demand of a cluster (KEP-2433 § Assumptions).

    Where any ready Node has no allocatable CPU, or none above 0, Nodes are counted instead, in all zones; with
    ``missing_cpu="disable"`` CPU is used for the others, and the caller voids hints for the reason in ``without_cpu``.

    Nodes that were created after ``new_since`` (RFC 3339, in UTC; None: none is new) and have no zone yet change
    nothing. A cloud's controller sets the label a moment after the kubelet has registered a Node.

    Virtual Nodes count only with ``counts_virtual``: those of AKS report 10,000 CPUs.
    """
    ready = [node for node in nodes if is_node_ready(node)]
    excluded = [node for node in ready if not counts_for_demand(node)]
    counting = [node for node in ready if counts_for_demand(node) and (counts_virtual or not is_virtual_node(node))]
    counting.sort(key=lambda node: node.metadata.name)
    cpu = [(node.metadata.name, node_zone(node), allocatable_cpu(node)) for node in counting]
    new = {node.metadata.name for node in counting if node_zone(node) is None and _is_new(node, new_since)}
    without_cpu = tuple(name for name, _, amount in cpu if amount <= 0 and name not in new)
    by_count = bool(without_cpu) and missing_cpu == "count-nodes"
    sums: dict[str, Fraction] = {}
    weighed = []
    for name, zone, amount in cpu:
        weight = Fraction(1) if by_count else amount
        if zone is not None:
            sums[zone] = sums.get(zone, Fraction(0)) + weight
        weighed.append(NodeDemand(name, zone, int(weight) if by_count else in_milli(weight)))
    weights = {zone: int(total) if by_count else in_milli(total) for zone, total in sorted(sums.items()) if total > 0}
    regions = _regions_named(ready) | _regions_named(counting)
    return Demand(
        zones=tuple(weights),
        weights=tuple(weights.values()),
        unit="nodes" if by_count else "milliCPU",
        nodes=tuple(weighed),
        without_zone=tuple(name for name, zone, _ in cpu if zone is None and name not in new),
        without_cpu=without_cpu,
        regions=tuple(_single_regions(regions).items()),
        idle_zones=tuple(sorted({zone for node in ready if (zone := node_zone(node)) and zone not in weights})),
        new_without_zone=tuple(sorted(new)),
        control_planes=0 if counting else len(excluded),
    )


def _is_new(node: Node, since: str | None) -> bool:
    created = node.metadata.creation_timestamp
    return since is not None and created is not None and _TIME.fullmatch(created) is not None and created > since


def _new_since(configuration: Configuration) -> str | None:
    """When new Nodes were created; None: none is new. Upstream knows no new Nodes."""
    return configuration.nodes_new_since if compatibility_of(configuration).knows_new_nodes else None


def is_new_node(node: Node, configuration: Configuration) -> bool:
    """Whether a Node is so new that it voids no hints, although it has no zone."""
    return _is_new(node, _new_since(configuration))


def demand_of(nodes: Iterable[Node], configuration: Configuration) -> Demand:
    """Demand of a cluster, as it is configured.

    Parts of zones without a ready Node count for nothing: nobody sends from there. Where all are such, CPU counts.
    """
    cpu = _cpu_demand(nodes, configuration, counts_virtual=False)
    settings = configuration.demand
    if settings.zones:
        return in_parts(cpu, dict(settings.zones))
    if settings.source == "even":
        return in_parts(cpu, {node.zone: Fraction(1) for node in cpu.nodes if node.zone is not None}, unit="even")
    if settings.source == "nodes":
        # The CPU of Nodes does not matter any more, and so it does not matter where it is missing.
        return replace(cpu.by_count, without_cpu=())
    return cpu


def cpu_demand_of(nodes: Iterable[Node], configuration: Configuration) -> Demand:
    """Demand of a cluster by CPU as Kubernetes counts it, regardless of settings: it knows no other."""
    return _cpu_demand(nodes, configuration, counts_virtual=True)


def _cpu_demand(nodes: Iterable[Node], configuration: Configuration, *, counts_virtual: bool) -> Demand:
    return compute_demand(
        nodes,
        missing_cpu=configuration.hints.missing_cpu,
        new_since=_new_since(configuration),
        counts_virtual=counts_virtual,
    )


def demands_of(nodes: Iterable[Node], configuration: Configuration) -> tuple[Demand, Demand | None]:
    """Demand of a cluster as it is configured, and that of CPU where it is another one."""
    nodes = tuple(nodes)
    demand, by_cpu = demand_of(nodes, configuration), cpu_demand_of(nodes, configuration)
    if demand.without_cpu and not compatibility_of(configuration).reads_own_settings:
        # The built-in controller decides by CPU. A Node without it sends traffic all the same.
        demand = demand.by_count
    return demand, None if demand == by_cpu else by_cpu


def in_parts(demand: Demand, parts: Mapping[str, Fraction], *, unit: DemandUnit = "parts") -> Demand:
    """The same Nodes with other weights: those of a zone share its part as they shared its demand. As it is where no
    zone with a part has a Node.
    """
    located = {node.zone for node in demand.nodes}
    known = {zone: part for zone, part in sorted(parts.items()) if zone in located and part}
    if not known:
        return demand
    whole = sum(known.values())
    weights = {zone: max(1, round(part / whole * _PARTS)) for zone, part in known.items()}
    by_zone: dict[str, list[NodeDemand]] = {}
    for node in demand.nodes:
        by_zone.setdefault(node.zone or "", []).append(node)
    shares: dict[str, int] = {}
    for zone, nodes in by_zone.items():
        # Nodes without any CPU share alike where no other of the zone has some.
        own = [node.weight for node in nodes] if any(node.weight for node in nodes) else [1] * len(nodes)
        shares |= zip((node.name for node in nodes), _divide(weights.get(zone, 0), own), strict=True)
    idle = {*demand.idle_zones, *(zone for zone in by_zone if zone)} - weights.keys()
    return replace(
        demand,
        zones=tuple(weights),
        weights=tuple(weights.values()),
        unit=unit,
        nodes=tuple(replace(node, weight=shares[node.name]) for node in demand.nodes),
        without_cpu=(),
        idle_zones=tuple(sorted(idle)),
    )


def _divide(total: int, weights: list[int]) -> list[int]:
    """Whole numbers that add up to ``total``, in proportion to ``weights`` where possible."""
    whole = sum(weights)
    reached = [total * partial // whole for partial in accumulate(weights)]
    return [end - start for start, end in pairwise((0, *reached))]


def zone_regions(nodes: Iterable[Node], demand: Demand) -> dict[str, str]:
    """Those of the ``demand``, and by all Nodes those of zones without a ready Node."""
    return _single_regions(_regions_named(nodes)) | dict(demand.regions)


def _single_regions(regions: Mapping[str, list[str]]) -> dict[str, str]:
    return {zone: region for zone, (region, *more) in sorted(regions.items()) if region and not more}


def _regions_named(nodes: Iterable[Node]) -> dict[str, list[str]]:
    """The regions that Nodes name, by their zone: ``""`` alone where they name none."""
    regions_of: dict[str, set[str]] = {}
    for node in nodes:
        zone, region = node_zone(node), node_region(node)
        if zone is not None:
            regions_of.setdefault(zone, set()).update([region] if region else [])
    return {zone: sorted(regions) or [""] for zone, regions in regions_of.items()}


def counts_for_demand(node: Node) -> bool:
    """Whether a Node's CPU counts: it is ready and carries none of the excluded labels."""
    labels = node.metadata.labels or {}
    return is_node_ready(node) and not any(label in labels for label in names.NODE_EXCLUDED_LABELS)


def is_node_ready(node: Node) -> bool:
    """Whether a Node reports that it is ready; one without status does not."""
    return node.status is not None and has_ready_condition(node.status.conditions)


def allocatable_cpu(node: Node) -> Fraction:
    """Allocatable CPU in cores, exact; 0 where it is missing or not a quantity, which no API server accepts."""
    allocatable = node.status.allocatable if node.status else None
    if allocatable is None or allocatable.cpu is None:
        return Fraction(0)
    try:
        return min(MAX_CPU, max(Fraction(0), parse_quantity(allocatable.cpu)))
    except ValueError:
        return Fraction(0)


def changes_demand(old: Node | None, new: Node | None) -> bool:
    """Whether a change of one Node may change demand, its regions or its idle zones. None is a Node that does
    not exist (any more).

    A Node's heartbeat updates it every few seconds, and demand hardly ever changes.
    """
    return _demand_inputs(old) != _demand_inputs(new)


def _demand_inputs(node: Node | None) -> tuple[str | None, str | None, Fraction | None] | None:
    """Everything that demand reads from a Node besides its name; None for a Node from which it reads nothing.

    Of a Node with an excluded label, that is where its proxy is.
    """
    if node is None or not is_node_ready(node):
        return None
    zone = node_zone(node)
    region = None if zone is None else node_region(node)
    if counts_for_demand(node):
        return zone, region, allocatable_cpu(node)
    return None if zone is None else (zone, region, None)


# --- demand of single Services ----------------------------------------------------------------------------------------


def service_parts(figures: DemandFigures) -> dict[ObjectKey, dict[str, Fraction]]:
    """The parts of zones in the traffic of each Service, which add up to 1. A Service without traffic has none, so the
    demand of all Services stays its own.
    """
    parts = {}
    for key, amounts in figures.amounts.items():
        exact = {zone: Fraction(amount) for zone, amount in sorted(amounts.items()) if amount > 0}
        whole = sum(exact.values(), Fraction(0))
        if whole:
            parts[key] = {zone: amount / whole for zone, amount in exact.items()}
    return parts


def without_zones(figures: DemandFigures, *, known: Collection[str]) -> DemandFigures:
    """The figures of known zones: nobody sends from a zone without a Node. A note names the others."""
    known = set(known)
    unknown = sorted({zone for zones in figures.amounts.values() for zone in zones} - known)
    if not unknown:
        return figures
    amounts = {
        key: {zone: amount for zone, amount in zones.items() if zone in known} for key, zones in figures.amounts.items()
    }
    note = f"figures of {counted(len(unknown), 'zone')} without a Node count for nothing ({listed(tuple(unknown))})"
    return DemandFigures(amounts, (*figures.notes, note))


def unknown_services(figures: DemandFigures, *, known: Collection[ObjectKey]) -> tuple[ObjectKey, ...]:
    """The Services that have figures and are not known, by namespace and name."""
    return tuple(sorted(figures.amounts.keys() - set(known)))
