"""Load balancers and kubelets get the answers of kube-proxy from a node's proxy."""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec
import pytest

from zoneward.kube.objects import Node
from zoneward.netlink.messages import Family
from zoneward.proxy.health.proxy_health import ProxyHealth, ProxyHealthServer, is_node_eligible


def a_health(*, eligible: bool = True, waiting: Mapping[Family, float] | None = None) -> ProxyHealth:
    """``waiting``: since when a change is pending, by family."""
    health = ProxyHealth(limit=60.0, waiting=(waiting or {}).get)
    health.set_node_eligible(eligible)
    return health


# --- the state --------------------------------------------------------------------------------------------------------


def test_a_change_that_waits_too_long_makes_the_proxy_unhealthy_until_it_is_programmed() -> None:
    waiting: dict[Family, float] = {"ip": 100.0}
    health = a_health(waiting=waiting)
    assert health.is_healthy(159.0)
    assert not health.is_healthy(160.0)
    waiting.clear()
    health.mark_programmed(200.0, "ip")
    assert health.is_healthy(1000.0)


# --- the Node ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "eligible"),
    [
        (None, False),
        ({"metadata": {"name": "n"}}, True),
        ({"metadata": {"name": "n"}, "spec": {"taints": None}}, True),
        ({"metadata": {"name": "n", "deletionTimestamp": "2026-03-01T12:00:00Z"}}, False),
        ({"spec": {"taints": [{"key": "other", "effect": "NoSchedule"}]}}, True),
        ({"spec": {"taints": [{"key": "other"}, {"key": "ToBeDeletedByClusterAutoscaler", "value": "1"}]}}, False),
    ],
    ids=["unknown", "plain", "no-taints", "deleted", "other-taint", "to-be-deleted"],
)
def test_a_node_that_is_being_removed_is_not_eligible(node: dict[str, Any] | None, eligible: bool) -> None:
    assert is_node_eligible(None if node is None else msgspec.convert(node, Node)) == eligible


# --- the server -------------------------------------------------------------------------------------------------------


async def test_healthz_and_livez_are_served_and_nothing_else() -> None:
    async def ask(session: aiohttp.ClientSession, path: str) -> tuple[int, str, bool]:
        async with session.get(path) as response:
            is_json = response.headers["Content-Type"] == "application/json"
            return response.status, response.headers.get("X-Content-Type-Options", ""), is_json

    health = a_health(eligible=False)
    server = ProxyHealthServer(health, host="127.0.0.1", port=0)
    async with asyncio.timeout(20), server, aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
        assert await ask(session, "/healthz") == (503, "nosniff", True)
        assert await ask(session, "/livez") == (200, "nosniff", True)
        assert (await ask(session, "/metrics"))[0] == 404
        health.set_node_eligible(True)
        assert await ask(session, "/healthz") == (200, "nosniff", True)
