"""Findings 1xx: zones, and the nodes that make them."""

from collections.abc import Iterator
from fractions import Fraction

from zoneward.advice.findings.cluster_view import ClusterView
from zoneward.advice.findings.codes import (
    CLUSTER,
    NO_READY_NODE,
    NODE_WITHOUT_CPU,
    NODE_WITHOUT_ZONE,
    ONE_ZONE,
    SKEWED_ZONES,
    Finding,
    FindingObject,
)
from zoneward.routing.demand import Demand
from zoneward.routing.phrases import counted, format_percent
from zoneward.routing.thresholds import overload_threshold


def node_findings(view: ClusterView) -> Iterator[Finding]:
    """Nodes as demand reads them: control plane nodes and nodes that are not ready do not count."""
    demand = view.cluster_state.demand
    if not view.knows("Nodes"):
        return
    if not demand.nodes:
        message = f"none of {counted(len(view.nodes), 'node')} is ready and no control plane node: demand is unknown"
        yield NO_READY_NODE.finding(CLUSTER, message)
        return
    for name in demand.without_zone:
        message = "no label topology.kubernetes.io/zone: Auto gives no hints to any Service while one node has none"
        yield NODE_WITHOUT_ZONE.finding(FindingObject("Node", "", name), message)
    if len(demand.zones) == 1:
        message = f"{counted(len(demand.nodes), 'node')}, all in zone {demand.zones[0]}"
        yield ONE_ZONE.finding(CLUSTER, message)
    yield from _skew(view, demand)
    by_cpu = view.cluster_state.by_cpu
    then = ""
    if by_cpu is demand:
        then = "nodes are counted instead of CPU, in all zones; " if demand.unit == "nodes" else "Auto gives no hints; "
    for name in by_cpu.without_cpu:
        message = f"no status.allocatable.cpu above 0: {then}the built-in controller gives no hints"
        yield NODE_WITHOUT_CPU.finding(FindingObject("Node", "", name), message)


def _skew(view: ClusterView, demand: Demand) -> Iterator[Finding]:
    """Whether pods that are spread evenly, as a spread constraint spreads them, would break the threshold."""
    if len(demand.zones) < 2:
        return
    largest = max(demand.weights)
    zone = demand.zones[demand.weights.index(largest)]
    overload = Fraction(largest * len(demand.zones), demand.total) - 1
    threshold = overload_threshold(view.cluster_state.configuration.hints, in_force=False)
    if overload >= threshold:
        shares = ", ".join(f"{zone} {demand.share(zone):.0%}" for zone in demand.zones)
        message = (
            f"{shares}: with pods spread evenly, those in zone {zone} would get {format_percent(overload)} more than"
            f" fair (threshold {format_percent(threshold)})"
        )
        yield SKEWED_ZONES.finding(CLUSTER, message)
