"""From one address family of a Service, as it is kept, to its plan: decision, slices to write, and the rules behind."""

import dataclasses
from collections.abc import Container, Sequence

from zoneward.kube.objects import EndpointSlice, Service, is_ready
from zoneward.routing.allocation import Allocation
from zoneward.routing.deciding import decide_for
from zoneward.routing.decision import Decision
from zoneward.routing.late import altered
from zoneward.routing.placement.assignment import Assignment
from zoneward.routing.placement.groups import own_group
from zoneward.routing.request.approach import Approach
from zoneward.routing.rules import Reason, Rule, listed
from zoneward.routing.selection.endpoint_selection import (
    endpoints_of_all_ports,
    honored_hints,
    is_proxied,
    policies_of,
    slice_groups,
)
from zoneward.routing.selection.expected_traffic import ExpectedTraffic, predict_traffic
from zoneward.slices import upstream
from zoneward.slices.endpoints import address_types
from zoneward.slices.kept_family import KeptFamily
from zoneward.slices.kept_slices import KeptSlices, in_order
from zoneward.slices.labels import slice_labels
from zoneward.slices.packing import Packed, SliceChanges, Target, finish, lacks_slices, pack
from zoneward.slices.planned import FamilyPlan, ServicePlan, Surroundings
from zoneward.slices.previous import agreed
from zoneward.slices.slice_rules import managers, more_rules, others_rules


def plan_family(
    kept: KeptFamily,
    service: Service,
    surroundings: Surroundings,
    *,
    trigger_time: str | None,
    taken: Sequence[Container[str]],
    once: bool,
) -> FamilyPlan:
    """Plan one address family. ``once``: it is not kept, so that nothing need be remembered."""
    configuration = surroundings.configuration
    deleting = service.metadata.deletion_timestamp is not None
    decision = decide_for(
        service,
        kept.crowd,
        demand=surroundings.demand,
        in_force=agreed(kept.slices.said),
        configuration=configuration,
    )
    assignment = decision.assignment
    if assignment is None or configuration.upstream:
        # Upstream packs first, and hints what is in slices then.
        assignment = Assignment(kept.crowd)
    target = Target(
        service=service,
        address_type=kept.address_type,
        labels=slice_labels(service, manager=configuration.manager, upstream=configuration.upstream),
        in_force=None if configuration.upstream else decision.in_force,
        upstream=configuration.upstream,
        max_endpoints=configuration.max_endpoints_per_slice,
    )
    # Upstream's hints depend on every slice that a change happens to touch, and a Service is being deleted only once.
    keeps = not (once or configuration.upstream or deleting)
    regime = (target.labels, target.in_force, assignment.kind, assignment.node_hints)
    kept.loosen(assignment, regime if keeps else None)
    existing = kept.unsettled()
    packed = pack(target, existing, kept.loose(assignment), kept.settled)
    if configuration.upstream:
        packed = upstream.set_hints(packed, decision)
        decision = _as_encoded(decision, packed)
    elif deleting and assignment.kind == "groups" and lacks_slices(packed, service):
        # A Service that is being deleted gets no new slices. Better all endpoints in those that it has than some groups
        # without.
        assignment = Assignment(kept.crowd)
        decision = _without_groups(decision, assignment)
        target = dataclasses.replace(target, in_force=None)
        packed = pack(target, existing, kept.loose(assignment))
    touched = {each.metadata.name for each in (*packed.update, *packed.delete)}
    before = [kept.slices.own[name].slice for name in touched]
    changes = finish(packed, before, service=service, taken=taken, trigger_time=trigger_time)
    if keeps:
        kept.settle((each for each in existing if each.metadata.name not in touched), assignment)
    replaced, others = replaced_and_others(kept.slices, service)
    rules = more_rules(
        service,
        sizes=[(ports.ports, ports.size) for ports in kept.ports.values()],
        gone=kept.gone,
        refused=kept.refused,
        changes=changes,
        others=others,
        zone_hints=configuration.upstream or assignment.kind == "hints",
        node_hints=configuration.upstream or assignment.node_hints,
    )
    return FamilyPlan(
        address_type=kept.address_type,
        decision=altered(decision, rules=(*decision.rules, *rules)),
        changes=changes,
        replaced=replaced,
        others=others,
        traffic=lambda: _traffic(service, (*changes.after, *others), surroundings),
    )


def plan_unmanaged(
    service: Service,
    own: Sequence[EndpointSlice],
    replaced: Sequence[EndpointSlice],
    others: Sequence[EndpointSlice],
    surroundings: Surroundings,
) -> ServicePlan:
    """A Service without selector: whoever writes its slices decides. They are looked at, never touched."""
    slices = (*own, *replaced, *others)
    families = sorted({each.address_type for each in slices})
    message = "no selector: its EndpointSlices are managed by others"
    plans = []
    for family in families or address_types(service)[:1]:
        seen = tuple(each for each in slices if each.address_type == family)
        ready = sum(map(is_ready, endpoints_of_all_ports(seen)))
        rules = (Rule("selector", False, f"{message} ({listed(managers(seen)) or 'there are none'})"),)
        decision = Decision(
            approach=Approach.CLUSTER_WIDE,
            heuristic=None,
            active=False,
            reason=Reason.NO_SELECTOR,
            message=message,
            endpoints=ready,
            allocation=None,
            hints=(),
            rules=(*rules, *others_rules(seen)),
        )
        traffic = _traffic(service, seen, surroundings)
        plans.append(FamilyPlan(family, decision, SliceChanges(), (), seen, traffic))
    return ServicePlan(service, tuple(plans), (), ())


def replaced_and_others(
    slices: KeptSlices, service: Service
) -> tuple[tuple[EndpointSlice, ...], tuple[EndpointSlice, ...]]:
    """The built-in controller's slices, and everybody else's. Of a Service that is being deleted none are replaced."""
    replaced = tuple(each.slice for each in in_order(slices.replaced))
    others = tuple(each.slice for each in in_order(slices.others))
    return ((), (*others, *replaced)) if service.metadata.deletion_timestamp is not None else (replaced, others)


def _traffic(service: Service, slices: Sequence[EndpointSlice], surroundings: Surroundings) -> ExpectedTraffic | None:
    """What selection will do. None for Services that proxies leave alone (headless) and where no demand is known."""
    if not is_proxied(service):
        return None
    gates = surroundings.configuration.gates
    return predict_traffic(
        endpoints_of_all_ports(slices),
        demand=surroundings.demand,
        policies=policies_of(service, gates),
        honored=honored_hints(service, surroundings.consumer, gates),
        groups=slice_groups(slices, surroundings.consumer, gates),
    )


def _as_encoded(decision: Decision, packed: Packed) -> Decision:
    """A decision with the allocation and the hints that upstream's way left in the slices."""
    if decision.ranges is None:
        return decision
    pairs = [
        (endpoint.zone or "", endpoint.hints.for_zones[0].name)
        for each in (*packed.create, *packed.update, *packed.unchanged)
        for endpoint in each.endpoints or ()
        if endpoint.hints is not None and endpoint.hints.for_zones and upstream.is_strictly_ready(endpoint)
    ]
    zones = tuple(sorted({*decision.ranges, *(zone for pair in pairs for zone in pair)}))
    counts = [0] * (len(zones) ** 2)
    for located, consumer in pairs:
        counts[zones.index(consumer) * len(zones) + zones.index(located)] += 1
    allocation = Allocation(zones, tuple(map(own_group, zones)), tuple(counts))
    return altered(decision, allocation=allocation, ranges=None)


def _without_groups(decision: Decision, assignment: Assignment) -> Decision:
    message = "the Service is being deleted, and there are not enough slices for its groups"
    return altered(
        decision,
        active=False,
        reason=Reason.BEING_DELETED,
        message=message,
        allocation=None,
        groups=None,
        hints=assignment.all_hints,
        moved=0,
        rules=(*decision.rules, Rule("groups-of-deleted", False, message)),
        assignment=assignment,
    )
