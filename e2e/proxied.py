"""A node with a proxy and a client, and Services that nobody changes: connections to them must never fail.

::

    with proxied(folder) as site:            # a separate wire, node and API server
        site.proxy.start()
        with site.opening() as opened:       # 200 connections a second, to each of `TARGETS` in turn
            ...
        assert not opened.failures()
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.api_servers import ApiServer, SandboxServer
from e2e.door import Door
from e2e.nodes import Bed, Namespace, Node
from e2e.proxies import Opening, ZonewardProxy, opening
from tests.builders.objects import a_node, a_service, a_slice
from tests.contract.api import Object

NODE: Final = "node-a"
PODS: Final = ("10.1.0.0/16", "fd00:1::/64")
RATE: Final = 200.0
"""Connections a second."""
_NODE_PORT, _EXTERNAL = 30_080, "203.0.113.9"
STEADY: Final = {
    "plain": ("10.96.0.10", ["10.1.0.1", "10.1.0.2", "10.1.0.3"]),
    "kept": ("10.96.0.11", ["10.1.0.4", "10.1.0.5"]),
    "known": ("10.96.0.12", ["10.1.0.6", "10.1.0.7"]),
    "six": ("fd00:10:96::10", ["fd00:1::1", "fd00:1::2"]),
}
"""By name, the cluster address and the endpoints."""
TARGETS: Final = (*((address, 80) for address, _ in STEADY.values()), ("192.0.2.1", _NODE_PORT), (_EXTERNAL, 80))


@dataclass(frozen=True, slots=True)
class Proxied:
    """``client`` is a Pod on ``node``."""

    bed: Bed
    node: Node
    client: Namespace
    server: ApiServer
    proxy: ZonewardProxy
    folder: Path

    def opening(
        self, targets: Sequence[tuple[str, int]] = TARGETS, *, rate: float = RATE
    ) -> AbstractContextManager[Opening]:
        return opening(self.client, targets, rate=rate, folder=self.folder)


@contextmanager
def proxied(folder: Path, *flags: str, server: ApiServer | None = None) -> Iterator[Proxied]:
    """With the Services of `STEADY`; the proxy is not started. Without a ``server`` a sandbox is."""
    with ExitStack() as cleanup:
        if server is None:
            server = cleanup.enter_context(SandboxServer(folder))
        for object_ in (a_node(NODE, zone="a", address="192.0.2.1"), *steady()):
            server.api.create(object_)
        bed = cleanup.enter_context(Bed())
        node = bed.node(NODE, pods=PODS)
        client = node.pod("10.1.200.1", "fd00:1::c8:1")
        cleanup.enter_context(Door(node.path, server.port))
        proxy = cleanup.enter_context(ZonewardProxy(node, server.kubeconfig, folder, *flags))
        yield Proxied(bed, node, client, server, proxy, folder)


def steady() -> Iterator[Object]:
    """The Services of `STEADY` and their slices."""
    for name, (address, endpoints) in STEADY.items():
        spec: Object = {"clusterIP": address}
        if name == "six":
            spec |= {"ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"}
        elif name == "kept":
            spec["sessionAffinity"] = "ClientIP"
        elif name == "known":
            port = {"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http", "nodePort": _NODE_PORT}
            spec |= {"type": "NodePort", "externalIPs": [_EXTERNAL], "ports": [port]}
        yield a_service(name, **spec)
        yield sliced(f"{name}-1", service=name, addresses=endpoints)


def sliced(name: str, *, service: str, addresses: Sequence[str]) -> Object:
    """Endpoints on the node, of the family of the first one."""
    slice_ = a_slice(name, service=service, addresses=addresses, zone="a", node=NODE)
    return slice_ | {"addressType": "IPv6" if addresses and ":" in addresses[0] else "IPv4"}
