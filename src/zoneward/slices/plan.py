"""The plan of a Service: from its Pods, the zones' demand and its existing slices to a decision and the slices to
write. Start reading here.

`plan_family` is the pipeline. Each step takes values and returns one:

=========  ========================================================================  ==================================
step       does                                                                     returns
=========  ========================================================================  ==================================
endpoints  Pods to endpoints, counted by zone, readiness and the group they were in  `ServiceEndpoints`
decide     the approach, how many endpoints serve which zones, and which ones       `Decision` with `Targets`
desired    hints, zone labels and annotations                                       `DesiredSlices` by ports and zones
reconcile  the fewest changes of slices                                             `SliceChanges`
finalize   names of new slices, weights of zones, trigger time                      `SliceChanges`
=========  ========================================================================  ==================================

`zoneward.slices.upstream` replaces *desired* and *reconcile* under ``--compat=upstream``. The commands and the lab call
`plan_service`, which keeps nothing. The controller plans the same Service again and again: `zoneward.slices.planner`
keeps what did not change, and passes a `ReconcileChanged`.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from zoneward.kube.adoption_marks import effective_selector
from zoneward.kube.objects import Condition, EndpointIdentity, EndpointSlice, Pod, Service, ServiceEvent, is_ready
from zoneward.routing.configuration import Configuration, compatibility_of
from zoneward.routing.decision import Decision
from zoneward.routing.placement import Target, Targets
from zoneward.routing.selection.endpoint_selection import endpoints_of_all_ports
from zoneward.routing.selection.traffic import ExpectedTraffic, predict_service_traffic
from zoneward.routing.service_events import conditions_of, events_of, last_reported, upstream_events_of, worst_family
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.decide import (
    decide,
    decide_without_selector,
    managers_of,
    rule_of_others,
    rules_of_slices,
    without_slice_groups,
)
from zoneward.slices.desired import SliceTemplate, desired, slice_template
from zoneward.slices.endpoints import (
    IPV4,
    IPV6,
    ServiceEndpoints,
    address_types,
    collect_endpoints,
    planned_address_types,
)
from zoneward.slices.existing import ExistingSlices, Manager
from zoneward.slices.overlay import overlay_changes
from zoneward.slices.reconcile import SliceChanges, finalize, reconcile
from zoneward.slices.upstream import reconcile_as_upstream

# --- input and output ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class FamilyPlan:
    """The plan of one address family of a Service.

    ``replaced`` are slices of the built-in controller that we replace; ``others`` are slices with another manager,
    which we never write, but proxies use them. ``endpoints`` are valid until the next plan of the Service.
    ``void_hints`` says why proxies ignore all hints of the decision; None where they honor them.
    """

    service: Service = field(compare=False, repr=False)
    address_type: str
    decision: Decision
    changes: SliceChanges
    replaced: tuple[EndpointSlice, ...]
    others: tuple[EndpointSlice, ...]
    cluster_state: ClusterState = field(compare=False, repr=False)
    endpoints: ServiceEndpoints | None = field(default=None, compare=False, repr=False)
    void_hints: str | None = None

    @property
    def targets(self) -> dict[EndpointIdentity, Target]:
        """What each endpoint gets; empty for a Service without a selector."""
        targets = self.decision.targets
        if targets is None or self.endpoints is None:
            return {}
        return {key: targets.of(endpoint) for key, endpoint in self.endpoints.by_identity.items()}

    @property
    def slices(self) -> tuple[EndpointSlice, ...]:
        """Every slice that proxies see afterwards."""
        return (*self.changes.after, *self.others)

    @cached_property
    def traffic(self) -> ExpectedTraffic | None:
        """What proxies do with these slices. None for a Service that they ignore (headless), and without demand."""
        state = self.cluster_state
        return predict_service_traffic(
            self.service, self.slices, consumers=state.consumers_of(self.service), gates=state.configuration.gates
        )


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """The plan of a Service: one for each address family, and the conditions and events of the Service as a whole.

    ``surplus`` are slices of address families that the Service no longer has, to be deleted.
    """

    service: Service
    families: tuple[FamilyPlan, ...]
    conditions: tuple[Condition, ...]
    events: tuple[ServiceEvent, ...]
    surplus: tuple[EndpointSlice, ...] = ()

    @property
    def requested(self) -> str | None:
        """``<approach>/<heuristic>`` of the decision that is reported for the Service; None where it asks for none."""
        worst = self._worst()
        return worst[1].asked_for if worst else None

    @property
    def worst_family(self) -> str | None:
        """The address type whose decision is reported for the Service."""
        worst = self._worst()
        return worst[0] if worst else None

    @property
    def is_of_kubernetes(self) -> bool:
        """Whether it shows what Kubernetes does: nobody has to write the slices."""
        return any(family.cluster_state.is_of_kubernetes for family in self.families)

    @property
    def decisions(self) -> dict[str, Decision]:
        """The decision about each address family, by address type."""
        return {family.address_type: family.decision for family in self.families}

    def _worst(self) -> tuple[str, Decision] | None:
        return worst_family(self.decisions)


def plan_service(
    service: Service,
    *,
    pods: Iterable[Pod],
    slices: Iterable[EndpointSlice],
    cluster_state: ClusterState,
    trigger_time: str | None = None,
    taken: Container[str] = (),
) -> ServicePlan:
    """Plan one Service.

    ``pods`` are those its selector matches, ``slices`` all existing ones that name the Service, with any manager.
    ``taken`` holds names of slices elsewhere in the namespace that new ones must avoid; ``trigger_time`` (RFC 3339)
    is an annotation of all slices that are written.
    """
    # Deduplicate by name; the last one wins.
    by_name = {slice_.metadata.name: slice_ for slice_ in slices}
    if not is_managed(service):
        return plan_unmanaged(service, by_name.values(), cluster_state)
    collected = collect_families(service, pods=pods, slices=by_name.values(), cluster_state=cluster_state)
    return plan_families(
        service,
        collected.endpoints,
        collected.existing,
        cluster_state,
        trigger_time=trigger_time,
        taken=(taken, by_name),
    )


@dataclass(frozen=True, slots=True)
class CollectedFamilies:
    """The input of decisions about a managed Service, for any request: the endpoints of each address family to
    plan, and the existing slices by family, also of families that it no longer has.
    """

    endpoints: tuple[ServiceEndpoints, ...]
    existing: Mapping[str, ExistingSlices]


def collect_families(
    service: Service, *, pods: Iterable[Pod], slices: Iterable[EndpointSlice], cluster_state: ClusterState
) -> CollectedFamilies:
    """The first step for all address families of a Service. Each of the ``slices`` has another name."""
    pods = {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods}.values()
    existing = existing_by_family(service, slices, cluster_state)
    endpoints = tuple(
        collect_endpoints(address_type, service, pods, existing[address_type], cluster_state)
        for address_type in planned_address_types(service, pods, cluster_state)
    )
    return CollectedFamilies(endpoints, existing)


def existing_by_family(
    service: Service, slices: Iterable[EndpointSlice], cluster_state: ClusterState
) -> defaultdict[str, ExistingSlices]:
    """The existing slices of a Service by address type, each given once; of any other type, none."""
    by_family = defaultdict[str, ExistingSlices](lambda: ExistingSlices(service, cluster_state.configuration))
    for slice_ in slices:
        by_family[slice_.address_type].set(slice_)
    return by_family


def decide_family(
    service: Service, endpoints: ServiceEndpoints, existing: ExistingSlices, cluster_state: ClusterState
) -> Decision:
    """The decision about one address family of a managed Service."""
    return decide(
        service,
        endpoints.index,
        demand=cluster_state.for_service(service).decision_demand(),
        in_force=existing.in_force,
        configuration=cluster_state.configuration,
        slice_groups_read=cluster_state.reads_slice_groups(service),
    )


# --- the pipeline -----------------------------------------------------------------------------------------------------

ReconcileChanged = Callable[[SliceTemplate, Targets], SliceChanges]
"""*Desired* and *reconcile* for what may have changed since the last plan."""


def plan_family(
    endpoints: ServiceEndpoints,
    existing: ExistingSlices,
    service: Service,
    cluster_state: ClusterState,
    *,
    trigger_time: str | None = None,
    taken: Sequence[Container[str]] = (),
    reconcile_changed: ReconcileChanged | None = None,
) -> FamilyPlan:
    """Plan one address family of a Service, step by step.

    The steps after the decision may change it: upstream's hints follow from the slices, and a Service that is being
    deleted may have too few of these.
    """
    decision = decide_family(service, endpoints, existing, cluster_state)
    configuration = cluster_state.configuration
    own_slices = {own.slice.metadata.name: own.slice for own in existing.own}
    if compatibility_of(configuration).sets_hints_in_slices:
        decision, changes = reconcile_as_upstream(
            decision, endpoints, own_slices.values(), service=service, configuration=configuration
        )
        weights, hints = None, (True, True)
    else:
        decision, changes = _reconcile(
            decision,
            endpoints,
            own_slices.values(),
            service,
            configuration=configuration,
            reconcile_changed=reconcile_changed,
        )
        weights, targets = decision.weights, decision.targets
        hints = targets is not None and targets.encoding == "hints", targets is not None and targets.node_hints
    if configuration.is_overlay:
        weights = None
        if reconcile_changed is None:
            changes = overlay_changes(decision, own_slices, changes)
    changes = finalize(changes, own_slices, service=service, taken=taken, trigger_time=trigger_time, weights=weights)
    replaced, others = existing.replaced_and_others()
    rules, voiding = rules_of_slices(service, endpoints, changes, others, zone_hints=hints[0], node_hints=hints[1])
    if rules:
        deciding = decision.deciding if voiding is None else len(decision.rules) + voiding
        decision = replace(decision, rules=(*decision.rules, *rules), deciding=deciding)
    return FamilyPlan(
        service,
        endpoints.address_type,
        decision,
        changes,
        replaced,
        others,
        cluster_state.for_service(service),
        endpoints,
        void_hints=None if voiding is None else rules[voiding].detail,
    )


def _reconcile(
    decision: Decision,
    endpoints: ServiceEndpoints,
    existing: Iterable[EndpointSlice],
    service: Service,
    *,
    configuration: Configuration,
    reconcile_changed: ReconcileChanged | None,
) -> tuple[Decision, SliceChanges]:
    """What slices should be, and the changes that make them so. The decision may be another one: a Service that is
    being deleted may have too few slices.
    """
    template = slice_template(
        service, address_type=endpoints.address_type, in_force=decision.remembered, configuration=configuration
    )
    targets = decision.targets or Targets(endpoints.index)
    if reconcile_changed is not None:
        return decision, reconcile_changed(template, targets)
    members = endpoints.by_identity.values()
    changes = reconcile(template, desired(template, targets, endpoints, members), existing)
    if is_deleting(service) and decision.has_slice_groups and changes.count_missing(service) > 0:
        # A Service that is being deleted gets no new slices. All endpoints in those that it has are better than some
        # groups without a slice.
        decision = without_slice_groups(decision, endpoints.index)
        template = replace(template, in_force=None)
        changes = reconcile(template, desired(template, Targets(endpoints.index), endpoints, members), existing)
    return decision, changes


def plan_families(
    service: Service,
    endpoints: Iterable[ServiceEndpoints],
    existing: Mapping[str, ExistingSlices],
    cluster_state: ClusterState,
    *,
    trigger_time: str | None,
    taken: Sequence[Container[str]],
    reconcile_changed: Mapping[str, ReconcileChanged] | None = None,
) -> ServicePlan:
    """Plan all address families of a Service. ``existing`` has the slices of these, and of those it no longer has."""
    created: set[str] = set()
    families: dict[str, FamilyPlan] = {}
    for family_endpoints in endpoints:
        address_type = family_endpoints.address_type
        family = families[address_type] = plan_family(
            family_endpoints,
            existing[address_type],
            service,
            cluster_state,
            trigger_time=trigger_time,
            taken=(*taken, created),
            reconcile_changed=reconcile_changed[address_type] if reconcile_changed is not None else None,
        )
        created.update(slice_.metadata.name for slice_ in family.changes.create)
    decisions = {address_type: family.decision for address_type, family in families.items()}
    if compatibility_of(cluster_state.configuration).repeats_events:
        events = upstream_events_of(decisions, last=last_reported(service))
    else:
        in_force = {family: existing[family].in_force if family in existing else None for family in (IPV4, IPV6)}
        events = events_of(service, decisions, in_force=in_force)
    surplus = _surplus(service, [slices for family, slices in existing.items() if family not in families])
    return ServicePlan(service, tuple(families.values()), conditions_of(decisions), events, surplus)


def _surplus(service: Service, existing: Sequence[ExistingSlices]) -> tuple[EndpointSlice, ...]:
    """Slices to delete of families that the Service no longer has."""
    managers = (Manager.OWN,) if is_deleting(service) else (Manager.OWN, Manager.REPLACED)
    return tuple(
        existing_slice.slice
        for manager in managers
        for slices in existing
        for existing_slice in slices.managed_by(manager)
    )


# --- Services without Pods --------------------------------------------------------------------------------------------


def is_deleting(service: Service) -> bool:
    """Whether a Service is being deleted."""
    return service.metadata.deletion_timestamp is not None


def is_managed(service: Service) -> bool:
    """Whether we manage the slices of a Service: it selects Pods, and is no ExternalName."""
    return service.spec.type != "ExternalName" and bool(effective_selector(service))


def plan_unmanaged(service: Service, slices: Iterable[EndpointSlice], cluster_state: ClusterState) -> ServicePlan:
    """Plan a Service that is not managed. An ExternalName has no slices: our own are surplus. Without a selector,
    the writer of the slices decides, and Zoneward only reads them."""
    existing = ExistingSlices(service, cluster_state.configuration)
    for slice_ in slices:
        existing.set(slice_)
    own = tuple(own_slice.slice for own_slice in existing.own)
    if service.spec.type == "ExternalName":
        return ServicePlan(service, (), (), (), surplus=own)
    replaced, others = existing.replaced_and_others()
    listed = (*own, *replaced, *others)
    state = cluster_state.for_service(service)
    families = []
    for address_type in sorted({slice_.address_type for slice_ in listed}) or address_types(service)[:1]:
        seen = tuple(slice_ for slice_ in listed if slice_.address_type == address_type)
        rule = rule_of_others(seen) if seen else None
        void_hints = rule.detail if rule is not None and not rule.passed else None
        decision = decide_without_selector(
            ready=sum(map(is_ready, endpoints_of_all_ports(seen))), managers=managers_of(seen), others=rule
        )
        families.append(
            FamilyPlan(service, address_type, decision, SliceChanges(), (), seen, state, void_hints=void_hints)
        )
    return ServicePlan(service, tuple(families), (), ())
