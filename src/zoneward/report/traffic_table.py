"""Traffic between zones and what it costs, as a table; and its words and numbers, which the page has, too."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Final

from zoneward.advice.cluster_abilities import CONTROLLER, PROXY, ClusterAbilities
from zoneward.advice.dropped_traffic import format_dropped
from zoneward.advice.honored_traffic import LEAST_CONNECTIONS, NodeTraffic, honored_traffic
from zoneward.advice.measured_flows import HOURS_IN_MONTH, ServiceFamily
from zoneward.advice.prices import BYTES_IN_GB, format_amount
from zoneward.advice.traffic_report import Crossing, Figure, ServiceReport, SettingReport, SettingTotal, TrafficReport
from zoneward.report.comparison_report import describe_shown, name_of, title_of
from zoneward.report.html import Markup, tag
from zoneward.report.plan_table import short_reason
from zoneward.report.table_parts import Table, TableParts
from zoneward.report.terminal_text import StyledText, Text, join_marks, join_wrapped, percent, whole_percent
from zoneward.routing.phrases import counted, listed
from zoneward.routing.what_if import NO_APPROACH

_MOST_NODES: Final = 5
"""Nodes that the table names."""
_MOST_SERVICES: Final = 2
"""Services that it names for each of them."""
_MOST_PAGE_NODES: Final = 20
"""Nodes that the page lists for a Service: those that deviate first."""


class ReportNumbers:
    """The figures of a report as text: money and GB, or shares where there are no bytes."""

    def __init__(self, report: TrafficReport) -> None:
        self.report: Final = report
        self.has_bytes: Final = report.measured.has_bytes
        self.currency: Final = report.currency

    @property
    def columns(self) -> tuple[str, ...]:
        """The headings of `cells`."""
        if self.currency is not None:
            return "GB", self.currency
        return ("GB",) if self.has_bytes else ("CROSS",)

    def cells(self, crossing: Crossing | None) -> list[str]:
        """What leaves its zone in a month: GB, money, or the share of the whole."""
        if crossing is None:
            return ["-"] * len(self.columns)
        amount = format_number(crossing.amount.value / BYTES_IN_GB)
        return [self.value(crossing)] if self.currency is None else [amount, self.value(crossing)]

    def value(self, crossing: Crossing) -> str:
        """Money where there are prices, else GB, else a share."""
        return self._figures(crossing)[0]

    def margin(self, crossing: Crossing) -> str:
        """That of `value`."""
        return self._figures(crossing)[1]

    def _figures(self, crossing: Crossing) -> tuple[str, str]:
        spread = self.report.spread
        if not self.has_bytes:
            share = crossing.amount.share_of(crossing.whole, spread=spread)
            return ("-", "-") if share is None else (whole_percent(share.value, plus=False), f"{share.margin:.1%}")
        figure, unit = (crossing.amount, BYTES_IN_GB) if self.currency is None else (crossing.money or Figure(), 1)
        return format_number(figure.value / unit), _format_margin(figure.estimate(spread=spread).margin / unit)


def format_number(value: float) -> str:
    """Three digits or more: ``0.05``, ``34.2``, ``1,234``."""
    size = abs(value)
    digits = 2 if size < 9.995 else 1 if size < 99.95 else 0
    text = f"{value:,.{digits}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def _format_margin(value: float) -> str:
    text = format_number(value)
    return "<0.01" if value and text == "0.00" else text


# --- the table --------------------------------------------------------------------------------------------------------


def traffic_parts(
    report: TrafficReport,
    abilities: ClusterAbilities,
    *,
    has_details: bool = False,
    is_page: bool = False,
    only_changed: bool = False,
) -> TableParts:
    """Totals, and then a line for each Service: now and with the best setting. ``has_details``: instead some lines for
    each: what is measured, and each setting that would be active. ``is_page``: no totals, and figures of now alone,
    with all settings and the nodes folded below each line. ``only_changed``: ``--changed`` leaves some Services out.
    """
    numbers = ReportNumbers(report)
    columns = (
        *("SERVICE", "SETTING", *numbers.columns, "SAVED", "\N{PLUS-MINUS SIGN}", "WORST"),
        "NOW" if is_page else "",
    )
    rows: list[list[StyledText]] = []
    if report.totals.services and not is_page:
        titles = (Text("" if row else "TOTAL", "bold") for row in count())
        rows = [[title, *row] for title, row in zip(titles, _total_rows(numbers, abilities), strict=False)]
    for service in report.services:
        if has_details:
            rows.extend(_service_rows(service, numbers, abilities))
        else:
            rows.append(_service_row(service, numbers, abilities, is_page=is_page))
    legend = _legend(numbers, has_details=has_details, is_page=is_page, only_changed=only_changed)
    return TableParts(
        above=(join_wrapped([*describe_measuring(report)]),),
        columns=columns,
        rows=rows,
        right=columns[2:-1],
        below=join_wrapped([*(() if is_page else _honored(report)), *(Text(line, "dim") for line in legend)]),
        is_grouped=has_details,
        details=[_details(service, numbers, abilities) for service in report.services] if is_page else (),
    )


def _details(service: ServiceReport, numbers: ReportNumbers, abilities: ClusterAbilities) -> Markup:
    """All settings and the nodes of one Service, folded."""
    title = name_of(service.key)
    content = [_setting_table(service, numbers, abilities).as_element(f"Settings of {title}")]
    shown = honored_traffic(service.nodes).first(_MOST_PAGE_NODES)
    if len(shown) < len(service.nodes):
        content.append(tag("p", f"{len(shown)} of {len(service.nodes)} nodes; -o json has all."))
    if shown:
        content.append(node_table(shown).as_element(f"Nodes with traffic to {title}"))
    return tag("details", tag("summary", "all settings, nodes" if shown else "all settings"), *content)


def total_table(numbers: ReportNumbers, abilities: ClusterAbilities) -> Table:
    """The settings for all Services, of a page."""
    columns = ("SETTING", *numbers.columns, "SAVED", "\N{PLUS-MINUS SIGN}", "")
    rows = [[*row[:-2], row[-1]] for row in _total_rows(numbers, abilities)]
    return Table(columns, rows, columns[1:-1], units=numbers.columns)


def _setting_table(service: ServiceReport, numbers: ReportNumbers, abilities: ClusterAbilities) -> Table:
    """All settings of one Service with their reasons, of a page."""
    columns = ("SETTING", *numbers.columns, "SAVED", "\N{PLUS-MINUS SIGN}", "WORST", "REASON")
    rows = []
    for setting in service.settings:
        *row, note = _setting_row(setting, service, numbers, abilities)
        rows.append([*row, note.append(": " if note.plain else "", "default").append(setting.reason, "default")])
    return Table(columns, rows, columns[1:-1], units=numbers.columns)


def node_table(nodes: Iterable[NodeTraffic], words_of: Callable[[NodeTraffic], StyledText] | None = None) -> Table:
    """Nodes with what each measured beside what is in force. ``words_of``: other words than whether it deviates."""
    rows = [
        [
            Text(node.node),
            Text(node.zone or "no zone"),
            Text(f"{node.connections:,}"),
            percent(node.in_zone),
            percent(node.predicted_in_zone),
            (words_of or _verdict)(node),
        ]
        for node in nodes
    ]
    columns = ("NODE", "ZONE", "CONNECTIONS", "STAYS", "PREDICTED", "")
    return Table(columns, rows, columns[2:5])


def _verdict(node: NodeTraffic) -> StyledText:
    if node.deviates is not None:
        return Text(describe_deviation(node), "yellow")
    return Text("nothing is predicted" if node.predicted is None else "as predicted", "dim")


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
    if measured.shortness is not None:
        yield f"{measured.shortness.capitalize()}."
    for nodes, what in (
        (measured.without_bytes, "counted no bytes and {are} in no amount"),
        (measured.timeless, "measured for no time and {are} in no amount"),
        (measured.incomplete, "did not count everything: some traffic is missing"),
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
    text = f"Prices: {format_amount(prices.default_amount)} {prices.currency} a GB (10^9 bytes), charged {ends}"
    pairs = len(prices.zones) + len(prices.regions)
    if not pairs:
        return f"{text}."
    have = "has its own" if pairs == 1 else "have their own"
    return f"{text}; {counted(pairs, 'pair')} of zones or regions {have}."


def _total_rows(numbers: ReportNumbers, abilities: ClusterAbilities) -> Iterator[list[StyledText]]:
    """A row for now, one for the best setting of each Service, and one for each setting."""
    totals = numbers.report.totals
    share = totals.now.amount.share_of(totals.now.whole, spread=numbers.report.spread)
    stays = Text("" if share is None else f"{1 - share.value:.0%} stays in its zone")
    yield _row("now", numbers.cells(totals.now), "", numbers.margin(totals.now), None, stays)
    best = Text(f"for {counted(totals.best.best, 'Service')}", "green")
    yield _total_row("best of each", totals.best, numbers, best)
    for approach, total in totals.settings.items():
        needs = abilities.missing_for(approach)
        if needs != PROXY and (total.active or approach == NO_APPROACH):
            yield _total_row(title_of(approach, abilities), total, numbers, _total_note(total, needs))


def _total_row(title: str, total: SettingTotal, numbers: ReportNumbers, note: Text) -> list[StyledText]:
    saved, margin = numbers.value(total.saved), numbers.margin(total.saved)
    return _row(title, numbers.cells(total.crossing), saved, margin, None, note)


def _total_note(total: SettingTotal, needs: str | None) -> Text:
    return join_marks(
        (total.best, f"best for {total.best}", "green"),
        (total.overloads, f"overloads {total.overloads}", "red"),
        (total.drops, f"drops traffic of {total.drops}", "red"),
        (needs is not None, f"needs {needs}", "dim"),
    )


def _service_row(
    service: ServiceReport, numbers: ReportNumbers, abilities: ClusterAbilities, *, is_page: bool
) -> list[StyledText]:
    """One line: the best setting, and what it saves."""
    best, now = service.setting(service.best), service.now
    cells = numbers.cells(now.crossing)
    note = _now_note(service, numbers)
    if service.better is not None:
        note.append(f", better: {title_of(service.better, abilities)}", "green")
    if best is None or best.saved is None:
        setting, saved, margin, overload = "-", "", numbers.margin(now.crossing), now.max_overload
    else:
        setting, overload = title_of(best.approach, abilities), best.max_overload
        saved, margin = numbers.value(best.saved), numbers.margin(best.saved)
        if not is_page:
            after = numbers.cells(best.crossing)
            cells = [old if old == new else f"{old}>{new}" for old, new in zip(cells, after, strict=True)]
    row = _row(setting, cells, saved, margin, service.overload if is_page else overload, note)
    return [Text(name_of(service.key)), *row]


def _service_rows(
    service: ServiceReport, numbers: ReportNumbers, abilities: ClusterAbilities
) -> Iterator[list[StyledText]]:
    now, note = service.now, _now_note(service, numbers)
    row = _row("now", numbers.cells(now.crossing), "", numbers.margin(now.crossing), now.max_overload, note)
    yield [Text(name_of(service.key)), *row]
    others = []
    for setting in service.settings:
        is_shown = setting.active or setting.approach == NO_APPROACH
        if is_shown and abilities.missing_for(setting.approach) != PROXY:
            yield [Text(), *_setting_row(setting, service, numbers, abilities)]
        else:
            others.append(setting)
    if others:
        reason = _why_not(others[0], service, numbers)
        title = title_of(others[0].approach, abilities) if len(others) == 1 else f"{len(others)} others"
        empty = [Text() for _ in numbers.columns]
        yield [Text(), Text(title, "dim"), *empty, Text(), Text(), Text(), Text(reason, "dim")]


def _setting_row(
    setting: SettingReport, service: ServiceReport, numbers: ReportNumbers, abilities: ClusterAbilities
) -> list[StyledText]:
    saved, margin = (
        ("-", "") if setting.saved is None else (numbers.value(setting.saved), numbers.margin(setting.saved))
    )
    return _row(
        title_of(setting.approach, abilities),
        numbers.cells(setting.crossing),
        saved,
        margin,
        setting.max_overload,
        _setting_note(setting, service),
        style="bold" if setting.approach == service.best else "",
    )


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


def _now_note(service: ServiceReport, numbers: ReportNumbers) -> Text:
    now = service.now
    if now.in_zone is None:
        return Text("zones unknown" if numbers.report.measured.services[service.key].unknown else "no traffic")
    note = Text(f"{now.in_zone:.0%} stays")
    if now.predicted_in_zone is not None:
        note.append(f", {now.predicted_in_zone:.0%} predicted")
    deviating = sum(node.deviates is not None for node in service.nodes)
    if deviating:
        note.append(", ", "default").append(f"not so on {counted(deviating, 'node')}", "yellow")
    return note


def _setting_note(setting: SettingReport, service: ServiceReport) -> Text:
    is_better = setting.approach == service.better
    needs = setting.needs if not (is_better and setting.needs == CONTROLLER) else None
    return join_marks(
        (setting.approach == service.best, "best", "green"),
        (is_better, "better", "green"),
        (setting.approach == service.asks_for, "asked for", "green"),
        (setting.overloads, "overloads a pod", "red"),
        (setting.dropped, f"drops {format_dropped(setting.dropped or 0.0)}", "red"),
        (needs is not None, f"needs {needs}", "dim"),
    )


def _why_not(setting: SettingReport, service: ServiceReport, numbers: ReportNumbers) -> str:
    if setting.needs == PROXY:
        return f"needs {PROXY}"
    zones = len({zone for pair in numbers.report.measured.services[service.key].known for zone in pair})
    return short_reason(setting.reason_code, setting.reason, endpoints=service.endpoints, zones=zones)


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
        rest = len(deviating) - _MOST_NODES
        yield Text(f"So {'does' if rest == 1 else 'do'} {counted(rest, 'more node')}: -o json names all.", "yellow")


def _legend(numbers: ReportNumbers, *, has_details: bool, is_page: bool, only_changed: bool) -> Iterator[str]:
    report = numbers.report
    shown = len({service.key[:2] for service in report.services})
    if shown < report.totals.services:
        yield describe_shown(shown, report.totals.services, only_changed=only_changed)
    yield from explain_figures(numbers)
    yield "best: saves the most and overloads no pod, as the cluster is.  better: with Zoneward's controller."
    if is_page:
        yield "-: no setting saves anything.  NOW: what stays in its zone, and what is predicted of it."
        yield "needs proxy: predicted with the proxies that the nodes have, which do not read what this setting writes."
        return
    if not has_details:
        example = "12.5>0.00" if report.measured.has_bytes else "34%>3%"
        yield f"{example}: now, and with the best setting, of which WORST is.  -: no setting saves anything."
    more = "" if has_details else "--details (all settings), "
    yield f"More: {more}-o json (reasons, nodes), -o csv, -o html (a page with the flows), zoneward explain."


def explain_figures(numbers: ReportNumbers) -> Iterator[str]:
    """What the columns mean, and what is in none of them."""
    totals = numbers.report.totals
    what = (
        f"GB between zones in a month of {HOURS_IN_MONTH} h"
        if numbers.has_bytes
        else "the share of connections that left their zone"
    )
    rest = f", {numbers.currency} their price" if numbers.currency else ""
    yield f"{numbers.columns[0]}: {what}{rest}.  SAVED: now - with the setting."
    yield "WORST: the busiest pod's load above a fair one.  ±: of SAVED, or of now: 95 % random error, without growth."
    if numbers.has_bytes and totals.external.amount.value:
        cost = f", {numbers.value(totals.external)} {numbers.currency}" if numbers.currency else ""
        amount = format_number(totals.external.amount.value / BYTES_IN_GB)
        yield f"From outside of the cluster {amount} GB more left their zone{cost}: they are in no figure above."
    if totals.unknown:
        amount = (
            f"{format_number(totals.unknown / BYTES_IN_GB)} GB"
            if numbers.has_bytes
            else f"{totals.unknown:,.0f} connections"
        )
        yield f"{amount} started or ended in an unknown zone: they are in no figure above."
    if numbers.report.deviating():
        yield (
            f"Not as predicted: of {LEAST_CONNECTIONS} or more connections a share that differs by over 5 points, and"
            " by more than chance explains."
        )
