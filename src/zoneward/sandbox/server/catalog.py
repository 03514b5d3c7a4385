"""All kinds that the sandbox has, each put together from its rules and its table."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from zoneward.sandbox.server import tables
from zoneward.sandbox.server.kinds import Kind, Object
from zoneward.sandbox.server.strategies import events, nodes, pods, services
from zoneward.sandbox.server.strategies.endpoint_slices import EndpointSliceStrategy, EndpointsStrategy

_EVENTS_GROUP: Final = "events.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """Upstream's feature gates of the same names. Current Kubernetes has them all, older ones had not."""

    topology_aware_hints: bool = True
    prefer_same_traffic_distribution: bool = True
    service_traffic_distribution: bool = True


GATES: Final = {
    "TopologyAwareHints": "topology_aware_hints",
    "PreferSameTrafficDistribution": "prefer_same_traffic_distribution",
    "ServiceTrafficDistribution": "service_traffic_distribution",
}
"""Upstream's names and ours."""


def parse_gates(texts: Iterable[str]) -> Gates:
    """Gates written as for kube-apiserver: ``TopologyAwareHints=false,...``; what comes last counts.

    Raises ValueError that says what was expected and what was found.
    """
    found = {}
    for each in (part for text in texts for part in text.split(",")):
        name, _, value = each.partition("=")
        if name not in GATES:
            raise ValueError(f"expected one of {', '.join(GATES)}, got {name!r}")
        if value not in ("true", "false"):
            raise ValueError(f"expected {name}=true or {name}=false, got {each!r}")
        found[GATES[name]] = value == "true"
    return Gates(**found)


def kinds(gates: Gates | None = None) -> tuple[Kind, ...]:
    """New ones each time: the rules of Services keep account of addresses and ports."""
    gates = gates or Gates()
    stored_events = Kind(
        kind="Event",
        plural="events",
        short_names=("ev",),
        strategy=events.EventStrategy(),
        fields=_event_fields,
        selectable=events.SELECTABLE,
        columns=tables.EVENT_COLUMNS,
        cells=tables.event_cells,
        is_created_by_update=True,
    )
    return (
        Kind(
            kind="Namespace",
            plural="namespaces",
            short_names=("ns",),
            is_namespaced=False,
            has_status=True,
            strategy=nodes.NamespaceStrategy(),
            fields=nodes.namespace_fields,
            selectable=nodes.NAMESPACE_SELECTABLE,
            columns=tables.NAMESPACE_COLUMNS,
            cells=tables.namespace_cells,
            returns_deleted=True,
        ),
        Kind(
            kind="Node",
            plural="nodes",
            short_names=("no",),
            is_namespaced=False,
            has_status=True,
            strategy=nodes.NodeStrategy(),
            fields=nodes.node_fields,
            selectable=nodes.NODE_SELECTABLE,
            columns=tables.NODE_COLUMNS,
            cells=tables.node_cells,
        ),
        Kind(
            kind="Pod",
            plural="pods",
            short_names=("po",),
            categories=("all",),
            has_status=True,
            strategy=pods.PodStrategy(),
            fields=pods.pod_fields,
            selectable=pods.SELECTABLE,
            columns=tables.POD_COLUMNS,
            cells=tables.pod_cells,
            returns_deleted=True,
        ),
        Kind(
            kind="Service",
            plural="services",
            short_names=("svc",),
            categories=("all",),
            has_status=True,
            strategy=services.ServiceStrategy(
                service_traffic_distribution=gates.service_traffic_distribution,
                prefer_same_traffic_distribution=gates.prefer_same_traffic_distribution,
            ),
            fields=services.service_fields,
            selectable=frozenset({"spec.clusterIP", "spec.type"}),
            columns=tables.SERVICE_COLUMNS,
            cells=tables.service_cells,
            is_created_by_update=True,
            returns_deleted=True,
        ),
        Kind(
            kind="EndpointSlice",
            plural="endpointslices",
            group="discovery.k8s.io",
            strategy=EndpointSliceStrategy(
                zone_hints=gates.topology_aware_hints, node_hints=gates.prefer_same_traffic_distribution
            ),
            columns=tables.ENDPOINT_SLICE_COLUMNS,
            cells=tables.endpoint_slice_cells,
        ),
        Kind(
            kind="Endpoints",
            plural="endpoints",
            short_names=("ep",),
            warning="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
            strategy=EndpointsStrategy(),
            columns=tables.ENDPOINTS_COLUMNS,
            cells=tables.endpoints_cells,
            is_created_by_update=True,
        ),
        Kind(
            kind="Lease",
            plural="leases",
            group="coordination.k8s.io",
            strategy=nodes.LeaseStrategy(),
            columns=tables.LEASE_COLUMNS,
            cells=tables.lease_cells,
            is_created_by_update=True,
            needs_version=True,
        ),
        stored_events,
        Kind(
            kind="Event",
            plural="events",
            group=_EVENTS_GROUP,
            struct="NewerEvent",
            short_names=("ev",),
            strategy=events.NewerEventStrategy(),
            selectable=events.NEWER_SELECTABLE,
            columns=tables.EVENT_COLUMNS,
            cells=tables.event_cells,
            is_created_by_update=True,
            stored_as=stored_events,
            to_stored=events.to_stored,
            from_stored=events.to_newer,
        ),
    )


def _event_fields(thing: Object) -> dict[str, str]:
    """By the names of both versions: they share what is stored."""
    return events.newer_event_fields(thing) | events.event_fields(thing)
