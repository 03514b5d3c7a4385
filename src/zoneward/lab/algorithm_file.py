"""A custom algorithm from a Python file: loaded, checked on a few inputs, compiled if numba can."""

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from time import perf_counter
from types import FunctionType
from typing import Any, Final

import numpy as np

from zoneward.kube.input_error import InputError, show
from zoneward.lab.contenders import ALGORITHMS, CustomAlgorithm, parse_contenders
from zoneward.lab.scoring import new_scratch, score_columns
from zoneward.routing.algorithms.signature import IMPOSSIBLE, max_groups

_OPTION: Final = "--algorithm-file"
_ARGUMENTS: Final = 8
_TEST_INPUTS: Final = 200
_PARAMETERS: Final = (1, 2, 1, 2)
_EXPECTED: Final = "my.py:function"


def load_algorithm_file(written: str) -> CustomAlgorithm:
    """Load ``FILE:FUNCTION``, before `check_algorithm`: enough to parse options with, not to run.

    Raises `InputError` where there is none, or where it lacks the arguments of a rule.
    """
    path, colon, function = written.rpartition(":")
    if not colon or not function.isidentifier() or not path:
        raise InputError(_OPTION, f"expected {_EXPECTED}, got {show(written)}")
    custom = CustomAlgorithm(name=function.replace("_", "-"), rule=_load_function(Path(path), function))
    if custom.name in ALGORITHMS:
        raise InputError(_OPTION, written, f"expected a name that no algorithm has, got {custom.name}")
    return custom


def check_algorithm(custom: CustomAlgorithm, *, written: str) -> tuple[CustomAlgorithm, str]:
    """Run it on a few inputs. Returns it as it may be used, and a note for its user, may be empty. Takes seconds.

    Raises `InputError` where a result is no allocation.
    """
    for inputs in _draw_inputs():
        _check_allocation(written, custom.rule, inputs)
    interpreted = replace(custom, interpreted=True)
    fault = _find_numba_fault(custom, interpreted)
    if not fault:
        return custom, ""
    own_time, local_time = _measure_times(interpreted)
    note = (
        f"{written}: numba can't compile it ({fault}), so it runs as plain Python on one core:"
        f" {own_time * 1e6:.0f} us an input, {own_time / local_time:,.0f} times as long as local compiled"
    )
    return interpreted, note


def _load_function(path: Path, name: str) -> Callable[..., Any]:
    if not path.is_file():
        raise InputError(_OPTION, str(path), "expected a Python file, found none")
    module_name = f"zoneward_own_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise InputError(_OPTION, str(path), "expected a file whose name ends with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InputError(_OPTION, str(path), _describe_error(error)) from error
    function = getattr(module, name, None)
    if not isinstance(function, FunctionType):
        raise InputError(_OPTION, str(path), f"expected a function {name}, found none")
    try:
        inspect.signature(function).bind(*[None] * _ARGUMENTS)
    except TypeError as error:
        expected = "(demand, supply, parameters, previous, composition, weights, scratch, reals)"
        raise InputError(_OPTION, str(path), name, f"expected the arguments {expected}") from error
    return function


# --- are its results allocations --------------------------------------------------------------------------------------

_Input = tuple[list[int], list[int]]


def _draw_inputs() -> Iterator[_Input]:
    """Demand and supply of two to eight zones: with empty zones, equal zones, and without any endpoint."""
    random = Random(2004)
    for index in range(_TEST_INPUTS):
        zones = 3 if index % 2 else random.randint(2, 8)
        most = random.choice((1, 4, 30, 200))
        yield (
            [random.choice((1, 1, random.randint(1, 30))) for _ in range(zones)],
            [random.choice((0, random.randint(0, most), most)) for _ in range(zones)],
        )


def _check_allocation(where: str, function: Callable[..., Any], inputs: _Input) -> None:
    """Every endpoint is in one group, and some zone consumes every group. Raises `InputError`."""
    demand, supply = inputs
    case = f"for nodes {_join(demand)} and endpoints {_join(supply)}"
    try:
        groups, composition, weights = _run(function, demand, supply)
    except (Exception, SystemExit) as error:
        raise InputError(_OPTION, where, f"{_describe_error(error)}, {case}") from error
    if isinstance(groups, bool) or not isinstance(groups, int) or not IMPOSSIBLE <= groups <= max_groups(len(demand)):
        most = max_groups(len(demand))
        raise InputError(
            _OPTION, where, f"expected a number of groups from {IMPOSSIBLE} to {most}, got {show(groups)}, {case}"
        )
    if groups == IMPOSSIBLE or not any(supply):
        return
    zones = len(demand)
    for located in range(zones):
        column = [composition[group * zones + located] for group in range(groups)]
        if any(isinstance(count, bool) or not isinstance(count, int) or count < 0 for count in column):
            raise InputError(_OPTION, where, f"expected whole numbers of endpoints, got {_join(column)}, {case}")
        if sum(column) != supply[located]:
            expected = f"expected every endpoint of zone {located + 1} in one group, {supply[located]} in all"
            raise InputError(_OPTION, where, f"{expected}, got {sum(column)}, {case}")
    for group in range(groups):
        row = weights[group * zones : (group + 1) * zones]
        if not all(isinstance(weight, int | float) and 0 <= weight < float("inf") for weight in row):
            raise InputError(_OPTION, where, f"expected weights of 0 or more, got {_join(row)}, {case}")
        if any(composition[group * zones : (group + 1) * zones]) and not any(row):
            raise InputError(
                _OPTION, where, f"expected a zone that consumes group {group + 1}, all weights are 0, {case}"
            )


def _run(
    function: Callable[..., Any], demand: Sequence[int], supply: Sequence[int]
) -> tuple[Any, list[Any], list[Any]]:
    previous, composition, weights, *scratch, _ = (array.tolist() for array in new_scratch(len(demand)))
    groups = function(tuple(demand), tuple(supply), _PARAMETERS, tuple(previous), composition, weights, *scratch)
    return groups, composition, weights


# --- can it be compiled -----------------------------------------------------------------------------------------------


def _find_numba_fault(own: CustomAlgorithm, interpreted: CustomAlgorithm) -> str:
    """Why numba can't compile it, in a line; empty where compiled code has the same results."""
    by_zones: dict[int, list[_Input]] = {}
    for input_ in _draw_inputs():
        by_zones.setdefault(len(input_[0]), []).append(input_)
    (compiled_one,), (plain_one,) = parse_contenders((), own=own), parse_contenders((), own=interpreted)
    for inputs in by_zones.values():
        demand = np.array([input_[0] for input_ in inputs], np.int64)
        supply = np.array([input_[1] for input_ in inputs], np.int64)
        expected = score_columns(plain_one, demand, supply)
        try:
            scores = score_columns(compiled_one, demand, supply)
        except Exception as error:
            return _describe_error(error)
        if not np.allclose(scores, expected, rtol=1e-9, atol=1e-9):
            return "compiled it gives something else: it may divide by zero, or leave an array"
    return ""


def _measure_times(own: CustomAlgorithm) -> tuple[float, float]:
    """Seconds an input: of this rule, and of local compiled."""
    inputs = [input_ for input_ in _draw_inputs() if len(input_[0]) == 3]
    demand = np.array([input_[0] for input_ in inputs], np.int64)
    supply = np.array([input_[1] for input_ in inputs], np.int64)
    times = []
    for contender in (*parse_contenders((), own=own), *parse_contenders(("local",))):
        repeats = 1 if contender.interpreted else 100
        score_columns(contender, demand, supply)
        start = perf_counter()
        for _ in range(repeats):
            score_columns(contender, demand, supply)
        times.append((perf_counter() - start) / repeats / len(inputs))
    return times[0], times[1]


def _describe_error(error: BaseException) -> str:
    """An error in one line: numba's messages fill pages, and the first line that is no heading has the reason."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f"line {error.lineno}: {error.msg}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    useful = [line for line in lines if not line.startswith(("Failed in", "During:", "File", "<source"))]
    return f"{type(error).__name__}: {(useful or lines or ['no message'])[0]}"


def _join(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))
