"""Findings for a terminal, as a page and as SARIF 2.1.0: a block for each code.

The page needs no script and no network, and follows the reader's choice of light or dark. In SARIF, a
finding has a logical location: it is about an object of a cluster and not about a line of a file. Many readers need a
file, too: they get one with the name of the object, ``Service/shop/cart``.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final
from urllib.parse import quote

from rich.console import Group, RenderableType
from rich.padding import Padding

from zoneward import __version__
from zoneward.advice.findings.check_cluster import CheckedCluster, NotChecked
from zoneward.advice.findings.codes import CODES, SEVERITIES, Code, Finding, FindingObject, Severity
from zoneward.kube.safe_text import printable
from zoneward.report.html import DARK_STYLE, Markup, Source, fact, footer, page, tag
from zoneward.report.table_parts import TEXT_STYLE, Table, styled
from zoneward.report.terminal_text import StyledText, Text
from zoneward.routing.phrases import counted

_STYLES: Final = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_NAMES: Final = 5
"""Objects that one line names."""
_OPEN: Final = 20
"""Findings of one code that the page shows at once; more are shown on a click."""
_PAGE_STYLE: Final = """
h2 .severity, nav .severity { font-size: .72rem; font-weight: 700; text-transform: uppercase; letter-spacing: .04em;
  padding: .1rem .45rem; border-radius: 3px; color: #fff; vertical-align: middle; margin-right: .5rem; }
.error { background: #a40e26; }
.warning { background: #7d4e00; }
.info { background: #0a58a8; }
nav { display: block; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav li { margin: .35rem 0; }
"""


def _blocks(checked: CheckedCluster) -> Iterator[tuple[Severity, Code, list[Finding]]]:
    """The findings by severity and code; one code may have findings of two severities."""
    for (severity, code), findings in groupby(checked.findings, lambda finding: (finding.severity, finding.code)):
        yield severity, CODES[code], list(findings)


def _summary(checked: CheckedCluster) -> StyledText:
    """``1 error, 3 warnings and 2 infos in 14 Services and 6 Nodes; 4 ignored``."""
    where = f"in {counted(checked.services, 'Service')} and {counted(checked.nodes, 'Node')}"
    ignored = f"; {checked.ignored} ignored" if checked.ignored else ""
    if not checked.findings:
        return Text(f"No findings {where}{ignored}.", "green" if not checked.not_checked else "")
    text = Text()
    counts = [(severity, count) for severity, count in checked.summary.items() if count]
    for index, (severity, count) in enumerate(counts):
        text.append("" if not index else " and " if index == len(counts) - 1 else ", ")
        text.append(counted(count, severity), _STYLES[severity])
    return text.append(f" {where}{ignored}.")


# --- for a terminal ---------------------------------------------------------------------------------------------------


def check_table(checked: CheckedCluster, *, top: int) -> RenderableType:
    """At most ``top`` lines of findings for each code and severity, 0 for all; then what was not checked and totals."""
    parts: list[RenderableType] = []
    for severity, code, findings in _blocks(checked):
        parts.extend(_block(severity, code, findings, top=top))
        parts.append(Text())
    parts += (
        Text(f"Not checked: {', '.join(missing.codes)}: {missing.reason}", "dim") for missing in checked.not_checked
    )
    return Group(*parts, _summary(checked))


def _block(severity: Severity, code: Code, findings: Sequence[Finding], *, top: int) -> Iterator[RenderableType]:
    """Findings with the same message share a line."""
    head = Text(f"{severity.upper()} {code.code}", _STYLES[severity]).append(f" {code.title}", "bold")
    yield head.append(f" ({len(findings)})" if len(findings) > 1 else "")
    by_message: dict[str, list[Finding]] = {}
    for finding in findings:
        by_message.setdefault(finding.message, []).append(finding)
    shown = list(by_message.items())[: top or None]
    for message, alike in shown:
        yield _indented(Text(_objects(alike), "bold").append(f": {message}", "not bold"), 2)
        if alike[0].fix != code.fix:
            yield _fix(alike[0], 4)
    left = len(findings) - sum(len(alike) for _, alike in shown)
    if left:
        yield _indented(Text(f"and {left} more: --top 0 shows all", "dim"), 2)
    if any(alike[0].fix == code.fix for _, alike in shown):
        yield _fix(code, 2)
    yield _indented(Text(code.docs, "dim"), 2)


def _objects(alike: Sequence[Finding]) -> str:
    """``Node n1, n2 and 3 more``, by kind."""
    parts = []
    for _, same_kind in groupby(alike, lambda finding: finding.object.kind):
        first, *others = same_kind
        names = [str(first.object), *(str(other.object).partition(" ")[2] for other in others[: _NAMES - 1])]
        more = len(others) + 1 - len(names)
        parts.append(", ".join(names) + (f" and {more} more" if more else ""))
    return "; ".join(parts)


def _fix(fixed: Finding | Code, indent: int) -> RenderableType:
    """A fix with a command is one line at any width, because people copy it."""
    text = Text("fix: ", "green").append(fixed.fix, "default")
    if not fixed.command:
        return _indented(text, indent)
    return Text(" " * indent, no_wrap=True, overflow="ignore").append_text(text)


def _indented(text: StyledText, by: int) -> Padding:
    return Padding(text, (0, 0, 0, by), expand=False)


# --- as a page --------------------------------------------------------------------------------------------------------


def check_page(checked: CheckedCluster, *, source: Source) -> str:
    """The page, with a row for each finding."""
    blocks = list(_blocks(checked))
    facts: list[tuple[str, int]] = [(severity, checked.summary[severity]) for severity in SEVERITIES]
    facts += [("Services", checked.services), ("nodes", checked.nodes), ("ignored", checked.ignored)]
    links = (
        tag(
            "li",
            _badge(severity),
            tag("a", f"{code.code} {code.title}", href=f"#{_id(severity, code)}"),
            f" ({len(findings)})",
        )
        for severity, code, findings in blocks
    )
    not_checked = [tag("li", f"{', '.join(missing.codes)}: {missing.reason}") for missing in checked.not_checked]
    return page(
        "Zoneward: findings",
        tag("h1", "Is this cluster fit for zone aware routing?"),
        source.heading(),
        tag("p", _summary(checked).plain),
        tag("dl", *(fact(what, str(count)) for what, count in facts), class_="facts large"),
        *([tag("nav", tag("ul", *links), aria_label="Findings")] if blocks else []),
        *(_section(severity, code, findings) for severity, code, findings in blocks),
        *([tag("section", tag("h2", "Not checked"), tag("ul", *not_checked))] if not_checked else []),
        footer(
            "zoneward check -o html",
            *(". For programs: ", tag("code", "-o json"), " or ", tag("code", "-o sarif")),
            *(". Each code is explained in ", tag("code", "docs/check.md"), "."),
        ),
        style=f"{DARK_STYLE}{TEXT_STYLE}{_PAGE_STYLE}",
    )


def _id(severity: Severity, code: Code) -> str:
    return f"{code.code.lower()}-{severity}"


def _badge(severity: Severity) -> Markup:
    return tag("span", severity, class_=f"severity {severity}")


def _section(severity: Severity, code: Code, findings: Sequence[Finding]) -> Markup:
    rows = [[Text(str(finding.object)), _reason(finding, code)] for finding in findings]
    table = Table(("OBJECT", "REASON AND FIX"), rows, ()).as_element(f"{code.code}: {code.title}")
    if len(findings) > _OPEN:
        table = tag("details", tag("summary", counted(len(findings), "finding")), table)
    return tag(
        "section",
        tag("h2", _badge(severity), f"{code.code} {code.title}"),
        tag("p", tag("strong", "Fix: "), styled(_with_code(code))),
        tag("p", tag("small", code.docs)),
        table,
        id=_id(severity, code),
    )


def _reason(finding: Finding, code: Code) -> Text:
    text = Text(finding.message)
    return text if finding.fix == code.fix else text.append(" Fix: ", "small").append(_with_code(finding))


def _with_code(fixed: Finding | Code) -> Text:
    """A fix with its command in the type of code."""
    return Text(fixed.fix.removesuffix(fixed.command)).append(fixed.command, "code")


# --- as SARIF ---------------------------------------------------------------------------------------------------------

VERSION: Final = "2.1.0"
_LEVELS: Final[dict[Severity, str]] = {"error": "error", "warning": "warning", "info": "note"}


def sarif_document(checked: CheckedCluster) -> dict[str, Any]:
    """A log with one run, which has all codes as rules, and what could not be checked as notifications."""
    index = {code: position for position, code in enumerate(CODES)}
    return {
        "version": VERSION,
        "runs": [
            {
                "tool": {"driver": {"name": "zoneward", "version": __version__, "rules": _rules()}},
                "invocations": [
                    {
                        "executionSuccessful": True,
                        "toolExecutionNotifications": [_notification(missing) for missing in checked.not_checked],
                    }
                ],
                "results": [_result(finding, index[finding.code]) for finding in checked.findings],
            }
        ],
    }


def _notification(missing: NotChecked) -> dict[str, Any]:
    text = f"not checked: {', '.join(missing.codes)}: {missing.reason}"
    return {"level": "note", "message": {"text": printable(text)}}


def _rules() -> list[dict[str, Any]]:
    return [
        {
            "id": code.code,
            "shortDescription": {"text": code.title},
            "help": {"text": f"{code.fix} ({code.docs})"},
            "defaultConfiguration": {"level": _LEVELS[code.severity]},
        }
        for code in CODES.values()
    ]


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    uri = _uri(finding.object)
    location = {"name": printable(finding.object.name or finding.object.kind), "fullyQualifiedName": uri}
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": printable(f"{finding.object}: {finding.message}. Fix: {finding.fix}")},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": uri}},
                "logicalLocations": [{**location, "kind": "resource"}],
            }
        ],
        "partialFingerprints": {"codeAndObject/v1": f"{finding.code}/{uri}"},
    }


def _uri(about: FindingObject) -> str:
    """``Service/shop/cart``, as a relative URI. No part of it leads to a parent folder."""
    parts = (part for part in (about.kind, about.namespace, about.name) if part)
    return "/".join(quote(part, safe="", errors="replace") if part.strip(".") else "_" for part in parts)
