"""What has been computed for one Service and holds for others that are alike.

Of 10,000 Services, two thirds have as many endpoints in the same zones, and the same settings, as another one. Names,
UIDs and addresses only decide which of several alike endpoints is used where, and no number depends on that.
"""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.objects import ObjectMeta, Service, is_ready
from zoneward.routing.algorithms.heuristics import HEURISTICS
from zoneward.routing.selection.endpoint_selection import LOCAL, policies_of
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.endpoints import ServiceEndpoints
from zoneward.slices.existing import ExistingSlices, Manager
from zoneward.slices.plan import is_deleting

if TYPE_CHECKING:
    from zoneward.slices.comparison import ComparedApproach, SliceNumbers

_MOST: Final = 40_000
"""Kinds of Services that are remembered: some 100 MiB, where each of them is the only one of its kind."""
_READ_PREFIXES: Final = ("service.kubernetes.io/", "endpointslice.kubernetes.io/", f"{names.DOMAIN}/")
"""Of the annotations that decisions read. Others, such as kubectl's own, differ from Service to Service."""

_Found = dict[str, "ComparedApproach"]
"""By approach."""


@dataclass(frozen=True, slots=True)
class FamilyShape:
    """What the numbers of an address family depend on: its endpoints and its slices, without any names.

    ``ready`` is enough where slices have hints or nothing: which endpoints are not ready does not matter there.
    ``groups`` is what approaches with slice groups need, and ``nodes`` those with hints for nodes; None: these depend
    on names.
    """

    ready: Hashable
    groups: Hashable
    nodes: Hashable | None


class KnownApproaches:
    """What is known of an address family by approach, ``""`` for what its Service asks for."""

    def __init__(self, service: Service, *, ready: _Found, groups: _Found, nodes: _Found | None) -> None:
        self._ready = ready
        self._groups = groups
        self._nodes = nodes
        self._asks_for_nodes = service.spec.traffic_distribution == names.PREFER_SAME_NODE

    def find(self, approach: str) -> "ComparedApproach | None":
        found = self._where(approach)
        return None if found is None else found.get(approach)

    def add(self, compared: "ComparedApproach") -> None:
        """Remember an approach."""
        found = self._where(compared.approach)
        names_nodes = compared.heuristic is not None and HEURISTICS[compared.heuristic].node_hints
        if found is not None and (found is self._nodes or not names_nodes):
            found[compared.approach] = compared

    def _where(self, approach: str) -> _Found | None:
        heuristic = HEURISTICS.get(approach)
        if heuristic is None:
            if approach:
                return self._ready
            return self._nodes if self._asks_for_nodes else self._groups
        return self._nodes if heuristic.node_hints else self._groups if heuristic.subsets else self._ready


class ComparisonMemo:
    """The compared approaches of Services in one state of a cluster, by everything that decides about them."""

    def __init__(self, cluster_state: ClusterState) -> None:
        self.cluster_state: Final = cluster_state
        self.numbers_of_new: Final[dict[Hashable, SliceNumbers]] = {}
        """Of slices that are all new, by how many endpoints share them."""
        self._found: dict[Hashable, _Found] = {}

    def approaches(self, service: Service, shape: FamilyShape | None, *, built_in: bool) -> KnownApproaches:
        """Those of a Service that asks for this and has a ``shape``; the caller adds what is missing."""
        if shape is None:
            return KnownApproaches(service, ready={}, groups={}, nodes=None)
        settings = _settings(service, self.cluster_state), built_in
        return KnownApproaches(
            service,
            ready=self._of(settings, shape.ready),
            groups=self._of(settings, shape.groups),
            nodes=None if shape.nodes is None else self._of(settings, shape.nodes),
        )

    def _of(self, settings: Hashable, shape: Hashable) -> _Found:
        found = self._found.get((settings, shape))
        if found is None:
            found = {}
            if len(self._found) < _MOST:
                self._found[settings, shape] = found
        return found


def shape_of(
    service: Service, endpoints: ServiceEndpoints, existing: ExistingSlices, cluster_state: ClusterState
) -> FamilyShape | None:
    """The shape of an address family; None where numbers depend on single endpoints or slices by their names.

    ``cluster_state`` is that of the Service.
    """
    index = endpoints.index
    ready = index.ready_buckets()
    addresses = {each.endpoint.addresses for each in endpoints.by_identity.values()}
    if (
        # Hints of upstream, and what is left of a Service that is being deleted, follow from its slices.
        cluster_state.configuration.upstream
        or is_deleting(service)
        or existing.own
        or existing.managed_by(Manager.OTHER)
        # Pods with other ports have other slices, and those with the same address are one to proxies.
        or len(endpoints.port_groups) != 1
        or len(addresses) != index.total_count
        # Without a ready endpoint, each of those that terminate may serve; without a zone, messages have its name.
        or not index.ready_count
        or any(not bucket.zone for bucket in ready)
        or service.spec.internal_traffic_policy == LOCAL
    ):
        return None
    slices = len(existing.managed_by(Manager.REPLACED)), existing.in_force
    counts = frozenset((bucket.zone, bucket.previous_group, len(bucket)) for bucket in ready)
    others = frozenset((bucket.zone, bucket.previous_group, len(bucket)) for bucket in index.unready_buckets())
    # Without groups, slices are filled one after the other: it only matters how many there are.
    filled = -(-index.total_count // cluster_state.configuration.max_endpoints_per_slice)
    nodes = _counts_by_node(service, endpoints, cluster_state)
    return FamilyShape(
        ready=("ready", counts, filled, frozenset(index.zones()), slices),
        groups=("groups", counts, others, slices),
        nodes=None if nodes is None else ("nodes", counts, nodes, filled, slices),
    )


def _counts_by_node(service: Service, endpoints: ServiceEndpoints, cluster_state: ClusterState) -> Hashable | None:
    """How many nodes of each zone and demand have how many ready endpoints; None where an endpoint is on no node: then
    hints for nodes do not count."""
    on_node = Counter(
        (each.endpoint.node_name, each.endpoint.zone)
        for each in endpoints.by_identity.values()
        if is_ready(each.endpoint)
    )
    demands = [each.demand.node_of for each in cluster_state.consumers_of(service)]
    found = Counter[Hashable]()
    for (name, zone), number in on_node.items():
        if not name:
            return None
        nodes = (node_of.get(name) for node_of in demands)
        found[zone, number, *(None if node is None else (node.zone, node.weight) for node in nodes)] += 1
    return frozenset(found.items())


def _settings(service: Service, cluster_state: ClusterState) -> Hashable:
    """A Service without what is its own: names, addresses, ports and labels."""
    meta, spec = service.metadata, service.spec
    read = {name: text for name, text in (meta.annotations or {}).items() if name.startswith(_READ_PREFIXES)}
    others = replace(
        service,
        metadata=ObjectMeta(annotations=read),
        spec=replace(
            spec,
            selector=None,
            cluster_ip=names.HEADLESS if spec.cluster_ip == names.HEADLESS else None,
            cluster_ips=None,
            ip_families=None,
            ports=None,
            external_ips=None,
            health_check_node_port=None,
            load_balancer_source_ranges=None,
        ),
        status=None,
    )
    has_own_proxies = names.PROXY_NAME_LABEL in (meta.labels or {})
    policies = policies_of(service, cluster_state.configuration.gates)
    return msgspec.json.encode(others, order="sorted"), policies, has_own_proxies
