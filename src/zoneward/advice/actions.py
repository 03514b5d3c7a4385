"""What to change in a cluster, ranked: the document of ``zoneward advise -o json``.

For each Service `advise_service` searches the best change that Kubernetes carries out alone, and asks what Zoneward's
`Balanced` would do instead. Both are verified by the decision on the changed input, with the proxies that run on the
nodes. `advise` makes one action of alike changes of several Services, and ranks them.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import fsum
from operator import attrgetter
from typing import Final, Literal

from zoneward.advice.bypass import meshes_of
from zoneward.advice.cluster_abilities import OVERLAY_SINCE, is_before
from zoneward.advice.deciders import ClusterStates
from zoneward.advice.findings.cluster_view import ServiceView
from zoneward.advice.findings.codes import Finding
from zoneward.advice.fix_commands import (
    FixSteps,
    ObjectPatch,
    describe_fix,
    describe_setting,
    steps_of,
)
from zoneward.advice.fixes import Fix, FixKind, FixSearch, Needs, setting_patch
from zoneward.advice.json_value import JsonValue, round_if_any, round_part, round_share
from zoneward.advice.measured_flows import MeasuredFlows
from zoneward.advice.node_proxies import NodeProxies, switched_on
from zoneward.advice.now import ignoring_proxies
from zoneward.advice.prices import PairPrices
from zoneward.advice.service_input import Change, ServiceInput
from zoneward.advice.shell_commands import kubectl, shell_command
from zoneward.advice.traffic_report import Crossing, CrossingCalculation
from zoneward.kube import names
from zoneward.kube.objects import ObjectKey
from zoneward.kube.proxy_programs import CILIUM_CONFIG, SYSTEM_NAMESPACE
from zoneward.routing.algorithms.heuristics import BALANCED, HEURISTICS
from zoneward.routing.phrases import counted
from zoneward.routing.selection.traffic import ExpectedTraffic
from zoneward.slices.plan import FamilyPlan

View = Literal["kubernetes", "zoneward"]
Risk = Literal["low", "medium", "high"]
Requirement = Literal["overlay", "controller", "meter"]
"""What of Zoneward an action needs: a way for its decisions to the slices of a cluster, or its counters."""

WITHOUT_RISK: Final = 0.2
"""Overload of the busiest endpoint that is no risk: the threshold of KEP-2433 § Overload."""
ACCEPTABLE: Final = Fraction(1, 2)
"""Overload that a setting may lead to, with a warning; above it, a Service is to be relieved."""
_LEAST_GAIN: Final = 0.05
"""Traffic that newly stays in its zone, as a share of all, below which nothing is worth a change."""
_LEAST_GAIN_WITH_PODS: Final = 0.15
"""The same for changes that need more Pods, which cost money."""
_MOST_LOSS: Final = 0.1
"""What a change that relieves an overloaded Service may cost of the traffic in its zone."""
_NOISE: Final = 1e-9
_FREE: Final = ("label-node", "setting", "spread", "move-pods")
"""Kinds of fixes that need no more Pods, unless they say so."""
_NODE_CODES: Final = frozenset(("ZW101", "ZW105"))
"""Findings of `check` about nodes that limit what hints can do."""
_PROXY_CODES: Final = frozenset(("ZW201", "ZW203"))
"""Findings about proxies that ignore hints or differ in what they honor."""
_SERVICE_CODES: Final = frozenset(("ZW302", "ZW404", "ZW405", "ZW502", "ZW503", "ZW601", "ZW602", "ZW607", "ZW608"))
"""Findings about a Service that may keep an action from working."""


# --- one Service ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of the traffic of a Service: ``in_zone`` and ``dropped`` are shares of it, ``overload`` is that of
    its busiest endpoint; ``crossing`` is what leaves its zone in a month, None without measurements.
    """

    in_zone: float
    overload: float
    dropped: float
    crossing: Crossing | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """One verified change for one Service, with the outcome before and after.

    ``about`` describes it, ``title`` what it has in common with changes of other Services. ``pods`` has by how many
    Pods each zone changes. ``risk_reason`` is empty where the risk is low. ``limits`` are codes of findings about nodes
    and proxies that may keep it from working; none where it needs no hints (``uses_hints``).
    """

    kind: FixKind
    about: str
    title: str
    pods: dict[str, int]
    risk: Risk
    risk_reason: str
    steps: FixSteps
    before: Outcome
    after: Outcome
    uses_hints: bool
    limits: frozenset[str]


@dataclass(frozen=True, slots=True)
class ServiceAdvice:
    """What there is to say about one Service. ``weight`` is its part in the totals: its endpoints, or what was
    measured.

    ``switched`` is the outcome after the proxies are switched on, where some are to be. ``kubernetes`` is the best
    change of all that needs nothing else, ``zoneward`` a better one with Zoneward.
    """

    key: ObjectKey
    weight: float
    now: Outcome
    switched: Outcome
    kubernetes: Option | None
    zoneward: Option | None

    @property
    def reachable(self) -> Outcome:
        """With all that Kubernetes can do."""
        return self.switched if self.kubernetes is None else self.kubernetes.after

    @property
    def reachable_with_zoneward(self) -> Outcome:
        """The same with Zoneward where more traffic stays in its zone with it; elsewhere it only overloads less."""
        if self.zoneward is None or self.zoneward.after.in_zone < self.reachable.in_zone:
            return self.reachable
        return self.zoneward.after


@dataclass(frozen=True)
class AdvisedCluster:
    """What the advice for all Services depends on.

    ``states`` has what decides, ``kubernetes`` is the minor version, None where it is not known. ``measured`` and
    ``prices`` are None without them.
    """

    states: ClusterStates
    node_proxies: NodeProxies
    kubernetes: int | None
    measured: MeasuredFlows | None = None
    prices: PairPrices | None = None

    @property
    def requirement(self) -> Requirement:
        return "controller" if is_before(OVERLAY_SINCE, self.kubernetes) else "overlay"

    @cached_property
    def switched(self) -> NodeProxies:
        """The proxies after each that ignores hints only by its settings is switched on."""
        proxies = self.node_proxies
        return NodeProxies(
            {node: switched_on(kind) for node, kind in proxies.kind_of.items()},
            proxies.evidence,
            switched_on(proxies.default),
            proxies.labelled,
        )

    @property
    def can_be_metered(self) -> bool:
        """Whether a meter would see connections on some node."""
        kinds = self.node_proxies.kind_of.values() or (self.node_proxies.default,)
        return any(kind.uses_conntrack for kind in kinds)

    @cached_property
    def nodes_to_switch(self) -> tuple[str, ...]:
        """Nodes whose proxies ignore hints only by a setting."""
        return tuple(sorted(node for node, kind in self.node_proxies.kind_of.items() if kind.can_switch_on))


def view_as_decided(given: ServiceInput, cluster: AdvisedCluster) -> ServiceView:
    """A Service with its traffic now and its plan, by what decides in this cluster."""
    decided = _as_decided(given, cluster)
    return ServiceView(decided, decided.traffic_now(cluster.node_proxies))


def advise_service(
    given: ServiceInput, cluster: AdvisedCluster, *, view: ServiceView | None = None
) -> ServiceAdvice | None:
    """The advice for one Service in its first address family; None for one that proxies ignore or that has no traffic
    in known zones. ``given`` is decided with Zoneward's settings; the ``view`` is by `view_as_decided`.
    """
    view = view or view_as_decided(given, cluster)
    decided = view.given
    family = next(iter(decided.plan.families), None)
    if family is None:
        return None
    address_type = family.address_type
    outcomes = _Outcomes(cluster, given.key)
    current = view.current.get(address_type)
    now = outcomes.of(current.traffic if current is not None else family.traffic)
    if now is None:
        return None
    switched = now
    if cluster.nodes_to_switch:
        decided = _with_proxies(decided, cluster.switched)
        given = _with_proxies(given, cluster.switched)
        family = decided.family(address_type)
        assert family is not None
        switched = outcomes.of(family.traffic) or now
    kubernetes = None
    if _needs_change(switched):
        kubernetes = _option(_best_fix(decided, address_type), decided, switched, outcomes)
    advice = ServiceAdvice(given.key, outcomes.weight(family), now, switched, kubernetes, None)
    if decided is given or not _needs_change(advice.reachable):
        return advice
    return dataclasses.replace(advice, zoneward=_with_balanced(given, address_type, cluster, advice, outcomes))


def outcome_as_decided(given: ServiceInput, cluster: AdvisedCluster) -> Outcome | None:
    """What comes of the settings of a Service, by what decides in this cluster; None as `advise_service`."""
    family = next(iter(_as_decided(given, cluster).plan.families), None)
    if family is None:
        return None
    return _Outcomes(cluster, given.key).of(family.traffic)


def _as_decided(given: ServiceInput, cluster: AdvisedCluster) -> ServiceInput:
    """The same Service decided by what writes its hints: Zoneward's controller or overlay, else the built-in controller
    of this version.
    """
    state, slices = cluster.states.decided(given.service, given.slices)
    if state is cluster.states.zoneward:
        return given
    return dataclasses.replace(given, cluster_state=state.for_service(given.service), slices=slices)


def _with_proxies(given: ServiceInput, node_proxies: NodeProxies) -> ServiceInput:
    return given.with_state(consumer=node_proxies.default.consumer, consumer_by_node=node_proxies.consumer_by_node)


def _needs_change(outcome: Outcome) -> bool:
    return outcome.in_zone < 1 - _LEAST_GAIN or outcome.overload > ACCEPTABLE or outcome.dropped > _NOISE


def _best_fix(given: ServiceInput, address_type: str) -> Fix | None:
    """Of fixes that need no more Pods, the one after which the most traffic stays in its zone. Without any, a setting
    that overloads endpoints a little; else the fix with the fewest more Pods.
    """
    search, family = FixSearch.of(given, address_type), given.family(address_type)
    if search is None or family is None:
        return None
    fixes = [fix for fix in search.fixes() if not _is_uncertain(fix)]
    free = [fix for fix in fixes if fix.kind in _FREE and not fix.pods]
    if free:
        return max(free, key=attrgetter("in_zone"))
    if not search.aim.only_served:
        # Not in place of a setting that is in force without overload: it was recommended before one with overload.
        is_calm = family.decision.active and family.traffic is not None and family.traffic.max_overload <= WITHOUT_RISK
        settings = [] if is_calm else list(search.settings(dataclasses.replace(search.aim, threshold=ACCEPTABLE)))
        if settings:
            return max(settings, key=attrgetter("in_zone"))
        with_pods = list(search.settings_with_pods((names.PREFER_SAME_ZONE,)))
        fixes += with_pods
        if with_pods and not with_pods[0].pods:
            return with_pods[0]
    return min((fix for fix in fixes if fix.pods > 0), key=lambda fix: fix.pods, default=None)


def _is_uncertain(fix: Fix) -> bool:
    """Whether the outcome depends on more than the number of Pods in each zone, which is all that an action says.

    A heuristic that assigns endpoints to other zones begins with what is in force, and nobody knows which Pods remain.
    For ``Auto`` the built-in controller also takes them from either of two equal zones, in the order of its maps.
    """
    heuristic = HEURISTICS.get(fix.family.decision.heuristic or "")
    moves = bool(fix.change.pods or fix.change.zone_of_node)
    return moves and heuristic is not None and (heuristic.balances or heuristic.node_hints)


def _option(
    fix: Fix | None, given: ServiceInput, before: Outcome, outcomes: "_Outcomes", needs: Requirement | None = None
) -> Option | None:
    """None where the change is not worth it, or harms another address family of the Service."""
    after = None if fix is None else outcomes.of(fix.family.traffic)
    if fix is None or after is None or not _is_worth(before, after, fix.pods):
        return None
    changed = None
    for family in given.plan.families:
        if family.address_type != fix.family.address_type:
            changed = changed or given.changed(fix.change, address_type=fix.family.address_type)
            if _harms(family, changed.family(family.address_type)):
                return None
    risk, reason = _risk_of(fix, before, after, needs)
    uses_hints = fix.family.decision.active
    steps = steps_of(fix, given, fix.family.address_type)
    if uses_hints:
        mesh_notes = (
            f"clients in the mesh ({mesh}) choose endpoints themselves: the figures are for all others"
            for mesh in meshes_of(given)
        )
        steps = dataclasses.replace(steps, notes=(*steps.notes, *mesh_notes))
    pods = dict(fix.change.pods)
    limits = _NODE_CODES if uses_hints else frozenset[str]()
    if ignoring_proxies(fix.family, outcomes.proxies):
        limits |= _PROXY_CODES
    return Option(
        fix.kind, describe_fix(fix), _title_of(fix), pods, risk, reason, steps, before, after, uses_hints, limits
    )


def _is_worth(before: Outcome, after: Outcome, pods: int) -> bool:
    if after.dropped > before.dropped + _NOISE:
        return False
    if after.dropped < before.dropped - _NOISE:
        return True
    gain = after.in_zone - before.in_zone
    if before.overload > ACCEPTABLE and after.overload <= before.overload / 2 and gain >= -_MOST_LOSS:
        return True
    least = _LEAST_GAIN_WITH_PODS if pods > 0 else _LEAST_GAIN
    return gain >= least - _NOISE and after.overload <= max(float(ACCEPTABLE), before.overload) + _NOISE


def _title_of(fix: Fix) -> str:
    """What a fix has in common with those of other Services."""
    match fix.kind:
        case "setting":
            more = " and more Pods" if fix.pods > 0 else ""
            return f"{describe_setting(fix)}{f', Pods spread evenly{more}' if fix.change.pods else ''}"
        case "spread":
            return "spread Pods evenly over the zones" + (", with more Pods" if fix.pods > 0 else "")
        case "move-pods":
            return "move Pods to the zones where traffic starts"
        case "add-pods":
            return "more Pods where traffic starts"
    return describe_fix(fix)


def _risk_of(fix: Fix, before: Outcome, after: Outcome, needs: Requirement | None) -> tuple[Risk, str]:
    """With the reason."""
    is_hot = after.overload > WITHOUT_RISK + _NOISE
    reasons = [f"the busiest Pods get {after.overload:.0%} more than a fair share"] if is_hot else []
    if after.in_zone < before.in_zone - _MOST_LOSS:
        reasons.append("less traffic stays in its zone")
    if fix.may_be_bound:
        reasons.append("volumes of these Pods may be bound to their zones")
    elif fix.change.pods:
        reasons.append("a rollout moves Pods")
    if fix.change.zone_of_node:
        reasons.append("only if these are the real zones")
    if needs == "controller":
        reasons.append("the Service's selector moves into an annotation")
    is_high = after.overload > float(ACCEPTABLE) + _NOISE or fix.may_be_bound
    return "high" if is_high else "medium" if reasons else "low", "; ".join(reasons)


def _harms(before: FamilyPlan, after: FamilyPlan | None) -> bool:
    old, new = before.traffic, None if after is None else after.traffic
    if old is None:
        return False
    if new is None:
        return True
    return new.dropped > old.dropped + _NOISE or (new.in_zone or 0.0) < (old.in_zone or 0.0) - _LEAST_GAIN


def _with_balanced(
    given: ServiceInput, address_type: str, cluster: AdvisedCluster, advice: ServiceAdvice, outcomes: "_Outcomes"
) -> Option | None:
    """Zoneward's `Balanced`, where it keeps more traffic in its zone than Kubernetes can, or overloads less."""
    needs: tuple[Needs, ...] = ()
    if cluster.requirement == "overlay":
        given, needs = given.as_overlay(), ("overlay",)
    patch = setting_patch(given.service, BALANCED.name, given.cluster_state.configuration)
    change = Change(service_patch=patch)
    family = given.changed(change, address_type=address_type).family(address_type) if patch else None
    after = None if family is None else outcomes.of(family.traffic)
    if family is None or after is None or not family.decision.active:
        return None
    others = advice.reachable
    if after.in_zone < others.in_zone + _LEAST_GAIN and not (
        others.overload > WITHOUT_RISK + _NOISE and after.overload <= WITHOUT_RISK + _NOISE
    ):
        return None
    fix = Fix("setting", change, family, needs, setting=BALANCED.name, workload=given.workload)
    return _option(fix, given, advice.switched, outcomes, cluster.requirement)


class _Outcomes:
    """Outcomes of one Service, by its traffic in one address family, with what was measured of it in both.
    ``proxies`` are those that changes are verified with.
    """

    def __init__(self, cluster: AdvisedCluster, key: ObjectKey) -> None:
        flows = None if cluster.measured is None else cluster.measured.known_of(key)
        self._flows = None if flows is None else CrossingCalculation(flows, cluster.prices)
        self._is_measured = cluster.measured is not None
        self._sizes = None if cluster.measured is None else cluster.measured.sizes_of(key)
        self.proxies = cluster.switched if cluster.nodes_to_switch else cluster.node_proxies

    def weight(self, family: FamilyPlan) -> float:
        if self._is_measured:
            return 0.0 if self._flows is None else self._flows.whole.value
        return float(family.decision.endpoints)

    def of(self, traffic: ExpectedTraffic | None) -> Outcome | None:
        """None for a Service that proxies ignore, and where the share in its zone is unknown and nothing is dropped."""
        if traffic is None or (traffic.in_zone is None and traffic.dropped <= _NOISE):
            return None
        crossing = None
        if self._flows is not None:
            crossing, _, _ = self._flows.compare({zone: figures.to for zone, figures in traffic.zones.items()})
        return Outcome(self._in_zone(traffic), traffic.max_overload, traffic.dropped, crossing)

    def _in_zone(self, traffic: ExpectedTraffic) -> float:
        """By what was measured a connection from one zone may be larger than one from another."""
        if self._sizes is not None:
            amounts = {zone: figures.demand * self._sizes[zone] for zone, figures in traffic.zones.items()}
            if total := fsum(amounts.values()):
                parts = (amounts[zone] * (figures.in_zone or 0.0) for zone, figures in traffic.zones.items())
                return fsum(parts) / total
        return traffic.in_zone or 0.0


# --- the document -----------------------------------------------------------------------------------------------------


class Effect(JsonValue, frozen=True, gc=False):
    """Before and after: shares of traffic, and the overload of the busiest endpoint. ``saved_per_month`` is money where
    there are prices, else bytes or connections; None without measurements.
    """

    in_zone_before: float
    in_zone_after: float
    max_overload_before: float
    max_overload_after: float
    dropped_before: float
    dropped_after: float
    saved_per_month: float | None


class ServiceEffect(JsonValue, frozen=True, gc=False):
    """The part of an action in one Service: what is done, by how many Pods each zone changes, and what follows."""

    namespace: str
    service: str
    about: str
    pods: dict[str, int]
    effect: Effect


class Action(JsonValue, frozen=True, gc=False, kw_only=True):
    """One thing to do, for one or for many Services. ``rank`` is its place in the list, from 1; ``after`` has the ranks
    of those that must come before, ``instead_of`` of those that change the same Services in another way.

    ``effect`` is over all of its Services. ``pods`` is how many more it needs. ``limited_by`` has codes of `check`.
    ``patches`` are for a repository of manifests; nothing of an action that changes Nodes or proxies is in them.
    """

    rank: int
    kind: FixKind | Literal["switch-proxies", "measure"]
    view: View
    title: str
    needs: Requirement | None
    after: tuple[int, ...] = ()
    instead_of: tuple[int, ...] = ()
    services: tuple[ServiceEffect, ...] = ()
    effect: Effect
    pods: int = 0
    risk: Risk
    risk_reason: str = ""
    limited_by: tuple[str, ...] = ()
    commands: tuple[str, ...]
    notes: tuple[str, ...]
    patches: tuple[ObjectPatch, ...] = ()

    @property
    def switches_proxies(self) -> bool:
        """Whether it changes the proxies of nodes; its Services are those that gain without another change."""
        return self.kind == "switch-proxies"

    @property
    def changes_traffic(self) -> bool:
        """Whether it has an effect: the meter only counts."""
        return self.kind != "measure"


class OverloadedService(JsonValue, frozen=True, gc=False):
    namespace: str
    service: str
    max_overload: float


class AdviceSummary(JsonValue, frozen=True, gc=False):
    """The whole cluster. ``services`` counts those with traffic; in shares each counts by its part of ``weighed_by``.

    Shares in their zone are now, after all actions that need nothing else, and with Zoneward too; None without traffic.
    ``zones`` and ``proxies`` count nodes, ``nodes_without_zone`` those where traffic starts in no zone. Amounts are of
    a month, in ``unit``; None without measurements.
    """

    kubernetes: str | None
    proxies: dict[str, int]
    zones: dict[str, int]
    nodes_without_zone: int
    services: int
    weighed_by: Literal["endpoints", "bytes", "connections"]
    in_zone: float | None
    in_zone_reachable: float | None
    in_zone_with_zoneward: float | None
    worst: OverloadedService | None
    unit: str | None
    crossing: float | None
    saved: float | None
    saved_with_zoneward: float | None


class Advice(JsonValue, frozen=True, gc=False):
    """The document of ``advise``. Actions of Zoneward come after all others."""

    summary: AdviceSummary
    actions: tuple[Action, ...]


def advise(
    services: Iterable[ServiceAdvice],
    cluster: AdvisedCluster,
    *,
    zones: Mapping[str, int],
    nodes_without_zone: int = 0,
    findings: Iterable[Finding] = (),
    currency: str = "",
) -> Advice:
    """The summary and all actions. ``zones`` counts the nodes with traffic, ``nodes_without_zone`` those of them in no
    zone; ``findings`` are those of `check`.
    """
    services = tuple(services)
    actions: list[Action] = []
    findings = tuple(findings)
    of_kubernetes = _groups(services, "kubernetes")
    # What needs no hints does not wait for proxies.
    for group in of_kubernetes:
        if not _uses_hints(group):
            actions.append(_action("kubernetes", None, group, actions, findings))
    if cluster.nodes_to_switch:
        actions += _switch_action(services, cluster, len(actions) + 1)
    for group in of_kubernetes:
        if _uses_hints(group):
            actions.append(_action("kubernetes", None, group, actions, findings))
    for group in _groups(services, "zoneward"):
        actions.append(_action("zoneward", cluster.requirement, group, actions, findings))
    if actions and cluster.measured is None and cluster.can_be_metered:
        actions.append(_measure_action(services, len(actions) + 1))
    return Advice(_summary(services, cluster, zones, nodes_without_zone, currency), tuple(actions))


_Group = list[tuple[ServiceAdvice, Option]]


def _uses_hints(group: _Group) -> bool:
    return any(option.uses_hints for _, option in group)


def _groups(services: Sequence[ServiceAdvice], view: View) -> list[_Group]:
    """Services with the same change and the same risk; those that serve dropped traffic first, then by what they keep
    in its zone.
    """
    groups: dict[tuple[str, str, Risk], _Group] = {}
    for service in services:
        option = service.kubernetes if view == "kubernetes" else service.zoneward
        if option is not None:
            key = option.kind, option.title, option.risk
            groups.setdefault(key, []).append((service, option))

    def rank(group: _Group) -> tuple[float, float]:
        dropped = sum(service.weight * (option.before.dropped - option.after.dropped) for service, option in group)
        return -dropped, -sum(service.weight * _gain(option) for service, option in group)

    return sorted(groups.values(), key=rank)


def _gain(option: Option) -> float:
    """Traffic that newly stays in its zone. An overload that ends counts like a tenth of all traffic for each whole
    endpoint's load, so that nobody who is overloaded comes last.
    """
    relief = max(option.before.overload - max(option.after.overload, float(ACCEPTABLE)), 0.0)
    return option.after.in_zone - option.before.in_zone + _MOST_LOSS * relief


def _action(
    view: View, needs: Requirement | None, group: _Group, earlier: Sequence[Action], findings: Iterable[Finding]
) -> Action:
    """The next action after ``earlier`` ones. ``findings`` are those of `check`, which may keep it from working."""
    keys = {service.key for service, _ in group}
    services = {"/".join(key) for key in keys}
    limits = frozenset[str]().union(*(option.limits for _, option in group))
    limiting = {
        finding.code
        for finding in findings
        if finding.code in limits or (finding.code in _SERVICE_CODES and not services.isdisjoint(finding.affected))
    }
    steps = [option.steps for _, option in group]
    first = group[0][1]
    # All are of one level: the worst overload is the one to name.
    riskiest = max((option for _, option in group), key=lambda option: option.after.overload)
    commands = [command for step in steps for command in step.commands]
    notes = [note for step in steps for note in step.notes]
    if any(namespace == SYSTEM_NAMESPACE for namespace, _ in keys):
        notes.append("an add-on manager of the provider may undo changes to Services in kube-system")
    if needs == "controller":
        notes.insert(0, "start zoneward controller --only-marked first: docs/take-over.md")
        commands += (shell_command("zoneward", "adopt", names=("/".join(service.key),)) for service, _ in group)
    return Action(
        rank=len(earlier) + 1,
        kind=first.kind,
        view=view,
        title=first.about if len(group) == 1 else first.title,
        needs=needs,
        after=tuple(action.rank for action in earlier if action.switches_proxies and _uses_hints(group)),
        instead_of=tuple(
            action.rank
            for action in earlier
            if not action.switches_proxies and keys & {(part.namespace, part.service) for part in action.services}
        ),
        services=tuple(
            ServiceEffect(*service.key, option.about, option.pods, effect_of(option.before, option.after))
            for service, option in group
        ),
        effect=_sum_effect([(service.weight, option.before, option.after) for service, option in group]),
        pods=sum(sum(option.pods.values()) for _, option in group),
        risk=first.risk,
        risk_reason=riskiest.risk_reason,
        limited_by=tuple(sorted(limiting)),
        commands=tuple(dict.fromkeys(commands)),
        notes=tuple(dict.fromkeys(notes)),
        patches=_merge_patches(patch for step in steps for patch in step.patches),
    )


def _switch_action(services: Sequence[ServiceAdvice], cluster: AdvisedCluster, rank: int) -> Iterator[Action]:
    """Proxies that ignore hints only by a setting: it comes before all actions that have no effect without it."""
    gaining = [service for service in services if service.switched.in_zone > service.now.in_zone + _NOISE]
    options = [option for service in services for option in (service.kubernetes, service.zoneward) if option]
    if not gaining and not any(option.uses_hints for option in options):
        return
    nodes = counted(len(cluster.nodes_to_switch), "node")
    daemon_set_of = cluster.node_proxies.daemon_set_of
    restarted = sorted({daemon_set_of.get(node, (SYSTEM_NAMESPACE, "cilium")) for node in cluster.nodes_to_switch})
    yield Action(
        rank=rank,
        kind="switch-proxies",
        view="kubernetes",
        title=f"enable-service-topology in the Cilium of {nodes}, for hints to have an effect (ZW201)",
        needs=None,
        services=tuple(
            ServiceEffect(*service.key, "its hints are honored", {}, effect_of(service.now, service.switched))
            for service in gaining
        ),
        effect=_sum_effect([(service.weight, service.now, service.switched) for service in gaining]),
        risk="medium",
        risk_reason="Cilium restarts on every node; where a provider runs it, it may not offer the setting",
        commands=(
            *(
                kubectl(
                    *("patch", "--type=merge", "-p", '{"data":{"enable-service-topology":"true"}}'),
                    names=("configmap", CILIUM_CONFIG),
                    namespace=namespace,
                )
                for namespace in dict.fromkeys(namespace for namespace, _ in restarted)
            ),
            *(
                kubectl("rollout", "restart", names=(f"daemonset/{name}",), namespace=namespace)
                for namespace, name in restarted
            ),
        ),
        notes=(
            "with Helm: loadBalancer.serviceTopology=true",
            "GKE Dataplane V2 and other managed Ciliums undo changes of their settings: ask the provider",
        ),
    )


def _measure_action(services: Sequence[ServiceAdvice], rank: int) -> Action:
    """The action of the meter, by whose counters the others are ranked; it changes no traffic."""
    return Action(
        rank=rank,
        kind="measure",
        view="zoneward",
        title="zoneward meter on the nodes: ranks actions by bytes, and shows money",
        needs="meter",
        effect=_sum_effect([(service.weight, service.now, service.now) for service in services]),
        risk="low",
        commands=(
            "kubectl apply -k deploy/namespaces",
            (
                "helm install zoneward-meter deploy/helm --namespace zoneward-meter"
                " --set image.repository=REGISTRY/zoneward"
                " --set controller.enabled=false,meter.enabled=true,meter.accounting=true"
            ),
        ),
        notes=(
            "it reads connections and changes none; meter.accounting=true has kernels count bytes: docs/meter.md",
            "meters listen on loopback; docs/meter.md says how a Prometheus, or you, read their counts",
            "after an hour: zoneward advise --measured PROMETHEUS_URL --price-per-gb 0.01USD",
        ),
    )


def effect_of(before: Outcome, after: Outcome) -> Effect:
    """For one Service."""
    return _sum_effect([(1.0, before, after)])


def _sum_effect(parts: Sequence[tuple[float, Outcome, Outcome]]) -> Effect:
    """Of several Services, each with its weight; equal weights where none has any."""
    if not any(weight for weight, _, _ in parts):
        parts = [(1.0, before, after) for _, before, after in parts]
    total = sum(weight for weight, _, _ in parts) or 1.0

    def mean(values: Iterable[float]) -> float:
        return sum(weight * value for (weight, _, _), value in zip(parts, values, strict=True)) / total

    saved = [
        before.crossing.weight - after.crossing.weight
        for _, before, after in parts
        if before.crossing is not None and after.crossing is not None
    ]
    return Effect(
        in_zone_before=round_share(mean(before.in_zone for _, before, _ in parts)),
        in_zone_after=round_share(mean(after.in_zone for _, _, after in parts)),
        max_overload_before=round_share(max((before.overload for _, before, _ in parts), default=0.0)),
        max_overload_after=round_share(max((after.overload for _, _, after in parts), default=0.0)),
        dropped_before=round_part(mean(before.dropped for _, before, _ in parts)),
        dropped_after=round_part(mean(after.dropped for _, _, after in parts)),
        saved_per_month=round_share(sum(saved)) if saved else None,
    )


def _merge_patches(patches: Iterable[ObjectPatch]) -> tuple[ObjectPatch, ...]:
    """One patch for each object: workloads may serve several Services. The last value of a field wins."""
    by_object: dict[tuple[str, str, str, str], ObjectPatch] = {}
    for patch in patches:
        key = patch.api_version, patch.kind, patch.namespace, patch.name
        by_object[key] = by_object[key].merged(patch) if key in by_object else patch
    return tuple(by_object.values())


def _summary(
    services: Sequence[ServiceAdvice],
    cluster: AdvisedCluster,
    zones: Mapping[str, int],
    nodes_without_zone: int,
    currency: str,
) -> AdviceSummary:
    total = sum(service.weight for service in services)

    def share(outcomes: Iterable[Outcome]) -> float | None:
        if not total:
            return None
        parts = (service.weight * outcome.in_zone for service, outcome in zip(services, outcomes, strict=True))
        return sum(parts) / total

    def crossing(outcomes: Iterable[Outcome]) -> float | None:
        amounts = [outcome.crossing.weight for outcome in outcomes if outcome.crossing is not None]
        return sum(amounts) if amounts else None

    now = [service.now for service in services]
    reachable = [service.reachable for service in services]
    with_zoneward = [service.reachable_with_zoneward for service in services]
    leaves, then, best = crossing(now), crossing(reachable), crossing(with_zoneward)
    worst = max(services, key=lambda service: service.now.overload, default=None)
    has_bytes = cluster.measured is not None and cluster.measured.has_bytes
    proxies = Counter(kind.title for kind in cluster.node_proxies.kind_of.values())
    return AdviceSummary(
        kubernetes=None if cluster.kubernetes is None else f"1.{cluster.kubernetes}",
        proxies=dict(sorted(proxies.items(), key=lambda item: (-item[1], item[0]))),
        zones=dict(zones),
        nodes_without_zone=nodes_without_zone,
        services=len(services),
        weighed_by="endpoints" if cluster.measured is None else "bytes" if has_bytes else "connections",
        in_zone=round_if_any(share(now)),
        in_zone_reachable=round_if_any(share(reachable)),
        in_zone_with_zoneward=round_if_any(share(with_zoneward)),
        worst=None
        if worst is None or worst.now.overload <= _NOISE
        else OverloadedService(*worst.key, round_share(worst.now.overload)),
        unit=None if leaves is None else currency or ("bytes" if has_bytes else "connections"),
        crossing=round_if_any(leaves),
        saved=None if leaves is None or then is None else round_share(leaves - then),
        saved_with_zoneward=None if leaves is None or best is None else round_share(leaves - best),
    )
