"""``report -o html``: what traffic between zones costs, for those who pay and for those who change it.

The page needs no network. Its one script hides the Services that do not match what is typed into the search field;
without it everything else is there, and the field is not.
"""

from collections.abc import Iterator
from typing import Final

from zoneward.advice.cluster_abilities import ClusterAbilities
from zoneward.advice.honored_traffic import honored_traffic
from zoneward.advice.prices import BYTES_IN_GB
from zoneward.advice.traffic_report import ServiceReport, TrafficReport
from zoneward.report.comparison_report import name_of, title_of
from zoneward.report.flow_picture import FLOW_STYLE, flow_picture, largest_flows
from zoneward.report.html import DARK_STYLE, Content, Markup, Source, fact, footer, name, page, table, tag
from zoneward.report.table_parts import NOTES_STYLE, SEARCH_SCRIPT, SEARCH_STYLE, TEXT_STYLE, search_field
from zoneward.report.terminal_text import Text, whole_percent
from zoneward.report.traffic_table import (
    ReportNumbers,
    describe_measuring,
    describe_node,
    explain_figures,
    format_number,
    node_table,
    setting_table,
    total_table,
)
from zoneward.routing.phrases import counted

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
td.words:last-child { min-width: 14rem; max-width: 30rem; }
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
        tag("dl", *_facts(numbers), class_="facts large"),
        *(tag("p", line) for line in describe_measuring(report)),
        *_flows(report, numbers),
        tag("h2", "What each setting would do"),
        total_table(numbers, abilities).as_element("Settings for all Services"),
        tag("h2", "Services"),
        *_services(numbers, abilities),
        tag("h2", "Do nodes do what is predicted?"),
        *_honored(report),
        tag("h2", "How to read it"),
        tag("ul", *(tag("li", line) for line in (*explain_figures(numbers), *_MORE)), class_="notes"),
        footer("zoneward report -o html"),
        style=f"{DARK_STYLE}{FLOW_STYLE}{TEXT_STYLE}{SEARCH_STYLE}{NOTES_STYLE}{_STYLE}",
        script=SEARCH_SCRIPT + _SCRIPT if report.services else "",
    )


def _facts(numbers: ReportNumbers) -> Iterator[Markup]:
    report, totals = numbers.report, numbers.report.totals
    now, saved = totals.now, totals.best.saved
    unit = f" {numbers.currency}" if numbers.currency else " GB" if numbers.has_bytes else ""

    amount = f"; {format_number(now.amount.value / BYTES_IN_GB)} GB" if numbers.currency else ""
    yield fact(
        "leaves its zone in a month" if numbers.has_bytes else "leaves its zone",
        f"{numbers.value(now)}{unit}",
        f"\N{PLUS-MINUS SIGN}{numbers.margin(now)}{amount}",
    )
    share = f"; {saved.weight / now.weight:.0%} of it" if now.weight else ""
    yield fact(
        "could be saved",
        f"{numbers.value(saved)}{unit}",
        f"\N{PLUS-MINUS SIGN}{numbers.margin(saved)}{share}",
    )
    if now.whole.value:
        stays = f"{1 - now.amount.value / now.whole.value:.0%}"
        yield fact("stays in its zone", stays, f"of {counted(totals.services, 'Service')}")
    coverage = report.coverage
    hours = f"{report.measured.longest:.3g} h" if report.measured.longest else ""
    yield fact("measured on", f"{coverage.measured} of {counted(coverage.nodes, 'node')}", hours)


def _flows(report: TrafficReport, numbers: ReportNumbers) -> Iterator[Content]:
    flows = largest_flows(report.totals.flows, _MOST_ZONES)
    if not flows:
        return
    whole = report.totals.now.whole.value
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


# --- Services ---------------------------------------------------------------------------------------------------------


def _services(numbers: ReportNumbers, abilities: ClusterAbilities) -> Iterator[Content]:
    report = numbers.report
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
    rows = [_service(service, numbers, abilities) for service in report.services]
    yield tag("div", *rows[:_MOST_SERVICES], class_="services")
    if left := rows[_MOST_SERVICES:]:
        more = tag("summary", f"{len(left):,} more")
        yield tag("details", more, tag("div", *left, class_="services"), class_="others")


def _service(service: ServiceReport, numbers: ReportNumbers, abilities: ClusterAbilities) -> Markup:
    best, now = service.setting(service.best), service.now
    unit = f" {numbers.currency}" if numbers.currency else " GB" if numbers.has_bytes else " leaves its zone"
    if best is None or best.saved is None:
        setting, saved = tag("span", "nothing to save"), tag("span")
    else:
        asked = " (asked for)" if best.approach == service.asks_for else ""
        setting = tag("span", f"{title_of(best.approach, abilities)}{asked}")
        words = f"saves {numbers.value(best.saved)} \N{PLUS-MINUS SIGN}{numbers.margin(best.saved)}"
        saved = tag("span", words, class_="green")
    deviating = sum(node.deviates is not None for node in service.nodes)
    marks = [tag("span", f"not as predicted on {counted(deviating, 'node')}", class_="red")] if deviating else []
    return tag(
        "details",
        tag(
            "summary",
            tag("strong", name(name_of(service.key))),
            tag("span", f"now {numbers.value(now.crossing)}{unit}"),
            setting,
            tag("span", saved, *marks),
        ),
        tag("div", *_inside(service, numbers, abilities), class_="inside"),
        class_="service",
        data_saved=str(service.gain),
        data_crossing=str(now.crossing.weight),
        data_in_zone=str(-1.0 if now.in_zone is None else 1.0 - now.in_zone),
        data_overload=str(-1.0 if service.overload is None else service.overload),
    )


def _inside(service: ServiceReport, numbers: ReportNumbers, abilities: ClusterAbilities) -> Iterator[Content]:
    now, title = service.now, name_of(service.key)
    if now.in_zone is not None:
        expected = busiest = ""
        if now.predicted_in_zone is not None:
            expected = f"; of what is in force {now.predicted_in_zone:.0%} is predicted"
        if now.max_overload is not None:
            busiest = f". The busiest endpoint is at {whole_percent(now.max_overload)}"
        yield tag("p", f"{now.in_zone:.0%} of its traffic stays in its zone{expected}{busiest}.")
    yield setting_table(service, numbers, abilities).as_element(f"Settings of {title}")
    if not service.nodes:
        return
    shown = honored_traffic(service.nodes).first(_MOST_NODES)
    if len(shown) < len(service.nodes):
        yield tag("p", f"{len(shown)} of {len(service.nodes)} nodes; -o json has all.")
    yield node_table(shown).as_element(f"Nodes with traffic to {title}")


def _honored(report: TrafficReport) -> Iterator[Content]:
    judged = {node.node for nodes in report.node_traffic.values() for node in nodes if node.predicted is not None}
    deviating = report.deviating()
    if not judged:
        yield tag("p", "The input has no EndpointSlices of these Services: nothing is predicted of what is in force.")
    elif not deviating:
        nodes = counted(len(judged), "node")
        yield tag("p", f"Yes: nothing on {nodes} differs from it by more than chance explains.")
    else:
        what = f"{counted(len(deviating), 'node')} do not. Perhaps its proxy ignores hints, or has old endpoints."
        yield tag("p", what)
        of_node = [(node, describe_node(key, node)) for services in deviating.values() for key, node in services]
        words = (Text(text, "yellow") for _, text in of_node)
        nodes_and_words = node_table((node for node, _ in of_node), lambda _: next(words))
        yield nodes_and_words.as_element("Nodes that do not do what is predicted")
