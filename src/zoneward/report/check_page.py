"""Findings as one HTML page: everything is in it, it needs no script and no network, and it follows the reader's
choice of light or dark.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from zoneward.advice.findings.check_cluster import CheckedCluster
from zoneward.advice.findings.codes import CODES, SEVERITIES, Finding
from zoneward.report.html import Content, Markup, name, page, table, tag
from zoneward.report.terminal_text import StyledText
from zoneward.routing.rules import counted

_OPEN: Final = 20
"""Findings of one code that are shown without being asked for."""
_STYLE: Final = """
:root { color-scheme: light dark; }
h2 .severity, nav .severity { font-size: .72rem; font-weight: 700; text-transform: uppercase; letter-spacing: .04em;
  padding: .1rem .45rem; border-radius: 3px; color: #fff; vertical-align: middle; margin-right: .5rem; }
.error { background: #a40e26; }
.warning { background: #7d4e00; }
.info { background: #0a58a8; }
nav { display: block; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav li { margin: .35rem 0; }
.findings th, .findings td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.findings tr th:first-child { min-width: 9rem; max-width: 18rem; padding-left: 0; }
.findings td { min-width: 15rem; max-width: 44rem; }
.findings td small { font-size: 14px; line-height: 20px; }
@media (max-width: 560px) {
  .findings tr th:first-child { position: static; min-width: 7rem; }
  .findings td { min-width: 11rem; }
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9da7b3; --line: #30363d; --tint: #161b22; }
  body { background: #0d1117; }
  a, summary { color: #79b8ff; }
  tr th:first-child { background: #0d1117; }
  .scroll:focus-visible { outline-color: #79b8ff; }
}
"""


def check_page(checked: CheckedCluster, *, summary: StyledText) -> str:
    """The page. ``summary`` is the line of totals, as the table has it."""
    groups = [(*key, list(found)) for key, found in groupby(checked.findings, lambda each: (each.severity, each.code))]
    facts: list[tuple[str, str]] = [(severity, str(checked.count(severity))) for severity in SEVERITIES]
    facts += [("Services", str(checked.services)), ("nodes", str(checked.nodes)), ("ignored", str(checked.ignored))]
    links = (
        tag("li", _badge(severity), tag("a", f"{code} {CODES[code].title}", href=f"#{_id(severity, code)}"),
            f" ({len(found)})")
        for severity, code, found in groups
    )  # fmt: skip
    return page(
        "Zoneward: findings",
        tag("h1", "Is this cluster fit for zone aware routing?"),
        tag("p", summary.plain),
        tag("dl", *(tag("div", tag("dt", what), tag("dd", value)) for what, value in facts), class_="facts"),
        *([tag("nav", tag("ul", *links), aria_label="Findings")] if groups else []),
        *(_section(severity, code, found) for severity, code, found in groups),
        *_not_checked(checked),
        tag(
            "footer",
            "Made by zoneward check. For programs: ",
            tag("code", "-o json"),
            " or ",
            tag("code", "-o sarif"),
            ". Each code is explained in ",
            tag("code", "docs/check.md"),
            ".",
        ),
        style=_STYLE,
    )


def _id(severity: str, code: str) -> str:
    """One code may have findings of two severities."""
    return f"{code.lower()}-{severity}"


def _badge(severity: str) -> Markup:
    return tag("span", severity, class_=f"severity {severity}")


def _section(severity: str, code: str, found: Sequence[Finding]) -> Markup:
    about = CODES[code]
    rows: Content = table(
        ("object", "reason and fix"),
        [_rows(found, about.fix)],
        label=f"{code}: {about.title}",
        class_="findings",
    )
    if len(found) > _OPEN:
        rows = tag("details", tag("summary", counted(len(found), "finding")), rows)
    return tag(
        "section",
        tag("h2", _badge(severity), f"{code} {about.title}"),
        tag("p", tag("strong", "Fix: "), _as_code(about.fix)),
        tag("p", tag("small", about.docs)),
        rows,
        id=_id(severity, code),
    )


def _rows(found: Sequence[Finding], common: str) -> Iterator[Markup]:
    for each in found:
        own = [tag("br"), tag("small", "Fix: ", _as_code(each.fix))] if each.fix != common else []
        yield tag("tr", tag("th", name(str(each.object)), scope="row"), tag("td", tag("bdi", each.message), *own))


def _as_code(fix: str) -> Content:
    """A command in the type of code, also at the end of a sentence."""
    start, found, command = fix.partition("kubectl ")
    return tag("span", start, tag("code", found + command)) if found else fix


def _not_checked(checked: CheckedCluster) -> Iterator[Markup]:
    if checked.not_checked:
        lines = (tag("li", f"{', '.join(each.codes)}: {each.reason}") for each in checked.not_checked)
        yield tag("section", tag("h2", "Not checked"), tag("ul", *lines))
