"""The smallest changes after which a Service gets what it asks for, one of each kind, verified by the real decision on
the changed input.

What a fix aims for depends on the plan as it is (`aim_of`). `find_fixes` searches numbers of Pods with
`zoneward.advice.count_search`, and tries labels, settings and thresholds one after the other.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, islice, product
from math import inf
from operator import attrgetter
from typing import Final, Literal

from zoneward.advice.changed_cluster import ImpossibleChange
from zoneward.advice.cluster_abilities import OVERLAY_SINCE, kubernetes_minor, setting_name
from zoneward.advice.count_search import CountSearch, PodChanges, Trials
from zoneward.advice.dropped_traffic import CLUSTER_POLICY
from zoneward.advice.pod_limits import pod_limits
from zoneward.advice.service_input import Change, MergePatch, ServiceInput, Workload, patched
from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.routing.algorithms.heuristics import BALANCED, HEURISTICS, PROPORTIONAL_ZONE_CPU
from zoneward.routing.allocation import measures_of
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand
from zoneward.routing.phrases import format_percent
from zoneward.routing.rules import Reason
from zoneward.routing.score import IN_ZONE, MAX_OVERLOAD
from zoneward.routing.selection.endpoint_selection import LOCAL
from zoneward.routing.what_if import as_if_requested, known_name
from zoneward.slices.overlay import is_selected
from zoneward.slices.plan import FamilyPlan

FixKind = Literal["add-pods", "remove-pods", "move-pods", "label-node", "spread", "setting", "threshold"]
Needs = Literal["controller", "overlay"]
"""What a fix needs from Zoneward where the built-in controller would decide otherwise: an overlay where that is enough
and the cluster can have one, else its controller."""

ENOUGH_IN_ZONE: Final = 0.9
"""The share of traffic that is to stay in its zone where hints or slice groups are in force already."""
_SETTINGS: Final = (names.PREFER_SAME_ZONE, "Auto", BALANCED.name, "local")
"""In the order of how well they are known."""
_BY_NUMBER: Final = frozenset(
    (
        Reason.ENABLED,
        Reason.NO_READY_ENDPOINTS,
        Reason.TOO_FEW_ENDPOINTS,
        Reason.OVERLOAD,
        Reason.ENDPOINT_WITHOUT_ZONE,
        Reason.BELOW_STARTING_THRESHOLD,
        Reason.CLUSTER_WIDE_IS_BEST,
    )
)
"""Reasons that other numbers of Pods may change."""
_MOST_FAILURES: Final = 3
"""Changes of one kind that suffice for `decide` and not for the plan: then the search ends."""
_MOST_SPREAD: Final = 12
_MOST_FEWER: Final = 100
"""Removing more Pods than that is a redesign and no fix."""
_MOST_UNLABELLED: Final = 4
"""Nodes without a zone of which every combination is tried."""
_PERCENT: Final = 100
_STEPS_A_POD: Final = 10
"""Starting thresholds are tried in tenths of an endpoint for each zone."""
_SMALL, _MEDIUM = 100, 300
_ORDER: Final[tuple[FixKind, ...]] = (
    *("label-node", "setting", "spread", "threshold"),
    *("add-pods", "move-pods", "remove-pods"),
)
"""Of fixes that cost the same."""


@dataclass(frozen=True, slots=True)
class Fix:
    """One change that meets the aim. ``family`` is the plan of the changed input.

    ``wherever``: of more or fewer Pods only the number counts, and any other zones do as well. ``among``: zones of
    which every one will do for the labelled Nodes. In both cases the ``family`` is the worst of them. ``workload`` owns
    the Pods; None where the input does not say. ``may_be_bound``: it moves Pods whose volumes may be bound to their
    zones; the input does not say.
    """

    kind: FixKind
    change: Change
    family: FamilyPlan
    needs: tuple[Needs, ...] = ()
    wherever: bool = False
    among: tuple[str, ...] = ()
    setting: str | None = None
    threshold: str | None = None
    workload: Workload | None = None
    may_be_bound: bool = False

    @property
    def pods(self) -> int:
        """Its cost: how many Pods more there are; below 0, fewer."""
        return self.change.more_pods

    @property
    def in_zone(self) -> float:
        """The share of traffic that stays in its zone with it; 0 where that is unknown."""
        return (self.family.traffic.in_zone if self.family.traffic else None) or 0.0


# --- the aim ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Aim:
    """What is to be reached: hints or slice groups in force, more than (or at least) a share of traffic in its zone,
    and, where the heuristic has no threshold, overload below ``threshold``. ``weighs``: some proxies follow
    weights of zones. ``only_served``: nothing but that no traffic is dropped.
    """

    about: str
    more_than: float
    threshold: Fraction
    demand: Demand
    weighs: bool
    only_served: bool = False

    def is_met(self, family: FamilyPlan) -> bool:
        """By the plan and the traffic that follows from it."""
        traffic = family.traffic
        if traffic is None or traffic.dropped:
            return False
        if self.only_served:
            return True
        if not family.decision.active or family.void_hints is not None:
            return False
        state = family.cluster_state
        by_other = state.decision_demand() != state.demand
        return self._suffices(family.decision, traffic.in_zone or 0.0, traffic.max_overload, by_other=by_other)

    def expected_in_zone(self, decision: Decision) -> float | None:
        """By the decision alone, with proxies that honor all of it: the share of traffic in its zone, or None where the
        aim would not be met.
        """
        allocation = decision.allocation
        if not decision.active or not decision.endpoints:
            return None
        if allocation is None:
            return 1.0
        if not allocation.counts or not any(zone in self.demand.weight_of for zone in allocation.zones):
            return None
        measures = measures_of(allocation, self.demand.weight_of)
        in_zone = measures[IN_ZONE]
        if self.weighs and decision.weights is not None:
            # Some proxies follow these in place of hints; which is better, the plan shows.
            shares = decision.weights.shares
            in_zone = max(in_zone, sum(self.demand.share(zone) * shares[zone].get(zone, 0.0) for zone in shares))
        return in_zone if self._suffices(decision, in_zone, measures[MAX_OVERLOAD]) else None

    def _suffices(self, decision: Decision, in_zone: float, overload: float, *, by_other: bool = False) -> bool:
        """``by_other``: it was decided by another demand than that of its traffic, and so its threshold holds there."""
        heuristic = HEURISTICS[decision.heuristic or ""]
        has_limit = not heuristic.node_hints and (by_other or not heuristic.balances)
        return in_zone > self.more_than + 1e-9 and overload < (
            self.threshold - Fraction(1, 10**9) if has_limit else inf
        )


def aim_of(family: FamilyPlan) -> Aim | None:
    """What a fix of this plan aims for; None where nothing is to be fixed, or no change of the cluster can fix it."""
    decision, traffic, state = family.decision, family.traffic, family.cluster_state
    threshold = state.configuration.hints.start_threshold
    weighs = any(consumer_demand.consumer.zone_weights for consumer_demand in state.consumers_of(family.service))
    if traffic is not None and traffic.dropped:
        return Aim("no traffic dropped", 0.0, threshold, state.demand, weighs, only_served=True)
    if (
        traffic is None
        or decision.reason in (Reason.NO_SELECTOR, Reason.BEING_DELETED)
        or family.service.spec.internal_traffic_policy == LOCAL
        or len(state.demand.zones) < 2
    ):
        return None
    if not decision.active:
        name = known_name(decision.heuristic, state.configuration) if decision.heuristic else ""
        asked = f"{name} in force" if name else "traffic kept in its zone"
        return Aim(asked, traffic.in_zone or 0.0, threshold, state.demand, weighs)
    about = f"{ENOUGH_IN_ZONE:.0%} in its zone"
    heuristic = HEURISTICS[decision.heuristic or ""]
    if not heuristic.balances and not heuristic.node_hints:
        about += f", no endpoint {format_percent(threshold)} above fair".replace(" %", "%")
    aim = Aim(about, ENOUGH_IN_ZONE - 1e-6, threshold, state.demand, weighs)
    return None if aim.is_met(family) else aim


# --- the search -------------------------------------------------------------------------------------------------------


def find_fixes(given: ServiceInput, address_type: str) -> tuple[Fix, ...]:
    """The smallest fix of each kind; empty where none is needed or found. Those that take the fewest Pods come first,
    and those that leave a zone without any last.
    """
    search = FixSearch.of(given, address_type)
    return () if search is None else search.fixes()


class FixSearch:
    """The search for one address family of a Service."""

    def __init__(self, given: ServiceInput, family: FamilyPlan, aim: Aim) -> None:
        self._given = given
        self._address_type = family.address_type
        self._decision = family.decision
        self.aim: Final = aim
        self._limits = pod_limits(given, family.address_type)

    @classmethod
    def of(cls, given: ServiceInput, address_type: str) -> "FixSearch | None":
        """None where nothing is to be fixed."""
        family = given.family(address_type)
        aim = None if family is None else aim_of(family)
        return None if family is None or aim is None else cls(given, family, aim)

    @cached_property
    def _trials(self) -> Trials:
        """Only for a Service with a selector: without one there is nothing to decide."""
        return Trials(self._given, self._address_type)

    def fixes(self) -> tuple[Fix, ...]:
        """As `find_fixes`."""
        if self.aim.only_served:
            # The internal traffic policy with which all traffic has an endpoint. Clients of a DaemonSet want the Pod of
            # their own node: a node without one may be new, or of a kind that runs none, such as EKS Fargate.
            workload = self._given.workload
            if workload is not None and workload.kind == "DaemonSet":
                return ()
            fix = self._verified("setting", Change(service_patch=CLUSTER_POLICY))
            return () if fix is None else (dataclasses.replace(fix, needs=()),)
        fixes = [*self.labels(), *self.settings(), *self.thresholds(), *self.pods()]
        if not fixes and not self._decision.active:
            # No single change is enough.
            fixes = list(islice(self.settings_with_pods(), 1))
        return tuple(
            sorted(
                fixes,
                key=lambda fix: (
                    self.empties_zone(fix),
                    max(fix.pods, 0),
                    bool(fix.needs),
                    fix.change.moved_pods,
                    _ORDER.index(fix.kind),
                ),
            )
        )

    def empties_zone(self, fix: Fix) -> bool:
        """Whether a zone in which traffic starts loses all of its Pods."""
        pods, demand = self._trials.replicas.by_zone, self._given.cluster_state.demand.weight_of
        return any(
            change < 0 and demand.get(zone) and pods[zone] <= -change for zone, change in fix.change.pods.items()
        )

    # --- numbers of Pods ----------------------------------------------------------------------------------------------

    def pods(self) -> Iterator[Fix]:
        """More, fewer, moved and spread Pods, for workloads whose Pods can be any number."""
        total = sum(self._trials.replicas.by_zone.values())
        if not total or not self._limits.scales or self._decision.reason not in _BY_NUMBER:
            return
        search = self._counts(None)
        zones = len(self._given.cluster_state.demand.zones)
        spread = self._spread(search)
        if spread is not None:
            yield spread
        more = None
        if spread is None or spread.pods:
            more = self._first("add-pods", search.more(max(3 * zones, total)))
        if more is not None:
            more = self._wherever(more, search)
            # An even spread that takes no more Pods is easier to reach.
            if more.wherever or spread is None or more.pods < spread.pods:
                yield more
        if spread is None or spread.pods:
            moved = self._first("move-pods", search.moved(total // 2))
            if moved is not None:
                yield moved
        if self._limits.can_shrink:
            fewer = self._first("remove-pods", search.fewer(min(total // 2, _MOST_FEWER)))
            if fewer is not None:
                yield self._wherever(fewer, search)

    def _counts(self, service: Service | None) -> CountSearch:
        def suffices(pods: PodChanges) -> bool:
            return self._limits.allows(pods) and self._expected(pods, service) is not None

        replicas = self._trials.replicas
        total = sum(replicas.by_zone.values())
        demand = self._given.cluster_state.demand
        return CountSearch(
            pods=replicas.by_zone,
            zones=[zone for zone in replicas.zones if zone in demand.weight_of and zone not in self._limits.closed],
            demand=demand.weight_of,
            suffices=suffices,
            limit=400 if total <= _SMALL else 100 if total <= _MEDIUM else 20,
            movable=self._limits.movable,
        )

    def _expected(self, pods: PodChanges, service: Service | None, aim: Aim | None = None) -> float | None:
        try:
            return (aim or self.aim).expected_in_zone(self._trials.decide(pods, service=service))
        except ImpossibleChange:
            return None

    def _first(self, kind: FixKind, changes: Iterator[PodChanges]) -> Fix | None:
        """The first of the changes that the plan confirms."""
        for failures, pods in enumerate(changes):
            fix = self._verified(kind, Change(pods=pods))
            if fix is not None or failures + 1 == _MOST_FAILURES:
                return fix
        return None

    def _wherever(self, fix: Fix, search: CountSearch) -> Fix:
        """Where only the number counts, the same fix as it is at worst: all of these Pods in one zone."""
        size = fix.pods
        if not search.wherever(fix.change.pods):
            return fix
        zones = [zone for zone in search.zones if size > 0 or self._trials.replicas.by_zone.get(zone, 0) >= -size]
        fixes = [self._verified(fix.kind, Change(pods={zone: size})) for zone in zones]
        worst = min([fix, *filter(None, fixes)], key=attrgetter("in_zone"))
        return dataclasses.replace(worst, wherever=all(fixes))

    def _spread(
        self, search: CountSearch, patch: MergePatch | None = None, service: Service | None = None
    ) -> Fix | None:
        """Pods spread evenly, with as few more as needed, whichever zones get those that are left over.

        It is the way in which the least traffic stays in its zone; of few Pods, every way is verified.
        """
        for extra in range(_MOST_SPREAD + 1):
            ways = [way for way in search.spread(extra) if self._limits.allows(way)]
            shares = [self._expected(pods, service) if pods or patch else None for pods in ways]
            if not ways or None in shares:
                continue
            worst = min(range(len(ways)), key=lambda way: shares[way] or 0.0)
            few = sum(search.pods.values()) <= _SMALL
            fixes = [
                self._verified("spread", Change(pods=pods, service_patch=patch or {}))
                for pods in (ways if few else (ways[worst],))
            ]
            if all(fixes):
                return min(filter(None, fixes), key=attrgetter("in_zone"))
        return None

    # --- labels, settings, thresholds ---------------------------------------------------------------------------------

    def labels(self) -> Iterator[Fix]:
        """A zone for as few of the Nodes without one as possible. The input does not say where these Nodes are, so a
        fix works in every zone, or names those with which it is verified.
        """
        state = self._given.cluster_state
        hosts = {pod.spec.node_name for pod in self._given.pods}
        unlabelled = sorted(
            name
            for name, zone in state.node_zones.items()
            if not zone and (name in hosts or name in state.demand.without_zone)
        )
        zones = state.demand.zones
        if not unlabelled or not zones:
            return
        few = len(unlabelled) <= _MOST_UNLABELLED
        for size in range(1, len(unlabelled) + 1) if few else (len(unlabelled),):
            for nodes in combinations(unlabelled, size):
                is_complete = few and len(zones) ** size <= 27
                every = product(zones, repeat=size) if is_complete else ((z,) * size for z in zones)
                changes = [Change(zone_of_node=dict(zip(nodes, chosen, strict=True))) for chosen in every]
                fixes = [fix for change in changes if (fix := self._verified("label-node", change)) is not None]
                if fixes:
                    if is_complete and len(fixes) == len(changes):
                        yield dataclasses.replace(min(fixes, key=_value), among=zones)
                    else:
                        yield fixes[0]
                    return

    def settings(self, aim: Aim | None = None) -> Iterator[Fix]:
        """Other settings: the best one, and the best one that needs Zoneward if that is better. ``aim``: another one
        than that of the search.
        """
        fixes = []
        for value, patch, service in self._other_settings(_SETTINGS):
            if self._expected({}, service, aim) is None:
                continue
            fix = self._verified("setting", Change(service_patch=patch), aim)
            if fix is not None:
                fixes.append(dataclasses.replace(fix, setting=value))
        best: Fix | None = None
        for needs in ((), ("overlay",), ("controller",)):
            alike = [fix for fix in fixes if fix.needs == needs]
            if alike and (best is None or max(map(_value, alike)) > _value(best)):
                best = max(alike, key=_value)
                yield best

    def settings_with_pods(self, values: Sequence[str] = _SETTINGS) -> Iterator[Fix]:
        """Another setting, of these ``values``, together with Pods spread evenly."""
        if not self._limits.scales:
            return
        for value, patch, service in self._other_settings(values):
            fix = self._spread(self._counts(service), patch, service)
            if fix is not None:
                yield dataclasses.replace(fix, kind="setting", setting=value)

    def _other_settings(self, values: Sequence[str]) -> Iterator[tuple[str, MergePatch, Service]]:
        """With their patches, and the Service after them."""
        service, state = self._given.service, self._given.cluster_state
        same_zone = setting_name(state.same_zone_value, kubernetes_minor(self._given.nodes))
        for value in values:
            patch = setting_patch(service, value, state.configuration, same_zone=same_zone)
            if patch:
                yield value, patch, patched(service, patch)

    def thresholds(self) -> Iterator[Fix]:
        """The nearest threshold of the Service with which something is in force. Only Zoneward reads it."""
        decision, configuration = self._decision, self._given.cluster_state.configuration
        if decision.active or configuration.upstream:
            return
        for text, annotation in _thresholds(decision, configuration):
            patch = {"metadata": {"annotations": {annotation: text}}}
            if self._expected({}, patched(self._given.service, patch)) is not None:
                fix = self._verified("threshold", Change(service_patch=patch))
                if fix is not None:
                    yield dataclasses.replace(fix, threshold=f"{annotation}: {text}")
                    return

    # --- the proof ----------------------------------------------------------------------------------------------------

    def _verified(self, kind: FixKind, change: Change, aim: Aim | None = None) -> Fix | None:
        aim = aim or self.aim
        try:
            changed = self._given.changed(change, address_type=self._address_type)
        except ImpossibleChange:
            return None
        family = changed.family(self._address_type)
        if family is None or not aim.is_met(family):
            return None
        may_be_bound = self._limits.may_be_bound and change.moved_pods > 0
        needs = self._needs(changed, aim)
        return Fix(kind, change, family, needs, workload=self._given.workload, may_be_bound=may_be_bound)

    def _needs(self, changed: ServiceInput, aim: Aim) -> tuple[Needs, ...]:
        """Nothing where the built-in controller would meet the aim, or does not write the slices. It decides by CPU,
        while traffic starts where ``demand`` says.
        """

        def meets_aim(decided: ServiceInput) -> bool:
            family = decided.family(self._address_type)
            return family is not None and aim.is_met(family)

        if not self._given.is_of_built_in or meets_aim(changed.as_upstream()):
            return ()
        state = changed.cluster_state
        if state.configuration.is_overlay:
            stays = state.overlay_in_use and is_selected(changed.service, None, state.configuration)
            return () if stays else ("overlay",)
        kubernetes = kubernetes_minor(changed.nodes)
        can_overlay = kubernetes is not None and kubernetes >= OVERLAY_SINCE and bool(changed.service.spec.selector)
        return ("overlay",) if can_overlay and meets_aim(changed.as_overlay()) else ("controller",)


def _value(fix: Fix) -> tuple[float, float]:
    """What settings are compared by: traffic in its zone, then overload, each to a percent."""
    overload = fix.family.traffic.max_overload if fix.family.traffic else 0.0
    return round(fix.in_zone, 2), -round(overload, 2)


def setting_patch(
    service: Service, value: str, configuration: Configuration, *, same_zone: str = names.PREFER_SAME_ZONE
) -> MergePatch:
    """The patch after which a Service requests ``value`` (of ``--what-if``), and nothing else. ``same_zone`` is the
    cluster's name of ``PreferSameZone``.
    """
    wanted = as_if_requested(service, value, configuration, same_zone=same_zone)
    have, want = service.metadata.annotations or {}, dict(wanted.metadata.annotations or {})
    disabled = want.get(names.SUBSETTING_ANNOTATION) in names.SUBSETTING_DISABLED_VALUES
    if disabled and configuration.default_approach == "ClusterWide":
        # No default has to be kept away.
        del want[names.SUBSETTING_ANNOTATION]
    annotations: dict[str, str | None] = {name: None for name in have if name not in want}
    annotations |= {name: text for name, text in want.items() if have.get(name) != text}
    patch: dict[str, object] = {"metadata": {"annotations": annotations}} if annotations else {}
    distribution = wanted.spec.traffic_distribution
    if distribution != service.spec.traffic_distribution:
        patch["spec"] = {"trafficDistribution": distribution}
    return patch


def _thresholds(decision: Decision, configuration: Configuration) -> Iterator[tuple[str, str]]:
    """Values and annotations, the nearest to what is in force first."""
    if decision.reason is Reason.OVERLOAD and decision.heuristic == PROPORTIONAL_ZONE_CPU.name:
        settings = decision.hints_settings or configuration.hints
        first = int(settings.start_threshold * _PERCENT) + 1
        yield from ((f"{percent}%", names.HINTS_THRESHOLD_ANNOTATION) for percent in range(first, _PERCENT + 1))
    elif decision.reason is Reason.CLUSTER_WIDE_IS_BEST:
        first = int(configuration.balanced.max_overload * _PERCENT) + 1
        yield from ((f"{percent}%", names.MAX_OVERLOAD_ANNOTATION) for percent in range(first, _PERCENT + 1))
    elif decision.reason is Reason.BELOW_STARTING_THRESHOLD:
        first = int(configuration.subsetting.starting_threshold * _STEPS_A_POD)
        for tenths in range(first, 0, -1):
            yield f"{tenths / _STEPS_A_POD:g}", names.STARTING_THRESHOLD_ANNOTATION
