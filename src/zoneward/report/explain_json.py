"""What happens to a Service's traffic, why, and the smallest fixes, as the JSON of ``explain -o json``."""

from typing import Any, Literal

import msgspec

from zoneward.advice.bypass import Bypass
from zoneward.advice.dropped_traffic import DroppedTraffic
from zoneward.advice.explanation import Explanation, FamilyExplanation, VerifiedFix
from zoneward.advice.honored_traffic import HonoredTraffic
from zoneward.advice.now import CurrentTraffic
from zoneward.report.fix_words import describe_fix
from zoneward.report.plan_json import JsonView, LoadView, load_view, round_if_any, round_share
from zoneward.report.traffic_json import ReportNodeView, node_view
from zoneward.routing.selection.expected_traffic import ExpectedTraffic, ExpectedZoneTraffic


class ExplainedZoneView(JsonView, frozen=True, gc=False):
    """One zone: its share of all traffic, endpoints located there, and what it uses.

    ``uses`` counts the endpoints that its proxies select, ``to`` has the shares of its traffic, both by the zone of the
    endpoints. ``load`` is what an endpoint located there gets on the mean, 1 is fair.
    """

    demand: float
    located: int
    consumed: int
    uses: dict[str, int]
    to: dict[str, float]
    in_zone: float | None
    load: float | None


class DroppedView(JsonView, frozen=True, gc=False):
    """Traffic without an endpoint: its ``share`` of all, or the ``ports`` that no endpoint serves; why, and a fix."""

    share: float
    ports: tuple[str, ...]
    reason: str
    fix: str


class ExplainedNowView(JsonView, frozen=True, gc=False):
    """What the slices in force do. ``proxies`` counts nodes by the kind of their proxy; ``dropped`` is null where
    nothing is."""

    in_zone_traffic: float | None
    max_overload: float | None
    dropped: DroppedView | None
    zones: dict[str, ExplainedZoneView]
    proxies: dict[str, int]


class BuiltInTrafficView(JsonView, frozen=True, gc=False):
    """The traffic that follows from the hints of the built-in controller."""

    in_zone_traffic: float | None
    max_overload: float


class IgnoringProxyView(JsonView, frozen=True, gc=False):
    """A kind of proxy that ignores what the plan writes, on so many nodes; ``about`` says what it honors."""

    proxy: str
    nodes: int
    about: str


class ExplainedPlanView(JsonView, frozen=True, gc=False):
    """What Zoneward would decide; ``dropped`` is null where nothing would be. ``built_in`` is why the built-in
    controller gives no hints where Zoneward would; ``built_in_traffic`` is what comes of its hints where it decides by
    CPU and Zoneward by another demand.

    ``load`` is absent where no option changes the input; it is null where no endpoint has traffic before or after.
    """

    approach: str
    heuristic: str | None
    active: bool
    reason: str
    reason_code: str
    in_zone_traffic: float | None
    max_overload: float | None
    dropped: DroppedView | None
    zones: dict[str, ExplainedZoneView]
    ignored_by: tuple[IgnoringProxyView, ...]
    built_in: str | None
    built_in_traffic: BuiltInTrafficView | None
    load: LoadView | msgspec.UnsetType | None = msgspec.UNSET


class ExplainedRuleView(JsonView, frozen=True, gc=False):
    """A rule of the decision; exactly one is ``deciding``, where any is."""

    rule: str
    passed: bool
    detail: str
    deciding: bool


class FixChangeView(JsonView, frozen=True, gc=False, omit_defaults=True):
    """One thing to change: Pods in a zone (below 0: fewer), the zone of a node, or a patch of the Service."""

    zone: str | None = None
    pods: int | None = None
    node: str | None = None
    patch: dict[str, Any] | None = None


class FixResultView(JsonView, frozen=True, gc=False):
    """What the decision on the changed input comes to."""

    active: bool
    reason: str
    in_zone_traffic: float | None
    max_overload: float


class FixView(JsonView, frozen=True, gc=False):
    """A verified fix. ``pods`` is its cost; ``anywhere``: only the number of Pods counts, not their zones."""

    kind: Literal["add-pods", "remove-pods", "move-pods", "label-node", "spread", "setting", "threshold"]
    about: str
    pods: int
    anywhere: bool
    needs: tuple[str, ...]
    changes: tuple[FixChangeView, ...]
    result: FixResultView
    commands: tuple[str, ...]
    notes: tuple[str, ...]


class UncheckedView(JsonView, frozen=True, gc=False):
    """Something that fixes which change Pods depend on, and why the input does not say it."""

    what: str
    reason: str


class ExplainedMeasurementView(JsonView, frozen=True, gc=False):
    """What nodes counted: connections to the Service, the share that stayed in its zone, the one that what is in force
    should keep, and both by node."""

    connections: int
    in_zone: float | None
    predicted_in_zone: float | None
    deviating_nodes: tuple[str, ...]
    nodes: tuple[ReportNodeView, ...]


class FamilyExplanationView(JsonView, frozen=True, gc=False):
    """One address family. ``aim`` is what fixes reach, null where nothing is to be fixed. ``limits`` say which changes
    of Pods are no fix, ``not_checked`` what the fixes that change Pods were not checked against.

    ``measured`` is absent without measurements, and null where they hold no connection.
    """

    address_type: str
    now: ExplainedNowView | None
    planned: ExplainedPlanView
    rules: tuple[ExplainedRuleView, ...]
    aim: str | None
    fixes: tuple[FixView, ...]
    limits: tuple[str, ...]
    not_checked: tuple[UncheckedView, ...]
    bypassed_by: tuple[Bypass, ...]
    measured: ExplainedMeasurementView | msgspec.UnsetType | None = msgspec.UNSET


class ExplanationView(JsonView, frozen=True, gc=False):
    """One Service; no families where it is an ExternalName."""

    namespace: str
    service: str
    families: tuple[FamilyExplanationView, ...]
    bypassed_by: tuple[Bypass, ...]


def explanation_document(explanation: Explanation) -> ExplanationView:
    meta = explanation.service.metadata
    return ExplanationView(
        meta.namespace,
        meta.name,
        tuple(_family(explanation, each) for each in explanation.families),
        explanation.bypassed_by,
    )


def _family(explanation: Explanation, family: FamilyExplanation) -> FamilyExplanationView:
    decision, traffic = family.planned.decision, family.planned.traffic
    return FamilyExplanationView(
        address_type=family.planned.address_type,
        now=_now(family.now, family.drops_now) if family.now is not None else None,
        planned=ExplainedPlanView(
            approach=decision.approach,
            heuristic=decision.heuristic,
            active=decision.active,
            reason=decision.message,
            reason_code=decision.reason,
            in_zone_traffic=round_if_any(traffic.in_zone) if traffic else None,
            max_overload=round_share(traffic.max_overload) if traffic else None,
            dropped=_dropped(family.would_drop),
            zones=_zones(traffic),
            ignored_by=tuple(IgnoringProxyView(kind.title, nodes, kind.about) for kind, nodes in family.ignored_by),
            built_in=family.built_in,
            built_in_traffic=_built_in_traffic(family.built_in_traffic),
            load=load_view(family.load_change) if explanation.is_changed else msgspec.UNSET,
        ),
        rules=tuple(
            ExplainedRuleView(rule.rule, rule.passed, rule.detail, place == decision.deciding)
            for place, rule in enumerate(decision.rules)
        ),
        aim=family.aim,
        fixes=tuple(map(_fix, family.fixes)),
        limits=family.limits,
        not_checked=tuple(UncheckedView(each.what, each.reason) for each in family.unchecked),
        bypassed_by=explanation.bypassed_by,
        measured=_measured(family.measured) if explanation.is_measured else msgspec.UNSET,
    )


def _built_in_traffic(traffic: ExpectedTraffic | None) -> BuiltInTrafficView | None:
    return (
        None
        if traffic is None
        else BuiltInTrafficView(round_if_any(traffic.in_zone), round_share(traffic.max_overload))
    )


def _measured(measured: HonoredTraffic | None) -> ExplainedMeasurementView | None:
    if measured is None:
        return None
    in_zone, predicted = measured.in_zone, measured.predicted_in_zone
    return ExplainedMeasurementView(
        connections=measured.connections,
        in_zone=round_if_any(in_zone),
        predicted_in_zone=round_if_any(predicted),
        deviating_nodes=tuple(each.node for each in measured.deviating),
        nodes=tuple(map(node_view, measured.nodes)),
    )


def _dropped(dropped: DroppedTraffic | None) -> DroppedView | None:
    if dropped is None:
        return None
    return DroppedView(round_share(dropped.share), dropped.ports, dropped.reason, dropped.fix)


def _now(now: CurrentTraffic, dropped: DroppedTraffic | None) -> ExplainedNowView:
    traffic = now.traffic
    return ExplainedNowView(
        in_zone_traffic=round_if_any(traffic.in_zone) if traffic else None,
        max_overload=round_share(traffic.max_overload) if traffic else None,
        dropped=_dropped(dropped),
        zones=_zones(traffic),
        proxies=dict(now.proxies),
    )


def _zones(traffic: ExpectedTraffic | None) -> dict[str, ExplainedZoneView]:
    return {zone: _zone(each) for zone, each in traffic.zones.items()} if traffic else {}


def _zone(zone: ExpectedZoneTraffic) -> ExplainedZoneView:
    return ExplainedZoneView(
        demand=round_share(zone.demand),
        located=zone.located,
        consumed=zone.consumed,
        uses=dict(zone.selected),
        to={place: round_share(share) for place, share in zone.to.items()},
        in_zone=round_if_any(zone.in_zone),
        load=round_if_any(zone.load),
    )


def _fix(verified: VerifiedFix) -> FixView:
    fix, steps = verified.fix, verified.steps
    change, traffic = fix.change, fix.family.traffic
    assert traffic is not None, "a fix is verified by its traffic"
    changes = [
        *(FixChangeView(zone=zone, pods=number) for zone, number in sorted(change.pods.items())),
        *(FixChangeView(node=node, zone=zone) for node, zone in sorted(change.zone_of_node.items())),
    ]
    if change.service_patch:
        changes.append(FixChangeView(patch=dict(change.service_patch)))
    return FixView(
        kind=fix.kind,
        about=describe_fix(fix),
        pods=fix.pods,
        anywhere=fix.wherever,
        needs=fix.needs,
        changes=tuple(changes),
        result=FixResultView(
            active=fix.family.decision.active,
            reason=fix.family.decision.message,
            in_zone_traffic=round_if_any(traffic.in_zone),
            max_overload=round_share(traffic.max_overload),
        ),
        commands=steps.commands,
        notes=steps.notes,
    )
