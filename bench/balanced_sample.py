"""``Balanced`` compared with a long search: how much of the score its sets miss, on inputs with stored results.

``balanced_sample.csv`` has 50 inputs of kep for each band of ``simulate --by endpoints``, with the results of
`bench.set_search` after 10 seconds (2 seconds up to 20 endpoints, where the result is the optimum).
"""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from random import Random
from statistics import mean
from typing import Final

from bench.measuring import Figure
from bench.services import sets_request
from bench.set_search import Sets, score_of
from zoneward.routing.algorithms.set_value import SCORE
from zoneward.routing.balanced_decision import best_allocation, cluster_wide

PATH: Final = Path(__file__).with_name("balanced_sample.csv")
_COLUMNS: Final = ("band", "nodes", "endpoints", "seconds", "score")
_SEED: Final = 2004
_OF_BAND: Final = 50
_DRAWN: Final = 1_000_000
"""Inputs of kep from which those of each band are taken: its smallest band has hundreds of them."""
_MOST_PERCENT: Final = 0.1


@dataclass(frozen=True, slots=True)
class Case:
    """An input in a band, by its nodes and endpoints in each zone."""

    band: str
    demand: tuple[int, ...]
    supply: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KeptResult:
    """The best score of a search with this number of seconds of CPU."""

    case: Case
    seconds: float
    score: float


def check() -> Iterator[Figure]:
    """The gap to the search in percent of the score, worst and mean of each band; negative if the search is worse. At
    most 0.1."""
    for band, stored in groupby(read_results(), key=lambda result: result.case.band):
        gaps = [(100 * (1 - _score(item.case) / item.score), item.case) for item in stored]
        gaps.sort(key=lambda item: item[0])
        yield Figure(f"{band}, {len(gaps)} inputs, worst gap to the search", gaps[-1][0], "%", _MOST_PERCENT)
        yield Figure("  mean gap", mean(item for item, _ in gaps), "%")
        for gap, missed in gaps:
            if gap > _MOST_PERCENT:
                yield Figure(f"  nodes {_joined(missed.demand)}, endpoints {_joined(missed.supply)}", gap, "%")


def draw_cases() -> Iterator[Case]:
    """The inputs of the sample, always the same ones, by band."""
    import numpy as np

    from zoneward.lab.datasets import ComputedDataset
    from zoneward.lab.tally import BANDS

    chunks = [chunk.inputs() for chunk in ComputedDataset("kep", seed=_SEED, sample=_DRAWN).chunks()]
    demand = np.concatenate([chunk.demand for chunk in chunks])
    supply = np.concatenate([chunk.supply for chunk in chunks])
    endpoints = supply.sum(axis=1)
    for low, high in pairwise((0, *BANDS, int(endpoints.max()))):
        band = f"{low + 1} to {high}" if high in BANDS else f"over {low}"
        rows = np.flatnonzero((endpoints > low) & (endpoints <= high)).tolist()
        for row in sorted(Random(f"{_SEED} {low}").sample(rows, _OF_BAND)):
            yield Case(band, tuple(demand[row].tolist()), tuple(supply[row].tolist()))


def read_results() -> Iterator[KeptResult]:
    with PATH.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            case = Case(row["band"], _split(row["nodes"]), _split(row["endpoints"]))
            yield KeptResult(case, float(row["seconds"]), float(row["score"]))


def write_results(results: Iterable[KeptResult]) -> None:
    """Write the file again, each line as soon as there is a result."""
    with PATH.open("w", encoding="utf-8", newline="", buffering=1) as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(_COLUMNS)
        for result in results:
            case = result.case
            rows.writerow(
                (case.band, _joined(case.demand), _joined(case.supply), f"{result.seconds:g}", f"{result.score:.6f}")
            )


def _score(case: Case) -> float:
    """The score of what `Balanced` finds, by the measure of the search."""
    request = sets_request(case.demand, case.supply, objective=SCORE)
    best = best_allocation(request)
    sets: Sets = {}
    index = {zone: position for position, zone in enumerate(request.zones)}
    for (consumers, located), count in (cluster_wide(request) if best is None else best.counts).items():
        sets[index[located], sum(1 << index[zone] for zone in consumers)] = count
    return score_of(case.demand, case.supply, sets)


def _joined(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))


def _split(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))
