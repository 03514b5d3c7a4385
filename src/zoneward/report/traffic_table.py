"""Traffic between zones and what it costs, as a table; and its words and numbers, which the page has, too."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from zoneward.advice.cluster_abilities import CONTROLLER, PROXY, ClusterAbilities
from zoneward.advice.dropped_traffic import format_dropped
from zoneward.advice.honored_traffic import LEAST_CONNECTIONS, NodeTraffic
from zoneward.advice.measured_flows import HOURS_IN_MONTH, ServiceFamily
from zoneward.advice.prices import BYTES_IN_GB
from zoneward.advice.traffic_report import Crossing, Figure, ServiceReport, SettingReport, SettingTotal, TrafficReport
from zoneward.report.plan_table import CLUSTER_WIDE, short_reason
from zoneward.report.table_parts import TableParts
from zoneward.report.terminal_text import StyledText, Text, join_wrapped, whole_percent
from zoneward.routing.phrases import counted, listed
from zoneward.routing.request.what_if import NO_APPROACH

_MOST_NODES: Final = 5
"""Nodes that the table names."""
_MOST_SERVICES: Final = 2
"""Services that it names for each of them."""
_HOURS_IN_DAY: Final = 24
Mark = Literal["good", "bad", "needs"]
"""What kind of words mark a setting; the page has a class of each name."""
_STYLES: Final[dict[Mark, str]] = {"good": "green", "bad": "red", "needs": "dim"}


class ReportNumbers:
    """The figures of a report as text: money and GB, or shares where there are no bytes."""

    def __init__(self, report: TrafficReport) -> None:
        self._spread = report.spread
        self.has_bytes = report.measured.has_bytes
        self.currency = report.currency

    @property
    def columns(self) -> tuple[str, ...]:
        """The headings of `cells`."""
        if self.currency is not None:
            return "GB", self.currency
        return ("GB",) if self.has_bytes else ("CROSS",)

    def cells(self, crossing: Crossing | None, whole: Figure) -> list[str]:
        """What leaves its zone in a month: GB, money, or the share of the ``whole``."""
        if crossing is None:
            return ["-"] * len(self.columns)
        if not self.has_bytes:
            return [self.value(crossing, whole)]
        amount = format_number(crossing.amount.value / BYTES_IN_GB)
        return [amount] if self.currency is None else [amount, self.value(crossing, whole)]

    def value(self, crossing: Crossing, whole: Figure) -> str:
        """Money where there are prices, else GB, else a share."""
        if not self.has_bytes:
            return self._share(crossing, whole, 0)
        if self.currency is not None:
            return format_number((crossing.money or Figure()).value)
        return format_number(crossing.amount.value / BYTES_IN_GB)

    def margin(self, crossing: Crossing, whole: Figure) -> str:
        """That of `value`."""
        if not self.has_bytes:
            return self._share(crossing, whole, 1)
        if self.currency is not None:
            return _format_margin((crossing.money or Figure()).estimate(spread=self._spread).margin)
        return _format_margin(crossing.amount.estimate(spread=self._spread).margin / BYTES_IN_GB)

    def _share(self, crossing: Crossing, whole: Figure, index: int) -> str:
        share = crossing.amount.share_of(whole, spread=self._spread)
        if share is None:
            return "-"
        return whole_percent(share[index], plus=False) if index == 0 else f"{share[index]:.1%}"


def format_number(value: float) -> str:
    """Three digits or more: ``0.05``, ``34.2``, ``1,234``."""
    size = abs(value)
    digits = 2 if size < 9.995 else 1 if size < 99.95 else 0
    text = f"{value:,.{digits}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def _format_margin(value: float) -> str:
    text = format_number(value)
    return "<0.01" if value and text == "0.00" else text


def title_of(approach: str, abilities: ClusterAbilities) -> str:
    return CLUSTER_WIDE if approach == NO_APPROACH else abilities.name_of(approach)


def name_of(key: ServiceFamily) -> str:
    namespace, service, family = key
    return f"{namespace}/{service}" + ("" if family == "IPv4" else f" {family[-1]}")


def shown_settings(
    service: ServiceReport, abilities: ClusterAbilities
) -> tuple[list[SettingReport], list[SettingReport]]:
    """Settings with a separate line, and those that are not active, or that no proxy of the cluster reads."""
    shown: list[SettingReport] = []
    others: list[SettingReport] = []
    for setting in service.settings:
        works = (setting.active or setting.approach == NO_APPROACH) and abilities.missing_for(setting.approach) != PROXY
        (shown if works else others).append(setting)
    return shown, others


# --- the table --------------------------------------------------------------------------------------------------------


def traffic_parts(report: TrafficReport, abilities: ClusterAbilities, *, has_details: bool) -> TableParts:
    """Totals, and then a line for each Service: now and with the best setting. ``has_details``: instead some lines for
    each: what is measured, and each setting that would be active.
    """
    numbers = ReportNumbers(report)
    columns = ("SERVICE", "SETTING", *numbers.columns, "SAVED", "±", "WORST", "")
    rows = _total_rows(report, numbers, abilities) if report.totals.services else []
    for service in report.services:
        if has_details:
            rows.extend(_service_rows(service, report, numbers, abilities))
        else:
            rows.append(_service_row(service, report, numbers, abilities))
    return TableParts(
        above=(join_wrapped([*describe_measuring(report)]),),
        columns=columns,
        rows=rows,
        right=columns[2:-1],
        below=join_wrapped([*_honored(report), *(Text(line, "dim") for line in _legend(report, numbers, has_details))]),
        is_grouped=has_details,
    )


def describe_measuring(report: TrafficReport) -> Iterator[str]:
    """What was measured, what was not, and prices: a line each."""
    measured, coverage = report.measured, report.coverage
    since, until = (
        moment.isoformat(sep=" ", timespec="minutes").replace("+00:00", "Z")
        for moment in (measured.since, measured.until)
    )
    yield f"Measured on {coverage.measured} of {counted(coverage.nodes, 'ready node')}, {since} to {until}."
    if coverage.missing_zones:
        yield f"Nothing is measured of {listed(coverage.missing_zones)}: the figures are without what starts there."
    elif coverage.measured < coverage.nodes:
        yield f"The figures are without what starts on the {counted(coverage.nodes - coverage.measured, 'other node')}."
    if 0 < measured.shortest < _HOURS_IN_DAY:
        yield f"Some nodes measured for {measured.shortest:.3g} h only: a month has hours that are not like these."
    for nodes, what in (
        (measured.without_bytes, "counted no bytes and {are} in no figure"),
        (measured.timeless, "measured for no time and {are} in no figure"),
        (measured.incomplete, "had no room for all counters: some traffic is missing"),
    ):
        if nodes:
            are = "is" if len(nodes) == 1 else "are"
            yield f"{listed(tuple(sorted(nodes)))} {what.format(are=are)}."
    if not measured.has_bytes:
        yield "No document has bytes: shares of connections, and no money. zoneward meter counts bytes."
    elif report.currency is None:
        yield "No prices: --price-per-gb 0.01USD, or prices in the configuration, shows money."
    else:
        yield describe_prices(report)


def describe_prices(report: TrafficReport) -> str:
    prices = report.prices
    ends = "where it leaves its zone and where it arrives" if prices.charge == "both" else "once"
    text = f"Prices: {float(prices.default_amount):g} {prices.currency} a GB (10^9 bytes), charged {ends}"
    pairs = len(prices.zones) + len(prices.regions)
    return f"{text}; {pairs} pairs of zones or regions have their own." if pairs else f"{text}."


def _total_rows(report: TrafficReport, numbers: ReportNumbers, abilities: ClusterAbilities) -> list[list[StyledText]]:
    totals = report.totals
    share = totals.now.amount.share_of(totals.whole, spread=report.spread)
    rows = [
        [
            Text("TOTAL", "bold"),
            *_row(
                "now",
                numbers.cells(totals.now, totals.whole),
                "",
                numbers.margin(totals.now, totals.whole),
                None,
                Text("" if share is None else f"{1 - share.value:.0%} stays in its zone"),
            ),
        ],
        _total_row(
            "best of each", totals.best, report, numbers, Text(f"for {counted(totals.best.best, 'Service')}", "green")
        ),
    ]
    for approach, total in totals.settings.items():
        needs = abilities.missing_for(approach)
        if needs == PROXY or not (total.active or approach == NO_APPROACH):
            continue
        rows.append(_total_row(title_of(approach, abilities), total, report, numbers, _total_note(total, needs)))
    return rows


def _total_row(
    title: str, total: SettingTotal, report: TrafficReport, numbers: ReportNumbers, note: Text
) -> list[StyledText]:
    whole = report.totals.whole
    saved, margin = numbers.value(total.saved, whole), numbers.margin(total.saved, whole)
    return [Text(), *_row(title, numbers.cells(total.crossing, whole), saved, margin, None, note)]


def _total_note(total: SettingTotal, needs: str | None) -> Text:
    note = Text()
    for index, words, style in (
        (total.best, f"best for {total.best}", "green"),
        (total.overloads, f"overloads {total.overloads}", "red"),
        (total.drops, f"drops traffic of {total.drops}", "red"),
        (needs is not None, f"needs {needs}", "dim"),
    ):
        if index:
            note.append(", " if note.plain else "", "default").append(words, style)
    return note


def _service_row(
    service: ServiceReport, report: TrafficReport, numbers: ReportNumbers, abilities: ClusterAbilities
) -> list[StyledText]:
    """One line: the best setting, and what it saves."""
    best, cells = service.setting(service.best), numbers.cells(service.now, service.whole)
    note = _now_note(service, report.node_traffic.get(service.key, ()))
    if service.better is not None:
        note.append(f", better: {title_of(service.better, abilities)}", "green")
    if best is None or best.saved is None:
        margin = numbers.margin(service.now, service.whole)
        return [Text(name_of(service.key)), *_row("-", cells, "", margin, service.max_overload, note)]
    after = numbers.cells(best.crossing, service.whole)
    cells = [old if old == new else f"{old}>{new}" for old, new in zip(cells, after, strict=True)]
    saved, margin = numbers.value(best.saved, service.whole), numbers.margin(best.saved, service.whole)
    row = _row(title_of(best.approach, abilities), cells, saved, margin, best.max_overload, note)
    return [Text(name_of(service.key)), *row]


def _service_rows(
    service: ServiceReport, report: TrafficReport, numbers: ReportNumbers, abilities: ClusterAbilities
) -> list[list[StyledText]]:
    margin = numbers.margin(service.now, service.whole)
    now = _row(
        "now",
        numbers.cells(service.now, service.whole),
        "",
        margin,
        service.max_overload,
        _now_note(service, report.node_traffic.get(service.key, ())),
    )
    rows: list[list[StyledText]] = [[Text(name_of(service.key)), *now]]
    shown, others = shown_settings(service, abilities)
    for reported in shown:
        saved, margin = "-", ""
        if reported.saved is not None:
            saved, margin = numbers.value(reported.saved, service.whole), numbers.margin(reported.saved, service.whole)
        cells = numbers.cells(reported.crossing, service.whole)
        style = "bold" if reported.approach == service.best else ""
        note = _setting_note(reported, service)
        title = title_of(reported.approach, abilities)
        rows.append([Text(), *_row(title, cells, saved, margin, reported.max_overload, note, style=style)])
    if others:
        reason = _why_not(others[0], service)
        title = title_of(others[0].approach, abilities) if len(others) == 1 else f"{len(others)} others"
        empty = [Text() for _ in numbers.columns]
        rows.append([Text(), Text(title, "dim"), *empty, Text(), Text(), Text(), Text(reason, "dim")])
    return rows


def _row(
    title: str, cells: Sequence[str], saved: str, margin: str, overload: float | None, note: Text, *, style: str = ""
) -> list[StyledText]:
    worst = "" if overload is None else whole_percent(overload)
    return [
        Text(title, style),
        *(Text(cell) for cell in cells),
        Text(saved, style),
        Text(margin, "dim"),
        Text(worst),
        note,
    ]


def _now_note(service: ServiceReport, nodes: Sequence[NodeTraffic]) -> Text:
    if service.in_zone is None:
        return Text("zones unknown" if service.unknown else "no traffic")
    note = Text(f"{service.in_zone:.0%} stays")
    if service.expected_in_zone is not None:
        note.append(f", {service.expected_in_zone:.0%} predicted")
    deviating = sum(node.deviates is not None for node in nodes)
    if deviating:
        note.append(", ", "default").append(f"not so on {counted(deviating, 'node')}", "yellow")
    return note


def marks_of(setting: SettingReport, service: ServiceReport, *, better: str) -> Iterator[tuple[str, Mark]]:
    """What a setting is marked with. ``better``: the words for what Zoneward's controller would improve."""
    marks: tuple[tuple[bool, str, Mark], ...] = (
        (setting.approach == service.best, "best", "good"),
        (setting.approach == service.better, better, "good"),
        (setting.approach == service.asked, "asked for", "good"),
        (setting.overloads, "overloads a pod", "bad"),
        (setting.drops, f"drops {format_dropped(setting.dropped)}", "bad"),
        (setting.needs is not None, f"needs {setting.needs}", "needs"),
    )
    return ((words, mark) for applies, words, mark in marks if applies)


def _setting_note(setting: SettingReport, service: ServiceReport) -> Text:
    note = Text()
    for words, mark in marks_of(setting, service, better="better"):
        if not (words == f"needs {CONTROLLER}" and setting.approach == service.better):
            note.append(", " if note.plain else "", "default").append(words, _STYLES[mark])
    return note


def _why_not(setting: SettingReport, service: ServiceReport) -> str:
    if setting.needs == PROXY:
        return f"needs {PROXY}"
    zones = len({zone for pair in service.flows for zone in pair})
    return short_reason(setting.reason, setting.message, endpoints=service.endpoints, zones=zones)


# --- below ------------------------------------------------------------------------------------------------------------


def describe_node(key: ServiceFamily, node: NodeTraffic) -> str:
    """`describe_deviation` of a Service."""
    return f"{name_of(key)} {describe_deviation(node)}"


def describe_deviation(node: NodeTraffic) -> str:
    """``51% in its zone, predicted 100%``, or the same of another zone whose share differs the most."""
    zone = node.deviates or ""
    where = "in its zone" if zone and zone == node.zone else f"to {zone or 'unknown zones'}"
    predicted = (node.predicted or {}).get(zone, 0.0)
    return f"{node.measured.get(zone, 0.0):.0%} {where}, predicted {predicted:.0%}"


def _honored(report: TrafficReport) -> Iterator[Text]:
    deviating = report.deviating()
    for node, services in list(deviating.items())[:_MOST_NODES]:
        words = "; ".join(describe_node(*item) for item in services[:_MOST_SERVICES])
        more = f"; {len(services) - _MOST_SERVICES} more" if len(services) > _MOST_SERVICES else ""
        yield Text(f"{node} does not do what is predicted: {words}{more}.", "yellow")
    if len(deviating) > _MOST_NODES:
        yield Text(f"So do {counted(len(deviating) - _MOST_NODES, 'more node')}: -o json names all.", "yellow")


def _legend(report: TrafficReport, numbers: ReportNumbers, has_details: bool) -> Iterator[str]:
    if len(report.services) < report.totals.services:
        yield f"{len(report.services)} of {report.totals.services:,} Services are shown; --top 0 shows all."
    yield from explain_figures(report, numbers)
    yield "best: saves the most and overloads no pod, as the cluster is.  better: with Zoneward's controller."
    if not has_details:
        yield "12.5>0.00: now, and with the best setting, of which WORST is.  -: no setting saves anything."
    more = "" if has_details else "--details (all settings), "
    yield f"More: {more}-o json (reasons, nodes), -o csv, -o html (a page with the flows), zoneward explain."


def explain_figures(report: TrafficReport, numbers: ReportNumbers) -> Iterator[str]:
    """What the columns mean, and what is in none of them."""
    what = (
        f"GB between zones in a month of {HOURS_IN_MONTH} h"
        if numbers.has_bytes
        else "the share of connections that left their zone"
    )
    rest = f", {numbers.currency} their price" if numbers.currency else ""
    yield f"{numbers.columns[0]}: {what}{rest}.  SAVED: now - with the setting."
    yield "WORST: the busiest pod's load above a fair one.  ±: of SAVED, or of now: 95 % random error, without growth."
    totals = report.totals
    if numbers.has_bytes and totals.external.amount.value:
        cost = f", {numbers.value(totals.external, totals.whole)} {numbers.currency}" if numbers.currency else ""
        amount = format_number(totals.external.amount.value / BYTES_IN_GB)
        yield f"From outside of the cluster {amount} GB more left their zone{cost}: they are in no figure above."
    if totals.unknown:
        amount = (
            f"{format_number(totals.unknown / BYTES_IN_GB)} GB"
            if numbers.has_bytes
            else f"{totals.unknown:,.0f} connections"
        )
        yield f"{amount} started or ended in an unknown zone: they are in no figure above."
    if report.deviating():
        yield (
            f"Not as predicted: of {LEAST_CONNECTIONS} or more connections a share that differs by over 5 points, and"
            " by more than chance explains."
        )
