"""One allocation, in plain Python as a controller runs it and compiled as the lab does, for 3, 8 and 30 zones."""

import time
from collections.abc import Callable, Iterator
from random import Random
from statistics import median
from typing import Any

import numpy as np

from bench.measuring import Figure
from zoneward.routing.algorithms.heuristics import PROPORTIONAL_ZONE_CPU, SUBSETTING_ALGORITHMS, Heuristic
from zoneward.routing.algorithms.signature import REALS_PER_ZONE, SCRATCH_PER_ZONE, max_groups
from zoneward.routing.numba_compiler import compile_function

_ENDPOINTS_PER_ZONE = 20
_PLAIN_TIMES, _COMPILED_TIMES, _REPEATS = 100, 20_000, 7
_SEED = 20_260_901


def allocations() -> Iterator[Figure]:
    """Every algorithm for 3, 8 and 30 zones, 20 endpoints a zone on average; microseconds, the median."""
    for heuristic in (*SUBSETTING_ALGORITHMS.values(), PROPORTIONAL_ZONE_CPU):
        for zones in (3, 8, 30):
            inputs = _inputs(zones)
            plain = _timed(_plainly(heuristic.allocate), [list(each) for each in inputs], _PLAIN_TIMES)
            fast = _timed(_compiledly(heuristic), [np.array(each) for each in inputs], _COMPILED_TIMES)
            yield Figure(f"allocation by {heuristic.name}, {zones} zones, plain", plain, "us")
            yield Figure("  compiled", fast, "us")


def _inputs(zones: int) -> tuple[list[int], list[int], tuple[int, ...], list[int], list[int], list[float], list[int]]:
    """Demand, supply, parameters, previous, and scratch arrays."""
    random = Random(_SEED)
    demand = [random.randint(1, 10) for _ in range(zones)]
    supply = [random.randint(0, 2 * _ENDPOINTS_PER_ZONE) for _ in range(zones)]
    cells = max_groups(zones) * zones
    return demand, supply, (1, 2, 1, 2), [0] * zones**2, [0] * cells, [0.0] * cells, [0] * (SCRATCH_PER_ZONE * zones)


def _timed(run: Callable[..., None], inputs: list[Any], times: int) -> float:
    zones = len(inputs[0])
    reals = [0.0] * (REALS_PER_ZONE * zones)
    arrays = [*inputs, np.array(reals) if isinstance(inputs[0], np.ndarray) else reals]
    run(1, *arrays)
    measured = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        run(times, *arrays)
        measured.append((time.perf_counter() - start) / times)
    return median(measured) * 1e6


def _plainly(rule: Callable[..., int]) -> Callable[..., None]:
    def run(times: int, demand: Any, supply: Any, parameters: Any, previous: Any, composition: Any, *rest: Any) -> None:
        for _ in range(times):
            for cell in range(len(composition)):
                composition[cell] = 0
            rule(demand, supply, parameters, previous, composition, *rest)

    return run


def _compiledly(heuristic: Heuristic) -> Callable[..., None]:
    """The loop is compiled too, because a call from Python would cost more than most allocations."""
    from numba import njit

    rule = compile_function(heuristic.allocate)

    def run(
        times: int,
        demand: Any,
        supply: Any,
        parameters: Any,
        previous: Any,
        composition: Any,
        weights: Any,
        scratch: Any,
        reals: Any,
    ) -> None:
        for _ in range(times):
            composition[:] = 0
            weights[:] = 0
            rule(demand, supply, parameters, previous, composition, weights, scratch, reals)

    result: Callable[..., None] = njit(run)
    return result
