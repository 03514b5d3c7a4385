"""The door to numba: the same functions with it and without, and nobody else comes near it."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from zoneward.routing import compiled as door
from zoneward.routing.algorithms.lazy import only_the_update
from zoneward.routing.algorithms.registry import HEURISTICS
from zoneward.routing.algorithms.results import IMPOSSIBLE, REALS_PER_ZONE, SCRATCH_PER_ZONE, most_groups
from zoneward.routing.compiled import compiled, is_available
from zoneward.routing.score import MEASURES, measure

FUNCTIONS: Final[list[Callable[..., Any]]] = [
    *(heuristic.allocate for heuristic in HEURISTICS.values()),
    only_the_update,
    measure,
]
"""All that claims to be fit for a compiler."""

Arrays = Callable[[Sequence[Any]], Any]
"""Makes what a function indexes: a list, or a numpy array."""


def plain(numbers: Sequence[Any]) -> list[Any]:
    return list(numbers)


Input = tuple[list[int], list[int], list[int]]
"""Demand, supply, and a previous composition of own groups."""


def drawn(number: int) -> Iterator[Input]:
    """Random inputs of two to eight zones: with ties, empty zones and nothing at all. Every zone has demand: so it is
    in decisions, and so no rule divides by zero."""
    rng = random.Random(20040)
    for _ in range(number):
        zones = rng.randint(2, 8)
        demand = [rng.choice((1, 1, 3, rng.randint(1, 9000))) for _ in range(zones)]
        most = rng.choice((0, 1, 3, 40))
        supply = [rng.choice((0, 1, rng.randint(0, most), most)) for _ in range(zones)]
        previous = [0] * zones**2
        for located in range(zones):
            for _ in range(rng.randint(0, supply[located])):
                previous[rng.randrange(zones) * zones + located] += 1
        yield demand, supply, previous


def every_result(door: Callable[[Any], Callable[..., Any]], arrays: Arrays, drawn: Input) -> dict[str, list[Any]]:
    """What each heuristic writes, and what the measures of its groups and a lazy update of the previous ones are.

    The room is full of sevens: nothing may be read that was not written.
    """
    demand, supply, previous = drawn
    zones = len(demand)
    flat_demand, flat_supply, parameters = arrays(demand), arrays(supply), arrays((1, 2, 1, 5))
    found: dict[str, list[Any]] = {}
    for name, heuristic in HEURISTICS.items():
        composition, weights = arrays([0] * (most_groups(zones) * zones)), arrays([0.0] * (most_groups(zones) * zones))
        room = arrays([7] * (zones * SCRATCH_PER_ZONE)), arrays([7.0] * (zones * REALS_PER_ZONE))
        rule = door(heuristic.allocate)
        groups = rule(flat_demand, flat_supply, parameters, arrays(previous), composition, weights, *room)
        if groups == IMPOSSIBLE or not any(supply):
            found[name] = [int(groups)]
            continue
        measures = arrays([7.0] * MEASURES)
        door(measure)(flat_demand, groups, composition, weights, 100, measures, arrays([7.0] * zones))
        found[name] = [int(groups), *map(int, composition), *map(float, weights), *map(float, measures)]
    composition = arrays(previous)
    own = arrays([1.0 if group == zone else 0.0 for group in range(zones) for zone in range(zones)])
    room = arrays([7] * zones), arrays([7.0] * (2 * zones))
    groups = door(only_the_update)(flat_demand, flat_supply, parameters, zones, composition, own, *room)
    found["lazy"] = [int(groups), *map(int, composition)]
    return found


def uncompiled(function: Any) -> Callable[..., Any]:
    found: Callable[..., Any] = function
    return found


def test_without_numba_a_function_is_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "is_available", lambda: False)
    assert [compiled(function) for function in FUNCTIONS] == FUNCTIONS


def test_numba_is_available_where_it_could_be_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Asking does not import it."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    assert not is_available()
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text("raise AssertionError('imported')", encoding="utf-8")
    assert is_available()


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """A numba that takes functions and gives them back as they are."""
    taken: list[Any] = []

    def njit(**_: object) -> Callable[[Any], Any]:
        def decorate(function: Any) -> Any:
            taken.append(function)
            return function

        return decorate

    monkeypatch.setitem(sys.modules, "numba", SimpleNamespace(njit=njit))
    monkeypatch.setattr(door, "is_available", lambda: True)
    door._compiled.cache_clear()
    yield taken
    door._compiled.cache_clear()


def test_each_function_is_compiled_once_with_all_that_it_calls(taken: list[Any]) -> None:
    """numba sees no function that has not been through it: none of another module, none by its plain self."""
    assert [compiled(function) for function in FUNCTIONS] == [compiled(function) for function in FUNCTIONS]
    names = [function.__name__ for function in taken]
    assert len(names) == len({(function.__code__.co_filename, function.__name__) for function in taken})
    assert {"local_shared", "local", "push", "pop", "heapify", "_sift_down", "move_one", "measure", "_load"} <= {*names}
    for function in taken:
        called = [each for each in function.__globals__.values() if callable(each) and hasattr(each, "__code__")]
        assert all(any(each is one for one in taken) for each in called), function.__name__


def test_what_is_compiled_has_every_name_that_it_looks_up(taken: list[Any]) -> None:
    for each in drawn(100):
        assert every_result(compiled, plain, each) == every_result(uncompiled, plain, each), each
    assert taken


def test_numba_makes_of_every_function_what_it_is() -> None:
    """Groups, weights and measures are the same to the last bit on 1,000 random inputs."""
    pytest.importorskip("numba", reason="numba is an extra for the lab and the benchmarks")
    numpy = pytest.importorskip("numpy")
    for each in drawn(1000):
        assert every_result(compiled, numpy.array, each) == every_result(uncompiled, plain, each), each


def test_no_import_of_routing_imports_numba(tmp_path: Path) -> None:
    """A controller starts without it, also where it is installed: here an empty one is."""
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").touch()
    program = """
import importlib, json, pkgutil, sys
import zoneward.routing
for each in pkgutil.walk_packages(zoneward.routing.__path__, "zoneward.routing."):
    importlib.import_module(each.name)
from zoneward.routing.compiled import is_available
print(json.dumps([is_available(), sorted(sys.modules)]))
"""
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    ran = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    available, modules = json.loads(ran.stdout)
    assert available
    assert "zoneward.routing.algorithms.local_shared" in modules
    assert not {"numba", "numpy"} & {*modules}
