"""A rule of the user's own from a Python file: loaded, tried on a few inputs, compiled where numba can."""

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from time import perf_counter
from types import FunctionType
from typing import Any, Final

import numpy as np

from zoneward.kube.input_error import InputError, show
from zoneward.lab.contenders import ALGORITHMS, OwnRule, contenders_for
from zoneward.lab.scoring import scores
from zoneward.routing.algorithms.signature import IMPOSSIBLE, REALS_PER_ZONE, SCRATCH_PER_ZONE, max_groups

_OPTION: Final = "--algorithm-file"
_ARGUMENTS: Final = 8
_TRIES: Final = 200
_PARAMETERS: Final = (1, 2, 1, 2)
_EXPECTED: Final = "my.py:function"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A rule that may be used, and what its user should know: empty where there is nothing to say."""

    rule: OwnRule
    note: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """A function from a file, as it was ``written`` on the command line."""

    written: str
    function: Callable[..., Any]

    @property
    def untried(self) -> OwnRule:
        """Good for finding out what is asked of it, not for running."""
        name = self.written.rpartition(":")[2].replace("_", "-")
        return OwnRule(name=name, rule=self.function, key="")

    def tried(self) -> Loaded:
        """The rule after a look at what it gives; raises `InputError` where that is no allocation. Takes seconds."""
        for inputs in _inputs():
            _check(self.written, self.function, inputs)
        fault = _fault_of_numba(self.function)
        if not fault:
            return Loaded(self.untried)
        own = replace(self.untried, plain=True)
        here, there = _times(own)
        note = (
            f"{self.written}: numba can't compile it ({fault}), so it runs as plain Python on one core:"
            f" {here * 1e6:.0f} us an input, {here / there:,.0f} times as long as local compiled"
        )
        return Loaded(own, note)


def source(written: str) -> Source:
    """Load ``FILE:FUNCTION``. Raises `InputError` where there is none, or it can't take what rules are given."""
    path, colon, name = written.rpartition(":")
    if not colon or not name.isidentifier() or not path:
        raise InputError(_OPTION, f"expected {_EXPECTED}, got {show(written)}")
    found = Source(written, _loaded(Path(path), name))
    if found.untried.name in ALGORITHMS:
        raise InputError(_OPTION, written, f"expected a name that no algorithm has, got {found.untried.name}")
    return found


def _loaded(path: Path, name: str) -> Callable[..., Any]:
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
        raise InputError(_OPTION, str(path), _told(error)) from error
    function = getattr(module, name, None)
    if not isinstance(function, FunctionType):
        raise InputError(_OPTION, str(path), f"expected a function {name}, found none")
    try:
        inspect.signature(function).bind(*[None] * _ARGUMENTS)
    except TypeError as error:
        expected = "(demand, supply, parameters, previous, composition, weights, scratch, reals)"
        raise InputError(_OPTION, str(path), name, f"expected the arguments {expected}") from error
    return function


# --- is it an allocation ----------------------------------------------------------------------------------------------

_Input = tuple[list[int], list[int]]


def _inputs() -> Iterator[_Input]:
    """Demand and supply of two to eight zones: with empty zones, equal ones and nothing at all."""
    random = Random(2004)
    for number in range(_TRIES):
        zones = 3 if number % 2 else random.randint(2, 8)
        most = random.choice((1, 4, 30, 200))
        yield (
            [random.choice((1, 1, random.randint(1, 30))) for _ in range(zones)],
            [random.choice((0, random.randint(0, most), most)) for _ in range(zones)],
        )


def _check(where: str, function: Callable[..., Any], inputs: _Input) -> None:
    """Every endpoint in some group, once, and every group consumed by somebody."""
    demand, supply = inputs
    case = f"for nodes {_list(demand)} and endpoints {_list(supply)}"
    try:
        groups, composition, weights = _run(function, demand, supply)
    except (Exception, SystemExit) as error:
        raise InputError(_OPTION, where, f"{_told(error)}, {case}") from error
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
        if any(isinstance(each, bool) or not isinstance(each, int) or each < 0 for each in column):
            raise InputError(_OPTION, where, f"expected whole numbers of endpoints, got {_list(column)}, {case}")
        if sum(column) != supply[located]:
            expected = f"expected every endpoint of zone {located + 1} in one group, {supply[located]} in all"
            raise InputError(_OPTION, where, f"{expected}, got {sum(column)}, {case}")
    for group in range(groups):
        row = weights[group * zones : (group + 1) * zones]
        if not all(isinstance(each, int | float) and 0 <= each < float("inf") for each in row):
            raise InputError(_OPTION, where, f"expected weights of 0 or more, got {_list(row)}, {case}")
        if any(composition[group * zones : (group + 1) * zones]) and not any(row):
            raise InputError(
                _OPTION, where, f"expected a zone that consumes group {group + 1}, all weights are 0, {case}"
            )


def _run(
    function: Callable[..., Any], demand: Sequence[int], supply: Sequence[int]
) -> tuple[Any, list[Any], list[Any]]:
    zones = len(demand)
    cells = max_groups(zones) * zones
    composition: list[Any] = [0] * cells
    weights: list[Any] = [0.0] * cells
    groups = function(
        tuple(demand),
        tuple(supply),
        _PARAMETERS,
        (0,) * zones**2,
        composition,
        weights,
        [0] * (zones * SCRATCH_PER_ZONE),
        [0.0] * (zones * REALS_PER_ZONE),
    )
    return groups, composition, weights


# --- can it be compiled -----------------------------------------------------------------------------------------------


def _fault_of_numba(function: Callable[..., Any]) -> str:
    """Why numba can't compile it, in a line; empty where it can, and gives the same."""
    own = OwnRule(name="own", rule=function, key="")
    plain = OwnRule(name="own", rule=function, key="", plain=True)
    by_zones: dict[int, list[_Input]] = {}
    for each in _inputs():
        by_zones.setdefault(len(each[0]), []).append(each)
    (compiled_one,), (plain_one,) = contenders_for((), own=own), contenders_for((), own=plain)
    for inputs in by_zones.values():
        demand = np.array([each[0] for each in inputs], np.int64)
        supply = np.array([each[1] for each in inputs], np.int64)
        wanted = scores(plain_one, demand, supply)
        try:
            found = scores(compiled_one, demand, supply)
        except Exception as error:
            return _told(error)
        if not np.allclose(found, wanted, rtol=1e-9, atol=1e-9):
            return "compiled it gives something else: it may divide by zero, or leave an array"
    return ""


def _times(own: OwnRule) -> tuple[float, float]:
    """Seconds an input: of this rule, and of local compiled."""
    inputs = [each for each in _inputs() if len(each[0]) == 3]
    demand = np.array([each[0] for each in inputs], np.int64)
    supply = np.array([each[1] for each in inputs], np.int64)
    times = []
    for contender in (*contenders_for((), own=own), *contenders_for(("local",))):
        repeats = 1 if contender.plain else 100
        scores(contender, demand, supply)
        start = perf_counter()
        for _ in range(repeats):
            scores(contender, demand, supply)
        times.append((perf_counter() - start) / repeats / len(inputs))
    return times[0], times[1]


def _told(error: BaseException) -> str:
    """An error in a line: numba's messages go over pages, and the point is in the first lines that say something."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f"line {error.lineno}: {error.msg}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(("Failed in", "During:", "File", "<source"))]
    return f"{type(error).__name__}: {(said or lines or ['no message'])[0]}"


def _list(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))
