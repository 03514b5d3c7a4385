"""The table of ``plan``: a line for each Service, made for a person, and for 100 columns or a page."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from zoneward.advice.decisions import count_slices
from zoneward.advice.dropped_traffic import DroppedTraffic, dropped_traffic, format_dropped
from zoneward.advice.node_proxies import NodeProxies, ProxyKind
from zoneward.advice.now import (
    NOTHING_KNOWN,
    ClusterTraffic,
    CurrentTraffic,
    LoadChange,
    PlansBefore,
    ignoring_proxies,
    load_change,
)
from zoneward.kube import names
from zoneward.kube.adoption_marks import manager_of
from zoneward.report.html import Markup, fact
from zoneward.report.table_parts import TableParts, folded
from zoneward.report.terminal_text import (
    SHARE_COLORS,
    StyledText,
    Text,
    join_words,
    join_wrapped,
    share_style,
    whole_percent,
)
from zoneward.routing.algorithms.heuristics import HEURISTICS
from zoneward.routing.allocation import Allocation
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand
from zoneward.routing.phrases import counted, listed
from zoneward.routing.request import Approach
from zoneward.routing.rules import Reason, Rule
from zoneward.routing.selection.endpoint_selection import is_proxied
from zoneward.routing.selection.traffic import (
    ExpectedTraffic,
    ServiceMeasurement,
    TrafficMeasurements,
    predicted_in_zone_share,
)
from zoneward.routing.what_if import known_name
from zoneward.slices.plan import FamilyPlan, ServicePlan

CLUSTER_WIDE = "cluster-wide"
"""The approach of a Service that gets no other one, in all tables."""
_MOST_ZONE_COLUMNS = 6
_CHANGE: Final = ">"
_DROPS: Final = "drops"
_COLORS: Final = f"Colours: {SHARE_COLORS}; WORST green below {{}}, red from {{}}."
_DESTINATIONS = {
    "ProportionalZoneCPU": "zones by their CPU",
    "Balanced": "zones as far as endpoints carry",
    "PreferZone": "its own zone",
    "PreferSameZone": "its own zone",
    "PreferSameNode": "its own node, else zone",
    "RequireZone": "its own zone",
    "random": "all zones, as asked",
}
_UNITS: Final = {
    "milliCPU": "CPU of {}",
    "nodes": "number of {}",
    "even": "the same in each zone, {}",
    "parts": "as it was set, {}",
}
"""The unit of demand, with the ready nodes where traffic starts."""
_SHORT_REASONS = {
    Reason.TOPOLOGY_KEYS: "topologyKeys is set",
    Reason.UNKNOWN_VALUE: "unknown value",
    Reason.FEATURE_GATE_OFF: "feature gate is off",
    Reason.EXTERNAL_TRAFFIC_POLICY_LOCAL: "external is Local",
    Reason.NO_READY_NODES: "no ready node",
    Reason.ONLY_CONTROL_PLANES: "no ready worker",
    Reason.NODE_WITHOUT_ZONE: "node without zone",
    Reason.NODE_WITHOUT_CPU: "node without CPU",
    Reason.ONE_ZONE: "nodes in one zone",
    Reason.NO_READY_ENDPOINTS: "none is ready",
    Reason.TOO_FEW_ENDPOINTS: "{endpoints} for {zones} zones",
    Reason.OVERLOAD: "{endpoints} would overload",
    Reason.ENDPOINT_WITHOUT_ZONE: "pod without zone",
    Reason.NO_SELECTOR: "no selector",
    Reason.BELOW_STARTING_THRESHOLD: "too few to start",
    Reason.HINTS_WITHOUT_WEIGHTS: "hints lack weights",
    Reason.TOO_MANY_ZONES: "too many zones",
    Reason.BEING_DELETED: "being deleted",
    Reason.HINTS_NOT_STORED: "hints not stored",
}
"""A few words for one line; ``-o wide`` and the rules have the numbers."""


def plan_parts(
    plans: Sequence[ServicePlan],
    *,
    demand: Demand,
    configuration: Configuration,
    now: ClusterTraffic = NOTHING_KNOWN,
    node_proxies: NodeProxies | None = None,
    wide: bool = False,
    known_zones: Collection[str] = (),
    measured: TrafficMeasurements | None = None,
    before: PlansBefore | None = None,
    is_page: bool = False,
    has_colors: bool = False,
    every_plan: Sequence[ServicePlan] | None = None,
) -> TableParts:
    """What each Service would get, a line each. ``every_plan``: those of the total, where ``plans`` are some of them.

    ``now`` has what slices in force do, by namespace and name of the Service and by address type, ``node_proxies`` the
    proxies that predictions are for. ``wide`` shows the approach and the whole reason, over as many lines as that
    takes. ``known_zones`` have a column even where no traffic starts. ``measured`` figures stand beside the predicted
    ones. ``before`` are the plans of the unchanged cluster, where options change the input: loads are compared with
    their loads. ``is_page``: rules are folded in each row, and the first line is not about all Services.
    ``has_colors``: the legend explains them.
    """
    every = plans if every_plan is None else every_plan
    known = tuple(sorted({*demand.zones, *known_zones}))
    zones = known if len(known) <= _MOST_ZONE_COLUMNS else ()
    short = dict(zip(known, short_names(known), strict=True))
    planned = [plan for plan in every if plan.families]
    shows_slices = not planned or any(not plan.is_of_kubernetes for plan in planned)

    def columns() -> Iterator[tuple[str, Callable[[_Row], StyledText]]]:
        yield "SERVICE", _service
        if wide:
            yield "APPROACH", lambda row: Text(_approach(row.family.decision, configuration))
        for zone in zones:
            yield short[zone], partial(_zone, zone=zone, configuration=configuration)
        yield "IN ZONE", lambda row: _from_to(row, _in_zone)
        if measured is not None:
            yield "MEASURED", lambda row: _measured(row, measured)
        if measured is not None and wide:
            yield "PREDICTED", lambda row: _predicted(row, measured)
        yield "WORST", lambda row: _from_to(row, partial(_worst, configuration=configuration))
        if before is not None:
            yield "LOAD", lambda row: _growth(row.load.change if row.load else None, configuration)
        if before is not None and wide:
            yield "RISE", lambda row: _growth(row.load.highest_rise if row.load else None, configuration)
        if wide:
            yield "MEAN", lambda row: _share(row.served.mean_overload if row.served else None)
        if wide and shows_slices:
            yield "MOVED", lambda row: Text(str(row.family.decision.moved))
        if shows_slices:
            yield "SLICES", _changes
        yield "TRAFFIC SENT TO", partial(_goes_to, short=short, demand=demand, node_proxies=node_proxies, whole=wide)

    names, cells = zip(*columns(), strict=True)
    family_rows: list[_Row] = []
    rows: list[list[StyledText]] = []
    details: list[Markup | None] = []
    for plan in plans:
        current = now.get((plan.service.metadata.namespace, plan.service.metadata.name), {})
        for family in plan.families:
            load = load_change(family, before) if before is not None else None
            row = _Row(plan, family, current.get(family.address_type), load)
            family_rows.append(row)
            rows.append([cell(row) for cell in cells])
            details.append(folded("rules", map(_describe_rule, family.decision.rules)))
        if not plan.families:
            why = Text(f"nowhere: {plan.service.spec.type}", "dim")
            rows.append([Text(_name(plan)), *(Text() for _ in names[2:]), why])
            details.append(None)
    figures = [row[names.index(name)].plain for row in rows for name in ("IN ZONE", "WORST")]
    legend = _legend(
        plans,
        configuration,
        each_zone=bool(zones),
        has_now=any(_CHANGE in text for text in figures),
        has_unknown=any(row.served is not None and row.served.in_zone is None for row in family_rows),
        drops=any(_DROPS in text for text in figures),
        wide=wide,
        is_changed=before is not None,
        shows_slices=shows_slices,
        has_colors=has_colors,
        services=len(every),
    )
    if measured is not None:
        legend = join_wrapped([_measured_from(measured, demand, short, wide=wide), legend])
    return TableParts(
        above=(_heading(demand, short, node_proxies, every, configuration, has_total=not is_page),),
        columns=names,
        rows=rows,
        right=set(names) - {"SERVICE", "APPROACH", "SLICES", "TRAFFIC SENT TO"},
        below=legend,
        details=details if is_page else (),
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """One address family of a Service, with what the slices in force do, and its load against that before a change."""

    plan: ServicePlan
    family: FamilyPlan
    in_force: CurrentTraffic | None
    load: LoadChange | None

    @property
    def served(self) -> ExpectedTraffic | None:
        """The traffic as planned, if any of it is served."""
        return _served_traffic(self.family.traffic)


def _describe_rule(rule: Rule) -> str:
    return f"{rule.rule}: {'yes' if rule.passed else 'no'}, {rule.detail}"


def plan_facts(plans: Sequence[ServicePlan], *, demand: Demand) -> list[Markup]:
    """The figures of a page, of all Services."""
    facts = []
    total = total_traffic(plans)
    if total is not None:
        in_zone, worst_plan, worst = total
        facts.append(fact("in its zone", f"{in_zone:.0%}", "weighed by endpoints"))
        facts.append(fact("worst overload", _worst_text(worst), _name(worst_plan)))
    facts.append(fact("Services", f"{len(plans):,}"))
    facts.append(fact("nodes", f"{len(demand.nodes):,}", f"in {counted(len(demand.zones), 'zone')}"))
    return facts


def _served_traffic(traffic: ExpectedTraffic | None) -> ExpectedTraffic | None:
    return traffic if traffic is not None and traffic.served else None


def _from_to(row: _Row, text_of: Callable[[ExpectedTraffic | None], StyledText]) -> StyledText:
    """``34%>97%``: now and as planned; one figure where there is no difference, or nothing in force."""
    today, planned = _served_traffic(row.in_force.traffic if row.in_force else None), text_of(row.served)
    if today is None or text_of(today).plain == planned.plain:
        return planned
    return text_of(today).append(_CHANGE, "dim").append_text(planned)


def _measured_from(
    measured: TrafficMeasurements, demand: Demand, short: Mapping[str, str], *, wide: bool
) -> StyledText:
    sources = tuple(
        f"{counted(len(nodes), 'node')} in {short.get(zone, zone) or 'no zone'}"
        for zone, nodes in measured.nodes.items()
    )
    lines = [f"MEASURED: what stayed in its zone, of the connections that {listed(sources)} counted."]
    if wide:
        lines.append("PREDICTED: the prediction for traffic that starts as measured, not in proportion to CPU.")
    missing = measured.missing(demand.zones)
    if missing:
        lines.append(f"Nothing is measured of {listed(tuple(short[zone] for zone in missing))}.")
    if measured.incomplete:
        lines.append(f"Not all was counted on {listed(tuple(sorted(measured.incomplete)))}.")
    return join_wrapped(lines, "dim")


def _heading(
    demand: Demand,
    short: Mapping[str, str],
    node_proxies: NodeProxies | None,
    plans: Sequence[ServicePlan],
    configuration: Configuration,
    *,
    has_total: bool,
) -> StyledText:
    total = _total(plans, configuration) if has_total else None
    lines: list[Text | str] = [_demand(demand, short)] if total is None else [total, _demand(demand, short)]
    own = sum(any(family.cluster_state.demand.unit == "figures" for family in plan.families) for plan in plans)
    if own:
        lines.append(f"With their own demand, by figures: {own:,} of {counted(len(plans), 'Service')}")
    if node_proxies is None or not demand.nodes:
        return join_wrapped(lines)
    counts = Counter(node_proxies.on(node.name).title for node in demand.nodes)
    kinds = [title if len(counts) == 1 else f"{title} on {nodes}" for title, nodes in counts.most_common()]
    return join_wrapped([*lines, f"Proxies: {listed(tuple(kinds))}"])


def total_traffic(plans: Sequence[ServicePlan]) -> tuple[float, ServicePlan, ExpectedTraffic] | None:
    """What stays in its zone of the traffic to all Services, weighed by endpoints, and the Service with the worst
    overload; None without traffic. The same total as that of ``compare`` for what Services ask for.
    """
    families = [
        (plan, family, traffic)
        for plan in plans
        for family in plan.families
        if (traffic := _served_traffic(family.traffic)) is not None and traffic.in_zone is not None
    ]
    endpoints = sum(family.decision.endpoints for _, family, _ in families)
    if not endpoints:
        return None
    in_zone = sum(family.decision.endpoints * (traffic.in_zone or 0.0) for _, family, traffic in families) / endpoints
    worst_plan, _, worst = max(families, key=lambda item: item[2].max_overload)
    return in_zone, worst_plan, worst


def _total(plans: Sequence[ServicePlan], configuration: Configuration) -> Text | None:
    """The line about all Services; None for a single one, which is its own total."""
    sums = total_traffic(plans) if len(plans) > 1 else None
    if sums is None:
        return None
    in_zone, worst_plan, worst = sums
    text = Text("Total: ", "bold").append(f"{in_zone:.0%} in its zone", "bold")
    text.append(", weighed by endpoints; worst ", "default").append(_worst(worst, configuration=configuration))
    return text.append(f", {_name(worst_plan)}", "default")


def _demand(demand: Demand, short: Mapping[str, str]) -> Text:
    text = Text()
    if not demand.zones:
        return text.append("No ready Node in a zone: nothing is known about where traffic starts.", "yellow")
    text.append("Demand: ")
    everything = demand.total + demand.unzoned
    for index, (zone, weight) in enumerate(demand.weight_of.items()):
        label = zone if short[zone] == zone else f"{short[zone]} = {zone}"
        text.append("  " if index else "").append(label, "bold").append(f" {weight / everything:.0%}")
    if demand.unzoned:
        text.append("  without a zone", "yellow").append(f" {demand.unzoned / everything:.0%}")
    return text.append(f"  ({_UNITS[demand.unit].format(counted(len(demand.nodes), 'ready node'))})", "dim")


def _legend(
    plans: Sequence[ServicePlan],
    configuration: Configuration,
    *,
    each_zone: bool,
    has_now: bool,
    has_unknown: bool,
    drops: bool,
    wide: bool,
    is_changed: bool,
    shows_slices: bool,
    has_colors: bool,
    services: int,
) -> StyledText:
    lines = []
    if len(plans) < services:
        lines.append(f"{len(plans):,} of {services:,} Services are shown.")
    if each_zone:
        lines.append("4>3: 4 ready endpoints are in the zone, its clients use 3.")
    if has_now:
        lines.append("34%>97%: now, by the slices in the cluster, and as planned.")
    of_slices = "  SLICES: +new ~changed -deleted =kept." if shows_slices else ""
    lines.append(f"WORST: the busiest endpoint's load above a fair one.{of_slices}")
    if has_colors:
        bounds = configuration.hints.start_threshold, configuration.hints.keep_threshold
        lines.append(_COLORS.format(*(f"{float(bound):.0%}" for bound in bounds)))
    if has_unknown:
        lines.append("IN ZONE -: unknown, because no node or no endpoint has a zone.")
    if drops:
        lines.append("drops: some traffic is dropped, because proxies have no endpoint for it.")
    if is_changed:
        lines.append("LOAD: the busiest endpoint's load against the busiest one's before the change of the cluster.")
        if wide:
            lines.append("RISE: the most that the load of one endpoint grows, of those before and after the change.")
    if any(family.decision.has_slice_groups for plan in plans for family in plan.families):
        lines.append("Zone groups are for proxies that read them; kube-proxy uses all endpoints (--proxy current).")
    written = [family for plan in plans if not plan.is_of_kubernetes for family in plan.families]
    replaced = [slice_ for family in written for slice_ in family.replaced]
    if replaced:
        is_built_in = manager_of(replaced[0]) == names.BUILT_IN_MANAGER
        whose = "of the built-in controller" if is_built_in else "with Zoneward's own label"
        lines.append(f"{counted(len(replaced), 'slice')} {whose} would be replaced, counted as deleted.")
    others = [other.metadata.name for plan in plans for family in plan.families for other in family.others]
    if others:
        lines.append(f"Skipped (managed by another controller): {listed(tuple(others))}.")
    more = "" if wide else "-o wide (reasons), "
    if written and len(written) < sum(len(plan.families) for plan in plans):
        lines.append("Without SLICES: as Kubernetes decides.")
    if not shows_slices:
        lines.append("As Kubernetes decides. With Zoneward: --with overlay, --with controller, --with proxy.")
    slices = ", -o yaml (slices)" if shows_slices and not is_changed else ""
    lines.append(f"More: zoneward explain SERVICE (why, fixes), {more}-o json (rules){slices}.")
    return join_wrapped(lines, "dim")


def _name(plan: ServicePlan) -> str:
    return f"{plan.service.metadata.namespace}/{plan.service.metadata.name}"


def _approach(decision: Decision, configuration: Configuration) -> str:
    """What the Service asks for, as this cluster calls it."""
    approach, slash, heuristic = (decision.asked_for or "").rpartition("/")
    if heuristic:
        return f"{approach}{slash}{known_name(heuristic, configuration)}"
    return CLUSTER_WIDE if decision.approach is Approach.CLUSTER_WIDE else decision.approach


def _service(row: _Row) -> StyledText:
    text = Text(_name(row.plan))
    if len(row.plan.families) > 1:
        text.append(f" {row.family.address_type[-1]}", "dim")
    return text


def _zone(row: _Row, *, zone: str, configuration: Configuration) -> StyledText:
    traffic = row.family.traffic
    figures = traffic.zones.get(zone) if traffic else None
    if figures is None:
        return Text("-", "dim")
    style = "red" if figures.dropped else _colour(figures.overload or 0.0, configuration)
    return Text(f"{figures.located}>{figures.consumed}", style)


def _share(share: float | None) -> StyledText:
    return Text("-", "dim") if share is None else Text(f"{share:.0%}")


def _in_zone(traffic: ExpectedTraffic | None) -> StyledText:
    if traffic is None or traffic.in_zone is None:
        return _share(None)
    return Text(f"{traffic.in_zone:.0%}", "red" if traffic.dropped else share_style(traffic.in_zone))


def _measurement(row: _Row, measured: TrafficMeasurements) -> ServiceMeasurement | None:
    meta = row.plan.service.metadata
    return measured.of(meta.namespace, meta.name, row.family.address_type)


def _measured(row: _Row, measured: TrafficMeasurements) -> StyledText:
    """The share that stayed in its zone, and of how many connections."""
    measurement = _measurement(row, measured)
    if measurement is None or measurement.share is None:
        return _share(None)
    return _share(measurement.share).append(f" of {_shorten_count(measurement.from_known_zones)}", "dim")


def _predicted(row: _Row, measured: TrafficMeasurements) -> StyledText:
    """The prediction for traffic that starts as measured."""
    measurement, traffic = _measurement(row, measured), row.family.traffic
    if measurement is None or measurement.share is None or traffic is None:
        return _share(None)
    return _share(predicted_in_zone_share(measurement, traffic))


def _shorten_count(count: int) -> str:
    """In few columns: ``950``, ``13k``, ``2.4M``."""
    if count < 10_000:
        return str(count)
    return f"{count / 1e3:.0f}k" if count < 999_500 else f"{count / 1e6:.1f}M"


def _worst(traffic: ExpectedTraffic | None, *, configuration: Configuration) -> StyledText:
    """The load of the busiest endpoint, or that traffic is dropped."""
    if traffic is None:
        return Text("-", "dim")
    return Text(_worst_text(traffic), "red" if traffic.dropped else _colour(traffic.max_overload, configuration))


def _worst_text(traffic: ExpectedTraffic) -> str:
    return _DROPS if traffic.dropped else f"+{traffic.max_overload:.0%}"


def _growth(change: float | None, configuration: Configuration) -> StyledText:
    return Text("-", "dim") if change is None else Text(whole_percent(change), _colour(change, configuration))


def _colour(overload: float, configuration: Configuration) -> str:
    """Green below the threshold to start, yellow below the one to keep, red above."""
    if overload < configuration.hints.start_threshold:
        return "green"
    return "yellow" if overload < configuration.hints.keep_threshold else "red"


def _changes(row: _Row) -> StyledText:
    if row.plan.is_of_kubernetes:
        return Text()
    counts = count_slices(row.plan, row.family)
    changes = (
        ("+", counts.create, "green"),
        ("~", counts.update, "yellow"),
        ("-", counts.delete, "red"),
        ("=", counts.unchanged, "dim"),
    )
    return join_words(((f"{sign}{count}", style) for sign, count, style in changes if count), between=" ")


def _goes_to(
    row: _Row,
    *,
    short: Mapping[str, str],
    demand: Demand,
    node_proxies: NodeProxies | None,
    whole: bool,
) -> StyledText:
    """Which endpoints get the traffic, and why: the whole reason, or a few words for it."""
    family = row.family
    dropped = dropped_traffic(family.service, family.slices, family.traffic, family.cluster_state.demand)
    if dropped is not None and dropped.share == 1:
        return Text(f"nowhere: {dropped.reason}", "red")
    text = _served(family, short, demand=demand, node_proxies=node_proxies, whole=whole, dropped=dropped)
    if dropped is not None and dropped.ports:
        text.append(f"; {listed(dropped.ports)}: {dropped.reason}", "red")
    return text


def _served(
    family: FamilyPlan,
    short: Mapping[str, str],
    *,
    demand: Demand,
    node_proxies: NodeProxies | None,
    whole: bool,
    dropped: DroppedTraffic | None,
) -> StyledText:
    service, decision, traffic = family.service, family.decision, family.traffic
    if not is_proxied(service):
        return Text("clients choose: headless", "dim")
    if service.spec.internal_traffic_policy == "Local":
        text = Text("its own node only", "default")
        if dropped is not None and dropped.share:
            text.append(f", {format_dropped(dropped.share)} dropped", "red")
            return text.append(f": {dropped.reason}", "default") if whole else text
        return text.append(": internalTrafficPolicy is Local", "default") if whole else text
    if decision.reason is Reason.NOT_ASKED_FOR:
        return Text("all zones: nothing asked for", "dim")
    if not decision.active:
        why = decision.message
        if not whole:
            why = short_reason(decision.reason, decision.message, endpoints=decision.endpoints, zones=len(demand.zones))
        return Text("all zones", "yellow").append(f": {why}", "default")
    if family.void_hints is not None:
        why = family.void_hints if whole else "others lack hints"
        return Text("all zones", "yellow").append(f": {why}", "default")
    heuristic = decision.heuristic or ""
    ignoring = ignoring_proxies(family, node_proxies) if node_proxies is not None else ()
    if ignoring and sum(nodes for _, nodes in ignoring) == len(demand.nodes):
        why = _why_ignored(tuple(kind for kind, _ in ignoring), whole=whole)
        return Text("all zones", "yellow").append(f": {why}", "default")
    goes_to = _DESTINATIONS.get(heuristic, f"zone groups: {heuristic}")
    if heuristic == "ProportionalZoneCPU" and family.cluster_state.decision_demand().unit != "milliCPU":
        goes_to = "zones by their demand"
    elif decision.reason is Reason.ENDPOINT_WITHOUT_ZONE:
        goes_to = "its own node, else all"
    text = Text(goes_to, "green")
    if whole:
        text.append(f": {decision.message}", "default")
        if decision.has_slice_groups and decision.allocation is not None:
            text.append(f"; groups: {_groups(decision.allocation, short)}", "default")
    elif traffic and not HEURISTICS[decision.heuristic or ""].balances:
        empty = [zone for zone, figures in traffic.zones.items() if figures.demand and not figures.located]
        if empty:
            without = ", ".join(short.get(zone, zone) or "no zone" for zone in empty)
            text.append(f"; {without}: all zones", "default")
    if ignoring and whole:
        text.append("".join(f"; {counted(nodes, 'node')}: {kind.title} {kind.about}" for kind, nodes in ignoring))
    elif ignoring:
        nodes = sum(nodes for _, nodes in ignoring)
        text.append(f"; {counted(nodes, 'node')} {'ignores' if nodes == 1 else 'ignore'} it", "yellow")
    return text


def short_reason(reason: Reason, message: str, *, endpoints: int, zones: int) -> str:
    """A few words for why a decision is not active; its whole ``message`` where there are none."""
    words = _SHORT_REASONS.get(reason)
    return message if words is None else words.format(endpoints=endpoints, zones=zones)


def _why_ignored(kinds: Sequence[ProxyKind], *, whole: bool) -> str:
    """Why no proxy honors the slices, in few words or by kind of proxy."""
    if whole:
        return "; ".join(f"{kind.title} {kind.about}" for kind in kinds)
    return f"{', '.join(kind.title for kind in kinds)} {'ignore' if len(kinds) > 1 else 'ignores'} it"


def _groups(allocation: Allocation, short: Mapping[str, str]) -> str:
    """``a 7, b 6, b=0.33+c=0.67 1``: zones, with weights where they matter, and endpoints."""
    parts = []
    for consumers, located in allocation.by_consumers().items():
        group = allocation.group(consumers)
        names = (short.get(zone, zone) for zone in group.zones)
        weighed = (
            f"{name}={weight:.2g}" if group.weighted else name
            for name, weight in zip(names, group.weights, strict=True)
        )
        parts.append(f"{'+'.join(weighed)} {sum(located.values())}")
    return ", ".join(parts)


def short_names(zones: Sequence[str]) -> list[str]:
    """Zone names without what they have in common: ``a b c`` for ``eu-central-1a``, ``-1b``, ``-1c``."""
    common = 0
    while len(zones) > 1 and len({zone[: common + 1] for zone in zones}) == 1 and common < len(zones[0]):
        common += 1
    short = [zone[common:] for zone in zones]
    return short if all(short) else list(zones)
