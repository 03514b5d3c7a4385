"""Writes ``cases/<algorithm>.json``: what the reference makes of some 350 inputs, one a line.

``python -m tests.reference.make_cases`` from the project's root. The same inputs for every algorithm, and the same
files every time. Those with a starting threshold are taken without it: in the product it is a rule before the
algorithm.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

from tests.reference.kep_2004 import ALGORITHMS, allocate, score

CASES = Path(__file__).with_name("cases")

Input = tuple[tuple[int, ...], tuple[int, ...]]
"""Nodes and endpoints of each zone."""


def inputs() -> list[Input]:
    """No input twice, each with at least one endpoint."""
    rng = random.Random(2004)
    found: dict[Input, None] = {}
    for generate, wanted in (
        (_kep, 70),
        (_kep_permuted, 60),
        (_few, 60),
        (_empty_zones, 30),
        (_tiny_shares, 30),
        (_large, 20),
        (partial(_any, zones=2), 25),
        (partial(_any, zones=4), 25),
        (partial(_any, zones=5), 20),
        (partial(_any, zones=8), 15),
        (partial(_any, zones=12), 8),
        (partial(_any, zones=30), 4),
    ):
        before = len(found)
        while len(found) < before + wanted:
            nodes, endpoints = generate(rng)
            if sum(endpoints) > 0:
                found[tuple(nodes), tuple(endpoints)] = None
    return list(found)


def _numbers(rng: random.Random, count: int, low: int, high: int) -> list[int]:
    return [rng.randint(low, high) for _ in range(count)]


def _kep(rng: random.Random) -> tuple[list[int], list[int]]:
    return sorted(_numbers(rng, 3, 1, 10)), sorted(_numbers(rng, 3, 0, 100))


def _kep_permuted(rng: random.Random) -> tuple[list[int], list[int]]:
    return sorted(_numbers(rng, 3, 1, 10)), _numbers(rng, 3, 0, 100)


def _few(rng: random.Random) -> tuple[list[int], list[int]]:
    """Where every single endpoint counts, and groups run out of them."""
    return sorted(_numbers(rng, 3, 1, 10)), _numbers(rng, 3, 0, rng.choice((2, 5, 10)))


def _empty_zones(rng: random.Random) -> tuple[list[int], list[int]]:
    """One or two of three without an endpoint."""
    endpoints = _numbers(rng, 3, 1, rng.choice((10, 100)))
    for zone in rng.sample(range(3), rng.randint(1, 2)):
        endpoints[zone] = 0
    return _numbers(rng, 3, 1, 10), endpoints


def _tiny_shares(rng: random.Random) -> tuple[list[int], list[int]]:
    """Zones of one node beside one of ten, that have too little or far too much."""
    nodes = [1, rng.choice((1, 9, 10)), 10]
    rng.shuffle(nodes)
    return nodes, [rng.choice((0, 1, rng.randint(0, 30), rng.randint(0, 100))) for _ in nodes]


def _large(rng: random.Random) -> tuple[list[int], list[int]]:
    """Those of the dataset with 30 nodes in each zone, half of them permuted."""
    endpoints = [rng.randrange(100, 1001, 7) for _ in range(3)]
    return [30, 30, 30], sorted(endpoints) if rng.random() < 0.5 else endpoints


def _any(rng: random.Random, zones: int) -> tuple[list[int], list[int]]:
    """As in the dataset; as few; or with most in one zone and hardly any in the others."""
    kind = rng.randrange(3)
    nodes = _numbers(rng, zones, 1, 10)
    if kind == 0:
        return nodes, _numbers(rng, zones, 0, 100)
    if kind == 1:
        return nodes, _numbers(rng, zones, 0, 5)
    endpoints = _numbers(rng, zones, 0, 2)
    endpoints[rng.randrange(zones)] = rng.randint(zones, 10 * zones)
    return nodes, endpoints


def content(algorithm: str) -> str:
    """What the algorithm's file holds: a list. ``groups`` is null where the rules end in random."""
    return "[\n" + ",\n".join(_lines(algorithm)) + "\n]\n"


def _lines(algorithm: str) -> Iterator[str]:
    for nodes, endpoints in inputs():
        groups = allocate(algorithm, nodes, endpoints, starting_threshold=0)
        case = {
            "nodes": nodes,
            "endpoints": endpoints,
            "groups": None if groups is None else [asdict(group) for group in groups],
            "score": asdict(score(groups, nodes, endpoints)),
        }
        yield json.dumps(case, separators=(",", ":"))


def main() -> None:
    CASES.mkdir(exist_ok=True)
    for algorithm in ALGORITHMS:
        (CASES / f"{algorithm}.json").write_text(content(algorithm), encoding="utf-8")


if __name__ == "__main__":
    main()
