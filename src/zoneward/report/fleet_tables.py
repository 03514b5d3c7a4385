"""A row for each cluster: what `advise`, `check` and `report` show for several contexts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from zoneward.advice.actions import Advice
from zoneward.advice.findings.check_cluster import CheckedCluster
from zoneward.advice.findings.codes import CODES, SEVERITIES
from zoneward.advice.json_value import as_document
from zoneward.advice.traffic_report import TrafficReport
from zoneward.report.advice_report import amount_text, describe_action
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
    unit = next((result.result.summary.unit for result in results if result.result is not None), None)

    def row(advice: Advice) -> list[StyledText]:
        summary = advice.summary
        saved = "-" if summary.saved is None else amount_text(summary.saved, summary.unit)
        return [
            Text(f"{summary.services:,}"),
            _shares(summary.in_zone, summary.in_zone_reachable),
            Text("-" if summary.worst is None else f"+{summary.worst.max_overload:.0%}"),
            *([] if unit is None else [Text(saved)]),
            Text(describe_action(advice.actions[0]) if advice.actions else "nothing to do"),
        ]

    return _table(("SERVICES", "IN ZONE", "WORST", *(() if unit is None else ("SAVES",)), "FIRST ACTION"), results, row)


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
    """What leaves its zone in a month, and what the best setting of each Service saves."""
    known = next((result.result for result in results if result.result is not None), None)

    def row(report: TrafficReport) -> list[StyledText]:
        numbers, totals = ReportNumbers(report), report.totals
        return [
            Text(f"{totals.services:,}"),
            *map(Text, numbers.cells(totals.now)),
            Text(numbers.value(totals.best.saved)),
            Text(numbers.margin(totals.best.saved), "dim"),
            Text(f"by {counted(totals.best.best, 'Service')}"),
        ]

    amounts = ("CROSS",) if known is None else ReportNumbers(known).columns
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
