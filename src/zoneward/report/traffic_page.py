"""``report -o html``: what traffic between zones costs, for those who pay and for those who change it.

The page needs no network. Its one script offers search and order of the Services, without which everything else is
there.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from zoneward.advice.cluster_abilities import ClusterAbilities
from zoneward.advice.measured_flows import ZonePair
from zoneward.advice.prices import BYTES_IN_GB
from zoneward.advice.traffic_report import TrafficReport
from zoneward.report.explain_picture import COLOURS, PICTURE_STYLE, cut_middle, flow_lines, svg_text, zone_box
from zoneward.report.html import DARK_STYLE, Content, Markup, Source, fact, footer, joined, page, tag
from zoneward.report.plan_table import short_names
from zoneward.report.table_parts import PARTS_SCRIPT, PARTS_STYLE, Table
from zoneward.report.terminal_text import Text
from zoneward.report.traffic_table import (
    ReportNumbers,
    describe_measuring,
    describe_node,
    format_number,
    node_table,
    total_table,
    traffic_parts,
)
from zoneward.routing.phrases import counted

_MOST_ZONES: Final = 12
"""Zones in the picture: those with the most traffic."""
_STYLE: Final = "figure.picture { max-width: 760px; margin: 1rem 0; }\n"


def traffic_page(
    report: TrafficReport, abilities: ClusterAbilities, *, source: Source, only_changed: bool = False
) -> str:
    """The whole page."""
    numbers = ReportNumbers(report)
    parts = traffic_parts(report, abilities, is_page=True, only_changed=only_changed)
    nothing = "No Service would change." if report.totals.services else "None of the Services was measured."
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
        *(parts.as_elements("Services") if parts.rows else [tag("p", nothing)]),
        tag("h2", "Do nodes do what is predicted?"),
        *_honored(report),
        tag("h2", "How to read it"),
        parts.notes(),
        footer("zoneward report -o html"),
        style=f"{DARK_STYLE}{FLOW_STYLE}{PARTS_STYLE}{_STYLE}",
        script=PARTS_SCRIPT if parts.rows else "",
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
    unit = "GB a month" if numbers.has_bytes else "share of connections"
    columns = (f"from, {unit}", *(f"to {zone}" for zone in zones))
    rows = [[Text(start), *(Text(amount(start, end)) for end in zones)] for start in zones]
    grid = Table(columns, rows, columns[1:], units=columns).as_element(f"From zone to zone, {unit}")
    yield tag("details", tag("summary", "The figures of the picture"), grid)


def _honored(report: TrafficReport) -> Iterator[Content]:
    judged = {node.node for nodes in report.node_traffic.values() for node in nodes if node.predicted is not None}
    deviating = report.deviating()
    if not judged:
        yield tag("p", "The input has no EndpointSlices of these Services: nothing is predicted of what is in force.")
    elif not deviating:
        nodes = counted(len(judged), "node")
        yield tag("p", f"Yes: nothing on {nodes} differs from it by more than chance explains.")
    else:
        verb = "does" if len(deviating) == 1 else "do"
        what = f"{counted(len(deviating), 'node')} {verb} not. Perhaps a proxy ignores hints, or has old endpoints."
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
_LONGEST: Final = 11
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
