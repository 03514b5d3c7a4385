"""The sample cluster shows what its header promises, and is what its maker makes."""

import subprocess
import sys
from functools import cache
from importlib.resources import as_file
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import yaml

from zoneward import sample

Document = dict[str, Any]
MAKER = Path(__file__).parents[2] / "examples" / "sample" / "make.py"
ZONE = "topology.kubernetes.io/zone"
A, B, C = "eu-central-1a", "eu-central-1b", "eu-central-1c"


@cache
def documents(kind: str) -> dict[str, Document]:
    """Documents of a kind by ``namespace/name``, or by name where they have no namespace."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    documents_ = {}
    for document in _all_documents(loader):
        if document["kind"] == kind:
            meta = document["metadata"]
            key = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
            assert key not in documents_, f"{kind} {key} is there twice"
            documents_[key] = document
    return documents_


@cache
def _all_documents(loader: Any) -> list[Document]:
    return list(yaml.load_all(sample.cluster().read_bytes(), Loader=loader))


def service(key: str) -> Document:
    return documents("Service")[key]


def zone(pod: Document) -> str:
    return str(documents("Node")[pod["spec"]["nodeName"]]["metadata"]["labels"][ZONE])


def spec(key: str, field: str) -> Any:
    return service(key)["spec"].get(field)


def test_the_committed_file_is_what_the_maker_prints() -> None:
    made = subprocess.run([sys.executable, MAKER], check=True, capture_output=True)
    assert made.stdout == sample.cluster().read_bytes(), f"run: python {MAKER} > src/zoneward/sample/cluster.yaml"


def test_the_file_makes_no_use_of_aliases() -> None:
    tokens = yaml.scan(sample.cluster().read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    assert not [token for token in tokens if isinstance(token, yaml.AnchorToken | yaml.AliasToken)]


def test_the_file_has_a_path_on_disk() -> None:
    with as_file(sample.cluster()) as path:
        assert path.read_bytes() == sample.cluster().read_bytes()


def test_every_pod_with_a_node_is_on_a_node_of_the_file_and_in_its_network() -> None:
    for pod in documents("Pod").values():
        if "nodeName" in pod["spec"]:
            networks = [ip_network(cidr) for cidr in documents("Node")[pod["spec"]["nodeName"]]["spec"]["podCIDRs"]]
            addresses = [ip_address(pod_ip["ip"]) for pod_ip in pod["status"]["podIPs"]]
            assert pod["status"]["podIP"] == str(addresses[0])
            assert all(address in network for address, network in zip(addresses, networks, strict=True))
            assert pod["metadata"]["labels"][ZONE] == zone(pod)


def test_no_address_and_no_uid_is_given_twice() -> None:
    every = [document for kind in ("Node", "Service", "EndpointSlice", "Pod") for document in documents(kind).values()]
    cluster_ips = [
        ip for service in documents("Service").values() for ip in service["spec"].get("clusterIPs", ()) if ip != "None"
    ]
    pod_ips = [service["ip"] for pod in documents("Pod").values() for service in pod["status"].get("podIPs", ())]
    for values in ([service["metadata"]["uid"] for service in every], cluster_ips, pod_ips):
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
