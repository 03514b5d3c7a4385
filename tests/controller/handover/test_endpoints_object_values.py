"""Endpoints objects, as the built-in controller writes them (pkg/controller/endpoint); beside the real one in e2e."""

import tracemalloc
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from zoneward.client.resources import LivePod
from zoneward.controller.handover.endpoints_object import (
    MANAGED_BY_LABEL,
    MANAGER,
    OVER_CAPACITY_ANNOTATION,
    TRUNCATED,
    has_own_endpoints_object,
    subsets_of,
    updated_endpoints,
)
from zoneward.kube.adoption_marks import ENDPOINTS_ANNOTATION, SELECTOR_ANNOTATION, SKIP_MIRROR_LABEL
from zoneward.kube.names import HEADLESS_LABEL, TRIGGER_TIME_ANNOTATION
from zoneward.kube.objects import Endpoints, EndpointSubset, ObjectMeta, Service

Object = dict[str, Any]
MARKS = {SELECTOR_ANNOTATION: '{"app": "cart"}', ENDPOINTS_ANNOTATION: "keep"}
NOON = "2026-01-01T12:00:00Z"


def a_service(*, annotations: Object | None = None, **spec: Any) -> Service:
    given = {"ports": [{"name": "http", "port": 80, "targetPort": "http"}], "clusterIP": "10.96.0.1"} | spec
    metadata = {"name": "cart", "namespace": "shop", "labels": {"team": "a"}, "annotations": annotations or MARKS}
    return msgspec.convert({"metadata": metadata, "spec": given}, Service)


def a_pod(
    number: int,
    *,
    ready: bool = True,
    ports: tuple[tuple[str, int], ...] = (("http", 8080),),
    ips: tuple[str, ...] | None = None,
    status: Object | None = None,
    metadata: Object | None = None,
    **spec: Any,
) -> LivePod:
    name = f"cart-{number}"
    addresses = (f"10.0.{number // 250}.{number % 250}",) if ips is None else ips
    containers = [{"ports": [{"name": name, "containerPort": port} for name, port in ports]}]
    thing = {
        "metadata": {"name": name, "namespace": "shop", "uid": f"u-{number}"} | (metadata or {}),
        "spec": {"nodeName": "node-a", "containers": containers} | spec,
        "status": {
            "phase": "Running",
            "podIP": addresses[0] if addresses else "",
            "podIPs": [{"ip": ip} for ip in addresses],
            "conditions": [{"type": "Ready", "status": str(ready)}],
        }
        | (status or {}),
    }
    return msgspec.convert(thing, LivePod)


def told(subsets: tuple[EndpointSubset, ...]) -> list[Object]:
    """Addresses that are ready, that are not, and names and numbers of ports."""
    return [
        {
            "ready": [address.ip for address in each.addresses or ()],
            "not ready": [address.ip for address in each.not_ready_addresses or ()],
            "ports": [(port.name, port.port) for port in each.ports or ()],
        }
        for each in subsets
    ]


def test_pods_that_serve_the_same_ports_are_in_one_subset() -> None:
    pods = [a_pod(2), a_pod(10, ready=False), a_pod(1, hostname="one", subdomain="cart")]
    (subset,) = subsets_of(a_service(), pods)
    # Sorted as text.
    assert told((subset,)) == [
        {"ready": ["10.0.0.1", "10.0.0.2"], "not ready": ["10.0.0.10"], "ports": [("http", 8080)]}
    ]
    assert msgspec.to_builtins((subset.addresses or ())[0]) == {
        "ip": "10.0.0.1",
        "hostname": "one",
        "nodeName": "node-a",
        "targetRef": {"kind": "Pod", "namespace": "shop", "name": "cart-1", "uid": "u-1"},
    }


def test_ports_that_different_pods_serve_are_in_subsets_of_their_own() -> None:
    service = a_service(
        ports=[
            {"name": "http", "port": 80, "targetPort": "http"},
            {"name": "metrics", "port": 81, "targetPort": "metrics"},
            {"name": "both", "port": 82, "targetPort": 9000},
        ]
    )
    pods = [a_pod(1), a_pod(2, ports=(("http", 8081), ("metrics", 9090))), a_pod(3, ports=())]
    assert told(subsets_of(service, pods)) == [
        {"ready": ["10.0.0.1", "10.0.0.2", "10.0.0.3"], "not ready": [], "ports": [("both", 9000)]},
        {"ready": ["10.0.0.1"], "not ready": [], "ports": [("http", 8080)]},
        {"ready": ["10.0.0.2"], "not ready": [], "ports": [("http", 8081), ("metrics", 9090)]},
    ]


@pytest.mark.parametrize(
    ("pod", "publishes", "expected"),
    [
        (a_pod(1, status={"phase": "Succeeded"}), True, None),
        (a_pod(1, status={"phase": "Failed"}), True, None),
        (a_pod(1, ips=()), True, None),
        (a_pod(1, metadata={"deletionTimestamp": NOON}), False, None),
        (a_pod(1, metadata={"deletionTimestamp": NOON}), True, "ready"),
        (a_pod(1, ready=False), False, "not ready"),
        (a_pod(1, ready=False), True, "ready"),
        (a_pod(1, ips=("fd00::1",)), False, None),
        (a_pod(1, ips=("fd00::1", "10.0.0.1")), False, "ready"),
    ],
)
def test_which_pods_are_listed_and_where(pod: LivePod, publishes: bool, expected: str | None) -> None:
    service = a_service(publishNotReadyAddresses=publishes, ipFamilies=["IPv4"])
    found = told(subsets_of(service, [pod]))
    assert [key for each in found for key in ("ready", "not ready") if each[key]] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("spec", "ip"),
    [
        ({"ipFamilies": ["IPv6", "IPv4"]}, "fd00::1"),
        ({"ipFamilies": ["IPv4", "IPv6"]}, "10.0.0.1"),
        ({"clusterIP": "fd00:1::1"}, "fd00::1"),
        # The Pod's own first address.
        ({"clusterIP": "None"}, "10.0.0.1"),
    ],
)
def test_addresses_are_of_the_first_family(spec: Object, ip: str) -> None:
    (subset,) = subsets_of(a_service(**spec), [a_pod(1, ips=("10.0.0.1", "fd00::1"))])
    assert [each.ip for each in subset.addresses or ()] == [ip]


@pytest.mark.parametrize(("ip", "listed"), [("None", True), ("10.96.0.1", False)])
def test_only_a_headless_service_does_without_ports(ip: str, listed: bool) -> None:
    found = told(subsets_of(a_service(ports=[], clusterIP=ip), [a_pod(1)]))
    assert found == ([{"ready": ["10.0.0.1"], "not ready": [], "ports": []}] if listed else [])


def test_labels_are_those_of_the_service_and_what_others_wrote_stays() -> None:
    there = Endpoints(
        metadata=ObjectMeta(
            name="cart",
            namespace="shop",
            uid="e-1",
            resource_version="7",
            labels={"old": "label"},
            annotations={"note": "b", TRIGGER_TIME_ANNOTATION: "old"},
            finalizers=("somebody/waits",),
        )
    )
    new = updated_endpoints(there, a_service(), [a_pod(1)], trigger_time=NOON)
    assert new is not None
    labels = {"team": "a", SKIP_MIRROR_LABEL: "true", MANAGED_BY_LABEL: MANAGER}
    annotations = {"note": "b", TRIGGER_TIME_ANNOTATION: NOON}
    assert new.metadata == replace(there.metadata, labels=labels, annotations=annotations)
    headless = updated_endpoints(there, a_service(clusterIP="None"), [a_pod(1)])
    assert headless is not None
    assert headless.metadata.labels == labels | {HEADLESS_LABEL: ""}
    assert headless.metadata.annotations == {"note": "b"}


def test_what_is_as_it_should_be_is_not_written() -> None:
    service, pods = a_service(), [a_pod(number, ready=number % 2 == 0) for number in range(4)]
    there = updated_endpoints(None, service, pods, trigger_time=NOON)
    assert there is not None
    assert updated_endpoints(there, service, reversed(pods)) is None
    # However it is packed.
    (whole,) = there.subsets or ()
    parts = replace(whole, not_ready_addresses=None), replace(whole, addresses=None)
    assert updated_endpoints(replace(there, subsets=parts), service, pods) is None
    assert updated_endpoints(there, service, pods[1:]) is not None
    assert updated_endpoints(there, service, [a_pod(0, ready=False), *pods[1:]]) is not None
    assert updated_endpoints(there, a_service(clusterIP="None"), pods) is None, (
        "the headless label alone is no reason, as upstream"
    )
    unlabelled = replace(there, metadata=replace(there.metadata, labels={"team": "a"}))
    assert updated_endpoints(unlabelled, service, pods) is not None


@pytest.mark.parametrize(
    ("ready", "unready", "expected"),
    [
        (1000, 0, (1000, 0)),
        (900, 100, (900, 100)),
        (900, 300, (900, 100)),
        (1200, 300, (1000, 0)),
        (0, 1500, (0, 1000)),
    ],
)
def test_above_a_thousand_addresses_those_that_are_ready_go_first(
    ready: int, unready: int, expected: tuple[int, int]
) -> None:
    service = a_service()
    # Two subsets: every third Pod serves another port.
    pods = [
        a_pod(number, ready=number < ready, ports=(("http", 8080 + (number % 3 == 0)),))
        for number in range(ready + unready)
    ]
    new = updated_endpoints(None, service, pods)
    assert new is not None
    subsets = new.subsets or ()
    assert len(subsets) == 2
    assert sum(len(each.addresses or ()) for each in subsets) == expected[0]
    assert sum(len(each.not_ready_addresses or ()) for each in subsets) == expected[1]
    is_cut = ready + unready > 1000
    assert ((new.metadata.annotations or {}).get(OVER_CAPACITY_ANNOTATION) == TRUNCATED) == is_cut
    assert updated_endpoints(new, service, pods) is None
    if is_cut:
        fewer = updated_endpoints(new, service, pods[:10])
        assert fewer is not None
        assert fewer.metadata.annotations is None


@pytest.mark.parametrize(
    ("service", "kept"),
    [
        (a_service(), True),
        (a_service(selector={"app": "cart"}), False),
        (a_service(annotations=MARKS | {ENDPOINTS_ANNOTATION: "delete"}), False),
        (a_service(annotations={ENDPOINTS_ANNOTATION: "keep"}), False),
        (a_service(annotations={SELECTOR_ANNOTATION: '{"app": "cart"}'}), False),
    ],
)
def test_whose_are_ours_to_keep(service: Service, kept: bool) -> None:
    assert has_own_endpoints_object(service) == kept


def test_an_object_of_many_addresses_and_ports_is_compared_without_making_every_pair() -> None:
    ports = [{"name": f"p{number}", "port": number} for number in range(1, 1_001)]
    addresses = [{"ip": f"10.{number >> 8}.{number & 255}.1"} for number in range(1_000)]
    subsets = msgspec.convert([{"addresses": addresses, "ports": ports}], tuple[EndpointSubset, ...])
    ours = updated_endpoints(None, a_service(), [a_pod(1)])
    assert ours is not None
    there = replace(ours, subsets=subsets)
    tracemalloc.start()
    try:
        wanted = updated_endpoints(there, a_service(), [a_pod(1)])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert wanted is not None
    assert most < 2**20, "a million pairs take 200 MB"
