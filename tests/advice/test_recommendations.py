"""Which settings a cluster can apply as it is, which is best for a Service, and what is in force beside it."""

import dataclasses

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.clusters import Cluster, slices_after

from zoneward.advice.node_proxies import NodeProxies, same_proxy_everywhere
from zoneward.advice.proxy_kinds import PROXY_KINDS
from zoneward.advice.recommendations import ClusterAbilities, Recommendation, abilities_of, best_of, recommend
from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice
from zoneward.routing.configuration import Configuration, DemandSettings, SubsettingSettings
from zoneward.routing.request.what_if import as_if_requested
from zoneward.routing.rules import Reason
from zoneward.slices.comparison import COMPARED, ComparedApproach, ServiceComparison

KUBERNETES = ClusterAbilities(controller=False, slice_groups=False, kubernetes=34)
WITH_CONTROLLER = ClusterAbilities(controller=True, slice_groups=False, kubernetes=34)
EVERYTHING = ClusterAbilities(controller=True, slice_groups=True, kubernetes=34)


def a_cluster(**pods: int) -> Cluster:
    return Cluster(service=a_service(), nodes=nodes_in({"a": 4, "b": 4, "c": 4}), pods=pods_in(pods))


def everywhere(cluster: Cluster, kind: str) -> NodeProxies:
    return same_proxy_everywhere(cluster.nodes, PROXY_KINDS[kind])


def recommended(cluster: Cluster, *, kind: str = "kube-proxy-1.34", kubernetes: int | None = 34) -> Recommendation:
    proxies = everywhere(cluster, kind)
    (found,) = recommend(
        cluster.service,
        approaches=COMPARED,
        pods=cluster.pods,
        slices=cluster.slices,
        cluster_state=dataclasses.replace(cluster.cluster_state, consumer=PROXY_KINDS[kind].consumer),
        node_proxies=proxies,
        abilities=abilities_of(
            cluster.slices, node_proxies=proxies, configuration=cluster.configuration, kubernetes=kubernetes
        ),
    )
    return found


def a_candidate(approach: str, score: float | None, *, active: bool = True, writes: int = 1) -> ComparedApproach:
    return ComparedApproach(
        approach=approach,
        heuristic=None if approach in ("", "none") else approach,
        active=active,
        reason=Reason.ENABLED,
        message="",
        endpoints=3,
        moved=0,
        traffic=None,
        slices=1,
        created=writes,
        updated=0,
        deleted=0,
        score=score,
    )


def best(
    *candidates: ComparedApproach, asked: str | None = None, abilities: ClusterAbilities = EVERYTHING
) -> str | None:
    requested = a_candidate("", 0.0)
    if asked is not None:
        requested = a_candidate(asked, 0.0)
    comparison = ServiceComparison(
        namespace="shop", service="cart", address_type="IPv4", requested=requested, candidates=candidates
    )
    return best_of(comparison, abilities, keep_threshold=0.3)


@pytest.mark.parametrize(
    ("approach", "abilities", "needs"),
    [
        ("none", KUBERNETES, None),
        ("ProportionalZoneCPU", KUBERNETES, None),
        ("PreferSameZone", KUBERNETES, None),
        ("PreferSameNode", KUBERNETES, None),
        ("PreferSameZone", ClusterAbilities(controller=True, slice_groups=True, kubernetes=29), "1.31"),
        ("PreferSameNode", ClusterAbilities(controller=True, slice_groups=True, kubernetes=33), "1.34"),
        ("PreferSameNode", ClusterAbilities(controller=False, slice_groups=False), None),
        ("PreferZone", KUBERNETES, "controller"),
        ("Balanced", KUBERNETES, "controller"),
        ("Balanced", WITH_CONTROLLER, None),
        ("local", KUBERNETES, "proxy"),
        ("local", WITH_CONTROLLER, "proxy"),
        ("local", EVERYTHING, None),
        ("RequireZone", ClusterAbilities(controller=False, slice_groups=True), "controller"),
    ],
)
def test_what_the_cluster_lacks_is_named(approach: str, abilities: ClusterAbilities, needs: str | None) -> None:
    assert abilities.missing_for(approach) == needs


def test_every_approach_is_either_kubernetes_own_or_needs_the_controller() -> None:
    own = {each for each in COMPARED if KUBERNETES.missing_for(each) is None}
    assert own == {"none", "ProportionalZoneCPU", "PreferSameZone", "PreferSameNode"}


def test_a_controller_is_known_by_its_slices_and_slice_groups_by_the_proxies() -> None:
    cluster = a_cluster(a=1, b=1, c=1)
    settled = cluster.settled()
    kube_proxy, ours = everywhere(cluster, "kube-proxy-1.34"), everywhere(cluster, "zoneward")
    mixed = NodeProxies({**ours.kind_of, "node-a": PROXY_KINDS["kube-proxy-1.34"]}, {}, PROXY_KINDS["zoneward"])

    def found(slices: tuple[EndpointSlice, ...], proxies: NodeProxies, **settings: str) -> tuple[bool, bool]:
        configuration = Configuration(subsetting=SubsettingSettings(**settings))  # type: ignore[arg-type]
        abilities = abilities_of(slices, node_proxies=proxies, configuration=configuration)
        return abilities.controller, abilities.slice_groups

    assert found((), kube_proxy) == (False, False)
    assert found(settled.slices, kube_proxy) == (True, False)
    assert found(settled.slices, ours) == (True, True)
    assert found(settled.slices, mixed) == (True, False)
    assert found((), kube_proxy, encoding="hints") == (False, True)


def test_equal_ones_go_to_what_is_asked_for_and_then_to_what_users_know() -> None:
    equal = [a_candidate(each, 80.0) for each in ("Balanced", "PreferZone", "ProportionalZoneCPU", "PreferSameZone")]
    assert best(*equal) == "PreferSameZone"
    assert best(*equal[:3]) == "ProportionalZoneCPU"
    assert best(*equal[:2]) == "Balanced"
    assert best(*equal, asked="Balanced") == "Balanced"
    assert best(*equal, a_candidate("none", 80.0, active=False), asked="none") == "none"
    assert best(a_candidate("local", 80.0, writes=3), a_candidate("local-shared", 80.0, writes=2)) == "local-shared"


def test_a_difference_that_nobody_sees_recommends_nothing_less_known() -> None:
    assert best(a_candidate("Balanced", 80.04), a_candidate("PreferSameZone", 80.0)) == "PreferSameZone"
    assert best(a_candidate("Balanced", 80.1), a_candidate("PreferSameZone", 80.0)) == "Balanced"


def test_what_would_not_be_active_or_cannot_be_applied_is_never_best() -> None:
    assert best(a_candidate("local", 90.0, active=False), a_candidate("none", 60.0, active=False)) == "none"
    assert best(a_candidate("local", 90.0, active=False)) is None
    assert best(a_candidate("local", 90.0), a_candidate("none", 60.0), abilities=WITH_CONTROLLER) == "none"
    assert best(a_candidate("none", None)) is None


def test_a_setting_that_overloads_a_pod_is_never_best() -> None:
    """As in a report. Cluster-wide traffic overloads nobody: what does is another field of the Service."""
    busy = recommended(a_cluster(a=5, b=4, c=3)).candidate("PreferSameZone")
    assert busy is not None
    assert busy.traffic is not None
    assert busy.traffic.max_overload == pytest.approx(1 / 3)
    assert best(replace(busy, score=90.0), a_candidate("none", 60.0, active=False), asked="PreferSameZone") == "none"
    assert best(replace(busy, score=90.0)) is None
    assert best(replace(a_candidate("none", 60.0, active=False), traffic=busy.traffic)) == "none"


def test_slice_groups_are_not_recommended_to_proxies_that_ignore_them() -> None:
    cluster = a_cluster(a=8, b=4, c=3)
    found = recommended(cluster)
    local, none = found.candidate("local"), found.candidate("none")
    assert local is not None
    assert local.traffic is not None
    assert none is not None
    assert none.traffic is not None
    assert local.traffic.in_zone == pytest.approx(none.traffic.in_zone)
    assert found.best == "ProportionalZoneCPU"


def test_same_zone_is_not_recommended_to_kubernetes_1_29() -> None:
    found = recommended(a_cluster(a=5, b=5, c=5), kind="kube-proxy-1.29", kubernetes=29)
    assert found.best == "ProportionalZoneCPU"


def test_the_best_with_the_controller_is_named_where_it_is_another_one() -> None:
    assert recommended(a_cluster(a=5, b=5, c=5)).better is None
    found = recommended(a_cluster(a=5, b=2))
    best_one, better = found.candidate(found.best), found.candidate(found.better)
    assert better is not None
    assert better.approach == "Balanced"
    assert best_one is not None
    assert better.score is not None
    assert best_one.score is not None
    assert better.score > best_one.score


def test_now_is_what_the_slices_do_and_not_what_the_service_asks_for() -> None:
    """A Service asks for PreferSameZone; its slices have no hints yet."""
    cluster = a_cluster(a=1, b=10, c=9)
    bare = slices_after(cluster.plan())
    asking = cluster.with_(service=as_if_requested(cluster.service, "PreferSameZone", cluster.configuration))
    assert recommended(asking).now is None, "there are no slices"
    found = recommended(asking.with_(slices=bare))
    assert found.now is not None
    assert found.now.traffic is not None
    assert found.now.traffic.in_zone == pytest.approx(1 / 3)
    assert found.now.slices == 1
    assert found.comparison.requested.traffic is not None
    assert found.comparison.requested.traffic.in_zone == pytest.approx(1)


def test_the_controller_that_manages_the_slices_decides_by_its_own_demand() -> None:
    """Kubernetes' own knows nothing but CPU, by which three Pods are too few for zone a."""
    even = Configuration(demand=DemandSettings(source="even"))
    nodes = nodes_in({"a": 8, "b": 2, "c": 2})
    cluster = Cluster(
        service=a_service("Auto"), nodes=nodes, pods=pods_in({"a": 1, "b": 1, "c": 1}), configuration=even
    )
    found = recommended(cluster)
    candidate = found.candidate("ProportionalZoneCPU")
    assert candidate is not None
    assert (candidate.active, candidate.reason) == (False, Reason.OVERLOAD)
    assert msgspec.structs.replace(candidate, approach="") == found.comparison.requested
    assert found.best == "PreferSameZone"
    zonewards = recommended(cluster.settled())
    assert zonewards.best == "ProportionalZoneCPU"
    assert zonewards.comparison.requested.active


def test_slices_of_the_built_in_controller_do_not_mean_that_zonewards_runs() -> None:
    cluster = a_cluster(a=1, b=1, c=1)
    theirs = tuple(
        replace(
            each,
            metadata=replace(
                each.metadata, labels={**(each.metadata.labels or {}), names.MANAGED_BY_LABEL: names.BUILT_IN_MANAGER}
            ),
        )
        for each in cluster.settled().slices
    )
    abilities = abilities_of(theirs, node_proxies=everywhere(cluster, "zoneward"), configuration=cluster.configuration)
    assert not abilities.controller
