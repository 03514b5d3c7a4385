"""Draws what each subsetting algorithm makes of one small Service, with the allocation that clusters get.

    python docs/pictures/make.py

On the left are the zones: how much traffic starts there, and where the endpoints are. On the right are the groups:
which zones consume them, with weights where these are not 1. The colour and letter of an endpoint say where it is.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from zoneward.routing.algorithms.heuristics import REQUIRE_ZONE, SUBSETTING_ALGORITHMS, Heuristic
from zoneward.routing.allocation import Allocation, Supply, allocate, measures_of, threshold_parameters
from zoneward.routing.score import IN_ZONE, MAX_OVERLOAD
from zoneward.routing.zone_groups import ZoneGroup

ZONES: Final = ("a", "b", "c")
DEMAND: Final = (74, 14, 12)
"""Percent of the traffic that starts in each zone."""
SUPPLY: Final = (12, 1, 1)
"""Endpoints in each zone. The two zones with one each are nearly 100 % above fair if left alone."""
THRESHOLD: Final = Fraction(1, 2)

SAYS: Final = {
    "local": "A group for each zone. Whole endpoints move to zones that are far above fair, or lack a whole one.",
    "local-shared": "As local, but zones that cannot be helped one by one put their endpoints into one group.",
    "local-weighted": "Fractions of an endpoint are given by weight, so that every endpoint gets its fair part.",
    "local-opt": "What no zone needs whole serves all zones, each with a weight of 1/3.",
    "random": "One group for all zones, as without subsetting.",
    "RequireZone": "Every endpoint in the group of its own zone, whatever the load.",
}

WIDTH: Final = 700
LEFT, LEFT_WIDTH = 20, 254
RIGHT, RIGHT_WIDTH = 452, 228
TOP: Final = 116
"""Where the boxes begin."""
PITCH, RADIUS, DOTS_IN_ROW, DOTS_ASIDE = 19, 8, 7, 8
LINE, PADDING, GAP, FOOTER = 20, 10, 12, 72
COLOURS: Final = {"a": "#0067a5", "b": "#b85400", "c": "#1a7f37"}
INK, FAINT, PAPER, PANEL, RULE = "#1f2328", "#59636e", "#ffffff", "#f3f5f7", "#c8d0d8"
FONT: Final = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, 'Liberation Sans', sans-serif"


class Box(NamedTuple):
    """A zone or a group, by its place."""

    top: int
    height: int

    @property
    def middle(self) -> float:
        return self.top + self.height / 2


class Drawn(NamedTuple):
    """A group that has endpoints: who consumes it, and the zone of each of its endpoints."""

    group: ZoneGroup
    located: tuple[str, ...]


def allocation_by(heuristic: Heuristic) -> Allocation:
    """What the algorithm makes of the example."""
    allocation = allocate(
        heuristic,
        dict(zip(ZONES, DEMAND, strict=True)),
        Supply(dict(zip(ZONES, SUPPLY, strict=True))),
        parameters=threshold_parameters(THRESHOLD, THRESHOLD),
    )
    assert allocation is not None, f"{heuristic.name} has no allocation for the example"
    return allocation


def drawings() -> dict[str, str]:
    """Every picture by the name of its file."""
    return {
        f"{heuristic.name}.svg": "\n".join(picture(heuristic)) + "\n"
        for heuristic in (*SUBSETTING_ALGORITHMS.values(), REQUIRE_ZONE)
    }


def picture(heuristic: Heuristic) -> Iterator[str]:
    allocation = allocation_by(heuristic)
    groups = list(groups_of(allocation))
    homes = [(zone,) * number for zone, number in zip(ZONES, SUPPLY, strict=True)]
    zone_heights = [height_for(3, len(home)) for home in homes]
    group_heights = [height_for(len(drawn.group.zones), len(drawn.located)) for drawn in groups]
    room = max(column_height(zone_heights), column_height(group_heights))
    zone_boxes, group_boxes = stacked(zone_heights, room), stacked(group_heights, room)
    bottom = TOP + room
    measures = measures_of(allocation, dict(zip(ZONES, DEMAND, strict=True)))
    numbers = (
        (f"{measures[IN_ZONE] * 100:.0f} %", "of the traffic stays in its zone"),
        (f"+{measures[MAX_OVERLOAD] * 100:.0f} %", "worst overload"),
        (f"{len(groups)}", "EndpointSlice" if len(groups) == 1 else "EndpointSlices"),
    )
    height = bottom + FOOTER
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        f' role="img" font-family="{escape(FONT)}">'
    )
    yield f"<title>{heuristic.name}</title>"
    yield f"<desc>{escape(described(heuristic, groups, numbers))}</desc>"
    yield f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8" fill="{PAPER}" stroke="{RULE}"/>'
    yield text(LEFT, 36, heuristic.name, size=20, weight=600)
    yield text(LEFT, 60, SAYS[heuristic.name], size=13, colour=FAINT)
    yield text(LEFT, TOP - 14, "Zones, and where endpoints are", size=13, weight=600)
    yield text(RIGHT, TOP - 14, "Groups, and their consumers", size=13, weight=600)
    for drawn, box in zip(groups, group_boxes, strict=True):
        for position, (zone, weight) in enumerate(zip(drawn.group.zones, drawn.group.weights, strict=True)):
            start = zone_boxes[ZONES.index(zone)].middle
            yield arrow(start, consumer_line(box, drawn.group, position), COLOURS[zone], weight)
    for zone, demand, home, box in zip(ZONES, DEMAND, homes, zone_boxes, strict=True):
        yield from zone_drawn(zone, demand, home, box)
    for drawn, box in zip(groups, group_boxes, strict=True):
        yield from group_drawn(drawn, box)
    yield f'<path d="M{LEFT} {bottom + 18}H{WIDTH - LEFT}" stroke="{RULE}"/>'
    for x, (number, what) in zip((LEFT, 316, 552), numbers, strict=True):
        yield from numbered(x, bottom + 50, number, what)
    yield "</svg>"


def groups_of(allocation: Allocation) -> Iterator[Drawn]:
    for consumers, row in allocation.by_consumers().items():
        located = tuple(zone for zone in ZONES for _ in range(row.get(zone, 0)))
        yield Drawn(allocation.group(consumers), located)


def described(heuristic: Heuristic, groups: Sequence[Drawn], numbers: Sequence[tuple[str, str]]) -> str:
    """The picture in words, for those who do not see it."""
    parts = [
        f"{len(drawn.located)} endpoints ({', '.join(drawn.located)}) for {' and '.join(labels(drawn.group))}"
        for drawn in groups
    ]
    results = ", ".join(f"{number} {what}" for number, what in numbers)
    return f"{heuristic.name}. {SAYS[heuristic.name]} Groups: {'; '.join(parts)}. {results}."


# --- places -----------------------------------------------------------------------------------------------------------


def height_for(lines: int, dots: int) -> int:
    rows = -(-dots // DOTS_IN_ROW)
    return 2 * PADDING + max(LINE * lines, PITCH * rows)


def column_height(heights: Sequence[int]) -> int:
    return sum(heights) + GAP * (len(heights) - 1)


def stacked(heights: Sequence[int], room: int) -> list[Box]:
    """Boxes one below the other, spread over the room that there is."""
    space = (room - sum(heights)) / (len(heights) + 1)
    tops = []
    if len(heights) > 1 and space < GAP:
        space = (room - sum(heights)) / (len(heights) - 1)
        y = float(TOP)
    else:
        y = TOP + space
    for height in heights:
        tops.append(Box(round(y), height))
        y += height + space
    return tops


def consumer_line(box: Box, group: ZoneGroup, position: int) -> float:
    """The middle of a consumer's line within its group's box."""
    return box.middle + LINE * (position - (len(group.zones) - 1) / 2)


# --- drawing ----------------------------------------------------------------------------------------------------------


def zone_drawn(zone: str, demand: int, home: Sequence[str], box: Box) -> Iterator[str]:
    yield panel(LEFT, LEFT_WIDTH, box, COLOURS[zone])
    expected = sum(SUPPLY) * demand / sum(DEMAND)
    lines = (f"zone {zone}", f"{demand} % of traffic", f"expects {expected:.1f}")
    for number, words in enumerate(lines):
        y = box.middle + LINE * (number - 1) + 4.5
        if number == 0:
            yield text(LEFT + 12, y, words, size=14, weight=600, colour=COLOURS[zone])
        else:
            yield text(LEFT + 12, y, words, size=13)
    yield from dots(LEFT + LEFT_WIDTH - PITCH * DOTS_IN_ROW - DOTS_ASIDE, box, home)


def group_drawn(drawn: Drawn, box: Box) -> Iterator[str]:
    consumers = drawn.group.zones
    yield panel(RIGHT, RIGHT_WIDTH, box, COLOURS[consumers[0]] if len(consumers) == 1 else FAINT)
    for position, (zone, label) in enumerate(zip(consumers, labels(drawn.group), strict=True)):
        y = consumer_line(box, drawn.group, position) + 4.5
        yield text(RIGHT + 12, y, label, size=14, weight=600, colour=COLOURS[zone])
    yield from dots(RIGHT + RIGHT_WIDTH - PITCH * DOTS_IN_ROW - DOTS_ASIDE, box, drawn.located)


def labels(group: ZoneGroup) -> list[str]:
    """The zones that consume a group, with weights where they matter."""
    return [
        f"{zone} × {weight:.2f}" if group.weighted else zone  # noqa: RUF001 -- a real multiplication sign
        for zone, weight in zip(group.zones, group.weights, strict=True)
    ]


def dots(x: float, box: Box, located: Sequence[str]) -> Iterator[str]:
    rows = -(-len(located) // DOTS_IN_ROW)
    for number, zone in enumerate(located):
        row, column = divmod(number, DOTS_IN_ROW)
        middle_x = x + PITCH * (column + 0.5)
        middle_y = box.middle + PITCH * (row - (rows - 1) / 2)
        yield f'<circle cx="{middle_x:g}" cy="{middle_y:g}" r="{RADIUS}" fill="{COLOURS[zone]}"/>'
        yield text(middle_x, middle_y + 3.8, zone, size=11, weight=600, colour=PAPER, anchor="middle")


def panel(x: int, width: int, box: Box, colour: str) -> str:
    return (
        f'<rect x="{x}" y="{box.top}" width="{width}" height="{box.height}" rx="6" fill="{PANEL}" stroke="{colour}"'
        ' stroke-width="1.5"/>'
    )


def arrow(start: float, end: float, colour: str, weight: float) -> str:
    """From the right of a zone to the left of a group; the thicker, the larger the weight."""
    left, right = LEFT + LEFT_WIDTH, RIGHT - 9
    bend = (right - left) / 2
    curve = f"M{left} {start:g}C{left + bend:g} {start:g} {right - bend:g} {end:g} {right} {end:g}"
    head = f"M{right} {end - 5:g}L{RIGHT - 1} {end:g}L{right} {end + 5:g}Z"
    return (
        f'<path d="{curve}" fill="none" stroke="{colour}" stroke-width="{1 + 2 * weight:.3g}"/>'
        f'<path d="{head}" fill="{colour}"/>'
    )


def numbered(x: int, y: int, number: str, what: str) -> Iterator[str]:
    """A number with what it says behind it."""
    yield (
        f'<text x="{x}" y="{y}" fill="{INK}"><tspan font-size="22" font-weight="600">{escape(number)}</tspan>'
        f'<tspan dx="8" font-size="13" fill="{FAINT}">{escape(what)}</tspan></text>'
    )


def text(
    x: float, y: float, words: str, *, size: int, weight: int = 400, colour: str = INK, anchor: str = "start"
) -> str:
    anchored = "" if anchor == "start" else f' text-anchor="{anchor}"'
    heavy = "" if weight == 400 else f' font-weight="{weight}"'
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}"{heavy} fill="{colour}"{anchored}>{escape(words)}</text>'


if __name__ == "__main__":
    for name, drawing in drawings().items():
        (Path(__file__).parent / name).write_text(drawing)
