"""What happens to a Service's traffic, why, and the smallest fixes: one screen of ``explain``.

Lines are wrapped, never cut, but commands: each stays in one line, to be copied.
"""

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Final

from rich.console import RenderableType

from zoneward.advice.dropped_traffic import format_dropped
from zoneward.advice.explanation import Explanation, FamilyExplanation, VerifiedFix
from zoneward.advice.honored_traffic import HonoredTraffic, NodeTraffic
from zoneward.kube.safe_text import printable
from zoneward.report.fix_words import describe_cost, describe_fix, describe_limits, describe_result
from zoneward.report.plan_table import short_names
from zoneward.report.terminal_text import StyledText, Text, align_columns, join_lines, render_text, whole_percent
from zoneward.report.traffic_table import describe_deviation
from zoneward.routing.rules import counted
from zoneward.routing.selection.expected_traffic import ExpectedTraffic, ExpectedZoneTraffic

_COMMAND_INDENT: Final = "     "
_NAMES: Final = 26
"""Columns of the names of rules."""
_LEAST_DETAIL: Final = 30
_MOST_NODES: Final = 8
"""Nodes with measured traffic that have a line."""


def explanation_text(explanation: Explanation, *, width: int, color: bool) -> str:
    """The whole screen."""
    meta = explanation.service.metadata
    parts: list[str] = []

    def show(lines: list[StyledText]) -> None:
        if lines:
            parts.append(render_text(join_lines(lines), color=color, width=width))

    for family in explanation.families:
        title = f"{meta.namespace}/{meta.name}"
        if len(explanation.families) > 1:
            title += f" {family.planned.address_type}"
        show([Text(title, "bold").append(f"  {_headline(family)}", "default" if family.dropped is None else "red")])
        parts.append("\n")
        parts.append(_tables(family, width=width, color=color))
        parts.append(_measured(explanation, family, width=width, color=color))
        show([Text(), Text("WHY", "bold"), *_why(family, width)])
        show([Text(), *_fixes_heading(family, width)])
        for number, verified in enumerate(family.fixes, start=1):
            show(list(_fix(number, verified, width)))
            # Not through rich, which would cut them.
            parts.extend(f"{_COMMAND_INDENT}{printable(command)}\n" for command in verified.steps.commands)
            show([line for note in verified.steps.notes for line in _wrapped(note, width, 5, "dim")])
        show([line for text in describe_limits(family) for line in _bulleted(text, width)])
        parts.append("\n")
    if not explanation.families:
        show([Text(f"{meta.namespace}/{meta.name}", "bold")])
    bypassed = [line for each in explanation.bypassed_by for line in _bulleted(each.detail, width)]
    if bypassed:
        show([Text("WHAT BYPASSES IT", "bold"), *bypassed])
    return "".join(parts)


def _headline(family: FamilyExplanation) -> str:
    decision = family.planned.decision
    asked = decision.heuristic or "nothing"
    if family.dropped is not None:
        return f"{describe_dropped(family)}: {family.dropped.reason}"
    if not decision.heuristic:
        return "no hints: all endpoints serve all zones"
    if family.planned.void_hints is not None:
        return f"{asked}: hints are void"
    if not decision.active:
        return f"{asked}: refused, all endpoints serve all zones"
    if family.ignored_by:
        number, nodes = sum(nodes for _, nodes in family.ignored_by), len(family.planned.cluster_state.demand.nodes)
        if number == nodes:
            return f"{asked}: ignored by the proxies of all nodes"
        return f"{asked}: in force, but ignored by the proxies of {number} of {counted(nodes, 'node')}"
    return f"{asked}: in force"


def describe_ignoring(family: FamilyExplanation) -> Iterator[str]:
    """``cilium 1.16 on 19 nodes ignores hints, as enable-service-topology is off``, for each kind of proxy."""
    return (f"{kind.title} on {counted(nodes, 'node')} {kind.about}" for kind, nodes in family.ignored_by)


def describe_dropped(family: FamilyExplanation) -> str:
    """``90% of its traffic is dropped``, ``all of its traffic would be dropped``; empty where none is."""
    if family.dropped is None:
        return ""
    return f"{family.dropped.what} {'is' if family.drops_now is not None else 'would be'} dropped"


# --- now and planned --------------------------------------------------------------------------------------------------


def _tables(family: FamilyExplanation, *, width: int, color: bool) -> str:
    now, planned = family.now, family.planned.traffic
    traffic = now.traffic if now is not None else None
    if now is None or traffic is None:
        why = "proxies do not serve it" if now is not None else "the input has no EndpointSlices of it"
        parts = [render_text(Text("NOW", "bold").append(f"  {why}", "default"), color=color, width=width)]
    else:
        proxies = ", ".join(f"{kind} on {counted(number, 'node')}" for kind, number in now.proxies.items())
        lines = _wrapped(f"{describe_traffic(traffic)}, through {proxies or 'no node'}", width, 9)
        parts = [render_text(join_lines(_labelled("NOW", lines)), color=color, width=width)]
        parts.append(render_text(_zone_table(traffic, width), color=color, width=width))
    if planned is None:
        return "".join(parts)
    if family.changes_nothing:
        parts.append(render_text(Text("PLANNED", "bold").append("  the same", "default"), color=color, width=width))
    else:
        load = describe_load_change(family)
        lines = _wrapped(f"{describe_traffic(planned)}{f', {load}' if load else ''}", width, 9)
        parts.append(render_text(join_lines(_labelled("PLANNED", lines)), color=color, width=width))
        parts.append(render_text(_zone_table(planned, width), color=color, width=width))
    return "".join(parts)


def _measured(explanation: Explanation, family: FamilyExplanation, *, width: int, color: bool) -> str:
    """What nodes counted, beside what is in force, for some nodes: those that deviate first."""
    if not explanation.is_measured:
        return ""
    measured = family.measured
    if measured is None:
        lines = _wrapped("no connection to it is in the documents", width, 9)
        return render_text(join_lines(_labelled("MEASURED", lines)), color=color, width=width)
    lines = _wrapped(describe_measured(measured), width, 9)
    shown = measured.most_telling(_MOST_NODES)
    rows = [
        [
            Text(each.node),
            Text(each.zone or "no zone"),
            Text(f"{each.connections:,}"),
            Text("-" if each.in_zone is None else f"{each.in_zone:.0%}"),
            Text("-" if each.predicted_in_zone is None else f"{each.predicted_in_zone:.0%}"),
            _verdict(each),
        ]
        for each in shown
    ]
    columns = ("NODE", "ZONE", "CONNECTIONS", "STAYS", "PREDICTED", "")
    parts = [
        render_text(join_lines(_labelled("MEASURED", lines)), color=color, width=width),
        render_text(align_columns(columns, rows, right=columns[2:5], width=width), color=color, width=width),
    ]
    if len(shown) < len(measured.nodes):
        more = f"{counted(len(measured.nodes) - len(shown), 'more node')}: -o json has all."
        parts.append(render_text(Text(more, "dim"), color=color, width=width))
    return "".join(parts)


def describe_measured(measured: HonoredTraffic) -> str:
    """``97% of 19,437 connections from 22 nodes stayed in their zone, 100% predicted; 1 node deviates``."""
    nodes = counted(len(measured.nodes), "node")
    if measured.in_zone is None:
        return f"{measured.connections:,} connections from {nodes}: how many stayed in their zone is unknown"
    text = f"{measured.in_zone:.0%} of {measured.connections:,} connections from {nodes} stayed in their zone"
    if measured.predicted_in_zone is not None:
        text += f", {measured.predicted_in_zone:.0%} predicted"
    deviating = len(measured.deviating)
    if deviating:
        text += f"; {counted(deviating, 'node')} {'does' if deviating == 1 else 'do'} not do what is predicted"
    return text


def _verdict(node: NodeTraffic) -> Text:
    if node.deviates is not None:
        return Text(describe_deviation(node), "yellow")
    return Text("nothing is predicted" if node.predicted is None else "as predicted", "dim")


def describe_load_change(family: FamilyExplanation) -> str:
    """The load after a change of the cluster, against the one before; empty where nothing is to be compared."""
    if family.load_change is None:
        return ""
    return f"its load {whole_percent(family.load_change.change)} against the busiest one's before the change"


def _labelled(label: str, lines: list[StyledText]) -> list[StyledText]:
    first = Text(label.ljust(9), "bold").append(lines[0].plain.lstrip(), "default")
    return [first, *lines[1:]]


def describe_traffic(traffic: ExpectedTraffic) -> str:
    """``90% of traffic is dropped, 10% stays in its zone, busiest endpoint +0%``."""
    if not traffic.served:
        return "all traffic is dropped"
    dropped = f"{format_dropped(traffic.dropped)} of traffic is dropped, " if traffic.dropped else ""
    if traffic.in_zone is None:
        share = f"how much stays in its zone is unknown ({_unknown_zones(traffic)})"
    else:
        share = f"{traffic.in_zone:.0%}{'' if dropped else ' of traffic'} stays in its zone"
    return f"{dropped}{share}, busiest endpoint +{traffic.max_overload:.0%}"


def _unknown_zones(traffic: ExpectedTraffic) -> str:
    """Why nobody can tell what stays in its zone."""
    known = any(zone and each.demand for zone, each in traffic.zones.items())
    return "no endpoint has a zone" if known else "no node has a zone label"


def _zone_table(traffic: ExpectedTraffic, width: int) -> RenderableType:
    zones = list(traffic.zones)
    short = dict(zip(zones, short_names(zones), strict=True))
    rows = [
        [
            Text(zone or "no zone"),
            Text(f"{each.demand:.0%}"),
            Text(str(each.located)),
            Text("-" if each.in_zone is None else f"{each.in_zone:.0%}"),
            _load(each),
            Text(_uses(each, short)),
        ]
        for zone, each in traffic.zones.items()
    ]
    columns = ("ZONE", "DEMAND", "ENDPOINTS", "IN ZONE", "LOAD", "USES ENDPOINTS OF")
    return align_columns(columns, rows, right=set(columns[1:-1]), width=width)


def _load(zone: ExpectedZoneTraffic) -> StyledText:
    """Above or below a fair part, on the mean of the endpoints that are located there."""
    if zone.load is None:
        return Text("-", "dim")
    return Text(f"{zone.load - 1:+.0%}".replace("-0%", "+0%"))


def _uses(zone: ExpectedZoneTraffic, short: Mapping[str, str]) -> str:
    if not zone.demand:
        return "no traffic starts here"
    parts = [f"{short.get(place, place) or 'no zone'} ({number})" for place, number in zone.selected.items()]
    if not parts:
        return "none: traffic is dropped"
    if zone.dropped:
        parts.append(f"{format_dropped(zone.dropped)} dropped")
    return ", ".join(parts)


# --- why, fixes, what goes past ---------------------------------------------------------------------------------------


def _why(family: FamilyExplanation, width: int) -> Iterator[StyledText]:
    decision = family.planned.decision
    for place, rule in enumerate(decision.rules):
        is_deciding = place == decision.deciding
        style = "bold" if is_deciding else "default" if rule.passed else "yellow"
        mark = f"{'>' if is_deciding else ' '} {'yes' if rule.passed else 'no '} "
        indent = len(mark) + _NAMES
        room = max(width - indent, _LEAST_DETAIL)
        details = wrap(printable(rule.detail), room) or [""]
        name = rule.rule.ljust(_NAMES - 1) + " "
        yield Text(f"{mark}{name}{details[0]}", style)
        yield from (Text(" " * indent + line, style) for line in details[1:])
    yield from _wrapped(f"so: {decision.message}", width, 6, "bold")
    for line in describe_ignoring(family):
        yield from _wrapped(line, width, 6, "yellow")
    built_in = describe_built_in(family)
    if built_in is not None:
        yield from _wrapped(built_in, width, 6, "yellow")


def describe_built_in(family: FamilyExplanation) -> str | None:
    """What the built-in controller, which is the one at work, decides otherwise; None where that is nothing."""
    if family.built_in is not None:
        return f"the built-in controller gives no hints: {family.built_in}"
    if family.built_in_traffic is not None:
        return f"the built-in controller decides by CPU: {describe_traffic(family.built_in_traffic)}"
    return None


def describe_no_fix(family: FamilyExplanation) -> str:
    """Why there is no fix of the Service."""
    if family.ignored_by:
        return "none in the Service: run proxies that honor its hints (zoneward check says which do not)"
    return f"no single change leads to {family.aim}"


def _fixes_heading(family: FamilyExplanation, width: int) -> list[StyledText]:
    if family.dropped is not None and not family.fixes:
        text = family.dropped.fix
    elif family.aim is None:
        return [Text("SMALLEST FIXES", "bold").append("  nothing to fix", "default")]
    elif family.fixes:
        text = f"each verified, for {family.aim}"
    else:
        text = describe_no_fix(family)
    first, *rest = wrap(text, max(width - 16, _LEAST_DETAIL))
    return [Text("SMALLEST FIXES  ", "bold").append(first, "default"), *(Text(" " * 16 + line) for line in rest)]


def _fix(number: int, verified: VerifiedFix, width: int) -> Iterator[StyledText]:
    fix = verified.fix
    words = f"{describe_fix(fix)}: {describe_result(fix)}; {describe_cost(fix)}"
    if fix.needs:
        words += "; needs Zoneward's controller"
    lines = wrap(printable(words), max(width - 5, _LEAST_DETAIL))
    yield Text(f"{number:>3}. {lines[0]}", "green")
    yield from (Text(f"     {line}", "green") for line in lines[1:])


def _bulleted(text: str, width: int) -> Iterator[StyledText]:
    lines = wrap(printable(text), max(width - 2, _LEAST_DETAIL))
    yield from (Text(("- " if number == 0 else "  ") + line) for number, line in enumerate(lines))


def _wrapped(text: str, width: int, indent: int, style: str = "default") -> list[StyledText]:
    lines = wrap(printable(text), max(width - indent, _LEAST_DETAIL)) or [""]
    return [Text(" " * indent + line, style) for line in lines]
