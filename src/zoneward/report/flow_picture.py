"""The picture of ``report``: from which zones traffic starts, and in which zones its endpoints are."""

from collections.abc import Iterator, Mapping
from typing import Final

from zoneward.advice.measured_flows import ZonePair
from zoneward.report.explain_picture import COLOURS, PICTURE_STYLE, cut_middle, flow_lines, svg_text
from zoneward.report.html import Markup, joined, tag
from zoneward.report.plan_table import short_names

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
        label = cut_middle(names[zone], _LONGEST)
        parts += _box(_LEFT, row, label, f"{sent / whole:.0%} of traffic", "stays", own, sent)
        parts += _box(_RIGHT, row, label, f"{got / whole:.0%} of traffic", "from here", own, got)
    height = _top(max(1, len(zones))) - _GAP + 30
    parts.append(svg_text(_LEFT, height - 6, total, "soft"))
    return tag("svg", joined(parts), class_="flows", viewBox=f"0 0 {_WIDTH} {height}", role="img", aria_label=described)


def _box(x: int, row: int, name: str, first: str, verb: str, own: float, all_: float) -> Iterator[Markup]:
    colour = f"z{row % COLOURS}"
    top = _top(row)
    yield tag("rect", x=str(x), y=str(top), width=str(_BOX), height=str(_HEIGHT), rx="6", class_=colour)
    yield svg_text(x + 9, top + 21, f"zone {name}", f"name {colour}")
    yield svg_text(x + 9, top + 40, first)
    if all_:
        yield svg_text(x + 9, top + 57, f"{own / all_:.0%} {verb}", "soft")


def _top(row: int) -> int:
    return _TOP + row * (_HEIGHT + _GAP)


def _lines(zones: list[str], flows: Mapping[ZonePair, float], whole: float) -> Iterator[Markup]:
    """A line for each flow, as thick as it is; those that leave their zone are above the others."""
    scale = _scale(zones, flows, whole)
    widths = {pair: max(_LEAST, amount * scale) for pair, amount in sorted(flows.items()) if amount}
    middles = {zone: _top(row) + _HEIGHT / 2 for row, zone in enumerate(zones)}
    classes = {zone: f"z{row % COLOURS}" for row, zone in enumerate(zones)}
    lines = flow_lines(widths, middles, _LEFT + _BOX, _RIGHT)
    for (start, end), path in sorted(lines, key=lambda line: line[0][0] != line[0][1]):
        yield tag("path", **path, class_="stays" if start == end else classes[start])


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
