"""``advise`` for a terminal, as the whole list or one action, and as a page; ``advise --diff``, also as Markdown."""

from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap
from typing import Final

from zoneward.advice.actions import ACCEPTABLE, WITHOUT_RISK, Action, Advice, AdviceSummary, Effect, Risk
from zoneward.advice.dropped_traffic import format_dropped
from zoneward.advice.manifest_changes import ChangedService, ManifestChanges
from zoneward.advice.prices import BYTES_IN_GB
from zoneward.kube.safe_text import printable
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
    page,
    tag,
)
from zoneward.report.table_parts import TEXT_STYLE, Table
from zoneward.report.terminal_text import (
    SHARE_COLORS,
    StyledText,
    Text,
    join_lines,
    join_wrapped,
    render_text,
    share_style,
)
from zoneward.report.traffic_table import format_number
from zoneward.routing.phrases import counted, listed

_MOST_SERVICES: Final = 15
"""Services of one action that have a line."""
_MOST_ZONEWARD: Final = 3
"""Actions of Zoneward on the first screen."""
_LEAST_WIDTH: Final = 40
_COLORS: Final[dict[Risk, str]] = {"low": "green", "medium": "yellow", "high": "red"}
NOTHING_TO_DO: Final = "Nothing to do: no change keeps more traffic in its zone without overloading anyone."


def advice_text(advice: Advice, *, top: int, width: int, color: bool) -> str:
    """The list: at most ``top`` actions that need nothing else, and a few of Zoneward's; 0 for all."""
    summary = advice.summary
    text = render_text(join_wrapped(summary_lines(advice)), color=color, width=width)
    for view, most in (("kubernetes", top), ("zoneward", min(top, _MOST_ZONEWARD))):
        actions = [action for action in advice.actions if action.view == view]
        if not actions:
            continue
        shown = actions[: most or None]
        if not actions[-1].changes_traffic and shown[-1] is not actions[-1]:
            shown.append(actions[-1])
        table = action_table(shown, action_heading(shown), unit=summary.unit)
        text += "\n" + render_text(table.for_terminal(width), color=color, width=width)
        if len(shown) < len(actions):
            text += f"    and {len(actions) - len(shown)} more: --top 0 shows all\n"
    if not advice.actions:
        if why_no_share(summary) is None:
            text += "\n" + _render(_wrapped(NOTHING_TO_DO, width), width, color)
        return text
    below = ["zoneward advise NUMBER: its commands and Services"]
    if color:
        below.append(
            f"Colours: {SHARE_COLORS}; WORST yellow above {WITHOUT_RISK:.0%}, red above {float(ACCEPTABLE):.0%}."
        )
    return text + "\n" + _render([line for part in below for line in _wrapped(part, width, style="dim")], width, color)


def action_text(advice: Advice, action: Action, *, width: int, color: bool) -> str:
    """One action."""
    unit = advice.summary.unit
    lines: list[StyledText] = [Text(f"{action.rank}  {describe_action(action)}", "bold")]
    lines += [line for detail in _details(action, unit) for line in _wrapped(detail, width, indent=3)]
    text = _render(lines, width, color)
    if len(action.services) > 1:
        text += "\n" + render_text(service_table(action, unit).for_terminal(width), color=color, width=width)
        if len(action.services) > _MOST_SERVICES:
            text += f"and {len(action.services) - _MOST_SERVICES} more: -o json has all\n"
    if action.commands:
        # In one line each, to be copied.
        text += "\n" + _render([Text("COMMANDS", "bold")], width, color)
        text += "".join(f"{printable(command)}\n" for command in action.commands)
    notes = [line for note in action.notes for line in _wrapped(f"- {note}", width, style="dim")]
    return text + ("\n" + _render(notes, width, color) if notes else "")


# --- what the page shows too ------------------------------------------------------------------------------------------


def summary_lines(advice: Advice) -> Iterator[StyledText]:
    """The cluster, the share of traffic in its zone, what leaves it, and the worst overload."""
    summary = advice.summary
    yield Text(describe_cluster(summary))
    missing = why_no_share(summary)
    if missing is not None:
        yield missing
        return
    assert summary.in_zone is not None
    share = Text("In its zone: ", "bold").append(f"{summary.in_zone:.0%}", "bold").append(" of traffic now", "default")
    if any(action.view == "kubernetes" for action in advice.actions):
        share.append(f", {summary.in_zone_reachable:.0%}", "bold").append(f" {_by_kubernetes(advice)}", "default")
    if adds_zoneward(summary):
        share.append(f", {summary.in_zone_with_zoneward:.0%}", "bold").append(" with Zoneward", "default")
    yield share.append(f". {describe_weights(summary)}", "default")
    if summary.crossing is not None:
        money = Text("Leaves its zone: ", "bold")
        money.append(f"{amount_text(summary.crossing, summary.unit)} a month", "bold")
        money.append(f"; {amount_text(summary.saved or 0.0, summary.unit)} can be saved", "default")
        yield money
    if summary.worst is not None:
        worst = summary.worst
        yield (
            Text("Worst overload: ", "bold")
            .append(f"+{worst.max_overload:.0%}", _overload_style(worst.max_overload))
            .append(f" on the busiest Pod of {worst.namespace}/{worst.service}", "default")
        )


def why_no_share(summary: AdviceSummary) -> StyledText | None:
    """Why no share of traffic in its zone can change, or is known; None where one can."""
    if len(summary.zones) == 1 and not summary.nodes_without_zone:
        (zone,) = summary.zones
        return Text(f"All nodes are in zone {zone}: no traffic leaves it.", "bold")
    if not summary.zones:
        return Text("No node has a zone label: how much traffic leaves its zone is unknown (zoneward check).", "yellow")
    if summary.in_zone is None:
        return Text("No Service has traffic that could stay in its zone.")
    return None


def _by_kubernetes(advice: Advice) -> str:
    """What leads to the share that is reachable. Users cannot always switch Cilium: a provider may run it."""
    switches = any(action.switches_proxies for action in advice.actions)
    return "with what Kubernetes has" + (", once Cilium honors hints" if switches else "")


def adds_zoneward(summary: AdviceSummary) -> bool:
    """Whether more traffic stays in its zone with Zoneward, by a percent or more."""
    return round(summary.in_zone_with_zoneward or 0.0, 2) > round(summary.in_zone_reachable or 0.0, 2)


def describe_cluster(summary: AdviceSummary) -> str:
    """``Kubernetes 1.33, kube-proxy 1.33 on 11 nodes; zones a (5), b (5), c (1)``."""
    version = "Kubernetes" if summary.kubernetes is None else f"Kubernetes {summary.kubernetes}"
    proxies = ", ".join(f"{kind} on {counted(nodes, 'node')}" for kind, nodes in summary.proxies.items())
    zones = listed(tuple(f"{zone} ({nodes})" for zone, nodes in summary.zones.items()), most=6)
    if summary.nodes_without_zone and zones:
        zones += f"; {counted(summary.nodes_without_zone, 'node')} without a zone"
    return f"{version}{f', {proxies}' if proxies else ''}; {'zones ' + zones if zones else 'no zones'}."


def describe_weights(summary: AdviceSummary) -> str:
    services = counted(summary.services, "Service")
    if summary.weighed_by == "endpoints":
        return f"{services}, each weighed by its endpoints."
    return f"{services}, weighed by measured {summary.weighed_by}."


def action_heading(actions: Sequence[Action]) -> str:
    """The heading of a group: what needs nothing of Zoneward, and what does."""
    needs = {action.needs for action in actions}
    if needs == {None}:
        return "WHAT TO DO"
    (*_, need) = needs
    return "WITH ZONEWARD" if len(needs) > 1 or need is None else f"WITH ZONEWARD'S {need.upper()}"


def describe_need(action: Action) -> str:
    """What of Zoneward an action needs."""
    if action.needs == "controller":
        return "its controller, as overlays need Kubernetes 1.36"
    if action.needs == "meter":
        return "its meter, which changes no traffic"
    return "an overlay, which leaves slices and selectors alone"


def describe_action(action: Action) -> str:
    """``shop/cart: trafficDistribution: PreferClose``, ``23 Services: ...``."""
    if action.switches_proxies or not action.changes_traffic:
        return action.title
    order = f" (after {', '.join(map(str, action.after))})" if action.after else ""
    if action.instead_of:
        order += f" (instead of {', '.join(map(str, action.instead_of))})"
    if len(action.services) > 1:
        return f"{len(action.services)} Services: {action.title}{order}"
    (service,) = action.services
    return f"{service.namespace}/{service.service}: {action.title}{order}"


def describe_risk(action: Action) -> str:
    return f"{action.risk}{f', {action.risk_reason}' if action.risk_reason else ''}"


def _details(action: Action, unit: str | None) -> Iterator[str]:
    """What follows from an action, its risk, and what it needs."""
    if action.changes_traffic:
        yield describe_effect(action.effect, unit)
    yield f"risk: {describe_risk(action)}"
    if action.after:
        yield f"only after action {listed(tuple(map(str, action.after)))}"
    if action.needs:
        yield f"needs {describe_need(action)}"
    if action.pods:
        yield f"takes {counted(action.pods, 'more Pod')}"
    if action.limited_by:
        yield f"limited by {', '.join(action.limited_by)}: zoneward check"


def describe_effect(effect: Effect, unit: str | None) -> str:
    """``33% -> 100% in its zone; busiest Pod +0% -> +36%``."""
    parts = [f"{effect.in_zone_before:.0%} -> {effect.in_zone_after:.0%} in its zone"]
    parts.append(f"busiest Pod +{effect.max_overload_before:.0%} -> +{effect.max_overload_after:.0%}")
    if effect.dropped_before:
        dropped = format_dropped(effect.dropped_before)
        parts.append(f"{dropped} -> {format_dropped(effect.dropped_after)} of traffic dropped")
    if effect.saved_per_month is not None:
        parts.append(f"saves {amount_text(effect.saved_per_month, unit)} a month")
    return "; ".join(parts)


def amount_text(amount: float, unit: str | None) -> str:
    """``1,234 USD``, ``56.7 GB``, ``4,321 connections``."""
    if unit == "bytes":
        return f"{format_number(amount / BYTES_IN_GB)} GB"
    if unit == "connections":
        return f"{amount:,.0f} connections"
    return f"{format_number(amount)} {unit or ''}".rstrip()


def action_table(actions: Sequence[Action], title: str, *, unit: str | None) -> Table:
    """A row for each action; the last column has what to do."""
    rows = []
    for action in actions:
        effect = action.effect
        row: list[StyledText] = [Text(str(action.rank))]
        if action.changes_traffic:
            row += [share_change(effect), overload_change(effect)]
        else:
            row += [Text("-", "dim"), Text("-", "dim")]
        row.append(Text(action.risk, _COLORS[action.risk]))
        if unit is not None:
            row.append(_saved(effect, unit))
        rows.append([*row, _what_to_do(action)])
    saves = () if unit is None else ("SAVES",)
    return Table(("#", "IN ZONE", "WORST", "RISK", *saves, title), rows, ("#", "IN ZONE", "WORST", *saves))


def _what_to_do(action: Action) -> StyledText:
    text = Text(describe_action(action))
    if action.changes_traffic and action.effect.dropped_before:
        whose = "its" if len(action.services) == 1 else "their"
        text.append(f"; {format_dropped(action.effect.dropped_before)} of {whose} traffic is dropped", "red")
    if action.pods and len(action.services) > 1:
        text.append(f"; {counted(action.pods, 'more Pod')}", "dim")
    if action.limited_by:
        text.append(f"; limited by {', '.join(action.limited_by)}", "yellow")
    return text


def service_table(action: Action, unit: str | None, *, most: int = _MOST_SERVICES) -> Table:
    """The first Services of an action."""
    is_same = len({service.about for service in action.services}) == 1
    saves = () if unit is None else ("SAVES",)
    rows = []
    for service in action.services[:most]:
        effect = service.effect
        row = [Text(f"{service.namespace}/{service.service}"), share_change(effect), overload_change(effect)]
        if unit is not None:
            row.append(_saved(effect, unit))
        rows.append(row if is_same else [*row, Text(service.about)])
    about = () if is_same else ("WHAT TO DO",)
    return Table(("SERVICE", "IN ZONE", "WORST", *saves, *about), rows, ("IN ZONE", "WORST", *saves))


def _saved(effect: Effect, unit: str | None) -> StyledText:
    return Text("-" if effect.saved_per_month is None else amount_text(effect.saved_per_month, unit))


def overload_change(effect: Effect) -> StyledText:
    """That of now only where it is one."""
    before, after = effect.max_overload_before, effect.max_overload_after
    text = Text(f"+{before:.0%} -> " if before > WITHOUT_RISK else "")
    return text.append(f"+{after:.0%}", _overload_style(after))


def share_change(effect: Effect) -> StyledText:
    """``33% -> 100%``."""
    after = effect.in_zone_after
    style = "red" if effect.dropped_after else share_style(after)
    return Text(f"{effect.in_zone_before:.0%} -> ").append(f"{after:.0%}", style)


def _overload_style(share: float) -> str:
    return "red" if share > ACCEPTABLE else "yellow" if share > WITHOUT_RISK else "default"


# --- what manifests change --------------------------------------------------------------------------------------------


def changes_text(changes: ManifestChanges, *, width: int, color: bool) -> str:
    """A row for each Service that changes."""
    text = f"{describe_changes(changes)}\n"
    if changes.services:
        rows = [
            [
                Text(f"{service.namespace}/{service.service}"),
                *_changed_figures(service),
                Text("; ".join(service.changes)),
            ]
            for service in changes.services
        ]
        table = Table(("SERVICE", "IN ZONE", "WORST", "CHANGE"), rows, ("IN ZONE", "WORST"))
        text += render_text(table.for_terminal(width), color=color, width=width)
    return text


def changes_markdown(changes: ManifestChanges) -> str:
    """The same for a comment. All text of objects is code, in which a forge sees no links and no names of users."""
    lines = [f"**Zoneward**: {describe_changes(changes, quote=_code)}"]
    if changes.services:
        lines += ["", "| Service | in its zone | busiest Pod | change |", "| --- | --- | --- | --- |"]
        for service in changes.services:
            in_zone, worst = (figure.plain for figure in _changed_figures(service))
            name = f"{service.namespace}/{service.service}"
            change = "<br>".join(map(_code, service.changes))
            lines.append(f"| {_code(name)} | {in_zone} | {worst} | {change} |")
    return "\n".join(map(printable, lines)) + "\n"


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def describe_changes(changes: ManifestChanges, *, quote: Callable[[str], str] = str) -> str:
    """``2 Services change, 3 do not; not in the cluster: shop/new``; names as ``quote`` has them."""
    count = len(changes.services)
    text = f"{counted(count, 'Service')} {'changes' if count == 1 else 'change'}"
    if changes.unchanged:
        text += f", {changes.unchanged} {'does' if changes.unchanged == 1 else 'do'} not"
    return printable(
        text + (f"; not in the cluster: {listed(tuple(map(quote, changes.unknown)))}" if changes.unknown else "")
    )


def _changed_figures(service: ChangedService) -> tuple[StyledText, StyledText]:
    if service.effect is None:
        return Text("-", "dim"), Text("-", "dim")
    worst = overload_change(service.effect)
    if service.effect.dropped_after:
        worst = Text(f"drops {format_dropped(service.effect.dropped_after)}", "red")
    return share_change(service.effect), worst


# --- lines ------------------------------------------------------------------------------------------------------------


def _render(lines: Sequence[StyledText], width: int, color: bool) -> str:
    return render_text(join_lines(lines), color=color, width=width)


def _wrapped(text: str, width: int, *, indent: int = 0, style: str = "") -> list[StyledText]:
    """Lines of at most ``width`` columns; continued ones are indented by two more."""
    lines = wrap(printable(text), max(width - indent - 2, _LEAST_WIDTH)) or [""]
    return [Text(" " * (indent + (2 if index else 0)) + line, style) for index, line in enumerate(lines)]


# --- as a page --------------------------------------------------------------------------------------------------------

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


def advice_page(advice: Advice, *, source: Source) -> str:
    """The whole page."""
    summary = advice.summary
    actions: list[Content] = []
    for view, title in (("kubernetes", "What to do"), ("zoneward", "With Zoneward")):
        of_view = [action for action in advice.actions if action.view == view]
        if of_view:
            actions.append(tag("h2", title))
            actions.extend(_action(action, summary.unit) for action in of_view)
    missing = why_no_share(summary)
    if missing is not None or not actions:
        actions.insert(0, tag("p", NOTHING_TO_DO if missing is None else missing.plain))
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
        yield fact(_by_kubernetes(advice), f"{summary.in_zone_reachable:.0%}")
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
    inside: list[Content] = [tag("p", f"{detail[0].upper()}{detail[1:]}.") for detail in _details(action, unit)]
    if len(action.services) > 1:
        table = service_table(action, unit, most=len(action.services))
        inside.append(table.as_element(f"Services of action {action.rank}"))
    if action.commands:
        inside.extend(command_lines(action.commands))
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
