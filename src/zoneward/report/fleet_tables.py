"""A row for each cluster: what `advise`, `check` and `report` show for several contexts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from zoneward.advice.actions import Advice
from zoneward.advice.findings.check_cluster import CheckedCluster
from zoneward.advice.findings.codes import CODES, SEVERITIES
from zoneward.advice.json_value import as_document
from zoneward.advice.traffic_report import TrafficReport
from zoneward.report.advice_report import amount_text, describe_action, why_no_share
from zoneward.report.table_parts import Table
from zoneward.report.terminal_text import StyledText, Text, share_style
from zoneward.report.traffic_table import ReportNumbers
from zoneward.routing.phrases import counted

T = TypeVar("T")
_SEVERITY_STYLES: Final = {"error": "red", "warning": "yellow"}


@dataclass(frozen=True, slots=True)
class ClusterResult(Generic[T]):
    """``result`` is None where the cluster could not be read: ``error`` says why."""

    context: str
    result: T | None
    error: str = ""


def fleet_document(kind: str, results: Sequence[ClusterResult[T]], fields_of: Callable[[T], Any]) -> dict[str, Any]:
    """A list with the document of each cluster, and its ``context``; or with an ``error``."""
    items = [
        {"context": result.context, "error": result.error}
        if result.result is None
        else {"context": result.context, **as_document(kind, fields_of(result.result))}
        for result in results
    ]
    return as_document(f"{kind}List", {"items": items})


def advice_table(results: Sequence[ClusterResult[Advice]]) -> Table:
    """Shares of traffic in its zone: now, and after the actions that need nothing else."""
    has_amounts = any(result.result is not None and result.result.summary.unit is not None for result in results)

    def row(advice: Advice) -> list[StyledText]:
        summary = advice.summary
        saved = "-" if summary.saved is None else amount_text(summary.saved, summary.unit)
        return [
            Text(f"{summary.services:,}"),
            _shares(summary.in_zone, summary.in_zone_reachable),
            Text("-" if summary.worst is None else f"+{summary.worst.max_overload:.0%}"),
            *([Text(saved)] if has_amounts else []),
            Text(describe_action(advice.actions[0]))
            if advice.actions
            else why_no_share(summary) or Text("nothing to do"),
        ]

    saves = ("SAVES",) if has_amounts else ()
    return _table(("SERVICES", "IN ZONE", "WORST", *saves, "FIRST ACTION"), results, row)


def check_table(results: Sequence[ClusterResult[CheckedCluster]]) -> Table:
    def row(checked: CheckedCluster) -> list[StyledText]:
        counts = [
            Text(str(count), _SEVERITY_STYLES.get(severity, "") if count else "dim")
            for severity in SEVERITIES
            for count in (checked.summary[severity],)
        ]
        worst = next(iter(checked.findings), None)
        return [*counts, Text("none" if worst is None else f"{worst.code} {CODES[worst.code].title}")]

    return _table((*(f"{severity.upper()}S" for severity in SEVERITIES), "WORST FINDING"), results, row)


def report_table(results: Sequence[ClusterResult[TrafficReport]]) -> Table:
    """What leaves its zone in a month, and what the best setting of each Service saves. Where only some clusters have
    bytes, both kinds of amounts have columns.
    """
    headings = (ReportNumbers(result.result).columns for result in results if result.result is not None)
    amounts = tuple(dict.fromkeys(heading for columns in headings for heading in columns)) or ("CROSS",)

    def row(report: TrafficReport) -> list[StyledText]:
        numbers, totals = ReportNumbers(report), report.totals
        cells = dict(zip(numbers.columns, numbers.cells(totals.now), strict=True))
        return [
            Text(f"{totals.services:,}"),
            *(Text(cells.get(heading, "")) for heading in amounts),
            Text(numbers.value(totals.best.saved)),
            Text(numbers.margin(totals.best.saved), "dim"),
            Text(f"by {counted(totals.best.best, 'Service')}"),
        ]

    return _table(("SERVICES", *amounts, "SAVED", "\N{PLUS-MINUS SIGN}", ""), results, row)


def _table(
    columns: Sequence[str], results: Sequence[ClusterResult[T]], row: Callable[[T], Sequence[StyledText]]
) -> Table:
    """The name of each cluster before its ``row``. Instead of it, the last column says why one could not be read."""
    empty = [Text() for _ in columns[:-1]]
    rows = [
        [Text(result.context), *([*empty, Text(result.error, "red")] if result.result is None else row(result.result))]
        for result in results
    ]
    return Table(("CLUSTER", *columns), rows, columns[:-1])


def _shares(now: float | None, reachable: float | None) -> StyledText:
    if now is None:
        return Text("-", "dim")
    reached = now if reachable is None else reachable
    before, after = f"{now:.0%}", Text(f"{reached:.0%}", share_style(reached))
    return after if before == after.plain else Text(f"{before}>", "default").append(after)
