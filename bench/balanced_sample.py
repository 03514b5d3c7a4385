"""``Balanced`` compared with a long search: how much of the score its sets miss, on inputs with stored results.

``balanced_sample.csv`` has 50 inputs of kep for each band of ``simulate --by endpoints``, each with the best score of
simulated annealing over all sets. It ran for 10 seconds; up to 20 endpoints 2 seconds reach the optimum.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import mean
from typing import Final

from bench.measuring import Figure
from bench.services import sets_request
from zoneward.routing.algorithms.set_value import SCORE
from zoneward.routing.balanced_decision import best_allocation, cluster_wide

PATH: Final = Path(__file__).with_name("balanced_sample.csv")
_MOST_PERCENT: Final = 0.1
_MAX_OVERLOAD: Final = 0.2

Sets = dict[tuple[int, int], int]
"""Endpoints by where they are located and by who uses them: a bit for each zone."""


@dataclass(frozen=True, slots=True)
class Case:
    """An input in a band, by its nodes and endpoints in each zone, and the best score of the search."""

    band: str
    demand: tuple[int, ...]
    supply: tuple[int, ...]
    score: float


def check() -> Iterator[Figure]:
    """The gap to the search in percent of the score, worst and mean of each band; negative if the search is worse. At
    most 0.1."""
    for band, cases in groupby(_cases(), key=lambda case: case.band):
        gaps = sorted(((100 * (1 - _score(case) / case.score), case) for case in cases), key=lambda item: item[0])
        yield Figure(f"{band}, {len(gaps)} inputs, worst gap to the search", gaps[-1][0], "%", _MOST_PERCENT)
        yield Figure("  mean gap", mean(gap for gap, _ in gaps), "%")
        for gap, missed in gaps:
            if gap > _MOST_PERCENT:
                nodes, endpoints = (" ".join(map(str, numbers)) for numbers in (missed.demand, missed.supply))
                yield Figure(f"  nodes {nodes}, endpoints {endpoints}", gap, "%")


def _cases() -> Iterator[Case]:
    with PATH.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield Case(row["band"], _split(row["nodes"]), _split(row["endpoints"]), float(row["score"]))


def _score(case: Case) -> float:
    """The score of what `Balanced` finds, by the measure of the search."""
    request = sets_request(case.demand, case.supply, objective=SCORE)
    best = best_allocation(request)
    sets: Sets = {}
    index = {zone: position for position, zone in enumerate(request.zones)}
    for (consumers, located), count in (cluster_wide(request) if best is None else best.counts).items():
        sets[index[located], sum(1 << index[zone] for zone in consumers)] = count
    return _score_of(case.demand, case.supply, sets)


def _score_of(demand: Sequence[int], supply: Sequence[int], sets: Mapping[tuple[int, int], int]) -> float:
    """KEP-2004's score with hints (docs/lab.md § What is scored). Raises ValueError for sets that are not valid."""
    zones = range(len(demand))
    for located in zones:
        if sum(count for (zone, _), count in sets.items() if zone == located) != supply[located]:
            raise ValueError(f"not {supply[located]} endpoints in zone {located}: {sets}")
    total = sum(supply)
    size = [sum(count for (_, users), count in sets.items() if users >> zone & 1) for zone in zones]
    # The share of a zone's traffic that each of its endpoints gets.
    part = [demand[zone] / sum(demand) / size[zone] if demand[zone] else 0.0 for zone in zones]
    worst = mean = in_zone = 0.0
    for (located, users), count in sets.items():
        if not count:
            continue
        if not users:
            raise ValueError(f"nobody uses an endpoint of zone {located}: {sets}")
        overload = total * sum(part[zone] for zone in zones if users >> zone & 1) - 1
        worst = max(worst, overload)
        mean += abs(overload) * count / total
        in_zone += part[located] * count if users >> located & 1 else 0.0
    if worst > _MAX_OVERLOAD + 1e-6:
        raise ValueError(f"an endpoint is {worst} above fair: {sets}")
    return 45 * in_zone + 20 * (1 - worst) + 20 * (1 - mean) + 15


def _split(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))
