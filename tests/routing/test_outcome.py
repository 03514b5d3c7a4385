"""Which address family speaks for a Service: the first of the gravest."""

from itertools import product

import pytest
from tests.clusters import Cluster, a_service, nodes_in, only_family, pods_in

from zoneward.routing.decision import Decision
from zoneward.routing.outcome import speaker


def decision(mode: str | None, pods: int) -> Decision:
    cluster = Cluster(service=a_service(mode), nodes=nodes_in({"a": 1, "b": 1}), pods=pods_in({"a": pods, "b": pods}))
    return only_family(cluster.plan()).decision


OUTCOMES = {"in force": decision("Auto", 1), "nothing asked for": decision(None, 1), "in vain": decision("Auto", 0)}
"""By rising gravity."""


@pytest.mark.parametrize(("first", "second"), list(product(OUTCOMES, repeat=2)))
def test_the_graver_outcome_speaks_and_of_equals_the_first(first: str, second: str) -> None:
    ranks = list(OUTCOMES)
    spoken = speaker({"IPv4": OUTCOMES[first], "IPv6": OUTCOMES[second]})
    assert spoken is not None
    assert spoken[0] == ("IPv6" if ranks.index(second) > ranks.index(first) else "IPv4")
    assert spoken[1] is OUTCOMES[max(first, second, key=ranks.index)]


def test_without_families_nobody_speaks() -> None:
    assert speaker({}) is None
