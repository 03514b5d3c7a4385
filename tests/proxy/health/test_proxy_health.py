"""What load balancers and kubelets ask of a node's proxy is answered as kube-proxy would."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import aiohttp
import msgspec
import pytest

from zoneward.kube.objects import Node
from zoneward.netlink.messages import Family
from zoneward.proxy.health.proxy_health import ProxyHealth, ProxyHealthServer, health_document, is_node_eligible

TODAY = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def a_health(*, eligible: bool = True, waiting: Mapping[Family, float] | None = None) -> ProxyHealth:
    """``waiting``: since when something has, in a family."""
    health = ProxyHealth(limit=60.0, waiting=(waiting or {}).get)
    health.set_node_eligible(eligible)
    return health


def told(health: ProxyHealth, now: float, *, of_node: bool = True) -> tuple[int, dict[str, Any]]:
    return health_document(health, now=now, today=TODAY, of_node=of_node)


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


# --- what is told -----------------------------------------------------------------------------------------------------


def test_a_healthy_proxy_reports_the_present_time_and_the_last_update_of_each_family() -> None:
    health = a_health()
    health.mark_programmed(90.0, "ip")
    assert told(health, 100.0) == (
        200,
        {
            "lastUpdated": "2026-03-01T12:00:00.000000Z",
            "currentTime": "2026-03-01T12:00:00.000000Z",
            "nodeEligible": True,
            "healthy": True,
            "status": {"IPv4": {"lastUpdated": "2026-03-01T11:59:50.000000Z", "healthy": True}},
        },
    )


def test_an_unhealthy_proxy_reports_when_it_was_last_healthy() -> None:
    health = a_health(waiting={"ip": 40.0})
    health.mark_programmed(30.0, "ip")
    status, body = told(health, 100.0)
    assert status == 503
    assert body["lastUpdated"] == "2026-03-01T11:58:50.000000Z"
    assert not body["healthy"]


def test_a_proxy_that_never_programmed_anything_has_no_last_update() -> None:
    health = a_health(waiting={"ip": 0.0})
    assert told(health, 100.0)[1]["lastUpdated"] == "0001-01-01T00:00:00Z"


def test_livez_is_independent_of_the_eligibility_of_the_node() -> None:
    health = a_health(eligible=False)
    status, body = told(health, 0.0)
    assert (status, body["nodeEligible"], body["healthy"]) == (503, False, True)
    status, body = told(health, 0.0, of_node=False)
    assert (status, "nodeEligible" in body) == (200, False)


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
