"""Step 2 of a plan, *decide*: the endpoints of a Service in one address family to the decision about them.

What a Service asks for is read in `zoneward.routing.request`. Each approach then has its own rules: those for hints are
in `zoneward.routing.hints_decision`, those for slice groups in `zoneward.routing.subsetting_decision`. Some rules
follow from the Pods' ports and the slices alone: `rules_of_slices` adds them after all others.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import nsmallest

from zoneward.kube.adoption_marks import manager_of
from zoneward.kube.objects import EndpointSlice, Service, is_ready
from zoneward.routing import balanced_decision, hints_decision, subsetting_decision
from zoneward.routing.algorithms.heuristics import BALANCED, Heuristic
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision, DecisionContext
from zoneward.routing.demand import Demand
from zoneward.routing.endpoint_index import EndpointIndex
from zoneward.routing.phrases import counted, listed
from zoneward.routing.placement import Targets
from zoneward.routing.request import Approach
from zoneward.routing.rules import Reason, Rule
from zoneward.routing.selection.endpoint_selection import is_proxied
from zoneward.slices.endpoints import ServiceEndpoints
from zoneward.slices.reconcile import SliceChanges


def decide(
    service: Service,
    endpoint_index: EndpointIndex,
    *,
    demand: Demand,
    in_force: str | None,
    configuration: Configuration,
    slice_groups_read: bool | None = True,
) -> Decision:
    """Decide for the endpoints of one Service in one address family.

    ``in_force`` is the approach that the existing slices were written for, ``<approach>/<heuristic>`` or None. No value
    that people may write raises an error: an unknown one is a rule that did not pass. ``slice_groups_read``: whether
    any proxy may read slice groups, None while that is not known.
    """
    context = DecisionContext(
        service, endpoint_index, demand, in_force, configuration, slice_groups_read=slice_groups_read
    )
    request = context.request
    if request.heuristic is None:
        reason, detail = Reason.NOT_ASKED_FOR, "nothing is asked for: all endpoints serve all zones"
        if request.refusal is not None:
            reason, detail = request.refusal, request.refusal_detail
        return context.build_inactive(reason, detail, deciding=request.decided_by)
    decision = _decide_requested(context)
    if decision.active or not context.use_hints_instead(decision):
        return decision
    return _decide_requested(context)


def _decide_requested(context: DecisionContext) -> Decision:
    heuristic = context.request.heuristic
    assert heuristic is not None
    not_stored = _refuse_hints_not_stored(context, heuristic)
    if not_stored is not None:
        return not_stored
    if heuristic is BALANCED:
        return balanced_decision.decide_sets(context)
    if heuristic.subsets and heuristic.balances:
        return subsetting_decision.decide_balanced(context, heuristic)
    if heuristic.subsets:
        return subsetting_decision.decide_require_zone(context, heuristic)
    if not heuristic.balances:
        return hints_decision.decide_own_zone(context, heuristic)
    if context.compatibility.sets_hints_in_slices:
        return hints_decision.decide_as_upstream(context)
    return hints_decision.decide_balanced(context, heuristic)


def _refuse_hints_not_stored(context: DecisionContext, heuristic: Heuristic) -> Decision | None:
    """The refusal of hints that the API server drops; of those for nodes, the hints for zones stay."""
    configuration = context.configuration
    stored = configuration.stored_hints
    if stored == "all" or (heuristic.subsets and configuration.subsetting.encoding != "hints"):
        return None
    if stored == "none":
        message = "the API server does not store hints: its feature gate is off, or a webhook removes them"
        context.rules.require("hints-stored", False, message)
        return context.build_inactive(Reason.HINTS_NOT_STORED, message)
    if not heuristic.node_hints:
        return None
    decision = hints_decision.decide_own_zone(context, replace(heuristic, node_hints=False))
    if not decision.active:
        return decision
    message = "the API server does not store hints for nodes: its feature gate is off, or a webhook removes them"
    context.rules.require("hints-stored", False, message)
    return context.build_inactive(Reason.HINTS_NOT_STORED, message, targets=decision.targets)


def decide_without_selector(*, ready: int, managers: tuple[str, ...], others: Rule | None) -> Decision:
    """The decision about a Service without a selector: its slices belong to ``managers``, who decide. ``others`` is the
    rule about these slices, None where there are none."""
    message = "no selector: its EndpointSlices are managed by others"
    rule = Rule("selector", False, f"{message} ({listed(managers) or 'there are none'})")
    return Decision(
        approach=Approach.CLUSTER_WIDE,
        heuristic=None,
        active=False,
        reason=Reason.NO_SELECTOR,
        message=message,
        endpoints=ready,
        allocation=None,
        rules=(rule,) if others is None else (rule, others),
        deciding=0 if others is None or others.passed else 1,
    )


def without_slice_groups(decision: Decision, endpoint_index: EndpointIndex) -> Decision:
    """The same decision for a Service that is being deleted and has too few slices for its slice groups."""
    message = "the Service is being deleted, and there are not enough slices for its groups"
    return replace(
        decision,
        active=False,
        reason=Reason.BEING_DELETED,
        message=message,
        allocation=None,
        moved=0,
        rules=(*decision.rules, Rule("groups-of-deleted", False, message)),
        deciding=len(decision.rules),
        targets=Targets(endpoint_index),
    )


# --- rules about slices -----------------------------------------------------------------------------------------------


def rules_of_slices(
    service: Service,
    endpoints: ServiceEndpoints,
    changes: SliceChanges,
    others: Sequence[EndpointSlice],
    *,
    zone_hints: bool,
    node_hints: bool,
) -> tuple[tuple[Rule, ...], int | None]:
    """The rules about Pods that are left out, ports, and slices, and the index of one that voids all hints.

    ``zone_hints`` and ``node_hints``: whether our slices may have such hints. Without them, no slice is looked into.
    """
    rules = list(_target_rules(service, endpoints))
    if pods := endpoints.node_gone:
        rules.append(Rule("pod-nodes", False, _left_out(pods, "their node is gone")))
    if pods := endpoints.address_refused:
        rules.append(Rule("pod-addresses", False, _left_out(pods, "no EndpointSlice may have such an address")))
    voids_hints = None
    if others:
        written = (*changes.create, *changes.update, *changes.unchanged)
        hints = [endpoint.hints for slice_ in written for endpoint in slice_.endpoints or () if endpoint.hints]
        hinted = zone_hints and bool(hints)
        nodes = node_hints and any(endpoint_hints.for_nodes for endpoint_hints in hints)
        rule = rule_of_others(others, hinted=hinted, nodes=nodes)
        voids_hints = None if rule.passed else len(rules)
        rules.append(rule)
    if service.spec.internal_traffic_policy == "Local":
        detail = "internalTrafficPolicy is Local: hints do not matter inside the cluster"
        rules.append(Rule("internal-traffic-policy", False, detail))
    if not is_proxied(service):
        detail = "headless: clients choose among all addresses, hints are for DNS and others"
        rules.append(Rule("proxied", False, detail))
    return tuple(rules), voids_hints


def _left_out(pods: Collection[str], why: str) -> str:
    first = listed(tuple(nsmallest(3, pods)), count=len(pods))
    return f"{counted(len(pods), 'pod')} left out: {why} ({first})"


def _target_rules(service: Service, endpoints: ServiceEndpoints) -> Iterator[Rule]:
    """Ports that some Pods do not serve, because they have no container port with the name of the target."""
    served = [
        ({(port.name or "", port.protocol or "TCP") for port in group.ports}, group.size)
        for group in endpoints.port_groups.values()
    ]
    for port in service.spec.ports or ():
        key = (port.name, port.protocol)
        without = sum(size for keys, size in served if key not in keys)
        if without:
            detail = f"{counted(without, 'endpoint')} without a target for port {port.name or port.port}"
            yield Rule("target-ports", False, f"{detail}: no container port is called {port.target_port!r}")


def rule_of_others(others: Sequence[EndpointSlice], *, hinted: bool = True, nodes: bool = False) -> Rule:
    """Slices of others count too: one ready endpoint without hints there voids all hints (KEP-2433 § Observability)."""
    where = (
        f"{listed(tuple(sorted(slice_.metadata.name for slice_ in others)))} managed by {listed(managers_of(others))}"
    )
    if hinted and any(_voids_hints(slice_, nodes=nodes) for slice_ in others):
        detail = f"{where}: not modified; their endpoints without hints void the hints of the Service"
        return Rule("slices-of-others", False, detail)
    return Rule("slices-of-others", True, f"{where}: not modified; proxies still use them")


def _voids_hints(slice_: EndpointSlice, *, nodes: bool) -> bool:
    """Whether a ready endpoint of the slice has no hint for zones, or ``nodes``: proxies then ignore all such hints."""
    for endpoint in slice_.endpoints or ():
        hints = endpoint.hints
        if is_ready(endpoint) and not (hints and (hints.for_nodes if nodes else hints.for_zones)):
            return True
    return False


def managers_of(slices: Iterable[EndpointSlice]) -> tuple[str, ...]:
    """The managers that some slices name."""
    managers = {manager_of(slice_) or "nobody named" for slice_ in slices}
    return tuple(sorted(managers))
