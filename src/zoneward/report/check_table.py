"""Findings for a terminal: a block for each code, in which alike findings share a line."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding

from zoneward.advice.findings.check_cluster import CheckedCluster
from zoneward.advice.findings.codes import CODES, SEVERITIES, Finding
from zoneward.report.terminal_text import StyledText, Text
from zoneward.routing.rules import counted

_STYLES: Final = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_NAMES: Final = 5
"""Objects that one line names."""


def check_table(checked: CheckedCluster, *, top: int) -> RenderableType:
    """At most ``top`` lines of findings for each code and severity, 0 for all; then what was not checked and totals."""
    parts: list[RenderableType] = []
    for (severity, code), found in groupby(checked.findings, lambda each: (each.severity, each.code)):
        parts.extend(_block(severity, code, list(found), top=top))
        parts.append(Text())
    not_checked = (f"Not checked: {', '.join(each.codes)}: {each.reason}" for each in checked.not_checked)
    return Group(*parts, *(Text(line, "dim") for line in not_checked), summary(checked))


def summary(checked: CheckedCluster) -> StyledText:
    """``1 error, 3 warnings and 2 infos in 14 Services and 6 Nodes; 4 ignored``."""
    where = f"in {counted(checked.services, 'Service')} and {counted(checked.nodes, 'Node')}"
    ignored = f"; {checked.ignored} ignored" if checked.ignored else ""
    if not checked.findings:
        return Text(f"No findings {where}{ignored}.", "green" if not checked.not_checked else "")
    counts = [(severity, checked.count(severity)) for severity in SEVERITIES]
    text = Text()
    shown = [(severity, number) for severity, number in counts if number]
    for place, (severity, number) in enumerate(shown):
        text.append("" if not place else " and " if place == len(shown) - 1 else ", ")
        text.append(counted(number, severity), _STYLES[severity])
    return text.append(f" {where}{ignored}.")


def _block(severity: str, code: str, found: Sequence[Finding], *, top: int) -> Iterator[RenderableType]:
    about = CODES[code]
    head = Text(f"{severity.upper()} {code}", _STYLES[severity]).append(f" {about.title}", "bold")
    yield head.append(f" ({len(found)})" if len(found) > 1 else "")
    lines: dict[str, list[Finding]] = {}
    for each in found:
        lines.setdefault(each.message, []).append(each)
    shown = list(lines.items())[: top or None]
    for message, alike in shown:
        yield _indented(Text(_objects(alike), "bold").append(f": {message}", "not bold"), 2)
        fix = alike[0].fix
        if fix != about.fix:
            yield _fix(fix, 4)
    left = len(found) - sum(len(alike) for _, alike in shown)
    if left:
        yield _indented(Text(f"and {left} more: --top 0 shows all", "dim"), 2)
    if any(alike[0].fix == about.fix for _, alike in shown):
        yield _fix(about.fix, 2)
    yield _indented(Text(about.docs, "dim"), 2)


def _objects(alike: Sequence[Finding]) -> str:
    """``Node n1, n2 and 3 more``, by kind."""
    parts = []
    for _, same in groupby(alike, lambda each: each.object.kind):
        first, *others = same
        names = [str(first.object), *(str(each.object).partition(" ")[2] for each in others[: _NAMES - 1])]
        more = len(others) + 1 - len(names)
        parts.append(", ".join(names) + (f" and {more} more" if more else ""))
    return "; ".join(parts)


def _fix(fix: str, indent: int) -> RenderableType:
    """A command is one line, whatever the width: people copy it."""
    text = Text("fix: ", "green").append(fix, "default")
    if not fix.startswith("kubectl "):
        return _indented(text, indent)
    return Text(" " * indent, no_wrap=True, overflow="ignore").append_text(text)


def _indented(text: StyledText, by: int) -> Padding:
    return Padding(text, (0, 0, 0, by), expand=False)
