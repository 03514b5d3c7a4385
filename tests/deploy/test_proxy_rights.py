"""The roles grant what a node's proxy asks an API server for, and nothing else: all of it, as the server sees it."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Self, cast

from tests.builders.objects import a_node, a_service, a_slice
from tests.client.serving import access_to
from tests.deploy.asking import Asked
from tests.deploy.manifests import PROXY_MODES, granted

from zoneward.client.auth.client_config import ClientConfig
from zoneward.daemon.configuration_file import ListenAddress
from zoneward.daemon.log import SilentLog
from zoneward.kube.proxy_lease import proxy_lease_name
from zoneward.proxy import node_lease
from zoneward.proxy.kernel.fake_kernel import FakeKernel
from zoneward.proxy.kernel.nft_client import NftClient
from zoneward.proxy.proxy_configuration import ProxyConfiguration
from zoneward.proxy.proxy_program import ProxyProgram
from zoneward.routing.configuration import Configuration
from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import LocalClient
from zoneward.sandbox.server.sandbox_server import SandboxServer

NODE, SHARED = "node-a", "192.0.2.1"
SERVICES = "services"


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
        settings=ProxyConfiguration(listen=ListenAddress("127.0.0.1", 0), healthz_listen=None),
        lease_namespace=lease_namespace,
        log=SilentLog(),
        kernel=lambda _told: cast(NftClient, kernel),
    )


class Place:
    def __init__(self) -> None:
        self.registry = new_registry()
        store = LocalClient(self.registry)
        store.create(self.registry.kinds["nodes"], "", a_node(NODE, zone="a"))
        for name in ("cart", "mail", "search"):
            # Two want one address, and the kernel refuses the third.
            given = {"externalIPs": [SHARED]} if name != "search" else {"clusterIP": "10.96.0.77"}
            thing: dict[str, Any] = a_service(name)
            thing["spec"] |= given
            store.create(self.registry.kinds[SERVICES], "default", thing)

        slices = self.registry.kinds["endpointslices.discovery.k8s.io"]
        for name, address in (("cart", "10.1.0.1"), ("mail", "10.1.0.2")):
            made = a_slice(f"{name}-1", service=name, addresses=[address])
            store.create(slices, "default", made)

    def lease(self) -> dict[str, Any] | None:
        return self.registry.find("leases.coordination.k8s.io", "kube-system", proxy_lease_name(NODE))

    def renewed(self) -> str:
        found = self.lease()
        assert found is not None
        return str(found["spec"]["renewTime"])

    def is_renewed_since(self, before: str) -> bool:
        return self.renewed() != before

    def told(self) -> set[tuple[str, str]]:
        found = (each.object() for _, each in self.registry.store.records(self.registry.kinds["events"]))
        return {(each["reason"], each["involvedObject"]["name"]) for each in found}


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not met():
            await asyncio.sleep(0.005)


def test_every_right_that_is_granted_is_used_and_no_other_is_asked_for(asked: Asked, monkeypatch: Any) -> None:
    monkeypatch.setattr(node_lease, "WRITE_PERIOD", 0.05)
    monkeypatch.setattr(node_lease, "RENEW_INTERVAL", 0.1)

    async def run() -> None:
        place = Place()
        async with SandboxServer(place.registry) as server:
            # A server that does not stream lists, then one that does.
            for asked.is_older in (True, False):
                kernel, stop = Kernel(), asyncio.Event()
                kernel.faults.refused_words.add("10.96.0.77")
                running = asyncio.create_task(a_proxy(access_to(server.address), kernel).run(stop))
                await until(lambda: place.lease() is not None)
                await until(partial(place.is_renewed_since, place.renewed()))
                await until(lambda: len(place.told()) == 2)
                stop.set()
                await running
        assert place.told() == {("ServiceAddressContested", "mail"), ("ServiceNotProgrammed", "search")}

    asyncio.run(run())
    for mode in PROXY_MODES:
        assert asked.rights == granted(mode)
