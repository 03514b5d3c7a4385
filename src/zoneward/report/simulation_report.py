"""A simulation as tables, as JSON and as CSV, and how fast it runs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from rich.console import Group, RenderableType
from rich.progress import ProgressColumn, Task

from zoneward.advice.json_value import round_if_any, round_share
from zoneward.report.comparison_report import csv_text, rounded
from zoneward.report.table_parts import Table
from zoneward.report.terminal_text import StyledText, Text, join_wrapped
from zoneward.routing.simulation_results import (
    BOUND,
    CREDITS,
    ENCODINGS,
    WEIGHTS,
    Band,
    Means,
    Quantiles,
    Simulation,
    WorstRow,
)

_HEADS: Final = ("TOTAL", "IN-ZONE", "MAX OVERLOAD", "MEAN OVERLOAD", "OVERLOAD", "SLICES")
_GAP: Final = "GAP"
_FIELDS: Final = ("total", "inZone", "maxOverload", "meanOverload", "overload", "slices")
_ENCODING_TITLES: Final = dict(zip(ENCODINGS, ("as slice groups", "as hints", "as weights"), strict=True))


# --- tables -----------------------------------------------------------------------------------------------------------


def simulation_table(simulation: Simulation, *, width: int) -> RenderableType:
    """The proposal's table, and the other tables that the run has."""
    encodings = encodings_of(simulation)
    parts: list[RenderableType] = [Text(heading(simulation), "red" if simulation.partial else "")]
    for encoding in encodings:
        if len(encodings) > 1:
            parts += [Text(), Text(_ENCODING_TITLES[encoding].capitalize(), "bold")]
        parts.append(means_table(with_encoding(simulation.means, encoding)).for_terminal(width))
    for encoding in encodings:
        for title, table in _tables(simulation, encoding):
            named = f"{title}, {_ENCODING_TITLES[encoding]}" if len(encodings) > 1 else title
            parts += [join_wrapped(("", named), "bold"), table.for_terminal(width)]
    if simulation.means:
        parts.append(join_wrapped(legend(simulation), "dim"))
    return Group(*parts)


def _tables(simulation: Simulation, encoding: str) -> Iterator[tuple[str, Table]]:
    if simulation.bands:
        yield "By band", bands_table(simulation.bands, encoding)
    if quantiles := with_encoding(simulation.quantiles, encoding):
        yield "Quantiles", quantiles_table(quantiles)
    if differences := with_encoding(simulation.differences, encoding):
        rows = [
            [
                Text(f"{difference.algorithm} - {difference.other}"),
                *(Text(f"{value:.4f}") for value in (difference.mean, difference.low, difference.high)),
            ]
            for difference in differences
        ]
        columns = ("ALGORITHMS", "MEAN", "FROM", "TO")
        yield "Differences of totals, with 95 % confidence", Table(columns, rows, columns[1:])
    if worst := with_encoding(simulation.worst, encoding):
        yield "Worst inputs", worst_table(worst)


class Encoded(Protocol):
    @property
    def encoding(self) -> str: ...


_Value = TypeVar("_Value", bound=Encoded)


def with_encoding(values: Sequence[_Value], encoding: str) -> tuple[_Value, ...]:
    return tuple(value for value in values if value.encoding == encoding)


def encodings_of(simulation: Simulation) -> tuple[str, ...]:
    """In the order of the run."""
    return tuple(dict.fromkeys(mean.encoding for mean in simulation.means))


def heading(simulation: Simulation) -> str:
    """What was scored, and how much of it."""
    text = f"{simulation.dataset}: {simulation.rows:,} input{'' if simulation.rows == 1 else 's'}"
    if simulation.partial:
        seen = f"{simulation.rows + simulation.unscored:,} of {simulation.of:,}"
        text = f"PARTIAL, stopped early: the first {seen} inputs of {simulation.dataset}"
    if simulation.of < simulation.whole:
        text += f", a sample of {simulation.whole:,}"
    if simulation.unscored:
        text += f", and {simulation.unscored:,} without endpoints or nodes"
    return text


def means_table(means: Sequence[Means], *, inputs: int | None = None) -> Table:
    """The proposal's table, and how often each algorithm is ahead. ``inputs``, on a page: of how many."""
    best = find_best(means)
    fell_back = any(mean.fell_back for mean in means)
    against = _has_rivals(means)
    heads = _heads(means)
    columns = ("ALGORITHM", *heads, *(("WINS", "TIES") if against else ()), *(("FELL BACK",) if fell_back else ()))
    rows = []
    for mean in means:
        is_bound = mean.algorithm == BOUND
        cells = [Text(mean.algorithm, "dim" if is_bound and inputs is not None else "")]
        cells += _credits(mean, bold=mean is best, gap=_GAP in heads)
        for count in (*((mean.wins, mean.ties) if against else ()), *((mean.fell_back,) if fell_back else ())):
            cell = Text(f"{count:,}" if mean.credits is not None and not is_bound else "")
            if cell.plain and count and inputs is not None:
                cell.append(f" {count / max(inputs, 1):.1%}", "small")
            cells.append(cell)
        rows.append(cells)
    return Table(columns, rows, columns[1:])


def bands_table(bands: Sequence[Band], encoding: str, *, is_page: bool = False) -> Table:
    """All credits in each band. A page names it in each row."""
    of_bands = [(band, with_encoding(band.means, encoding)) for band in bands]
    heads = _heads([mean for _, means in of_bands for mean in means])
    rows = []
    for band, means in of_bands:
        best = find_best(means)
        for index, mean in enumerate(means):
            label = (Text(band.name), Text(f"{band.rows:,}")) if index == 0 or is_page else (Text(), Text())
            rows.append([*label, Text(mean.algorithm), *_credits(mean, bold=mean is best, gap=_GAP in heads)])
    return Table(("BAND", "INPUTS", "ALGORITHM", *heads), rows, ("INPUTS", *heads))


def quantiles_table(quantiles: Sequence[Quantiles], *, is_page: bool = False) -> Table:
    """For each algorithm the credits that shares of the inputs do not reach; on a page for each share all algorithms,
    so that they are compared where it matters.
    """
    values = [(quantile.algorithm, *item) for quantile in quantiles for item in quantile.by_share.items()]
    if is_page:
        values.sort(key=lambda value: value[1])
    rows: list[list[StyledText]] = []
    before = ""
    for algorithm, share, scores in values:
        totals = [other["total"] for _, same, other in values if same == share]
        is_best = is_page and len(totals) > 1 and scores["total"] == max(totals)
        label = Text("" if algorithm == before and not is_page else algorithm)
        rows.append([label, Text(f"{share * 100:g} %"), *_numbers(scores, bold=is_best)])
        before = algorithm
    return Table(("ALGORITHM", "BELOW", *_HEADS), rows, ("BELOW", *_HEADS))


def worst_table(worst: Sequence[WorstRow], *, is_page: bool = False) -> Table:
    """The inputs with the lowest totals; on a page with their numbers."""
    rows = []
    for row in worst:
        label = Text(row.name)
        # Inputs without names are named by their numbers.
        if is_page and row.name != str(row.row + 1):
            label.append(f" no. {row.row + 1:,}", "dim")
        nodes, endpoints = (Text(" ".join(map(str, counts))) for counts in (row.nodes, row.endpoints))
        rows.append([Text(row.algorithm), Text(f"{row.total:z.2f}"), label, nodes, endpoints])
    return Table(("ALGORITHM", "TOTAL", "INPUT", "NODES", "ENDPOINTS"), rows, ("TOTAL",))


def _heads(means: Sequence[Means]) -> tuple[str, ...]:
    return (*_HEADS, _GAP) if has_gaps(means) else _HEADS


def has_gaps(means: Sequence[Means]) -> bool:
    """Whether there is a bound to compare with."""
    return any(mean.gap_to_bound is not None for mean in means)


def _has_rivals(means: Sequence[Means]) -> bool:
    return sum(mean.algorithm != BOUND for mean in means) > 1


def find_best(means: Sequence[Means]) -> Means | None:
    """The one with the highest total, if there are others."""
    scored = [mean for mean in means if mean.credits is not None and mean.algorithm != BOUND]
    return max(scored, key=lambda mean: (mean.credits or {})["total"]) if len(scored) > 1 else None


def _credits(means: Means, *, bold: bool, gap: bool) -> Iterator[Text]:
    if means.credits is None:
        yield from (Text("-", "dim") for _ in CREDITS)
    else:
        yield from _numbers(means.credits, bold=bold)
    if gap and means.gap_to_bound is not None:
        yield Text(f"{means.gap_to_bound:z.2f}")
    elif gap:
        yield Text("") if means.algorithm == BOUND else Text("-", "dim")


def _numbers(scores: Mapping[str, float], *, bold: bool) -> Iterator[Text]:
    """Rounding may leave a zero with a sign, which is not shown."""
    for credit in CREDITS:
        yield Text(f"{scores[credit]:z.2f}", "bold" if bold and credit == "total" else "")


def legend(simulation: Simulation) -> list[str]:
    """What the columns of `means_table` mean."""
    lines = [
        "Means of credits, of 100: more is better.",
        "TOTAL: 45 % IN-ZONE, 20 % MAX OVERLOAD, 20 % MEAN OVERLOAD, 15 % SLICES.",
    ]
    if any(
        _has_rivals([mean for mean in simulation.means if mean.encoding == encoding])
        for encoding in encodings_of(simulation)
    ):
        lines.append(
            "WINS: inputs where no other algorithm here scores as much.  TIES: where it shares the best score."
        )
    if any(mean.fell_back for mean in simulation.means):
        lines.append("FELL BACK: inputs where some zone reaches no endpoint of its groups, and uses all.")
    if any(mean.credits is None for mean in simulation.means):
        lines.append("-: hints can't express weights.")
    if any(mean.encoding == WEIGHTS for mean in simulation.means):
        lines.append("Weights: those of zones, with which Zoneward's proxy overloads no endpoint.")
    if any(mean.algorithm == BOUND for mean in simulation.means):
        lines.append(f"{BOUND}: no algorithm can score more, with any weights.")
    if has_gaps(simulation.means):
        lines.append(f"{_GAP}: what TOTAL lacks to the {BOUND}.")
    return lines


# --- JSON and CSV -----------------------------------------------------------------------------------------------------


def simulation_document(simulation: Simulation) -> dict[str, Any]:
    """The whole simulation but what pages draw, numbers to six decimals."""
    return {
        "dataset": simulation.dataset,
        "rows": simulation.rows,
        "of": simulation.of,
        "sampledFrom": simulation.whole,
        "unscored": simulation.unscored,
        "partial": simulation.partial,
        "seed": simulation.seed,
        "means": [_means(mean) for mean in simulation.means],
        "bands": [
            {"band": band.name, "rows": band.rows, "means": [_means(means) for means in band.means]}
            for band in simulation.bands
        ],
        "quantiles": [
            {
                "algorithm": quantile.algorithm,
                "encoding": quantile.encoding,
                "below": {f"{share:g}": _by_field(values) for share, values in quantile.by_share.items()},
            }
            for quantile in simulation.quantiles
        ],
        "differences": rounded(simulation.differences),
        "worst": [{**rounded(row), "nodes": row.nodes, "endpoints": row.endpoints} for row in simulation.worst],
    }


def simulation_csv(simulation: Simulation) -> str:
    """A line for each algorithm and encoding, over all rows and in each band."""
    lines: list[Sequence[object]] = [
        ("band", "rows", "algorithm", "encoding", *_FIELDS, "wins", "ties", "fellBack", "partial")
    ]
    whole = Band(name="all", rows=simulation.rows, means=simulation.means)
    for band in (whole, *simulation.bands):
        for mean in band.means:
            values = [None] * len(CREDITS) if mean.credits is None else [mean.credits[credit] for credit in CREDITS]
            counts = (mean.wins, mean.ties, mean.fell_back, simulation.partial)
            lines.append((band.name, band.rows, mean.algorithm, mean.encoding, *values, *counts))
    return csv_text(lines)


def _means(means: Means) -> dict[str, Any]:
    values = dict.fromkeys(_FIELDS) if means.credits is None else _by_field(means.credits)
    return {
        "algorithm": means.algorithm,
        "encoding": means.encoding,
        **values,
        "gapToBound": round_if_any(means.gap_to_bound),
        "wins": means.wins,
        "ties": means.ties,
        "fellBack": means.fell_back,
    }


def _by_field(values: Mapping[str, float]) -> dict[str, float]:
    return {field: round_share(values[credit]) for field, credit in zip(_FIELDS, CREDITS, strict=True)}


# --- while it runs ----------------------------------------------------------------------------------------------------


class RateColumn(ProgressColumn):
    """Inputs a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", "cyan")
