"""``explain -o html``: the sections of ``explain`` as a page, with the picture of zones and endpoints."""

from collections.abc import Iterator
from typing import Final

from zoneward.advice.explanation import DecidedRule, Explanation, FamilyExplanation, VerifiedFix
from zoneward.report.explain_picture import PICTURE_STYLE, picture_element
from zoneward.report.explain_text import (
    describe_differences,
    describe_dropped,
    describe_fixes,
    describe_limits,
    describe_outcome,
    traffic_sections,
)
from zoneward.report.html import DARK_STYLE, Content, Markup, Source, fact, footer, name, page, table, tag
from zoneward.report.page_commands import COMMANDS_SCRIPT, COMMANDS_STYLE, command_lines
from zoneward.report.table_parts import TEXT_STYLE

_STYLE: Final = """
figure.picture { max-width: 760px; margin: 1rem 0; }
.rules td, .rules th { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.rules tr.deciding th, .rules tr.deciding td { background: var(--tint); font-weight: 700; }
.rules tr th:first-child { min-width: 5.5rem; }
.rules tr :nth-child(2) { white-space: nowrap; overflow-wrap: normal; }
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
    rows = map(_rule, family.rules)
    yield table(("rule", "passed", "detail"), [rows], label="Rules of the decision", class_="rules")
    yield from (tag("p", _sentence(line)) for line in describe_differences(family))
    yield tag("h2", "Smallest fixes")
    yield tag("p", _sentence(describe_fixes(family)))
    if family.fixes:
        yield tag("ol", *map(_fix, family.fixes), class_="fixes")
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


def _rule(rule: DecidedRule) -> Markup:
    return tag(
        "tr",
        tag("th", tag("code", rule.rule), scope="row"),
        tag("td", "yes" if rule.passed else "no"),
        tag("td", rule.detail, *((tag("small", "this decided"),) if rule.deciding else ())),
        class_="deciding" if rule.deciding else "rule",
    )


def _fix(fix: VerifiedFix) -> Markup:
    return tag(
        "li",
        tag("p", tag("strong", fix.about), f": {describe_outcome(fix)}."),
        *(command_lines(fix.commands) if fix.commands else ()),
        *(tag("p", tag("small", note)) for note in fix.notes),
    )


def _sentence(text: str) -> str:
    """With a capital and a period."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
