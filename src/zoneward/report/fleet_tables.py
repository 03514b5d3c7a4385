"""A row for each cluster: what `advise`, `check` and `report` show for several contexts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from zoneward.advice.actions import Advice
from zoneward.advice.findings.check_cluster import CheckedCluster
from zoneward.advice.findings.codes import CODES, SEVERITIES
from zoneward.advice.json_value import as_document
from zoneward.advice.traffic_report import TrafficReport
from zoneward.report.advice_text import amount_text, describe_action
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


def fleet_document(
    kind: str, results: Sequence[ClusterResult[T]], fields_of: Callable[[T], Any] = lambda result: result
) -> dict[str, Any]:
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
    unit = next((result.result.summary.unit for result in results if result.result is not None), None)
    columns = ("CLUSTER", "SERVICES", "IN ZONE", "WORST", *(() if unit is None else ("SAVES",)), "FIRST ACTION")
    rows = []
    for result in results:
        advice = result.result
        if advice is None:
            rows.append(_unread(result, columns))
            continue
        summary = advice.summary
        saved = (
            () if unit is None else (Text("-" if summary.saved is None else amount_text(summary.saved, summary.unit)),)
        )
        first = describe_action(advice.actions[0]) if advice.actions else "nothing to do"
        rows.append(
            [
                Text(result.context),
                Text(f"{summary.services:,}"),
                _shares(summary.in_zone, summary.in_zone_reachable),
                Text("-" if summary.worst is None else f"+{summary.worst.max_overload:.0%}"),
                *saved,
                Text(first),
            ]
        )
    return Table(columns, rows, columns[1:-1])


def check_table(results: Sequence[ClusterResult[CheckedCluster]]) -> Table:
    columns = ("CLUSTER", *(f"{severity.upper()}S" for severity in SEVERITIES), "WORST FINDING")
    rows = []
    for result in results:
        checked = result.result
        if checked is None:
            rows.append(_unread(result, columns))
            continue
        counts = [
            Text(str(count), _SEVERITY_STYLES.get(severity, "") if count else "dim")
            for severity in SEVERITIES
            for count in (checked.summary[severity],)
        ]
        worst = next(iter(checked.findings), None)
        title = "none" if worst is None else f"{worst.code} {CODES[worst.code].title}"
        rows.append([Text(result.context), *counts, Text(title)])
    return Table(columns, rows, columns[1:-1])


def report_table(results: Sequence[ClusterResult[TrafficReport]]) -> Table:
    """What leaves its zone in a month, and what the best setting of each Service saves."""
    known = next((result.result for result in results if result.result is not None), None)
    amounts = ("CROSS",) if known is None else ReportNumbers(known).columns
    columns = ("CLUSTER", "SERVICES", *amounts, "SAVED", "±", "")
    rows = []
    for result in results:
        report = result.result
        if report is None:
            rows.append(_unread(result, columns))
            continue
        numbers, totals = ReportNumbers(report), report.totals
        best = totals.best
        rows.append(
            [
                Text(result.context),
                Text(f"{totals.services:,}"),
                *map(Text, numbers.cells(totals.now, totals.whole)),
                Text(numbers.value(best.saved, totals.whole)),
                Text(numbers.margin(best.saved, totals.whole), "dim"),
                Text(f"by {counted(best.best, 'Service')}"),
            ]
        )
    return Table(columns, rows, columns[1:-1])


def _unread(result: ClusterResult[Any], columns: Sequence[str]) -> list[StyledText]:
    return [Text(result.context), *(Text() for _ in columns[1:-1]), Text(result.error, "red")]


def _shares(now: float | None, reachable: float | None) -> StyledText:
    """``45%>91%``."""
    if now is None:
        return Text("-", "dim")
    before, after = f"{now:.0%}", f"{reachable if reachable is not None else now:.0%}"
    style = share_style(reachable if reachable is not None else now)
    return Text(after, style) if before == after else Text(f"{before}>", "default").append(after, style)
