"""Comparisons as a table, as JSON and as CSV."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

import msgspec
from rich.console import Group, RenderableType

from zoneward.kube.safe_text import safe_csv_cell
from zoneward.report.tables import aligned, in_short
from zoneward.report.text import AnyText, Text, as_they_come
from zoneward.routing.request.approach import NO_APPROACH
from zoneward.slices.comparison import Candidate, Comparison

_COLUMNS = ("SERVICE", "APPROACH", "IN ZONE", "WORST", "MEAN", "SLICES", "CHANGES", "SCORE", "")
_RIGHT = ("IN ZONE", "WORST", "MEAN", "SLICES", "SCORE")
_CLUSTER_WIDE = "cluster-wide"
_BEST = "best: the highest score, of equal ones the one with the fewest changes."
_TODAY = "today"


class _View(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A part of the document; names are camel case there."""


class CandidateView(_View, frozen=True, gc=False):
    """One approach for one Service. The shares, overloads and the score are null where nothing can be predicted."""

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


class ComparisonView(_View, frozen=True, gc=False):
    """All approaches for one Service in one address family. ``today`` is what its own settings come to."""

    namespace: str
    service: str
    address_type: str
    endpoints: int
    asks_for: str
    today: CandidateView
    best: str | None
    approaches: tuple[CandidateView, ...]


class TotalView(_View, frozen=True, gc=False):
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


@dataclass(frozen=True, slots=True)
class _Numbers:
    endpoints: int
    candidate: Candidate


def comparison_document(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """``{"services": [...], "total": [...]}``."""
    return {"services": [_view(each) for each in comparisons], "total": totals(comparisons)}


_SERVICE_FIELDS = ("namespace", "service", "addressType", "endpoints", "asksFor")


def comparison_csv(comparisons: Iterable[Comparison]) -> str:
    """A line for each Service, address family and approach."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    fields = [*_SERVICE_FIELDS, *CandidateView.__struct_encode_fields__, "best"]
    writer.writerow(fields)
    for each in comparisons:
        view = _view(each)
        service = [getattr(view, name) for name in ("namespace", "service", "address_type", "endpoints", "asks_for")]
        for candidate in view.approaches:
            values = msgspec.structs.astuple(candidate)
            cells = [*service, *map(_cell, values), _cell(candidate.approach == view.best)]
            writer.writerow(map(safe_csv_cell, cells))
    return text.getvalue()


def totals(comparisons: Sequence[Comparison]) -> list[TotalView]:
    """The total of each approach over all Services, and first that of today's settings."""
    if not comparisons:
        return []
    rows = [_total(_TODAY, [_Numbers(each.today.decision.endpoints, each.today) for each in comparisons], 0)]
    for number, candidate in enumerate(comparisons[0].candidates):
        numbers = [
            _Numbers(each.candidates[number].decision.endpoints, each.candidates[number]) for each in comparisons
        ]
        best = sum(1 for each in comparisons if each.best is each.candidates[number])
        rows.append(_total(candidate.approach, numbers, best))
    return rows


def _total(approach: str, numbers: Sequence[_Numbers], best: int) -> TotalView:
    known = [
        (each.endpoints, each.candidate.traffic, each.candidate.score)
        for each in numbers
        if each.endpoints and each.candidate.traffic is not None and each.candidate.score is not None
    ]
    weight = sum(endpoints for endpoints, _, _ in known)
    candidates = [each.candidate for each in numbers]
    return TotalView(
        approach=approach,
        active=sum(1 for each in candidates if each.decision.active),
        best=best,
        in_zone_traffic=_mean((each, traffic.in_zone) for each, traffic, _ in known) if weight else None,
        max_overload=_rounded(max(traffic.max_overload for _, traffic, _ in known)) if known else None,
        mean_overload=_mean((each, traffic.mean_overload) for each, traffic, _ in known) if weight else None,
        slices=sum(each.slices for each in candidates),
        changes=sum(each.writes for each in candidates),
        score=_mean((each, value) for each, _, value in known) if weight else None,
    )


def _mean(values: Iterable[tuple[int, float]]) -> float:
    values = list(values)
    return _rounded(sum(weight * value for weight, value in values) / sum(weight for weight, _ in values))


def _view(comparison: Comparison) -> ComparisonView:
    meta = comparison.service.metadata
    today = comparison.today.decision
    return ComparisonView(
        namespace=meta.namespace,
        service=meta.name,
        address_type=comparison.address_type,
        endpoints=today.endpoints,
        asks_for=today.heuristic or NO_APPROACH,
        today=_candidate(comparison.today),
        best=comparison.best.approach if comparison.best else None,
        approaches=tuple(map(_candidate, comparison.candidates)),
    )


def _candidate(candidate: Candidate) -> CandidateView:
    decision, traffic = candidate.decision, candidate.traffic
    return CandidateView(
        approach=candidate.approach or (decision.heuristic or NO_APPROACH),
        active=decision.active,
        reason=decision.message,
        reason_code=decision.reason,
        in_zone_traffic=_rounded(traffic.in_zone) if traffic else None,
        max_overload=_rounded(traffic.max_overload) if traffic else None,
        mean_overload=_rounded(traffic.mean_overload) if traffic else None,
        moved=decision.moved,
        slices=candidate.slices,
        create=candidate.created,
        update=candidate.updated,
        delete=candidate.deleted,
        score=None if candidate.score is None else _rounded(candidate.score),
    )


def _rounded(number: float) -> float:
    return round(number, 6) + 0.0


def _cell(value: object) -> object:
    """What a spreadsheet reads: nothing for null, true and false in small letters."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else value


# --- the table --------------------------------------------------------------------------------------------------------


def comparison_table(comparisons: Sequence[Comparison], *, width: int) -> RenderableType:
    """A block of lines for each Service: its approaches that would be active, and in one line those that would not."""
    rows = [row for comparison in comparisons for row in _block(comparison)]
    table = aligned(_COLUMNS, [*rows, *_total_rows(comparisons)], right=_RIGHT, width=width)
    legend = as_they_come(
        (
            f"{_BEST}  today: what the Service asks for.",
            "SCORE: KEP-2004's, of 100.  CHANGES: slices +new ~changed -deleted, from today's.",
            "TOTAL: means over all endpoints; an approach that is not active counts as cluster-wide.",
            "More: -o json (reasons, moved endpoints), -o csv, --only, --sort gain.",
        ),
        "dim",
    )
    return Group(table, legend)


def _block(comparison: Comparison) -> list[list[AnyText]]:
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
        note: AnyText = Text(in_short(idle[0].decision, zones=zones), "dim")
        if any(candidate.approach == asked for candidate in idle):
            note = Text.assemble(("today", "green"), ": ", note)
        what = idle[0].approach if len(idle) == 1 else f"{len(idle)} others"
        rows.append([Text(), Text(what, "dim"), *(Text() for _ in _COLUMNS[2:-1]), note])
    rows[0][0] = Text(name)
    return rows


def _cells(candidate: Candidate, *, bold: bool) -> list[AnyText]:
    traffic = candidate.traffic
    counts = (("+", candidate.created), ("~", candidate.updated), ("-", candidate.deleted))
    style = "bold" if bold else ""
    return [
        Text(_CLUSTER_WIDE if candidate.approach == NO_APPROACH else candidate.approach, style),
        _percent(traffic.in_zone if traffic else None),
        _percent(traffic.max_overload if traffic else None, plus=True),
        _percent(traffic.mean_overload if traffic else None),
        Text(str(candidate.slices)),
        Text(" ".join(f"{sign}{number}" for sign, number in counts if number)),
        _score(candidate.score, style),
    ]


def _note(is_best: bool, is_today: bool) -> Text:
    return Text(", ".join(word for word, said in (("best", is_best), ("today", is_today)) if said), "green")


def _total_rows(comparisons: Sequence[Comparison]) -> list[list[AnyText]]:
    rows = []
    found = totals(comparisons)
    top = max((row.score for row in found[1:] if row.score is not None), default=None)
    for row in found:
        best = row.approach != _TODAY and row.score is not None and row.score == top
        style = "bold" if best else ""
        rows.append(
            [
                Text(),
                Text(_CLUSTER_WIDE if row.approach == NO_APPROACH else row.approach, style),
                _percent(row.in_zone_traffic),
                _percent(row.max_overload, plus=True),
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
    return Text(f"+{share:.0%}" if plus else f"{share:.0%}")
