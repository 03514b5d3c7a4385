"""A comparison of all approaches for each Service: as a table, as JSON and as CSV."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from io import StringIO
from typing import Any, Final

import msgspec

from zoneward.advice.cluster_abilities import ClusterAbilities, familiarity
from zoneward.advice.comparison import (
    NOW,
    ApproachTotal,
    ComparedApproach,
    ComparisonTotals,
    InForce,
    Recommendation,
    ServiceComparison,
)
from zoneward.advice.dropped_traffic import format_dropped
from zoneward.advice.json_value import round_share
from zoneward.advice.measured_flows import ServiceFamily
from zoneward.kube.safe_text import safe_csv_cell
from zoneward.report.html import Markup, fact
from zoneward.report.plan_table import CLUSTER_WIDE, short_reason
from zoneward.report.table_parts import TableParts, folded
from zoneward.report.terminal_text import (
    SHARE_COLORS,
    StyledText,
    Text,
    join_words,
    join_wrapped,
    share_style,
    whole_percent,
)
from zoneward.routing.phrases import counted
from zoneward.routing.what_if import NO_APPROACH

_COLUMNS: Final = ("SERVICE", "APPROACH", "IN ZONE", "WORST", "LOAD", "MEAN", "SLICES", "CHANGES", "SCORE", "")
_RIGHT: Final = ("IN ZONE", "WORST", "LOAD", "MEAN", "SLICES", "SCORE")
_TOTAL_TITLES: Final = {"today": "asked for", "best": "best of each"}
_Row = tuple[StyledText, ...]


def describe_shown(shown: int, count: int, *, only_changed: bool) -> str:
    """How many Services have a row, and the option that shows all. ``only_changed``: that would not."""
    return f"{shown:,} of {count:,} Services are shown{'' if only_changed else '; --top 0 shows all'}."


# --- JSON and CSV -----------------------------------------------------------------------------------------------------


def comparison_document(
    comparisons: Iterable[Recommendation],
    totals: ComparisonTotals,
    abilities: ClusterAbilities,
    *,
    proxies: Mapping[str, int],
) -> Any:
    """``{"services": [...], "total": [...], "now": {...}, "best": {...}, "proxies": {...}}``."""
    document = {
        "services": [recommendation.comparison for recommendation in comparisons],
        "total": totals.rows(abilities),
        "now": totals.now,
        "best": totals.best,
        "proxies": proxies,
    }
    return rounded(document)


_SERVICE_FIELDS: Final = ("namespace", "service", "addressType", "endpoints", "asksFor")
_NOW_FIELDS: Final = (
    *("nowInZoneTraffic", "nowMaxOverload", "nowMeanOverload", "nowDroppedTraffic"),
    *("nowSlices", "nowScore"),
)


def csv_lines(comparisons: Iterable[Recommendation]) -> Iterator[str]:
    """A heading, and then the lines of one Service and address family at a time: one for each approach."""
    *fields, needs = ComparedApproach.__struct_encode_fields__
    yield csv_text([[*_SERVICE_FIELDS, *fields, "best", "better", needs, *_NOW_FIELDS]])
    for recommendation in comparisons:
        comparison = recommendation.comparison
        service = (
            *(comparison.namespace, comparison.service, comparison.address_type),
            *(comparison.endpoints, comparison.asks_for),
        )
        now = (None,) * len(_NOW_FIELDS) if comparison.now is None else msgspec.structs.astuple(comparison.now)
        lines = []
        for candidate in comparison.approaches:
            *values, missing = msgspec.structs.astuple(candidate)
            marks = (candidate.approach == comparison.best, candidate.approach == comparison.better)
            lines.append([*service, *values, *marks, missing, *now])
        yield csv_text(lines)


def csv_text(lines: Iterable[Sequence[object]]) -> str:
    """Lines of CSV, as spreadsheets read it."""
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows([safe_csv_cell(_cell(value)) for value in line] for line in lines)
    return text.getvalue()


def rounded(value: Any) -> Any:
    """A value as JSON has it, with six digits in its figures and 0.0 for -0.0."""
    return _rounded(msgspec.to_builtins(value))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round_share(value)
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value


def _cell(value: object) -> object:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else _rounded(value)


# --- the table --------------------------------------------------------------------------------------------------------


def comparison_parts(
    comparisons: Iterable[Recommendation],
    totals: ComparisonTotals,
    abilities: ClusterAbilities,
    *,
    proxies: Mapping[str, int],
    is_changed: bool = False,
    only_changed: bool = False,
    has_details: bool = True,
    has_score: bool = True,
    has_slices: bool = True,
    has_colors: bool = False,
    is_page: bool = False,
) -> TableParts:
    """Totals, and then a line for each of the ``comparisons``: now and with the best setting. ``has_details``: instead
    some lines for each: what is in force, each approach that would be active, and one for those that would not.

    ``has_slices``: with the columns about slices, which say nothing where Kubernetes writes them. ``proxies``
    counts the nodes by their kind of proxy. ``is_changed``: options change the input, and loads are shown against
    those before. ``only_changed``: ``--changed`` leaves some Services out. ``has_colors``: the legend explains
    them. ``is_page``: all settings are folded in each row. It reads the ``totals`` after all ``comparisons``, whose
    iteration may add them up.
    """
    has_slices = has_slices and has_details
    cells = _Cells(is_changed=is_changed, has_score=has_score, has_details=has_details, has_slices=has_slices)
    service_rows: list[_Row] = []
    details: list[Markup | None] = []
    shown = set()
    for recommendation in comparisons:
        shown.add(recommendation.comparison.key[:2])
        if has_details:
            service_rows.extend(_service_rows(recommendation, abilities, cells))
        else:
            service_rows.append(_service_row(recommendation, abilities, cells))
            if is_page:
                details.append(folded("all settings", _describe_settings(recommendation.comparison, abilities)))
    total_rows = totals.rows(abilities)
    kinds = ", ".join(f"{title} on {counted(count, 'node')}" for title, count in proxies.items()) or "unknown"
    more = ", ".join(option for option, is_used in (("--details", has_details), ("--score", has_score)) if not is_used)
    scale = "SCORE: KEP-2004's, at most 100.  " if has_score else ""
    changes = "CHANGES: slices +new ~changed -deleted, from those of now." if has_slices else ""
    beside = "better: with Zoneward's controller." if has_details else "34%>97%: now, and with the best."
    without = 0 if totals.now is None else totals.without_slices
    missing = f", or, for {counted(without, 'Service')} without slices, what is asked for" if without else ""
    legend = [
        f"now: what the slices in the cluster do{missing}.  asked for: what the Service asks for.",
        f"best: the highest score of those that overload no pod.  {beside}",
        *([f"{scale}{changes}"] if scale or changes else []),
        "TOTAL: means over all endpoints; an approach that is not active counts as cluster-wide.",
        f"More: {more}{', ' if more else ''}-o json (reasons, moved endpoints), -o csv, --only, --sort gain.",
    ]
    if has_colors:
        legend.insert(0, f"Colours: {SHARE_COLORS}.")
    if is_changed:
        legend.insert(
            0, "LOAD: the busiest endpoint's load against the busiest one's before the change of the cluster."
        )
    drops = next((total.drops for total in total_rows), 0)
    if drops:
        what = "drops traffic: it has no score and is" if drops == 1 else "drop traffic: they have no score and are"
        legend.insert(0, f"{counted(drops, 'Service')} {what} in no mean (zoneward check says why).")
    if total_rows and all(total.in_zone_traffic is None for total in total_rows):
        legend.insert(0, "IN ZONE is unknown: no node or no endpoint has a zone (zoneward check says more).")
    if len(shown) < totals.services:
        legend.insert(0, describe_shown(len(shown), totals.services, only_changed=only_changed))
    first_rows = _total_rows(totals, total_rows, abilities, cells)
    return TableParts(
        above=(join_wrapped([f"Proxies: {kinds}"]),),
        columns=cells.columns,
        rows=[*first_rows, *service_rows],
        details=[*(None for _ in first_rows), *details] if details else (),
        right=_RIGHT,
        below=join_wrapped(legend, "dim"),
        is_grouped=has_details,
    )


def _describe_settings(comparison: ServiceComparison, abilities: ClusterAbilities) -> Iterator[str]:
    """A line for each setting that would be active."""
    for candidate in comparison.approaches:
        if not (candidate.active or candidate.approach == NO_APPROACH):
            continue
        in_zone = "-" if candidate.in_zone_traffic is None else whole_percent(candidate.in_zone_traffic, plus=False)
        overload = "-" if candidate.max_overload is None else whole_percent(candidate.max_overload)
        needs = "" if candidate.needs is None else f", needs {candidate.needs}"
        marks = "".join(
            f", {words}"
            for words, approach in (("best", comparison.best), ("asked for", comparison.asks_for))
            if candidate.approach == approach
        )
        yield f"{title_of(candidate.approach, abilities)}: {in_zone} in its zone, worst {overload}{needs}{marks}"


def comparison_facts(totals: ComparisonTotals, abilities: ClusterAbilities) -> list[Markup]:
    """The figures of a page, of all Services."""
    start = totals.now or next(iter(totals.rows(abilities)), None)
    facts = []
    for title, total in (("in its zone", start), ("with the best of each", totals.best)):
        if total is not None and total.in_zone_traffic is not None:
            facts.append(fact(title, whole_percent(total.in_zone_traffic, plus=False), "weighed by endpoints"))
    if start is not None and start.max_overload is not None:
        facts.append(fact("worst overload", whole_percent(start.max_overload)))
    facts.append(fact("Services", f"{totals.services:,}"))
    return facts


class _Cells:
    """Builds rows. The column ``LOAD`` is there only if options change the input, and ``SCORE`` if somebody asks."""

    def __init__(self, *, is_changed: bool, has_score: bool, has_details: bool, has_slices: bool) -> None:
        is_shown = {"LOAD": is_changed, "SCORE": has_score, "MEAN": has_details}
        is_shown |= dict.fromkeys(("SLICES", "CHANGES"), has_slices)
        self.columns = tuple(column for column in _COLUMNS if is_shown.get(column, True))

    def row(
        self,
        approach: str,
        numbers: ComparedApproach | InForce | ApproachTotal,
        note: StyledText,
        *,
        changes: str,
        title: StyledText | None = None,
        bold: bool = False,
        since: ComparedApproach | InForce | None = None,
    ) -> _Row:
        """``since``: shares are shown as changes since then."""
        style = "bold" if bold else ""
        is_predicted = isinstance(numbers, ApproachTotal) or numbers.dropped_traffic != 1
        change = numbers.load_change if isinstance(numbers, ComparedApproach) else None
        in_zone, overload = numbers.in_zone_traffic, numbers.max_overload
        cells = {
            "SERVICE": title or _text(),
            "APPROACH": _text(CLUSTER_WIDE if approach == NO_APPROACH else approach, style),
            "IN ZONE": _since(
                None if since is None else since.in_zone_traffic,
                in_zone if is_predicted else None,
                "" if isinstance(numbers, ApproachTotal) else share_style(in_zone),
            ),
            "WORST": _since(
                None if since is None else since.max_overload, overload if is_predicted else None, plus=True
            ),
            "LOAD": _text() if change is None else _percent(change, plus=True),
            "MEAN": _percent(numbers.mean_overload if is_predicted else None),
            "SLICES": _text(str(numbers.slices)),
            "CHANGES": _text(changes),
            "SCORE": _text("-", "dim") if numbers.score is None else _text(f"{numbers.score:.1f}", style),
            "": note,
        }
        return tuple(cells[column] for column in self.columns)

    def idle_row(self, approach: str, reason: str, *, asked: bool) -> _Row:
        note = _text(reason, "dim")
        if asked:
            note = Text("asked for", "green").append(": ", "default").append(note)
        return (_text(), _text(approach, "dim"), *(_text() for _ in self.columns[2:-1]), note)


def _service_row(recommendation: Recommendation, abilities: ClusterAbilities, cells: _Cells) -> _Row:
    """One line: the best setting, and what becomes of traffic with it."""
    comparison = recommendation.comparison
    title = Text(name_of(comparison.key))
    start = comparison.start
    best = comparison.find(comparison.best)
    dropped = comparison.today.dropped_traffic or 0.0
    is_asked = best is None or best.approach == comparison.asks_for
    asked = _note(("as asked for", is_asked and best is not None), needs=None, dropped=dropped)
    if best is None:
        return cells.row(title_of(comparison.asks_for, abilities), start, asked, changes="", title=title)
    changes = "" if is_asked else _changes(best)
    return cells.row(title_of(best.approach, abilities), best, asked, changes=changes, title=title, since=start)


def title_of(approach: str, abilities: ClusterAbilities) -> str:
    """What this cluster calls an approach."""
    return CLUSTER_WIDE if approach == NO_APPROACH else abilities.name_of(approach)


def _changes(candidate: ComparedApproach) -> str:
    writes = (("+", candidate.create), ("~", candidate.update), ("-", candidate.delete))
    return " ".join(f"{sign}{count}" for sign, count in writes if count)


def _service_rows(recommendation: Recommendation, abilities: ClusterAbilities, cells: _Cells) -> list[_Row]:
    comparison = recommendation.comparison
    rows: list[_Row] = []
    now = comparison.now
    if now is not None:
        rows.append(cells.row(NOW, now, _note(needs=None, dropped=now.dropped_traffic or 0.0), changes=""))
    idle = []
    # No setting changes what is dropped: one row shows it.
    dropped = comparison.today.dropped_traffic or 0.0
    for candidate in comparison.approaches:
        approach = candidate.approach
        if not (candidate.active or approach == NO_APPROACH):
            idle.append(candidate)
            continue
        note = _note(
            ("best", approach == comparison.best),
            ("better", approach == comparison.better),
            ("asked for", approach == comparison.asks_for),
            needs=candidate.needs,
            dropped=dropped,
        )
        changes = _changes(candidate)
        is_best = approach == comparison.best
        rows.append(cells.row(abilities.name_of(approach), candidate, note, changes=changes, bold=is_best))
        dropped = 0.0
    if idle:
        first = idle[0]
        title = abilities.name_of(first.approach) if len(idle) == 1 else f"{len(idle)} others"
        reason = short_reason(
            first.reason_code, first.reason, endpoints=comparison.endpoints, zones=recommendation.zones
        )
        asked = any(candidate.approach == comparison.asks_for for candidate in idle)
        rows.append(cells.idle_row(title, reason, asked=asked))
    rows[0] = (Text(name_of(comparison.key)), *rows[0][1:])
    return rows


def name_of(key: ServiceFamily) -> str:
    """``shop/cart``, ``shop/cart 6`` for IPv6."""
    namespace, service, family = key
    return f"{namespace}/{service}" + ("" if family == "IPv4" else f" {family[-1]}")


@lru_cache(maxsize=4096)
def _text(text: str = "", style: str = "") -> Text:
    """A cell. A table of a million cells has few different ones."""
    return Text(text, style)


@lru_cache(maxsize=4096)
def _note(*marks: tuple[str, bool], needs: str | None, dropped: float) -> Text:
    words = ", ".join(word for word, applies in marks if applies)
    needed = f"needs {needs}" if needs is not None and not dict(marks).get("better") else ""
    parts = ((f"drops {format_dropped(dropped)}" if dropped else "", "red"), (words, "green"), (needed, "dim"))
    return join_words(part for part in parts if part[0])


def _total_rows(
    totals: ComparisonTotals, total_rows: Sequence[ApproachTotal], abilities: ClusterAbilities, cells: _Cells
) -> list[_Row]:
    if not total_rows:
        return []
    today, *approaches = total_rows
    usable = [total for total in approaches if total.score is not None and total.needs is None]
    top = max(usable, key=lambda total: (round(total.score or 0.0, 1), familiarity(total.approach)), default=None)
    rows: list[_Row] = []
    for total in (totals.now, today, totals.best, *approaches):
        if total is not None:
            name = _TOTAL_TITLES.get(total.approach) or abilities.name_of(total.approach)
            is_top = total is top
            note = _total_note(total, is_top=is_top) if total in approaches else Text()
            changes = "" if total.approach == NOW else str(total.changes)
            title = None if rows else Text("TOTAL", "bold")
            rows.append(cells.row(name, total, note, changes=changes, title=title, bold=is_top))
    return rows


def _total_note(total: ApproachTotal, *, is_top: bool) -> Text:
    if total.needs is not None:
        better = f"better for {total.better}, " if total.better else ""
        return Text(f"{better}needs {total.needs}", "dim")
    return Text("best", "green").append(f" for {total.best}", "default") if is_top else Text(f"for {total.best}", "dim")


def _since(before: float | None, after: float | None, style: str = "", *, plus: bool = False) -> Text:
    """``34%>97%``; one figure where nothing changes. ``style`` is that of the second one."""
    old, new = _percent(before, plus=plus), _percent(after, plus=plus)
    if after is not None and style:
        new = _text(new.plain, style)
    return new if before is None or old.plain == new.plain else Text(f"{old.plain}>", "default").append(new)


def _percent(share: float | None, *, plus: bool = False) -> Text:
    if share is None:
        return _text("-", "dim")
    return _text(whole_percent(share, plus=plus))
