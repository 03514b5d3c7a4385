"""The sections of a simulation's page: tables and pictures, those that there is something for."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from zoneward.report.markup import Content, Markup, name, tag
from zoneward.report.score_tables import (
    bands_in_full,
    bands_table,
    best_of,
    differences_table,
    means_table,
    quantiles_table,
    worst_table,
)
from zoneward.routing.simulation_results import BOUND, ENCODINGS, HINTS, SLICE_GROUPS, Means, Simulation

_NAMES: Final = {SLICE_GROUPS: "Slice groups", HINTS: "Hints"}
_COLUMNS: Final = {
    "total": "KEP-2004's score: 45% in-zone, 20% max overload, 20% mean overload, 15% slices.",
    "in-zone": "The share of all requests that stay in the zone where they start, in percent.",
    "max overload": "100 less the overload of the busiest endpoint in percent. 100: nobody has more than a fair load. "
    "50: somebody has half as much again. Below 0: somebody has more than twice a fair load.",
    "mean overload": "100 less what the loads of endpoints are away from a fair one on average, in percent.",
    "overload": "The mean of those two.",
    "slices": "As few EndpointSlices as would do, by those that there would be, in percent. With hints no more are "
    "needed than without: 100.",
}
_WINS: Final = "Inputs for which no other algorithm here has as high a total."
_TIES: Final = "Inputs for which it shares the highest total with others."
_FELL_BACK: Final = "Inputs for which some zone reaches no endpoint of its groups, and uses all."
_BOUND: Final = (
    "What no algorithm can pass: as much in-zone traffic as there can be without overload, and not a slice too many."
)
_NO_WEIGHTS: Final = "The algorithm gives groups weights, which hints can't say."
_DIFFERENCES: Final = (
    "How much more the algorithm of the row scores in total than that of the column, on the same inputs. Below it the "
    "interval that holds it with 95% confidence, if the inputs are a sample of many more. Blue: the row is ahead. "
    "Orange: the column is."
)
_JOINTS: Final = (
    "Each square holds the inputs for which the two algorithms have these totals. Above the red line the algorithm "
    "whose name stands at the left is ahead, below it the one whose name stands underneath."
)
_SPREADS: Final = (
    "The higher the hill, the more inputs have that total; all hills are as high, however wide. The bar underneath "
    "holds 90% of the inputs, the dot on it is the median."
)


@dataclass(frozen=True, slots=True)
class Section:
    """``key`` is what links to it name."""

    key: str
    title: str
    content: tuple[Content, ...]


class _Encoded(Protocol):
    @property
    def encoding(self) -> str: ...


Value = TypeVar("Value", bound=_Encoded)


def encodings_of(simulation: Simulation) -> tuple[str, ...]:
    """In their usual order."""
    found = dict.fromkeys(each.encoding for each in simulation.means)
    return tuple(sorted(found, key=lambda each: ENCODINGS.index(each) if each in ENCODINGS else len(ENCODINGS)))


def encoding_name(encoding: str) -> str:
    return _NAMES.get(encoding, encoding)


def within(values: Sequence[Value], encoding: str) -> tuple[Value, ...]:
    return tuple(each for each in values if each.encoding == encoding)


def sections(simulation: Simulation) -> Iterator[Section]:
    """In the order in which people ask."""
    if not simulation.means:
        return

    def scores(means: Sequence[Means], *, label: str) -> Markup:
        return means_table(means, rows=simulation.rows, label=label)

    yield _tables("Scores", "Means of credits over all inputs, of 100: more is better.",
                  simulation, simulation.means, scores, _legend(simulation.means))  # fmt: skip
    yield from _by_size(simulation)
    if simulation.plots.spreads:
        yield Section("spreads", "Distribution", (tag("p", _SPREADS), _figures(simulation, "spreads")))
    if simulation.differences:
        yield _tables("Differences", _DIFFERENCES, simulation, simulation.differences, differences_table)
    if simulation.plots.joints:
        yield _pairs(simulation)
    if simulation.quantiles:
        lead = "What a share of the inputs does not reach, for each credit on its own. Means hide this."
        yield _tables("Quantiles", lead, simulation, simulation.quantiles, quantiles_table)
    if simulation.worst:
        lead = "The lowest totals of each algorithm, and for which nodes and endpoints in each zone."
        yield _tables("Worst inputs", lead, simulation, simulation.worst, worst_table)


def _tables(
    title: str,
    lead: str,
    simulation: Simulation,
    values: Sequence[Value],
    made: Callable[..., Markup],
    *more: Markup,
) -> Section:
    """A table for each encoding."""
    content: list[Content] = [tag("p", lead)]
    for encoding in encodings_of(simulation):
        mine = within(values, encoding)
        if mine:
            label = f"{title}, {encoding_name(encoding)}"
            content += [_heading(simulation, encoding), made(mine, label=label)]
    return Section(title.lower().replace(" ", "-"), title, (*content, *more))


def _heading(simulation: Simulation, encoding: str) -> Markup:
    return tag("h3", encoding_name(encoding)) if len(encodings_of(simulation)) > 1 else Markup("")


def _legend(means: Sequence[Means]) -> Markup:
    words = dict(_COLUMNS)
    if best_of(means):
        words |= {"wins": _WINS, "ties": _TIES}
    if any(each.fell_back for each in means):
        words["fell back"] = _FELL_BACK
    if any(each.algorithm == BOUND for each in means):
        words[BOUND] = _BOUND
    if any(each.credits is None for each in means):
        words["-"] = _NO_WEIGHTS
    if len({each.encoding for each in means}) > 1:
        words["slice groups"] = "Each group of endpoints has EndpointSlices of its own, which its zones use."
        words["hints"] = "All endpoints stay in common EndpointSlices; hints say which zone uses which."
    items = (each for word, said in words.items() for each in (tag("dt", word), tag("dd", said)))
    return tag("dl", *items, class_="legend")


def _by_size(simulation: Simulation) -> Iterator[Section]:
    """Curves are by the number of endpoints; bands are too, or by zones."""
    by_zones = simulation.by == "zones"
    curves = (_figures(simulation, "curves"),) if simulation.plots.curves else ()
    bands = tuple(_bands(simulation, "zones" if by_zones else "endpoints")) if simulation.bands else ()
    lead = tag("p", "Mean totals: what is best for large Services need not be for small ones.")
    if by_zones:
        yield Section("zones", "By number of zones", bands)
        bands = ()
    if curves or bands:
        yield Section("endpoints", "By number of endpoints", (lead, *curves, *bands))


def _bands(simulation: Simulation, what: str) -> Iterator[Content]:
    full = []
    for encoding in encodings_of(simulation):
        bands = [(band, within(band.means, encoding)) for band in simulation.bands]
        heading = _heading(simulation, encoding)
        yield heading
        yield bands_table(bands, label=f"Totals by {what}, {encoding_name(encoding)}")
        full += [heading, bands_in_full(bands, label=f"All credits by {what}, {encoding_name(encoding)}")]
    yield tag("details", tag("summary", "All credits of each band"), *full)


# --- pictures ---------------------------------------------------------------------------------------------------------


def _figures(simulation: Simulation, what: str) -> Markup:
    """A picture for each encoding, side by side where there is room."""
    # Only here, so that a page without pictures needs no matplotlib.
    from zoneward.report.plots import curve_plot, spread_plot

    order = tuple(dict.fromkeys(each.algorithm for each in simulation.means if each.algorithm != BOUND))
    figures = []
    for encoding in encodings_of(simulation):
        look: dict[str, Any] = {"order": order, "key": f"{what}-{encoding}"}
        if what == "curves":
            curves = simulation.plots.curves
            svg = curve_plot(within(curves, encoding), among=curves, **look)
        else:
            spreads = simulation.plots.spreads
            svg = spread_plot(within(spreads, encoding), among=spreads, **look)
        figures.append(tag("figure", _heading(simulation, encoding), Markup(svg)))
    return tag("div", *figures, class_="plots")


def _pairs(simulation: Simulation) -> Section:
    from zoneward.report.plots import against, count_key, joint_plot, pairs_to_show

    content: list[Content] = [tag("p", _JOINTS)]
    for encoding in encodings_of(simulation):
        joints = within(simulation.plots.joints, encoding)
        totals = {each.algorithm: each.credits["total"] for each in within(simulation.means, encoding) if each.credits}
        shown = pairs_to_show(joints, totals)
        if not shown:
            continue
        most = max((rows for each in shown for _, _, rows in each.cells), default=1)
        figures = [
            tag(
                "figure",
                Markup(joint_plot(each, most=most, key=f"pair-{encoding}-{number}")),
                tag(
                    "figcaption",
                    tag("strong", name(each.algorithm)),
                    " against ",
                    tag("strong", name(each.other)),
                    f". {against(each)}.",
                ),
            )
            for number, each in enumerate(shown)
        ]
        content.append(_heading(simulation, encoding))
        if len(shown) < len(joints):
            content.append(tag("p", f"{len(shown)} of {len(joints)} pairs: ", name(shown[0].algorithm), " and others."))
        content.append(tag("figure", Markup(count_key(most, key=f"key-{encoding}")), class_="key"))
        content.append(tag("div", *figures, class_="pairs"))
    return Section("pairs", "Algorithm against algorithm", tuple(content))
