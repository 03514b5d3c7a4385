"""All kinds that the sandbox has, each put together from its rules and its table."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from zoneward.sandbox.server.columns import (
    endpoint_slices,
    leases,
    namespaces,
    nodes,
    pods,
    services,
)
from zoneward.sandbox.server.columns import (
    events as event_columns,
)
from zoneward.sandbox.server.event_versions import to_newer, to_stored
from zoneward.sandbox.server.kinds import Action, Kind, Rules
from zoneward.sandbox.server.rules import event, namespace, node, pod, pod_binding
from zoneward.sandbox.server.rules.endpoint_slice import EndpointSliceRules
from zoneward.sandbox.server.rules.lease import LeaseRules
from zoneward.sandbox.server.rules.service import ServiceRules

Object = dict[str, Any]

BINDING: Final = Kind(kind="Binding", plural="bindings", rules=Rules(), cells=lambda _thing, _now: [])
"""What schedulers post; nothing of it is kept."""
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
    events = Kind(
        kind="Event",
        plural="events",
        short_names=("ev",),
        rules=event.EventRules(),
        fields=_event_fields,
        selectable=event.SELECTABLE,
        columns=event_columns.COLUMNS,
        cells=event_columns.cells,
        is_created_by_update=True,
        place="events",
    )
    return (
        Kind(
            kind="Namespace",
            plural="namespaces",
            short_names=("ns",),
            is_namespaced=False,
            has_status=True,
            rules=namespace.NamespaceRules(),
            fields=namespace.fields,
            selectable=namespace.SELECTABLE,
            columns=namespaces.COLUMNS,
            cells=namespaces.cells,
            returns_deleted=True,
            place="namespaces",
        ),
        Kind(
            kind="Node",
            plural="nodes",
            short_names=("no",),
            is_namespaced=False,
            has_status=True,
            rules=node.NodeRules(),
            fields=node.fields,
            selectable=node.SELECTABLE,
            columns=nodes.COLUMNS,
            cells=nodes.cells,
            place="minions",
        ),
        Kind(
            kind="Pod",
            plural="pods",
            short_names=("po",),
            categories=("all",),
            has_status=True,
            rules=pod.PodRules(),
            fields=pod.pod_fields,
            selectable=pod.SELECTABLE,
            columns=pods.COLUMNS,
            cells=pods.cells,
            actions=(Action("binding", BINDING, pod_binding.bind),),
            returns_deleted=True,
            place="pods",
        ),
        Kind(
            kind="Service",
            plural="services",
            short_names=("svc",),
            categories=("all",),
            has_status=True,
            rules=ServiceRules(
                service_traffic_distribution=gates.service_traffic_distribution,
                prefer_same_traffic_distribution=gates.prefer_same_traffic_distribution,
            ),
            fields=_service_fields,
            selectable=frozenset({"spec.clusterIP", "spec.type"}),
            columns=services.COLUMNS,
            cells=services.cells,
            is_created_by_update=True,
            returns_deleted=True,
            place="services/specs",
        ),
        Kind(
            kind="EndpointSlice",
            plural="endpointslices",
            group="discovery.k8s.io",
            rules=EndpointSliceRules(
                zone_hints=gates.topology_aware_hints, node_hints=gates.prefer_same_traffic_distribution
            ),
            columns=endpoint_slices.COLUMNS,
            cells=endpoint_slices.cells,
            place="endpointslices",
        ),
        Kind(
            kind="Lease",
            plural="leases",
            group="coordination.k8s.io",
            rules=LeaseRules(),
            columns=leases.COLUMNS,
            cells=leases.cells,
            is_created_by_update=True,
            needs_version=True,
            place="leases",
        ),
        events,
        Kind(
            kind="Event",
            plural="events",
            group=_EVENTS_GROUP,
            short_names=("ev",),
            rules=event.NewerEventRules(),
            selectable=event.NEWER_SELECTABLE,
            columns=event_columns.COLUMNS,
            cells=lambda thing, now: event_columns.cells(to_stored(thing), now),
            is_created_by_update=True,
            place="events",
            stored_as=events,
            to_stored=to_stored,
            from_stored=to_newer,
        ),
    )


def _service_fields(thing: Object) -> Object:
    spec = thing.get("spec") or {}
    return {"spec.clusterIP": spec.get("clusterIP") or "", "spec.type": spec.get("type") or ""}


def _event_fields(thing: Object) -> Object:
    """By the names of both versions: they share what is stored."""
    return event.newer_fields(thing) | event.fields(thing)
