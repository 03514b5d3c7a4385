"""The plan of a Service: from its Pods, the zones' demand and its existing slices to a decision and the slices to
write.

Everything that decides goes through `plan_service`: the commands, the controller, the lab. Start reading here.
"""

import dataclasses
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from zoneward.kube import names
from zoneward.kube.objects import Condition, Endpoint, EndpointSlice, Pod, Service, is_ready
from zoneward.routing.allocation import Allocation
from zoneward.routing.asked import Approach
from zoneward.routing.conditions import conditions_of
from zoneward.routing.configuration import Configuration
from zoneward.routing.deciding import decide
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand
from zoneward.routing.events import Event, events_of, upstream_events_of
from zoneward.routing.groups import own_group
from zoneward.routing.outcome import speaker
from zoneward.routing.reasons import Reason
from zoneward.routing.rules import Rule, counted, listed
from zoneward.routing.selection import (
    ZONEWARD,
    Consumer,
    endpoints_of_all_ports,
    hints_heeded,
    is_proxied,
    policies_of,
    slice_groups,
)
from zoneward.routing.traffic import Traffic, predict
from zoneward.slices import upstream
from zoneward.slices.encoding import encoded, in_order
from zoneward.slices.endpoints import (
    IPV4,
    IPV6,
    Endpoints,
    address_types,
    endpoints_of_pods,
    endpoints_of_slices,
)
from zoneward.slices.labels import slice_labels
from zoneward.slices.packing import Packed, SliceChanges, Target, finish, is_owned, lacks_slices, pack
from zoneward.slices.previous import in_force_of, previous_of


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all Services of a cluster share.

    ``node_zones`` has every Node that exists with its zone or None. ``pods_known`` is off where a snapshot holds no
    Pods: endpoints are then taken from its slices. ``consumer`` is the kind of proxy that traffic is predicted for.
    """

    demand: Demand
    node_zones: Mapping[str, str | None]
    configuration: Configuration
    pods_known: bool = True
    consumer: Consumer = ZONEWARD


@dataclass(frozen=True, slots=True)
class FamilyPlan:
    """What one address family of a Service comes to.

    ``replaced`` are slices of the built-in controller that this plan's would stand in for; ``others`` those of anybody
    else, which are never written but count in selection. ``traffic`` is None where nothing can be predicted.
    """

    address_type: str
    decision: Decision
    changes: SliceChanges
    replaced: tuple[EndpointSlice, ...]
    others: tuple[EndpointSlice, ...]
    traffic: Traffic | None

    @property
    def void_hints(self) -> str | None:
        """Why proxies heed none of the hints that the decision set, or None where they do."""
        return next(
            (rule.detail for rule in self.decision.rules if rule.rule == "slices-of-others" and not rule.passed), None
        )

    @property
    def slices(self) -> tuple[EndpointSlice, ...]:
        """Every slice that proxies would see afterwards."""
        return (*self.changes.after, *self.others)


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """What a Service comes to: a plan per address family, and what is told about the Service as a whole.

    ``surplus`` are slices of address families that the Service no longer has, to be deleted.
    """

    service: Service
    families: tuple[FamilyPlan, ...]
    conditions: tuple[Condition, ...]
    events: tuple[Event, ...]
    surplus: tuple[EndpointSlice, ...] = ()

    @property
    def speaker(self) -> str | None:
        """The address type whose decision speaks for the Service."""
        spoken = speaker({family.address_type: family.decision for family in self.families})
        return spoken[0] if spoken else None


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Existing slices of a Service by who manages them."""

    own: tuple[EndpointSlice, ...]
    replaced: tuple[EndpointSlice, ...]
    others: tuple[EndpointSlice, ...]


def plan_service(
    service: Service,
    *,
    pods: Iterable[Pod],
    slices: Iterable[EndpointSlice],
    surroundings: Surroundings,
    trigger_time: str | None = None,
    taken: Container[str] = (),
) -> ServicePlan:
    """Plan one Service.

    ``pods`` are those its selector matches, ``slices`` all existing ones that name the Service, whoever manages them.
    ``taken`` holds names of slices elsewhere in the namespace that new ones must avoid; ``trigger_time`` (RFC 3339)
    goes into whatever is written.
    """
    configuration = surroundings.configuration
    sorted_slices = _sort(slices, configuration)
    if service.metadata.deletion_timestamp is not None:
        # Where nothing new is made, nothing may go: the garbage collector takes all slices with the Service.
        others = (*sorted_slices.others, *sorted_slices.replaced)
        sorted_slices = _Sorted(sorted_slices.own, (), others)
    if service.spec.type == "ExternalName":
        return ServicePlan(service, (), (), (), surplus=sorted_slices.own)
    if not service.spec.selector:
        return _unmanaged(service, sorted_slices, surroundings)
    pods = tuple(pods)
    families = address_types(service, None if configuration.upstream else pods)
    names_taken = {each.metadata.name for group in _all(sorted_slices) for each in group}
    plans = []
    for address_type in families:
        plan = _plan_family(
            service,
            address_type,
            pods,
            _of_family(sorted_slices, address_type),
            surroundings,
            trigger_time=trigger_time,
            taken=(taken, names_taken),
        )
        names_taken.update(each.metadata.name for each in plan.changes.create)
        plans.append(plan)
    decisions = {plan.address_type: plan.decision for plan in plans}
    told = (service.status.conditions or ()) if service.status else ()
    if configuration.upstream:
        events = upstream_events_of(decisions, told=told)
    else:
        in_force = {
            family: in_force_of(_owned(_of_family(sorted_slices, family).own, service)) for family in (IPV4, IPV6)
        }
        events = events_of(decisions, in_force=in_force, told=told)
    surplus = tuple(each for each in (*sorted_slices.own, *sorted_slices.replaced) if each.address_type not in families)
    return ServicePlan(service, tuple(plans), conditions_of(decisions), events, surplus)


def _plan_family(
    service: Service,
    address_type: str,
    pods: Sequence[Pod],
    existing: _Sorted,
    surroundings: Surroundings,
    *,
    trigger_time: str | None,
    taken: Sequence[Container[str]],
) -> FamilyPlan:
    configuration = surroundings.configuration
    if surroundings.pods_known:
        endpoints = endpoints_of_pods(
            service,
            pods,
            node_zones=surroundings.node_zones,
            address_type=address_type,
            # Without any Node in the snapshot nothing says that a Pod's Node is gone.
            keep_without_node=not surroundings.node_zones and not configuration.upstream,
        )
    else:
        endpoints = endpoints_of_slices(_owned((*existing.own, *existing.replaced), service))
    counted = endpoints
    if service.spec.ports and not configuration.upstream:
        # A Pod that has none of the ports serves nobody: it is listed, and no proxy ever picks it.
        counted = Endpoints({key: group for key, group in endpoints.groups.items() if group.ports}, endpoints.gone)
    decision = decide(
        service,
        in_order(counted),
        demand=surroundings.demand,
        previous=previous_of(_owned(existing.own, service), _owned(existing.replaced, service)),
        configuration=configuration,
    )
    target = Target(
        service=service,
        address_type=address_type,
        labels=slice_labels(service, manager=configuration.manager, upstream=configuration.upstream),
        in_force=None if configuration.upstream else decision.in_force,
        upstream=configuration.upstream,
        max_endpoints=configuration.max_endpoints_per_slice,
    )
    if configuration.upstream:
        packed = upstream.set_hints(pack(target, existing.own, endpoints.groups), decision)
        decision = _as_encoded(decision, packed)
    else:
        packed = pack(target, existing.own, {**endpoints.groups, **encoded(counted, decision).groups})
        if (
            decision.groups is not None
            and service.metadata.deletion_timestamp is not None
            and lacks_slices(packed, service)
        ):
            # A Service that is being deleted gets no new slices. Better all endpoints in those that it has than
            # some groups without.
            decision = _without_groups(decision)
            packed = pack(dataclasses.replace(target, in_force=None), existing.own, endpoints.groups)
    changes = finish(packed, existing.own, service=service, taken=taken, trigger_time=trigger_time)
    decision = dataclasses.replace(
        decision, rules=(*decision.rules, *_more_rules(service, endpoints, changes, existing))
    )
    return FamilyPlan(
        address_type=address_type,
        decision=decision,
        changes=changes,
        replaced=existing.replaced,
        others=existing.others,
        traffic=_traffic(service, (*changes.after, *existing.others), surroundings),
    )


def _unmanaged(service: Service, existing: _Sorted, surroundings: Surroundings) -> ServicePlan:
    """A Service without selector: whoever writes its slices decides. They are looked at, never touched."""
    slices = (*existing.own, *existing.replaced, *existing.others)
    families = sorted({each.address_type for each in slices})
    message = "no selector: its EndpointSlices are managed by others"
    plans = []
    for family in families or address_types(service)[:1]:
        seen = tuple(each for each in slices if each.address_type == family)
        ready = sum(map(is_ready, endpoints_of_all_ports(seen)))
        rules = (Rule("selector", False, f"{message} ({listed(_managers(seen)) or 'there are none'})"),)
        decision = Decision(
            approach=Approach.CLUSTER_WIDE,
            heuristic=None,
            active=False,
            reason=Reason.NO_SELECTOR,
            message=message,
            endpoints=ready,
            allocation=None,
            hints=(),
            rules=(*rules, *_others_rules(seen)),
        )
        traffic = _traffic(service, seen, surroundings)
        plans.append(FamilyPlan(family, decision, SliceChanges(), (), seen, traffic))
    return ServicePlan(service, tuple(plans), (), ())


def _traffic(service: Service, slices: Sequence[EndpointSlice], surroundings: Surroundings) -> Traffic | None:
    """What selection will do. None for Services that proxies leave alone (headless) and where no demand is known."""
    if not is_proxied(service):
        return None
    gates = surroundings.configuration.gates
    return predict(
        endpoints_of_all_ports(slices),
        demand=surroundings.demand,
        policies=policies_of(service, gates),
        heeded=hints_heeded(service, surroundings.consumer, gates),
        groups=slice_groups(slices, surroundings.consumer, gates),
    )


def _as_encoded(decision: Decision, packed: Packed) -> Decision:
    """A decision with the allocation and the hints that upstream's way left in the slices."""
    if decision.ranges is None:
        return decision
    endpoints = [
        endpoint
        for each in (*packed.create, *packed.update, *packed.unchanged)
        for endpoint in each.endpoints or ()
        if endpoint.hints is not None and endpoint.hints.for_zones and upstream.is_strictly_ready(endpoint)
    ]
    pairs = [(endpoint.zone or "", _hinted(endpoint)) for endpoint in endpoints]
    zones = tuple(sorted({*decision.ranges, *(zone for pair in pairs for zone in pair)}))
    counts = [0] * (len(zones) ** 2)
    for located, consumer in pairs:
        counts[zones.index(consumer) * len(zones) + zones.index(located)] += 1
    allocation = Allocation(zones, tuple(map(own_group, zones)), tuple(counts))
    return dataclasses.replace(decision, allocation=allocation, ranges=None)


def _without_groups(decision: Decision) -> Decision:
    message = "the Service is being deleted, and there are not enough slices for its groups"
    return dataclasses.replace(
        decision,
        active=False,
        reason=Reason.BEING_DELETED,
        message=message,
        allocation=None,
        groups=None,
        moved=0,
        rules=(*decision.rules, Rule("groups-of-deleted", False, message)),
    )


def _hinted(endpoint: Endpoint) -> str:
    return endpoint.hints.for_zones[0].name if endpoint.hints and endpoint.hints.for_zones else ""


# --- rules that only the slices show ----------------------------------------------------------------------------------


def _more_rules(service: Service, endpoints: Endpoints, changes: SliceChanges, existing: _Sorted) -> tuple[Rule, ...]:
    rules = list(_target_rules(service, endpoints))
    if endpoints.gone:
        detail = f"{counted(len(endpoints.gone), 'pod')} left out: their node is gone ({listed(endpoints.gone)})"
        rules.append(Rule("pod-nodes", False, detail))
    hints = [endpoint.hints for each in changes.after for endpoint in each.endpoints or () if endpoint.hints]
    nodes = any(each.for_nodes for each in hints)
    rules.extend(_others_rules(existing.others, hinted=bool(hints), nodes=nodes))
    if service.spec.internal_traffic_policy == "Local":
        rules.append(
            Rule(
                "internal-traffic-policy",
                False,
                "internalTrafficPolicy is Local: hints do not matter inside the cluster",
            )
        )
    if not is_proxied(service):
        rules.append(
            Rule("proxied", False, "headless: clients choose among all addresses, hints are for DNS and others")
        )
    return tuple(rules)


def _target_rules(service: Service, endpoints: Endpoints) -> Iterator[Rule]:
    """Ports that some Pods do not serve, because they have no container port of the name that the target has."""
    for port in service.spec.ports or ():
        key = (port.name, port.protocol)
        without = sum(
            len(group.endpoints)
            for group in endpoints.groups.values()
            if key not in {(each.name or "", each.protocol or "TCP") for each in group.ports}
        )
        if without:
            detail = f"{counted(without, 'endpoint')} without a target for port {port.name or port.port}"
            yield Rule("target-ports", False, f"{detail}: no container port is called {port.target_port!r}")


def _others_rules(others: Sequence[EndpointSlice], *, hinted: bool = True, nodes: bool = False) -> tuple[Rule, ...]:
    """Slices of others count too, and one ready endpoint without hints voids all hints (KEP-2433 § Observability)."""
    if not others:
        return ()
    where = f"{listed(tuple(sorted(each.metadata.name for each in others)))} managed by {listed(_managers(others))}"
    if hinted and any(_voids_hints(each, nodes=nodes) for each in others):
        detail = f"{where}: left alone; endpoints without such hints there void those of the Service"
        return (Rule("slices-of-others", False, detail),)
    return (Rule("slices-of-others", True, f"{where}: left alone, they count in selection"),)


def _voids_hints(each: EndpointSlice, *, nodes: bool) -> bool:
    """Whether a ready endpoint of the slice says nothing about zones, or ``nodes``: proxies then heed no such hint."""
    for endpoint in each.endpoints or ():
        hints = endpoint.hints
        if is_ready(endpoint) and not (hints and (hints.for_nodes if nodes else hints.for_zones)):
            return True
    return False


def _managers(slices: Iterable[EndpointSlice]) -> tuple[str, ...]:
    found = {(each.metadata.labels or {}).get(names.MANAGED_BY_LABEL) or "nobody named" for each in slices}
    return tuple(sorted(found))


# --- existing slices --------------------------------------------------------------------------------------------------


def _sort(slices: Iterable[EndpointSlice], configuration: Configuration) -> _Sorted:
    own, replaced, others = [], [], []
    for each in slices:
        manager = (each.metadata.labels or {}).get(names.MANAGED_BY_LABEL)
        if manager == configuration.manager:
            own.append(each)
        elif manager == names.BUILT_IN_MANAGER:
            replaced.append(each)
        else:
            others.append(each)
    return _Sorted(tuple(own), tuple(replaced), tuple(others))


def _owned(slices: Sequence[EndpointSlice], service: Service) -> tuple[EndpointSlice, ...]:
    """Without those of an earlier Service of the same name, which say nothing about this one."""
    return tuple(each for each in slices if is_owned(each, service))


def _of_family(existing: _Sorted, address_type: str) -> _Sorted:
    return _Sorted(*(tuple(each for each in group if each.address_type == address_type) for group in _all(existing)))


def _all(existing: _Sorted) -> tuple[tuple[EndpointSlice, ...], ...]:
    return existing.own, existing.replaced, existing.others
