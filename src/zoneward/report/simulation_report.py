"""A simulation as tables, as JSON and as CSV, and how fast it runs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.progress import ProgressColumn, Task

from zoneward.advice.json_value import round_if_any, round_share
from zoneward.report.comparison_report import csv_text, rounded
from zoneward.report.terminal_text import StyledText, Text, align_columns, join_wrapped
from zoneward.routing.simulation_results import BOUND, CREDITS, ENCODINGS, WEIGHTS, Band, Means, Quantiles, Simulation

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
        parts.append(_means_table([mean for mean in simulation.means if mean.encoding == encoding], width))
    for encoding in encodings:
        bands = [(band, [mean for mean in band.means if mean.encoding == encoding]) for band in simulation.bands]
        if bands:
            parts += [_title("By band", encoding, encodings), _bands_table(bands, width)]
        quantiles = [quantile for quantile in simulation.quantiles if quantile.encoding == encoding]
        if quantiles:
            parts += [_title("Quantiles", encoding, encodings), _quantiles_table(quantiles, width)]
        differences = [difference for difference in simulation.differences if difference.encoding == encoding]
        if differences:
            rows = [
                [
                    Text(f"{difference.algorithm} - {difference.other}"),
                    *_numbers((difference.mean, difference.low, difference.high), 4),
                ]
                for difference in differences
            ]
            parts += [
                _title("Differences of totals, with 95 % confidence", encoding, encodings),
                align_columns(("ALGORITHMS", "MEAN", "FROM", "TO"), rows, right=("MEAN", "FROM", "TO"), width=width),
            ]
        worst = [row for row in simulation.worst if row.encoding == encoding]
        if worst:
            rows = [
                [Text(row.algorithm), *_numbers((row.total,), 2), Text(row.name), _counts(row.nodes),
                 _counts(row.endpoints)]
                for row in worst
            ]  # fmt: skip
            columns = ("ALGORITHM", "TOTAL", "INPUT", "NODES", "ENDPOINTS")
            parts += [
                _title("Worst inputs", encoding, encodings),
                align_columns(columns, rows, right=columns[1:2], width=width),
            ]
    if simulation.means:
        parts.append(join_wrapped(_legend(simulation), "dim"))
    return Group(*parts)


def encodings_of(simulation: Simulation) -> tuple[str, ...]:
    """In the order of the run."""
    return tuple(dict.fromkeys(mean.encoding for mean in simulation.means))


def heading(simulation: Simulation) -> str:
    """What was scored, and how much of it."""
    text = f"{simulation.dataset}: {simulation.rows:,} inputs"
    if simulation.partial:
        seen = f"{simulation.rows + simulation.unscored:,} of {simulation.of:,}"
        text = f"PARTIAL, stopped early: the first {seen} inputs of {simulation.dataset}"
    if simulation.of < simulation.whole:
        text += f", a sample of {simulation.whole:,}"
    if simulation.unscored:
        text += f", and {simulation.unscored:,} without endpoints or nodes"
    return text


def _title(title: str, encoding: str, encodings: Sequence[str]) -> StyledText:
    return join_wrapped(("", f"{title}, {_ENCODING_TITLES[encoding]}" if len(encodings) > 1 else title), "bold")


def _means_table(means: Sequence[Means], width: int) -> RenderableType:
    best = find_best(means)
    fell_back = any(mean.fell_back for mean in means)
    against = _has_rivals(means)
    heads = _heads(means)
    columns = ("ALGORITHM", *heads, *(("WINS", "TIES") if against else ()), *(("FELL BACK",) if fell_back else ()))
    rows = []
    for mean in means:
        cells = [Text(mean.algorithm), *_credits(mean, bold=mean is best, gap=_GAP in heads)]
        counts = (*((mean.wins, mean.ties) if against else ()), *((mean.fell_back,) if fell_back else ()))
        counts_apply = mean.credits is not None and mean.algorithm != BOUND
        cells.extend(Text(f"{count:,}" if counts_apply else "") for count in counts)
        rows.append(cells)
    return align_columns(columns, rows, right=columns[1:], width=width)


def _bands_table(bands: Sequence[tuple[Band, Sequence[Means]]], width: int) -> RenderableType:
    heads = _heads([mean for _, means in bands for mean in means])
    rows = []
    for band, means in bands:
        best = find_best(means)
        for index, mean in enumerate(means):
            label = (Text(band.name), Text(f"{band.rows:,}")) if index == 0 else (Text(), Text())
            rows.append([*label, Text(mean.algorithm), *_credits(mean, bold=mean is best, gap=_GAP in heads)])
    columns = ("BAND", "INPUTS", "ALGORITHM", *heads)
    return align_columns(columns, rows, right=("INPUTS", *heads), width=width)


def _quantiles_table(quantiles: Sequence[Quantiles], width: int) -> RenderableType:
    rows = []
    for quantile in quantiles:
        for index, (share, values) in enumerate(quantile.by_share.items()):
            name = Text(quantile.algorithm if index == 0 else "")
            rows.append([name, Text(f"{share * 100:g} %"), *_numbers([values[credit] for credit in CREDITS], 2)])
    columns = ("ALGORITHM", "BELOW", *_HEADS)
    return align_columns(columns, rows, right=("BELOW", *_HEADS), width=width)


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
    for credit in CREDITS:
        if means.credits is None:
            yield Text("-", "dim")
        else:
            yield Text(f"{means.credits[credit]:.2f}", "bold" if bold and credit == "total" else "")
    if gap and means.gap_to_bound is not None:
        # Rounding may leave a zero with a sign.
        yield Text(f"{round(means.gap_to_bound, 2) + 0.0:.2f}")
    elif gap:
        yield Text("") if means.algorithm == BOUND else Text("-", "dim")


def _numbers(values: Sequence[float], digits: int) -> Iterator[Text]:
    for value in values:
        yield Text(f"{value:.{digits}f}")


def _counts(counts: Sequence[int]) -> Text:
    return Text(" ".join(map(str, counts)))


def _legend(simulation: Simulation) -> list[str]:
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
