"""The tables of a simulation's page: one for each thing that was asked for, in one encoding."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from zoneward.report.markup import Content, Markup, name, table, tag
from zoneward.routing.simulation_results import BOUND, CREDITS, Band, Difference, Means, Quantiles, WorstRow

CREDIT_NAMES: Final = ("total", "in-zone", "max overload", "mean overload", "overload", "slices")
"""The proposal's columns, as it calls them."""
_NOTHING: Final = "-"


def best_of(means: Sequence[Means]) -> Means | None:
    """The one with the highest total, where there are others to compare with."""
    scored = [each for each in means if each.credits is not None and each.algorithm != BOUND]
    return max(scored, key=lambda each: (each.credits or {})["total"]) if len(scored) > 1 else None


def number(value: float, digits: int = 2) -> str:
    """With thousands set apart; never a zero with a sign."""
    return f"{round(value, digits) + 0.0:,.{digits}f}"


def means_table(means: Sequence[Means], *, rows: int, label: str) -> Markup:
    """The proposal's table, and how often each algorithm is ahead."""
    best = best_of(means)
    fell_back = any(each.fell_back for each in means)
    counted = (("wins", "ties") if best else ()) + (("fell back",) if fell_back else ())
    body = []
    for each in means:
        cells = _credits(each, bold=each is best)
        for column in counted:
            count = {"wins": each.wins, "ties": each.ties, "fell back": each.fell_back}[column]
            if each.algorithm == BOUND:
                cells += [tag("td"), tag("td", class_="share")]
            elif each.credits is None:
                cells += [tag("td", _NOTHING), tag("td", class_="share")]
            else:
                share = (tag("small", f"{count / max(rows, 1):.1%}"),) if count else ()
                cells += [tag("td", f"{count:,}"), tag("td", *share, class_="share")]
        body.append(_row(each, cells))
    shares = (each for column in counted for each in (column, ""))
    return table(("algorithm", *CREDIT_NAMES, *shares), [body], label=label)


def bands_table(bands: Sequence[tuple[Band, Sequence[Means]]], *, label: str) -> Markup:
    """Totals by band, a column for each band."""
    best = [best_of(means) for _, means in bands]
    by_algorithm: dict[str, dict[int, Means]] = {}
    for column, (_, means) in enumerate(bands):
        for each in means:
            by_algorithm.setdefault(each.algorithm, {})[column] = each
    body = []
    for found in by_algorithm.values():
        cells = [
            _total(found[column], bold=found[column] is best[column]) if column in found else tag("td", _NOTHING)
            for column in range(len(bands))
        ]
        body.append(_row(next(iter(found.values())), cells))
    head = [
        tag("span", band.name, tag("small", f"{band.rows:,} {_inputs(band.rows)}"), class_="whole") for band, _ in bands
    ]
    return table(("algorithm", *head), [body], label=label)


def bands_in_full(bands: Sequence[tuple[Band, Sequence[Means]]], *, label: str) -> Markup:
    """All credits by band."""
    bodies = []
    for band, means in bands:
        best = best_of(means)
        title = tag("tr", tag("th", f"{band.name}: {band.rows:,} {_inputs(band.rows)}", colspan="7", scope="rowgroup"))
        bodies.append([title, *(_row(each, _credits(each, bold=each is best)) for each in means)])
    return table(("algorithm", *CREDIT_NAMES), bodies, label=label)


def differences_table(differences: Sequence[Difference], *, label: str) -> Markup:
    """Row minus column for all pairs, both ways round."""
    names = list(dict.fromkeys(each for pair in differences for each in (pair.algorithm, pair.other)))
    by_pair = {}
    for each in differences:
        by_pair[each.algorithm, each.other] = (each.mean, each.low, each.high)
        by_pair[each.other, each.algorithm] = (-each.mean, -each.high, -each.low)
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


def quantiles_table(quantiles: Sequence[Quantiles], *, label: str) -> Markup:
    """For each share all algorithms, so that they are compared where it matters."""
    bodies = []
    for share in sorted({share for each in quantiles for share in each.by_share}):
        found = [(each, each.by_share[share]) for each in quantiles if share in each.by_share]
        most = max(values["total"] for _, values in found)
        said = f"{share * 100:g}% of the inputs have at most"
        body = [tag("tr", tag("th", said, colspan="7", scope="rowgroup"))]
        for each, values in found:
            cells = [
                tag("td", tag("strong", number(values[credit])))
                if credit == "total" and values[credit] == most and len(found) > 1
                else tag("td", number(values[credit]))
                for credit in CREDITS
            ]
            body.append(tag("tr", tag("th", name(each.algorithm), scope="row"), *cells))
        bodies.append(body)
    return table(("algorithm", *CREDIT_NAMES), bodies, label=label)


def worst_table(worst: Sequence[WorstRow], *, label: str) -> Markup:
    """The lowest rows of each algorithm."""
    bodies = []
    for algorithm, rows in groupby(worst, key=lambda each: each.algorithm):
        body = [tag("tr", tag("th", name(algorithm), colspan="4", scope="rowgroup"))]
        for each in rows:
            nodes, endpoints = (" ".join(map(str, counts)) for counts in (each.nodes, each.endpoints))
            # Where inputs have no names of their own, they are called by their numbers.
            place = () if each.name == str(each.row + 1) else (tag("small", f"no. {each.row + 1:,}"),)
            cells = (tag("td", number(each.total)), tag("td", nodes), tag("td", endpoints))
            body.append(tag("tr", tag("th", name(each.name), *place, scope="row"), *cells))
        bodies.append(body)
    return table(("input", "total", "nodes", "endpoints"), bodies, label=label, class_="inputs")


def _row(means: Means, cells: Sequence[Markup]) -> Markup:
    bound = {"class_": "bound"} if means.algorithm == BOUND else {}
    return tag("tr", tag("th", name(means.algorithm), scope="row"), *cells, **bound)


def _credits(means: Means, *, bold: bool) -> list[Markup]:
    if means.credits is None:
        return [tag("td", _NOTHING) for _ in CREDITS]
    return [_total(means, bold=bold), *(tag("td", number(means.credits[credit])) for credit in CREDITS[1:])]


def _total(means: Means, *, bold: bool) -> Markup:
    said: Content = _NOTHING if means.credits is None else number(means.credits["total"])
    return tag("td", tag("strong", said) if bold else said)


def _inputs(rows: int) -> str:
    return "input" if rows == 1 else "inputs"
