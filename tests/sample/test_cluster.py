"""The sample cluster shows what its header promises, and is what its maker makes."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from importlib.resources import as_file
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml

from zoneward import sample

Document = dict[str, Any]
MAKER = Path(__file__).parents[2] / "examples" / "sample" / "make.py"
MODE = "service.kubernetes.io/topology-mode"
OLD_MODE = "service.kubernetes.io/topology-aware-hints"
ZONE = "topology.kubernetes.io/zone"
A, B, C = "eu-central-1a", "eu-central-1b", "eu-central-1c"


@cache
def documents(kind: str) -> dict[str, Document]:
    """Documents of a kind by ``namespace/name``, or by name where they have no namespace."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = {}
    for document in _all_documents(loader):
        if document["kind"] == kind:
            meta = document["metadata"]
            key = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
            assert key not in found, f"{kind} {key} is there twice"
            found[key] = document
    return found


@cache
def _all_documents(loader: Any) -> list[Document]:
    return list(yaml.load_all(sample.cluster().read_bytes(), Loader=loader))


def service(key: str) -> Document:
    return documents("Service")[key]


def pods(key: str) -> list[Document]:
    """Pods that the selector of a Service matches, whatever their state."""
    selector = service(key)["spec"].get("selector")
    namespace = key.split("/")[0]
    return [
        pod
        for pod in documents("Pod").values()
        if selector
        and pod["metadata"]["namespace"] == namespace
        and selector.items() <= pod["metadata"]["labels"].items()
    ]


def condition(document: Document, kind: str) -> str:
    return next((each["status"] for each in document["status"]["conditions"] if each["type"] == kind), "")


def is_terminating(pod: Document) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_endpoint(pod: Document) -> bool:
    return pod["status"]["phase"] == "Running" and "podIP" in pod["status"]


def zone(pod: Document) -> str:
    return str(documents("Node")[pod["spec"]["nodeName"]]["metadata"]["labels"][ZONE])


def located(key: str) -> tuple[int, int, int]:
    """Ready endpoints of a Service in zones a, b and c."""
    ready = [
        pod for pod in pods(key) if is_endpoint(pod) and condition(pod, "Ready") == "True" and not is_terminating(pod)
    ]
    counts = Counter(zone(pod) for pod in ready)
    return counts[A], counts[B], counts[C]


def annotation(key: str) -> str | None:
    value = service(key)["metadata"].get("annotations", {}).get(MODE)
    return None if value is None else str(value)


def spec(key: str, field: str) -> Any:
    return service(key)["spec"].get(field)


def ready_workers() -> list[Document]:
    return [
        node
        for node in documents("Node").values()
        if "node-role.kubernetes.io/control-plane" not in node["metadata"]["labels"]
        and condition(node, "Ready") == "True"
    ]


def test_the_committed_file_is_what_the_maker_prints() -> None:
    made = subprocess.run([sys.executable, MAKER], check=True, capture_output=True)
    assert made.stdout == sample.cluster().read_bytes(), f"run: python {MAKER} > src/zoneward/sample/cluster.yaml"


def test_the_file_has_a_path_on_disk() -> None:
    with as_file(sample.cluster()) as path:
        assert path.read_bytes() == sample.cluster().read_bytes()


@pytest.mark.parametrize(
    ("kind", "count"),
    [("Namespace", 3), ("Node", 24), ("Service", 16), ("EndpointSlice", 1), ("Pod", 408)],
)
def test_the_cluster_has_so_many(kind: str, count: int) -> None:
    assert len(documents(kind)) == count


def test_no_other_kind_is_there() -> None:
    kinds = {document["kind"] for document in _all_documents(getattr(yaml, "CSafeLoader", yaml.SafeLoader))}
    assert kinds == {"Namespace", "Node", "Service", "EndpointSlice", "Pod"}


LOCATED = {
    "shop/frontend": (5, 4, 3),
    "shop/catalog": (90, 88, 66),
    "shop/search": (7, 2, 1),
    "shop/recommendations": (10, 8, 7),
    "shop/reviews": (2, 0, 3),
    "shop/images": (3, 0, 3),
    "shop/cart": (1, 10, 9),
    "shop/checkout": (1, 1, 0),
    "shop/inventory": (5, 4, 3),
    "shop/wishlist": (0, 1, 0),
    "shop/mail": (0, 0, 0),
    "payments/api": (6, 5, 4),
    "payments/ledger": (1, 1, 1),
    "payments/bank-gateway": (0, 0, 0),
    "kube-system/kube-dns": (7, 6, 5),
    "kube-system/log-agent": (9, 8, 6),
}


@pytest.mark.parametrize(("key", "expected"), LOCATED.items())
def test_a_service_has_so_many_ready_endpoints_per_zone(key: str, expected: tuple[int, int, int]) -> None:
    assert located(key) == expected


def test_the_table_of_endpoints_names_every_service() -> None:
    assert set(LOCATED) == set(documents("Service"))


PROMISES: dict[str, Callable[[], bool]] = {
    "topology-mode Auto": lambda: annotation("shop/catalog") == "Auto",
    "topology-mode ProportionalZoneCPU": lambda: annotation("shop/recommendations") == "ProportionalZoneCPU",
    "topology-mode PreferZone": lambda: annotation("shop/reviews") == "PreferZone",
    "topology-mode Disabled": lambda: annotation("payments/ledger") == "Disabled",
    "topology-mode with a value that nobody knows": lambda: annotation("shop/wishlist") == "auto-zone",
    "the old annotation": lambda: service("payments/api")["metadata"]["annotations"] == {OLD_MODE: "auto"},
    "PreferClose": lambda: spec("shop/images", "trafficDistribution") == "PreferClose",
    "PreferSameZone": lambda: spec("shop/cart", "trafficDistribution") == "PreferSameZone",
    "PreferSameNode": lambda: spec("kube-system/kube-dns", "trafficDistribution") == "PreferSameNode",
    "no setting": lambda: (
        "annotations" not in service("shop/inventory")["metadata"]
        and spec("shop/inventory", "trafficDistribution") is None
    ),
    "annotation and trafficDistribution together": lambda: (
        annotation("shop/search") == "Auto" and spec("shop/search", "trafficDistribution") == "PreferClose"
    ),
    "externalTrafficPolicy Local beside Auto": lambda: (
        spec("shop/frontend", "externalTrafficPolicy") == "Local" and annotation("shop/frontend") == "Auto"
    ),
    "a load balancer as the API server returns it": lambda: (
        spec("shop/frontend", "type") == "LoadBalancer"
        and spec("shop/frontend", "healthCheckNodePort") == 31888
        and all(30000 <= port["nodePort"] < 32768 for port in spec("shop/frontend", "ports"))
        and bool(service("shop/frontend")["status"]["loadBalancer"]["ingress"])
    ),
    "internalTrafficPolicy Local": lambda: spec("kube-system/log-agent", "internalTrafficPolicy") == "Local",
    "dual-stack": lambda: (
        spec("payments/api", "ipFamilies") == ["IPv4", "IPv6"]
        and len(spec("payments/api", "clusterIPs")) == 2
        and all(len(pod["status"]["podIPs"]) == 2 for pod in pods("payments/api"))
    ),
    "headless with a StatefulSet's pods": lambda: (
        spec("payments/ledger", "clusterIP") == "None"
        and all(
            pod["spec"]["hostname"] == pod["metadata"]["name"] and pod["spec"]["subdomain"] == "ledger"
            for pod in pods("payments/ledger")
        )
    ),
    "no selector": lambda: (
        spec("payments/bank-gateway", "selector") is None and spec("payments/bank-gateway", "type") == "ClusterIP"
    ),
    "a hand-written EndpointSlice without hints": lambda: (
        documents("EndpointSlice")["payments/bank-gateway-lines"]["metadata"]["labels"]
        == {
            "endpointslice.kubernetes.io/managed-by": "payments-team.example",
            "kubernetes.io/service-name": "bank-gateway",
        }
        and all(
            "hints" not in endpoint
            for endpoint in documents("EndpointSlice")["payments/bank-gateway-lines"]["endpoints"]
        )
    ),
    "ExternalName": lambda: (
        spec("shop/mail", "type") == "ExternalName" and spec("shop/mail", "externalName") == "smtp.mail.example"
    ),
    "DNS over UDP and TCP with named target ports": lambda: (
        [(port["protocol"], port["port"], port["targetPort"]) for port in spec("kube-system/kube-dns", "ports")[:2]]
        == [("UDP", 53, "dns"), ("TCP", 53, "dns-tcp")]
    ),
    "DNS on most Nodes, one pod each, but not on all": lambda: (
        sum(located("kube-system/kube-dns")) == 18
        and len({pod["spec"]["nodeName"] for pod in pods("kube-system/kube-dns")}) == 19
        and len(ready_workers()) == 22
    ),
    "Auto with too few pods": lambda: annotation("shop/checkout") == "Auto" and sum(located("shop/checkout")) == 2,
    "Auto with 250 pods": lambda: sum(map(is_endpoint, pods("shop/catalog"))) == 250,
    "pods not ready": lambda: any(
        is_endpoint(pod) and not is_terminating(pod) and condition(pod, "Ready") == "False"
        for pod in pods("shop/catalog")
    ),
    "pods that terminate, one still serving and one not": lambda: (
        Counter(condition(pod, "Ready") for pod in pods("shop/catalog") if is_terminating(pod))
        == {"True": 1, "False": 1}
    ),
    "pods on the Node that is not ready": lambda: (
        {condition(pod, "Ready") for pod in pods("shop/catalog") if pod["spec"]["nodeName"] == "worker-c7"} == {"False"}
    ),
    "a finished Job's pod under a Service's label": lambda: (
        sum(pod["status"]["phase"] == "Succeeded" for pod in pods("shop/catalog")) == 1
    ),
    "a pod without Node and address": lambda: (
        ["nodeName" in pod["spec"] or "podIP" in pod["status"] for pod in pods("shop/recommendations")].count(False)
        == 1
    ),
    "one control-plane Node": lambda: (
        [
            "node-role.kubernetes.io/control-plane" in node["metadata"]["labels"] for node in documents("Node").values()
        ].count(True)
        == 1
    ),
    "one worker that is not ready": lambda: condition(documents("Node")["worker-c7"], "Ready") == "Unknown",
}


@pytest.mark.parametrize("promise", PROMISES)
def test_the_cluster_shows(promise: str) -> None:
    assert PROMISES[promise]()


@pytest.mark.parametrize(("name", "share"), [(A, 40), (B, 32), (C, 28)])
def test_a_zone_has_its_share_of_allocatable_cpu(name: str, share: int) -> None:
    milli: Counter[str] = Counter()
    for node in ready_workers():
        milli[node["metadata"]["labels"][ZONE]] += int(node["status"]["allocatable"]["cpu"].removesuffix("m"))
    assert abs(100 * Fraction(milli[name], milli.total()) - share) < Fraction(1, 10)


def test_auto_can_be_enabled_for_the_skewed_service_once_zone_a_gives() -> None:
    """KEP-2433 § Overload: 4, 3 and 3 of 10 pods leave every zone strictly below 20 %; 7, 2 and 1 do not."""
    shares = (Fraction(40, 100), Fraction(32, 100), Fraction(28, 100))
    assert all(share * 10 / count - 1 < Fraction(1, 5) for share, count in zip(shares, (4, 3, 3), strict=True))
    assert max(share * 10 / count - 1 for share, count in zip(shares, located("shop/search"), strict=True)) > 1


def test_every_pod_with_a_node_is_on_a_node_of_the_file_and_in_its_network() -> None:
    for pod in documents("Pod").values():
        if "nodeName" in pod["spec"]:
            networks = [ip_network(cidr) for cidr in documents("Node")[pod["spec"]["nodeName"]]["spec"]["podCIDRs"]]
            addresses = [ip_address(each["ip"]) for each in pod["status"]["podIPs"]]
            assert pod["status"]["podIP"] == str(addresses[0])
            assert all(address in network for address, network in zip(addresses, networks, strict=True))
            assert pod["metadata"]["labels"][ZONE] == zone(pod)


def test_no_address_and_no_uid_is_given_twice() -> None:
    every = [document for kind in ("Node", "Service", "EndpointSlice", "Pod") for document in documents(kind).values()]
    cluster_ips = [
        ip for each in documents("Service").values() for ip in each["spec"].get("clusterIPs", ()) if ip != "None"
    ]
    pod_ips = [each["ip"] for pod in documents("Pod").values() for each in pod["status"].get("podIPs", ())]
    for values in ([each["metadata"]["uid"] for each in every], cluster_ips, pod_ips):
        assert len(values) == len(set(values))


def test_every_service_has_what_an_api_server_fills_in() -> None:
    for key, document in documents("Service").items():
        assert document["metadata"].keys() >= {"uid", "creationTimestamp"}, key
        if document["spec"]["type"] != "ExternalName":
            assert document["spec"].keys() >= {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "ports"}, key
            assert document["spec"]["clusterIP"] == document["spec"]["clusterIPs"][0], key


def test_every_namespace_in_use_is_in_the_file() -> None:
    used = {
        document["metadata"]["namespace"]
        for kind in ("Service", "Pod", "EndpointSlice")
        for document in documents(kind).values()
    }
    assert used == set(documents("Namespace"))
