"""``explain -o html``: what ``explain`` shows, as a page with the picture of zones and endpoints."""

from collections.abc import Iterator
from typing import Final

from zoneward.advice.explanation import Explanation, FamilyExplanation, VerifiedFix
from zoneward.report.explain_picture import PICTURE_STYLE, picture_element
from zoneward.report.explain_text import (
    describe_built_in,
    describe_dropped,
    describe_ignoring,
    describe_load_change,
    describe_measured,
    describe_no_fix,
    describe_traffic,
)
from zoneward.report.fix_words import describe_cost, describe_fix, describe_limits, describe_result
from zoneward.report.html import DARK_STYLE, Content, Markup, name, page, table, tag
from zoneward.report.traffic_page import NODES_STYLE, nodes_of_service
from zoneward.routing.rules import counted
from zoneward.routing.selection.expected_traffic import ExpectedTraffic

_STYLE: Final = """
figure.picture { max-width: 760px; margin: 1rem 0; }
pre { background: var(--tint); border: 1px solid var(--line); border-radius: 6px; padding: .6rem .8rem; margin: .4rem 0;
  white-space: pre-wrap; overflow-wrap: anywhere; }
.rules td, .rules th { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.rules tr.deciding th, .rules tr.deciding td { background: var(--tint); font-weight: 700; }
.rules tr th:first-child { min-width: 5.5rem; }
.rules tr :nth-child(2) { white-space: nowrap; overflow-wrap: normal; }
ol.fixes { padding-left: 1.3rem; max-width: 60rem; }
ol.fixes li { margin: 0 0 1.2rem; }
ol.fixes p { max-width: none; }
.uses td:last-child, .uses th:last-child { text-align: left; }
"""


def explanation_page(explanation: Explanation) -> str:
    """The whole page."""
    meta = explanation.service.metadata
    content: list[Content] = [tag("h1", name(f"{meta.namespace}/{meta.name}"))]
    for family in explanation.families:
        if len(explanation.families) > 1:
            content.append(tag("h2", family.planned.address_type))
        content.extend(_family(explanation, family))
    if explanation.bypassed_by:
        content.append(tag("h2", "What bypasses it"))
        content.append(tag("ul", *(tag("li", each.detail) for each in explanation.bypassed_by)))
    return page(f"{meta.namespace}/{meta.name}", *content, style=f"{DARK_STYLE}{PICTURE_STYLE}{NODES_STYLE}{_STYLE}")


def _family(explanation: Explanation, family: FamilyExplanation) -> Iterator[Content]:
    decision, planned = family.planned.decision, family.planned.traffic
    now = family.now.traffic if family.now is not None else None
    if family.dropped is not None:
        what = tag("strong", _sentence(describe_dropped(family)), class_="bad")
        yield tag("p", what, f": {family.dropped.reason}.")
    yield tag("p", tag("strong", f"{decision.heuristic or 'No hints'}: "), decision.message, ".")
    if planned is not None or now is not None:
        yield tag("figure", picture_element(explanation, family), class_="picture")
    yield tag("h2", "Now")
    if family.now is None:
        yield tag("p", "The input has no EndpointSlices of this Service: nothing is known about what is in force.")
    elif now is None:
        yield tag("p", "Proxies do not serve this Service.")
    else:
        kinds = ", ".join(f"{kind} on {counted(number, 'node')}" for kind, number in family.now.proxies.items())
        yield tag("p", f"{_sentence(describe_traffic(now))}, through {kinds or 'no node'}.")
        yield _zone_table(now, "Now, by zone")
    if explanation.is_measured:
        yield tag("h2", "Measured")
        if family.measured is None:
            yield tag("p", "No connection to it is in the documents.")
        else:
            yield tag("p", f"{describe_measured(family.measured)}.")
            yield from nodes_of_service(family.measured, "this Service")
    if family.changes_nothing:
        yield tag("h2", "Planned")
        yield tag("p", "The same.")
    elif planned is not None:
        yield tag("h2", "Planned")
        load = describe_load_change(family)
        yield tag("p", f"{_sentence(describe_traffic(planned))}{f', {load}' if load else ''}.")
        yield _zone_table(planned, "Planned, by zone")
    yield tag("h2", "Why")
    rows = [
        tag(
            "tr",
            tag("th", tag("code", rule.rule), scope="row"),
            tag("td", "yes" if rule.passed else "no"),
            tag("td", rule.detail, *((tag("small", "this decided"),) if place == decision.deciding else ())),
            class_="deciding" if place == decision.deciding else "rule",
        )
        for place, rule in enumerate(decision.rules)
    ]
    yield table(("rule", "passed", "detail"), [rows], label="Rules of the decision", class_="rules")
    for line in describe_ignoring(family):
        yield tag("p", f"{_sentence(line)}.")
    built_in = describe_built_in(family)
    if built_in is not None:
        yield tag("p", f"{_sentence(built_in)}.")
    yield tag("h2", "The smallest fixes")
    if family.dropped is not None and not family.fixes:
        yield tag("p", family.dropped.fix)
    elif family.aim is None:
        yield tag("p", "Nothing to fix.")
    elif not family.fixes:
        yield tag("p", f"{_sentence(describe_no_fix(family))}.")
    else:
        yield tag("p", f"Each is verified by the decision on the changed cluster, for {family.aim}.")
        yield tag("ol", *map(_fix, family.fixes), class_="fixes")
    yield from (tag("p", f"{_sentence(text)}.") for text in describe_limits(family))


def _fix(verified: VerifiedFix) -> Markup:
    fix, steps = verified.fix, verified.steps
    needs = "; needs Zoneward's controller" if fix.needs else ""
    return tag(
        "li",
        tag("p", tag("strong", describe_fix(fix)), f": {describe_result(fix)}; {describe_cost(fix)}{needs}."),
        *(tag("pre", tag("code", command)) for command in steps.commands),
        *(tag("p", tag("small", note)) for note in steps.notes),
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _zone_table(traffic: ExpectedTraffic, label: str) -> Markup:
    rows = [
        tag(
            "tr",
            tag("th", name(zone or "no zone"), scope="row"),
            tag("td", f"{each.demand:.0%}"),
            tag("td", str(each.located)),
            tag("td", "-" if each.in_zone is None else f"{each.in_zone:.0%}"),
            tag("td", "-" if each.load is None else f"{each.load - 1:+.0%}".replace("-0%", "+0%")),
            tag("td", ", ".join(f"{place or 'no zone'} ({number})" for place, number in each.selected.items()) or "-"),
        )
        for zone, each in traffic.zones.items()
    ]
    head = ("zone", "demand", "endpoints", "in zone", "load", "uses endpoints of")
    return table(head, [rows], label=label, class_="plain uses")
