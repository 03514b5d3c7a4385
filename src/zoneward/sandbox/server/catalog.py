"""All kinds that the sandbox has, each put together from its rules and its table."""

from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.strategies import cluster_strategies, event_strategies, service_strategy
from zoneward.sandbox.server.strategies.endpoint_strategies import EndpointSliceStrategy, EndpointsStrategy


def _same(*paths: str) -> dict[str, str]:
    return dict(zip(paths, paths, strict=True))


def kinds() -> tuple[Kind, ...]:
    """New ones each time: the rules of Services keep account of addresses and ports."""
    events = Kind(
        kind="Event",
        plural="events",
        short_names=("ev",),
        strategy=event_strategies.EventStrategy(),
        selectable=event_strategies.SELECTABLE,
        is_created_by_update=True,
    )
    return (
        Kind(
            kind="Namespace",
            plural="namespaces",
            short_names=("ns",),
            is_namespaced=False,
            has_status=True,
            strategy=cluster_strategies.NamespaceStrategy(),
            selectable=_same("status.phase"),
            returns_deleted=True,
        ),
        Kind(
            kind="Node",
            plural="nodes",
            short_names=("no",),
            is_namespaced=False,
            has_status=True,
            strategy=cluster_strategies.NodeStrategy(),
            selectable=_same("spec.unschedulable"),
        ),
        Kind(
            kind="Pod",
            plural="pods",
            short_names=("po",),
            categories=("all",),
            has_status=True,
            strategy=cluster_strategies.PodStrategy(),
            selectable=_same("spec.nodeName", "status.phase", "status.podIP"),
            returns_deleted=True,
        ),
        Kind(
            kind="Service",
            plural="services",
            short_names=("svc",),
            categories=("all",),
            has_status=True,
            strategy=service_strategy.ServiceStrategy(),
            selectable=_same("spec.clusterIP", "spec.type"),
            is_created_by_update=True,
            returns_deleted=True,
        ),
        Kind(
            kind="EndpointSlice",
            plural="endpointslices",
            group="discovery.k8s.io",
            strategy=EndpointSliceStrategy(),
        ),
        Kind(
            kind="Endpoints",
            plural="endpoints",
            short_names=("ep",),
            warning="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
            strategy=EndpointsStrategy(),
            is_created_by_update=True,
        ),
        Kind(
            kind="Lease",
            plural="leases",
            group="coordination.k8s.io",
            strategy=cluster_strategies.LeaseStrategy(),
            is_created_by_update=True,
            needs_version=True,
        ),
        events,
        Kind(
            kind="Event",
            plural="events",
            group="events.k8s.io",
            struct="NewerEvent",
            short_names=("ev",),
            strategy=event_strategies.NewerEventStrategy(),
            selectable=event_strategies.NEWER_SELECTABLE,
            is_created_by_update=True,
            stored_as=events,
            to_stored=event_strategies.to_stored,
            from_stored=event_strategies.to_newer,
        ),
    )
