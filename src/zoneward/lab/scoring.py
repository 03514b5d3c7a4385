"""Scores rows of inputs: a rule of the decision core allocates, and the proposal's measures score the result.

`row_scorer` closes over a rule, and is compiled with it (`zoneward.routing.numba_compiler`). It runs as plain Python
too, over lists, for rules that can't be compiled.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, MutableSequence, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoneward.lab.contenders import Contender
from zoneward.lab.datasets import Integers
from zoneward.routing.algorithms.heuristics import one_group
from zoneward.routing.algorithms.signature import IMPOSSIBLE, AllocateFunction, max_groups, reals_length, scratch_length
from zoneward.routing.numba_compiler import CACHE_SOURCE, compile_function
from zoneward.routing.score import IN_ZONE, MAX_OVERLOAD, MEAN_OVERLOAD, MEASURES, SLICES, measure, total

FATE: Final = MEASURES
COLUMNS: Final = MEASURES + 1
"""What is known of a row: the measures of `zoneward.routing.score`, and its fate."""

SCORED: Final = 0.0
FELL_BACK: Final = 1.0
"""Scored, but in the groups that were made some zone reaches no endpoint and uses all, as proxies do."""
UNSCORED: Final = 2.0
"""Nothing to score: there is no endpoint, or no node."""

Floats = NDArray[np.float64]


class Scratch(NamedTuple):
    """Room for one row between the rule and the measures. The caller makes it, because compiled code makes no arrays.

    Each is an array of numpy, or a list for rules that run as interpreted Python; a named tuple, because numba compiles
    functions that take one. ``previous`` is all zero: rows have no history.
    """

    previous: Any
    composition: Any
    weights: Any
    integers: Any
    reals: Any
    measures: Any


def new_scratch(zones: int) -> Scratch:
    """In arrays of numpy."""
    cells = max_groups(zones) * zones
    return Scratch(
        previous=np.zeros(zones**2, np.int64),
        composition=np.zeros(cells, np.int64),
        weights=np.zeros(cells),
        integers=np.zeros(scratch_length(zones), np.int64),
        reals=np.zeros(reals_length(zones)),
        measures=np.zeros(MEASURES),
    )


def row_scorer(rule: AllocateFunction) -> Callable[..., None]:
    """The function that scores rows by a rule."""

    def score_rows(
        demand: Sequence[Sequence[int]],
        supply: Sequence[Sequence[int]],
        parameters: Sequence[int],
        starting_threshold: float,
        max_endpoints_per_slice: int,
        scratch: Scratch,
        results: Sequence[MutableSequence[float]],
    ) -> None:
        """Score every row of ``demand`` and ``supply`` into ``results[column][row]``.

        Rows with fewer than ``starting_threshold`` endpoints a zone, and those for which the rule finds no allocation,
        get one group for all, as the proposal downgrades.
        """
        previous, composition, weights, integers, reals, measures = scratch
        for row in range(len(demand)):
            zones = len(demand[row])
            total = 0
            nodes = 0
            for zone in range(zones):
                total += supply[row][zone]
                nodes += demand[row][zone]
            if total == 0 or nodes == 0:
                for column in range(MEASURES):
                    results[column][row] = 0.0
                results[FATE][row] = UNSCORED
                continue
            for cell in range(len(composition)):
                composition[cell] = 0
                weights[cell] = 0.0
            groups = IMPOSSIBLE
            if total >= starting_threshold * zones:
                groups = rule(demand[row], supply[row], parameters, previous, composition, weights, integers, reals)
                if groups == IMPOSSIBLE:
                    for cell in range(len(composition)):
                        composition[cell] = 0
                        weights[cell] = 0.0
            if groups == IMPOSSIBLE:
                groups = one_group(
                    demand[row], supply[row], parameters, previous, composition, weights, integers, reals
                )
            measure(demand[row], groups, composition, weights, max_endpoints_per_slice, measures, reals)
            for column in range(MEASURES):
                results[column][row] = measures[column]
            fate = SCORED
            for zone in range(zones):
                if reals[zone] <= 0:
                    fate = FELL_BACK
            results[FATE][row] = fate

    return score_rows


def score_columns(contender: Contender, demand: Integers, supply: Integers) -> Floats:
    """The columns of every row, shape (`COLUMNS`, rows), from demand and supply of shape (rows, zones).

    Releases the interpreter while it counts, unless the contender runs as interpreted Python.
    """
    rows, zones = demand.shape
    results = np.empty((COLUMNS, rows))
    scratch = new_scratch(zones)
    thresholds = float(contender.starting_threshold), contender.max_endpoints_per_slice
    run = kernel(contender)
    parameters = contender.parameters_for(zones)
    if contender.interpreted:
        listed = results.tolist()
        lists = Scratch(*(array.tolist() for array in scratch))
        run(demand.tolist(), supply.tolist(), parameters, *thresholds, lists, listed)
        results[:] = listed
    else:
        run(demand, supply, np.array(parameters, np.int64), *thresholds, scratch, results)
    return results


def slices_share(contender: Contender, columns: Floats, endpoints: Integers) -> Floats:
    """The fewest slices over the number of slices, for each row of `score_columns`."""
    least: Floats = -(-endpoints // contender.max_endpoints_per_slice) / np.maximum(columns[SLICES], 1)
    return least


def totals(columns: Floats, slices: Floats | float) -> Floats:
    """The score of each row; ``slices`` is what `slices_share` gives, or 1 for hints."""
    # The formula is the same for a number and for an array of them.
    scores: Any = total(
        in_zone=columns[IN_ZONE],
        max_overload=columns[MAX_OVERLOAD],
        mean_overload=columns[MEAN_OVERLOAD],
        slices=slices,  # type: ignore[arg-type]
    )
    return np.asarray(scores)


def possible_in_zone(demand: Integers, supply: Integers) -> Floats:
    """The most traffic that can stay in its zone with a fair load for every endpoint (docs/lab.md § More tables).

    0 for rows without nodes or endpoints.
    """
    share = demand / np.maximum(demand.sum(axis=1, keepdims=True), 1)
    located = supply / np.maximum(supply.sum(axis=1, keepdims=True), 1)
    possible: Floats = np.minimum(share, located).sum(axis=1)
    return possible


def bound_totals(possible: Floats) -> Floats:
    """The score that no algorithm exceeds, from `possible_in_zone`. Weights of zones reach it."""
    # The formula is the same for a number and for an array of them.
    scores: Any = total(in_zone=possible, max_overload=0.0, mean_overload=0.0, slices=1.0)  # type: ignore[arg-type]
    return np.asarray(scores)


def compile_kernels(contenders: Iterable[Contender]) -> None:
    """Compile what is neither compiled nor cached yet."""
    for contender in contenders:
        score_columns(contender, np.ones((1, 2), np.int64), np.ones((1, 2), np.int64))


def kernel(contender: Contender) -> Callable[..., None]:
    """`row_scorer` for the rule of a contender, compiled unless it runs as interpreted Python."""
    return row_scorer(contender.rule) if contender.interpreted else _kernel(contender.rule, contender.key)


@cache
def _kernel(rule: AllocateFunction, key: str) -> Callable[..., None]:
    if not key:
        return compile_function(row_scorer(rule), allocates=True)
    return compile_function(row_scorer(rule), cache_dir=machine_code_cache(), cache_name=f"score_rows_{key}")


def machine_code_cache() -> str:
    """The directory where machine code is cached, created if it is missing; empty if nothing can be cached."""
    try:
        directory = machine_code_directory()
        directory.mkdir(parents=True, exist_ok=True)
        if not (source := directory / CACHE_SOURCE).exists():
            source.touch()
    except (OSError, RuntimeError):
        # Without a home, or in a file system that can only be read. numba would then cache it beside our source,
        # where it could not distinguish versions.
        return ""
    return str(directory) if os.access(directory, os.W_OK) else ""


def machine_code_directory() -> Path:
    """Where machine code is cached between runs: a directory for each version of the code that it was compiled from.

    Raises RuntimeError where the home directory is unknown.
    """
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "zoneward" / source_digest()


def source_digest() -> str:
    """What machine code depends on: our source, numpy and numba."""
    digest = hashlib.sha256(f"{np.__version__} {version('numba')}".encode())
    for part in ("routing", "lab"):
        for path in sorted((Path(__file__).parents[1] / part).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
