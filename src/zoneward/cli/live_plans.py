"""The plans of the Services of a live cluster: an event causes only the plans that it affects."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from zoneward.advice.deciders import NO_OVERLAYS, ClusterStates
from zoneward.advice.decisions import DecisionDocument, decisions_document
from zoneward.advice.node_proxies import NodeProxies, changes_kubelet
from zoneward.advice.now import CurrentTraffic, traffic_now
from zoneward.cli.cluster_input import service_ranking
from zoneward.cli.known_demand import NO_PARTS, ServiceParts
from zoneward.cli.options import Options
from zoneward.cli.planned_services import (
    build_cluster_states,
    configuration_of_kubernetes,
    proxies_in,
    read_overlays,
    with_what_if,
)
from zoneward.client.informer_cache import InformerCache, subscribe_affected_services
from zoneward.client.optional_objects import ProxyObjects
from zoneward.client.resources import LiveNode, object_key_of
from zoneward.kube.objects import ObjectKey, node_zone
from zoneward.report.decision_changes import DecisionChange
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import changes_demand
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import ServicePlan, plan_service
from zoneward.snapshots.cluster_snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of EndpointSlices in one namespace, as they are now."""

    cache: InformerCache
    namespace: str

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.cache.slices.get(self.namespace, name) is not None


class LivePlans:
    """Plans of the selected Services. `update` brings them up to date and yields the changed decisions.

    ``on_stale`` is called whenever there is something to update; it must not take long. Use it only in the thread that
    writes to the cache.
    """

    def __init__(
        self,
        cache: InformerCache,
        *,
        options: Options,
        configuration: Configuration,
        on_stale: Callable[[], None],
        service_parts: ServiceParts = NO_PARTS,
    ) -> None:
        """Raises a usage error for an invalid selector."""
        self._cache, self._options, self._configuration, self._on_stale = cache, options, configuration, on_stale
        self._service_parts = service_parts
        self._rank = service_ranking(options)
        self._stale: set[ObjectKey] = set()
        self._nodes_changed = True
        self._demand_changed = True
        self._plans: dict[ObjectKey, ServicePlan] = {}
        self._views: dict[ObjectKey, tuple[DecisionDocument, ...]] = {}
        self.now: dict[ObjectKey, dict[str, CurrentTraffic]] = {}
        """What the slices in force do, by Service and address type."""
        self._of_kubernetes: Configuration | None = None
        self._overlays = NO_OVERLAYS
        self.proxy_objects = ProxyObjects()
        """What says which proxies run on the nodes; read once, before the first plan."""
        self._order: tuple[ObjectKey, ...] | None = None
        self.node_proxies = self._node_proxies()
        self._states = self._cluster_states()
        """As of the last update."""
        subscribe_affected_services(cache, self._mark_stale)
        cache.nodes.subscribe(self._on_node)

    @property
    def is_stale(self) -> bool:
        return bool(self._stale) or self._nodes_changed or self._demand_changed

    @property
    def cluster_state(self) -> ClusterState:
        """That of the cluster as a whole, as of the last update."""
        return self._states.of_most

    def is_of_kubernetes(self, decision: DecisionDocument) -> bool:
        """Whether a decision is what Kubernetes does: nobody has to write the slices."""
        plan = self._plans.get((decision.namespace, decision.service))
        return plan is not None and plan.is_of_kubernetes

    @property
    def order(self) -> tuple[ObjectKey, ...]:
        """The planned Services in the order in which they are shown."""
        if self._order is None:
            ranked = [(self._rank(plan.service) or 0, *key) for key, plan in self._plans.items()]
            self._order = tuple((namespace, name) for _, namespace, name in sorted(ranked))
        return self._order

    def __getitem__(self, key: ObjectKey) -> ServicePlan:
        return self._plans[key]

    def begin(self) -> None:
        """Mark all Services as stale, for their first plan. Where the built-in controller writes slices now, each plan
        is by what decides about the Service.
        """
        snapshot = replace(
            self._proxy_snapshot(), services=tuple(self._cache.services), slices=tuple(self._cache.slices)
        )
        self._of_kubernetes = configuration_of_kubernetes(self._configuration, self._options, snapshot)
        self._overlays = read_overlays(self.proxy_objects.config_maps)
        self._mark_stale({object_key_of(service) for service in self._cache.services})

    def update(self) -> Iterator[list[DecisionChange]]:
        """Plan the stale Services one at a time and yield the changes of each, which may be none.

        A caller may stop in between and continue with another call.
        """
        if self._nodes_changed or self._demand_changed:
            self.node_proxies = self._node_proxies()
            before, self._states = self._states, self._cluster_states(before=self.cluster_state)
            if before.affect_all_services(self._states):
                self._stale.update(self._plans)
            self._nodes_changed = self._demand_changed = False
        for key in self._in_order(self._stale):
            self._stale.discard(key)
            yield self._plan(key)

    # --- what is stale ------------------------------------------------------------------------------------------------

    def _mark_stale(self, keys: Collection[ObjectKey]) -> None:
        self._stale.update(keys)
        self._on_stale()

    def _on_node(self, old: LiveNode | None, new: LiveNode | None) -> None:
        if (old is None) != (new is None) or (old and new and node_zone(old) != node_zone(new)):
            self._nodes_changed = True
        if changes_demand(old, new):
            self._demand_changed = True
        if old and new and changes_kubelet(old, new):
            self._nodes_changed = True
            self._stale.update(self._plans)
        if self._nodes_changed or self._demand_changed:
            self._on_stale()

    def _cluster_states(self, before: ClusterState | None = None) -> ClusterStates:
        cache = self._cache
        if before is not None and not self._nodes_changed:
            zones = before.node_zones
        else:
            zones = {node.metadata.name: node_zone(node) for node in cache.nodes}
        # Pods are watched: where the cache has none, the cluster has none.
        return build_cluster_states(
            cache.nodes,
            zones,
            options=self._options,
            configuration=self._configuration,
            of_kubernetes=self._of_kubernetes,
            overlays=self._overlays,
            pods_known=True,
            node_proxies=self.node_proxies,
            service_parts=self._service_parts,
        )

    def _node_proxies(self) -> NodeProxies:
        return proxies_in(self._proxy_snapshot(), self._options)

    def _proxy_snapshot(self) -> Snapshot:
        objects = self.proxy_objects
        return Snapshot(
            nodes=tuple(sorted(self._cache.nodes, key=lambda node: node.metadata.name)),
            daemon_sets=objects.daemon_sets,
            pods=objects.pods,
            config_maps=objects.config_maps,
            unread_proxy_objects=objects.unread,
        )

    def _in_order(self, keys: Collection[ObjectKey]) -> list[ObjectKey]:
        if len(keys) < 2:
            return list(keys)

        def place(key: ObjectKey) -> tuple[int, str, str]:
            service = self._cache.services.get(*key)
            return (self._rank(service) or 0) if service else 0, *key

        return sorted(keys, key=place)

    # --- plans --------------------------------------------------------------------------------------------------------

    def _plan(self, key: ObjectKey) -> list[DecisionChange]:
        cache = self._cache
        before = self._views.get(key, ())
        service = cache.services.get(*key)
        if service is None or self._rank(service) is None:
            if self._plans.pop(key, None) is not None:
                self._order = None
            self._views.pop(key, None)
            self.now.pop(key, None)
            return _changes(before, ())
        state, slices = self._states.decided(
            service, tuple(sorted(cache.slices_of(*key), key=lambda slice_: slice_.metadata.name))
        )
        plan = plan_service(
            with_what_if(service, self._options, state.configuration),
            # By name, as an API server lists them: equal clusters give equal plans.
            pods=sorted(cache.pods_of(*key), key=lambda pod: pod.metadata.name),
            slices=slices,
            cluster_state=state,
            taken=_Names(cache, key[0]),
        )
        if key not in self._plans:
            self._order = None
        self._plans[key] = plan
        self.now[key] = traffic_now(
            service,
            slices=slices,
            demand=state.for_service(service).demand,
            node_proxies=self.node_proxies,
            gates=state.configuration.gates,
        )
        after = self._views[key] = tuple(decisions_document([plan], now=self.now)["decisions"])
        return _changes(before, after)


def _changes(before: tuple[DecisionDocument, ...], after: tuple[DecisionDocument, ...]) -> list[DecisionChange]:
    old = {view.address_type: view for view in before}
    new = {view.address_type: view for view in after}
    return [
        DecisionChange(old.get(family), new.get(family))
        for family in dict.fromkeys((*old, *new))
        if old.get(family) != new.get(family)
    ]
