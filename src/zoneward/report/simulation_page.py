"""A simulation as one HTML page, which needs no script and no network."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from zoneward.report.html import DARK_STYLE, Content, Markup, fact, footer, joined, name, page, tag
from zoneward.report.simulation_report import (
    Encoded,
    bands_table,
    encodings_of,
    find_best,
    heading,
    legend,
    means_table,
    quantiles_table,
    with_encoding,
    worst_table,
)
from zoneward.report.table_parts import TEXT_STYLE, Table
from zoneward.report.terminal_text import StyledText, Text
from zoneward.routing.simulation_results import BOUND, HINTS, SLICE_GROUPS, WEIGHTS, Band, Difference, Simulation

_NAMES: Final = {SLICE_GROUPS: "Slice groups", HINTS: "Hints", WEIGHTS: "Weights"}
_COLUMNS: Final = (
    "IN-ZONE: the share of all requests that stay in the zone where they start, in percent.",
    (
        "MAX OVERLOAD: 100 less the overload of the busiest endpoint in percent. 100: none has more than a fair load. "
        "50: one has half as much again. Below 0: one has more than twice a fair load."
    ),
    "MEAN OVERLOAD: 100 less what the loads of endpoints are away from a fair one on average, in percent.",
    "OVERLOAD: the mean of those two.",
    "SLICES: the fewest possible EndpointSlices over their number, in percent. Hints need no more than that: 100.",
)
_BOUND: Final = f"{BOUND}: the most in-zone traffic without overload, and the fewest slices."
_DIFFERENCES: Final = (
    "How much more the algorithm of the row scores in total than that of the column, on the same inputs. Below it the "
    "interval that holds it with 95% confidence, if the inputs are a sample of many more. Green: the row is ahead. "
    "Red: the column is."
)
_JOINTS: Final = (
    "Each square holds the inputs for which the two algorithms have these totals. Above the red line the algorithm "
    "with its name at the left is ahead, below it the one with its name underneath."
)
_SPREADS: Final = (
    "The higher the hill, the more inputs have that total; all hills have the same height. The bar underneath "
    "holds 90% of the inputs, the dot on it is the median."
)
_ENCODINGS: Final = {
    SLICE_GROUPS: "Slice groups: each group of endpoints has its EndpointSlices, which its zones use.",
    HINTS: "Hints: all endpoints stay in common EndpointSlices; hints say which zone uses which.",
    WEIGHTS: "Weights: every endpoint has a fair load, and as much traffic stays in its zone as that allows.",
}
_Value = TypeVar("_Value", bound=Encoded)

_STYLE: Final = """
@media screen and (prefers-color-scheme: dark) {
  /* Plots have dark ink: they stay on white. */
  figure svg { background: #fff; border-radius: 6px; }
  .partial { background: #3b1216; color: #ffc9c5; border-color: #ff8e86; }
}
"""


def simulation_page(simulation: Simulation, *, command: str = "") -> str:
    """The page. ``command`` is the command that created it, if known."""
    sections = tuple(_sections(simulation))
    title = f"Simulation: {simulation.dataset}"
    links = (tag("a", section.title, href=f"#{section.key}") for section in sections)
    return page(
        f"PARTIAL: {title}" if simulation.partial else title,
        tag("h1", "Simulation: ", name(simulation.dataset)),
        tag("p", tag("strong", f"{heading(simulation)}."), " The rest may be different.", class_="partial", role="note")
        if simulation.partial
        else tag("p", f"{heading(simulation)}."),
        tag("dl", *_facts(simulation, command), class_="facts"),
        *_highlights(simulation),
        tag("nav", *links, aria_label="Contents") if sections else tag("p", "No input was scored."),
        *(tag("section", tag("h2", section.title), *section.content, id=section.key) for section in sections),
        footer("zoneward simulate", ". For programs: ", tag("code", "-o json"), " or ", tag("code", "-o csv"), "."),
        style=f"{DARK_STYLE}{TEXT_STYLE}{_STYLE}",
    )


def _facts(simulation: Simulation, command: str) -> Iterator[Markup]:
    yield fact("seed", str(simulation.seed))
    if command:
        words = (tag("span", word) for word in command.split(" "))
        yield tag("div", tag("dt", "command"), tag("dd", tag("code", joined(words, between=" "))))


def _highlights(simulation: Simulation) -> Iterator[Markup]:
    lines = []
    for encoding in encodings_of(simulation):
        means = with_encoding(simulation.means, encoding)
        best = find_best(means)
        if best is None or best.credits is None:
            continue
        bounds = [mean.credits["total"] for mean in means if mean.algorithm == BOUND and mean.credits is not None]
        limit = f"; the bound is {bounds[0]:z,.2f}" if bounds else ""
        reached = (best.wins + best.ties) / max(simulation.rows, 1)
        lines.append(
            tag(
                "li",
                f"{_encoding_name(encoding)}: ",
                tag("strong", name(best.algorithm)),
                f" has the best mean total, {best.credits['total']:z,.2f}{limit}. "
                f"For {reached:.1%} of the inputs no other has a higher one.",
            )
        )
    if lines:
        yield tag("ul", *lines, class_="short")


# --- sections ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PageSection:
    """A section; links lead to its ``key``."""

    key: str
    title: str
    content: tuple[Content, ...]


def _encoding_name(encoding: str) -> str:
    return _NAMES.get(encoding, encoding)


def _sections(simulation: Simulation) -> Iterator[PageSection]:
    if not simulation.means:
        return

    lead, *notes = legend(simulation)
    notes += _COLUMNS
    if any(mean.algorithm == BOUND for mean in simulation.means):
        notes.append(_BOUND)
    if len(encodings_of(simulation)) > 1:
        notes += (_ENCODINGS[encoding] for encoding in encodings_of(simulation))
    below = tag("ul", *(tag("li", line) for line in notes), class_="notes")
    yield _tables("Scores", lead, simulation, simulation.means, partial(means_table, inputs=simulation.rows), below)
    yield from _by_size(simulation)
    if simulation.plots.spreads:
        yield PageSection("spreads", "Distribution", (tag("p", _SPREADS), _figures(simulation, "spreads")))
    if simulation.differences:
        yield _tables("Differences", _DIFFERENCES, simulation, simulation.differences, _differences_table)
    if simulation.plots.joints:
        yield _pairs(simulation)
    if simulation.quantiles:
        lead = "The credits that a share of the inputs does not reach. Means hide this."
        yield _tables("Quantiles", lead, simulation, simulation.quantiles, partial(quantiles_table, is_page=True))
    if simulation.worst:
        lead = "The lowest totals of each algorithm, and for which nodes and endpoints in each zone."
        yield _tables("Worst inputs", lead, simulation, simulation.worst, partial(worst_table, is_page=True))


def _tables(
    title: str,
    lead: str,
    simulation: Simulation,
    values: Sequence[_Value],
    table_of: Callable[[Sequence[_Value]], Table],
    *more: Markup,
) -> PageSection:
    content: list[Content] = [tag("p", lead)]
    for encoding in encodings_of(simulation):
        mine = with_encoding(values, encoding)
        if mine:
            label = f"{title}, {_encoding_name(encoding)}"
            content += [_heading(simulation, encoding), table_of(mine).as_element(label)]
    return PageSection(title.lower().replace(" ", "-"), title, (*content, *more))


def _heading(simulation: Simulation, encoding: str) -> Markup:
    return tag("h3", _encoding_name(encoding)) if len(encodings_of(simulation)) > 1 else Markup("")


def _by_size(simulation: Simulation) -> Iterator[PageSection]:
    """Curves are by the number of endpoints; bands are too, or by zones."""
    by_zones = simulation.by == "zones"
    curves = (_figures(simulation, "curves"),) if simulation.plots.curves else ()
    bands = tuple(_bands(simulation, "zones" if by_zones else "endpoints")) if simulation.bands else ()
    lead = tag("p", "Mean totals: what is best for large Services need not be for small ones.")
    if by_zones:
        yield PageSection("zones", "By number of zones", bands)
        bands = ()
    if curves or bands:
        yield PageSection("endpoints", "By number of endpoints", (lead, *curves, *bands))


def _bands(simulation: Simulation, what: str) -> Iterator[Content]:
    full = []
    for encoding in encodings_of(simulation):
        title, of_encoding = _heading(simulation, encoding), _encoding_name(encoding)
        yield title
        yield _totals_table(simulation.bands, encoding).as_element(f"Totals by {what}, {of_encoding}")
        table = bands_table(simulation.bands, encoding, is_page=True)
        full += [title, table.as_element(f"All credits by {what}, {of_encoding}")]
    yield tag("details", tag("summary", "All credits of each band"), *full)


def _totals_table(bands: Sequence[Band], encoding: str) -> Table:
    """A column for each band, and a row for each algorithm."""
    cells: dict[str, list[StyledText]] = {}
    for column, band in enumerate(bands):
        means = with_encoding(band.means, encoding)
        best = find_best(means)
        for mean in means:
            row = cells.setdefault(mean.algorithm, [Text(mean.algorithm), *(Text("-") for _ in bands)])
            if mean.credits is not None:
                row[column + 1] = Text(f"{mean.credits['total']:z.2f}", "bold" if mean is best else "")
    columns = [f"{band.name}: {band.rows:,} {'input' if band.rows == 1 else 'inputs'}" for band in bands]
    return Table(("ALGORITHM", *columns), [*cells.values()], columns, units=columns)


# --- pictures ---------------------------------------------------------------------------------------------------------


def _figures(simulation: Simulation, what: str) -> Markup:
    """A picture for each encoding, side by side if there is room."""
    # Imported late, so that a page without pictures needs no matplotlib.
    from zoneward.report.plots import curve_plot, spread_plot

    order = tuple(dict.fromkeys(mean.algorithm for mean in simulation.means if mean.algorithm != BOUND))
    figures = []
    for encoding in encodings_of(simulation):
        look: dict[str, Any] = {"order": order, "key": f"{what}-{encoding}"}
        if what == "curves":
            curves = simulation.plots.curves
            svg = curve_plot(with_encoding(curves, encoding), among=curves, **look)
        else:
            spreads = simulation.plots.spreads
            svg = spread_plot(with_encoding(spreads, encoding), among=spreads, **look)
        figures.append(tag("figure", _heading(simulation, encoding), Markup(svg)))
    return tag("div", *figures, class_="plots")


def _pairs(simulation: Simulation) -> PageSection:
    from zoneward.report.plots import against, count_key, joint_plot, pairs_to_show

    content: list[Content] = [tag("p", _JOINTS)]
    for encoding in encodings_of(simulation):
        joints = with_encoding(simulation.plots.joints, encoding)
        totals = {
            mean.algorithm: mean.credits["total"] for mean in with_encoding(simulation.means, encoding) if mean.credits
        }
        shown = pairs_to_show(joints, totals)
        if not shown:
            continue
        most = max((rows for joint in shown for _, _, rows in joint.cells), default=1)
        figures = [
            tag(
                "figure",
                Markup(joint_plot(joint, most=most, key=f"pair-{encoding}-{index}")),
                tag(
                    "figcaption",
                    tag("strong", name(joint.algorithm)),
                    " against ",
                    tag("strong", name(joint.other)),
                    f". {against(joint)}.",
                ),
            )
            for index, joint in enumerate(shown)
        ]
        content.append(_heading(simulation, encoding))
        if len(shown) < len(joints):
            content.append(tag("p", f"{len(shown)} of {len(joints)} pairs: ", name(shown[0].algorithm), " and others."))
        content.append(tag("figure", Markup(count_key(most, key=f"key-{encoding}")), class_="key"))
        content.append(tag("div", *figures, class_="pairs"))
    return PageSection("pairs", "Algorithm against algorithm", tuple(content))


# --- differences ------------------------------------------------------------------------------------------------------


def _differences_table(differences: Sequence[Difference]) -> Table:
    """Row minus column for all pairs, both ways round."""
    names = list(dict.fromkeys(label for pair in differences for label in (pair.algorithm, pair.other)))
    by_pair = {}
    for difference in differences:
        mean, low, high = difference.mean, difference.low, difference.high
        by_pair[difference.algorithm, difference.other] = _difference(mean, low, high)
        by_pair[difference.other, difference.algorithm] = _difference(-mean, -high, -low)
    rows = [[Text(one), *(by_pair.get((one, other), Text("\u00b7", "dim")) for other in names)] for one in names]
    return Table(("ROW - COLUMN", *names), rows, names, units=names)


def _difference(mean: float, low: float, high: float) -> Text:
    style = "green" if low > 0 else "red" if high < 0 else "default"
    return Text(_signed(mean), style).append(f" {_signed(low)} to {_signed(high)}", "small")


def _signed(value: float) -> str:
    value = round(value, 3)
    return f"{value:+,.3f}" if value else "0.000"
