"""Which address family speaks for a Service: of those with endpoints the first of the gravest."""

from itertools import product

import pytest
from tests.clusters import Cluster, a_pod, a_service, nodes_in, only_family, pods_in

from zoneward.kube.objects import Pod
from zoneward.routing.decision import Decision
from zoneward.routing.service_conditions import worst_family


def decision(mode: str | None, pods: tuple[Pod, ...]) -> Decision:
    cluster = Cluster(service=a_service(mode), nodes=nodes_in({"a": 1, "b": 1}), pods=pods)
    return only_family(cluster.plan()).decision


PODS = pods_in({"a": 1, "b": 1})
OUTCOMES = {
    "in force": decision("Auto", PODS),
    "nothing asked for": decision(None, PODS),
    "in vain": decision("Auto", PODS[:1]),
}
"""By rising gravity."""
EMPTY = decision("Auto", ())
UNREADY = decision("Auto", (a_pod("starting", ready=False),))


@pytest.mark.parametrize(("first", "second"), list(product(OUTCOMES, repeat=2)))
def test_the_graver_outcome_speaks_and_of_equals_the_first(first: str, second: str) -> None:
    ranks = list(OUTCOMES)
    spoken = worst_family({"IPv4": OUTCOMES[first], "IPv6": OUTCOMES[second]})
    assert spoken is not None
    assert spoken[0] == ("IPv6" if ranks.index(second) > ranks.index(first) else "IPv4")
    assert spoken[1] is OUTCOMES[max(first, second, key=ranks.index)]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_family_without_endpoints_has_no_say(outcome: str) -> None:
    """Neither a graver outcome nor the first place helps it."""
    for families in ({"IPv4": EMPTY, "IPv6": OUTCOMES[outcome]}, {"IPv6": OUTCOMES[outcome], "IPv4": EMPTY}):
        assert worst_family(families) == ("IPv6", OUTCOMES[outcome])


def test_a_family_whose_endpoints_are_not_ready_has_a_say() -> None:
    assert worst_family({"IPv4": OUTCOMES["in force"], "IPv6": UNREADY}) == ("IPv6", UNREADY)


def test_where_no_family_has_endpoints_the_first_of_the_gravest_speaks() -> None:
    assert worst_family({"IPv4": EMPTY, "IPv6": EMPTY}) == ("IPv4", EMPTY)
    assert worst_family({"IPv4": decision(None, ()), "IPv6": EMPTY}) == ("IPv6", EMPTY)


def test_without_families_nobody_speaks() -> None:
    assert worst_family({}) is None
