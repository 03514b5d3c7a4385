"""Names of settings follow the version of Kubernetes, and which ones a cluster can apply as it is."""

import pytest
from msgspec.structs import replace
from tests.builders.structs import a_node, a_service, nodes_in, pods_in
from tests.clusters import Cluster

from zoneward.advice.cluster_abilities import ClusterAbilities, abilities_of, is_too_new, kubernetes_minor, setting_name
from zoneward.advice.comparison import COMPARED
from zoneward.advice.node_proxies import PROXY_KINDS, NodeProxies, same_proxy_everywhere
from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice
from zoneward.routing.configuration import Configuration, SubsettingSettings


def test_version_is_that_of_the_newest_kubelet() -> None:
    nodes = [a_node("a", kubelet="v1.32.9"), a_node("b", kubelet="v1.33.1-eks-1"), a_node("c")]
    assert kubernetes_minor(nodes) == 33
    assert kubernetes_minor([a_node("c")]) is None


@pytest.mark.parametrize(
    ("kubernetes", "name"), [(33, "PreferClose"), (34, "PreferSameZone"), (None, "PreferSameZone")]
)
def test_prefer_same_zone_is_prefer_close_before_134(kubernetes: int | None, name: str) -> None:
    assert setting_name("PreferSameZone", kubernetes) == name
    assert setting_name("PreferSameNode", kubernetes) == "PreferSameNode"
    assert is_too_new("PreferSameNode", kubernetes) == (kubernetes == 33)


KUBERNETES = ClusterAbilities(controller=False, slice_groups=False, kubernetes=34)
WITH_CONTROLLER = ClusterAbilities(controller=True, slice_groups=False, kubernetes=34)
EVERYTHING = ClusterAbilities(controller=True, slice_groups=True, kubernetes=34)
CLUSTER = Cluster(service=a_service(), nodes=nodes_in({"a": 4, "b": 4, "c": 4}), pods=pods_in({"a": 1, "b": 1, "c": 1}))


def everywhere(kind: str) -> NodeProxies:
    return same_proxy_everywhere(CLUSTER.nodes, PROXY_KINDS[kind])


@pytest.mark.parametrize(
    ("approach", "abilities", "needs"),
    [
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


def test_kubernetes_alone_applies_four_settings() -> None:
    own = {approach for approach in COMPARED if KUBERNETES.missing_for(approach) is None}
    assert own == {"none", "ProportionalZoneCPU", "PreferSameZone", "PreferSameNode"}


def test_slices_show_the_controller_and_proxies_show_slice_groups() -> None:
    slices = CLUSTER.settled().slices
    kube_proxy, zoneward = everywhere("kube-proxy-1.34"), everywhere("zoneward")
    mixed = NodeProxies({**zoneward.kind_of, "node-a": PROXY_KINDS["kube-proxy-1.34"]}, {}, PROXY_KINDS["zoneward"])

    def known(slices: tuple[EndpointSlice, ...], proxies: NodeProxies, **settings: str) -> tuple[bool, bool]:
        configuration = Configuration(subsetting=SubsettingSettings(**settings))  # type: ignore[arg-type]
        abilities = abilities_of(slices, node_proxies=proxies, configuration=configuration)
        return abilities.controller, abilities.slice_groups

    assert known((), kube_proxy) == (False, False)
    assert known(slices, kube_proxy) == (True, False)
    assert known(slices, zoneward) == (True, True)
    assert known(slices, mixed) == (True, False)
    assert known((), kube_proxy, encoding="hints") == (False, True)


def test_slices_of_the_built_in_controller_do_not_mean_that_zoneward_runs() -> None:
    slices = tuple(
        replace(
            slice_,
            metadata=replace(
                slice_.metadata,
                labels={**(slice_.metadata.labels or {}), names.MANAGED_BY_LABEL: names.BUILT_IN_MANAGER},
            ),
        )
        for slice_ in CLUSTER.settled().slices
    )
    abilities = abilities_of(slices, node_proxies=everywhere("zoneward"), configuration=CLUSTER.configuration)
    assert not abilities.controller
