"""A comparison of all approaches for each Service: as a table, as JSON and as CSV."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from io import StringIO
from typing import Any, Final, TypeVar

import msgspec

from zoneward.advice.dropped_traffic import format_dropped
from zoneward.advice.json_value import JsonValue, round_if_any, round_share
from zoneward.advice.recommendations import ClusterAbilities, InForce, Recommendation, familiarity
from zoneward.kube.safe_text import safe_csv_cell
from zoneward.report.plan_table import CLUSTER_WIDE, short_reason
from zoneward.report.table_parts import TableParts
from zoneward.report.terminal_text import StyledText, Text, join_wrapped, whole_percent
from zoneward.routing.request.what_if import NO_APPROACH
from zoneward.routing.rules import counted
from zoneward.slices.comparison import ComparedApproach, ServiceComparison, TrafficNumbers

_COLUMNS: Final = ("SERVICE", "APPROACH", "IN ZONE", "WORST", "LOAD", "MEAN", "SLICES", "CHANGES", "SCORE", "")
_RIGHT: Final = ("IN ZONE", "WORST", "LOAD", "MEAN", "SLICES", "SCORE")
_LOAD: Final = _COLUMNS.index("LOAD")
"""This column is shown where options change the input."""
_Row = tuple[StyledText, ...]
NOW, TODAY, BEST_OF_EACH = "now", "today", "best"
"""The totals that are no approach: what is in force, what Services ask for, and the best for each of them."""


class CandidateView(JsonValue, frozen=True, gc=False):
    """One approach for one Service. The shares, overloads and the score are null where nothing can be predicted.

    ``dropped_traffic`` is the share of all traffic that no endpoint takes; where that is any, there is no score.
    ``load_change`` is null where no option changes the input.
    ``needs`` is what the cluster lacks for it: ``controller``, ``proxy`` or a version of Kubernetes.
    """

    approach: str
    active: bool
    reason: str
    reason_code: str
    in_zone_traffic: float | None
    max_overload: float | None
    mean_overload: float | None
    dropped_traffic: float | None
    moved: int
    slices: int
    create: int
    update: int
    delete: int
    score: float | None
    load_change: float | None
    needs: str | None


class NowView(JsonValue, frozen=True, gc=False):
    """What the slices of one Service do now, through the proxies on the nodes."""

    in_zone_traffic: float | None
    max_overload: float | None
    mean_overload: float | None
    dropped_traffic: float | None
    slices: int
    score: float | None


class ComparisonView(JsonValue, frozen=True, gc=False):
    """All approaches for one Service in one address family. ``today`` is what its own settings choose.

    ``best`` is the best approach that the cluster can apply as it is, ``better`` the best with Zoneward's controller
    where that is another one. ``now`` is null without slices.
    """

    namespace: str
    service: str
    address_type: str
    endpoints: int
    asks_for: str
    now: NowView | None
    today: CandidateView
    best: str | None
    better: str | None
    approaches: tuple[CandidateView, ...]


class TotalView(JsonValue, frozen=True, gc=False):
    """One approach for all Services together.

    Shares, overloads and the score are means over the endpoints of all Services whose traffic can be predicted and is
    not dropped; where an approach is not active they are those of cluster-wide. The worst overload is the worst of any.
    ``best`` and ``better`` count the Services that it is best for, ``drops`` those of which it drops traffic.
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
    better: int = 0
    drops: int = 0
    needs: str | None = None


# --- totals -----------------------------------------------------------------------------------------------------------


class _Sum:
    """What one total has added up so far."""

    __slots__ = (
        *("active", "best", "better", "changes", "drops", "endpoints"),
        *("in_zone", "mean", "score", "slices", "worst"),
    )

    def __init__(self) -> None:
        self.active = self.best = self.better = self.drops = self.slices = self.changes = self.endpoints = 0
        self.in_zone = self.worst = self.mean = self.score = 0.0

    def add(self, endpoints: int, traffic: TrafficNumbers | None, score: float | None, slices: int) -> None:
        self.slices += slices
        self.drops += traffic is not None and traffic.dropped > 0
        if endpoints and traffic is not None and traffic.in_zone is not None and score is not None:
            self.endpoints += endpoints
            self.in_zone += endpoints * traffic.in_zone
            self.mean += endpoints * traffic.mean_overload
            self.score += endpoints * score
            self.worst = max(self.worst, traffic.max_overload)

    def add_approach(self, each: ComparedApproach) -> None:
        self.add(each.endpoints, each.traffic, each.score, each.slices)
        self.active += each.active
        self.changes += each.writes

    def view(self, approach: str, needs: str | None = None) -> TotalView:
        number = self.endpoints
        return TotalView(
            approach=approach,
            active=self.active,
            best=self.best,
            in_zone_traffic=round_share(self.in_zone / number) if number else None,
            max_overload=round_share(self.worst) if number else None,
            mean_overload=round_share(self.mean / number) if number else None,
            slices=self.slices,
            changes=self.changes,
            score=round_share(self.score / number) if number else None,
            better=self.better,
            drops=self.drops,
            needs=needs,
        )


class Totals:
    """The totals of all Services, added up one by one: only these numbers are kept."""

    def __init__(self) -> None:
        self.services = 0
        self._now = _Sum()
        self._today = _Sum()
        self._best = _Sum()
        self._approaches: dict[str, _Sum] = {}
        self._has_now = False

    def counted(self, found: Iterable[Recommendation]) -> Iterator[Recommendation]:
        """Pass on what is found, and add it up."""
        for each in found:
            self.add(each.comparison, now=each.now, best=each.best, better=each.better)
            yield each

    def add(
        self,
        comparison: ServiceComparison,
        *,
        now: InForce | None = None,
        best: str | None = None,
        better: str | None = None,
    ) -> None:
        """Add one Service, in one address family."""
        self.services += 1
        today = chosen = comparison.requested
        if now is not None:
            self._has_now = True
            self._now.add(today.endpoints, now.traffic, now.score, now.slices)
        self._today.add_approach(today)
        for each in comparison.candidates:
            total = self._approaches.setdefault(each.approach, _Sum())
            total.add_approach(each)
            if each.approach == best:
                total.best += 1
                chosen = each
            total.better += each.approach == better
        self._best.add_approach(chosen)

    @property
    def now(self) -> TotalView | None:
        """What is in force, for Services with slices."""
        return self._now.view(NOW) if self._has_now else None

    @property
    def best(self) -> TotalView | None:
        """The best for each Service; what it asks for where there is none."""
        return self._best.view(BEST_OF_EACH) if self.services else None

    def views(self, abilities: ClusterAbilities | None = None) -> list[TotalView]:
        """What the Services ask for, and then each approach, with what it needs where ``abilities`` are known."""
        if not self.services:
            return []
        approaches = [
            total.view(name, abilities.missing_for(name) if abilities else None)
            for name, total in self._approaches.items()
        ]
        return [self._today.view(TODAY), *approaches]


# --- JSON and CSV -----------------------------------------------------------------------------------------------------


def comparison_document(
    comparisons: Iterable[Recommendation], totals: Totals, abilities: ClusterAbilities, *, proxies: Mapping[str, int]
) -> dict[str, Any]:
    """``{"services": [...], "total": [...], "now": {...}, "best": {...}, "proxies": {...}}``."""
    return {
        "services": [_comparison_view(each, abilities) for each in comparisons],
        "total": totals.views(abilities),
        "now": totals.now,
        "best": totals.best,
        "proxies": proxies,
    }


_SERVICE_FIELDS: Final = ("namespace", "service", "addressType", "endpoints", "asksFor")
_NOW_FIELDS: Final = (
    *("nowInZoneTraffic", "nowMaxOverload", "nowMeanOverload", "nowDroppedTraffic"),
    *("nowSlices", "nowScore"),
)


def csv_lines(comparisons: Iterable[Recommendation], abilities: ClusterAbilities) -> Iterator[str]:
    """A heading, and then the lines of one Service and address family at a time: one for each approach."""
    *fields, needs = CandidateView.__struct_encode_fields__
    yield csv_text([[*_SERVICE_FIELDS, *fields, "best", "better", needs, *_NOW_FIELDS]])
    for each in comparisons:
        view = _comparison_view(each, abilities)
        service = [getattr(view, name) for name in ("namespace", "service", "address_type", "endpoints", "asks_for")]
        now = msgspec.structs.astuple(view.now) if view.now is not None else (None,) * len(_NOW_FIELDS)
        lines = []
        for candidate in view.approaches:
            *values, missing = msgspec.structs.astuple(candidate)
            marks = (candidate.approach == view.best, candidate.approach == view.better)
            lines.append([*service, *map(csv_cell, (*values, *marks, missing, *now))])
        yield csv_text([list(map(safe_csv_cell, line)) for line in lines])


def csv_text(lines: Iterable[Sequence[object]]) -> str:
    """Lines of CSV."""
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _comparison_view(found: Recommendation, abilities: ClusterAbilities) -> ComparisonView:
    comparison = found.comparison
    today = comparison.requested
    return ComparisonView(
        namespace=comparison.namespace,
        service=comparison.service,
        address_type=comparison.address_type,
        endpoints=today.endpoints,
        asks_for=today.heuristic or NO_APPROACH,
        now=_now_view(found.now),
        today=_candidate_view(today, abilities),
        best=found.best,
        better=found.better,
        approaches=tuple(_candidate_view(each, abilities) for each in comparison.candidates),
    )


def _now_view(now: InForce | None) -> NowView | None:
    if now is None:
        return None
    return NowView(*_traffic_numbers(now.traffic), now.slices, round_if_any(now.score))


def _candidate_view(candidate: ComparedApproach, abilities: ClusterAbilities) -> CandidateView:
    in_zone, max_overload, mean_overload, dropped = _traffic_numbers(candidate.traffic)
    approach = candidate.approach or candidate.heuristic or NO_APPROACH
    return CandidateView(
        approach=approach,
        active=candidate.active,
        reason=candidate.message,
        reason_code=candidate.reason,
        in_zone_traffic=in_zone,
        max_overload=max_overload,
        mean_overload=mean_overload,
        dropped_traffic=dropped,
        moved=candidate.moved,
        slices=candidate.slices,
        create=candidate.created,
        update=candidate.updated,
        delete=candidate.deleted,
        score=round_if_any(candidate.score),
        load_change=round_if_any(candidate.load_change),
        needs=abilities.missing_for(approach),
    )


def _traffic_numbers(traffic: TrafficNumbers | None) -> tuple[float | None, float | None, float | None, float | None]:
    if traffic is None:
        return None, None, None, None
    overloads = round_share(traffic.max_overload), round_share(traffic.mean_overload)
    return round_if_any(traffic.in_zone), *overloads, round_share(traffic.dropped)


def csv_cell(value: object) -> object:
    """What a spreadsheet reads: nothing for null, true and false in small letters."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else value


# --- the table --------------------------------------------------------------------------------------------------------


def comparison_parts(
    comparisons: Iterable[Recommendation],
    totals: Totals,
    abilities: ClusterAbilities,
    *,
    proxies: Mapping[str, int],
    is_changed: bool = False,
) -> TableParts:
    """Totals, and then some lines for each of the ``comparisons``: what is in force, each approach that would be
    active, and one for those that would not.

    ``proxies`` counts the nodes by their kind of proxy. ``is_changed``: options change the input, and loads are shown
    against those before. The ``totals`` are read when all ``comparisons`` have come, which may be what adds them up.
    """
    rows: list[_Row] = []
    number = 0
    for each in comparisons:
        number += 1
        rows.extend(_service_rows(each, abilities))
    rows = [*_total_rows(totals, abilities), *rows]
    columns: tuple[str, ...] = _COLUMNS
    if not is_changed:
        columns = _without_load(columns)
        # Alike rows stay one row.
        shorter = {key: _without_load(row) for key, row in {id(row): row for row in rows}.items()}
        rows = [shorter[id(row)] for row in rows]
    kinds = ", ".join(f"{title} on {counted(number, 'node')}" for title, number in proxies.items()) or "unknown"
    legend = [
        "now: what the slices in the cluster do.  asked for: what the Service asks for.",
        "best: the highest score of those that overload no pod.  better: with Zoneward's controller.",
        "SCORE: KEP-2004's, of 100.  CHANGES: slices +new ~changed -deleted, from those of now.",
        "TOTAL: means over all endpoints; an approach that is not active counts as cluster-wide.",
        "More: -o json (reasons, moved endpoints), -o csv, --only, --sort gain.",
    ]
    if is_changed:
        legend.insert(
            0, "LOAD: the busiest endpoint's load against the busiest one's before the change of the cluster."
        )
    drops = next((total.drops for total in totals.views()), 0)
    if drops:
        what = "drops traffic: it has no score and is" if drops == 1 else "drop traffic: they have no score and are"
        legend.insert(0, f"{counted(drops, 'Service')} {what} in no mean (zoneward check says why).")
    if totals.services and all(total.in_zone_traffic is None for total in totals.views()):
        legend.insert(0, "IN ZONE is unknown: no node or no endpoint has a zone (zoneward check says more).")
    if number < totals.services:
        legend.insert(0, f"{number} of {totals.services:,} Services are shown; --top 0 shows all.")
    return TableParts(
        above=(join_wrapped([f"Proxies: {kinds}"]),),
        columns=columns,
        rows=rows,
        right=_RIGHT,
        below=join_wrapped(legend, "dim"),
        is_grouped=True,
    )


_T = TypeVar("_T")


def _without_load(row: tuple[_T, ...]) -> tuple[_T, ...]:
    return (*row[:_LOAD], *row[_LOAD + 1 :])


def _service_rows(found: Recommendation, abilities: ClusterAbilities) -> list[_Row]:
    comparison = found.comparison
    name = f"{comparison.namespace}/{comparison.service}"
    if comparison.address_type != "IPv4":
        name += f" {comparison.address_type[-1]}"
    asked = comparison.requested.heuristic or NO_APPROACH
    rows: list[_Row] = []
    if found.now is not None:
        now = found.now
        cells = _cells(NOW, *_shares(now.traffic), slices=now.slices, changes="", score=now.score)
        rows.append((_text(), *cells, _note(needs=None, dropped=_dropped(now.traffic))))
    idle = []
    # No setting changes what is dropped.
    dropped = _dropped(comparison.requested.traffic)
    for each in comparison.candidates:
        approach = each.approach
        if not (each.active or approach == NO_APPROACH):
            idle.append(each)
            continue
        rows.append(
            _candidate_row(
                abilities.name_of(approach),
                *_shares(each.traffic),
                each.slices,
                (each.created, each.updated, each.deleted),
                each.score,
                each.load_change,
                (approach == found.best, approach == found.better, approach == asked),
                abilities.missing_for(approach),
                dropped,
            )
        )
        dropped = 0.0
    if idle:
        what = abilities.name_of(idle[0].approach) if len(idle) == 1 else f"{len(idle)} others"
        rows.append(_idle_row(what, _short_reason(idle[0]), asked=any(each.approach == asked for each in idle)))
    rows[0] = (Text(name), *rows[0][1:])
    return rows


@lru_cache(maxsize=1 << 16)
def _candidate_row(
    approach: str,
    in_zone: float | None,
    worst: float | None,
    mean: float | None,
    slices: int,
    changes: tuple[int, int, int],
    score: float | None,
    load_change: float | None,
    marks: tuple[bool, bool, bool],
    needs: str | None,
    dropped: float,
) -> _Row:
    """Of a hundred thousand rows most are alike."""
    is_best, is_better, is_asked = marks
    cells = _cells(
        approach,
        in_zone,
        worst,
        mean,
        slices=slices,
        changes=" ".join(f"{sign}{number}" for sign, number in zip("+~-", changes, strict=True) if number),
        score=score,
        load_change=load_change,
        bold=is_best,
    )
    note = _note(("best", is_best), ("better", is_better), ("asked for", is_asked), needs=needs, dropped=dropped)
    return (_text(), *cells, note)


@lru_cache(maxsize=1 << 14)
def _idle_row(what: str, reason: str, *, asked: bool) -> _Row:
    text = _text(reason, "dim")
    if asked:
        text = Text("asked for", "green").append(": ", "default").append(text)
    return (_text(), _text(what, "dim"), *(_text() for _ in _COLUMNS[2:-1]), text)


def _short_reason(candidate: ComparedApproach) -> str:
    zones = candidate.traffic.zones if candidate.traffic else 0
    return short_reason(candidate.reason, candidate.message, endpoints=candidate.endpoints, zones=zones)


_Shares = tuple[float | None, float | None, float | None]
"""The traffic in its zone, the worst and the mean overload."""


def _shares(traffic: TrafficNumbers | TotalView | None) -> _Shares:
    if traffic is None or (isinstance(traffic, TrafficNumbers) and traffic.dropped == 1):
        return None, None, None
    in_zone = traffic.in_zone_traffic if isinstance(traffic, TotalView) else traffic.in_zone
    return in_zone, traffic.max_overload, traffic.mean_overload


def _dropped(traffic: TrafficNumbers | None) -> float:
    return traffic.dropped if traffic is not None else 0.0


def _cells(
    approach: str,
    in_zone: float | None,
    worst: float | None,
    mean: float | None,
    *,
    slices: int,
    changes: str,
    score: float | None,
    load_change: float | None = None,
    bold: bool = False,
) -> list[StyledText]:
    style = "bold" if bold else ""
    return [
        _text(CLUSTER_WIDE if approach == NO_APPROACH else approach, style),
        _percent(in_zone),
        _percent(worst, plus=True),
        _text() if load_change is None else _percent(load_change, plus=True),
        _percent(mean),
        _text(str(slices)),
        _text(changes),
        _text("-", "dim") if score is None else _text(f"{score:.1f}", style),
    ]


@lru_cache(maxsize=4096)
def _text(text: str = "", style: str = "") -> Text:
    """A cell: of a million cells nearly all are alike."""
    return Text(text, style)


@lru_cache(maxsize=4096)
def _note(*marks: tuple[str, bool], needs: str | None, dropped: float = 0.0) -> Text:
    """What is to be known of a row, the worst first."""
    words = ", ".join(word for word, applies in marks if applies)
    needed = f"needs {needs}" if needs is not None and not dict(marks).get("better") else ""
    parts = ((f"drops {format_dropped(dropped)}" if dropped else "", "red"), (words, "green"), (needed, "dim"))
    shown = [part for part in parts if part[0]]
    note = Text(shown[0][0], shown[0][1]) if shown else Text()
    for text, style in shown[1:]:
        note.append(", ", "default").append(text, style)
    return note


def _total_rows(totals: Totals, abilities: ClusterAbilities) -> list[_Row]:
    found = totals.views(abilities)
    if not found:
        return []
    usable = [row for row in found[1:] if row.score is not None and row.needs is None]
    top = max(usable, key=lambda row: (round(row.score or 0.0, 1), familiarity(row.approach)), default=None)
    rows: list[_Row] = []
    for row in (totals.now, found[0], totals.best, *found[1:]):
        if row is None:
            continue
        title = {TODAY: "asked for", BEST_OF_EACH: "best of each"}.get(row.approach, abilities.name_of(row.approach))
        changes = "" if row.approach == NOW else str(row.changes)
        cells = _cells(title, *_shares(row), slices=row.slices, changes=changes, score=row.score, bold=row is top)
        note = Text()
        if row in found[1:]:
            note = _total_note(row, is_top=row is top)
        rows.append((Text(), *cells, note))
    rows[0] = (Text("TOTAL", "bold"), *rows[0][1:])
    return rows


def _total_note(row: TotalView, *, is_top: bool) -> Text:
    if row.needs is not None:
        better = f"better for {row.better}, " if row.better else ""
        return Text(f"{better}needs {row.needs}", "dim")
    return Text("best", "green").append(f" for {row.best}", "default") if is_top else Text(f"for {row.best}", "dim")


def _percent(share: float | None, *, plus: bool = False) -> Text:
    if share is None:
        return _text("-", "dim")
    return _text(whole_percent(share, plus=plus))
