"""Rows through compiled rules: beside the literal implementation, beside plain Python, and by hand."""

import random
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from tests.lab.test_datasets import together
from tests.reference import kep_2004
from tests.reference.kep_2004 import allocate, score

from zoneward.lab import scoring
from zoneward.lab.contenders import ALGORITHMS, Contender, parse_contenders
from zoneward.lab.datasets import ComputedDataset, Inputs, Integers
from zoneward.lab.scoring import (
    COLUMNS,
    FATE,
    FELL_BACK,
    SCORED,
    UNSCORED,
    Floats,
    machine_code_directory,
    score_columns,
    slices_share,
    totals,
)
from zoneward.routing.algorithms.signature import IMPOSSIBLE
from zoneward.routing.score import IN_ZONE, MAX_OVERLOAD, MEAN_OVERLOAD, SLICES

SAMPLE: Final = 30_000
SEED: Final = 2004
BALANCED: Final = "Balanced"
"""It takes half a minute to compile: an end-to-end test does that (e2e/test_numba_compiler.py)."""


def only(written: str) -> Contender:
    (one,) = parse_contenders([written])
    return one


def columns(written: str, demand: list[int], supply: list[int]) -> list[float]:
    result: list[float] = score_columns(only(written), np.array([demand]), np.array([supply]))[:, 0].tolist()
    return result


@cache
def sample() -> Inputs:
    return together(ComputedDataset("kep", seed=SEED, sample=SAMPLE))


@pytest.mark.parametrize(("turn", "algorithm"), list(enumerate(kep_2004.ALGORITHMS)))
def test_a_sample_of_kep_is_scored_as_by_the_literal_implementation(turn: int, algorithm: str) -> None:
    """30,000 inputs, which the algorithms take in turns, with as many slices. The scores are doubles that the literal
    adds in another order, zone by zone instead of group by group: they are equal up to 1e-9, of 100."""
    inputs = sample()
    demand, supply = (item[turn :: len(kep_2004.ALGORITHMS)].copy() for item in (inputs.demand, inputs.supply))
    contender = only(algorithm)
    credits_ = credited(contender, score_columns(contender, demand, supply), supply)
    for nodes, endpoints, result in zip(demand.tolist(), supply.tolist(), credits_, strict=True):
        literal = score(allocate(algorithm, nodes, endpoints), nodes, endpoints)
        wanted = [literal.total, literal.in_zone, literal.max_overload, literal.mean_overload, literal.slices]
        assert max(abs(one - other) for one, other in zip(result, wanted, strict=True)) < 1e-9, (nodes, endpoints)


def credited(contender: Contender, result: Floats, supply: Integers) -> list[list[float]]:
    slices = slices_share(contender, result, supply.sum(axis=1))
    rows = [
        totals(result, slices),
        100 * result[IN_ZONE],
        100 * (1 - result[MAX_OVERLOAD]),
        100 * (1 - result[MEAN_OVERLOAD]),
        100 * slices,
    ]
    credits_: list[list[float]] = np.array(rows).T.tolist()
    return credits_


def drawn(zones: int, rows: int) -> tuple[Integers, Integers]:
    """With ties, empty zones, and rows without an endpoint. Every zone has nodes."""
    rng = random.Random(f"plain {zones}")
    demand, supply = [], []
    for _ in range(rows):
        most = rng.choice((0, 1, 3, 40, 400))
        demand.append([rng.choice((1, 1, 3, rng.randint(1, 9000))) for _ in range(zones)])
        supply.append([rng.choice((0, 1, rng.randint(0, most), most)) for _ in range(zones)])
    return np.array(demand), np.array(supply)


@pytest.mark.parametrize(
    "written",
    [*(name for name in ALGORITHMS if name != BALANCED), "local:startingThreshold=0,overloadThreshold=0.1"],
)
def test_compiled_and_plain_python_give_the_same_bits(written: str) -> None:
    contender = only(written)
    plainly = replace(contender, interpreted=True)
    for zones in range(2, 9):
        demand, supply = drawn(zones, 80)
        result = score_columns(contender, demand, supply)
        assert result.shape == (COLUMNS, 80)
        assert result.tobytes() == score_columns(plainly, demand, supply).tobytes(), zones
        assert {SCORED, UNSCORED} <= {*result[FATE].tolist()}


def test_a_row_is_scored_alike_whatever_stands_before_it() -> None:
    demand, supply = drawn(4, 300)
    for contender in parse_contenders([name for name in ALGORITHMS if name != BALANCED]):
        result = score_columns(contender, demand, supply)
        backwards = score_columns(contender, demand[::-1].copy(), supply[::-1].copy())[:, ::-1]
        assert result.tobytes() == backwards.tobytes(), contender.label


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_row_without_endpoints_or_without_nodes_is_not_scored(algorithm: str) -> None:
    """One where a zone has none is, also where its share, nothing, is divided by no endpoints."""
    contender = replace(only(algorithm), interpreted=algorithm == BALANCED)

    def columns(demand: list[int], supply: list[int]) -> list[float]:
        result: list[float] = score_columns(contender, np.array([demand]), np.array([supply]))[:, 0].tolist()
        return result

    for demand, supply in (([1, 1], [0, 0]), ([0, 0], [3, 4]), ([0, 0], [0, 0])):
        assert columns(demand, supply) == [0, 0, 0, 0, 0, UNSCORED]
    result = columns([6, 2, 0, 1], [2, 10, 35, 2])
    assert np.isfinite(result).all()
    assert 0 <= result[IN_ZONE] <= 1
    assert 1 <= result[SLICES] <= 5


def test_a_zone_that_reaches_nobody_in_its_own_zone_falls_back() -> None:
    assert columns("PreferSameZone", [1, 1, 1], [2, 0, 1])[FATE] == FELL_BACK
    assert columns("PreferSameZone", [1, 1, 1], [2, 1, 1])[FATE] == SCORED
    assert columns("random", [1, 1, 1], [2, 0, 1])[FATE] == SCORED


@pytest.mark.parametrize(
    ("written", "start", "groups"),
    [
        ("local", 9, 3),
        ("local:startingThreshold=2", 6, 3),
        ("local-shared", 3, 3),
        ("local-opt:startingThreshold=1.5", 5, 4),
    ],
)
def test_with_fewer_endpoints_than_it_takes_to_start_all_share_one_group(written: str, start: int, groups: int) -> None:
    below, enough = ([index // 3, (index + 1) // 3, (index + 2) // 3] for index in (start - 1, start))
    assert columns(written, [1, 1, 1], below) == columns("random", [1, 1, 1], below)
    assert columns(written, [1, 1, 1], enough)[SLICES] == groups


def test_a_row_for_which_the_rule_finds_nothing_has_one_group_for_all() -> None:
    """Any groups that the rule wrote before it gave up are ignored."""

    def gives_up(*arrays: Any) -> int:
        composition, weights = arrays[4:6]
        composition[0], weights[0] = 7, 0.5
        return IMPOSSIBLE

    contender = replace(only(BALANCED), rule=gives_up, key="", interpreted=True)
    result = score_columns(contender, np.array([[3, 1, 2]]), np.array([[5, 0, 9]]))[:, 0].tolist()
    assert result == columns("random", [3, 1, 2], [5, 0, 9])


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package's sources somewhere else, where they can be changed."""
    package = Path(scoring.__file__).parents[1]
    shutil.copytree(package, tmp_path / "zoneward", ignore=shutil.ignore_patterns("__pycache__", "*.yaml"))
    monkeypatch.setattr(scoring, "__file__", str(tmp_path / "zoneward" / "lab" / "scoring.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_machine_code_is_kept_where_caches_are(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = machine_code_directory()
    assert directory.parent == copied / "cache" / "zoneward"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(copied / "home"))
    assert machine_code_directory() == copied / "home" / ".cache" / "zoneward" / directory.name


@pytest.mark.parametrize(
    "changed",
    ["routing/algorithms/endpoint_moves.py", "lab/scoring.py"],
)
def test_a_changed_source_has_another_directory(copied: Path, changed: str) -> None:
    """Cached machine code is of one version of the source; with the change undone, it is used again."""
    before = machine_code_directory()
    source = copied / "zoneward" / changed
    text = source.read_bytes()
    source.write_bytes(text + b"\n# changed\n")
    after = machine_code_directory()
    assert after != before
    assert after.parent == before.parent
    source.write_bytes(text)
    assert machine_code_directory() == before


def test_another_version_of_a_library_has_another_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    before = machine_code_directory()
    for target, attribute, value in ((np, "__version__", "0.0"), (scoring, "version", lambda _name: "0.0")):
        with monkeypatch.context() as patch:
            patch.setattr(target, attribute, value)
            assert machine_code_directory() != before
