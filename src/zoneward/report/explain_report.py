"""``explain`` for a terminal and as a page: the same sections and sentences, with the picture on the page.

Lines are wrapped, never cut, except commands: each stays in one line, to be copied.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

import msgspec

from zoneward.advice.dropped_traffic import format_dropped
from zoneward.advice.explanation import (
    DecidedRule,
    Explanation,
    FamilyExplanation,
    ServiceTraffic,
    VerifiedFix,
    ZoneTraffic,
)
from zoneward.advice.honored_traffic import HonoredTraffic
from zoneward.kube.safe_text import printable
from zoneward.report.explain_picture import PICTURE_STYLE, picture_element
from zoneward.report.html import (
    COMMANDS_SCRIPT,
    COMMANDS_STYLE,
    DARK_STYLE,
    Content,
    Markup,
    Source,
    command_lines,
    fact,
    footer,
    name,
    page,
    tag,
)
from zoneward.report.plan_table import short_names
from zoneward.report.table_parts import TEXT_STYLE, Table
from zoneward.report.terminal_text import StyledText, Text, join_lines, percent, render_text, whole_percent
from zoneward.report.traffic_table import node_table
from zoneward.routing.phrases import counted

_COMMAND_INDENT: Final = "     "
_LABEL: Final = 9
"""Columns of the label of a section, such as ``MEASURED``."""
_NAMES: Final = 26
"""Columns of the names of rules, at least."""
_LEAST_DETAIL: Final = 30
_MOST_NODES: Final = 8
"""Nodes with measured traffic that have a line."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of ``explain`` with its figures: on the terminal and on the page. ``lead`` has no period."""

    title: str
    lead: str
    table: Table | None = None
    more: str = ""


def traffic_sections(family: FamilyExplanation) -> Iterator[Section]:
    """What the slices in force do, what is planned, and what nodes measured."""
    now, planned = family.traffic_now, family.traffic_planned
    if family.now is None:
        yield Section("Now", "the input has no EndpointSlices of this Service")
    elif now is None:
        yield Section("Now", "proxies do not serve this Service")
    else:
        kinds = ", ".join(f"{kind} on {counted(nodes, 'node')}" for kind, nodes in family.now.proxies.items())
        yield Section("Now", f"{describe_traffic(now)}, through {kinds or 'no node'}", _zone_table(now))
    if family.changes_nothing:
        yield Section("Planned", "the same")
    elif planned is not None:
        load = family.planned.load
        change = f", its load {whole_percent(load.change)} against the busiest one's before the change" if load else ""
        yield Section("Planned", f"{describe_traffic(planned)}{change}", _zone_table(planned))
    measured = family.measured
    if measured is None:
        yield Section("Measured", "no connection to it is in the documents")
    elif measured is not msgspec.UNSET:
        left = len(measured.nodes) - _MOST_NODES
        more = f"{counted(left, 'more node')}: -o json has all." if left > 0 else ""
        yield Section("Measured", _describe_measured(measured), node_table(measured.first(_MOST_NODES)), more)


def explanation_text(explanation: Explanation, *, width: int, color: bool) -> str:
    """The whole screen."""
    parts: list[str] = []

    def show(lines: list[StyledText]) -> None:
        if lines:
            parts.append(render_text(join_lines(lines), color=color, width=width))

    for family in explanation.families:
        title = explanation.name
        if len(explanation.families) > 1:
            title += f" {family.address_type}"
        show([Text(title, "bold").append(f"  {_headline(family)}", "default" if family.dropped is None else "red")])
        parts.append("\n")
        for section in traffic_sections(family):
            show(_hanging(section.title.upper().ljust(_LABEL), section.lead, width, "default", head_style="bold"))
            if section.table is not None:
                parts.append(render_text(section.table.for_terminal(width), color=color, width=width))
            if section.more:
                show([Text(section.more, "dim")])
        show([Text(), Text("WHY", "bold"), *_why(family, width)])
        show([Text(), *_hanging("SMALLEST FIXES  ", describe_fixes(family), width, head_style="bold")])
        for position, fix in enumerate(family.fixes, start=1):
            show(_hanging(f"{position:>3}. ", f"{fix.about}: {describe_outcome(fix)}", width, "green"))
            # Not through rich, which would cut them.
            parts.extend(f"{_COMMAND_INDENT}{printable(command)}\n" for command in fix.commands)
            show([line for note in fix.notes for line in _hanging(_COMMAND_INDENT, note, width, "dim")])
        show([line for text in describe_limits(family) for line in _hanging("- ", text, width)])
        parts.append("\n")
    if not explanation.families:
        show([Text(explanation.name, "bold")])
    bypassed = [line for bypass in explanation.bypassed_by for line in _hanging("- ", bypass.detail, width)]
    if bypassed:
        show([Text("WHAT BYPASSES IT", "bold"), *bypassed])
    return "".join(parts)


def _headline(family: FamilyExplanation) -> str:
    planned = family.planned
    asked = planned.setting or "nothing"
    if family.dropped is not None:
        return f"{describe_dropped(family)}: {family.dropped.reason}"
    if not planned.heuristic:
        return "no hints: all endpoints serve all zones"
    if planned.void:
        return f"{asked}: hints are void"
    if not planned.active:
        return f"{asked}: refused, all endpoints serve all zones"
    if planned.ignored_by:
        ignoring = sum(proxy.nodes for proxy in planned.ignored_by)
        if ignoring == planned.nodes:
            return f"{asked}: ignored by the proxies of all nodes"
        nodes = counted(planned.nodes, "node")
        return f"{asked}: in force, but ignored by the proxies of {ignoring} of {nodes}"
    return f"{asked}: in force"


def describe_dropped(family: FamilyExplanation) -> str:
    """``90% of its traffic is dropped``, ``all of its traffic would be dropped``; empty where none is."""
    if family.dropped is None:
        return ""
    dropped_now = family.now is not None and family.now.dropped is not None
    return f"{family.dropped.what} {'is' if dropped_now else 'would be'} dropped"


# --- now and planned --------------------------------------------------------------------------------------------------


def describe_traffic(traffic: ServiceTraffic) -> str:
    """``90% of traffic is dropped, 10% stays in its zone, busiest endpoint +0%``."""
    if not traffic.served:
        return "all traffic is dropped"
    dropped = f"{format_dropped(traffic.dropped_traffic)} of traffic is dropped, " if traffic.dropped_traffic else ""
    if traffic.in_zone_traffic is None:
        known = any(zone and figures.demand for zone, figures in traffic.zones.items())
        why = "no endpoint has a zone" if known else "no node has a zone label"
        share = f"how much stays in its zone is unknown ({why})"
    else:
        share = f"{traffic.in_zone_traffic:.0%}{'' if dropped else ' of traffic'} stays in its zone"
    return f"{dropped}{share}, busiest endpoint +{traffic.max_overload:.0%}"


def _zone_table(traffic: ServiceTraffic) -> Table:
    zones = list(traffic.zones)
    short = dict(zip(zones, short_names(zones), strict=True))
    rows = [
        [
            Text(zone or "no zone"),
            Text(f"{figures.demand:.0%}"),
            Text(str(figures.located)),
            _in_zone(figures),
            # Above or below a fair part, on the mean of the endpoints that are located there.
            Text("-", "dim") if figures.load is None else Text(f"{figures.load - 1:+.0%}".replace("-0%", "+0%")),
            Text(_uses(figures, short)),
        ]
        for zone, figures in traffic.zones.items()
    ]
    columns = ("ZONE", "DEMAND", "ENDPOINTS", "IN ZONE", "LOAD", "USES ENDPOINTS OF")
    return Table(columns, rows, columns[1:-1])


def _in_zone(zone: ZoneTraffic) -> StyledText:
    return Text(f"{zone.in_zone:.0%}", "red") if zone.dropped and zone.in_zone is not None else percent(zone.in_zone)


def _uses(zone: ZoneTraffic, short: Mapping[str, str]) -> str:
    if not zone.demand:
        return "no traffic starts here"
    parts = [f"{short.get(used, used) or 'no zone'} ({endpoints})" for used, endpoints in zone.uses.items()]
    if not parts:
        return "none: traffic is dropped"
    if zone.dropped:
        parts.append(f"{format_dropped(zone.dropped)} dropped")
    return ", ".join(parts)


# --- measured ---------------------------------------------------------------------------------------------------------


def _describe_measured(measured: HonoredTraffic) -> str:
    """``97% of 19,437 connections from 22 nodes stayed in their zone, 100% predicted; 1 node deviates``."""
    if measured.in_zone is None:
        nodes = counted(len(measured.nodes), "node")
        return f"{measured.connections:,} connections from {nodes}: how many stayed in their zone is unknown"
    known = [node.connections for node in measured.nodes if node.in_zone is not None]
    nodes = counted(len(known), "node")
    text = f"{measured.in_zone:.0%} of {sum(known):,} connections from {nodes} stayed in their zone"
    if measured.predicted_in_zone is not None:
        text += f", {measured.predicted_in_zone:.0%} predicted"
    deviating = len(measured.deviating_nodes)
    if deviating:
        text += f"; {counted(deviating, 'node')} {'does' if deviating == 1 else 'do'} not do what is predicted"
    return text


# --- why --------------------------------------------------------------------------------------------------------------


def _why(family: FamilyExplanation, width: int) -> Iterator[StyledText]:
    names = max((_NAMES, *(len(rule.rule) + 1 for rule in family.rules)))
    for rule in family.rules:
        mark = f"{'>' if rule.deciding else ' '} {'yes' if rule.passed else 'no '} "
        yield from _hanging(f"{mark}{rule.rule.ljust(names)}", rule.detail, width, _rule_style(rule))
    yield from _hanging(" " * 6, f"so: {family.planned.reason}", width, "bold")
    for line in describe_differences(family):
        yield from _hanging(" " * 6, line, width, "yellow")


def _rule_style(rule: DecidedRule) -> str:
    return "bold" if rule.deciding else "default" if rule.passed else "yellow"


def describe_differences(family: FamilyExplanation) -> Iterator[str]:
    """Who does not do what is planned: proxies that ignore it, and the built-in controller where it is at work."""
    planned = family.planned
    for proxy in planned.ignored_by:
        yield f"{proxy.proxy} on {counted(proxy.nodes, 'node')} {proxy.about}"
    if planned.built_in is not None:
        yield f"the built-in controller gives no hints: {planned.built_in}"
    elif planned.built_in_traffic is not None:
        yield f"the built-in controller decides by CPU: {describe_traffic(planned.built_in_traffic)}"


# --- fixes ------------------------------------------------------------------------------------------------------------


def describe_fixes(family: FamilyExplanation) -> str:
    """What the fixes are for, or why there are none."""
    if family.dropped is not None and not family.fixes:
        return family.dropped.fix
    if family.aim is None:
        return "nothing to fix"
    if family.fixes:
        return f"each verified, for {family.aim}"
    if family.planned.ignored_by:
        return "none in the Service: run proxies that honor its hints (zoneward check says which do not)"
    return f"no single change leads to {family.aim}"


def describe_outcome(fix: VerifiedFix) -> str:
    """What follows from a fix and what it costs: ``72% in its zone, worst +8%; no more Pods``."""
    least = "at least " if fix.anywhere or fix.kind == "spread" else ""
    in_zone = fix.result.in_zone_traffic
    share = "an unknown share" if in_zone is None else f"{least}{in_zone:.0%}"
    cost = f"{fix.pods:+d} {'Pod' if abs(fix.pods) == 1 else 'Pods'}" if fix.pods else "no more Pods"
    parts = [f"{share} in its zone, worst +{fix.result.max_overload:.0%}", cost]
    if not fix.volumes_checked:
        parts.append("volumes not checked")
    if fix.needs:
        parts.append(f"needs Zoneward's {fix.needs[0]}")
    return "; ".join(parts)


def describe_limits(family: FamilyExplanation) -> Iterator[str]:
    """Why some changes of Pods are no fix, and what fixes that change Pods were not checked against."""
    yield from family.limits
    if family.not_checked:
        parts = (f"{unchecked.what} ({unchecked.reason})" for unchecked in family.not_checked)
        yield f"not checked for fixes that change Pods: {'; '.join(parts)}"


def _hanging(head: str, text: str, width: int, style: str = "", *, head_style: str | None = None) -> list[StyledText]:
    """The text behind its ``head``; the lines below begin where the first one does."""
    first, *rest = wrap(printable(text), max(width - len(head), _LEAST_DETAIL)) or [""]
    start = (
        Text(head + first, style) if head_style is None else Text(head, head_style).append(first, style or "default")
    )
    return [start, *(Text(" " * len(head) + line, style) for line in rest)]


# --- as a page --------------------------------------------------------------------------------------------------------

_STYLE: Final = """
figure.picture { max-width: 760px; margin: 1rem 0; }
ol.fixes { padding-left: 1.3rem; max-width: 60rem; }
ol.fixes li { margin: 0 0 1.2rem; }
ol.fixes p { max-width: none; }
"""


def explanation_page(explanation: Explanation, *, source: Source) -> str:
    """The whole page."""
    content: list[Content] = [tag("h1", name(explanation.name)), source.heading()]
    for family in explanation.families:
        if len(explanation.families) > 1:
            content.append(tag("h2", family.address_type))
        content.extend(_family(explanation, family))
    if explanation.bypassed_by:
        content.append(tag("h2", "What bypasses it"))
        content.append(tag("ul", *(tag("li", bypass.detail) for bypass in explanation.bypassed_by)))
    content.append(footer("zoneward explain -o html"))
    has_commands = any(fix.commands for family in explanation.families for fix in family.fixes)
    return page(
        explanation.name,
        *content,
        style=f"{DARK_STYLE}{TEXT_STYLE}{COMMANDS_STYLE}{PICTURE_STYLE}{_STYLE}",
        script=COMMANDS_SCRIPT if has_commands else "",
    )


def _family(explanation: Explanation, family: FamilyExplanation) -> Iterator[Content]:
    planned = family.planned
    if family.dropped is not None:
        what = tag("strong", _sentence(describe_dropped(family))[:-1], class_="red")
        yield tag("p", what, f": {family.dropped.reason}.")
    if facts := [*_facts(family)]:
        yield tag("dl", *facts, class_="facts large")
    yield tag("p", tag("strong", f"{planned.setting or 'No hints'}: "), planned.reason, ".")
    if family.traffic_planned is not None or family.traffic_now is not None:
        yield tag("figure", picture_element(explanation, family), class_="picture")
    for section in traffic_sections(family):
        yield tag("h2", section.title)
        yield tag("p", _sentence(section.lead))
        if section.table is not None:
            yield section.table.as_element(section.title)
        if section.more:
            yield tag("p", section.more)
    yield tag("h2", "Why")
    rows = [
        [
            Text(rule.rule, _rule_style(rule)),
            Text("yes" if rule.passed else "no"),
            Text(rule.detail, _rule_style(rule)).append(" this decided" if rule.deciding else "", "small"),
        ]
        for rule in family.rules
    ]
    yield Table(("RULE", "PASSED", "DETAIL"), rows, ()).as_element("Rules of the decision")
    yield from (tag("p", _sentence(line)) for line in describe_differences(family))
    yield tag("h2", "Smallest fixes")
    yield tag("p", _sentence(describe_fixes(family)))
    if family.fixes:
        yield tag("ol", *map(_fix_item, family.fixes), class_="fixes")
    yield from (tag("p", _sentence(text)) for text in describe_limits(family))


def _facts(family: FamilyExplanation) -> Iterator[Markup]:
    now, planned = family.traffic_now, family.traffic_planned
    traffic = now or planned
    if traffic is None or not traffic.served:
        return
    when = "now" if now is not None else "as planned"
    if traffic.in_zone_traffic is not None:
        yield fact(f"in its zone {when}", f"{traffic.in_zone_traffic:.0%}", "of traffic")
    if traffic.max_overload is not None:
        yield fact("busiest endpoint", f"+{traffic.max_overload:.0%}", "above a fair load")
    best = max((fix.result.in_zone_traffic or 0.0 for fix in family.fixes), default=None)
    if best is not None:
        yield fact("with a fix", f"{best:.0%}", "in its zone")


def _fix_item(fix: VerifiedFix) -> Markup:
    return tag(
        "li",
        tag("p", tag("strong", fix.about), f": {describe_outcome(fix)}."),
        *(command_lines(fix.commands) if fix.commands else ()),
        *(tag("p", tag("small", note)) for note in fix.notes),
    )


def _sentence(text: str) -> str:
    """With a capital and a period."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
