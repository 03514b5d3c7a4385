"""CPU of decisions of ``Balanced`` in plain Python, as the controller makes them."""

import time
from collections.abc import Iterator
from random import Random
from statistics import mean
from typing import Final

from bench.measuring import Figure, quantile
from bench.services import sets_request
from zoneward.kube.gc_tuning import frozen_objects
from zoneward.routing.algorithms.set_value import LOCALITY, SCORE
from zoneward.routing.balanced_decision import SetsRequest, best_allocation

_EXACT_MS: Final = 50.0
_LOOKUP_MS: Final = 0.2
_CASES: Final = (
    # Zones, fewest and most endpoints, inputs, and the limit of the 99th percentile in milliseconds.
    (2, 1, 12, 300, _EXACT_MS),
    (3, 1, 8, 300, _EXACT_MS),
    (3, 9, 20, 200, _EXACT_MS),
    *((zones, 21, 1_000, 100, 10.0) for zones in (3, 4, 6, 8)),
    *((zones, 1_001, 10_000, 100, 30.0) for zones in (3, 4, 6, 8)),
    (4, 1, 20, 200, 10.0),
    (8, 1, 20, 100, 10.0),
    (32, 100, 1_000, 3, None),
)


def decisions() -> Iterator[Figure]:
    """Fresh decisions of random inputs, and those that are remembered."""
    for objective, name in ((SCORE, "score"), (LOCALITY, "locality")):
        for zones, fewest, most, inputs, limit in _CASES:
            random = Random(zones * most)
            spent = []
            # A garbage collection that visits all imported modules takes 10 ms and more, and is part of no decision.
            with frozen_objects():
                for _ in range(inputs):
                    request = _request(random, zones, random.randint(fewest, most), objective)
                    start = time.process_time_ns()
                    best_allocation(request)
                    spent.append((time.process_time_ns() - start) / 1e6)
            what = f"{zones} zones, {fewest} to {most} endpoints, {name}"
            yield Figure(f"{what}, p99", quantile(spent, 0.99), "ms", limit)
            yield Figure("  mean", mean(spent), "ms")
    request = _request(Random(1), 3, 8, SCORE)
    best_allocation(request)
    start = time.process_time_ns()
    for _ in range(1_000):
        best_allocation(request)
    yield Figure("a remembered decision", (time.process_time_ns() - start) / 1e9, "ms", _LOOKUP_MS)


def _request(random: Random, zones: int, endpoints: int, objective: int) -> SetsRequest:
    located = random.choices(range(zones), [random.random() for _ in range(zones)], k=endpoints)
    return sets_request(
        [random.randint(1, 10) for _ in range(zones)], list(map(located.count, range(zones))), objective=objective
    )
