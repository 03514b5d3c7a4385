"""A Service with every approach: what each would do, and that no second version decides."""

from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.clusters import Cluster
from tests.properties.random_clusters import clusters, examples

from zoneward.kube import names
from zoneward.routing.configuration import Configuration, SubsettingSettings
from zoneward.routing.request.what_if import WHAT_IF_VALUES, as_if_requested
from zoneward.slices.comparison import (
    COMPARED,
    ComparedApproach,
    ServiceComparison,
    TrafficNumbers,
    compare_service,
    slices_share,
)
from zoneward.slices.plan import FamilyPlan


def compare(cluster: Cluster, *approaches: str) -> tuple[ServiceComparison, ...]:
    return compare_service(
        cluster.service,
        approaches=approaches or COMPARED,
        pods=cluster.pods,
        slices=cluster.slices,
        cluster_state=cluster.cluster_state,
    )


def by_name(cluster: Cluster, *approaches: str) -> dict[str, ComparedApproach]:
    (comparison,) = compare(cluster, *approaches)
    return {each.approach: each for each in comparison.candidates}


def a_cluster(**pods: int) -> Cluster:
    return Cluster(service=a_service(), nodes=nodes_in({"a": 4, "b": 4, "c": 4}), pods=pods_in(pods))


def planned(approach: str, family: FamilyPlan) -> ComparedApproach:
    """What a plan comes to, computed from the plan alone."""
    decision, changes = family.decision, family.changes
    traffic = None if family.traffic is None else TrafficNumbers.of(family.traffic)
    share = slices_share(changes.after, family.cluster_state.configuration.max_endpoints_per_slice)
    return ComparedApproach(
        approach=approach,
        heuristic=decision.heuristic,
        active=decision.active,
        reason=decision.reason,
        message=decision.message,
        endpoints=decision.endpoints,
        moved=decision.moved,
        traffic=traffic,
        slices=len(changes.after),
        created=len(changes.create),
        updated=len(changes.update),
        deleted=len(changes.delete) + len(family.replaced),
        score=None if traffic is None else traffic.score(slices=share),
    )


def rounded(compared: ComparedApproach) -> ComparedApproach:
    """Without what depends on the order of endpoints: sums of doubles differ by it in the last digits."""
    traffic = compared.traffic
    if traffic is not None:
        shares = {name: round(getattr(traffic, name), 9) for name in ("in_zone", "max_overload", "mean_overload")}
        traffic = msgspec.structs.replace(traffic, **shares)
    score = None if compared.score is None else round(compared.score, 6)
    return msgspec.structs.replace(compared, traffic=traffic, score=score)


def test_everything_that_can_be_asked_for_is_compared_once() -> None:
    assert set(COMPARED) == set(WHAT_IF_VALUES) - {"Auto"}
    assert len(COMPARED) == len(set(COMPARED))
    assert COMPARED[0] == "none"


@given(cluster=clusters())
@examples(75)
def test_a_candidate_is_what_a_plan_of_its_own_comes_to(cluster: Cluster) -> None:
    """What approaches have in common is computed once; a plan of each shares nothing."""
    found: dict[str, list[ComparedApproach]] = {}
    for approach in ("", *COMPARED):
        service = as_if_requested(cluster.service, approach, cluster.configuration) if approach else cluster.service
        for family in cluster.with_(service=service).plan().families:
            found.setdefault(family.address_type, []).append(rounded(planned(approach, family)))
    assert {
        each.address_type: [rounded(one) for one in (each.requested, *each.candidates)] for each in compare(cluster)
    } == found


def test_the_score_is_the_proposals() -> None:
    found = by_name(a_cluster(a=8, b=4, c=3))
    in_zone = (1 + 4 / 5 + 3 / 5) / 3
    assert found["local"].score == pytest.approx(45 * in_zone + 40 + 15 / 3)
    assert found["ProportionalZoneCPU"].score == pytest.approx(45 * in_zone + 40 + 15)
    assert found["none"].score == pytest.approx(45 / 3 + 40 + 15)


def test_nothing_is_scored_where_nothing_can_be_predicted() -> None:
    found = by_name(a_cluster(a=2).with_(service=a_service(cluster_ip=names.HEADLESS)))
    assert {each.score for each in found.values()} == {None}


def test_none_is_cluster_wide_even_where_the_controllers_default_is_subsetting() -> None:
    configuration = Configuration(
        default_approach="Subsetting", subsetting=SubsettingSettings(starting_threshold=Fraction(1))
    )
    (comparison,) = compare(a_cluster(a=5, b=5, c=5).with_(configuration=configuration))
    assert comparison.requested.heuristic == "local"
    assert comparison.candidates[0].approach == "none"
    assert comparison.candidates[0].heuristic is None
