"""The real nft accepts the rules for any objects of an API server, and only Zoneward's tables change.

Needs root and libnftables. Everything runs in separate network namespaces.
"""

import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from e2e.nodes import Namespace, kernel_of
from e2e.processes import fetch
from e2e.proxied import NODE, Proxied, proxied, sliced
from hypothesis import given, settings
from tests.builders.objects import a_node, a_service
from tests.proxy.hostile_objects import documents, rulesets

from zoneward.proxy.kernel.nft_client import KernelRefused
from zoneward.proxy.ruleset.ruleset import diff_rulesets, render_commands

TABLES = ["table ip zoneward", "table ip6 zoneward"]
_DNS = 53


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    namespace = Namespace()
    yield namespace
    namespace.close()


def load(namespace: Namespace, document: Mapping[str, Any]) -> None:
    """Load what ``proxy --print`` prints into an otherwise empty kernel, as ``nft -f`` does."""
    commands = [
        render_commands(replace(diff_rulesets(None, ruleset), replaces_table=True))
        for ruleset in rulesets(document).values()
    ]
    namespace.run("nft", "-f", "-", text="".join(commands))
    assert namespace.run("nft", "list", "tables").splitlines() == TABLES


@settings(max_examples=40, derandomize=True, deadline=None)
@given(document=documents())
def test_nft_accepts_the_rules_of_any_cluster(namespace: Namespace, document: Mapping[str, Any]) -> None:
    load(namespace, document)


def _name_servers() -> set[str]:
    lines = [line.split() for line in Path("/etc/resolv.conf").read_text().splitlines()]
    return {line[1] for line in lines if line[:1] == ["nameserver"] and ":" not in line[1]} or {"127.0.0.1"}


async def test_name_instead_of_an_address_is_refused_without_a_dns_query() -> None:
    """A name server that does not answer would block every transaction."""
    with ExitStack() as stack:
        here = Namespace()
        stack.callback(here.close)
        servers = _name_servers()
        here.ip(*(f"addr add {server}/32 dev lo" for server in servers if not server.startswith("127.")))
        sockets = [here.call(_listening, server) for server in servers]
        for listening in sockets:
            stack.enter_context(listening)

        async with kernel_of(here) as kernel:
            for word in ("garbage", "a.name.that.nobody.has.example"):
                with pytest.raises(KernelRefused):
                    await kernel.run_commands(
                        f"add table ip t\nadd chain ip t c\nadd rule ip t c ip daddr {word} drop\n"
                    )
            await kernel.run_commands("add table ip t\n")
        for listening in sockets:
            with pytest.raises(BlockingIOError):
                listening.recv(512)


def _listening(address: str) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.setblocking(False)
    listening.bind((address, _DNS))
    return listening


async def test_commands_with_a_zero_byte_are_rejected_as_a_whole(namespace: Namespace) -> None:
    async with kernel_of(namespace) as kernel:
        with pytest.raises(KernelRefused, match="zero byte"):
            await kernel.run_commands("add table ip half\n\0add table ip other\n")
    with pytest.raises(subprocess.CalledProcessError):
        namespace.run("nft", "list", "table", "ip", "half")


PLAIN = "10.96.0.10"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Proxied]:
    with proxied(tmp_path) as site:
        yield site


def test_invalid_node_addresses_are_ignored_and_a_services_address_is_not_taken_over(site: Proxied) -> None:
    api, proxy = site.server.api, site.proxy
    api.create(a_service("a-thief", externalIPs=[PLAIN]))
    api.create(sliced("a-thief-1", service="a-thief", addresses=["10.1.0.66"]))
    proxy.start()
    node = api.read(a_node(NODE))
    words = ("192.168.77.1 }\nadd table inet X", "garbage", "192.0.2.1")
    node["status"]["addresses"] = [{"type": "InternalIP", "address": word} for word in words]
    api.replace(node, subresource="status")
    proxy.wait_until(lambda: len(proxy.logged("ignoring an invalid address of the Node")) == 2, what="it")
    # Later changes are programmed, and nothing else is.
    api.create(sliced("plain-2", service="plain", addresses=["10.1.0.9"]))
    proxy.wait_until(lambda: "10.1.0.9" in site.node.run("nft", "list", "map", "ip", "zoneward", "endpoints"), what="9")
    assert site.node.run("nft", "list", "tables").splitlines() == TABLES
    assert "10.1.0.66" not in site.client.tally(PLAIN, 80, times=40)
    assert proxy.metric("zoneward_proxy_contested_services") == 1
    (event,) = proxy.logged("conflict: addresses belong to other Services")
    assert (event["service"], event["taken"]) == ("default/a-thief", f"{PLAIN} of default/plain")

    assert site.node.call(fetch, "http://localhost:10249/proxyMode") == (200, "nftables")
    api.delete(a_service("plain"))
    proxy.wait_until(lambda: not proxy.metric("zoneward_proxy_contested_services"), what="it is handed over")
    proxy.wait_until(lambda: not proxy.metric("zoneward_proxy_waiting_seconds"), what="it is in the kernel")
    assert site.client.tally(PLAIN, 80, times=5) == {"10.1.0.66": 5}
