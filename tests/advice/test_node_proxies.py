"""The proxy of every node is found in the objects that the large clouds and distributions have."""

import json
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders.structs import a_node, a_service
from tests.deploy.manifests import the
from tests.properties.random_clusters import examples

from zoneward.advice.node_proxies import NodeProxies, detect_node_proxies
from zoneward.kube.object_reader import read_objects
from zoneward.kube.objects import (
    ConfigMap,
    DaemonPodSpec,
    DaemonPodTemplate,
    DaemonSet,
    DaemonSetSpec,
    Node,
    NodeInfo,
    PlainMeta,
    ProgramContainer,
    ProxyPod,
    ProxyPodSpec,
)
from zoneward.routing.demand import compute_demand
from zoneward.snapshots.anonymizer import anonymized
from zoneward.snapshots.cluster_snapshot import Snapshot
from zoneward.snapshots.snapshot_writer import write_snapshot

LAYOUTS: Final = Path(__file__).parent / "layouts"
KUBEADM: Final = "kube-proxy-1.33-with-PreferSameTrafficDistribution"
EXPECTED: Final = {
    "kubeadm": {"n1": KUBEADM, "w1": "kube-proxy-windows"},
    "eks": {"n1": "kube-proxy-1.30", "fargate": "kube-proxy-1.31"},
    "gke": {
        "gke-pool-1-a8c2": "kube-proxy-1.32",
        "gke-pool-2-77fd": "kube-proxy-1.30-with-ServiceTrafficDistribution",
    },
    "gke-dataplane-v2": {"n1": "cilium-1.15"},
    "cilium-helm": {"n1": "cilium-1.17-service-topology"},
    "cilium-beside-kube-proxy": {"n1": "cilium-1.14-service-topology", "n2": "kube-proxy-1.31"},
    "kube-router": {"n1": "kube-router", "n2": "kube-proxy-1.34"},
    "k3s": {"n1": "kube-proxy-1.32", "n2": "kube-proxy-1.33"},
}


def layout(name: str) -> Snapshot:
    data = (LAYOUTS / f"{name}.yaml").read_bytes()
    return Snapshot.of(read_objects(name, data, skipped=Counter()))


def detected(snapshot: Snapshot, *missing: str) -> NodeProxies:
    return detect_node_proxies(
        snapshot.nodes,
        daemon_sets=snapshot.daemon_sets,
        pods=snapshot.proxy_pods,
        config_maps=snapshot.config_maps,
        missing=missing,
    )


def names_of(found: NodeProxies) -> dict[str, str]:
    return {node: kind.name for node, kind in found.kind_of.items()}


def test_every_layout_is_expected_to_be_something() -> None:
    assert {path.stem for path in LAYOUTS.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_proxy_of_each_node_is_found_in_the_layout(name: str) -> None:
    assert names_of(detected(layout(name))) == EXPECTED[name]


class Bytes(list[bytes]):
    """Takes what is written."""

    def write(self, data: bytes) -> None:
        self.append(data)


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_snapshot_has_all_that_detection_reads_and_none_of_the_rest(name: str, form: str) -> None:
    before, written = layout(name), Bytes()
    write_snapshot(before, written, form="yaml" if form == "yaml" else "json")
    text = b"".join(written)
    again = Snapshot.of(read_objects(name, text, skipped=Counter()))
    assert again == before
    assert names_of(detected(again)) == EXPECTED[name]
    for secret in (b"10.200.", b"kubeconfig", b"clusterCIDR", b"cluster-cidr", b"cluster-name"):
        assert secret not in text


@pytest.mark.parametrize("name", EXPECTED)
def test_an_anonymized_snapshot_is_detected_alike_and_names_no_registry_and_no_node(name: str) -> None:
    before, written = layout(name), Bytes()
    write_snapshot(anonymized(before), written)
    text = b"".join(written).decode()
    again = detected(Snapshot.of(read_objects(name, text.encode(), skipped=Counter())))
    assert sorted(names_of(again).values()) == sorted(EXPECTED[name].values())
    named = {node for node in EXPECTED[name] if len(node) > 2}
    for secret in ("dkr.ecr", "gcr.io", "quay.io", "microsoft", "rancher", "sha256", "eks-", "gke", "mc_shop", *named):
        assert secret not in text


def test_the_evidence_names_the_object_and_the_image() -> None:
    assert detected(layout("kubeadm")).evidence["n1"] == "DaemonSet kube-system/kube-proxy, image kube-proxy:v1.33.5"
    assert detected(layout("k3s")).evidence["n1"] == "k3s v1.32.5+k3s1 has kube-proxy built in"


# --- Zoneward's own proxy ---------------------------------------------------------------------------------------------


def own_daemon_set(mode: str) -> DaemonSet:
    (found,) = read_objects("deploy", json.dumps(the("DaemonSet", mode)).encode(), skipped=Counter())
    assert isinstance(found, DaemonSet)
    return found


def a_versioned_node(name: str, version: str, **more: str) -> Node:
    node = a_node(name, labels=more)
    assert node.status is not None
    return replace(node, status=replace(node.status, node_info=NodeInfo(kubelet_version=version)))


NODE: Final = a_versioned_node("n1", "v1.33.1", **{"kubernetes.io/os": "linux"})


def test_our_own_proxy_in_place_of_kube_proxy_counts_before_all_others() -> None:
    both = (own_daemon_set("proxy/instead-of-kube-proxy"), a_daemon_set("kube-proxy:v1.33.1", "kube-proxy"))
    found = detect_node_proxies([NODE], daemon_sets=both, pods=(), config_maps=())
    assert names_of(found) == {"n1": "zoneward"}


def test_our_own_proxy_beside_kube_proxy_serves_the_labelled_services_alone() -> None:
    both = (own_daemon_set("proxy/beside-kube-proxy"), a_daemon_set("kube-proxy:v1.30.1", "kube-proxy"))
    found = detect_node_proxies([NODE], daemon_sets=both, pods=(), config_maps=())
    assert names_of(found) == {"n1": "kube-proxy-1.30"}
    demand = compute_demand([NODE])
    assert found.split(demand, a_service()).nodes == {"kube-proxy 1.30": 1}
    labelled = a_service(labels={"service.kubernetes.io/service-proxy-name": "zoneward"})
    assert found.split(demand, labelled).nodes == {"zoneward": 1}


# --- what is not known ------------------------------------------------------------------------------------------------


def a_daemon_set(image: str, *command: str) -> DaemonSet:
    containers = (ProgramContainer(name="proxy", image=image, command=command or None),)
    meta = PlainMeta(name="proxy", namespace="kube-system")
    return DaemonSet(
        metadata=meta, spec=DaemonSetSpec(template=DaemonPodTemplate(spec=DaemonPodSpec(containers=containers)))
    )


def test_a_missing_permission_is_told_once_where_it_leads_to_a_guess() -> None:
    nodes = Snapshot(nodes=(NODE, a_node("n2")))
    assert detected(nodes, "DaemonSets cannot be read (no permission)").notes == (
        "DaemonSets cannot be read (no permission): --proxy says which proxy runs on the nodes",
        "the proxy of node n1 is taken to be kube-proxy of the kubelet's version",
        "nothing says which proxy runs on node n2: taken to be Zoneward's own (--proxy)",
    )
    assert detected(layout("kubeadm"), "ConfigMaps cannot be read").notes[1:] == (
        "the proxy of node w1 is taken to be kube-proxy of the kubelet's version",
    )
    assert detected(layout("cilium-helm"), "ConfigMaps cannot be read").notes == ()


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("kube-proxy", "kube-proxy-1.33"),
        ("kube-proxy:latest", "kube-proxy-1.33"),
        ("registry:5000/kube-proxy", "kube-proxy-1.33"),
        ("registry:5000/kube-proxy:1.29.3", "kube-proxy-1.29"),
        ("kube-proxy:v2.0.0", "kube-proxy-1.33"),
        ("kube-proxy:v1.99.0", "kube-proxy-1.99"),
        ("kube-proxy:v1.333333333333", "kube-proxy-1.33"),
        ("kube-rbac-proxy:v1.20.0", "kube-proxy-1.33"),
        ("", "kube-proxy-1.33"),
        ("@:/:@", "kube-proxy-1.33"),
    ],
)
def test_an_image_without_a_version_leaves_that_to_the_kubelet(image: str, expected: str) -> None:
    found = detect_node_proxies([NODE], daemon_sets=[a_daemon_set(image)], pods=(), config_maps=())
    assert names_of(found) == {"n1": expected}


WORDS: Final = ("", "kube-proxy", "cilium-agent", "--feature-gates", "--feature-gates=,=,x", "--run-service-proxy=\x00")
TEXT: Final = st.sampled_from((*WORDS, "proxy:v1.")) | st.text(max_size=20)
TEXTS: Final = st.none() | st.tuples(TEXT, TEXT)
CONTAINERS: Final = st.lists(
    st.builds(ProgramContainer, name=TEXT, image=TEXT, command=TEXTS, args=TEXTS), max_size=2
).map(tuple)


@examples(50)
@given(CONTAINERS, CONTAINERS, TEXT, st.dictionaries(st.sampled_from(("config.conf", "enable-service-topology")), TEXT))
def test_unknown_values_are_no_exception(
    daemon: tuple[ProgramContainer, ...], pod: tuple[ProgramContainer, ...], version: str, data: dict[str, str]
) -> None:
    sets = DaemonSet(spec=DaemonSetSpec(template=DaemonPodTemplate(spec=DaemonPodSpec(containers=daemon))))
    pods = ProxyPod(spec=ProxyPodSpec(node_name="n1", containers=pod))
    maps = [ConfigMap(metadata=PlainMeta(name=name), data=data) for name in ("kube-proxy", "cilium-config", "x")]
    found = detect_node_proxies([a_versioned_node("n1", version)], daemon_sets=[sets], pods=[pods], config_maps=maps)
    assert set(found.kind_of) == {"n1"}
