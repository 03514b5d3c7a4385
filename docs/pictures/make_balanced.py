"""Draws small Services for which other approaches fail, beside what Balanced makes of them as hints.

    python docs/pictures/make_balanced.py

In the middle are the endpoints, coloured by their zone, with the load that each of them gets, above or below fair. On
the left are the zones with the other approach, on the right the same zones with Balanced. The thicker a line, the more
of its zone's traffic goes to this endpoint.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from zoneward.routing.algorithms.set_value import SCORE
from zoneward.routing.allocation import Counts
from zoneward.routing.balanced_decision import SetsRequest, best_allocation, cluster_wide
from zoneward.routing.configuration import ZoneCosts, cost_table

Sets = list[tuple[int, tuple[int, ...]]]
"""Endpoints: the zone where each is located, and the zones that use it."""


class Case(NamedTuple):
    """``demand`` is in percent. A zone's region is what stands before the hyphen in its name."""

    title: str
    says: str
    other: str
    spreads: bool
    """Whether the other approach has all endpoints for all zones; else each zone uses its own, as `PreferSameZone`."""
    zones: tuple[str, ...]
    demand: tuple[int, ...]
    supply: tuple[int, ...]
    costs: ZoneCosts = ZoneCosts()


SAMPLE: Final = ("a", "b", "c"), (40, 32, 28)
CASES: Final = {
    "balanced-auto.svg": Case(
        "Two endpoints for three zones",
        "Auto gives no hints with fewer endpoints than zones. Balanced lets zone c share.",
        "Auto: no hints",
        True,
        *SAMPLE,
        (1, 1, 0),
    ),
    "balanced-overload.svg": Case(
        "One endpoint in a, seven in b",
        "PreferSameZone gives half of all traffic to one of eight endpoints. Balanced gives zone a three of b's.",
        "PreferSameZone",
        False,
        ("a", "b"),
        (50, 50),
        (1, 7),
    ),
    "balanced-subsetting.svg": Case(
        "Eight endpoints for three zones",
        "Subsetting starts at twelve endpoints (three for each zone, and three). Balanced has no such threshold.",
        "Subsetting: not yet",
        True,
        *SAMPLE,
        (4, 2, 2),
    ),
    "balanced-regions.svg": Case(
        "Two regions, and no endpoint in us-b",
        "PreferSameZone spreads us-b over both regions. Balanced, with costs, keeps every request in its region.",
        "PreferSameZone",
        False,
        ("eu-a", "eu-b", "us-a", "us-b"),
        (25, 25, 25, 25),
        (2, 1, 3, 0),
        ZoneCosts(Fraction(1), Fraction(10)),
    ),
}

WIDTH, TOP, FOOTER = 760, 116, 84
BOX_WIDTH, BOX_HEIGHT, GAP, PITCH = 158, 64, 14, 34
LEFT, RIGHT = 20, WIDTH - 20 - BOX_WIDTH
MIDDLE, PILL = WIDTH / 2, 86
"""The middle of the endpoints, and how far their loads reach to each side."""
COLOURS: Final = ("#0067a5", "#b85400", "#1a7f37", "#8250df")
INK, FAINT, PAPER, PANEL, RULE, HIGH = "#1f2328", "#59636e", "#ffffff", "#f3f5f7", "#c8d0d8", "#cf222e"
FONT: Final = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, 'Liberation Sans', sans-serif"
TOO_MUCH: Final = 0.2


class Side(NamedTuple):
    """One approach: the loads of the endpoints (1 is fair), and shares of all traffic and of each zone's own."""

    sets: Sets
    loads: list[float]
    in_zone: list[float]
    cross_region: float


def request_of(case: Case) -> SetsRequest:
    regions = {zone: zone.split("-")[0] for zone in case.zones if "-" in zone}
    costs = cost_table(case.costs, case.zones, regions)
    return SetsRequest(case.zones, case.demand, case.supply, (1, 5), SCORE, costs)


def sides_of(case: Case) -> tuple[Side, Side]:
    """The other approach, and Balanced."""
    request = request_of(case)
    best = best_allocation(request)
    assert best is not None, f"Balanced finds nothing for {case.title}"
    supply = dict(zip(case.zones, case.supply, strict=True))
    empty = [zone for zone, count in supply.items() if not count]
    own = {(tuple(sorted((zone, *empty))), zone): count for zone, count in supply.items() if count}
    other = cluster_wide(request) if case.spreads else own
    return side_of(case, other), side_of(case, best.counts)


def side_of(case: Case, counts: Counts) -> Side:
    index = {zone: position for position, zone in enumerate(case.zones)}
    sets = sorted(
        (index[located], tuple(index[zone] for zone in consumers))
        for (consumers, located), count in counts.items()
        for _ in range(count)
    )
    loads, in_zone, cross = [0.0] * len(sets), [0.0] * len(case.zones), 0.0
    for zone, percent in enumerate(case.demand):
        used = [position for position, (_, members) in enumerate(sets) if zone in members]
        for position in used:
            located = sets[position][0]
            loads[position] += len(sets) * percent / 100 / len(used)
            in_zone[zone] += (located == zone) / len(used)
            cross += percent / 100 / len(used) * (case.zones[located][:-1] != case.zones[zone][:-1])
    return Side(sets, loads, in_zone, cross)


def drawings() -> dict[str, str]:
    """Every picture by the name of its file."""
    return {name: "\n".join(picture(case)) + "\n" for name, case in CASES.items()}


def picture(case: Case) -> Iterator[str]:
    sides = sides_of(case)
    total, zones = sum(case.supply), len(case.zones)
    room = max(zones * (BOX_HEIGHT + GAP) - GAP, total * PITCH)
    space = (room - zones * BOX_HEIGHT) / (zones - 1)
    tops = [TOP + zone * (BOX_HEIGHT + space) for zone in range(zones)]
    rows = [TOP + room / 2 + PITCH * (number - (total - 1) / 2) for number in range(total)]
    height = TOP + room + FOOTER
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}"'
        f' viewBox="0 0 {WIDTH} {height:g}" role="img" font-family="{escape(FONT)}">'
    )
    yield f"<title>{escape(case.title)}</title>"
    names = (case.other, "Balanced")
    said = "; ".join(f"{name}: {', '.join(results(case, side))}" for name, side in zip(names, sides, strict=True))
    yield f"<desc>{escape(f'{case.says} {said}.')}</desc>"
    yield f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:g}" rx="8" fill="{PAPER}" stroke="{RULE}"/>'
    yield text(LEFT, 36, case.title, size=20, weight=600)
    yield text(LEFT, 60, case.says, size=13, colour=FAINT)
    yield text(LEFT, TOP - 14, case.other, size=13, weight=600)
    yield text(MIDDLE, TOP - 14, "endpoints, and their load", size=13, weight=600, anchor="middle")
    yield text(WIDTH - LEFT, TOP - 14, "Balanced, as hints", size=13, weight=600, anchor="end")
    for x, end, side in ((LEFT + BOX_WIDTH, MIDDLE - PILL, sides[0]), (RIGHT, MIDDLE + PILL, sides[1])):
        for number, (_, members) in enumerate(side.sets):
            for zone in members:
                used = sum(zone in each for _, each in side.sets)
                width = max(1.0, 3 * total * case.demand[zone] / 100 / used)
                yield line(x, tops[zone] + BOX_HEIGHT / 2, end, rows[number], COLOURS[zone], min(width, 9.0))
    for x, side in ((LEFT, sides[0]), (RIGHT, sides[1])):
        for zone, top in enumerate(tops):
            yield from box(x, top, case, zone, side)
    for number, y in enumerate(rows):
        yield from endpoint(case, sides, number, y)
    bottom = TOP + room
    yield f'<path d="M{LEFT} {bottom + 16:g}H{WIDTH - LEFT}" stroke="{RULE}"/>'
    for x, anchor, side in ((LEFT, "start", sides[0]), (WIDTH - LEFT, "end", sides[1])):
        first, *others = results(case, side)
        yield text(x, bottom + 42, first, size=16, weight=600, anchor=anchor)
        yield text(x, bottom + 64, ", ".join(others), size=13, colour=FAINT, anchor=anchor)
    yield "</svg>"


def results(case: Case, side: Side) -> list[str]:
    share = sum(percent * own for percent, own in zip(case.demand, side.in_zone, strict=True))
    sentences = [f"{share:.0f} % stays in its zone", f"worst overload {above_fair(max(side.loads))}"]
    return [*sentences, f"{side.cross_region * 100:.3g} % leaves its region"] if "-" in case.zones[0] else sentences


def above_fair(load: float) -> str:
    return f"{(load - 1) * 100:+.0f} %".replace("-0 %", "+0 %").replace("-", "\N{MINUS SIGN}")


def box(x: float, top: float, case: Case, zone: int, side: Side) -> Iterator[str]:
    """A zone: how much traffic starts there, and how much of it stays."""
    colour = COLOURS[zone]
    yield (
        f'<rect x="{x:g}" y="{top:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" fill="{PANEL}"'
        f' stroke="{colour}" stroke-width="1.5"/>'
    )
    yield text(x + 12, top + 20, f"zone {case.zones[zone]}", size=14, weight=600, colour=colour)
    yield text(x + 12, top + 38, f"{case.demand[zone]} % of traffic", size=13)
    yield text(x + 12, top + 55, f"{side.in_zone[zone] * 100:.0f} % of it stays", size=13)


def endpoint(case: Case, sides: Sequence[Side], number: int, y: float) -> Iterator[str]:
    located = sides[0].sets[number][0]
    yield (
        f'<rect x="{MIDDLE - PILL:g}" y="{y - 13:g}" width="{2 * PILL}" height="26" rx="13" fill="{PANEL}"'
        f' stroke="{COLOURS[located]}" stroke-width="1.5"/>'
    )
    yield text(MIDDLE, y + 4.5, case.zones[located], size=13, weight=600, colour=COLOURS[located], anchor="middle")
    for x, anchor, side in ((MIDDLE - PILL + 10, "start", sides[0]), (MIDDLE + PILL - 10, "end", sides[1])):
        load = side.loads[number]
        high = load - 1 > TOO_MUCH
        colour = HIGH if high else INK
        yield text(x, y + 4.5, above_fair(load), size=13, weight=600 if high else 400, colour=colour, anchor=anchor)


def line(start: float, start_y: float, end: float, end_y: float, colour: str, width: float) -> str:
    bend = (start + end) / 2
    path = f"M{start:g} {start_y:g}C{bend:g} {start_y:g} {bend:g} {end_y:g} {end:g} {end_y:g}"
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width:.3g}" stroke-opacity="0.7"/>'


def text(
    x: float, y: float, words: str, *, size: int, weight: int = 400, colour: str = INK, anchor: str = "start"
) -> str:
    anchored = "" if anchor == "start" else f' text-anchor="{anchor}"'
    heavy = "" if weight == 400 else f' font-weight="{weight}"'
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}"{heavy} fill="{colour}"{anchored}>{escape(words)}</text>'


if __name__ == "__main__":
    for name, drawing in drawings().items():
        (Path(__file__).parent / name).write_text(drawing)
