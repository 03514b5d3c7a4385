"""Synthetic clusters are what was asked for, the same each time, and look like real ones."""

from collections import Counter
from functools import cache
from io import BytesIO
from ipaddress import ip_address
from typing import Any

import pytest
from tests.synthetic_cluster import synthetic_cluster

from zoneward.snapshots.snapshot_writer import write_json

Object = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"


@cache
def cluster(*, seed: int = 7, realistic: bool = False) -> dict[str, list[Object]]:
    """Objects by kind of a cluster with 8,000 pods, big enough for shares to show."""
    result: dict[str, list[Object]] = {}
    for object_ in synthetic_cluster(seed=seed, pods=8_000, nodes=300, services=800, realistic=realistic):
        result.setdefault(object_["kind"], []).append(object_)
    return result


def written(**arguments: Any) -> bytes:
    stream = BytesIO()
    write_json(synthetic_cluster(**{"pods": 200, "nodes": 12, "services": 20} | arguments), stream)
    return stream.getvalue()


@pytest.mark.parametrize("realistic", [True, False])
def test_the_same_seed_gives_the_same_bytes(realistic: bool) -> None:
    assert written(seed=3, realistic=realistic) == written(seed=3, realistic=realistic)


@pytest.mark.parametrize(
    ("pods", "nodes", "services", "zones"),
    [(0, 1, 0, 1), (0, 3, 5, 3), (1, 3, 1, 3), (7, 4, 20, 3), (500, 40, 50, 4), (3_000, 3, 2, 3), (1_000, 26, 100, 26)],
)
def test_as_many_objects_come_as_were_asked_for(pods: int, nodes: int, services: int, zones: int) -> None:
    objects = list(synthetic_cluster(seed=1, pods=pods, nodes=nodes, services=services, zones=zones, realistic=False))
    counts = Counter(object_["kind"] for object_ in objects)
    assert (counts["Pod"], counts["Node"], counts["Service"]) == (pods, nodes, services)
    assert len({object_["metadata"]["labels"][ZONE] for object_ in objects if object_["kind"] == "Node"}) == zones


@pytest.mark.parametrize("pods_per_node", [27, 400])
def test_no_name_uid_or_address_is_given_twice(pods_per_node: int) -> None:
    names, uids, addresses = list[tuple[str, ...]](), list[str](), list[str]()
    for object_ in synthetic_cluster(seed=2, pods=20 * pods_per_node, nodes=20, services=30, realistic=False):
        metadata = object_["metadata"]
        names.append((object_["kind"], metadata.get("namespace", ""), metadata["name"]))
        uids += [metadata["uid"]] if "uid" in metadata else []
        if object_["kind"] == "Pod":
            addresses += [item["ip"] for item in object_["status"]["podIPs"]]
        elif object_["kind"] == "Service":
            addresses += [ip for ip in object_["spec"]["clusterIPs"] if ip != "None"]
        elif object_["kind"] == "Node":
            addresses.append(object_["status"]["addresses"][0]["address"])
    for values in (names, uids, addresses):
        assert len(values) == len(set(values))
    assert [str(ip_address(address)) for address in addresses] == addresses
