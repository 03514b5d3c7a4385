"""``report -o html``: what traffic between zones costs, for those who pay and for those who change it.

The page needs no network. Its one script hides the Services that do not match what is typed into the search field;
without it everything else is there, and the field is not.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from zoneward.advice.cluster_abilities import ClusterAbilities
from zoneward.advice.honored_traffic import honored_traffic
from zoneward.advice.measured_flows import ZonePair
from zoneward.advice.prices import BYTES_IN_GB
from zoneward.advice.traffic_report import ServiceReport, TrafficReport
from zoneward.report.comparison_report import name_of, title_of
from zoneward.report.explain_picture import COLOURS, PICTURE_STYLE, cut_middle, flow_lines, svg_text, zone_box
from zoneward.report.html import DARK_STYLE, Content, Markup, Source, fact, footer, joined, name, page, table, tag
from zoneward.report.plan_table import short_names
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


# --- the picture ------------------------------------------------------------------------------------------------------


_WIDTH: Final = 480
_BOX, _HEIGHT, _GAP, _TOP = 132, 66, 16, 34
_LEFT, _RIGHT = 6, _WIDTH - 6 - _BOX
_THICKEST: Final = 60.0
"""The stroke of all traffic; lines of one box must fit into its height."""
_LEAST: Final = 0.75
_LONGEST: Final = 12
"""Characters of a zone's name."""
FLOW_STYLE: Final = PICTURE_STYLE + ".flows path.stays { stroke: var(--soft); stroke-opacity: .3; }\n"


_OTHERS: Final = "other zones"


def largest_flows(flows: Mapping[ZonePair, float], most: int) -> dict[ZonePair, float]:
    """The flows that are any, with zones beyond the ``most`` that have the most traffic taken together."""
    amounts: dict[str, float] = {}
    for (start, end), amount in flows.items():
        for zone in {start, end}:
            amounts[zone] = amounts.get(zone, 0.0) + amount
    ordered = sorted(amounts, key=lambda zone: (-amounts[zone], zone))
    own = set(ordered if len(ordered) <= most else ordered[: most - 1])
    merged: dict[ZonePair, float] = {}
    for (start, end), amount in flows.items():
        if amount:
            pair = start if start in own else _OTHERS, end if end in own else _OTHERS
            merged[pair] = merged.get(pair, 0.0) + amount
    return merged


def flow_picture(flows: Mapping[ZonePair, float], *, described: str, total: str) -> Markup:
    """An SVG element for a page that has `FLOW_STYLE`. ``described`` is the text for those who do not see it, ``total``
    is what all of it is."""
    zones = sorted({zone for pair in flows for zone in pair})
    names = dict(zip(zones, short_names(zones), strict=True))
    whole = sum(flows.values()) or 1.0
    parts = [
        svg_text(_LEFT, 20, "traffic starts in", "soft"),
        svg_text(_RIGHT + _BOX, 20, "its endpoints are in", "soft end"),
        *_lines(zones, flows, whole),
    ]
    for row, zone in enumerate(zones):
        own = flows.get((zone, zone), 0.0)
        sent = sum(amount for (start, _), amount in flows.items() if start == zone)
        got = sum(amount for (_, end), amount in flows.items() if end == zone)
        label, colour = cut_middle(names[zone], _LONGEST), f"z{row % COLOURS}"
        for x, whole_of_zone, verb in ((_LEFT, sent, "stays"), (_RIGHT, got, "from here")):
            words = [(f"{whole_of_zone / whole:.0%} of traffic", "")]
            if whole_of_zone:
                words.append((f"{own / whole_of_zone:.0%} {verb}", "soft"))
            parts += zone_box(x, _top(row), (_BOX, _HEIGHT), colour, label, words)
    height = _top(max(1, len(zones))) - _GAP + 30
    parts.append(svg_text(_LEFT, height - 6, total, "soft"))
    return tag("svg", joined(parts), class_="flows", viewBox=f"0 0 {_WIDTH} {height}", role="img", aria_label=described)


def _top(row: int) -> int:
    return _TOP + row * (_HEIGHT + _GAP)


def _lines(zones: list[str], flows: Mapping[ZonePair, float], whole: float) -> Iterator[Markup]:
    """A line for each flow, as thick as it is; those that leave their zone are above the others."""
    scale = _scale(zones, flows, whole)
    widths = {pair: max(_LEAST, amount * scale) for pair, amount in sorted(flows.items()) if amount}
    middles = [_top(row) + _HEIGHT / 2 for row in range(len(zones))]
    return flow_lines(widths, zones, middles, _LEFT + _BOX, _RIGHT, marks_stays=True)


def _scale(zones: list[str], flows: Mapping[ZonePair, float], whole: float) -> float:
    """Strokes of an amount: the busiest box is as full as it may be."""
    most = max(
        (
            sum(amount for pair, amount in flows.items() if pair[end] == zone) / whole
            for zone in zones
            for end in (0, 1)
        ),
        default=1.0,
    )
    return _THICKEST / (most or 1.0) / whole
