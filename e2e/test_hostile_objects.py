"""A user who may write in one namespace cannot stop other Services from being planned, written and served."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from e2e.api_servers import PlaneServer
from e2e.control_plane import ControlPlane
from e2e.controllers import ZonewardController, decisions
from e2e.pods import LABELS, Shop
from e2e.proxied import proxied
from e2e.watching import Watching
from tests.builders.objects import a_namespace, a_node, a_pod, a_service, a_slice
from tests.contract.api import STRATEGIC_PATCH, Object

from zoneward.kube.names import MANAGED_BY_LABEL, MANAGER, SERVICE_NAME_LABEL

TENANT: Final = "tenant"
DEEP: Final = "@deep@"
MAY: Final = [
    {"apiGroups": [""], "resources": ["services", "pods", "pods/status"], "verbs": ["*"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["*"]},
]
SERVICES: Final = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"


def nested(levels: int) -> str:
    return '{"f:a":' * levels + "{}" + "}" * levels


def hostile(index: int) -> Iterator[tuple[str, Object]]:
    """Paths and objects that an API server accepts."""
    fields = [{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": DEEP}]
    app = f"bad-{index}"
    service = a_service(app, namespace=TENANT, selector={"app": app})
    service["metadata"]["annotations"] = {"zoneward.dev/selector": "[" * 2_000, "a": "\x00\x1b[31m\n"}
    service["spec"] |= {"ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"}
    pod = a_pod(app, namespace=TENANT, node="node-a", ips=["fd00::0:1"], labels={"app": app})
    slice_ = a_slice(f"{app}-by-hand", service=app, addresses=["10.7.0.1"], namespace=TENANT)
    slice_["endpoints"][0]["zone"] = "my zone\n\x1b[31m"
    slice_["ports"] = [{"name": name, "port": port, "protocol": "TCP"} for name, port in (("a", 70_000), ("b", -5))]
    for path, object_ in (
        ("/api/v1/namespaces/tenant/services", service),
        ("/api/v1/namespaces/tenant/pods", pod),
        ("/apis/discovery.k8s.io/v1/namespaces/tenant/endpointslices", slice_),
    ):
        object_["metadata"]["managedFields"] = [field | {"apiVersion": object_["apiVersion"]} for field in fields]
        yield path, object_


def attack(plane: ControlPlane, index: int, *, levels: int = 1_200) -> None:
    """Create the objects as the tenant, who may write only in that namespace."""
    api = plane.api(TENANT)
    for path, object_ in hostile(index):
        body = json.dumps(object_).replace(f'"{DEEP}"', nested(levels)).encode()
        answer = api.send("POST", path, body)
        assert answer.code == 201, answer.object
        assert b'{"f:a":' * 100 in answer.body
    # A loopback address, beside the spelling that no slice may have.
    pod = a_pod(f"bad-{index}", namespace=TENANT, node="node-a", ips=["fd00::0:1"])
    status = {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}, {"ip": "FD00::0:1"}]}
    body = json.dumps({"status": pod["status"] | status}).encode()
    path = f"/api/v1/namespaces/{TENANT}/pods/bad-{index}/status"
    assert api.send("PATCH", path, body, content_type=STRATEGIC_PATCH).code == 200


@contextmanager
def attacked() -> Iterator[ControlPlane]:
    """A control plane with the tenant."""
    with ControlPlane(users=(TENANT,)) as plane:
        plane.api().create(a_namespace(TENANT))
        plane.allow(TENANT, MAY, until="/api/v1/pods")
        yield plane


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with attacked() as plane:
        api = plane.api()
        api.create_all([a_namespace("shop"), a_node("node-a", zone="a", address="192.0.2.1"), cart(1)])
        api.create(a_service("cart", namespace="shop", selector=LABELS))
        attack(plane, 1)
        attack(plane, 2, levels=9_000)
        yield plane


def cart(index: int) -> Object:
    return a_pod(f"cart-{index}", namespace="shop", node="node-a", ips=[f"10.1.0.{index}"], labels=LABELS)


def test_commands_show_all_services(plane: ControlPlane, tmp_path: Path) -> None:
    planned = {(decision["namespace"], decision["service"]) for decision in decisions(plane, "-A")}
    assert {("shop", "cart"), (TENANT, "bad-1"), (TENANT, "bad-2")} <= planned
    file = tmp_path / "snapshot.yaml"
    file.write_text(plane.zoneward("snapshot", "-A").stdout)
    printed = tmp_path / "printed.yaml"
    printed.write_text(plane.kubectl("get", "services,nodes,pods,endpointslices", "-A", "-o", "yaml"))
    for source in (file, printed):
        again = json.loads(plane.zoneward("plan", "-A", "-o", "json", "-f", str(source)).stdout)["decisions"]
        assert {(source["namespace"], source["service"]) for source in again} == planned


def test_watch_continues(plane: ControlPlane, tmp_path: Path) -> None:
    with Watching(plane, tmp_path, "-A") as watch:
        known = len(watch.lines)
        attack(plane, 3)
        plane.api().create(cart(2))
        watch.wait_for(lambda: {line["decision"]["service"] for line in watch.lines[known:]} >= {"bad-3", "cart"})


def test_controller_continues(plane: ControlPlane) -> None:
    api = plane.api()
    with ZonewardController(plane) as controller:
        attack(plane, 4)
        api.create(cart(3))
        plane.wait_until(lambda: {"10.1.0.1", "10.1.0.3"} <= Shop(api, "shop").ready(), what="slices of a new pod")
        # The tenant's own Service has what may be listed of its Pod.
        path = SERVICES.replace("shop", TENANT)
        query = {"labelSelector": f"{MANAGED_BY_LABEL}={MANAGER},{SERVICE_NAME_LABEL}=bad-4"}
        plane.wait_until(
            lambda: b'"addresses":["fd00::1"]' in api.send("GET", path, query=query).body,
            what="slices of the tenant's Service",
        )
        controller.process.check()
        assert controller.is_ready
        assert controller.metric("zoneward_controller_watch_troubles_total") == 0
        assert not [line for line in controller.lines if "mistake" in line["event"]]


def test_proxy_continues(tmp_path: Path) -> None:
    with attacked() as plane, proxied(tmp_path, server=PlaneServer(plane)) as site:
        attack(plane, 1)
        site.proxy.start()
        known = site.proxy.metric("zoneward_proxy_services")
        with site.opening() as opened:
            attack(plane, 2, levels=9_000)
            plane.api().create(a_service("last", namespace=TENANT))
            site.proxy.wait_until(
                lambda: site.proxy.metric("zoneward_proxy_services") == known + 2, what="the Services"
            )
        assert not opened.failures()
        assert site.proxy.runs
        assert site.proxy.metric("zoneward_proxy_watch_troubles_total") == 0
        assert not [line for line in site.proxy.lines if "mistake" in line["event"]]
