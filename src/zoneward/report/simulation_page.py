"""A simulation as one HTML page, which needs no script and no network."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Protocol, TypeVar

from zoneward.report.html import DARK_STYLE, Content, Markup, footer, joined, name, page, table, tag
from zoneward.report.simulation_report import encodings_of, find_best, has_gaps
from zoneward.routing.simulation_results import (
    BOUND,
    CREDITS,
    HINTS,
    SLICE_GROUPS,
    WEIGHTS,
    Band,
    Difference,
    Means,
    Quantiles,
    Simulation,
    WorstRow,
)

_NAMES: Final = {SLICE_GROUPS: "Slice groups", HINTS: "Hints", WEIGHTS: "Weights"}
_COLUMNS: Final = {
    "total": "KEP-2004's score: 45% in-zone, 20% max overload, 20% mean overload, 15% slices.",
    "in-zone": "The share of all requests that stay in the zone where they start, in percent.",
    "max overload": "100 less the overload of the busiest endpoint in percent. 100: none has more than a fair load. "
    "50: one has half as much again. Below 0: one has more than twice a fair load.",
    "mean overload": "100 less what the loads of endpoints are away from a fair one on average, in percent.",
    "overload": "The mean of those two.",
    "slices": "The fewest possible EndpointSlices over the number of EndpointSlices, in percent. Hints need no more "
    "than that: 100.",
}
_WINS: Final = "Inputs for which no other algorithm here has as high a total."
_TIES: Final = "Inputs for which it shares the highest total with others."
_FELL_BACK: Final = "Inputs for which some zone reaches no endpoint of its groups, and uses all."
_BOUND: Final = "No algorithm can exceed it: the most in-zone traffic without overload, and the fewest slices."
_NO_WEIGHTS: Final = "The algorithm gives groups weights, which hints can't express."
_DIFFERENCES: Final = (
    "How much more the algorithm of the row scores in total than that of the column, on the same inputs. Below it the "
    "interval that holds it with 95% confidence, if the inputs are a sample of many more. Blue: the row is ahead. "
    "Orange: the column is."
)
_JOINTS: Final = (
    "Each square holds the inputs for which the two algorithms have these totals. Above the red line the algorithm "
    "with its name at the left is ahead, below it the one with its name underneath."
)
_SPREADS: Final = (
    "The higher the hill, the more inputs have that total; all hills have the same height. The bar underneath "
    "holds 90% of the inputs, the dot on it is the median."
)
CREDIT_NAMES: Final = ("total", "in-zone", "max overload", "mean overload", "overload", "slices")
"""The proposal's columns, as it calls them."""
_ENCODINGS: Final = {
    SLICE_GROUPS: "Each group of endpoints has its EndpointSlices, which its zones use.",
    HINTS: "All endpoints stay in common EndpointSlices; hints say which zone uses which.",
    WEIGHTS: "Zoneward's proxy weighs zones: every endpoint has a fair load, and as much traffic stays in its zone as "
    "that allows.",
}
_GAP: Final = "gap"
_NOTHING: Final = "-"

_STYLE: Final = """
@media screen and (prefers-color-scheme: dark) {
  /* Plots have dark ink: they stay on white. */
  figure svg { background: #fff; border-radius: 6px; }
  td.more { background: #12324f; }
  td.less { background: #4a2f14; }
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
        *_partial(simulation),
        _facts(simulation, command),
        *_highlights(simulation),
        tag("nav", *links, aria_label="Contents") if sections else tag("p", "No input was scored."),
        *(tag("section", tag("h2", section.title), *section.content, id=section.key) for section in sections),
        footer("zoneward simulate", ". For programs: ", tag("code", "-o json"), " or ", tag("code", "-o csv"), "."),
        style=f"{DARK_STYLE}{_STYLE}",
    )


def _partial(simulation: Simulation) -> Iterator[Markup]:
    if simulation.partial:
        seen = f"{simulation.rows + simulation.unscored:,} of {simulation.of:,}"
        yield tag(
            "p",
            tag("strong", "PARTIAL RESULT"),
            f"The run was stopped early: these results are of the first {seen} inputs. The rest may be different.",
            class_="partial",
            role="note",
        )


def _facts(simulation: Simulation, command: str) -> Markup:
    facts: list[tuple[str, Content]] = [
        ("dataset", name(simulation.dataset)),
        ("inputs", f"{simulation.rows:,}" + (f" of {simulation.of:,}, partial" if simulation.partial else "")),
    ]
    if simulation.of < simulation.whole:
        facts.append(("a sample of", f"{simulation.whole:,}"))
    if simulation.unscored:
        facts.append(("not scored: no endpoint or no node", f"{simulation.unscored:,}"))
    facts.append(("seed", str(simulation.seed)))
    if command:
        words = (tag("span", word) for word in command.split(" "))
        facts.append(("command", tag("code", joined(words, between=" "))))
    return tag("dl", *(tag("div", tag("dt", what), tag("dd", value)) for what, value in facts), class_="facts")


def _highlights(simulation: Simulation) -> Iterator[Markup]:
    lines = []
    for encoding in encodings_of(simulation):
        means = _with_encoding(simulation.means, encoding)
        best = find_best(means)
        if best is None or best.credits is None:
            continue
        bounds = [mean.credits["total"] for mean in means if mean.algorithm == BOUND and mean.credits is not None]
        limit = f"; the bound is {_format_number(bounds[0])}" if bounds else ""
        reached = (best.wins + best.ties) / max(simulation.rows, 1)
        lines.append(
            tag(
                "li",
                f"{_encoding_name(encoding)}: ",
                tag("strong", name(best.algorithm)),
                f" has the best mean total, {_format_number(best.credits['total'])}{limit}. "
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


class _Encoded(Protocol):
    @property
    def encoding(self) -> str: ...


_Value = TypeVar("_Value", bound=_Encoded)


def _encoding_name(encoding: str) -> str:
    return _NAMES.get(encoding, encoding)


def _with_encoding(values: Sequence[_Value], encoding: str) -> tuple[_Value, ...]:
    return tuple(value for value in values if value.encoding == encoding)


def _sections(simulation: Simulation) -> Iterator[PageSection]:
    if not simulation.means:
        return

    def scores(means: Sequence[Means], *, label: str) -> Markup:
        return _means_table(means, rows=simulation.rows, label=label)

    yield _tables("Scores", "Means of credits over all inputs, of 100: more is better.",
                  simulation, simulation.means, scores, _legend(simulation.means))  # fmt: skip
    yield from _by_size(simulation)
    if simulation.plots.spreads:
        yield PageSection("spreads", "Distribution", (tag("p", _SPREADS), _figures(simulation, "spreads")))
    if simulation.differences:
        yield _tables("Differences", _DIFFERENCES, simulation, simulation.differences, _differences_table)
    if simulation.plots.joints:
        yield _pairs(simulation)
    if simulation.quantiles:
        lead = "The credits that a share of the inputs does not reach. Means hide this."
        yield _tables("Quantiles", lead, simulation, simulation.quantiles, _quantiles_table)
    if simulation.worst:
        lead = "The lowest totals of each algorithm, and for which nodes and endpoints in each zone."
        yield _tables("Worst inputs", lead, simulation, simulation.worst, _worst_table)


def _tables(
    title: str,
    lead: str,
    simulation: Simulation,
    values: Sequence[_Value],
    made: Callable[..., Markup],
    *more: Markup,
) -> PageSection:
    content: list[Content] = [tag("p", lead)]
    for encoding in encodings_of(simulation):
        mine = _with_encoding(values, encoding)
        if mine:
            label = f"{title}, {_encoding_name(encoding)}"
            content += [_heading(simulation, encoding), made(mine, label=label)]
    return PageSection(title.lower().replace(" ", "-"), title, (*content, *more))


def _heading(simulation: Simulation, encoding: str) -> Markup:
    return tag("h3", _encoding_name(encoding)) if len(encodings_of(simulation)) > 1 else Markup("")


def _legend(means: Sequence[Means]) -> Markup:
    words = dict(_COLUMNS)
    if find_best(means):
        words |= {"wins": _WINS, "ties": _TIES}
    if any(mean.fell_back for mean in means):
        words["fell back"] = _FELL_BACK
    if any(mean.algorithm == BOUND for mean in means):
        words[BOUND] = _BOUND
    if has_gaps(means):
        words[_GAP] = "What the mean total lacks to the bound."
    if any(mean.credits is None for mean in means):
        words["-"] = _NO_WEIGHTS
    encodings = {mean.encoding for mean in means}
    if len(encodings) > 1:
        words |= {
            _NAMES[encoding].lower(): meaning for encoding, meaning in _ENCODINGS.items() if encoding in encodings
        }
    items = (item for word, meaning in words.items() for item in (tag("dt", word), tag("dd", meaning)))
    return tag("dl", *items, class_="legend")


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
        bands = [(band, _with_encoding(band.means, encoding)) for band in simulation.bands]
        heading = _heading(simulation, encoding)
        yield heading
        yield _bands_table(bands, label=f"Totals by {what}, {_encoding_name(encoding)}")
        full += [heading, _full_bands_table(bands, label=f"All credits by {what}, {_encoding_name(encoding)}")]
    yield tag("details", tag("summary", "All credits of each band"), *full)


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
            svg = curve_plot(_with_encoding(curves, encoding), among=curves, **look)
        else:
            spreads = simulation.plots.spreads
            svg = spread_plot(_with_encoding(spreads, encoding), among=spreads, **look)
        figures.append(tag("figure", _heading(simulation, encoding), Markup(svg)))
    return tag("div", *figures, class_="plots")


def _pairs(simulation: Simulation) -> PageSection:
    from zoneward.report.plots import against, count_key, joint_plot, pairs_to_show

    content: list[Content] = [tag("p", _JOINTS)]
    for encoding in encodings_of(simulation):
        joints = _with_encoding(simulation.plots.joints, encoding)
        totals = {
            mean.algorithm: mean.credits["total"] for mean in _with_encoding(simulation.means, encoding) if mean.credits
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


# --- tables, in one encoding ------------------------------------------------------------------------------------------


def _format_number(value: float) -> str:
    """With thousands set apart; never a zero with a sign."""
    return f"{round(value, 2) + 0.0:,.2f}"


def _means_table(means: Sequence[Means], *, rows: int, label: str) -> Markup:
    """The proposal's table, and how often each algorithm is ahead."""
    best = find_best(means)
    fell_back = any(mean.fell_back for mean in means)
    counted = (("wins", "ties") if best else ()) + (("fell back",) if fell_back else ())
    gaps = has_gaps(means)
    body = []
    for mean in means:
        cells = [*_credits(mean, bold=mean is best), *((_gap(mean),) if gaps else ())]
        for column in counted:
            count = {"wins": mean.wins, "ties": mean.ties, "fell back": mean.fell_back}[column]
            if mean.algorithm == BOUND:
                cells += [tag("td"), tag("td", class_="share")]
            elif mean.credits is None:
                cells += [tag("td", _NOTHING), tag("td", class_="share")]
            else:
                share = (tag("small", f"{count / max(rows, 1):.1%}"),) if count else ()
                cells += [tag("td", f"{count:,}"), tag("td", *share, class_="share")]
        body.append(_row(mean, cells))
    shares = (head for column in counted for head in (column, ""))
    return table(("algorithm", *CREDIT_NAMES, *((_GAP,) if gaps else ()), *shares), [body], label=label)


def _bands_table(bands: Sequence[tuple[Band, Sequence[Means]]], *, label: str) -> Markup:
    best = [find_best(means) for _, means in bands]
    by_algorithm: dict[str, dict[int, Means]] = {}
    for column, (_, means) in enumerate(bands):
        for mean in means:
            by_algorithm.setdefault(mean.algorithm, {})[column] = mean
    body = []
    for by_band in by_algorithm.values():
        cells = [
            _total(by_band[column], bold=by_band[column] is best[column]) if column in by_band else tag("td", _NOTHING)
            for column in range(len(bands))
        ]
        body.append(_row(next(iter(by_band.values())), cells))
    head = [
        tag("span", band.name, tag("small", f"{band.rows:,} {_inputs(band.rows)}"), class_="whole") for band, _ in bands
    ]
    return table(("algorithm", *head), [body], label=label)


def _full_bands_table(bands: Sequence[tuple[Band, Sequence[Means]]], *, label: str) -> Markup:
    bodies = []
    for band, means in bands:
        best = find_best(means)
        title = tag("tr", tag("th", f"{band.name}: {band.rows:,} {_inputs(band.rows)}", colspan="7", scope="rowgroup"))
        bodies.append([title, *(_row(mean, _credits(mean, bold=mean is best)) for mean in means)])
    return table(("algorithm", *CREDIT_NAMES), bodies, label=label)


def _differences_table(differences: Sequence[Difference], *, label: str) -> Markup:
    """Row minus column for all pairs, both ways round."""
    names = list(dict.fromkeys(label for pair in differences for label in (pair.algorithm, pair.other)))
    by_pair = {}
    for difference in differences:
        by_pair[difference.algorithm, difference.other] = (difference.mean, difference.low, difference.high)
        by_pair[difference.other, difference.algorithm] = (-difference.mean, -difference.high, -difference.low)
    body = []
    for one in names:
        cells = [
            _difference(*by_pair[one, other]) if (one, other) in by_pair else tag("td", "\u00b7", class_="self")
            for other in names
        ]
        body.append(tag("tr", tag("th", name(one), scope="row"), *cells))
    return table(("row - column", *map(name, names)), [body], label=label, class_="tight")


def _difference(mean: float, low: float, high: float) -> Markup:
    shade = {"class_": "more"} if low > 0 else {"class_": "less"} if high < 0 else {}
    return tag("td", _signed(mean), tag("small", f"{_signed(low)} to {_signed(high)}"), **shade)


def _signed(value: float) -> str:
    value = round(value, 3)
    return f"{value:+,.3f}" if value else "0.000"


def _quantiles_table(quantiles: Sequence[Quantiles], *, label: str) -> Markup:
    """For each share all algorithms, so that they are compared where it matters."""
    bodies = []
    for share in sorted({share for quantile in quantiles for share in quantile.by_share}):
        shown = [(quantile, quantile.by_share[share]) for quantile in quantiles if share in quantile.by_share]
        most = max(values["total"] for _, values in shown)
        heading = f"{share * 100:g}% of the inputs have at most"
        body = [tag("tr", tag("th", heading, colspan="7", scope="rowgroup"))]
        for quantile, values in shown:
            cells = [
                tag("td", tag("strong", _format_number(values[credit])))
                if credit == "total" and values[credit] == most and len(shown) > 1
                else tag("td", _format_number(values[credit]))
                for credit in CREDITS
            ]
            body.append(tag("tr", tag("th", name(quantile.algorithm), scope="row"), *cells))
        bodies.append(body)
    return table(("algorithm", *CREDIT_NAMES), bodies, label=label)


def _worst_table(worst: Sequence[WorstRow], *, label: str) -> Markup:
    bodies = []
    for algorithm, rows in groupby(worst, key=lambda row: row.algorithm):
        body = [tag("tr", tag("th", name(algorithm), colspan="4", scope="rowgroup"))]
        for row in rows:
            nodes, endpoints = (" ".join(map(str, counts)) for counts in (row.nodes, row.endpoints))
            # Inputs without names are named by their numbers.
            row_number = () if row.name == str(row.row + 1) else (tag("small", f"no. {row.row + 1:,}"),)
            cells = (tag("td", _format_number(row.total)), tag("td", nodes), tag("td", endpoints))
            body.append(tag("tr", tag("th", name(row.name), *row_number, scope="row"), *cells))
        bodies.append(body)
    return table(("input", "total", "nodes", "endpoints"), bodies, label=label, class_="inputs")


def _row(means: Means, cells: Sequence[Markup]) -> Markup:
    bound = {"class_": "bound"} if means.algorithm == BOUND else {}
    return tag("tr", tag("th", name(means.algorithm), scope="row"), *cells, **bound)


def _credits(means: Means, *, bold: bool) -> list[Markup]:
    if means.credits is None:
        return [tag("td", _NOTHING) for _ in CREDITS]
    return [_total(means, bold=bold), *(tag("td", _format_number(means.credits[credit])) for credit in CREDITS[1:])]


def _gap(means: Means) -> Markup:
    if means.algorithm == BOUND:
        return tag("td")
    return tag("td", _NOTHING if means.gap_to_bound is None else _format_number(means.gap_to_bound))


def _total(means: Means, *, bold: bool) -> Markup:
    content: Content = _NOTHING if means.credits is None else _format_number(means.credits["total"])
    return tag("td", tag("strong", content) if bold else content)


def _inputs(rows: int) -> str:
    return "input" if rows == 1 else "inputs"
