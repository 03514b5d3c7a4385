"""Every written case of the reference: groups and weights to the last bit, downgrades, and scores."""

import json
from functools import cache
from typing import Any

import pytest
from tests.reference.kep_2004 import ALGORITHMS, Group, Score
from tests.reference.make_cases import CASES
from tests.routing.algorithms.running import difference, rule_of, run

ZONES = (2, 3, 4, 5, 8, 12, 30)


@cache
def cases(algorithm: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((CASES / f"{algorithm}.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("zones", ZONES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_groups_weights_and_scores_are_those_of_the_reference(algorithm: str, zones: int) -> None:
    different = [
        wrong for case in cases(algorithm) if len(case["nodes"]) == zones and (wrong := compared(algorithm, case))
    ]
    assert not different, "\n".join([f"{algorithm}: {len(different)} cases differ", *different[:3]])


def compared(algorithm: str, case: dict[str, Any]) -> str:
    groups = case["groups"]
    return difference(
        run(rule_of(algorithm), case["nodes"], case["endpoints"]),
        groups and [Group(tuple(group["located"]), tuple(group["weights"])) for group in groups],
        Score(**case["score"]),
        case["nodes"],
        case["endpoints"],
    )
