"""A Service with every approach: what each does, which is best, and what is in force beside it."""

import dataclasses
from fractions import Fraction
from typing import Final

import pytest
from hypothesis import given
from msgspec.structs import replace
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.clusters import Cluster, slices_after
from tests.properties.random_clusters import clusters, examples

from zoneward.advice.cluster_abilities import ClusterAbilities, abilities_of
from zoneward.advice.comparison import (
    COMPARED,
    ComparedApproach,
    ComparisonTotals,
    Recommendation,
    ServiceComparison,
    best_of,
    recommend,
    slices_share,
)
from zoneward.advice.node_proxies import PROXY_KINDS, NodeProxies, same_proxy_everywhere
from zoneward.advice.service_input import ServiceInput
from zoneward.kube import names
from zoneward.routing import score
from zoneward.routing.configuration import Configuration, DemandSettings, SubsettingSettings
from zoneward.routing.rules import Reason
from zoneward.routing.what_if import WHAT_IF_VALUES, as_if_requested
from zoneward.slices.plan import FamilyPlan

KUBERNETES: Final = ClusterAbilities(controller=False, slice_groups=False, kubernetes=34)
WITH_CONTROLLER: Final = ClusterAbilities(controller=True, slice_groups=False, kubernetes=34)
EVERYTHING: Final = ClusterAbilities(controller=True, slice_groups=True, kubernetes=34)


def a_cluster(**pods: int) -> Cluster:
    return Cluster(service=a_service(), nodes=nodes_in({"a": 4, "b": 4, "c": 4}), pods=pods_in(pods))


def everywhere(cluster: Cluster, kind: str) -> NodeProxies:
    return same_proxy_everywhere(cluster.nodes, PROXY_KINDS[kind])


def input_of(cluster: Cluster) -> ServiceInput:
    return ServiceInput(cluster.service, cluster.nodes, cluster.pods, cluster.slices, cluster.cluster_state)


def recommended(cluster: Cluster, *, kind: str = "kube-proxy-1.34", kubernetes: int | None = 34) -> ServiceComparison:
    proxies, given = everywhere(cluster, kind), input_of(cluster)
    state = dataclasses.replace(given.cluster_state, consumer=PROXY_KINDS[kind].consumer)
    abilities = abilities_of(
        cluster.slices, node_proxies=proxies, configuration=cluster.configuration, kubernetes=kubernetes
    )
    given = dataclasses.replace(given, cluster_state=state)
    (family,) = recommend(given, node_proxies=proxies, abilities=abilities, built_in=not abilities.controller)
    return family.comparison


def with_zoneward(cluster: Cluster) -> tuple[Recommendation, ...]:
    return recommend(input_of(cluster), node_proxies=everywhere(cluster, "zoneward"), abilities=EVERYTHING)


def by_name(cluster: Cluster) -> dict[str, ComparedApproach]:
    (family,) = with_zoneward(cluster)
    return {candidate.approach: candidate for candidate in family.comparison.approaches}


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_everything_that_can_be_requested_is_compared_once() -> None:
    assert set(COMPARED) == set(WHAT_IF_VALUES) - {"Auto"}
    assert len(COMPARED) == len(set(COMPARED))
    assert COMPARED[0] == "none"


def planned(approach: str, family: FamilyPlan) -> ComparedApproach:
    """What a plan comes to, from the plan alone."""
    decision, changes, traffic = family.decision, family.changes, family.traffic
    points = None
    if traffic is not None and not traffic.dropped and traffic.in_zone is not None:
        share = slices_share(changes.after, family.cluster_state.configuration.max_endpoints_per_slice)
        points = score.total(
            in_zone=traffic.in_zone,
            max_overload=traffic.max_overload,
            mean_overload=traffic.mean_overload,
            slices=share,
        )
    name = approach or decision.heuristic or "none"
    return ComparedApproach(
        approach=name,
        active=decision.active,
        reason=decision.message,
        reason_code=decision.reason,
        in_zone_traffic=None if traffic is None else traffic.in_zone,
        max_overload=None if traffic is None else traffic.max_overload,
        mean_overload=None if traffic is None else traffic.mean_overload,
        dropped_traffic=None if traffic is None else traffic.dropped,
        moved=decision.moved,
        slices=len(changes.after),
        create=len(changes.create),
        update=len(changes.update),
        delete=len(changes.delete) + len(family.replaced),
        score=points,
        load_change=None,
        needs=EVERYTHING.missing_for(name),
    )


@given(cluster=clusters())
@examples(75)
def test_each_approach_is_what_a_plan_of_its_own_comes_to(cluster: Cluster) -> None:
    """A comparison collects endpoints and slices once; separate plans share nothing."""
    expected: dict[str, list[ComparedApproach]] = {}
    for approach in ("", *COMPARED):
        service = as_if_requested(cluster.service, approach, cluster.configuration) if approach else cluster.service
        for family in cluster.with_(service=service).plan().families:
            expected.setdefault(family.address_type, []).append(planned(approach, family))
    compared = (family.comparison for family in with_zoneward(cluster))
    assert {family.address_type: [family.today, *family.approaches] for family in compared} == expected


def test_the_score_is_the_one_of_the_proposal() -> None:
    compared = by_name(a_cluster(a=8, b=4, c=3))
    in_zone = (1 + 4 / 5 + 3 / 5) / 3
    assert compared["local"].score == pytest.approx(45 * in_zone + 40 + 15 / 3)
    assert compared["ProportionalZoneCPU"].score == pytest.approx(45 * in_zone + 40 + 15)
    assert compared["none"].score == pytest.approx(45 / 3 + 40 + 15)


def test_a_headless_service_has_no_score() -> None:
    compared = by_name(a_cluster(a=2).with_(service=a_service(cluster_ip=names.HEADLESS)))
    assert {candidate.score for candidate in compared.values()} == {None}


def test_none_is_cluster_wide_even_if_the_controller_defaults_to_subsetting() -> None:
    configuration = Configuration(
        default_approach="Subsetting", subsetting=SubsettingSettings(starting_threshold=Fraction(1))
    )
    (family,) = with_zoneward(a_cluster(a=5, b=5, c=5).with_(configuration=configuration))
    assert family.comparison.asks_for == "local"
    none = family.comparison.find("none")
    assert none is not None
    assert (none.active, none.reason_code) == (False, Reason.NOT_ASKED_FOR)


def test_loads_are_compared_with_the_unchanged_cluster() -> None:
    """Without zone c, the other eight Pods carry the load of twelve."""
    before, after = a_cluster(a=4, b=4, c=4), a_cluster(a=4, b=4)
    (family,) = recommend(
        input_of(after),
        unchanged=input_of(before),
        node_proxies=everywhere(before, "zoneward"),
        abilities=EVERYTHING,
    )
    none = family.comparison.find("none")
    assert none is not None
    assert none.load_change == pytest.approx(0.5)


# --- the best ---------------------------------------------------------------------------------------------------------


def a_candidate(approach: str, score: float | None, *, active: bool = True, writes: int = 1) -> ComparedApproach:
    return ComparedApproach(
        approach=approach,
        active=active,
        reason="",
        reason_code=Reason.ENABLED,
        in_zone_traffic=None,
        max_overload=None,
        mean_overload=None,
        dropped_traffic=None,
        moved=0,
        slices=1,
        create=writes,
        update=0,
        delete=0,
        score=score,
        load_change=None,
        needs=None,
    )


def best(*candidates: ComparedApproach, asks_for: str = "none", abilities: ClusterAbilities = EVERYTHING) -> str | None:
    comparison = ServiceComparison(
        namespace="shop",
        service="cart",
        address_type="IPv4",
        endpoints=3,
        asks_for=asks_for,
        now=None,
        today=a_candidate(asks_for, 0.0),
        best=None,
        better=None,
        approaches=tuple(
            replace(candidate, needs=abilities.missing_for(candidate.approach)) for candidate in candidates
        ),
    )
    return best_of(comparison, keep_threshold=0.3)


def test_among_equal_scores_the_own_setting_wins_and_then_the_best_known() -> None:
    equal = [a_candidate(name, 80.0) for name in ("Balanced", "PreferZone", "ProportionalZoneCPU", "PreferSameZone")]
    assert best(*equal) == "PreferSameZone"
    assert best(*equal[:3]) == "ProportionalZoneCPU"
    assert best(*equal[:2]) == "Balanced"
    assert best(*equal, asks_for="Balanced") == "Balanced"
    assert best(*equal, a_candidate("none", 80.0, active=False)) == "none"
    assert best(a_candidate("local", 80.0, writes=3), a_candidate("local-shared", 80.0, writes=2)) == "local-shared"


def test_scores_are_compared_with_one_digit() -> None:
    assert best(a_candidate("Balanced", 80.04), a_candidate("PreferSameZone", 80.0)) == "PreferSameZone"
    assert best(a_candidate("Balanced", 80.1), a_candidate("PreferSameZone", 80.0)) == "Balanced"


def test_what_is_inactive_or_cannot_be_applied_is_never_the_best() -> None:
    assert best(a_candidate("local", 90.0, active=False), a_candidate("none", 60.0, active=False)) == "none"
    assert best(a_candidate("local", 90.0, active=False)) is None
    assert best(a_candidate("local", 90.0), a_candidate("none", 60.0), abilities=WITH_CONTROLLER) == "none"
    assert best(a_candidate("none", None)) is None


def test_an_approach_that_overloads_a_pod_is_never_the_best() -> None:
    """Cluster-wide traffic overloads nobody: other fields of the Service do."""
    busy = recommended(a_cluster(a=5, b=4, c=3)).find("PreferSameZone")
    assert busy is not None
    assert busy.max_overload == pytest.approx(1 / 3)
    assert best(replace(busy, score=90.0), a_candidate("none", 60.0), asks_for="PreferSameZone") == "none"
    assert best(replace(busy, score=90.0)) is None
    assert best(replace(a_candidate("none", 60.0, active=False), max_overload=busy.max_overload)) == "none"


def test_slice_groups_are_not_recommended_to_proxies_that_ignore_them() -> None:
    comparison = recommended(a_cluster(a=8, b=4, c=3))
    local, none = comparison.find("local"), comparison.find("none")
    assert local is not None
    assert none is not None
    assert local.in_zone_traffic == pytest.approx(none.in_zone_traffic)
    assert comparison.best == "ProportionalZoneCPU"


def test_same_zone_is_not_recommended_to_kubernetes_1_29() -> None:
    comparison = recommended(a_cluster(a=5, b=5, c=5), kind="kube-proxy-1.29", kubernetes=29)
    assert comparison.best == "ProportionalZoneCPU"


def test_the_best_with_the_controller_is_named_if_it_is_another_one() -> None:
    assert recommended(a_cluster(a=5, b=5, c=5)).better is None
    comparison = recommended(a_cluster(a=5, b=2))
    first, better = comparison.find(comparison.best), comparison.find(comparison.better)
    assert first is not None
    assert better is not None
    assert better.approach == "Balanced"
    assert (better.score or 0) > (first.score or 0)


# --- now and totals ---------------------------------------------------------------------------------------------------


def test_now_is_what_the_slices_do_and_not_what_the_service_asks_for() -> None:
    """A Service asks for PreferSameZone; its slices have no hints yet."""
    cluster = a_cluster(a=1, b=10, c=9)
    bare = slices_after(cluster.plan())
    asking = cluster.with_(service=as_if_requested(cluster.service, "PreferSameZone", cluster.configuration))
    assert recommended(asking).now is None, "there are no slices"
    comparison = recommended(asking.with_(slices=bare))
    assert comparison.now is not None
    assert comparison.now.in_zone_traffic == pytest.approx(1 / 3)
    assert comparison.now.slices == 1
    assert comparison.today.in_zone_traffic == pytest.approx(1)


def test_the_controller_that_manages_the_slices_decides_by_its_own_demand() -> None:
    """Kubernetes knows nothing but CPU, by which three Pods are too few for zone a."""
    even = Configuration(demand=DemandSettings(source="even"))
    nodes = nodes_in({"a": 8, "b": 2, "c": 2})
    cluster = Cluster(
        service=a_service("Auto"), nodes=nodes, pods=pods_in({"a": 1, "b": 1, "c": 1}), configuration=even
    )
    comparison = recommended(cluster)
    candidate = comparison.find("ProportionalZoneCPU")
    assert candidate is not None
    assert (candidate.active, candidate.reason_code) == (False, Reason.OVERLOAD)
    assert candidate == comparison.today
    assert comparison.best == "PreferSameZone"
    by_zoneward = recommended(cluster.settled())
    assert by_zoneward.best == "ProportionalZoneCPU"
    assert by_zoneward.today.active


def test_totals_count_a_service_of_two_address_families_once() -> None:
    one = recommended(a_cluster(a=1, b=1, c=1))
    other = replace(one, address_type="IPv6")
    totals, single = ComparisonTotals(), ComparisonTotals()
    for comparison in (one, other, replace(one, service="next")):
        totals.add(comparison)
    for comparison in (one, replace(one, service="next")):
        single.add(comparison)
    assert (totals.services, single.services) == (2, 2)
    counts = [(total.active, total.best, total.better, total.drops) for total in totals.rows(KUBERNETES)]
    assert counts == [(total.active, total.best, total.better, total.drops) for total in single.rows(KUBERNETES)]
    assert sum(total.best for total in totals.rows(KUBERNETES)) == 2


def test_a_service_without_slices_counts_now_as_what_it_asks_for() -> None:
    """So that the row of what is in force is about the same Services as all others."""
    fresh = recommended(a_cluster(a=1, b=1, c=1))
    old = recommended(a_cluster(a=9, b=9, c=9))
    old = replace(old, service="old", now=replace(old.start, in_zone_traffic=0.5, slices=4))
    totals = ComparisonTotals()
    totals.add(fresh)
    without_any = totals.now
    totals.add(old)
    assert without_any is None
    assert totals.now is not None
    assert fresh.today.in_zone_traffic is not None
    assert totals.now.in_zone_traffic == pytest.approx((3 * fresh.today.in_zone_traffic + 27 * 0.5) / 30)
    assert (totals.now.slices, totals.now.changes, totals.without_slices) == (4, 0, 1)
