"""The picture of ``explain``: zones as they use endpoints now, the endpoints by their zone, and on the right the same
zones as they would use them. Zones and endpoints once where nothing changes, or only one of both is known.

One SVG for pages and as a separate file: narrow enough for a telephone, with colours for light and dark.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zoneward.advice.dropped_traffic import format_dropped
from zoneward.advice.explanation import Explanation, FamilyExplanation, ServiceTraffic, ZoneTraffic
from zoneward.advice.measured_flows import ZonePair
from zoneward.report.html import Markup, joined, tag
from zoneward.report.plan_table import short_names

_WIDTH: Final = 480
_BOX, _GAP = 124, 16
_LEFT, _MIDDLE, _RIGHT = 6, (_WIDTH - _BOX) // 2, _WIDTH - 6 - _BOX
_TOP, _FOOTER = 66, 56
_TITLE: Final = 34
_THICKEST: Final = 22.0
"""The stroke of all traffic."""
COLOURS: Final = 6
"""Classes of zones in `PICTURE_STYLE`: ``z0`` and so on."""
_LONGEST: Final = 10
"""Characters of a zone's name."""
_SHORT: Final = 5
"""Characters of a name that has room for a word before it."""
_TOO_MUCH: Final = 0.2
_MANY_TIMES: Final = 10.0
"""Loads from which on a box says how many times a fair one they are: percents would be too wide."""
_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, 'Liberation Sans', sans-serif"
_ZONE_STYLES: Final = "\n".join(
    f".flows .z{index} {{ stroke: var(--z{index}); }} .flows text.z{index} {{ fill: var(--z{index}); stroke: none; }}"
    for index in range(COLOURS)
)
PICTURE_STYLE: Final = (
    """
.flows { --ink: #1f2328; --soft: #59636e; --panel: #f3f5f7; --rule: #c8d0d8; --high: #cf222e;
  --z0: #0067a5; --z1: #b85400; --z2: #1a7f37; --z3: #8250df; --z4: #a40e68; --z5: #57606a; }
@media screen and (prefers-color-scheme: dark) {
  .flows { --ink: #e6edf3; --soft: #9aa4af; --panel: #1c2128; --rule: #3d444d; --high: #ff7b72;
    --z0: #6cb6ff; --z1: #f0a050; --z2: #57ab5a; --z3: #b392f0; --z4: #f47cc0; --z5: #adbac7; }
}
.flows text { fill: var(--ink); font-size: 14px; }
.flows .name { font-size: 15px; font-weight: 600; }
.flows .load { font-size: 12.5px; }
.flows .soft { fill: var(--soft); }
.flows .high { fill: var(--high); font-weight: 600; }
.flows .end { text-anchor: end; }
.flows .middle { text-anchor: middle; }
.flows rect { fill: var(--panel); stroke-width: 1.5; }
.flows path { fill: none; stroke-opacity: .65; }
"""
    + _ZONE_STYLES
    + "\n"
)
_ALONE: Final = """
svg { background: #ffffff; }
@media screen and (prefers-color-scheme: dark) { svg { background: #0d1117; } }
"""


def explanation_picture(explanation: Explanation) -> str:
    """The pictures of all address families below each other, as one SVG file."""
    pictures = [family_picture(explanation, family) for family in explanation.families]
    heights = [picture_height(family) for family in explanation.families]
    title = explanation.name
    tops = [sum(heights[:index]) for index in range(len(heights))]
    body = [
        tag("svg", picture, x="0", y=str(top), width=str(_WIDTH), height=str(height), viewBox=f"0 0 {_WIDTH} {height}")
        for picture, top, height in zip(pictures, tops, heights, strict=True)
    ] or [tag("text", title, x="6", y="24", class_="name")]
    whole = tag(
        "svg",
        tag("title", title),
        tag("style", Markup(_ALONE + PICTURE_STYLE)),
        tag("g", joined(body), class_="flows"),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {sum(heights) or 40}",
        preserveAspectRatio="xMidYMin meet",
        role="img",
        font_family=_FONT,
        style="max-width: 960px",
    )
    return f"{whole.html}\n"


def picture_element(explanation: Explanation, family: FamilyExplanation) -> Markup:
    """The picture of one address family for a page that has `PICTURE_STYLE`."""
    return tag(
        "svg",
        family_picture(explanation, family),
        class_="flows",
        # The page has its own title.
        viewBox=f"0 {_TITLE} {_WIDTH} {picture_height(family) - _TITLE}",
        role="img",
        aria_label=_described(family),
    )


@dataclass(frozen=True, slots=True)
class _Layout:
    """Positions of boxes. ``is_single``: zones are on the left and endpoints on the right; else endpoints are in the
    middle, with a line more for their two loads.
    """

    is_single: bool

    @property
    def height(self) -> int:
        return 66 if self.is_single else 84

    @property
    def endpoints(self) -> int:
        """The left edge of the boxes of endpoints."""
        return _RIGHT if self.is_single else _MIDDLE

    def top(self, row: int) -> int:
        return _TOP + row * (self.height + _GAP)

    def bottom(self, zones: int) -> int:
        return self.top(max(1, zones) - 1) + self.height


def picture_height(family: FamilyExplanation) -> int:
    return _Layout(_only_state(family) is not None).bottom(len(_zones(family))) + _FOOTER


def _only_state(family: FamilyExplanation) -> tuple[str, ServiceTraffic | None] | None:
    """The only state to show, with its title; None where now and planned differ."""
    now, planned = family.traffic_now, family.traffic_planned
    if family.changes_nothing:
        return "now, and planned the same", planned
    if now is None:
        return "planned; now is not known", planned
    return ("now; nothing is planned", now) if planned is None else None


def family_picture(explanation: Explanation, family: FamilyExplanation) -> Markup:
    """The content of an SVG element of `_WIDTH` and `picture_height`."""
    zones = _zones(family)
    only = _only_state(family)
    layout = _Layout(only is not None)
    names = dict(zip(zones, short_names(zones), strict=True))
    now = family.traffic_now
    planned = family.traffic_planned
    title = explanation.name
    if len(explanation.families) > 1:
        title += f" {family.address_type}"
    parts = [svg_text(_LEFT, 22, cut_middle(title, 56), "name")]
    if only is not None:
        sides = [(_LEFT, "", only[1])]
        parts.append(svg_text(_LEFT, 52, only[0], "soft"))
        parts.append(svg_text(_RIGHT + _BOX, 52, "endpoints and load", "soft end"))
        parts += _flows(zones, only[1], _LEFT + _BOX, _RIGHT, layout)
    else:
        sides = [(_LEFT, "", now), (_RIGHT, " end", planned)]
        parts.append(svg_text(_LEFT, 52, "now", "soft"))
        parts.append(svg_text(_WIDTH // 2, 52, "endpoints and load", "soft middle"))
        parts.append(svg_text(_RIGHT + _BOX, 52, "planned", "soft end"))
        parts += _flows(zones, now, _LEFT + _BOX, _MIDDLE, layout)
        parts += _flows(zones, planned, _RIGHT, _MIDDLE + _BOX, layout)
    for row, zone in enumerate(zones):
        colour = f"z{row % COLOURS}"
        name = cut_middle(names[zone], _LONGEST) or "no zone"
        for x, _, traffic in sides:
            words = _describe_clients(traffic.zones.get(zone) if traffic else None)
            parts += zone_box(x, layout.top(row), (_BOX, layout.height), colour, name, words)
        states = [traffic.zones.get(zone) if traffic else None for _, _, traffic in sides]
        parts += _endpoint_box(row, layout, colour, name, states)
    bottom = layout.bottom(len(zones))
    for x, anchor, traffic in sides:
        first, second = _results(traffic)
        high = " high" if traffic is not None and traffic.dropped_traffic else ""
        at = x + _BOX if anchor else x
        parts.append(svg_text(at, bottom + 26, first, f"name{anchor}{high}"))
        parts.append(svg_text(at, bottom + 46, second, f"soft{anchor}"))
    return joined(parts)


def _zones(family: FamilyExplanation) -> list[str]:
    traffics = (family.traffic_now, family.traffic_planned)
    return sorted({zone for traffic in traffics if traffic is not None for zone in traffic.zones})


def _describe_clients(zone: ZoneTraffic | None) -> list[tuple[str, str]]:
    if zone is None:
        return [("not known", "soft")]
    if not zone.demand:
        return [("no clients", "soft")]
    stays = "unknown" if zone.in_zone is None else f"{zone.in_zone:.0%} stays"
    return [(f"{zone.demand:.0%} of traffic", ""), (stays, "" if zone.in_zone else "soft")]


def zone_box(
    x: int, top: int, size: tuple[int, int], colour: str, name: str, words: Iterable[tuple[str, str]]
) -> Iterator[Markup]:
    """A zone with at most two lines of words, each with its class, for a picture with `PICTURE_STYLE`."""
    width, height = size
    yield tag("rect", x=str(x), y=str(top), width=str(width), height=str(height), rx="6", class_=colour)
    top += (height - 66) // 2
    yield svg_text(x + 9, top + 21, _named("zone", name), f"name {colour}")
    for y, (line, class_) in zip((40, 57), words, strict=False):
        yield svg_text(x + 9, top + y, line, class_)


def _named(word: str, name: str) -> str:
    return f"{word} {name}" if len(name) <= _SHORT else name


def _endpoint_box(
    row: int, layout: _Layout, colour: str, name: str, states: list[ZoneTraffic | None]
) -> Iterator[Markup]:
    located = next((state.located for state in reversed(states) if state is not None), 0)
    top, left = layout.top(row), layout.endpoints
    middle = left + _BOX // 2
    yield tag("rect", x=str(left), y=str(top), width=str(_BOX), height=str(layout.height), rx="22", class_=colour)
    words = "1 endpoint" if located == 1 else f"{located} endpoints"
    yield svg_text(middle, top + 20, words, "middle" if located else "soft middle")
    yield svg_text(middle, top + 38, _named("in", name), f"name middle {colour}")
    rows = (("", 57),) if layout.is_single else (("now ", 56), ("planned ", 73))
    for (label, y), state in zip(rows, states, strict=True):
        if state is not None and state.load is not None:
            high = "high" if state.load - 1 > _TOO_MUCH else "soft"
            size = " load" if label else ""
            yield svg_text(middle, top + y, f"{label}{load_text(state.load)}", f"{high} middle{size}")


def _flows(zones: list[str], traffic: ServiceTraffic | None, start: int, end: int, layout: _Layout) -> Iterator[Markup]:
    if traffic is not None:
        middles = [layout.top(row) + layout.height / 2 for row in range(len(zones))]
        yield from flow_lines(_widths(traffic), zones, middles, start, end)


def flow_lines(
    widths: Mapping[ZonePair, float],
    zones: Sequence[str],
    middles: Sequence[float],
    start: int,
    end: int,
    *,
    marks_stays: bool = False,
) -> Iterator[Markup]:
    """A line for each pair, from the box of one zone at ``start`` to that of another at ``end``, as thick as its width.
    Lines do not overlap at their ends. ``middles`` are those of the boxes. ``marks_stays``: lines within a zone have
    the class ``stays``, and are below the others.
    """
    middle_of = dict(zip(zones, middles, strict=True))
    leaving, arriving = (
        {zone: -sum(width for pair, width in widths.items() if pair[side] == zone) / 2 for zone in zones}
        for side in (0, 1)
    )
    bend = (start + end) / 2
    staying: list[Markup] = []
    others: list[Markup] = []
    for pair, width in widths.items():
        y = middle_of[pair[0]] + leaving[pair[0]] + width / 2
        to = middle_of[pair[1]] + arriving[pair[1]] + width / 2
        leaving[pair[0]] += width
        arriving[pair[1]] += width
        path = f"M{start} {y:.4g}C{bend:g} {y:.4g} {bend:g} {to:.4g} {end} {to:.4g}"
        stays = marks_stays and pair[0] == pair[1]
        class_ = "stays" if stays else f"z{zones.index(pair[0]) % COLOURS}"
        (staying if stays else others).append(tag("path", d=path, stroke_width=f"{width:.3g}", class_=class_))
    yield from (*staying, *others)


def _widths(traffic: ServiceTraffic) -> dict[ZonePair, float]:
    return {
        (zone, end_zone): max(0.75, _THICKEST * 2 * figures.demand * share)
        for zone, figures in traffic.zones.items()
        for end_zone, share in figures.to.items()
        if figures.demand * share > 1e-6 and end_zone in traffic.zones
    }


def _results(traffic: ServiceTraffic | None) -> tuple[str, str]:
    if traffic is None or traffic.max_overload is None:
        return "not known", ""
    in_zone = traffic.in_zone_traffic
    stays = "in its zone: unknown" if in_zone is None else f"{in_zone:.0%} stays in its zone"
    if traffic.dropped_traffic:
        return f"{format_dropped(traffic.dropped_traffic)} is dropped", stays if traffic.served else ""
    return stays, f"busiest endpoint {_above_fair(traffic.max_overload)}"


def _described(family: FamilyExplanation) -> str:
    only = _only_state(family)
    if only is not None:
        title, traffic = only
        return f"Zones and endpoints. {title.capitalize()}: {_result_text(traffic)}."
    now = family.traffic_now
    return f"Zones, endpoints, zones. Now: {_result_text(now)}. Planned: {_result_text(family.traffic_planned)}."


def _result_text(traffic: ServiceTraffic | None) -> str:
    return ", ".join(filter(None, _results(traffic)))


def load_text(load: float) -> str:
    """A load in a box: its difference from a fair one, or a multiple where percents are too wide."""
    return _above_fair(load - 1) if load < _MANY_TIMES else f"\N{MULTIPLICATION SIGN}{load:.0f}"


def _above_fair(overload: float) -> str:
    return f"{overload:+.0%}".replace("-0%", "+0%").replace("-", "\N{MINUS SIGN}")


def cut_middle(text: str, most: int) -> str:
    """At most ``most`` characters: the end of a name says as much as its beginning."""
    return text if len(text) <= most else f"{text[: most - 1 - most // 2]}…{text[-(most // 2) :]}"


def svg_text(x: float, y: float, words: str, class_: str = "") -> Markup:
    """Words at a position, for a picture with `PICTURE_STYLE`."""
    return tag("text", words, x=f"{x:g}", y=f"{y:g}", **({"class_": class_} if class_ else {}))
