"""Zoneward's proxy answers health checks of load balancers as a real kube-proxy does: status, headers and body."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import pytest
from e2e.control_plane import ControlPlane
from e2e.kube_proxy import KubeProxy
from e2e.ports import free_port
from tests.builders.objects import a_namespace, a_node, a_service, a_slice

from zoneward.netlink.messages import FAMILIES
from zoneward.proxy.proxy_health import TO_BE_DELETED, ProxyHealth, ServiceHealthServer, serve_health

NODE, NAMESPACE, SERVICE = "node-health", "proxy-health", "cart"
HEALTHZ: Final = 10256
HEADERS: Final = ("Content-Type", "X-Content-Type-Options", "X-Load-Balancing-Endpoint-Weight")
_OPENER: Final = build_opener(ProxyHandler({}))
Answer = tuple[int, dict[str, str], Any]


def ask(port: int, path: str) -> Answer:
    """Status, headers and body; each timestamp is replaced."""
    try:
        answer = _OPENER.open(f"http://127.0.0.1:{port}{path}", timeout=30)
    except HTTPError as error:
        answer = error
    with answer:
        headers = {header: answer.headers.get(header) for header in HEADERS}
        return answer.status, headers, without_times(json.loads(answer.read()))


def without_times(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {field: without_times(member, field) for field, member in value.items()}
    if name in ("lastUpdated", "currentTime"):
        assert datetime.fromisoformat(value).utcoffset() is not None
        return "a time"
    return value


@pytest.fixture(scope="module")
def real(control_plane: ControlPlane) -> Iterator[dict[str, Answer]]:
    """The answers of a kube-proxy, by request."""
    api = control_plane.api()
    api.create_all([a_namespace(NAMESPACE), a_node(NODE)])
    service = a_service(SERVICE, namespace=NAMESPACE, type="LoadBalancer", externalTrafficPolicy="Local")
    port = api.create(service)["spec"]["healthCheckNodePort"]
    here = a_slice("cart-1", service=SERVICE, namespace=NAMESPACE, addresses=["10.1.0.1"], node=NODE)
    api.create(here)
    answers = {}
    # By default it listens only at the node's own address, which this namespace does not have.
    settings = {"nodePortAddresses": ["0.0.0.0/0", "::/0"]}
    try:
        with KubeProxy(control_plane, node=NODE, settings=settings) as proxy:

            def asked(port: int, path: str) -> Answer:
                return proxy.network.call(ask, port, path)

            def says(status: int, port: int, path: str) -> bool:
                with suppress(OSError):
                    return asked(port, path)[0] == status
                return False

            control_plane.wait_until(lambda: says(200, port, "/"), what="an endpoint")
            answers["some"] = asked(port, "/")
            control_plane.wait_until(lambda: len(asked(HEALTHZ, "/healthz")[2]["status"]) == 2, what="both families")
            answers["healthz"], answers["livez"] = asked(HEALTHZ, "/healthz"), asked(HEALTHZ, "/livez")
            api.patch(a_node(NODE), {"spec": {"taints": [{"key": TO_BE_DELETED, "effect": "NoSchedule"}]}})
            control_plane.wait_until(lambda: says(503, HEALTHZ, "/healthz"), what="the taint")
            answers["leaving-healthz"], answers["leaving-livez"] = asked(HEALTHZ, "/healthz"), asked(HEALTHZ, "/livez")
            api.delete(here)
            control_plane.wait_until(lambda: says(503, port, "/"), what="no endpoint")
            answers["none"] = asked(port, "/")
            yield answers
    finally:
        for object_ in (service, a_node(NODE)):
            api.delete(object_)


async def zonewards_answer(what: str) -> Answer:
    health, ports = ProxyHealth(limit=60.0), ServiceHealthServer(hosts=("127.0.0.1",), again=0.05)
    async with serve_health(health, host="127.0.0.1", port=0) as healthz_port:
        for family in FAMILIES:
            health.programmed_at[family] = 0.0
        health.is_eligible = not what.startswith("leaving")
        if what.endswith("z"):
            return await asyncio.to_thread(ask, healthz_port, f"/{what.rpartition('-')[2]}")
        running = asyncio.create_task(ports.run())
        try:
            port = free_port()
            ports.set_service((NAMESPACE, SERVICE), port, 1 if what == "some" else 0)
            while not ports.open_ports:
                await asyncio.sleep(0.01)
            return await asyncio.to_thread(ask, port, "/")
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


@pytest.mark.parametrize(
    ("what", "status"),
    [
        *(("some", 200), ("none", 503), ("healthz", 200), ("livez", 200)),
        *(("leaving-healthz", 503), ("leaving-livez", 200)),
    ],
)
async def test_answer_equals_that_of_kube_proxy(real: dict[str, Answer], what: str, status: int) -> None:
    assert await zonewards_answer(what) == real[what]
    assert real[what][0] == status
