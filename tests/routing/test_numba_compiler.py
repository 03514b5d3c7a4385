"""The door to numba: the same functions with it and without, and nobody else comes near it."""

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from zoneward.routing import numba_compiler
from zoneward.routing.algorithms.heuristics import HEURISTICS, LOCAL_KEP_TOOL
from zoneward.routing.algorithms.local import rebalance_lazily
from zoneward.routing.algorithms.signature import IMPOSSIBLE, max_groups, reals_length, scratch_length
from zoneward.routing.configuration import ZoneCosts, cost_table
from zoneward.routing.numba_compiler import compile_function, is_available
from zoneward.routing.score import MEASURES, measure

FUNCTIONS: Final[list[Callable[..., Any]]] = [
    *(heuristic.allocate for heuristic in (*HEURISTICS.values(), LOCAL_KEP_TOOL)),
    rebalance_lazily,
    measure,
]
"""All that claims to be fit for a compiler."""

Arrays = Callable[[Sequence[Any]], Any]
"""Makes what a function indexes: a list, or a numpy array."""


def plain(numbers: Sequence[Any]) -> list[Any]:
    return list(numbers)


Input = tuple[list[int], list[int], list[int]]
"""Demand, supply, and a previous composition of own groups."""


def drawn(count: int) -> Iterator[Input]:
    """Random inputs of two to eight zones: with ties, empty zones and nothing at all. Every zone has demand: so it is
    in decisions, and so no rule divides by zero."""
    rng = random.Random(20040)
    for _ in range(count):
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
    flat_demand, flat_supply = arrays(demand), arrays(supply)
    costs = cost_table(ZoneCosts(), [str(zone) for zone in range(zones)], {})
    parameters = arrays((1, 2, 1, 5, 0, *costs))
    results: dict[str, list[Any]] = {}
    for heuristic in (*HEURISTICS.values(), LOCAL_KEP_TOOL):
        composition, weights = arrays([0] * (max_groups(zones) * zones)), arrays([0.0] * (max_groups(zones) * zones))
        room = arrays([7] * scratch_length(zones)), arrays([7.0] * reals_length(zones))
        rule = door(heuristic.allocate)
        groups = rule(flat_demand, flat_supply, parameters, arrays(previous), composition, weights, *room)
        if groups == IMPOSSIBLE or not any(supply):
            results[heuristic.name] = [int(groups)]
            continue
        measures = arrays([7.0] * MEASURES)
        door(measure)(flat_demand, groups, composition, weights, 100, measures, arrays([7.0] * zones))
        results[heuristic.name] = [int(groups), *map(int, composition), *map(float, weights), *map(float, measures)]
    composition = arrays(previous)
    own = arrays([1.0 if group == zone else 0.0 for group in range(zones) for zone in range(zones)])
    lazy_room = arrays([7] * zones), arrays([7.0] * zones), arrays([7.0] * zones)
    groups = door(rebalance_lazily)(flat_demand, flat_supply, parameters, zones, composition, own, *lazy_room)
    results["lazy"] = [int(groups), *map(int, composition)]
    return results


def uncompiled(function: Any) -> Callable[..., Any]:
    python_function: Callable[..., Any] = function
    return python_function


def test_without_numba_a_function_is_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba_compiler, "is_available", lambda: False)
    assert [compile_function(function) for function in FUNCTIONS] == FUNCTIONS


def test_numba_is_available_where_it_could_be_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    assert not is_available()
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text("raise AssertionError('imported')", encoding="utf-8")
    assert is_available()


class Taken(list[Any]):
    """The functions that numba was given, with the options of each."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace()
        self.options_by_name: dict[str, dict[str, object]] = {}


class Cache:
    """The cache of numba for one function."""

    def __init__(self, function: object) -> None:
        self.function = function


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[Taken]:
    """A numba that takes functions and gives them back as they are."""
    taken = Taken()

    def njit(**options: object) -> Callable[[Any], Any]:
        def decorate(function: Any) -> Any:
            taken.append(function)
            taken.options_by_name[function.__name__] = options
            return function

        return decorate

    caching = SimpleNamespace(FunctionCache=Cache)
    core = SimpleNamespace(caching=caching)
    monkeypatch.setitem(sys.modules, "numba", SimpleNamespace(njit=njit, config=taken.config, core=core))
    monkeypatch.setitem(sys.modules, "numba.core", core)
    monkeypatch.setitem(sys.modules, "numba.core.caching", caching)
    monkeypatch.setattr(numba_compiler, "is_available", lambda: True)
    numba_compiler._compile.cache_clear()
    yield taken
    numba_compiler._compile.cache_clear()


def test_each_function_is_compiled_once_with_all_that_it_calls(taken: Taken) -> None:
    assert [compile_function(function) for function in FUNCTIONS] == [
        compile_function(function) for function in FUNCTIONS
    ]
    names = [function.__name__ for function in taken]
    # ProportionalZoneCPU and its parts of the room are compiled for itself and for Balanced, which inlines fewer calls.
    times = Counter((function.__code__.co_filename, function.__name__) for function in taken)
    assert {Path(path).stem for (path, _), count in times.items() if count > 1} == {
        "proportional_zone_cpu",
        "signature",
    }
    assert max(times.values()) == 2
    assert {"local_shared", "local", "push", "pop", "heapify", "_sift_down", "move_endpoint", "measure", "_load"} <= {
        *names
    }
    for function in taken:
        called = [
            global_ for global_ in function.__globals__.values() if callable(global_) and hasattr(global_, "__code__")
        ]
        assert all(any(callee is one for one in taken) for callee in called), function.__name__


def test_what_is_compiled_has_every_name_that_it_looks_up(taken: Taken) -> None:
    for drawn_input in drawn(100):
        assert every_result(compile_function, plain, drawn_input) == every_result(uncompiled, plain, drawn_input), (
            drawn_input
        )
    assert taken


def test_no_import_of_routing_imports_numba(tmp_path: Path) -> None:
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").touch()
    program = """
import importlib, pkgutil, sys
import zoneward.routing
for each in pkgutil.walk_packages(zoneward.routing.__path__, "zoneward.routing."):
    importlib.import_module(each.name)
from zoneward.routing.numba_compiler import is_available
assert is_available()
assert "zoneward.routing.algorithms.local" in sys.modules
assert not {"numba", "numpy"} & {*sys.modules}
"""
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, env=os.environ | {"PYTHONPATH": path})
    assert ran.returncode == 0, ran.stderr


def step(value: int) -> int:
    return value + 1


def two_steps(value: int) -> int:
    return value + 2


def stepped(value: int) -> int:
    return step(value) * 10


def repeated(action: Callable[[int], int]) -> Callable[[int], int]:
    def repeat(value: int) -> int:
        return action(action(value))

    return repeat


def test_closure_is_compiled_with_the_function_that_it_closes_over(taken: Taken) -> None:
    assert compile_function(repeated(step))(1) == 3
    assert compile_function(repeated(two_steps))(1) == 5
    assert [function.__name__ for function in taken] == ["step", "repeat", "two_steps", "repeat"]


def test_only_what_has_a_name_to_be_kept_as_is_kept(taken: Taken) -> None:
    compiled = compile_function(stepped, cache_dir="/somewhere", cache_name="stepped_by_one")
    assert compiled(1) == 20
    assert (compiled.__name__, compiled.__qualname__, compiled.__code__.co_name) == ("stepped_by_one",) * 3
    assert vars(taken.config) == {"CACHE_DIR": "/somewhere"}
    assert taken.options_by_name["stepped_by_one"].get("cache")
    assert not taken.options_by_name["step"].get("cache")
