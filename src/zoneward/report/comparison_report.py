"""A comparison of all approaches for each Service: as a table, as JSON and as CSV."""

import csv
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

import msgspec
from rich.console import Group, RenderableType

from zoneward.kube.safe_text import safe_csv_cell
from zoneward.report.plan_json import JsonView, round_share
from zoneward.report.plan_table import CLUSTER_WIDE, short_reason
from zoneward.report.terminal_text import StyledText, Text, align_columns, join_wrapped
from zoneward.routing.request.what_if import NO_APPROACH
from zoneward.slices.comparison import ComparedApproach, ServiceComparison

_COLUMNS = ("SERVICE", "APPROACH", "IN ZONE", "WORST", "MEAN", "SLICES", "CHANGES", "SCORE", "")
_RIGHT = ("IN ZONE", "WORST", "LOAD", "MEAN", "SLICES", "SCORE")
_LOAD_COLUMN = _COLUMNS.index("MEAN")
"""Before this column stands LOAD, where options change the input."""
_BEST = "best: the highest score, of equal ones the one with the fewest changes."
_TODAY = "today"


class CandidateView(JsonView, frozen=True, gc=False):
    """One approach for one Service. The shares, overloads and the score are null where nothing can be predicted.

    ``load_change`` is null where no option changes the input.
    """

    approach: str
    active: bool
    reason: str
    reason_code: str
    in_zone_traffic: float | None
    max_overload: float | None
    mean_overload: float | None
    moved: int
    slices: int
    create: int
    update: int
    delete: int
    score: float | None
    load_change: float | None


class ComparisonView(JsonView, frozen=True, gc=False):
    """All approaches for one Service in one address family. ``today`` is what its own settings choose."""

    namespace: str
    service: str
    address_type: str
    endpoints: int
    asks_for: str
    today: CandidateView
    best: str | None
    approaches: tuple[CandidateView, ...]


class TotalView(JsonView, frozen=True, gc=False):
    """One approach for all Services together.

    Shares, overloads and the score are means over the endpoints of all Services whose traffic can be predicted; where
    an approach is not active they are those of cluster-wide. The worst overload is the worst of any.
    """

    approach: str
    active: int
    best: int
    in_zone_traffic: float | None
    max_overload: float | None
    mean_overload: float | None
    slices: int
    changes: int
    score: float | None


def comparison_document(comparisons: Sequence[ServiceComparison]) -> dict[str, Any]:
    """``{"services": [...], "total": [...]}``."""
    return {"services": [_comparison_view(each) for each in comparisons], "total": totals(comparisons)}


_SERVICE_FIELDS = ("namespace", "service", "addressType", "endpoints", "asksFor")


def comparison_csv(comparisons: Iterable[ServiceComparison]) -> str:
    """A line for each Service, address family and approach."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    fields = [*_SERVICE_FIELDS, *CandidateView.__struct_encode_fields__, "best"]
    writer.writerow(fields)
    for each in comparisons:
        view = _comparison_view(each)
        service = [getattr(view, name) for name in ("namespace", "service", "address_type", "endpoints", "asks_for")]
        for candidate in view.approaches:
            values = msgspec.structs.astuple(candidate)
            cells = [*service, *map(_csv_cell, values), _csv_cell(candidate.approach == view.best)]
            writer.writerow(map(safe_csv_cell, cells))
    return text.getvalue()


def totals(comparisons: Sequence[ServiceComparison]) -> list[TotalView]:
    """The total of each approach over all Services, and first that of today's settings."""
    if not comparisons:
        return []
    rows = [_total(_TODAY, [each.today for each in comparisons], 0)]
    for number, candidate in enumerate(comparisons[0].candidates):
        best = sum(1 for each in comparisons if each.best is each.candidates[number])
        rows.append(_total(candidate.approach, [each.candidates[number] for each in comparisons], best))
    return rows


def _total(approach: str, candidates: Sequence[ComparedApproach], best: int) -> TotalView:
    known = [
        (each.decision.endpoints, each.traffic, each.score)
        for each in candidates
        if each.decision.endpoints and each.traffic is not None and each.score is not None
    ]
    return TotalView(
        approach=approach,
        active=sum(1 for each in candidates if each.decision.active),
        best=best,
        in_zone_traffic=_mean((each, traffic.in_zone) for each, traffic, _ in known) if known else None,
        max_overload=round_share(max(traffic.max_overload for _, traffic, _ in known)) if known else None,
        mean_overload=_mean((each, traffic.mean_overload) for each, traffic, _ in known) if known else None,
        slices=sum(each.slices for each in candidates),
        changes=sum(each.writes for each in candidates),
        score=_mean((each, value) for each, _, value in known) if known else None,
    )


def _mean(values: Iterable[tuple[int, float]]) -> float:
    values = list(values)
    return round_share(sum(weight * value for weight, value in values) / sum(weight for weight, _ in values))


def _comparison_view(comparison: ServiceComparison) -> ComparisonView:
    meta = comparison.service.metadata
    today = comparison.today.decision
    return ComparisonView(
        namespace=meta.namespace,
        service=meta.name,
        address_type=comparison.address_type,
        endpoints=today.endpoints,
        asks_for=today.heuristic or NO_APPROACH,
        today=_candidate_view(comparison.today),
        best=comparison.best.approach if comparison.best else None,
        approaches=tuple(map(_candidate_view, comparison.candidates)),
    )


def _candidate_view(candidate: ComparedApproach) -> CandidateView:
    decision, traffic = candidate.decision, candidate.traffic
    return CandidateView(
        approach=candidate.approach or (decision.heuristic or NO_APPROACH),
        active=decision.active,
        reason=decision.message,
        reason_code=decision.reason,
        in_zone_traffic=round_share(traffic.in_zone) if traffic else None,
        max_overload=round_share(traffic.max_overload) if traffic else None,
        mean_overload=round_share(traffic.mean_overload) if traffic else None,
        moved=decision.moved,
        slices=candidate.slices,
        create=candidate.created,
        update=candidate.updated,
        delete=candidate.deleted,
        score=None if candidate.score is None else round_share(candidate.score),
        load_change=None if candidate.load_change is None else round_share(candidate.load_change),
    )


def _csv_cell(value: object) -> object:
    """What a spreadsheet reads: nothing for null, true and false in small letters."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else value


# --- the table --------------------------------------------------------------------------------------------------------


def comparison_table(
    comparisons: Sequence[ServiceComparison], *, width: int, is_changed: bool = False
) -> RenderableType:
    """Some lines for each Service: one for each approach that would be active, and one for those that would not.

    ``is_changed``: options change the input, and loads are shown against those before.
    """
    rows = [row for comparison in comparisons for row in _table_rows(comparison)]
    rows.extend(_total_rows(comparisons))
    columns = list(_COLUMNS)
    if is_changed:
        columns.insert(_LOAD_COLUMN, "LOAD")
    else:
        rows = [row[:_LOAD_COLUMN] + row[_LOAD_COLUMN + 1 :] for row in rows]
    table = align_columns(columns, rows, right=_RIGHT, width=width)
    loads = "LOAD: the busiest endpoint's load against the busiest one's before the change of the cluster."
    legend = join_wrapped(
        (
            *((loads,) if is_changed else ()),
            f"{_BEST}  today: what the Service asks for.",
            "SCORE: KEP-2004's, of 100.  CHANGES: slices +new ~changed -deleted, from today's.",
            "TOTAL: means over all endpoints; an approach that is not active counts as cluster-wide.",
            "More: -o json (reasons, moved endpoints), -o csv, --only, --sort gain.",
        ),
        "dim",
    )
    return Group(table, legend)


def _table_rows(comparison: ServiceComparison) -> list[list[StyledText]]:
    meta = comparison.service.metadata
    name = f"{meta.namespace}/{meta.name}"
    if comparison.address_type != "IPv4":
        name += f" {comparison.address_type[-1]}"
    best, asked = comparison.best, comparison.today.decision.heuristic or NO_APPROACH
    rows = []
    idle = []
    for candidate in comparison.candidates:
        marks = (candidate is best, candidate.approach == asked)
        if candidate.decision.active or candidate.approach == NO_APPROACH:
            rows.append([Text(), *_cells(candidate, bold=candidate is best), _note(*marks)])
        else:
            idle.append(candidate)
    if idle:
        zones = len(idle[0].traffic.zones) if idle[0].traffic else 0
        note: StyledText = Text(short_reason(idle[0].decision, zones=zones), "dim")
        if any(candidate.approach == asked for candidate in idle):
            note = Text.assemble(("today", "green"), ": ", note)
        what = idle[0].approach if len(idle) == 1 else f"{len(idle)} others"
        rows.append([Text(), Text(what, "dim"), *(Text() for _ in range(len(_COLUMNS) - 2)), note])
    rows[0][0] = Text(name)
    return rows


def _cells(candidate: ComparedApproach, *, bold: bool) -> list[StyledText]:
    traffic = candidate.traffic
    counts = (("+", candidate.created), ("~", candidate.updated), ("-", candidate.deleted))
    style = "bold" if bold else ""
    return [
        Text(CLUSTER_WIDE if candidate.approach == NO_APPROACH else candidate.approach, style),
        _percent(traffic.in_zone if traffic else None),
        _percent(traffic.max_overload if traffic else None, plus=True),
        _percent(candidate.load_change, plus=True),
        _percent(traffic.mean_overload if traffic else None),
        Text(str(candidate.slices)),
        Text(" ".join(f"{sign}{number}" for sign, number in counts if number)),
        _score(candidate.score, style),
    ]


def _note(is_best: bool, is_today: bool) -> Text:
    return Text(", ".join(word for word, applies in (("best", is_best), ("today", is_today)) if applies), "green")


def _total_rows(comparisons: Sequence[ServiceComparison]) -> list[list[StyledText]]:
    rows = []
    found = totals(comparisons)
    top = max((row.score for row in found[1:] if row.score is not None), default=None)
    for row in found:
        best = row.approach != _TODAY and row.score is not None and row.score == top
        style = "bold" if best else ""
        rows.append(
            [
                Text(),
                Text(CLUSTER_WIDE if row.approach == NO_APPROACH else row.approach, style),
                _percent(row.in_zone_traffic),
                _percent(row.max_overload, plus=True),
                Text(),
                _percent(row.mean_overload),
                Text(str(row.slices)),
                Text(str(row.changes)),
                _score(row.score, style),
                Text.assemble(("best", "green"), f" for {row.best}") if best else Text(f"for {row.best}", "dim"),
            ]
        )
    if rows:
        rows[0][0] = Text("TOTAL", "bold")
        rows[0][-1] = Text()
    return rows


def _score(score: float | None, style: str) -> Text:
    return Text("-", "dim") if score is None else Text(f"{score:.1f}", style)


def _percent(share: float | None, *, plus: bool = False) -> Text:
    if share is None:
        return Text("-", "dim")
    # `+ 0.0` turns the -0.0 of a tiny decrease into 0.0.
    return Text(f"{round(share, 2) + 0.0:{'+' if plus else ''}.0%}")
