"""Whatever an API server says, the real nft takes what is made of it, and nothing comes of it but our tables.

Needs root and libnftables. Everything is in a network namespace of its own.
"""

import asyncio
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from e2e.nodes import Namespace, kernel_of
from hypothesis import given, settings
from tests.proxy.hostile import DOCUMENT, documents, rulesets

from zoneward.proxy.applying import Refused
from zoneward.proxy.difference import difference
from zoneward.proxy.text import text

_DNS = 53


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    found = Namespace()
    yield found
    found.close()


def load(namespace: Namespace, document: Mapping[str, Any]) -> None:
    """As ``nft -f`` of ``proxy --print`` would, into a kernel that has nothing else."""
    every = [text(replace(difference(None, each), replaces=True)) for each in rulesets(document).values()]
    namespace.run("nft", "-f", "-", text="".join(every))
    assert namespace.run("nft", "list", "tables").splitlines() == ["table ip zoneward", "table ip6 zoneward"]


@settings(max_examples=40, derandomize=True, deadline=None)
@given(document=documents())
def test_nft_takes_what_is_made_of_any_cluster_and_makes_no_table_but_ours(
    namespace: Namespace, document: Mapping[str, Any]
) -> None:
    load(namespace, document)


def test_a_cluster_without_hostile_texts_is_taken(namespace: Namespace) -> None:
    load(namespace, DOCUMENT)


def _name_servers() -> set[str]:
    lines = [each.split() for each in Path("/etc/resolv.conf").read_text().splitlines()]
    return {each[1] for each in lines if each[:1] == ["nameserver"] and ":" not in each[1]} or {"127.0.0.1"}


def test_a_word_in_the_place_of_an_address_is_refused_and_no_name_server_is_asked() -> None:
    """One that does not answer would hold up every transaction."""
    with ExitStack() as stack:
        here = Namespace()
        stack.callback(here.close)
        servers = _name_servers()
        here.ip(*(f"addr add {each}/32 dev lo" for each in servers if not each.startswith("127.")))
        sockets = [here.call(_listening, each) for each in servers]
        for each in sockets:
            stack.enter_context(each)

        async def run() -> None:
            async with kernel_of(here) as kernel:
                for word in ("garbage", "a.name.that.nobody.has.example"):
                    with pytest.raises(Refused):
                        await kernel.run(f"add table ip t\nadd chain ip t c\nadd rule ip t c ip daddr {word} drop\n")
                await kernel.run("add table ip t\n")

        asyncio.run(run())
        for each in sockets:
            with pytest.raises(BlockingIOError):
                each.recv(512)


def _listening(address: str) -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.setblocking(False)
    found.bind((address, _DNS))
    return found


def test_commands_with_a_zero_byte_are_not_done_in_part(namespace: Namespace) -> None:
    async def run() -> None:
        async with kernel_of(namespace) as kernel:
            with pytest.raises(Refused, match="zero byte"):
                await kernel.run("add table ip half\n\0add table ip other\n")

    asyncio.run(run())
    with pytest.raises(subprocess.CalledProcessError):
        namespace.run("nft", "list", "table", "ip", "half")
