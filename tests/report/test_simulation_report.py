"""Simulations as tables, JSON and CSV: every number that is in one is shown."""

import csv
from dataclasses import replace
from io import StringIO
from typing import Any

from rich.console import Group
from rich.text import Text

from zoneward.report.simulation_report import heading, simulation_csv, simulation_document, simulation_table
from zoneward.report.terminal_text import render_text
from zoneward.routing.simulation_results import BOUND, CREDITS, Band, Difference, Means, Quantiles, Simulation, WorstRow


def credits_from(first: float) -> dict[str, float]:
    """Six values that occur nowhere else."""
    return {credit: first + index * 1.0101 for index, credit in enumerate(CREDITS)}


def means(algorithm: str, first: float | None, *, encoding: str = "slice-groups", **others: Any) -> Means:
    values = None if first is None else credits_from(first)
    return Means(algorithm=algorithm, encoding=encoding, credits=values, **others)


LOCAL = means("local", 71.123456789, wins=1_234, ties=56)
RANDOM = means("random", 31.25, wins=7, ties=89, fell_back=3_456)
SIMULATION = Simulation(
    dataset="kep", rows=5_000, of=6_000, unscored=12, partial=False, seed=77, means=(LOCAL, RANDOM, means(BOUND, 91.5)),
    bands=(
        Band(name="1 to 8", rows=1_500, means=(means("local", 41.5, wins=11), means("random", 42.5, ties=22))),
        Band(name="9 to 20", rows=3_500, means=(means("local", 43.5), means("random", 44.5, fell_back=33))),
    ),
    quantiles=(Quantiles(algorithm="local", encoding="slice-groups",
                         by_share={0.05: credits_from(51.5), 0.5: credits_from(61.5)}),),
    differences=(Difference(algorithm="local", other="random", encoding="slice-groups",
                            mean=1.23456, low=1.11111, high=1.33333),),
    worst=(WorstRow(algorithm="local", encoding="slice-groups", total=-12.345, row=987, name="shop/cart",
                    nodes=(1, 20, 3), endpoints=(0, 400, 5)),),
)  # fmt: skip
BOTH = replace(
    SIMULATION,
    means=(LOCAL, means("local-opt", 35.5),
           means("local", 81.5, encoding="hints"), means("local-opt", None, encoding="hints")),
    bands=(), quantiles=(), differences=(), worst=(),
)  # fmt: skip


def lines_of(simulation: Simulation) -> list[str]:
    return render_text(simulation_table(simulation, width=200), color=False, width=200).splitlines()


def two(values: dict[str, float] | None) -> list[str]:
    assert values is not None
    return [f"{value:.2f}" for value in values.values()]


def cells(lines: list[str], start: str) -> list[list[str]]:
    return [line.split() for line in lines if line.startswith(start)]


def test_the_table_is_the_proposal_s_with_wins_and_ties() -> None:
    lines = lines_of(SIMULATION)
    assert lines[0] == "kep: 5,000 inputs, and 12 without endpoints or nodes"
    assert lines[1] == (
        "ALGORITHM  TOTAL  IN-ZONE  MAX OVERLOAD  MEAN OVERLOAD  OVERLOAD  SLICES   WINS  TIES  FELL BACK"
    )
    assert lines[3].split() == ["local", "71.12", "72.13", "73.14", "74.15", "75.16", "76.17", "1,234", "56", "0"]
    assert lines[4].split() == ["random", *two(credits_from(31.25)), "7", "89", "3,456"]
    assert lines[5].split() == ["bound", *two(credits_from(91.5))], "a bound does not take part"


def test_what_was_asked_for_follows_under_titles_of_its_own() -> None:
    lines = lines_of(SIMULATION)
    after = {line: lines[index + 1 :] for index, line in enumerate(lines)}
    band = after["By band"]
    assert band[2].split() == ["1", "to", "8", "1,500", "local", *two(credits_from(41.5))]
    assert band[3].split() == ["random", *two(credits_from(42.5))]
    assert band[4].split() == ["9", "to", "20", "3,500", "local", *two(credits_from(43.5))]
    quantiles = after["Quantiles"]
    assert quantiles[2].split() == ["local", "5", "%", *two(credits_from(51.5))]
    assert quantiles[3].split() == ["50", "%", *two(credits_from(61.5))]
    assert after["Differences of totals, with 95 % confidence"][2].split() == [
        *("local", "-", "random"), "1.2346", "1.1111", "1.3333",
    ]  # fmt: skip
    assert after["Worst inputs"][2].split() == ["local", "-12.35", "shop/cart", "1", "20", "3", "0", "400", "5"]


def test_each_encoding_has_a_table_and_dashes_where_it_can_t_say_weights() -> None:
    lines = lines_of(BOTH)
    assert lines.index("As slice groups") < lines.index("As hints")
    assert cells(lines, "local-opt")[1] == ["local-opt", *["-"] * 6]
    assert cells(lines, "local ")[1][1] == "81.50"


GAPS = replace(
    SIMULATION,
    means=(means("local", 71.25, gap_to_bound=20.256), means("random", 91.5, gap_to_bound=-1e-14),
           means("local-opt", None), means(BOUND, 91.5)),
    bands=(Band(name="1 to 8", rows=1_500, means=(means("local", 41.5, gap_to_bound=7.75), means(BOUND, 49.25))),),
)  # fmt: skip


def test_gaps_to_the_bound_are_in_every_table_of_means_and_in_json() -> None:
    lines = lines_of(GAPS)
    head = lines[1]
    assert head.split()[-4:] == ["SLICES", "GAP", "WINS", "TIES"]
    end = head.index("GAP") + len("GAP")
    gaps = [line[end - 6 : end].strip() for line in lines[3:7]]
    assert gaps == ["20.26", "0.00", "-", ""]
    band = lines[lines.index("By band") + 1 :]
    assert band[0].split()[-1] == "GAP"
    assert [band[index].split()[-1] for index in (2, 3)] == ["7.75", two(credits_from(49.25))[-1]]
    assert "GAP: what TOTAL lacks to the bound." in "\n".join(lines)
    document = simulation_document(GAPS)
    assert [mean["gapToBound"] for mean in document["means"]] == [20.256, 0, None, None]
    assert [mean["gapToBound"] for mean in document["bands"][0]["means"]] == [7.75, None]
    assert "GAP" not in "\n".join(lines_of(SIMULATION))


def test_encodings_are_in_the_order_in_which_they_were_asked_for() -> None:
    simulation = replace(BOTH, means=(means("Balanced", 92.5, encoding="weights"), *BOTH.means[2:], *BOTH.means[:2]))
    titles = [line for line in lines_of(simulation) if line.startswith("As ")]
    assert titles == ["As weights", "As hints", "As slice groups"]


def test_a_single_input_is_counted_as_one() -> None:
    assert heading(replace(SIMULATION, rows=1)).startswith("kep: 1 input,")


def test_the_best_total_is_bold_and_a_bound_is_never_the_best() -> None:
    colored = render_text(simulation_table(SIMULATION, width=200), color=True, width=200)
    assert "\x1b[1m71.12\x1b[0m" in colored
    assert "\x1b[1m91.50" not in colored


def test_a_partial_result_is_marked_everywhere() -> None:
    partial = replace(SIMULATION, partial=True)
    expected = "PARTIAL, stopped early: the first 5,012 of 6,000 inputs of kep, and 12 without endpoints or nodes"
    assert heading(partial) == lines_of(partial)[0] == expected
    table = simulation_table(partial, width=200)
    assert isinstance(table, Group)
    first = table.renderables[0]
    assert isinstance(first, Text)
    assert first.style == "red"
    assert simulation_document(partial)["partial"] is True
    assert {line.rpartition(",")[2] for line in simulation_csv(partial).splitlines()[1:]} == {"true"}
    assert {line.rpartition(",")[2] for line in simulation_csv(SIMULATION).splitlines()[1:]} == {"false"}


FIELDS = ("total", "inZone", "maxOverload", "meanOverload", "overload", "slices")


def fields(first: float) -> dict[str, float]:
    return {field: round(first + index * 1.0101, 6) for index, field in enumerate(FIELDS)}


def test_json_has_all_of_it_to_six_decimals() -> None:
    document = simulation_document(SIMULATION)
    assert {key: document[key] for key in ("dataset", "rows", "of", "unscored", "partial", "seed")} == {
        "dataset": "kep", "rows": 5_000, "of": 6_000, "unscored": 12, "partial": False, "seed": 77,
    }  # fmt: skip
    local = {"algorithm": "local", "encoding": "slice-groups"}
    assert document["means"][0] == {
        **local,
        **fields(71.123456789),
        "gapToBound": None,
        "wins": 1_234,
        "ties": 56,
        "fellBack": 0,
    }
    assert document["means"][0]["total"] == 71.123457
    assert document["bands"][1] == {
        "band": "9 to 20",
        "rows": 3_500,
        "means": [
            {**local, **fields(43.5), "gapToBound": None, "wins": 0, "ties": 0, "fellBack": 0},
            {**local, "algorithm": "random", **fields(44.5), "gapToBound": None, "wins": 0, "ties": 0, "fellBack": 33},
        ],
    }
    assert document["quantiles"] == [{**local, "below": {"0.05": fields(51.5), "0.5": fields(61.5)}}]
    assert document["differences"] == [{**local, "other": "random", "mean": 1.23456, "low": 1.11111, "high": 1.33333}]
    assert document["worst"] == [
        {**local, "total": -12.345, "row": 987, "name": "shop/cart", "nodes": (1, 20, 3), "endpoints": (0, 400, 5)}
    ]


def test_csv_has_a_line_for_each_algorithm_over_all_rows_and_in_each_band() -> None:
    rows = list(csv.reader(StringIO(simulation_csv(SIMULATION))))
    assert rows[0] == ["band", "rows", "algorithm", "encoding", *FIELDS, "wins", "ties", "fellBack", "partial"]
    assert [row[:4] for row in rows[1:]] == [
        ["all", "5000", "local", "slice-groups"],
        ["all", "5000", "random", "slice-groups"],
        ["all", "5000", BOUND, "slice-groups"],
        ["1 to 8", "1500", "local", "slice-groups"],
        ["1 to 8", "1500", "random", "slice-groups"],
        ["9 to 20", "3500", "local", "slice-groups"],
        ["9 to 20", "3500", "random", "slice-groups"],
    ]
    assert [float(value) for value in rows[2][4:10]] == list(fields(31.25).values())
    assert rows[2][10:] == ["7", "89", "3456", "false"]
    hints = list(csv.reader(StringIO(simulation_csv(BOTH))))[4]
    assert hints[2:] == ["local-opt", "hints", *[""] * 6, "0", "0", "0", "false"]
