"""A Service with every approach: what each would do, which one is best, and that no second version decides."""

from fractions import Fraction

import pytest
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.clusters import Cluster, only_family

from zoneward.kube import names
from zoneward.routing.configuration import Configuration, SubsettingSettings
from zoneward.routing.request.what_if import WHAT_IF_VALUES, as_if_requested
from zoneward.slices.comparison import COMPARED, ComparedApproach, ServiceComparison, compare_service


def compare(cluster: Cluster, *approaches: str) -> ServiceComparison:
    (comparison,) = compare_service(
        cluster.service,
        approaches=approaches or COMPARED,
        pods=cluster.pods,
        slices=cluster.slices,
        cluster_state=cluster.cluster_state,
    )
    return comparison


def by_name(comparison: ServiceComparison) -> dict[str, ComparedApproach]:
    return {each.approach: each for each in comparison.candidates}


def a_cluster(**pods: int) -> Cluster:
    return Cluster(service=a_service(), nodes=nodes_in({"a": 4, "b": 4, "c": 4}), pods=pods_in(pods))


def test_everything_that_can_be_asked_for_is_compared_once() -> None:
    assert set(COMPARED) == set(WHAT_IF_VALUES) - {"Auto"}
    assert len(COMPARED) == len(set(COMPARED))
    assert COMPARED[0] == "none"


@pytest.mark.parametrize("approach", COMPARED)
def test_a_candidate_is_what_plan_says(approach: str) -> None:
    cluster = a_cluster(a=8, b=4, c=3)
    found = by_name(compare(cluster))[approach]
    family = only_family(cluster.with_(service=as_if_requested(cluster.service, approach)).plan())
    assert (found.decision, found.traffic) == (family.decision, family.traffic)
    assert (found.slices, found.created) == (len(family.changes.after), len(family.changes.create))


def test_the_score_is_the_proposals() -> None:
    found = by_name(compare(a_cluster(a=8, b=4, c=3)))
    in_zone = (1 + 4 / 5 + 3 / 5) / 3
    assert found["local"].score == pytest.approx(45 * in_zone + 40 + 15 / 3)
    assert found["ProportionalZoneCPU"].score == pytest.approx(45 * in_zone + 40 + 15)
    assert found["none"].score == pytest.approx(45 / 3 + 40 + 15)


def test_of_equal_scores_the_one_with_the_fewest_writes_is_best() -> None:
    cluster = a_cluster(a=5, b=5, c=5)
    comparison = compare(cluster.with_(service=a_service(distribution="PreferSameZone")).settled())
    found = by_name(comparison)
    assert comparison.best is found["PreferSameZone"]
    assert found["PreferSameZone"].score == found["ProportionalZoneCPU"].score
    assert (found["PreferSameZone"].writes, found["ProportionalZoneCPU"].writes) == (0, 1)


def test_what_would_not_be_active_is_never_best() -> None:
    comparison = compare(a_cluster(a=1), "none", "local", "ProportionalZoneCPU")
    assert comparison.best is not None
    assert comparison.best.approach == "none"
    # Not even where it is asked for alone, and its traffic is that of cluster-wide.
    (alone,) = compare(a_cluster(a=1), "local").candidates
    assert (alone.decision.active, alone.score is not None) == (False, True)
    assert compare(a_cluster(a=1), "local").best is None


def test_nobody_is_best_where_nothing_can_be_predicted() -> None:
    cluster = a_cluster(a=2).with_(service=a_service(cluster_ip=names.HEADLESS))
    comparison = compare(cluster)
    assert comparison.best is None
    assert {each.score for each in comparison.candidates} == {None}


def test_none_is_cluster_wide_even_where_the_controllers_default_is_subsetting() -> None:
    configuration = Configuration(
        default_approach="Subsetting", subsetting=SubsettingSettings(starting_threshold=Fraction(1))
    )
    comparison = compare(a_cluster(a=5, b=5, c=5).with_(configuration=configuration))
    assert comparison.today.decision.heuristic == "local"
    assert by_name(comparison)["none"].decision.heuristic is None
