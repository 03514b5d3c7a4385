"""A real API server accepts the node proxy's manifests, which grant the permissions that it needs and no more."""

import asyncio
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
from e2e.control_plane import ControlPlane, User
from tests.builders.objects import a_bare_node, a_node, a_service, a_slice
from tests.builders.objects import a_lease as lease
from tests.contract.api import Api, ApiError, Object
from tests.deploy.manifests import DEPLOY, NAMESPACES, PROXY_MODES, the
from tests.deploy.test_proxy_rights import Kernel, a_proxy

from zoneward.client.auth.kubeconfig import load_client_config
from zoneward.kube.leases import proxy_lease_name

BESIDE, INSTEAD = PROXY_MODES
NODE = "node-a"
LONG = "n" * 253
"""The longest name of a Node."""
LEASES = "/apis/coordination.k8s.io/v1/namespaces/zoneward-system/leases"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
STRICT = {"dryRun": "All", "fieldValidation": "Strict"}


class Cluster:
    """A cluster with the manifests. ``account`` is the proxy's; ``accounts`` are those with a Pod's token, by node."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.api = plane, plane.api()
        for folder in (NAMESPACES, BESIDE):
            plane.kubectl("apply", "--kustomize", str(DEPLOY / folder), "--validate=strict")
        self.account = self._account()
        self.api.create_all([a_node(NODE, zone="a"), a_bare_node(LONG)])
        self.accounts = {node: self._account(self._pod(node)) for node in (NODE, LONG)}

    def as_proxy(self, node: str) -> Api:
        return self.plane.api(self.accounts[node])

    def _pod(self, node: str) -> Object:
        """Create a Pod of the DaemonSet on ``node``, to which tokens can be bound."""
        pod = a_pod(BESIDE, "zoneward-proxy")
        pod["metadata"]["name"] = f"proxy-on-{'a' if node == NODE else 'long'}"
        pod["spec"]["nodeName"] = node
        made: Object = self.api.request("POST", "/api/v1/namespaces/zoneward-proxy/pods", pod)
        return made

    def _account(self, pod: Object | None = None) -> User:
        metadata = the("ServiceAccount", BESIDE)["metadata"]
        return self.plane.service_account(metadata["name"], namespace=metadata["namespace"], pod=pod)

    def events(self) -> list[Object]:
        events = self.api.get(EVENTS)["items"]
        return [event for event in events if event["reason"] == "ServiceNotProgrammed"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ControlPlane() as plane:
        yield Cluster(plane)


def a_pod(mode: str, namespace: str) -> Object:
    template = deepcopy(the("DaemonSet", mode)["spec"]["template"])
    metadata = template["metadata"] | {"name": "proxy-0", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"], "metadata": metadata}


@pytest.mark.parametrize("mode", PROXY_MODES, ids=("beside", "instead"))
def test_server_accepts_every_manifest_and_a_pod_of_the_daemon_set(cluster: Cluster, mode: str) -> None:
    cluster.plane.kubectl("apply", "--kustomize", str(DEPLOY / mode), "--validate=strict", "--dry-run=server")
    cluster.api.request("POST", "/api/v1/namespaces/zoneward-proxy/pods", a_pod(mode, "zoneward-proxy"), query=STRICT)
    # The controller's namespace rejects Pods on the host's network.
    path = "/api/v1/namespaces/zoneward-system/pods"
    with pytest.raises(ApiError, match="violates PodSecurity"):
        cluster.api.request("POST", path, a_pod(mode, "zoneward-system"), query=STRICT)


def denied(api: Api, path: str, object_: Object, message: str) -> bool:
    """Whether an admission policy rejects the object with this message."""
    try:
        api.request("POST", path, object_, query={"dryRun": "All"})
    except ApiError as error:
        return "ValidatingAdmissionPolicy" in str(error) and message in str(error)
    return False


def a_lease(name: str, holder: str | None) -> Object:
    return lease(name, namespace="zoneward-system") | {"spec": {} if holder is None else {"holderIdentity": holder}}


def test_proxy_writes_only_the_leases_of_its_own_node(cluster: Cluster) -> None:
    as_proxy, own = cluster.as_proxy(NODE), "own node only: zoneward-proxy-node-a"
    is_denied = partial(denied, as_proxy, LEASES)

    # A policy takes effect a moment after it is created.
    controllers = a_lease("zoneward-controller", NODE)
    cluster.plane.wait_until(lambda: is_denied(controllers, own), what="the policy")
    for name in (
        proxy_lease_name("node-b"),
        proxy_lease_name("node-b", "zoneward"),
        "zoneward-proxy-node",
        "node-a",
        "x",
    ):
        assert is_denied(a_lease(name, NODE), own)
    assert is_denied(a_lease(proxy_lease_name("node-b"), "node-b"), own)
    for holder in ("node-b", "", None):
        assert is_denied(a_lease(proxy_lease_name(NODE), holder), "held by its own node only: node-a")
    # A node's name may end like the hash in the name of a second proxy's Lease.
    other = f"{NODE}-0123456789abcdef"
    for name in (proxy_lease_name(other), proxy_lease_name(other, "zoneward")):
        assert is_denied(a_lease(name, NODE), own)
    lease = cluster.api.request("POST", LEASES, a_lease(proxy_lease_name(other), other))
    taken = lease | {"spec": {"holderIdentity": NODE}}
    with pytest.raises(ApiError, match=own):
        as_proxy.request("PUT", f"{LEASES}/{proxy_lease_name(other)}", taken)
    # A token that is not bound to a Pod belongs to no node.
    unbound = cluster.plane.api(cluster.account)
    assert denied(unbound, LEASES, a_lease(proxy_lease_name(NODE), NODE), "needs a token that is bound to its Pod")
    for node in (NODE, LONG):
        api = cluster.as_proxy(node)
        for name in (proxy_lease_name(node), proxy_lease_name(node, "zoneward")):
            made = api.request("POST", LEASES, a_lease(name, node))
            api.request("PUT", f"{LEASES}/{name}", made)
    assert is_denied(a_lease(proxy_lease_name(LONG), LONG), own)
    # The policy does not apply to other users.
    made = cluster.api.request("POST", LEASES, controllers)
    cluster.api.request("PUT", f"{LEASES}/zoneward-controller", made)


def an_event(**fields: Any) -> Object:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "cart.1", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "zoneward.dev/node-proxy",
        "reportingInstance": NODE,
        "action": "Program",
        "reason": "ServiceNotProgrammed",
        "regarding": {"apiVersion": "v1", "kind": "Service", "namespace": "default", "name": "cart"},
        "note": "x",
        "type": "Warning",
    } | fields


def test_proxy_records_events_only_in_its_own_name(cluster: Cluster) -> None:
    as_proxy = cluster.as_proxy(NODE)
    is_denied = partial(denied, as_proxy, EVENTS)
    own = "records Events as zoneward.dev/node-proxy for its own node only: node-a"
    cluster.plane.wait_until(lambda: is_denied(an_event(reportingController="kubelet"), own), what="the policy")
    assert is_denied(an_event(reportingInstance="node-b"), own)
    pod = {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "cart"}
    assert is_denied(an_event(regarding=pod), "about Services, EndpointSlices and its own Node only")
    nodes = [{"apiVersion": "v1", "kind": "Node", "name": name, "namespace": "default"} for name in (NODE, "node-b")]
    assert is_denied(an_event(regarding=nodes[1]), "about Services, EndpointSlices and its own Node only")
    assert is_denied(an_event(reason="NodeNotReady"), "only for the reasons that it has")
    unbound = cluster.plane.api(cluster.account)
    assert denied(unbound, EVENTS, an_event(), "needs a token that is bound to its Pod")
    for regarding in (an_event()["regarding"], nodes[0]):
        as_proxy.request("POST", EVENTS, an_event(regarding=regarding), query={"dryRun": "All"})
    # The policy does not apply to other users.
    cluster.api.request("POST", EVENTS, an_event(reportingController="kubelet"), query={"dryRun": "All"})


async def test_permissions_are_enough_to_watch_record_events_and_write_leases(cluster: Cluster) -> None:
    service = a_service("refused")
    cluster.api.create_all([service, a_service("cart"), a_slice("cart-1", service="cart", addresses=["10.1.0.1"])])
    address = cluster.api.read(service)["spec"]["clusterIP"]
    access = load_client_config(
        kubeconfig=str(cluster.plane.kubeconfig(cluster.accounts[NODE])), context=None, impersonate=None, environment={}
    )

    kernel, stop = Kernel(), asyncio.Event()
    kernel.faults.refused_words.add(address)
    proxy: Any = a_proxy(access, kernel, lease_namespace="zoneward-system")
    running = asyncio.create_task(proxy.run(stop))
    await until(lambda: bool(cluster.events()), running)
    await until(lambda: proxy_lease_name(NODE) in str(cluster.api.get(LEASES)["items"]), running)
    stop.set()
    await running
    (event,) = cluster.events()
    assert event["regarding"]["name"] == "refused"
    assert event["reportingController"] == "zoneward.dev/node-proxy"
    assert address in event["note"]


async def until(met: Callable[[], bool], running: "asyncio.Task[object]") -> None:
    while not await asyncio.to_thread(met):
        assert not running.done(), running.exception()
        await asyncio.sleep(0.05)
