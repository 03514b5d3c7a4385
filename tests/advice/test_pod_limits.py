"""Volumes, affinity and leaders: fixes that cannot be made are not offered, and what nobody checked is said."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.advice.findings.viewing import a_deployment, a_stateful_set
from tests.advice.inputs import input_of, owned
from tests.builders.structs import a_node, a_pod, a_service, nodes_in, pods_in
from tests.clusters import Cluster

from zoneward.advice.explanation import explain_service
from zoneward.advice.fix_commands import steps_of
from zoneward.advice.fixes import Fix, find_fixes
from zoneward.advice.node_proxies import ZONEWARD_PROXY, same_proxy_everywhere
from zoneward.advice.pod_limits import PodLimits, pod_limits
from zoneward.advice.service_input import ServiceInput
from zoneward.kube import names
from zoneward.kube.objects import NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod
from zoneward.kube.workload_objects import (
    ClaimSource,
    ClaimSpec,
    ClaimTemplate,
    ClaimTemplateMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PodAffinity,
    PodAffinityTerm,
    PodSelector,
    TemplateAffinity,
    Volume,
    VolumeNodeAffinity,
    VolumeSpec,
    WorkloadMeta,
    WorkloadObject,
)

ALIKE = nodes_in({"a": 4, "b": 4, "c": 4})
SAME_ZONE = a_service(distribution="PreferSameZone")
DATA = (ClaimTemplate(metadata=ClaimTemplateMeta(name="data")),)
LACKING: Any = {
    "workloads": "StatefulSets cannot be read (no permission)",
    "autoscalers": "no permission",
    "volumes": "no permission",
}


def in_zones(*zones: str) -> NodeSelector:
    unchecked = NodeSelectorRequirement(key=names.ZONE_LABEL, operator="In", values=zones)
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(unchecked,)),))


def a_claim(name: str, volume: str) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(metadata=WorkloadMeta(name=name, namespace="shop"), spec=ClaimSpec(volume_name=volume))


def a_volume(name: str, *zones: str) -> PersistentVolume:
    affinity = VolumeNodeAffinity(required=in_zones(*zones)) if zones else None
    return PersistentVolume(metadata=WorkloadMeta(name=name), spec=VolumeSpec(node_affinity=affinity))


def bound_in(*zones: str, first: int = 0) -> tuple[WorkloadObject, ...]:
    """Claims of the Pods of StatefulSet cart, each bound to a volume in one of the zones."""
    limits: list[WorkloadObject] = []
    for ordinal, zone in enumerate(zones, start=first):
        limits += [a_claim(f"data-cart-{ordinal}", f"pv-{ordinal}"), a_volume(f"pv-{ordinal}", zone)]
    return tuple(limits)


def stateful(pods: dict[str, int], **labels: str) -> tuple[Pod, ...]:
    return owned(pods_in(pods), kind="StatefulSet", name="cart", **labels)


def kinds_of(given: ServiceInput) -> dict[str, Fix]:
    return {fix.kind: fix for fix in find_fixes(given, "IPv4")}


def limits_of(given: ServiceInput) -> PodLimits:
    return pod_limits(given, "IPv4")


LOPSIDED = Cluster(service=SAME_ZONE, nodes=ALIKE, pods=stateful({"a": 4, "b": 1, "c": 1}))


def test_pod_with_a_bound_volume_is_not_moved() -> None:
    workload = a_stateful_set(replicas=6, claims=DATA)
    bound = kinds_of(given := input_of(LOPSIDED, workload, *bound_in("a", "a", "a", "a", "b", "c")))
    assert not {"move-pods", "remove-pods"} & bound.keys()
    assert all(change > 0 for fix in bound.values() for change in fix.change.pods.values())
    assert limits_of(given).reasons == (
        "statefulset/cart: the volumes of 6 Pods are bound to their zones: no fix moves these Pods",
    )
    assert limits_of(given).unchecked == ()
    free: list[WorkloadObject] = [*(a_claim(f"data-cart-{index}", "pv-nfs") for index in range(6)), a_volume("pv-nfs")]
    assert kinds_of(input_of(LOPSIDED, workload, *free))["spread"].change.moved_pods == 2


def test_note_says_that_new_volumes_are_empty() -> None:
    given = input_of(LOPSIDED, a_stateful_set(replicas=6, claims=DATA), *bound_in("a", "a", "a", "a", "b", "c"))
    fixes = [fix for fix in find_fixes(given, "IPv4") if fix.pods > 0]
    assert fixes
    assert all(
        "each new Pod gets its own volumes, which start empty" in steps_of(fix, given, "IPv4").notes for fix in fixes
    )


def test_leftover_claims_decide_the_zone_of_new_pods() -> None:
    workload = a_stateful_set(replicas=6, claims=DATA)
    now = bound_in("a", "a", "a", "a", "b", "c")
    left = bound_in("a", "a", "a", "a", "a", "a", "a", "a", first=6)
    given = input_of(LOPSIDED, workload, *now, *left)
    assert not [fix for fix in find_fixes(given, "IPv4") if fix.change.pods]
    assert limits_of(given).reasons[-1].endswith("claims of earlier Pods decide the zone of the next 8 Pods")


def test_unknown_volumes_are_unchecked() -> None:
    without_claims = input_of(LOPSIDED, a_stateful_set(replicas=6, claims=DATA))
    fix = kinds_of(without_claims)["spread"]
    assert fix.may_be_bound
    assert steps_of(fix, without_claims, "IPv4").notes[0].startswith("not checked: whether volumes")
    (unchecked,) = limits_of(without_claims).unchecked
    assert (unchecked.what, unchecked.reason) == (
        "volumes of the Pods",
        "the input does not have claim data-cart-0 or its volume",
    )
    nothing = input_of(LOPSIDED, lacking=LACKING)
    assert kinds_of(nothing)["spread"].may_be_bound
    assert [(unchecked.what, unchecked.reason) for unchecked in limits_of(nothing).unchecked] == [
        ("replicas, node affinity and volumes of the Pods", LACKING["workloads"]),
        ("autoscalers", "no permission"),
    ]


def test_pods_without_volumes_are_checked() -> None:
    cluster = LOPSIDED.with_(pods=owned(pods_in({"a": 4, "b": 1, "c": 1})))
    given = input_of(cluster, a_deployment(replicas=6), lacking={"volumes": "no permission"})
    assert not kinds_of(given)["spread"].may_be_bound
    assert limits_of(given).unchecked == ()


def test_shared_claim_binds_pods_to_its_zone() -> None:
    cluster = LOPSIDED.with_(pods=owned(pods_in({"a": 4})))
    shared = (Volume(persistent_volume_claim=ClaimSource(claim_name="files")),)
    given = input_of(cluster, a_deployment(volumes=shared), a_claim("files", "pv"), a_volume("pv", "a"))
    assert all(set(fix.change.pods) <= {"a"} for fix in find_fixes(given, "IPv4"))
    (reason,) = limits_of(given).reasons
    assert reason.endswith("all of its pods use claim files, and volume pv can not be mounted in the zones b, c")


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ({"node_selector": {"pool": "large"}}, "its node selector matches no node in zone c"),
        (
            {"affinity": TemplateAffinity(node_affinity=NodeAffinity(required=in_zones("a", "b")))},
            "its required node affinity matches no node in zone c",
        ),
    ],
    ids=["selector", "affinity"],
)
def test_no_pod_is_added_without_a_matching_node(template: dict[str, Any], reason: str) -> None:
    nodes = (*(a_node(f"node-{zone}", zone, labels={"pool": "large"}) for zone in "ab"), a_node("node-c", "c"))
    cluster = Cluster(service=SAME_ZONE, nodes=nodes, pods=owned(pods_in({"a": 3, "b": 3})))
    given = input_of(cluster, a_deployment(**template))
    assert not any("c" in fix.change.pods for fix in find_fixes(given, "IPv4"))
    assert any("c" in fix.change.pods for fix in find_fixes(input_of(cluster, a_deployment()), "IPv4"))
    assert limits_of(given).reasons == (f"deployment/cart: {reason}",)


def test_pods_with_affinity_to_each_other_are_not_spread() -> None:
    together = PodAffinityTerm(topology_key=names.ZONE_LABEL, label_selector=PodSelector(match_labels={"app": "cart"}))
    affinity = TemplateAffinity(pod_affinity=PodAffinity(required=(together,)))
    cluster = Cluster(service=SAME_ZONE, nodes=ALIKE, pods=owned(pods_in({"a": 3})))
    given = input_of(cluster, a_deployment(affinity=affinity))
    assert all(set(fix.change.pods) <= {"a"} for fix in find_fixes(given, "IPv4"))
    assert limits_of(given).reasons[0].endswith("its required pod affinity keeps all of its Pods in one zone")


def roles(pods: tuple[Pod, ...], key: str, first: str, others: str) -> tuple[Pod, ...]:
    """The first Pod leads, the others follow."""
    return tuple(
        replace(
            pod, metadata=replace(pod.metadata, labels={**(pod.metadata.labels or {}), key: others if n else first})
        )
        for n, pod in enumerate(pods)
    )


@pytest.mark.parametrize(
    ("key", "leader", "follower"),
    [
        ("role", "master", "replica"),
        ("spilo-role", "master", "replica"),
        ("cnpg.io/instanceRole", "primary", "replica"),
        ("mysql.oracle.com/cluster-role", "PRIMARY", "SECONDARY"),
        ("vault-active", "true", "false"),
    ],
)
@pytest.mark.parametrize("selects", ["all", "leader", "followers"])
def test_no_fix_scales_a_database(key: str, leader: str, follower: str, selects: str) -> None:
    every = roles(stateful({"a": 3, "b": 1}), key, leader, follower)
    pods = {"all": every, "leader": every[:1], "followers": every[1:]}[selects]
    selector = {"app": "cart"} | ({} if selects == "all" else {key: leader if selects == "leader" else follower})
    service = a_service(distribution="PreferSameZone", selector=selector)
    given = input_of(Cluster(service=service, nodes=ALIKE, pods=pods), others=every, lacking=LACKING)
    assert not [fix for fix in find_fixes(given, "IPv4") if fix.change.pods]
    (reason,) = limits_of(given).reasons
    assert f"statefulset/cart looks like a database: Pod a-0000 alone leads ({key}={leader})" in reason


def test_followers_show_a_database_without_its_leader() -> None:
    given = input_of(Cluster(service=SAME_ZONE, nodes=ALIKE, pods=stateful({"a": 3, "b": 1}, role="replica")))
    (reason,) = limits_of(given).reasons
    assert "Pod a-0000 follows a leader (role=replica)" in reason


def test_several_leaders_are_no_database() -> None:
    """As the masters of a search engine, or a component that is called ``primary``."""
    given = input_of(Cluster(service=SAME_ZONE, nodes=ALIKE, pods=stateful({"a": 3, "b": 1}, role="master")))
    assert limits_of(given).scales
    other = roles((a_pod("mail-0", labels={"app": "mail"}),), "role", "master", "")
    given = input_of(LOPSIDED, others=other)
    assert limits_of(given).scales, "a Pod of another workload"


def test_unchecked_is_shown_only_if_a_fix_changes_pods() -> None:
    proxies = same_proxy_everywhere(ALIKE, ZONEWARD_PROXY)
    (family,) = explain_service(input_of(LOPSIDED, lacking=LACKING), node_proxies=proxies).families
    assert len(family.not_checked) == 2
    balanced = LOPSIDED.with_(pods=stateful({"a": 2, "b": 2, "c": 2}))
    (family,) = explain_service(input_of(balanced, lacking=LACKING), node_proxies=proxies).families
    assert (family.aim, family.not_checked, family.limits) == (None, (), ())
