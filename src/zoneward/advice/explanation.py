"""What happens to the traffic of a Service, why, and what to change: the document of ``zoneward explain -o json``.

Text, page and picture show this document and nothing else.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from zoneward.advice.bypass import Bypass, bypasses
from zoneward.advice.decisions import LoadComparison, compared_load
from zoneward.advice.dropped_traffic import DroppedTraffic, dropped_first, dropped_traffic
from zoneward.advice.fix_commands import describe_fix, steps_of
from zoneward.advice.fixes import Fix, FixKind, Needs, aim_of, find_fixes
from zoneward.advice.honored_traffic import HonoredTraffic, honored_traffic, node_traffic
from zoneward.advice.json_value import JsonValue, round_if_any, round_part, round_share, round_shares
from zoneward.advice.measured_flows import MeasuredFlows
from zoneward.advice.node_proxies import NodeProxies
from zoneward.advice.now import CurrentTraffic, PlansBefore, ignoring_proxies, plans_before
from zoneward.advice.pod_limits import Unchecked, pod_limits
from zoneward.advice.service_input import ServiceInput
from zoneward.kube.objects import Service
from zoneward.routing.selection.traffic import ExpectedTraffic
from zoneward.routing.what_if import known_name
from zoneward.slices.plan import FamilyPlan

_STALE: Final = "With slices as planned nothing is dropped: zoneward check shows how those in the cluster differ."


class ZoneTraffic(JsonValue, frozen=True, gc=False):
    """One zone: its share of all traffic, endpoints located there, and what it uses.

    ``uses`` counts the endpoints that its proxies select, ``to`` has the shares of its traffic, both by the zone of the
    endpoints. ``load`` is what an endpoint located there gets on the mean, 1 is fair. ``dropped`` is the share of its
    own traffic for which there is no endpoint.
    """

    demand: float
    located: int
    consumed: int
    uses: dict[str, int]
    to: dict[str, float]
    in_zone: float | None
    load: float | None
    dropped: float


class ServiceTraffic(JsonValue, frozen=True, gc=False):
    """The traffic of a Service by zone. Figures are None, and ``zones`` empty, for a Service that proxies ignore.

    ``dropped_traffic`` is the share of all traffic for which there is no endpoint; exactly 1 where all of it is
    dropped.
    """

    in_zone_traffic: float | None
    max_overload: float | None
    dropped_traffic: float | None
    zones: dict[str, ZoneTraffic]

    @property
    def served(self) -> bool:
        """Whether any traffic reaches an endpoint."""
        return self.dropped_traffic is not None and self.dropped_traffic < 1


class TrafficInForce(ServiceTraffic, frozen=True, gc=False):
    """What the slices in force do. ``proxies`` counts nodes by the kind of their proxy; ``dropped`` is None where
    nothing is."""

    dropped: DroppedTraffic | None
    proxies: dict[str, int]


class IgnoringProxy(JsonValue, frozen=True, gc=False):
    """A kind of proxy that ignores what the plan writes, and on how many nodes; ``about`` says what it honors."""

    proxy: str
    nodes: int
    about: str


class PlannedTraffic(ServiceTraffic, frozen=True, gc=False):
    """What would be decided, and what would come of it. ``setting`` is what this cluster calls the heuristic.
    ``dropped`` is None where nothing would be dropped.

    ``void``: proxies ignore all of its hints. ``nodes`` counts those from which traffic starts, ``ignored_by`` those
    with a proxy that ignores what is planned. ``built_in`` is why the built-in controller, where that one is at work,
    gives no hints and Zoneward would; ``built_in_traffic`` is what comes of its hints where it decides by CPU and
    Zoneward by another demand.

    ``load`` is absent where no option changes the input; it is None where no endpoint has traffic before or after.
    """

    approach: str
    heuristic: str | None
    setting: str | None
    active: bool
    void: bool
    reason: str
    reason_code: str
    dropped: DroppedTraffic | None
    nodes: int
    ignored_by: tuple[IgnoringProxy, ...]
    built_in: str | None
    built_in_traffic: ServiceTraffic | None
    load: LoadComparison | msgspec.UnsetType | None = msgspec.UNSET


class DecidedRule(JsonValue, frozen=True, gc=False):
    """A rule of the decision; exactly one is ``deciding``, where any is."""

    rule: str
    passed: bool
    detail: str
    deciding: bool


class FixChange(JsonValue, frozen=True, gc=False, omit_defaults=True):
    """One thing to change: Pods in a zone (below 0: fewer), the zone of a node, or a patch of the Service."""

    zone: str | None = None
    pods: int | None = None
    node: str | None = None
    patch: dict[str, Any] | None = None


class FixResult(JsonValue, frozen=True, gc=False):
    """The result of the decision on the changed input."""

    active: bool
    reason: str
    in_zone_traffic: float | None
    max_overload: float


class VerifiedFix(JsonValue, frozen=True, gc=False):
    """A fix and how to apply it. ``pods`` is its cost; ``anywhere``: only the number of Pods counts, not their zones.

    ``volumes_checked`` is false where it moves Pods whose volumes may be bound to their zones.
    """

    kind: FixKind
    about: str
    pods: int
    anywhere: bool
    needs: tuple[Needs, ...]
    changes: tuple[FixChange, ...]
    result: FixResult
    commands: tuple[str, ...]
    notes: tuple[str, ...]
    volumes_checked: bool


class FamilyExplanation(JsonValue, frozen=True, gc=False):
    """One address family of a Service.

    ``now`` is None where no slices are known. ``aim`` is what fixes reach, None where nothing is to be fixed.
    ``limits`` say which changes of Pods are no fix, ``not_checked`` what the fixes that change Pods were not checked
    against. ``measured`` is absent without measurements, and None where they hold no connection.
    """

    address_type: str
    now: TrafficInForce | None
    planned: PlannedTraffic
    rules: tuple[DecidedRule, ...]
    aim: str | None
    fixes: tuple[VerifiedFix, ...]
    limits: tuple[str, ...]
    not_checked: tuple[Unchecked, ...]
    bypassed_by: tuple[Bypass, ...]
    measured: HonoredTraffic | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def dropped(self) -> DroppedTraffic | None:
        """What comes before everything else about the Service."""
        return dropped_first(self.now.dropped if self.now is not None else None, self.planned.dropped)

    @property
    def traffic_now(self) -> ServiceTraffic | None:
        """None where nothing is known, and for a Service that proxies ignore."""
        return self.now if self.now is not None and self.now.zones else None

    @property
    def traffic_planned(self) -> ServiceTraffic | None:
        """None for a Service that proxies ignore."""
        return self.planned if self.planned.zones else None

    @property
    def changes_nothing(self) -> bool:
        """Whether the plan leaves traffic as it is now, in a cluster that no option changes."""
        now, planned = self.traffic_now, self.traffic_planned
        if now is None or planned is None or self.planned.load:
            return False
        return now.zones == planned.zones and now.max_overload == planned.max_overload


class Explanation(JsonValue, frozen=True, gc=False):
    """A Service with all its address families; none for an ExternalName."""

    namespace: str
    service: str
    families: tuple[FamilyExplanation, ...]
    bypassed_by: tuple[Bypass, ...]

    @property
    def name(self) -> str:
        return f"{self.namespace}/{self.service}"


def explain_service(
    given: ServiceInput,
    *,
    node_proxies: NodeProxies,
    actual: Service | None = None,
    unchanged: ServiceInput | None = None,
    measured: MeasuredFlows | None = None,
    of_zoneward: ServiceInput | None = None,
) -> Explanation:
    """Explain one Service. ``actual`` is the Service as it is in the cluster where ``given`` has another setting,
    ``unchanged`` the same in the cluster as it was read where ``given`` is in a changed one. ``node_proxies`` are those
    of the cluster as it was read. ``measured``: what nodes counted, to be shown beside what is in force.
    ``of_zoneward``: the same as Zoneward decides where ``given`` is what Kubernetes does: fixes that need Zoneward are
    the last ones.
    """
    read = unchanged or given
    service = actual or given.service
    now = dataclasses.replace(read, service=service).traffic_now(node_proxies)
    before = plans_before([unchanged.plan]) if unchanged is not None else None
    honored = _honored(read, service, measured) if measured is not None else {}
    bypassed_by = bypasses(given)
    families = []
    for family in given.plan.families:
        address_type, decision = family.address_type, family.decision
        in_force, planned = _in_force(service, address_type, read, now), _planned(given, family, before, node_proxies)
        if in_force is not None and in_force.dropped is not None and planned.dropped is None:
            in_force = replace(in_force, dropped=replace(in_force.dropped, fix=_STALE))
        aim = aim_of(family)
        fixes = [_fix(fix, given, address_type) for fix in find_fixes(given, address_type)]
        if of_zoneward is not None:
            more = (fix for fix in find_fixes(of_zoneward, address_type) if fix.needs)
            fixes += [_fix(fix, of_zoneward, address_type) for fix in more]
        limits = pod_limits(given, address_type)
        families.append(
            FamilyExplanation(
                address_type=address_type,
                now=in_force,
                planned=planned,
                rules=tuple(
                    DecidedRule(rule.rule, rule.passed, rule.detail, index == decision.deciding)
                    for index, rule in enumerate(decision.rules)
                ),
                aim=aim.about if aim is not None else None,
                fixes=tuple(fixes),
                limits=limits.reasons if aim is not None and not aim.only_served else (),
                not_checked=limits.unchecked if any(change.pods for fix in fixes for change in fix.changes) else (),
                bypassed_by=bypassed_by,
                measured=msgspec.UNSET if measured is None else honored.get(address_type),
            )
        )
    return Explanation(*given.key, tuple(families), bypassed_by)


# --- now --------------------------------------------------------------------------------------------------------------


def _in_force(
    service: Service, address_type: str, read: ServiceInput, now: Mapping[str, CurrentTraffic]
) -> TrafficInForce | None:
    """What proxies do with the slices as they were read; None where there are none."""
    current = now.get(address_type)
    if current is None:
        return None
    return TrafficInForce(
        *_figures(current.traffic),
        dropped=dropped_traffic(service, read.slices_of(address_type), current.traffic, read.cluster_state.demand),
        proxies=dict(current.proxies),
    )


def _honored(read: ServiceInput, service: Service, measured: MeasuredFlows) -> dict[str, HonoredTraffic]:
    """By address type, where any connection was counted."""
    honored = {}
    for (*key, family), connections in measured.connections.items():
        if tuple(key) == read.key:
            nodes = node_traffic(
                service,
                family,
                connections,
                zone_of=measured.zone_of,
                slices=read.slices,
                cluster_state=read.cluster_state,
            )
            if nodes:
                honored[family] = honored_traffic(nodes)
    return honored


# --- planned ----------------------------------------------------------------------------------------------------------


def _planned(
    given: ServiceInput, family: FamilyPlan, before: PlansBefore | None, node_proxies: NodeProxies
) -> PlannedTraffic:
    decision, state = family.decision, family.cluster_state
    built_in = _as_built_in(given, family)
    refused = built_in is not None and not built_in.decision.active
    by_other_demand = state.decision_demand() is not state.by_cpu
    return PlannedTraffic(
        *_figures(family.traffic),
        approach=decision.approach,
        heuristic=decision.heuristic,
        setting=known_name(decision.heuristic, state.configuration) if decision.heuristic else None,
        active=decision.active,
        void=family.void_hints is not None,
        reason=decision.message,
        reason_code=decision.reason,
        dropped=dropped_traffic(family.service, family.slices, family.traffic, state.demand),
        nodes=len(state.demand.nodes),
        ignored_by=tuple(
            IgnoringProxy(kind.title, nodes, kind.about) for kind, nodes in ignoring_proxies(family, node_proxies)
        ),
        built_in=built_in.decision.message if built_in is not None and refused else None,
        built_in_traffic=ServiceTraffic(*_figures(built_in.traffic))
        if built_in is not None and not refused and built_in.traffic is not None and by_other_demand
        else None,
        load=compared_load(family, before),
    )


def _as_built_in(given: ServiceInput, family: FamilyPlan) -> FamilyPlan | None:
    """What the built-in controller does, where it is at work and Zoneward's approach would be active."""
    if not family.decision.active or not given.is_of_built_in or given.cluster_state.overlay_in_use:
        return None
    return given.as_upstream().family(family.address_type)


def _figures(
    traffic: ExpectedTraffic | None,
) -> tuple[float | None, float | None, float | None, dict[str, ZoneTraffic]]:
    """The fields of `ServiceTraffic`."""
    if traffic is None:
        return None, None, None, {}
    zones = {
        zone: ZoneTraffic(
            demand=round_share(figures.demand),
            located=figures.located,
            consumed=figures.consumed,
            uses=dict(figures.selected),
            to=round_shares(figures.to),
            in_zone=round_if_any(figures.in_zone),
            load=round_if_any(figures.load),
            dropped=round_part(figures.dropped),
        )
        for zone, figures in traffic.zones.items()
    }
    return round_if_any(traffic.in_zone), round_share(traffic.max_overload), round_part(traffic.dropped), zones


# --- fixes ------------------------------------------------------------------------------------------------------------


def _fix(fix: Fix, given: ServiceInput, address_type: str) -> VerifiedFix:
    traffic, decision = fix.family.traffic, fix.family.decision
    assert traffic is not None, "a fix is verified by its traffic"
    steps = steps_of(fix, given, address_type)
    return VerifiedFix(
        kind=fix.kind,
        about=describe_fix(fix),
        pods=fix.pods,
        anywhere=fix.wherever,
        needs=fix.needs,
        changes=tuple(_changes(fix)),
        result=FixResult(
            active=decision.active,
            reason=decision.message,
            in_zone_traffic=round_if_any(traffic.in_zone),
            max_overload=round_share(traffic.max_overload),
        ),
        commands=steps.commands,
        notes=steps.notes,
        volumes_checked=not fix.may_be_bound,
    )


def _changes(fix: Fix) -> Iterable[FixChange]:
    change = fix.change
    yield from (FixChange(zone=zone, pods=pods) for zone, pods in sorted(change.pods.items()))
    yield from (FixChange(node=node, zone=zone) for node, zone in sorted(change.zone_of_node.items()))
    if change.service_patch:
        yield FixChange(patch=dict(change.service_patch))
