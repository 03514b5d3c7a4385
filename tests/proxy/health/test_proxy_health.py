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


def test_who_has_heard_of_nothing_is_well() -> None:
    assert a_health().is_healthy(1000.0)


def test_what_waits_longer_than_the_limit_makes_unwell_until_it_is_programmed() -> None:
    waiting: dict[Family, float] = {"ip": 100.0}
    health = a_health(waiting=waiting)
    assert health.is_healthy(159.0)
    assert not health.is_healthy(160.0)
    waiting.clear()
    health.mark_programmed(200.0, "ip")
    assert health.is_healthy(1000.0)


def test_one_family_does_not_answer_for_the_other() -> None:
    health = a_health(waiting={"ip": 0.0})
    health.mark_programmed(50.0, "ip6")
    assert not health.is_healthy(60.0)
    assert {family: each.healthy for family, each in health.families(60.0).items()} == {"ip": False, "ip6": True}


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
def test_a_node_that_goes_is_not_sent_to(node: dict[str, Any] | None, eligible: bool) -> None:
    assert is_node_eligible(None if node is None else msgspec.convert(node, Node)) == eligible


# --- what is told -----------------------------------------------------------------------------------------------------


def test_who_is_well_tells_the_present_time_and_of_each_family_its_own() -> None:
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


def test_who_is_not_tells_when_it_last_was() -> None:
    health = a_health(waiting={"ip": 40.0})
    health.mark_programmed(30.0, "ip")
    status, body = told(health, 100.0)
    assert status == 503
    assert body["lastUpdated"] == "2026-03-01T11:58:50.000000Z"
    assert not body["healthy"]


def test_who_never_programmed_anything_has_no_last_time() -> None:
    health = a_health(waiting={"ip": 0.0})
    assert told(health, 100.0)[1]["lastUpdated"] == "0001-01-01T00:00:00Z"


def test_a_node_that_goes_is_nothing_that_a_restart_would_mend() -> None:
    health = a_health(eligible=False)
    status, body = told(health, 0.0)
    assert (status, body["nodeEligible"], body["healthy"]) == (503, False, True)
    status, body = told(health, 0.0, of_node=False)
    assert (status, "nodeEligible" in body) == (200, False)


def test_both_are_served_and_nothing_else() -> None:
    async def ask(session: aiohttp.ClientSession, path: str) -> tuple[int, str, bool]:
        async with session.get(path) as response:
            is_json = response.headers["Content-Type"] == "application/json"
            return response.status, response.headers.get("X-Content-Type-Options", ""), is_json

    async def test() -> None:
        health = a_health(eligible=False)
        server = ProxyHealthServer(health, host="127.0.0.1", port=0)
        async with asyncio.timeout(20), server, aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
            assert await ask(session, "/healthz") == (503, "nosniff", True)
            assert await ask(session, "/livez") == (200, "nosniff", True)
            assert (await ask(session, "/metrics"))[0] == 404
            health.set_node_eligible(True)
            assert await ask(session, "/healthz") == (200, "nosniff", True)

    asyncio.run(test())
