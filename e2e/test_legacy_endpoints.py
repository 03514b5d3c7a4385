"""Zoneward's Endpoints objects equal those of the real endpoints controller for the same Services and Pods."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from e2e.control_plane import ControlPlane
from e2e.pods import LABELS, Shop
from tests.builders.objects import a_namespace, a_node, a_pod, a_service
from tests.contract.api import Api, Object

from zoneward.client.resources import LivePod
from zoneward.controller.handover.endpoints_object import MANAGED_BY_LABEL, updated_endpoints
from zoneward.kube.adoption_marks import SKIP_MIRROR_LABEL
from zoneward.kube.names import TRIGGER_TIME_ANNOTATION
from zoneward.kube.objects import Endpoints, EndpointSubset, ObjectMeta, Service

NAMESPACE = "shop"
MANY = {"app": "many"}
NUMBER = 1050
HTTP = {"name": "http", "port": 80, "targetPort": "http"}
SPECS: dict[str, Object] = {
    "plain": {},
    "number": {"ports": [{"port": 80, "targetPort": 9000}]},
    "same": {"ports": [{"port": 80}]},
    "several": {"ports": [HTTP, {"name": "metrics", "port": 81, "targetPort": "metrics", "appProtocol": "h2c"}]},
    "missing": {"ports": [{"name": "x", "port": 80, "targetPort": "nobody-has-it"}]},
    "headless": {"clusterIP": "None"},
    "portless": {"clusterIP": "None", "ports": []},
    "publishes": {"publishNotReadyAddresses": True},
    "six": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]},
    "nobody": {"selector": {"app": "nobody"}},
    "many": {"selector": MANY},
}


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """Pods of many kinds, and Services that select them."""
    with ControlPlane(controllers=("endpoints-controller",)) as plane:
        api = plane.api()
        api.create_all([a_namespace(NAMESPACE), a_node("node-a")])
        api.create_all(pods())
        for name, spec in SPECS.items():
            service = a_service(name, namespace=NAMESPACE, **({"selector": LABELS} | spec))  # type: ignore[arg-type]
            service["metadata"]["labels"] = {"team": name}
            api.create(service)
        # It stays terminating.
        api.send("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/ending", {"gracePeriodSeconds": 600})
        plane.wait_until(lambda: has_settled(api), what="Endpoints of all Services")
        yield api


def pods() -> Iterator[Object]:
    for index in range(5):
        pod = a_pod(f"cart-{index}", namespace=NAMESPACE, node="node-a", ips=[f"10.1.0.{index}"], labels=LABELS)
        main = pod["spec"]["containers"][0]
        if index == 1:
            pod["spec"] |= {"hostname": "one", "subdomain": "plain"}
            main["ports"].append({"name": "metrics", "containerPort": 9090})
            pod["status"]["podIPs"].append({"ip": "fd00::1"})
        if index == 2:
            main["ports"] = [{"name": "http", "containerPort": 8081}, {"name": "metrics", "containerPort": 9090}]
            pod["status"]["podIPs"].append({"ip": "fd00::2"})
        if index == 3:
            pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        if index == 4:
            pod["status"] |= {"phase": "Succeeded"}
        yield pod
    yield a_pod("ending", namespace=NAMESPACE, node="node-a", ips=["10.1.0.9"], labels=LABELS)
    for index in range(NUMBER):
        address, ready = f"10.2.{index // 250}.{index % 250}", index % 4 != 0
        pod = a_pod(f"many-{index}", namespace=NAMESPACE, node="node-a", ips=[address], labels=MANY, ready=ready)
        if index % 3 == 0:
            pod["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": 8081}]
        yield pod


def built_in(api: Api, name: str) -> Endpoints | None:
    stored = Shop(api, NAMESPACE).endpoints(name)
    return None if stored is None else msgspec.convert(stored, Endpoints)


def zonewards(api: Api, name: str) -> Endpoints:
    shop = Shop(api, NAMESPACE)
    service = msgspec.convert(shop.service(name), Service)
    selector = ",".join(f"{label}={value}" for label, value in (service.spec.selector or {}).items())
    items = shop.items("/api/v1/{}/pods", labelSelector=selector)
    new = updated_endpoints(None, service, msgspec.convert(items, list[LivePod]))
    assert new is not None
    return new


def facts(subsets: tuple[EndpointSubset, ...] | None) -> list[str]:
    """The subsets and their ports in a normalized order."""

    def said(subset: EndpointSubset) -> str:
        subset_object: dict[str, Any] = msgspec.to_builtins(subset)
        # A port without a name is called "", or nothing.
        ports = sorted(
            str(sorted(field for field in port.items() if field[1])) for port in subset_object.get("ports") or ()
        )
        return str((subset_object.get("addresses"), subset_object.get("notReadyAddresses"), ports))

    return sorted(map(said, subsets or ()))


def has_settled(api: Api) -> bool:
    return all(
        (written := built_in(api, name)) is not None and size(written) == size(zonewards(api, name)) for name in SPECS
    )


def size(endpoints: Endpoints) -> tuple[int, int]:
    subsets = endpoints.subsets or ()
    ready = sum(len(subset.addresses or ()) for subset in subsets)
    return ready, sum(len(subset.not_ready_addresses or ()) for subset in subsets)


def about(metadata: ObjectMeta) -> tuple[Object, Object]:
    labels, annotations = dict(metadata.labels or {}), dict(metadata.annotations or {})
    for name in (MANAGED_BY_LABEL, SKIP_MIRROR_LABEL):
        labels.pop(name, None)
    annotations.pop(TRIGGER_TIME_ANNOTATION, None)
    return labels, annotations


@pytest.mark.parametrize("name", [name for name in SPECS if name != "many"])
def test_endpoints_equal_those_of_the_endpoints_controller(api: Api, name: str) -> None:
    expected, new = built_in(api, name), zonewards(api, name)
    assert expected is not None
    assert facts(new.subsets) == facts(expected.subsets)
    assert about(new.metadata) == about(expected.metadata)


def test_over_a_thousand_addresses_are_truncated_to_the_same_number(api: Api) -> None:
    """Only the number is compared: upstream orders subsets by a hash before it rounds."""
    expected, new = built_in(api, "many"), zonewards(api, "many")
    assert expected is not None
    assert len(new.subsets or ()) == len(expected.subsets or ()) == 2
    assert size(new) == size(expected)
    assert sum(size(new)) == 1000
    assert about(new.metadata) == about(expected.metadata)
    # What it wrote is returned unchanged, except the labels.
    ready = {address.ip for subset in new.subsets or () for address in subset.addresses or ()}
    assert ready == {address.ip for subset in expected.subsets or () for address in subset.addresses or ()}
