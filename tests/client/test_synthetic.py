"""Synthetic clusters are what was asked for, the same each time, and look like real ones."""

import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from io import BytesIO
from ipaddress import ip_address
from itertools import islice, pairwise
from typing import Any

import pytest

from zoneward.client.synthetic import synthetic_cluster
from zoneward.snapshots.snapshot_writer import write_json

Object = dict[str, Any]
MODE = "service.kubernetes.io/topology-mode"
OLD_MODE = "service.kubernetes.io/topology-aware-hints"
ZONE = "topology.kubernetes.io/zone"


@cache
def cluster(*, seed: int = 7, realistic: bool = False) -> dict[str, list[Object]]:
    """Objects by kind of a cluster with 8,000 pods, big enough for shares to show."""
    found: dict[str, list[Object]] = {}
    for each in synthetic_cluster(seed=seed, pods=8_000, nodes=300, services=800, realistic=realistic):
        found.setdefault(each["kind"], []).append(each)
    return found


def written(**arguments: Any) -> bytes:
    stream = BytesIO()
    write_json(synthetic_cluster(**{"pods": 200, "nodes": 12, "services": 20} | arguments), stream)
    return stream.getvalue()


def condition(document: Object, kind: str) -> str:
    return next((each["status"] for each in document["status"]["conditions"] if each["type"] == kind), "")


def sizes() -> list[int]:
    """Pods of each Service."""
    counts = Counter(pod["metadata"]["labels"]["app.kubernetes.io/name"] for pod in cluster()["Pod"])
    return [counts[service["metadata"]["name"]] for service in cluster()["Service"]]


@pytest.mark.parametrize("realistic", [True, False])
def test_the_same_seed_gives_the_same_bytes(realistic: bool) -> None:
    assert written(seed=3, realistic=realistic) == written(seed=3, realistic=realistic)


@pytest.mark.parametrize("realistic", [True, False])
def test_another_seed_gives_another_cluster(realistic: bool) -> None:
    assert written(seed=3, realistic=realistic) != written(seed=4, realistic=realistic)


@pytest.mark.parametrize(
    ("pods", "nodes", "services", "zones"),
    [(0, 1, 0, 1), (0, 3, 5, 3), (1, 3, 1, 3), (7, 4, 20, 3), (500, 40, 50, 4), (3_000, 3, 2, 3), (1_000, 26, 100, 26)],
)
def test_as_many_objects_come_as_were_asked_for(pods: int, nodes: int, services: int, zones: int) -> None:
    objects = list(synthetic_cluster(seed=1, pods=pods, nodes=nodes, services=services, zones=zones, realistic=False))
    counts = Counter(each["kind"] for each in objects)
    assert (counts["Pod"], counts["Node"], counts["Service"]) == (pods, nodes, services)
    assert len({each["metadata"]["labels"][ZONE] for each in objects if each["kind"] == "Node"}) == zones


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"zones": 0}, "zones: expected 1 to 26, got 0"),
        ({"zones": 27}, "zones: expected 1 to 26, got 27"),
        ({"nodes": 2}, "nodes: expected at least one for each of 3 zones, got 2"),
        ({"services": -1}, "services: expected 0 to 65000, got -1"),
        ({"services": 65_001}, "services: expected 0 to 65000, got 65001"),
        ({"pods": -1}, "pods: expected 0 or more"),
        ({"pods": 5, "services": 0}, "pods: expected 0 or more, and 0 where there are no Services, got 5"),
        ({"nodes": 70_000}, "nodes, pods: expected no more than 10.0.0.0/8 has addresses for, got 70000, 1000"),
    ],
)
def test_numbers_that_make_no_cluster_are_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        synthetic_cluster(seed=1, **arguments)


def test_a_realistic_pod_takes_five_and_a_half_to_six_kilobytes() -> None:
    lengths = [len(json.dumps(pod, separators=(",", ":"))) for pod in cluster(realistic=True)["Pod"]]
    assert min(lengths) > 5_500
    assert max(lengths) < 6_100
    assert 5_700 < sum(lengths) / len(lengths) < 5_900


def test_a_pod_that_is_not_realistic_is_the_same_pod_with_fewer_fields() -> None:
    for kind in ("Node", "Service", "Pod"):
        for lean, rich in zip(cluster()[kind], cluster(realistic=True)[kind], strict=True):
            assert is_part(lean, rich), lean["metadata"]["name"]


def is_part(lean: Any, rich: Any) -> bool:
    if isinstance(lean, dict):
        return lean.keys() <= rich.keys() and all(is_part(value, rich[key]) for key, value in lean.items())
    if isinstance(lean, list):
        return all(any(is_part(each, other) for other in rich) for each in lean)
    return bool(lean == rich)


@pytest.mark.parametrize("realistic", [True, False])
def test_no_two_objects_share_a_part(realistic: bool) -> None:
    def spoil(value: Any) -> None:
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            spoil(part)
        if isinstance(value, dict | list):
            value.clear()

    arguments: dict[str, Any] = {"seed": 5, "pods": 300, "nodes": 9, "services": 60, "realistic": realistic}
    whole = [json.dumps(each) for each in synthetic_cluster(**arguments)]
    spoilt = []
    for each in synthetic_cluster(**arguments):
        spoilt.append(json.dumps(each))
        spoil(each)
    assert spoilt == whole


def test_objects_come_one_at_a_time() -> None:
    """The first of a million pods are there at once, and nobody holds the others."""
    first = islice(synthetic_cluster(seed=1, pods=1_000_000, nodes=8_000, services=1_000, realistic=False), 9_060)
    assert [each["kind"] for each in first][-10:] == ["Pod"] * 10


def test_every_pod_is_on_a_ready_worker_of_the_zone_that_its_label_names() -> None:
    nodes = {node["metadata"]["name"]: node for node in cluster()["Node"]}
    for pod in cluster()["Pod"]:
        node = nodes[pod["spec"]["nodeName"]]
        assert condition(node, "Ready") == "True"
        assert "node-role.kubernetes.io/control-plane" not in node["metadata"]["labels"]
        assert pod["metadata"]["labels"][ZONE] == node["metadata"]["labels"][ZONE]


def test_every_pod_matches_the_selector_of_a_service_in_its_namespace() -> None:
    services = {
        (service["metadata"]["namespace"], service["spec"]["selector"]["app.kubernetes.io/name"])
        for service in cluster()["Service"]
    }
    for pod in cluster()["Pod"]:
        assert (pod["metadata"]["namespace"], pod["metadata"]["labels"]["app.kubernetes.io/name"]) in services


def test_every_service_finds_its_named_port_in_its_pods() -> None:
    assert {port["targetPort"] for service in cluster()["Service"] for port in service["spec"]["ports"]} == {"http"}
    for pod in cluster(realistic=True)["Pod"]:
        assert any(port["name"] == "http" for container in pod["spec"]["containers"] for port in container["ports"])


@pytest.mark.parametrize("pods_per_node", [27, 400])
def test_no_name_uid_or_address_is_given_twice(pods_per_node: int) -> None:
    names, uids, addresses = list[tuple[str, ...]](), list[str](), list[str]()
    for each in synthetic_cluster(seed=2, pods=20 * pods_per_node, nodes=20, services=30, realistic=False):
        metadata = each["metadata"]
        names.append((each["kind"], metadata.get("namespace", ""), metadata["name"]))
        uids += [metadata["uid"]] if "uid" in metadata else []
        if each["kind"] == "Pod":
            addresses += [item["ip"] for item in each["status"]["podIPs"]]
        elif each["kind"] == "Service":
            addresses += [ip for ip in each["spec"]["clusterIPs"] if ip != "None"]
        elif each["kind"] == "Node":
            addresses.append(each["status"]["addresses"][0]["address"])
    for values in (names, uids, addresses):
        assert len(values) == len(set(values))
    assert [str(ip_address(address)) for address in addresses] == addresses


def test_zones_differ_in_cpu() -> None:
    for seed in range(5):
        milli: Counter[str] = Counter()
        for node in synthetic_cluster(seed=seed, pods=0, nodes=60, services=0):
            milli[node["metadata"]["labels"][ZONE]] += int(node["status"]["allocatable"]["cpu"].removesuffix("m"))
        assert all(less != more for less, more in pairwise(sorted(milli.values())))


def test_sizes_of_services_have_a_long_tail() -> None:
    ordered = sorted(sizes())
    assert ordered[0] >= 1
    assert sum(1 <= size <= 20 for size in ordered) / len(ordered) > 0.8
    assert ordered[-1] == pytest.approx(0.02 * 8_000, rel=0.15)


SHARES: dict[str, tuple[float, Callable[[Object], bool]]] = {
    "not ready": (0.03, lambda pod: condition(pod, "Ready") == "False" and "deletionTimestamp" not in pod["metadata"]),
    "terminating": (0.01, lambda pod: "deletionTimestamp" in pod["metadata"]),
}


@pytest.mark.parametrize("state", SHARES)
def test_the_share_of_pods_in_a_state_is_as_promised(state: str) -> None:
    share, has_state = SHARES[state]
    assert sum(map(has_state, cluster()["Pod"])) / 8_000 == pytest.approx(share, rel=0.3)


def test_a_namespace_holds_about_twenty_services() -> None:
    counts = Counter(service["metadata"]["namespace"] for service in cluster()["Service"])
    assert set(counts) == {namespace["metadata"]["name"] for namespace in cluster()["Namespace"]}
    assert set(counts.values()) == {20}


def annotation(service: Object) -> str | None:
    value = service["metadata"].get("annotations", {}).get(MODE)
    return None if value is None else str(value)


def has(field: str, value: str) -> Callable[[Object], bool]:
    return lambda service: service["spec"].get(field) == value


SETTINGS: dict[str, Callable[[Object], bool]] = {
    "none": lambda service: not service["metadata"].get("annotations") and "trafficDistribution" not in service["spec"],
    "Auto": lambda service: annotation(service) == "Auto",
    "Disabled": lambda service: annotation(service) == "Disabled",
    "ProportionalZoneCPU": lambda service: annotation(service) == "ProportionalZoneCPU",
    "PreferZone": lambda service: annotation(service) == "PreferZone",
    "unknown": lambda service: annotation(service) == "enabled",
    "old annotation": lambda service: OLD_MODE in service["metadata"].get("annotations", {}),
    "PreferClose": has("trafficDistribution", "PreferClose"),
    "PreferSameZone": has("trafficDistribution", "PreferSameZone"),
    "PreferSameNode": has("trafficDistribution", "PreferSameNode"),
    "both": lambda service: annotation(service) == "Auto" and "trafficDistribution" in service["spec"],
    "external Local": has("externalTrafficPolicy", "Local"),
    "internal Local": has("internalTrafficPolicy", "Local"),
    "headless": has("clusterIP", "None"),
    "dual-stack": has("ipFamilyPolicy", "PreferDualStack"),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_some_service_has(setting: str) -> None:
    assert any(map(SETTINGS[setting], cluster()["Service"]))


def test_half_of_the_services_have_no_setting() -> None:
    assert 0.4 < sum(map(SETTINGS["none"], cluster()["Service"])) / 800 < 0.6


def test_pods_of_a_headless_service_have_names_of_their_own() -> None:
    headless = {
        service["metadata"]["name"] for service in cluster()["Service"] if service["spec"]["clusterIP"] == "None"
    }
    for pod in cluster()["Pod"]:
        is_of_one = pod["metadata"]["labels"]["app.kubernetes.io/name"] in headless
        assert ("hostname" in pod["spec"] and "subdomain" in pod["spec"]) == is_of_one
