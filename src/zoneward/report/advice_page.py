"""``advise -o html``: what to change in a cluster, as a page to send to somebody."""

from collections.abc import Iterator
from typing import Final

from zoneward.advice.actions import Action, Advice
from zoneward.report.advice_text import (
    NOTHING_TO_DO,
    adds_zoneward,
    amount_text,
    describe_action,
    describe_cluster,
    describe_effect,
    describe_need,
    describe_risk,
    describe_weights,
    service_table,
)
from zoneward.report.html import DARK_STYLE, Content, Markup, Source, fact, footer, page, tag
from zoneward.report.page_commands import COMMANDS_SCRIPT, COMMANDS_STYLE, command_lines
from zoneward.report.table_parts import TEXT_STYLE

_STYLE: Final = """
details.action { margin: 0; border-bottom: 1px solid var(--line); }
details.action summary { color: var(--ink); padding: .55rem 0; display: grid; gap: .1rem 1rem;
  grid-template-columns: minmax(9.5rem, 1fr) minmax(12rem, 4fr) minmax(8rem, 1.4fr); }
details.action summary b { white-space: nowrap; }
details.action summary b::before { content: "\\25B8\\00A0"; color: var(--soft); }
details.action[open] summary b::before { content: "\\25BE\\00A0"; }
details.action summary span { overflow-wrap: anywhere; }
details.action .inside { padding: 0 0 1rem 1.1rem; }
@media (max-width: 560px) { details.action summary { grid-template-columns: 1fr; } }
"""
_MOST_COMMANDS: Final = 50
"""Commands of one action on the page."""


def advice_page(advice: Advice, *, source: Source) -> str:
    """The whole page."""
    summary = advice.summary
    actions: list[Content] = []
    for view, title in (("kubernetes", "What to do"), ("zoneward", "With Zoneward")):
        of_view = [action for action in advice.actions if action.view == view]
        if of_view:
            actions.append(tag("h2", title))
            if view == "zoneward":
                actions.append(tag("p", f"Needs {describe_need(of_view[0])}."))
            actions.extend(_action(action, summary.unit) for action in of_view)
    if not actions:
        actions.append(tag("p", NOTHING_TO_DO))
    title = "Keep traffic in its zone"
    return page(
        title,
        tag("h1", title),
        source.heading(),
        tag("p", describe_cluster(summary)),
        tag("dl", *_facts(advice), class_="facts large"),
        tag("p", describe_weights(summary)),
        *actions,
        footer(
            "zoneward advise -o html",
            ". Every action is verified by the decision of this cluster's own controller and proxies.",
        ),
        style=f"{DARK_STYLE}{TEXT_STYLE}{COMMANDS_STYLE}{_STYLE}",
        script=COMMANDS_SCRIPT if advice.actions else "",
    )


def _facts(advice: Advice) -> Iterator[Markup]:
    summary = advice.summary

    if summary.in_zone is not None:
        yield fact("in its zone now", f"{summary.in_zone:.0%}", "of traffic")
        yield fact("with what Kubernetes has", f"{summary.in_zone_reachable:.0%}")
        if adds_zoneward(summary):
            yield fact("with Zoneward", f"{summary.in_zone_with_zoneward:.0%}")
    if summary.crossing is not None:
        saved = f"{amount_text(summary.saved or 0.0, summary.unit)} can be saved"
        yield fact("leaves its zone in a month", amount_text(summary.crossing, summary.unit), saved)
    if summary.worst is not None:
        worst = summary.worst
        yield fact("worst overload", f"+{worst.max_overload:.0%}", f"{worst.namespace}/{worst.service}")


def _action(action: Action, unit: str | None) -> Markup:
    effect = action.effect
    change = f" {effect.in_zone_before:.0%} \N{RIGHTWARDS ARROW} {effect.in_zone_after:.0%}"
    inside: list[Content] = [
        *([tag("p", f"{describe_effect(effect, unit)}.")] if action.changes_traffic else []),
        tag("p", f"Risk: {describe_risk(action)}."),
    ]
    if action.limited_by:
        inside.append(tag("p", f"Limited by {', '.join(action.limited_by)} of zoneward check.", class_="yellow"))
    if len(action.services) > 1:
        table = service_table(action, unit, most=len(action.services))
        inside.append(table.as_element(f"Services of action {action.rank}"))
    if action.commands:
        inside.extend(command_lines(action.commands[:_MOST_COMMANDS]))
    inside.extend(tag("p", tag("small", note)) for note in action.notes)
    return tag(
        "details",
        tag(
            "summary",
            tag("b", f"{action.rank}.{change if action.changes_traffic else ''}"),
            tag("span", describe_action(action)),
            tag("small", _aside(action, unit)),
        ),
        tag("div", *inside, class_="inside"),
        class_="action",
    )


def _aside(action: Action, unit: str | None) -> str:
    """What beside the share in its zone matters most."""
    saved = action.effect.saved_per_month
    if not action.changes_traffic:
        return f"{action.risk} risk"
    parts = [f"{action.risk} risk", f"busiest Pod +{action.effect.max_overload_after:.0%}"]
    return ", ".join(parts if saved is None else [f"saves {amount_text(saved, unit)}", *parts])
