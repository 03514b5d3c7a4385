"""``advise --diff`` for a terminal, and as Markdown for the comment of a pull request."""

from collections.abc import Callable

from zoneward.advice.manifest_changes import ChangedService, ManifestChanges
from zoneward.kube.safe_text import printable
from zoneward.report.advice_text import overload_change, share_change
from zoneward.report.table_parts import Table
from zoneward.report.terminal_text import StyledText, Text, render_text
from zoneward.routing.phrases import counted, listed


def changes_text(changes: ManifestChanges, *, width: int, color: bool) -> str:
    """A row for each Service that changes."""
    text = f"{describe_changes(changes)}\n"
    if changes.services:
        rows = [
            [Text(_name(service)), *_figures(service), Text("; ".join(service.changes))] for service in changes.services
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
            in_zone, worst = (figure.plain for figure in _figures(service))
            change = "<br>".join(map(_code, service.changes))
            lines.append(f"| {_code(_name(service))} | {in_zone} | {worst} | {change} |")
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


def _name(service: ChangedService) -> str:
    return f"{service.namespace}/{service.service}"


def _figures(service: ChangedService) -> tuple[StyledText, StyledText]:
    if service.effect is None:
        return Text("-", "dim"), Text("-", "dim")
    return share_change(service.effect), overload_change(service.effect)
