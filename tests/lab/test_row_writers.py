"""Scores as Parquet: read back by duckdb and by polars, they are those that were written."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

from zoneward.kube.input_error import InputError
from zoneward.lab import row_writers as parquet
from zoneward.lab.contenders import Contender, parse_contenders
from zoneward.lab.datasets import Inputs
from zoneward.lab.row_writers import ParquetWriter
from zoneward.lab.scoring import FATE, FELL_BACK, SCORED, UNSCORED, Floats, score_columns, slices_share, totals
from zoneward.routing.algorithms.heuristics import one_group
from zoneward.routing.score import IN_ZONE, MAX_OVERLOAD, MEAN_OVERLOAD, SLICES

CONTENDERS = parse_contenders(["random,local-opt,PreferSameZone,local:startingThreshold=1,overloadThreshold=0.25"])
LOCAL = "local_startingThreshold_1_overloadThreshold_0_25"
COLUMNS = ("total", "in_zone", "max_overload", "mean_overload", "slices", "fell_back")


def some_inputs(zones: int, rows: int = 200, *, first: int = 0, names: bool = False) -> Inputs:
    """A fifth of the zones is empty, and so are some inputs."""
    chance = np.random.default_rng(zones)
    demand = chance.integers(0, 4, (rows, zones))
    supply = chance.integers(0, 60, (rows, zones)) * (chance.random((rows, zones)) > 0.2)
    supply[3] = 0
    demand[5] = 0
    numbers = np.arange(first, first + rows)
    return Inputs(numbers, demand, supply, [f"shop/cart, {item}" for item in numbers] if names else ())


def scored(inputs: Inputs, contenders: tuple[Contender, ...] = CONTENDERS) -> list[Floats]:
    return [score_columns(contender, inputs.demand, inputs.supply) for contender in contenders]


def write(path: Path, *pieces: Inputs, contenders: tuple[Contender, ...] = CONTENDERS, partial: str = "") -> list[Any]:
    columns = [scored(piece, contenders) for piece in pieces]
    with ParquetWriter(path, contenders) as directory:
        for piece, rows in zip(pieces, columns, strict=True):
            directory.write(piece, rows)
        directory.finish(partial=partial)
    return columns


def by_duckdb(path: Path, query: str = "select * from rows order by input") -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        connection.execute(f"create view rows as select * from read_parquet('{path}/*.parquet', union_by_name = true)")
        cursor = connection.execute(query)
        assert cursor.description is not None
        names = [item[0] for item in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def by_polars(path: Path) -> list[dict[str, Any]]:
    frames = [pl.read_parquet(item) for item in sorted(path.glob("*.parquet"))]
    return pl.concat(frames, how="diagonal").sort("input").to_dicts()


def expected(contender: Contender, rows: Floats, endpoints: Any, row: int) -> dict[str, Any]:
    result = {
        "total": totals(rows, slices_share(contender, rows, endpoints))[row],
        "in_zone": rows[IN_ZONE][row],
        "max_overload": rows[MAX_OVERLOAD][row],
        "mean_overload": rows[MEAN_OVERLOAD][row],
        "slices": int(rows[SLICES][row]),
        "fell_back": bool(rows[FATE][row] == FELL_BACK),
    }
    if not contender.weighs:
        result["total_hints"] = totals(rows, 1.0)[row]
    return dict.fromkeys(result) if rows[FATE][row] == UNSCORED else result


@pytest.mark.parametrize(("zones", "read"), [(2, by_polars), (7, by_polars), (3, by_duckdb)])
def test_every_value_is_that_of_scoring_and_null_where_there_is_none(tmp_path: Path, zones: int, read: Any) -> None:
    inputs = some_inputs(zones)
    (columns,) = write(tmp_path / "out", inputs)
    endpoints = inputs.supply.sum(axis=1)
    fates = {fate for rows in columns for fate in rows[FATE]}
    assert fates == {SCORED, FELL_BACK, UNSCORED}, "a sample that shows every case"
    result = read(tmp_path / "out")
    assert len(result) == len(inputs.numbers)
    for row, item in enumerate(result):
        wanted: dict[str, Any] = {"input": row, "endpoints": endpoints[row]}
        wanted |= {f"nodes_{zone + 1}": inputs.demand[row, zone] for zone in range(zones)}
        wanted |= {f"endpoints_{zone + 1}": inputs.supply[row, zone] for zone in range(zones)}
        for name, contender, rows in zip(
            ("random", "local_opt", "PreferSameZone", LOCAL), CONTENDERS, columns, strict=True
        ):
            wanted |= {f"{name}_{key}": value for key, value in expected(contender, rows, endpoints, row).items()}
        assert item == wanted, row


def test_columns_need_no_quotes_and_weights_have_no_total_as_hints(tmp_path: Path) -> None:
    write(tmp_path / "out", some_inputs(2))
    (row,) = by_duckdb(tmp_path / "out", f"select local_opt_total, {LOCAL}_total_hints from rows where input = 0")
    assert None not in row.values()
    assert list(by_polars(tmp_path / "out")[0]) == [
        *("input", "nodes_1", "nodes_2", "endpoints_1", "endpoints_2", "endpoints"),
        *("random_total", "random_total_hints", *(f"random_{column}" for column in COLUMNS[1:])),
        *(f"local_opt_{column}" for column in COLUMNS),
        *(
            "PreferSameZone_total",
            "PreferSameZone_total_hints",
            *(f"PreferSameZone_{column}" for column in COLUMNS[1:]),
        ),
        *(f"{LOCAL}_total", f"{LOCAL}_total_hints", *(f"{LOCAL}_{column}" for column in COLUMNS[1:])),
    ]


def test_balanced_has_a_total_with_weights_of_zones_too(tmp_path: Path) -> None:
    inputs = some_inputs(3)
    (balanced,) = parse_contenders(["Balanced"])
    quick = replace(balanced, rule=one_group, key="one_group")
    write(tmp_path / "out", inputs, contenders=(quick,))
    result = by_polars(tmp_path / "out")
    columns = [item for item in result[0] if item.startswith("Balanced")]
    assert columns[1:4] == ["Balanced_total_hints", "Balanced_total_weights", "Balanced_in_zone"]
    assert {3, 5} <= {row["input"] for row in result if row["Balanced_total_weights"] is None}
    for row, nodes, endpoints in zip(result, inputs.demand.tolist(), inputs.supply.tolist(), strict=True):
        if row["Balanced_total_weights"] is not None:
            shares = zip(nodes, endpoints, strict=True)
            possible = sum(min(n / sum(nodes), e / sum(endpoints)) for n, e in shares)
            assert row["Balanced_total_weights"] == pytest.approx(55 + 45 * possible)


def test_inputs_of_other_numbers_of_zones_are_in_files_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / "out", some_inputs(2, 30), some_inputs(2, 30, first=30), some_inputs(4, 40, first=60))
    sizes = [len(pl.read_parquet(path)) for path in sorted((tmp_path / "out").iterdir())]
    assert sizes == [60, 40]
    result = by_duckdb(tmp_path / "out")
    assert [row["input"] for row in result] == list(range(100))
    assert [row["nodes_4"] is None for row in result] == [True] * 60 + [False] * 40


def test_rows_are_held_only_until_a_file_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROWS_PER_FILE", 100)
    write(tmp_path / "out", *(some_inputs(3, 60, first=60 * index) for index in range(5)))
    sizes = [len(pl.read_parquet(path)) for path in sorted((tmp_path / "out").iterdir())]
    assert sizes == [120, 120, 60]
    assert [row["input"] for row in by_duckdb(tmp_path / "out")] == list(range(300))


def test_a_partial_result_says_so_beside_the_files(tmp_path: Path) -> None:
    write(tmp_path / "part", some_inputs(2), partial="PARTIAL: the first 200 of 900")
    assert (tmp_path / "part" / "PARTIAL.txt").read_text() == "PARTIAL: the first 200 of 900\n"
    assert len(by_duckdb(tmp_path / "part")) == 200
    write(tmp_path / "whole", some_inputs(2))
    assert not (tmp_path / "whole" / "PARTIAL.txt").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, InputError])
def test_nothing_is_left_behind_where_it_ends_early(tmp_path: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        inputs = some_inputs(2)
        with ParquetWriter(tmp_path / "out", CONTENDERS) as directory:
            directory.write(inputs, scored(inputs))
            directory._flush()
            assert [path.match("out.*.making") for path in tmp_path.iterdir()] == [True]
            raise error("stop")

    with pytest.raises(error):
        fail()
    assert list(tmp_path.iterdir()) == []
    assert not [item for item in threading.enumerate() if item.name.startswith("parquet")]


def test_a_directory_that_is_there_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.parquet").write_text("mine")
    with pytest.raises(InputError, match="expected a directory that does not exist yet"):
        ParquetWriter(tmp_path / "out", CONTENDERS)
    assert (tmp_path / "out" / "mine.parquet").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_another_run_writes_or_left_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out.making").symlink_to(tmp_path / "elsewhere")
    inputs = some_inputs(2)
    one, other = ParquetWriter(tmp_path / "out", CONTENDERS), ParquetWriter(tmp_path / "out", CONTENDERS)
    with one, other:
        for directory in (one, other):
            directory.write(inputs, scored(inputs))
        one.finish()
        with pytest.raises(InputError, match="expected a directory that does not exist yet: Directory not empty"):
            other.finish()
    assert {path.name for path in tmp_path.iterdir()} == {"elsewhere", "out", "out.making"}
    assert not [*(tmp_path / "elsewhere").iterdir()]


def test_a_file_that_can_t_be_written_is_told(tmp_path: Path) -> None:

    def fail() -> None:
        inputs = some_inputs(2)
        with ParquetWriter(tmp_path / "out", CONTENDERS) as directory:
            (making,) = tmp_path.iterdir()
            (making / "part-00000.parquet").mkdir()
            directory.write(inputs, scored(inputs))
            directory.finish()

    with pytest.raises(InputError, match=r"part-00000\.parquet: expected a file that can be written: "):
        fail()
    assert list(tmp_path.iterdir()) == []
