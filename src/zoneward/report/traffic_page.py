"""``report -o html``: what traffic between zones costs, for those who pay and for those who change it.

The page needs no network. Its one script hides the Services that do not match what is typed into the search field;
without it everything else is there, and the field is not.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from zoneward.advice.cluster_abilities import ClusterAbilities
from zoneward.advice.honored_traffic import HonoredTraffic, NodeTraffic, honored_traffic
from zoneward.advice.prices import BYTES_IN_GB
from zoneward.advice.traffic_report import ServiceReport, SettingReport, SettingTotal, TrafficReport
from zoneward.report.flow_picture import FLOW_STYLE, flow_picture, largest_flows
from zoneward.report.html import DARK_STYLE, Content, Markup, Source, fact, name, page, table, tag
from zoneward.report.table_parts import SEARCH_SCRIPT, SEARCH_STYLE, search_field
from zoneward.report.terminal_text import whole_percent
from zoneward.report.traffic_table import (
    ReportNumbers,
    describe_deviation,
    describe_measuring,
    describe_node,
    explain_figures,
    format_number,
    marks_of,
    name_of,
    title_of,
)
from zoneward.routing.phrases import counted
from zoneward.routing.request.what_if import NO_APPROACH

_MOST_ZONES: Final = 12
"""Zones in the picture: those with the most traffic."""
_MOST_SERVICES: Final = 100
"""Services that are not folded."""
_ORDERS: Final = {
    "saved": "most saved",
    "crossing": "most that leaves its zone",
    "in-zone": "least in its zone",
    "overload": "worst overload",
    "name": "name",
}
"""Names of attributes whose largest value comes first, but that of the name."""
_MOST_NODES: Final = 20
"""Nodes that are listed for a Service: those that deviate first."""
NODES_STYLE: Final = """
:root { --good: #116329; --bad: #a40e26; }
@media screen and (prefers-color-scheme: dark) { :root { --good: #56d364; --bad: #ff8e86; } }
.good { color: var(--good); }
.bad { color: var(--bad); }
.nodes td:last-child, .nodes th:last-child { text-align: left; white-space: normal; min-width: 14rem; max-width: 30rem;
  overflow-wrap: anywhere; }
.nodes th:nth-child(2), .nodes td:nth-child(2) { text-align: left; }
"""
_MORE: Final = (
    "Best: saves the most of what the cluster can have as it is, and overloads no pod and drops nothing.",
    "Needs proxy: predicted with the proxies that the nodes have now, which do not read what this setting writes.",
)
_STYLE: Final = """
figure.picture { max-width: 760px; margin: 1rem 0; }
details.service { margin: 0; border-bottom: 1px solid var(--line); content-visibility: auto;
  contain-intrinsic-size: auto 43px; }
details.service[hidden] { display: none; }
details.service summary { color: var(--ink); padding: .5rem 0; display: grid; gap: .1rem 1rem;
  grid-template-columns: minmax(10rem, 2.2fr) minmax(8rem, 1.6fr) minmax(9rem, 2fr) minmax(8rem, 1.6fr); }
details.service summary strong { overflow-wrap: anywhere; }
details.service summary strong, details.service summary span span { display: block; }
details.service summary strong::before { content: "\\25B8\\00A0"; color: var(--soft); }
details.service[open] summary strong::before { content: "\\25BE\\00A0"; }
details.service .inside { padding: 0 0 1rem 1.1rem; }
.settings td:last-child, .settings th:last-child { text-align: left; white-space: normal; min-width: 14rem;
  max-width: 30rem; overflow-wrap: anywhere; }
ul.notes { margin: 1rem 0 0; padding-left: 1.2rem; max-width: 60rem; font-size: .92em; color: var(--soft); }
@media (max-width: 700px) { details.service summary { grid-template-columns: 1fr 1fr; } }
"""
_SCRIPT: Final = """
const services = Array.from(document.querySelectorAll("details.service"));
const choice = document.getElementById("order");
const parents = Array.from(document.querySelectorAll("div.services"));
const sizes = parents.map(function (parent) { return parent.children.length; });
function nameOf(service) { return service.querySelector("strong").textContent; }
choice.addEventListener("change", function () {
  const value = "data-" + choice.value;
  const sorted = services.slice().sort(function (one, other) {
    const difference = Number(other.getAttribute(value)) - Number(one.getAttribute(value));
    return difference || nameOf(one).localeCompare(nameOf(other));
  });
  arrange(sorted, parents, sizes);
});
offerSearch(services, function (service) { return service.firstElementChild.textContent; }, " Services");
"""


def traffic_page(report: TrafficReport, abilities: ClusterAbilities, *, source: Source) -> str:
    """The whole page."""
    numbers = ReportNumbers(report)
    title = "Traffic between zones"
    return page(
        title,
        tag("h1", title),
        source.heading(),
        tag("dl", *_facts(report, numbers), class_="facts large"),
        *(tag("p", line) for line in describe_measuring(report)),
        *_flows(report, numbers),
        tag("h2", "What each setting would do"),
        _totals(report, numbers, abilities),
        tag("h2", "Services"),
        *_services(report, numbers, abilities),
        tag("h2", "Do nodes do what is predicted?"),
        *_honored(report),
        tag("h2", "How to read it"),
        tag("ul", *(tag("li", line) for line in (*explain_figures(report, numbers), *_MORE)), class_="notes"),
        tag(
            "footer",
            "Made by ",
            tag("code", "zoneward report -o html"),
            ". For programs: ",
            tag("code", "-o json"),
            ".",
        ),
        style=f"{DARK_STYLE}{FLOW_STYLE}{NODES_STYLE}{SEARCH_STYLE}{_STYLE}",
        script=SEARCH_SCRIPT + _SCRIPT if report.services else "",
    )


def _facts(report: TrafficReport, numbers: ReportNumbers) -> Iterator[Markup]:
    totals = report.totals
    now, saved = totals.now, totals.best.saved
    unit = f" {numbers.currency}" if numbers.currency else " GB" if numbers.has_bytes else ""

    amount = f"; {format_number(now.amount.value / BYTES_IN_GB)} GB" if numbers.currency else ""
    yield fact(
        "leaves its zone in a month" if numbers.has_bytes else "leaves its zone",
        f"{numbers.value(now, totals.whole)}{unit}",
        f"\N{PLUS-MINUS SIGN}{numbers.margin(now, totals.whole)}{amount}",
    )
    share = f"; {saved.weight / now.weight:.0%} of it" if now.weight else ""
    yield fact(
        "could be saved",
        f"{numbers.value(saved, totals.whole)}{unit}",
        f"\N{PLUS-MINUS SIGN}{numbers.margin(saved, totals.whole)}{share}",
    )
    if totals.whole.value:
        stays = f"{1 - now.amount.value / totals.whole.value:.0%}"
        yield fact("stays in its zone", stays, f"of {counted(totals.services, 'Service')}")
    coverage = report.coverage
    hours = f"{report.measured.longest:.3g} h" if report.measured.longest else ""
    yield fact("measured on", f"{coverage.measured} of {counted(coverage.nodes, 'node')}", hours)


def _flows(report: TrafficReport, numbers: ReportNumbers) -> Iterator[Content]:
    flows = largest_flows(report.totals.flows, _MOST_ZONES)
    if not flows:
        return
    whole = report.totals.whole.value
    total = f"{format_number(whole / BYTES_IN_GB)} GB a month" if numbers.has_bytes else "shares of connections"
    zones = sorted({zone for pair in flows for zone in pair})

    def amount(start: str, end: str) -> str:
        value = flows.get((start, end), 0.0)
        return format_number(value / BYTES_IN_GB) if numbers.has_bytes else f"{value / whole:.1%}"

    described = "Zones where traffic starts, and zones of its endpoints. A table below has the same figures."
    yield tag("h2", "From zone to zone, now")
    yield tag(
        "figure",
        flow_picture(flows, described=described, total=f"{total}; grey: stays in its zone"),
        class_="picture",
    )
    rows = [
        tag("tr", tag("th", name(start), scope="row"), *(tag("td", amount(start, end)) for end in zones))
        for start in zones
    ]
    unit = "GB a month" if numbers.has_bytes else "share of connections"
    label = f"From zone to zone, {unit}"
    grid = table((f"from, {unit}", *(tag("span", "to ", name(zone)) for zone in zones)), [rows], label=label)
    yield tag("details", tag("summary", "The figures of the picture"), grid)


def _totals(report: TrafficReport, numbers: ReportNumbers, abilities: ClusterAbilities) -> Markup:
    totals = report.totals
    whole = totals.whole

    def row(title: str, cells: Sequence[str], saved: str, margin: str, note: Content) -> Markup:
        written = (tag("td", cell) for cell in (*cells, saved, margin))
        return tag("tr", tag("th", title, scope="row"), *written, tag("td", note))

    def setting(title: str, total: SettingTotal, note: Content) -> Markup:
        return row(
            title,
            numbers.cells(total.crossing, whole),
            numbers.value(total.saved, whole),
            numbers.margin(total.saved, whole),
            note,
        )

    rows = [
        row("now", numbers.cells(totals.now, whole), "", numbers.margin(totals.now, whole), "as measured"),
        setting("best of each", totals.best, f"for {counted(totals.best.best, 'Service')}, the others as they are"),
        *(
            setting(title_of(approach, abilities), total, _total_note(total, abilities.missing_for(approach)))
            for approach, total in totals.settings.items()
            if total.active or approach == NO_APPROACH
        ),
    ]
    head = ("setting", *_heads(numbers), "saved", "\N{PLUS-MINUS SIGN}", "")
    return table(head, [rows], label="Settings for all Services", class_="plain settings")


def _heads(numbers: ReportNumbers) -> tuple[str, ...]:
    return numbers.columns if numbers.has_bytes else ("leaves its zone",)


def _total_note(total: SettingTotal, needs: str | None) -> Content:
    parts: list[Content] = [f"active for {total.active}", f"best for {total.best}"]
    if total.overloads:
        parts.append(tag("span", f"overloads {total.overloads}", class_="bad"))
    if total.drops:
        parts.append(tag("span", f"drops traffic of {total.drops}", class_="bad"))
    if needs is not None:
        parts.append(f"needs {needs}")
    return _listed(parts)


def _listed(parts: Sequence[Content]) -> Markup:
    return tag("span", *(piece for index, part in enumerate(parts) for piece in ((", ", part) if index else (part,))))


# --- Services ---------------------------------------------------------------------------------------------------------


def _services(report: TrafficReport, numbers: ReportNumbers, abilities: ClusterAbilities) -> Iterator[Content]:
    if not report.services:
        yield tag("p", "None of the Services was measured.")
        return
    if len(report.services) < report.totals.services:
        yield tag("p", f"The {len(report.services)} of {report.totals.services:,} that save the most.")
    yield tag("p", "Those that save the most come first. Open one for its settings, their reasons and its nodes.")
    yield search_field(
        tag("label", "Order", for_="order"),
        tag("select", *(tag("option", words, value=key) for key, words in _ORDERS.items()), id="order"),
        placeholder="namespace, Service or setting",
    )
    rows = [_service(service, report, numbers, abilities) for service in report.services]
    yield tag("div", *rows[:_MOST_SERVICES], class_="services")
    if left := rows[_MOST_SERVICES:]:
        more = tag("summary", f"{len(left):,} more")
        yield tag("details", more, tag("div", *left, class_="services"), class_="others")


def _service(
    service: ServiceReport, report: TrafficReport, numbers: ReportNumbers, abilities: ClusterAbilities
) -> Markup:
    whole = service.whole
    best = service.setting(service.best)
    unit = f" {numbers.currency}" if numbers.currency else " GB" if numbers.has_bytes else " leaves its zone"
    now = f"now {numbers.value(service.now, whole)}{unit}"
    nodes = report.node_traffic.get(service.key, ())
    if best is None or best.saved is None:
        setting, saved = tag("span", "nothing to save"), tag("span")
    else:
        setting = tag("span", title_of(best.approach, abilities), *(" (asked for)",) * (best.approach == service.asked))
        words = f"saves {numbers.value(best.saved, whole)} \N{PLUS-MINUS SIGN}{numbers.margin(best.saved, whole)}"
        saved = tag("span", words, class_="good")
    deviating = sum(node.deviates is not None for node in nodes)
    marks = [tag("span", f"not as predicted on {counted(deviating, 'node')}", class_="bad")] if deviating else []
    return tag(
        "details",
        tag(
            "summary", tag("strong", name(name_of(service.key))), tag("span", now), setting, tag("span", saved, *marks)
        ),
        tag("div", *_inside(service, nodes, numbers, abilities), class_="inside"),
        class_="service",
        data_saved=str(service.gain),
        data_crossing=str(service.now.weight),
        data_in_zone=str(-1.0 if service.in_zone is None else 1.0 - service.in_zone),
        data_overload=str(-1.0 if service.max_overload is None else service.max_overload),
    )


def _inside(
    service: ServiceReport, nodes: Sequence[NodeTraffic], numbers: ReportNumbers, abilities: ClusterAbilities
) -> Iterator[Content]:
    if service.in_zone is not None:
        expected = ""
        if service.expected_in_zone is not None:
            expected = f"; of what is in force {service.expected_in_zone:.0%} is predicted"
        busiest = ""
        if service.max_overload is not None:
            busiest = f". The busiest endpoint is at {whole_percent(service.max_overload)}"
        yield tag("p", f"{service.in_zone:.0%} of its traffic stays in its zone{expected}{busiest}.")
    label = f"Settings of {name_of(service.key)}"
    rows = [_setting_row(setting, service, numbers, abilities) for setting in service.settings]
    head = ("setting", *_heads(numbers), "saved", "\N{PLUS-MINUS SIGN}", "busiest", "reason")
    yield table(head, [rows], label=label, class_="plain settings")
    if not nodes:
        return
    yield from nodes_of_service(honored_traffic(nodes), name_of(service.key))


def _setting_row(
    setting: SettingReport, service: ServiceReport, numbers: ReportNumbers, abilities: ClusterAbilities
) -> Markup:
    whole = service.whole
    marks: list[Content] = [
        tag("span", words, class_=mark)
        for words, mark in marks_of(setting, service, better="better with the controller")
    ]
    saved = ("-", "") if setting.saved is None else (
        numbers.value(setting.saved, whole), numbers.margin(setting.saved, whole))  # fmt: skip
    worst = "-" if setting.max_overload is None else whole_percent(setting.max_overload)
    cells = (*numbers.cells(setting.crossing, whole), *saved, worst)
    reason = tag("td", *((_listed(marks), ": ") if marks else ()), setting.message)
    return tag(
        "tr",
        tag("th", title_of(setting.approach, abilities), scope="row"),
        *(tag("td", cell) for cell in cells),
        reason,
    )


# --- nodes ------------------------------------------------------------------------------------------------------------


def _honored(report: TrafficReport) -> Iterator[Content]:
    judged = [node for nodes in report.node_traffic.values() for node in nodes if node.predicted is not None]
    deviating = report.deviating()
    if not judged:
        yield tag("p", "The input has no EndpointSlices of these Services: nothing is predicted of what is in force.")
    elif not deviating:
        nodes = counted(len({traffic_.node for traffic_ in judged}), "node")
        yield tag("p", f"Yes: nothing on {nodes} differs from it by more than chance explains.")
    else:
        yield tag(
            "p", f"{counted(len(deviating), 'node')} do not. Perhaps its proxy ignores hints, or has old endpoints."
        )
        rows = [
            _node_row(traffic_, describe_node(key, traffic_))
            for services in deviating.values()
            for key, traffic_ in services
        ]
        yield _node_table(rows, "Nodes that do not do what is predicted")


def nodes_of_service(measured: HonoredTraffic, title: str) -> Iterator[Content]:
    """A table of nodes with what each measured, for a page that has `NODES_STYLE`."""
    shown = measured.first(_MOST_NODES)
    if len(shown) < len(measured.nodes):
        yield tag("p", f"{len(shown)} of {len(measured.nodes)} nodes; -o json has all.")
    yield _node_table(
        [_node_row(node_traffic, _verdict(node_traffic)) for node_traffic in shown], f"Nodes with traffic to {title}"
    )


def _verdict(node: NodeTraffic) -> Content:
    if node.deviates is None:
        return "nothing is predicted" if node.predicted is None else "as predicted"
    return tag("span", describe_deviation(node), class_="bad")


def _node_row(node: NodeTraffic, words: Content) -> Markup:
    predicted = node.predicted_in_zone
    return tag(
        "tr",
        tag("th", name(node.node), scope="row"),
        tag("td", name(node.zone or "no zone")),
        tag("td", f"{node.connections:,}"),
        tag("td", "-" if node.in_zone is None else f"{node.in_zone:.0%}"),
        tag("td", "-" if predicted is None else f"{predicted:.0%}"),
        tag("td", words),
    )


def _node_table(rows: Sequence[Markup], label: str) -> Markup:
    head = ("node", "zone", "connections", "stays", "predicted", "")
    return table(head, [rows], label=label, class_="plain nodes")
