import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace
from tests.advice.inputs import input_of, owned
from tests.builders.structs import a_node, a_pod, a_service, a_slice, an_endpoint, hints, nodes_in, pods_in
from tests.clusters import Cluster

from zoneward.advice.fixes import Fix, aim_of, find_fixes
from zoneward.advice.node_proxies import PROXY_KINDS
from zoneward.kube import names
from zoneward.kube.objects import OwnerReference, Service

ALIKE = nodes_in({"a": 4, "b": 4, "c": 4})
AUTO = a_service("Auto")
SAME_ZONE = a_service(distribution="PreferSameZone")


def fixes_of(cluster: Cluster) -> dict[str, Fix]:
    fixes = find_fixes(input_of(cluster), "IPv4")
    assert len({fix.kind for fix in fixes}) == len(fixes) or "setting" in {fix.kind for fix in fixes}
    return {fix.kind: fix for fix in reversed(fixes)}


def test_eleven_endpoints_need_one_more_one_fewer_or_a_threshold() -> None:
    """The zones need 4 + 4 + 4 of 11 below 20 %, 4 + 4 + 4 of 12, and 3 + 3 + 3 of 10 below 22.3 %."""
    fixes = fixes_of(Cluster(service=AUTO, nodes=ALIKE, pods=pods_in({"a": 5, "b": 3, "c": 3})))
    assert fixes["add-pods"].pods == 1
    assert fixes["add-pods"].wherever
    assert fixes["remove-pods"].pods < 0
    assert fixes["threshold"].threshold == f"{names.HINTS_THRESHOLD_ANNOTATION}: 23%"
    assert fixes["threshold"].needs == ("controller",)


@pytest.mark.parametrize(("kind", "kinds"), [("DaemonSet", []), ("ReplicaSet", ["setting"])])
def test_service_of_a_daemon_set_keeps_to_the_node_of_the_client(kind: str, kinds: list[str]) -> None:
    """A node without a Pod may be new, or of a kind that runs no DaemonSets."""
    pods = owned(pods_in({"a": 1, "b": 1}), kind, "agent")
    cluster = Cluster(service=a_service(internal="Local"), nodes=ALIKE, pods=pods)
    assert [fix.kind for fix in find_fixes(input_of(cluster), "IPv4")] == kinds


def test_fix_that_empties_a_zone_comes_last() -> None:
    """It takes no Pods, and would come first."""
    fixes = find_fixes(input_of(Cluster(service=AUTO, nodes=ALIKE, pods=pods_in({"a": 1, "b": 2, "c": 1}))), "IPv4")
    assert [fix.kind for fix in fixes] == ["setting", "threshold", "spread", "add-pods", "remove-pods"]
    assert fixes[-1].change.pods == {"a": -1}


def test_zone_without_endpoints_needs_pods() -> None:
    fixes = fixes_of(Cluster(service=SAME_ZONE, nodes=ALIKE, pods=pods_in({"a": 3, "b": 3, "c": 0})))
    assert dict(fixes["spread"].change.pods) == {"a": -1, "b": -1, "c": 2}
    assert fixes["spread"].pods == 0


def test_overloaded_zone_needs_more_or_moved_pods() -> None:
    demand = nodes_in({"a": 60, "b": 20, "c": 20})
    fixes = fixes_of(Cluster(service=SAME_ZONE, nodes=demand, pods=pods_in({"a": 4, "b": 3, "c": 3})))
    assert dict(fixes["move-pods"].change.pods) == {"a": 2, "b": -1, "c": -1}
    # 0.6 * 13 / 7 is 11 % above fair, 0.6 * 12 / 6 exactly 20 %.
    assert dict(fixes["add-pods"].change.pods) == {"a": 3}


def test_node_without_zone_needs_a_label() -> None:
    nodes = (*ALIKE, a_node("node-lost", zone=None))
    fixes = fixes_of(Cluster(service=AUTO, nodes=nodes, pods=pods_in({"a": 4, "b": 4, "c": 4})))
    fix = fixes["label-node"]
    assert set(fix.change.zone_of_node) == {"node-lost"}
    assert fix.family.decision.active


def test_label_of_any_zone_promises_what_holds_in_every_zone() -> None:
    nodes = (*nodes_in({"a": 3, "b": 4, "c": 4}), a_node("node-lost", zone=None))
    fix = fixes_of(Cluster(service=AUTO, nodes=nodes, pods=pods_in({"a": 4, "b": 4, "c": 4})))["label-node"]
    assert fix.among == ("a", "b", "c")
    # In zone a, demand would be that of the Pods; in b or c, a Pod of a serves it.
    assert fix.change.zone_of_node["node-lost"] != "a"
    assert fix.in_zone < 1


def test_label_of_many_nodes_promises_only_the_zones_that_were_tried() -> None:
    pods = pods_in({"a": 4, "b": 4, "c": 4})
    for lost, among in ((2, ("a", "b", "c")), (5, ())):
        nodes = (*nodes_in({"a": 40, "b": 40, "c": 40}), *(a_node(f"lost-{index}", zone=None) for index in range(lost)))
        fix = fixes_of(Cluster(service=AUTO, nodes=nodes, pods=pods))["label-node"]
        assert (fix.among, len(fix.change.zone_of_node)) == (among, lost)


def test_service_without_setting_gets_a_known_setting() -> None:
    fixes = find_fixes(
        input_of(Cluster(service=a_service(), nodes=ALIKE, pods=pods_in({"a": 2, "b": 2, "c": 2}))), "IPv4"
    )
    assert fixes[0].kind == "setting"
    assert fixes[0].setting == "PreferSameZone"
    assert fixes[0].needs == ()
    assert fixes[0].change.service_patch == {"spec": {"trafficDistribution": "PreferSameZone"}}


@pytest.mark.parametrize(
    ("kubelet", "proxy", "expected"),
    [
        ("v1.34.1", "kube-proxy-1.34", "PreferSameZone"),
        ("v1.33.4", "kube-proxy-1.33", "PreferClose"),
        ("v1.34.1", "cilium-1.18-service-topology", "PreferClose"),
        ("v1.34.1", "cilium-1.20-service-topology", "PreferSameZone"),
    ],
)
def test_fix_uses_the_name_that_api_server_and_proxies_know(kubelet: str, proxy: str, expected: str) -> None:
    nodes = tuple(a_node(f"node-{zone}", zone, kubelet=kubelet) for zone in "abc")
    given = input_of(Cluster(service=a_service(), nodes=nodes, pods=pods_in({"a": 2, "b": 2, "c": 2})))
    state = dataclasses.replace(given.cluster_state, consumer=PROXY_KINDS[proxy].consumer)
    fixes = find_fixes(dataclasses.replace(given, cluster_state=state), "IPv4")
    (patch,) = (fix.change.service_patch for fix in fixes if fix.kind == "setting" and not fix.needs)
    assert patch == {"spec": {"trafficDistribution": expected}}


def test_setting_needs_the_controller_if_cpu_demand_differs() -> None:
    """By CPU, Auto lets the Pods of each zone serve their own zone alone: those of zone a would be 40 % above fair."""
    service = a_service(annotations={names.DEMAND_ANNOTATION: "a=70%,b=30%"})
    cluster = Cluster(service=service, nodes=nodes_in({"a": 1, "b": 1}), pods=pods_in({"a": 10, "b": 10}))
    fixes = find_fixes(input_of(cluster), "IPv4")
    assert [fix.needs for fix in fixes if fix.kind == "setting"] == [("controller",)]
    evenly = cluster.with_(service=a_service())
    assert [fix.needs for fix in find_fixes(input_of(evenly), "IPv4") if fix.kind == "setting"] == [()]


def test_fix_replaces_an_unknown_value() -> None:
    service = a_service("auto-zone", old="nonsense")
    fixes = find_fixes(input_of(Cluster(service=service, nodes=ALIKE, pods=pods_in({"a": 2, "b": 2, "c": 2}))), "IPv4")
    assert fixes[0].change.service_patch == {
        "metadata": {
            "annotations": {names.TOPOLOGY_MODE_ANNOTATION: None, names.TOPOLOGY_AWARE_HINTS_ANNOTATION: None}
        },
        "spec": {"trafficDistribution": "PreferSameZone"},
    }


def test_setting_comes_with_pods_if_no_single_change_is_enough() -> None:
    (fix,) = find_fixes(input_of(Cluster(service=a_service(), nodes=ALIKE, pods=pods_in({"b": 1}))), "IPv4")
    assert fix.kind == "setting"
    assert dict(fix.change.pods) == {"a": 1, "c": 1}
    assert fix.change.service_patch


def test_fix_lowers_the_starting_threshold() -> None:
    service = a_service(subsetting="Auto")
    fixes = fixes_of(Cluster(service=service, nodes=ALIKE, pods=pods_in({"a": 3, "b": 3, "c": 3})))
    assert fixes["threshold"].threshold == f"{names.STARTING_THRESHOLD_ANNOTATION}: 2"
    assert fixes["add-pods"].pods == 3


@pytest.mark.parametrize(
    ("service", "pods"),
    [
        pytest.param(AUTO, {"a": 4, "b": 4, "c": 4}, id="in force, and good"),
        pytest.param(a_service("Auto", cluster_ip="None"), {"a": 1}, id="headless"),
        pytest.param(a_service("Auto", selects=False), {"a": 1}, id="no selector"),
        pytest.param(a_service("Auto", internal="Local"), dict.fromkeys("abc", 1), id="its own node only"),
        pytest.param(a_service("Auto"), {}, id="nothing to serve it"),
        pytest.param(a_service("Auto", deleting=True), {"a": 4, "b": 4, "c": 4}, id="being deleted"),
        pytest.param(a_service(type_="ExternalName"), {}, id="no endpoints at all"),
    ],
)
def test_no_fix_if_nothing_is_wrong_or_nothing_helps(service: Service, pods: dict[str, int]) -> None:
    given = input_of(Cluster(service=service, nodes=ALIKE, pods=pods_in(pods)))
    assert find_fixes(given, "IPv4") == ()


def test_void_hints_have_no_fix_in_the_service() -> None:
    other = a_slice("of-others", an_endpoint("10.9.9.9", "a"), manager="example.com", owner=None)
    cluster = Cluster(service=AUTO, nodes=ALIKE, pods=pods_in({"a": 4, "b": 4, "c": 4}), slices=(other,))
    given = input_of(cluster)
    assert aim_of(given.plan.families[0]) is not None
    assert find_fixes(given, "IPv4") == ()


def test_daemon_set_is_never_scaled() -> None:
    owner = (OwnerReference(api_version="apps/v1", kind="DaemonSet", name="agent", uid="1", controller=True),)
    pods = tuple(
        replace(pod, metadata=replace(pod.metadata, owner_references=owner)) for pod in pods_in({"a": 1, "b": 1})
    )
    fixes = fixes_of(Cluster(service=AUTO, nodes=ALIKE, pods=pods))
    assert not fixes.keys() & {"add-pods", "remove-pods", "move-pods", "spread"}


def test_fix_needs_the_controller_unless_it_runs() -> None:
    service, pods = a_service("zoneward.dev/PreferZone"), pods_in({"a": 3, "b": 3, "c": 0})
    cluster = Cluster(service=service, nodes=ALIKE, pods=pods)
    assert fixes_of(cluster)["spread"].needs == ("controller",)
    ours = a_slice("cart-1", an_endpoint("10.97.0.1", "a", pod="a-0000", hinted=hints("a")))
    assert fixes_of(cluster.with_(slices=(ours,)))["spread"].needs == ()


def test_unready_pods_are_no_endpoints() -> None:
    pods: Any = (*pods_in({"a": 1, "b": 1}), a_pod("c-0", "node-c", ips=["10.99.0.9"], ready=False))
    fixes = fixes_of(Cluster(service=AUTO, nodes=ALIKE, pods=pods))
    assert fixes["add-pods"].pods == 1
