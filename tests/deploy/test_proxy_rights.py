"""The roles grant what a node's proxy asks an API server for, and nothing else: all of it, as the server sees it."""

import asyncio
from typing import Self, cast

import pytest
from tests.builders.objects import a_node, a_service, a_slice
from tests.client.recording import until
from tests.client.serving import access_to
from tests.deploy.conftest import Asked
from tests.deploy.manifests import PROXY_MODES, granted
from tests.proxy.kernel.fake_kernel import FakeKernel
from tests.sandbox.server.local_client import LocalClient

from zoneward.client.auth.client_config import ClientConfig
from zoneward.daemon.log import SilentLog
from zoneward.kube.leases import proxy_lease_name
from zoneward.proxy import node_lease
from zoneward.proxy.kernel.nft_client import NftClient
from zoneward.proxy.proxy_configuration import ProxyConfiguration
from zoneward.proxy.proxy_program import ProxyProgram
from zoneward.routing.configuration import Configuration
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import Registry
from zoneward.sandbox.server.sandbox_server import SandboxServer

NODE, SHARED, REFUSED = "node-a", "192.0.2.1", "10.96.0.77"


class Kernel(FakeKernel):
    """In place of the process that has one."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


def a_proxy(access: ClientConfig, kernel: Kernel, *, lease_namespace: str = "kube-system") -> ProxyProgram:
    return ProxyProgram(
        access,
        node=NODE,
        configuration=Configuration(),
        settings=ProxyConfiguration(listen="127.0.0.1:0", healthz_listen=None),
        lease_namespace=lease_namespace,
        log=SilentLog(),
        kernel=lambda _told: cast(NftClient, kernel),
    )


def filled_registry() -> Registry:
    registry = new_registry()
    store = LocalClient(registry)
    store.create(registry.kinds["nodes"], "", a_node(NODE, zone="a"))
    # Two want one address, and the kernel refuses the third.
    for name, more in (
        ("cart", {"externalIPs": [SHARED]}),
        ("mail", {"externalIPs": [SHARED]}),
        ("search", {"clusterIP": REFUSED}),
    ):
        store.create(registry.kinds["services"], "default", a_service(name, **more))
    for name, address in (("cart", "10.1.0.1"), ("mail", "10.1.0.2")):
        slice_ = a_slice(f"{name}-1", service=name, addresses=[address])
        store.create(registry.kinds["endpointslices.discovery.k8s.io"], "default", slice_)
    return registry


async def test_every_granted_permission_is_used_and_no_other_is_needed(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_lease, "WRITE_PERIOD", 0.05)
    monkeypatch.setattr(node_lease, "RENEW_INTERVAL", 0.1)
    registry = filled_registry()

    def renewed() -> str:
        lease = registry.find("leases.coordination.k8s.io", "kube-system", proxy_lease_name(NODE))
        return str(lease["spec"]["renewTime"]) if lease is not None else ""

    async def until_renewed() -> None:
        before = renewed()
        await until(lambda: renewed() != before)

    def reported() -> set[tuple[str, str]]:
        result = (record.object() for _, record in registry.store.records(registry.kinds["events"]))
        return {(event["reason"], event["involvedObject"]["name"]) for event in result}

    async with SandboxServer(registry) as server:
        # A server that does not stream lists, then one that does.
        for asked.is_older in (True, False):
            kernel, stop = Kernel(), asyncio.Event()
            kernel.faults.refused_words.add(REFUSED)
            running = asyncio.create_task(a_proxy(access_to(server.address), kernel).run(stop))
            for _ in range(2):
                await until_renewed()
            await until(lambda: len(reported()) == 2)
            stop.set()
            await running
    assert reported() == {("ServiceAddressContested", "mail"), ("ServiceNotProgrammed", "search")}
    for mode in PROXY_MODES:
        assert asked.rights == granted(mode)
