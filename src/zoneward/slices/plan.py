"""The plan of a Service: from its Pods, the zones' demand and its existing slices to a decision and the slices to
write. Start reading here.

`plan_family` is the pipeline. Each step is a module of its name; it takes a value and returns one:

=========  ===============================================================================  ======================
step       does                                                                             returns
=========  ===============================================================================  ======================
endpoints  Pods to endpoints, counted by zone, readiness and the group that they were in    `ServiceEndpoints`
decide     the approach of the Service, the number of endpoints for each zone, and which    `Decision`
assign     each endpoint to its slice group                                                 `AssignedGroup` by key
encode     hints, zone labels, weights and annotations                                      `EncodedGroup` by key
pack       endpoints into slices, with the fewest changes                                   `PackedSlices`
changes    slices to create, update and delete, with their names and weights of zones       `SliceChanges`
=========  ===============================================================================  ======================

The commands and the lab call `plan_service`, which keeps nothing. The controller plans the same Service again and
again: `zoneward.slices.planner` keeps the endpoints and the slices between two plans, and calls `plan_families` with
them. Only the planner passes a `FamilyState`, which narrows the steps after the decision to what may have changed.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from zoneward.kube.adoption_marks import effective_selector
from zoneward.kube.objects import Condition, EndpointSlice, Pod, Service, ServiceEvent, is_ready
from zoneward.routing.decision import Decision
from zoneward.routing.placement.targets import Targets
from zoneward.routing.selection.endpoint_selection import (
    endpoints_of_all_ports,
)
from zoneward.routing.selection.expected_traffic import ExpectedTraffic, predict_service_traffic
from zoneward.routing.service_conditions import conditions_of, worst_family
from zoneward.routing.service_events import events_of, upstream_events_of
from zoneward.slices import upstream_hints
from zoneward.slices.assign import PendingWork, assign
from zoneward.slices.changes import SliceChanges, changes_of
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.decide import decide, decide_without_selector, without_slice_groups
from zoneward.slices.encode import encode, slice_template
from zoneward.slices.endpoints import (
    IPV4,
    IPV6,
    ServiceEndpoints,
    address_types,
    collect_endpoints,
    planned_address_types,
)
from zoneward.slices.existing import ExistingSlices, in_order
from zoneward.slices.family_state import FamilyState
from zoneward.slices.pack import pack
from zoneward.slices.slice_rules import managers_of, rule_of_others, rules_of_slices

# --- what goes in and what comes out ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class FamilyPlan:
    """The plan of one address family of a Service.

    ``replaced`` are slices of the built-in controller that ours replace; ``others`` are those of anybody else, which
    are never written but count in selection. ``void_hints`` says why proxies ignore all hints of the decision; None
    where they honor them.
    """

    service: Service = field(compare=False, repr=False)
    address_type: str
    decision: Decision
    changes: SliceChanges
    replaced: tuple[EndpointSlice, ...]
    others: tuple[EndpointSlice, ...]
    cluster_state: ClusterState = field(compare=False, repr=False)
    void_hints: str | None = None

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
        """``<approach>/<heuristic>`` of the decision that stands for the Service; None where it asks for none."""
        worst = worst_family({family.address_type: family.decision for family in self.families})
        return worst[1].asked_for if worst else None

    @property
    def worst_family(self) -> str | None:
        """The address type whose decision stands for the Service."""
        spoken = worst_family({family.address_type: family.decision for family in self.families})
        return spoken[0] if spoken else None


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

    ``pods`` are those its selector matches, ``slices`` all existing ones that name the Service, whoever manages them.
    ``taken`` holds names of slices elsewhere in the namespace that new ones must avoid; ``trigger_time`` (RFC 3339)
    goes into whatever is written.
    """
    # Each object once: the last of those with the same name counts.
    by_name = {each.metadata.name: each for each in slices}
    if not is_managed(service):
        return plan_unmanaged(service, by_name.values(), cluster_state)
    found = collect_families(service, pods=pods, slices=by_name.values(), cluster_state=cluster_state)
    return plan_families(
        service, found.endpoints, found.existing, cluster_state, trigger_time=trigger_time, taken=(taken, by_name)
    )


@dataclass(frozen=True, slots=True)
class CollectedFamilies:
    """What decisions about a managed Service start from, whatever it requests: the endpoints of each address family to
    plan, and the existing slices by family, also of families that it no longer has.
    """

    endpoints: tuple[ServiceEndpoints, ...]
    existing: Mapping[str, ExistingSlices]


def collect_families(
    service: Service, *, pods: Iterable[Pod], slices: Iterable[EndpointSlice], cluster_state: ClusterState
) -> CollectedFamilies:
    """The first step for all address families of a Service. Each of the ``slices`` has another name."""
    pods = {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods}.values()
    by_family = existing_by_family(service, slices, cluster_state)
    endpoints = []
    for address_type in planned_address_types(service, pods, cluster_state):
        if address_type not in by_family:
            by_family[address_type] = ExistingSlices(service, cluster_state.configuration, indexed=False)
        endpoints.append(collect_endpoints(address_type, service, pods, by_family[address_type], cluster_state))
    return CollectedFamilies(tuple(endpoints), by_family)


def existing_by_family(
    service: Service, slices: Iterable[EndpointSlice], cluster_state: ClusterState
) -> dict[str, ExistingSlices]:
    """The existing slices of a Service by address type, each given once."""
    by_family: dict[str, ExistingSlices] = {}
    for rank, slice_ in enumerate(slices):
        address_type = slice_.address_type
        if address_type not in by_family:
            by_family[address_type] = ExistingSlices(service, cluster_state.configuration, indexed=False)
        by_family[address_type].set(slice_, rank)
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


def plan_family(
    endpoints: ServiceEndpoints,
    existing: ExistingSlices,
    service: Service,
    cluster_state: ClusterState,
    *,
    trigger_time: str | None = None,
    taken: Sequence[Container[str]] = (),
    state: FamilyState | None = None,
) -> FamilyPlan:
    """Plan one address family of a Service, step by step.

    With a ``state``, only what may have changed since its last plan goes through the steps after the decision.
    """
    own = cluster_state.for_service(service)
    decision = decide_family(service, endpoints, existing, cluster_state)
    return plan_decision(
        decision, endpoints, existing, service, own, trigger_time=trigger_time, taken=taken, state=state
    )


def plan_decision(
    decision: Decision,
    endpoints: ServiceEndpoints,
    existing: ExistingSlices,
    service: Service,
    cluster_state: ClusterState,
    *,
    trigger_time: str | None = None,
    taken: Sequence[Container[str]] = (),
    state: FamilyState | None = None,
) -> FamilyPlan:
    """The steps after the decision. The plan may have another one: upstream's hints follow from the slices, and a
    Service that is being deleted may have too few of these.
    """
    configuration = cluster_state.configuration
    upstream = configuration.upstream
    targets = decision.targets
    if targets is None or upstream:
        # Upstream packs first, and then sets hints by what is in the slices.
        targets = Targets(endpoints.index)
    template = slice_template(
        service, address_type=endpoints.address_type, in_force=decision.remembered, configuration=configuration
    )
    if state is None:
        pending = PendingWork(endpoints.by_identity.values(), [each.slice for each in existing.own.values()])
    else:
        fingerprint = (template.labels, template.in_force, targets.encoding, targets.node_hints)
        pending = state.pending(targets, fingerprint)
    assigned = assign(targets, endpoints, pending)
    encoded = encode(template, targets, assigned)
    packed = pack(template, encoded, pending.slices)
    if upstream:
        packed = upstream_hints.set_hints(packed, decision)
        decision = upstream_hints.with_allocation(decision, packed)
    elif is_deleting(service) and decision.has_slice_groups and packed.count_missing(template) > 0:
        # A Service that is being deleted gets no new slices. All endpoints in those that it has are better than some
        # groups without a slice.
        decision = without_slice_groups(decision, endpoints.index)
        targets, template = Targets(endpoints.index), replace(template, in_force=None)
        assigned = assign(targets, endpoints, pending)
        packed = pack(template, encode(template, targets, assigned), pending.slices)
    touched = {each.metadata.name for each in (*packed.update, *packed.delete)}
    changes = changes_of(
        packed,
        [existing.own[name].slice for name in touched],
        service=service,
        taken=taken,
        trigger_time=trigger_time,
        weights=None if upstream else decision.weights,
    )
    if state is not None:
        state.mark_clean((each for each in pending.slices if each.metadata.name not in touched), targets)
    replaced, others = existing.replaced_and_others()
    rules, voiding = rules_of_slices(
        service,
        endpoints,
        changes,
        others,
        zone_hints=upstream or targets.encoding == "hints",
        node_hints=upstream or targets.node_hints,
    )
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
        cluster_state,
        void_hints=None if voiding is None else rules[voiding].detail,
    )


def plan_families(
    service: Service,
    endpoints: Iterable[ServiceEndpoints],
    existing: Mapping[str, ExistingSlices],
    cluster_state: ClusterState,
    *,
    trigger_time: str | None,
    taken: Sequence[Container[str]],
    states: Mapping[str, FamilyState] | None = None,
) -> ServicePlan:
    """Plan all address families of a Service. ``existing`` has the slices of these, and of those it no longer has."""
    created: set[str] = set()
    families: dict[str, FamilyPlan] = {}
    for each in endpoints:
        address_type = each.address_type
        family = families[address_type] = plan_family(
            each,
            existing[address_type],
            service,
            cluster_state,
            trigger_time=trigger_time,
            taken=(*taken, created),
            state=states[address_type] if states is not None else None,
        )
        created.update(slice_.metadata.name for slice_ in family.changes.create)
    decisions = {address_type: family.decision for address_type, family in families.items()}
    if cluster_state.configuration.upstream:
        conditions = (service.status.conditions or ()) if service.status else ()
        events = upstream_events_of(decisions, conditions=conditions)
    else:
        in_force = {each: existing[each].in_force if each in existing else None for each in (IPV4, IPV6)}
        events = events_of(service, decisions, in_force=in_force)
    surplus = _surplus(service, [slices for each, slices in existing.items() if each not in families])
    return ServicePlan(service, tuple(families.values()), conditions_of(decisions), events, surplus)


def _surplus(service: Service, existing: Sequence[ExistingSlices]) -> tuple[EndpointSlice, ...]:
    """Slices to delete of families that the Service no longer has."""
    own = {name: each for slices in existing for name, each in slices.own.items()}
    replaced = {name: each for slices in existing for name, each in slices.replaced.items()}
    kinds = (own,) if is_deleting(service) else (own, replaced)
    return tuple(each.slice for kind in kinds for each in in_order(kind))


# --- Services without Pods --------------------------------------------------------------------------------------------


def is_deleting(service: Service) -> bool:
    """Whether a Service is being deleted."""
    return service.metadata.deletion_timestamp is not None


def is_managed(service: Service) -> bool:
    """Whether we manage the slices of a Service: it selects Pods, and is no ExternalName."""
    return service.spec.type != "ExternalName" and bool(effective_selector(service))


def plan_unmanaged(service: Service, slices: Iterable[EndpointSlice], cluster_state: ClusterState) -> ServicePlan:
    """Plan a Service that is not managed. An ExternalName has no slices: our own are surplus. Without a selector,
    whoever writes the slices decides: they are only read."""
    existing = ExistingSlices(service, cluster_state.configuration, indexed=False)
    for rank, slice_ in enumerate(slices):
        existing.set(slice_, rank)
    own = tuple(each.slice for each in in_order(existing.own))
    if service.spec.type == "ExternalName":
        return ServicePlan(service, (), (), (), surplus=own)
    replaced, others = existing.replaced_and_others()
    listed = (*own, *replaced, *others)
    state = cluster_state.for_service(service)
    families = []
    for address_type in sorted({each.address_type for each in listed}) or address_types(service)[:1]:
        seen = tuple(each for each in listed if each.address_type == address_type)
        rule = rule_of_others(seen) if seen else None
        void_hints = rule.detail if rule is not None and not rule.passed else None
        decision = decide_without_selector(
            ready=sum(map(is_ready, endpoints_of_all_ports(seen))), managers=managers_of(seen), others=rule
        )
        families.append(
            FamilyPlan(service, address_type, decision, SliceChanges(), (), seen, state, void_hints=void_hints)
        )
    return ServicePlan(service, tuple(families), (), ())
