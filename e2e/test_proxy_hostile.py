"""Whatever an API server says, the real nft takes what is made of it, and nothing comes of it but our tables.

Needs root and libnftables. Everything is in a network namespace of its own.
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
from zoneward.proxy.ruleset.difference import diff_rulesets
from zoneward.proxy.ruleset.nft_commands import render_commands

_DNS = 53


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    found = Namespace()
    yield found
    found.close()


def load(namespace: Namespace, document: Mapping[str, Any]) -> None:
    """As ``nft -f`` of ``proxy --print`` would, into a kernel that has nothing else."""
    every = [
        render_commands(replace(diff_rulesets(None, ruleset), replaces_table=True))
        for ruleset in rulesets(document).values()
    ]
    namespace.run("nft", "-f", "-", text="".join(every))
    assert namespace.run("nft", "list", "tables").splitlines() == ["table ip zoneward", "table ip6 zoneward"]


@settings(max_examples=40, derandomize=True, deadline=None)
@given(document=documents())
def test_nft_takes_what_is_made_of_any_cluster_and_makes_no_table_but_ours(
    namespace: Namespace, document: Mapping[str, Any]
) -> None:
    load(namespace, document)


def _name_servers() -> set[str]:
    lines = [line.split() for line in Path("/etc/resolv.conf").read_text().splitlines()]
    return {line[1] for line in lines if line[:1] == ["nameserver"] and ":" not in line[1]} or {"127.0.0.1"}


async def test_a_word_in_the_place_of_an_address_is_refused_and_no_name_server_is_asked() -> None:
    """One that does not answer would hold up every transaction."""
    with ExitStack() as stack:
        here = Namespace()
        stack.callback(here.close)
        servers = _name_servers()
        here.ip(*(f"addr add {server}/32 dev lo" for server in servers if not server.startswith("127.")))
        sockets = [here.call(_listening, server) for server in servers]
        for each in sockets:
            stack.enter_context(each)

        async with kernel_of(here) as kernel:
            for word in ("garbage", "a.name.that.nobody.has.example"):
                with pytest.raises(KernelRefused):
                    await kernel.run_commands(
                        f"add table ip t\nadd chain ip t c\nadd rule ip t c ip daddr {word} drop\n"
                    )
            await kernel.run_commands("add table ip t\n")
        for each in sockets:
            with pytest.raises(BlockingIOError):
                each.recv(512)


def _listening(address: str) -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.setblocking(False)
    found.bind((address, _DNS))
    return found


async def test_commands_with_a_zero_byte_are_not_done_in_part(namespace: Namespace) -> None:
    async with kernel_of(namespace) as kernel:
        with pytest.raises(KernelRefused, match="zero byte"):
            await kernel.run_commands("add table ip half\n\0add table ip other\n")
    with pytest.raises(subprocess.CalledProcessError):
        namespace.run("nft", "list", "table", "ip", "half")


# --- a proxy that runs ------------------------------------------------------------------------------------------------

PLAIN = "10.96.0.10"
OURS = ["table ip zoneward", "table ip6 zoneward"]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Proxied]:
    with proxied(tmp_path) as found:
        yield found


def test_a_nodes_address_becomes_no_rule_and_another_services_address_is_not_taken_over(site: Proxied) -> None:
    api, proxy = site.server.api, site.proxy
    api.create(a_service("a-thief", externalIPs=[PLAIN]))
    api.create(sliced("a-thief-1", service="a-thief", addresses=["10.1.0.66"]))
    proxy.start()
    node = api.read(a_node(NODE))
    words = ("192.168.77.1 }\nadd table inet X", "garbage", "192.0.2.1")
    node["status"]["addresses"] = [{"type": "InternalIP", "address": word} for word in words]
    api.replace(node, subresource="status")
    proxy.wait_until(lambda: len(proxy.told("ignoring an invalid address of the Node")) == 2, what="it")
    # What comes after it is in the kernel too, and nothing else is.
    api.create(sliced("plain-2", service="plain", addresses=["10.1.0.9"]))
    proxy.wait_until(lambda: "10.1.0.9" in site.node.run("nft", "list", "map", "ip", "zoneward", "endpoints"), what="9")
    assert site.node.run("nft", "list", "tables").splitlines() == OURS
    assert "10.1.0.66" not in site.client.tally(PLAIN, 80, times=40)
    assert proxy.metric("zoneward_proxy_contested_services") == 1
    (event,) = proxy.told("conflict: addresses belong to other Services")
    assert (event["service"], event["taken"]) == ("default/a-thief", f"{PLAIN} of default/plain")

    assert site.node.call(fetch, "http://localhost:10249/proxyMode") == (200, "nftables")
    api.delete(a_service("plain"))
    proxy.wait_until(lambda: not proxy.metric("zoneward_proxy_contested_services"), what="it is handed over")
    proxy.wait_until(lambda: not proxy.metric("zoneward_proxy_waiting_seconds"), what="it is in the kernel")
    assert site.client.tally(PLAIN, 80, times=5) == {"10.1.0.66": 5}
