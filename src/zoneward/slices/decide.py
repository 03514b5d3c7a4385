"""Step 2 of a plan, *decide*: the endpoints of a Service in one address family to the decision about them.

What a Service asks for is read in `zoneward.routing.request`. Each approach then has its own rules: those for hints are
in `zoneward.routing.hints_decision`, those for slice groups in `zoneward.routing.subsetting_decision`.
"""

from dataclasses import replace

from zoneward.kube.objects import Service
from zoneward.routing import balanced_decision, hints_decision, subsetting_decision
from zoneward.routing.algorithms.heuristics import BALANCED, Heuristic
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision
from zoneward.routing.decision_context import DecisionContext
from zoneward.routing.demand import Demand
from zoneward.routing.phrases import listed
from zoneward.routing.placement.endpoint_index import EndpointIndex
from zoneward.routing.placement.targets import Targets
from zoneward.routing.request.approach import Approach
from zoneward.routing.rules import Reason, Rule


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
    heuristic, refusal = context.request.heuristic, context.request.refusal
    if heuristic is None:
        if refusal is None:
            return context.build_inactive(
                Reason.NOT_ASKED_FOR,
                "nothing is asked for: all endpoints serve all zones",
                deciding=context.request.decided_by,
            )
        return context.build_inactive(refusal, context.request.refusal_detail, deciding=context.request.decided_by)
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
    if heuristic.subsets:
        decide_groups = (
            subsetting_decision.decide_balanced if heuristic.balances else subsetting_decision.decide_require_zone
        )
        return decide_groups(context, heuristic)
    if heuristic.balances:
        return (
            hints_decision.decide_as_upstream(context)
            if context.compatibility.sets_hints_in_slices
            else hints_decision.decide_balanced(context, heuristic)
        )
    return hints_decision.decide_own_zone(context, heuristic)


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
