"""Rows of inputs through a rule of the decision core, and through the proposal's measures.

`score_rows` is compiled once for each rule, with the rule in it (`zoneward.routing.numba_compiler`). It runs as plain
Python too, over lists, for rules that can't be compiled.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, MutableSequence, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoneward.lab.contenders import Contender
from zoneward.routing.algorithms.one_group import one_group
from zoneward.routing.algorithms.signature import IMPOSSIBLE, REALS_PER_ZONE, SCRATCH_PER_ZONE, max_groups
from zoneward.routing.numba_compiler import compile_function
from zoneward.routing.score import IN_ZONE, MAX_OVERLOAD, MEAN_OVERLOAD, MEASURES, SLICES, measure, total

FATE: Final = MEASURES
COLUMNS: Final = MEASURES + 1
"""What is known of a row: the measures of `zoneward.routing.score`, and its fate."""

SCORED: Final = 0.0
FELL_BACK: Final = 1.0
"""Scored, but in the groups that were made some zone reaches no endpoint and uses all, as proxies do."""
UNSCORED: Final = 2.0
"""Nothing to score: there is no endpoint, or no node."""

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]
rule = one_group
"""Stands for the rule of a contender: `compiled` puts it here."""


def score_rows(
    demand: Sequence[Sequence[int]],
    supply: Sequence[Sequence[int]],
    parameters: Sequence[int],
    starting: float,
    per_slice: int,
    previous: Sequence[int],
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],
    reals: MutableSequence[float],
    measures: MutableSequence[float],
    results: Sequence[MutableSequence[float]],
) -> None:
    """Score every row of ``demand`` and ``supply`` into ``results[column][row]``.

    Rows with fewer than ``starting`` endpoints a zone, and those for which the rule finds nothing, get one group for
    all, as the proposal downgrades. The arrays between are room for one row.
    """
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
        if total >= starting * zones:
            groups = rule(demand[row], supply[row], parameters, previous, composition, weights, scratch, reals)
            if groups == IMPOSSIBLE:
                for cell in range(len(composition)):
                    composition[cell] = 0
                    weights[cell] = 0.0
        if groups == IMPOSSIBLE:
            groups = one_group(demand[row], supply[row], parameters, previous, composition, weights, scratch, reals)
        measure(demand[row], groups, composition, weights, per_slice, measures, reals)
        for column in range(MEASURES):
            results[column][row] = measures[column]
        fate = SCORED
        for zone in range(zones):
            if reals[zone] <= 0:
                fate = FELL_BACK
        results[FATE][row] = fate


def scores(contender: Contender, demand: Integers, supply: Integers) -> Reals:
    """The columns of every row, shape (`COLUMNS`, rows), from demand and supply of shape (rows, zones).

    Releases the interpreter while it counts, unless the contender runs as plain Python.
    """
    rows, zones = demand.shape
    results = np.empty((COLUMNS, rows))
    cells = max_groups(zones) * zones
    run = kernel(contender)
    if contender.plain:
        listed: list[list[float]] = [[0.0] * rows for _ in range(COLUMNS)]
        run(
            demand.tolist(),
            supply.tolist(),
            contender.parameters,
            float(contender.starting),
            contender.per_slice,
            [0] * zones**2,
            [0] * cells,
            [0.0] * cells,
            [0] * (zones * SCRATCH_PER_ZONE),
            [0.0] * (zones * REALS_PER_ZONE),
            [0.0] * MEASURES,
            listed,
        )
        results[:] = listed
        return results
    run(
        demand,
        supply,
        np.array(contender.parameters, np.int64),
        float(contender.starting),
        contender.per_slice,
        np.zeros(zones**2, np.int64),
        np.empty(cells, np.int64),
        np.empty(cells),
        np.empty(zones * SCRATCH_PER_ZONE, np.int64),
        np.empty(zones * REALS_PER_ZONE),
        np.empty(MEASURES),
        results,
    )
    return results


def slices_share(contender: Contender, columns: Reals, endpoints: Integers) -> Reals:
    """Slices that would do over those that there are, for each row of `scores`."""
    least: Reals = -(-endpoints // contender.per_slice) / np.maximum(columns[SLICES], 1)
    return least


def totals(columns: Reals, slices: Reals | float) -> Reals:
    """The score of each row; ``slices`` is what `slices_share` gives, or 1 for hints."""
    # The formula is the same for a number and for an array of them.
    found: Any = total(
        in_zone=columns[IN_ZONE],
        max_overload=columns[MAX_OVERLOAD],
        mean_overload=columns[MEAN_OVERLOAD],
        slices=slices,  # type: ignore[arg-type]
    )
    return np.asarray(found)


def prepare(contenders: Iterable[Contender]) -> None:
    """Compile what is not compiled yet, or get it from where it is kept."""
    for contender in contenders:
        scores(contender, np.ones((1, 2), np.int64), np.ones((1, 2), np.int64))


def kernel(contender: Contender) -> Callable[..., None]:
    """`score_rows` for the rule of a contender, compiled unless it runs as plain Python."""
    if contender.plain:
        from types import FunctionType

        return FunctionType(score_rows.__code__, {**globals(), "rule": contender.rule})
    return _kernel(contender.rule, contender.key)


@cache
def _kernel(rule: Any, key: str) -> Callable[..., None]:
    if not key:
        return compile_function(score_rows, allocates=True, rule=rule)
    return compile_function(score_rows, cache_dir=kept_in(), cache_name=f"score_rows_{key}", rule=rule)


def kept_in() -> str:
    """The directory where machine code is kept, made where it is missing; empty where nothing can be kept."""
    try:
        directory = machine_code_directory()
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        # Without a home, or in a file system that can only be read. numba would then keep it beside our source, where
        # it could not tell one version from another.
        return ""
    return str(directory) if os.access(directory, os.W_OK) else ""


def machine_code_directory() -> Path:
    """Where machine code would be kept between runs: apart for each version of the code that it was made from.

    Raises RuntimeError where nothing says what the home is.
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
