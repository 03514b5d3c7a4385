"""What each kind of proxy honors, and that the proxy of every node is found in what clouds and distributions have."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders.structs import a_node, a_service, an_endpoint, hints
from tests.clusters import CLUSTER
from tests.deploy.manifests import the
from tests.properties.random_clusters import examples

from zoneward.advice.node_proxies import (
    NEWEST_KUBE_PROXY,
    PROXY_KINDS,
    NodeProxies,
    cilium,
    detect_node_proxies,
    kube_proxy,
)
from zoneward.kube.object_reader import read_objects
from zoneward.kube.objects import (
    ConfigMap,
    DaemonPodSpec,
    DaemonPodTemplate,
    DaemonSet,
    DaemonSetSpec,
    DaemonSetStatus,
    Endpoint,
    PlainMeta,
    ProgramContainer,
    ProxyPod,
    ProxyPodSpec,
    Service,
)
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.demand import compute_demand
from zoneward.routing.selection.endpoint_selection import CONSUMERS, honored_hints, select_endpoints
from zoneward.snapshots.anonymizer import anonymized
from zoneward.snapshots.cluster_snapshot import Snapshot
from zoneward.snapshots.snapshot_writer import write_snapshot

SERVICES: Final = {
    "nothing": a_service(),
    "old": a_service(old="Auto"),
    "auto": a_service("Auto"),
    "other": a_service("ProportionalZoneCPU"),
    "disabled": a_service("Disabled"),
    "close": a_service(distribution="PreferClose"),
    "zone": a_service(distribution="PreferSameZone"),
    "node": a_service(distribution="PreferSameNode"),
}
EVERY: Final = tuple(SERVICES)
BY_ANNOTATION: Final = ("old", "auto", "other")


def honoring(kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The Services whose hints for zones, and for nodes, a kind of proxy honors."""

    def honored(service: Service) -> tuple[bool, bool]:
        hints = honored_hints(service, PROXY_KINDS[kind].consumer, FeatureGates())
        return hints.zones, hints.nodes

    hints = {name: honored(service) for name, service in SERVICES.items()}
    return tuple(name for name in EVERY if hints[name][0]), tuple(name for name in EVERY if hints[name][1])


@pytest.mark.parametrize(
    ("kind", "zones", "nodes"),
    [
        ("kube-proxy-1.23", (), ()),
        ("kube-proxy-1.24", ("old",), ()),
        ("kube-proxy-1.26", ("old",), ()),
        ("kube-proxy-1.27", BY_ANNOTATION, ()),
        ("kube-proxy-1.30", BY_ANNOTATION, ()),
        ("kube-proxy-1.31", EVERY, ()),
        ("kube-proxy-1.33", EVERY, ()),
        ("kube-proxy-1.34", EVERY, EVERY),
        ("kube-proxy-1.37", EVERY, EVERY),
        ("cilium-1.17", (), ()),
        ("cilium-1.13-service-topology", ("old",), ()),
        ("cilium-1.15-service-topology", BY_ANNOTATION, ()),
        ("cilium-1.16-service-topology", (*BY_ANNOTATION, "close"), ()),
        ("cilium-1.20-service-topology", (*BY_ANNOTATION, "close", "zone"), ("node",)),
        ("kube-router", (), ()),
        ("zoneward", EVERY, EVERY),
    ],
)
def test_kind_honors_hints_by_its_version(kind: str, zones: tuple[str, ...], nodes: tuple[str, ...]) -> None:
    assert honoring(kind) == (zones, nodes)


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        ("cilium-1.18-service-topology", "zone-hints"),
        ("cilium-1.19-service-topology", "all"),
        ("cilium-1.20-service-topology", "all"),
        ("kube-proxy-1.33", "zone-hints"),
        ("kube-proxy-1.36", "zone-hints"),
    ],
)
def test_unready_endpoint_without_hint_disables_zones_in_cilium(kind: str, rule: str) -> None:
    """cilium/cilium#47960; a terminating one does not, and neither does one that has a hint."""
    honored = honored_hints(SERVICES["close"], PROXY_KINDS[kind].consumer, FeatureGates())
    ready = [an_endpoint(f"10.0.0.{zone}", hinted=hints(zone)) for zone in "ab"]

    def chosen(*others: Endpoint) -> str:
        selection = select_endpoints([*ready, *others], policies=CLUSTER, honored=honored, node="n", zone="a")
        return selection.rule.value

    assert chosen(an_endpoint("10.0.0.9", ready=False)) == rule
    assert chosen(an_endpoint("10.0.0.9", ready=False, hinted=hints("b"))) == "zone-hints"
    assert chosen(an_endpoint("10.0.0.9", ready=False, terminating=True)) == "zone-hints"


@pytest.mark.parametrize(
    ("minor", "gates", "same_as", "title"),
    [
        (33, {"PreferSameTrafficDistribution": True}, 34, "kube-proxy 1.33 with PreferSameTrafficDistribution"),
        (34, {"PreferSameTrafficDistribution": False}, 33, "kube-proxy 1.34 without PreferSameTrafficDistribution"),
        (35, {"PreferSameTrafficDistribution": False}, 35, "kube-proxy 1.35"),
        (30, {"ServiceTrafficDistribution": True}, 31, "kube-proxy 1.30 with ServiceTrafficDistribution"),
        (32, {"TopologyAwareHints": False}, 23, "kube-proxy 1.32 without TopologyAwareHints"),
        (33, {"TopologyAwareHints": False, "Unknown": True}, 33, "kube-proxy 1.33"),
        (23, {"TopologyAwareHints": True}, 24, "kube-proxy 1.23 with TopologyAwareHints"),
        (20, {"TopologyAwareHints": True}, 20, "kube-proxy 1.20"),
        (99, {}, 36, "kube-proxy 1.99"),
    ],
)
def test_gates_count_unless_unknown_or_locked(minor: int, gates: dict[str, bool], same_as: int, title: str) -> None:
    kind = kube_proxy(minor, gates)
    assert kind.consumer == kube_proxy(same_as).consumer
    assert kind.title == title


def test_names_of_kinds_are_unique_and_consumers_are_aliases() -> None:
    assert set(CONSUMERS) <= set(PROXY_KINDS)
    assert all(PROXY_KINDS[name].consumer == consumer for name, consumer in CONSUMERS.items())
    assert all(kind.name == name and kind.about for name, kind in PROXY_KINDS.items())
    assert cilium(17, service_topology=True).title == "cilium 1.17 service topology"


LAYOUTS: Final = Path(__file__).parent / "layouts"
KUBEADM: Final = "kube-proxy-1.33-with-PreferSameTrafficDistribution"
EXPECTED: Final = {
    "kubeadm": {"n1": KUBEADM, "w1": "kube-proxy-windows"},
    "eks": {"n1": "kube-proxy-1.30", "fargate": "kube-proxy-1.31"},
    "eks-auto-mode": {"n1": "kube-proxy-1.34"},
    "aks-virtual-node": {"aks-1": "kube-proxy-1.33"},
    "gke": {
        "gke-pool-1-a8c2": "kube-proxy-1.32",
        "gke-pool-2-77fd": "kube-proxy-1.30-with-ServiceTrafficDistribution",
    },
    "gke-dataplane-v2": {"n1": "cilium-1.15"},
    "gke-dataplane-v2-pods": {"n1": "cilium-1.16"},
    "pods-of-other-clouds": {
        "eks-1": "kube-proxy-1.31",
        "aks-1": "kube-proxy-1.32",
        "renamed": "kube-proxy-1.34",
        "own-namespace": "cilium-1.18-service-topology",
        "bare": "kube-router",
    },
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


def names_of(proxies: NodeProxies) -> dict[str, str]:
    return {node: kind.name for node, kind in proxies.kind_of.items()}


def test_every_layout_has_an_expectation() -> None:
    assert {path.stem for path in LAYOUTS.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_proxy_of_each_node_is_detected(name: str) -> None:
    assert names_of(detected(layout(name))) == EXPECTED[name]


class Bytes(list[bytes]):
    """Takes what is written."""

    def write(self, data: bytes) -> None:
        self.append(data)


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_snapshot_has_exactly_what_detection_reads(name: str, form: str) -> None:
    before, written = layout(name), Bytes()
    write_snapshot(before, written, form="yaml" if form == "yaml" else "json")
    text = b"".join(written)
    again = Snapshot.of(read_objects(name, text, skipped=Counter()))
    assert again == before
    assert names_of(detected(again)) == EXPECTED[name]
    for secret in (b"10.200.", b"kubeconfig", b"clusterCIDR", b"cluster-cidr", b"cluster-name"):
        assert secret not in text


@pytest.mark.parametrize("name", EXPECTED)
def test_anonymized_snapshot_is_detected_alike(name: str) -> None:
    before, written = layout(name), Bytes()
    write_snapshot(anonymized(before), written)
    text = b"".join(written).decode()
    again = detected(Snapshot.of(read_objects(name, text.encode(), skipped=Counter())))
    assert sorted(names_of(again).values()) == sorted(EXPECTED[name].values())
    named = {node for node in EXPECTED[name] if len(node) > 2}
    for secret in ("dkr.ecr", "gcr.io", "quay.io", "microsoft", "rancher", "sha256", "eks-", "gke", "mc_shop", *named):
        assert secret not in text


def test_evidence_names_object_and_image() -> None:
    assert detected(layout("kubeadm")).evidence["n1"] == "DaemonSet kube-system/kube-proxy, image kube-proxy:v1.33.5"
    assert detected(layout("k3s")).evidence["n1"] == "k3s v1.32.5+k3s1 has kube-proxy built in"


def test_kube_proxy_that_eks_runs_outside_pods_is_no_guess() -> None:
    assert (detected(layout("eks")).notes, detected(layout("eks-auto-mode")).notes) == ((), ())


def test_evidence_of_nodes_with_the_same_daemon_set_is_the_same() -> None:
    proxies = detected(layout("gke-dataplane-v2-pods"))
    assert proxies.evidence["n1"] == "DaemonSet kube-system/anetd, image cilium:v1.16.4-gke.21"


# --- Zoneward's own proxy ---------------------------------------------------------------------------------------------


def own_daemon_set(mode: str) -> DaemonSet:
    (proxies,) = read_objects("deploy", json.dumps(the("DaemonSet", mode)).encode(), skipped=Counter())
    assert isinstance(proxies, DaemonSet)
    return proxies


NODE: Final = a_node("n1", kubelet="v1.33.1", labels={"kubernetes.io/os": "linux"})


def test_zoneward_proxy_in_place_of_kube_proxy() -> None:
    own, kube_proxy = own_daemon_set("proxy/instead-of-kube-proxy"), a_daemon_set("kube-proxy:v1.33.1", "kube-proxy")
    off = replace(kube_proxy, status=DaemonSetStatus(number_ready=0))
    assert names_of(detected(Snapshot(nodes=(NODE,), daemon_sets=(own, off)))) == {"n1": "zoneward"}
    both = detected(Snapshot(nodes=(NODE,), daemon_sets=(own, kube_proxy)))
    assert names_of(both) == {"n1": "kube-proxy-1.33"}
    (note,) = both.notes
    assert note == (
        "two proxies on the nodes: kube-proxy (kube-system) and zoneward (zoneward-proxy); "
        "assuming kube-proxy (override with --proxy)"
    )


def test_zoneward_proxy_beside_kube_proxy_serves_labelled_services() -> None:
    both = (own_daemon_set("proxy/beside-kube-proxy"), a_daemon_set("kube-proxy:v1.30.1", "kube-proxy"))
    proxies = detect_node_proxies([NODE], daemon_sets=both, pods=(), config_maps=())
    assert names_of(proxies) == {"n1": "kube-proxy-1.30"}
    alone = detect_node_proxies([NODE], daemon_sets=both[:1], pods=(), config_maps=())
    assert names_of(alone) == {"n1": "kube-proxy-1.33"}, "it does not serve the other Services"
    demand = compute_demand([NODE])
    assert proxies.split(demand, a_service()).nodes == {"kube-proxy 1.30": 1}
    labelled = a_service(labels={"service.kubernetes.io/service-proxy-name": "zoneward"})
    assert proxies.split(demand, labelled).nodes == {"zoneward": 1}


# --- what is not known ------------------------------------------------------------------------------------------------


def a_daemon_set(image: str, *command: str) -> DaemonSet:
    containers = (ProgramContainer(name="proxy", image=image, command=command or None),)
    meta = PlainMeta(name="proxy", namespace="kube-system")
    return DaemonSet(
        metadata=meta, spec=DaemonSetSpec(template=DaemonPodTemplate(spec=DaemonPodSpec(containers=containers)))
    )


def test_missing_permission_is_noted_once() -> None:
    nodes = Snapshot(nodes=(NODE, a_node("n2")))
    assert detected(nodes, "DaemonSets cannot be read (no permission)").notes == (
        "DaemonSets cannot be read (no permission)",
        "cannot detect the proxy on the nodes; assuming kube-proxy (override with --proxy)",
    )
    assert detected(layout("kubeadm"), "ConfigMaps cannot be read").notes[1:] == (
        "cannot detect the proxy on node w1; assuming kube-proxy (override with --proxy)",
    )
    assert detected(layout("cilium-helm"), "ConfigMaps cannot be read").notes == ()


def test_newest_kube_proxy_is_assumed_without_version() -> None:
    unknown = detected(Snapshot(nodes=(a_node("n1"),)))
    assert names_of(unknown) == {"n1": f"kube-proxy-1.{NEWEST_KUBE_PROXY}"}
    assert unknown.on("elsewhere") == unknown.on("n1")
    assert not unknown.consumer_by_node
    untagged = Snapshot(nodes=(a_node("n1"),), daemon_sets=(a_daemon_set("kube-proxy"),))
    assert names_of(detected(untagged)) == {"n1": f"kube-proxy-1.{NEWEST_KUBE_PROXY}"}


def test_unknown_settings_of_cilium_are_off() -> None:
    assert detected(layout("gke-dataplane-v2-pods"), "ConfigMaps cannot be read").notes == (
        "ConfigMaps cannot be read",
        "no settings of Cilium on the nodes; assuming enable-service-topology is off (override with --proxy)",
    )
    assert detected(layout("gke-dataplane-v2-pods")).on("n1").about.endswith("is off by default")
    assert detected(layout("gke-dataplane-v2")).notes == ()
    assert detected(layout("gke-dataplane-v2")).on("n1").about.endswith("is off")


# --- who claims a node ------------------------------------------------------------------------------------------------

AGENT: Final = {"name": "cilium-agent", "image": "cilium:v1.18.0"}
KUBE_PROXY: Final = {"name": "kube-proxy", "image": "kube-proxy:v1.33.1"}


def read(*objects: Mapping[str, Any]) -> Snapshot:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    return Snapshot.of((NODE, a_node("n2", kubelet="v1.33.1"), *read_objects("x", text.encode(), skipped=Counter())))


def a_proxy_pod(container: Mapping[str, Any], namespace: str, node: str = "n1", **more: Any) -> dict[str, Any]:
    spec = {"nodeName": node, "containers": [container], **more}
    meta = {"name": f"{container['name']}-{node}", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Running"}}


def a_proxy_daemon_set(container: Mapping[str, Any], namespace: str, *, ready: int, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": namespace},
        "spec": {"template": {"spec": {"containers": [container], **more}}},
        "status": {"numberReady": ready},
    }


def test_daemon_set_without_pods_is_ignored() -> None:
    tenant = a_proxy_daemon_set(AGENT, "mallory", ready=0, hostNetwork=True)
    snapshot = read(tenant, a_proxy_pod(KUBE_PROXY, "kube-system"), a_proxy_pod(KUBE_PROXY, "kube-system", "n2"))
    assert names_of(detected(snapshot)) == {"n1": "kube-proxy-1.33", "n2": "kube-proxy-1.33"}
    assert detected(snapshot).notes == ()


@pytest.mark.parametrize("host_network", [False, True])
def test_kube_system_wins_with_a_note(host_network: bool) -> None:
    tenant = a_proxy_pod(AGENT, "mallory", hostNetwork=host_network)
    proxies = detected(read(tenant, *(a_proxy_pod(KUBE_PROXY, "kube-system", node) for node in ("n1", "n2"))))
    assert set(names_of(proxies).values()) == {"kube-proxy-1.33"}
    note = (
        "two proxies on node n1: kube-proxy (kube-system) and cilium (mallory); "
        "assuming kube-proxy (override with --proxy)"
    )
    # Without the network of the node it is no proxy at all.
    assert proxies.notes == ((note,) if host_network else ())


def test_daemon_set_runs_on_the_nodes_of_its_pods() -> None:
    """Where its Pods are in the input, it counts only on the nodes of those that run."""
    daemon_set = a_proxy_daemon_set(AGENT, "kube-system", ready=1)
    assert set(names_of(detected(read(daemon_set))).values()) == {"cilium-1.18"}
    running, pending = (a_proxy_pod(AGENT, "kube-system", node) for node in ("n1", "n2"))
    pending["status"] = {"phase": "Pending"}
    for pod in (running, pending):
        pod["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "agent"}]
    snapshot = read(daemon_set, running, pending)
    proxies = detected(snapshot)
    assert sorted(names_of(detected(anonymized(snapshot))).values()) == ["cilium-1.18", "kube-proxy-1.33"]
    assert names_of(proxies) == {"n1": "cilium-1.18", "n2": "kube-proxy-1.33"}
    assert "cannot detect the proxy on node n2; assuming kube-proxy (override with --proxy)" in proxies.notes


def test_cilium_wins_over_kube_proxy_with_a_note() -> None:
    proxies = detected(read(a_proxy_pod(AGENT, "kube-system"), a_proxy_pod(KUBE_PROXY, "kube-system")))
    assert names_of(proxies)["n1"] == "cilium-1.18"
    assert (
        "two proxies on node n1: cilium (kube-system) and kube-proxy (kube-system); "
        "assuming cilium (override with --proxy)"
    ) in proxies.notes


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
def test_version_comes_from_the_kubelet_if_the_image_has_none(image: str, expected: str) -> None:
    proxies = detect_node_proxies([NODE], daemon_sets=[a_daemon_set(image)], pods=(), config_maps=())
    assert names_of(proxies) == {"n1": expected}


WORDS: Final = ("", "kube-proxy", "cilium-agent", "--feature-gates", "--feature-gates=,=,x", "--run-service-proxy=\x00")
TEXT: Final = st.sampled_from((*WORDS, "proxy:v1.")) | st.text(max_size=20)
TEXTS: Final = st.none() | st.tuples(TEXT, TEXT)
CONTAINERS: Final = st.lists(
    st.builds(ProgramContainer, name=TEXT, image=TEXT, command=TEXTS, args=TEXTS), max_size=2
).map(tuple)


@examples(50)
@given(CONTAINERS, CONTAINERS, TEXT, st.dictionaries(st.sampled_from(("config.conf", "enable-service-topology")), TEXT))
def test_unknown_values_do_not_raise(
    daemon: tuple[ProgramContainer, ...], pod: tuple[ProgramContainer, ...], version: str, data: dict[str, str]
) -> None:
    sets = DaemonSet(spec=DaemonSetSpec(template=DaemonPodTemplate(spec=DaemonPodSpec(containers=daemon))))
    pods = ProxyPod(spec=ProxyPodSpec(node_name="n1", containers=pod))
    maps = [ConfigMap(metadata=PlainMeta(name=name), data=data) for name in ("kube-proxy", "cilium-config", "x")]
    proxies = detect_node_proxies([a_node("n1", kubelet=version)], daemon_sets=[sets], pods=[pods], config_maps=maps)
    assert set(proxies.kind_of) == {"n1"}
