"""Names alone, page by page, as far as they are known in time."""

import asyncio
from collections.abc import Mapping

import pytest
from tests.client.a_server import AServer

from zoneward.client.api_errors import Forbidden, UnexpectedResponse
from zoneward.client.resource_names import list_names
from zoneward.client.resources import NODES, SERVICES


def a_shop() -> AServer:
    server = AServer(page=2)
    for name in ("cart", "catalog", "checkout", "search", "wishlist"):
        server.put("services", name, "shop")
    server.put("services", "api", "payments")
    server.put("nodes", "n1")
    return server


async def test_all_pages_are_read() -> None:
    server = a_shop()
    every = await list_names(server, SERVICES, time_limit=10)
    assert every[0] == ("payments", "api")
    assert every[1:] == [("shop", name) for name in ("cart", "catalog", "checkout", "search", "wishlist")]
    assert await list_names(server, SERVICES, namespace="payments", time_limit=10) == [("payments", "api")]
    assert await list_names(server, NODES, time_limit=10) == [("", "n1")]


async def test_what_came_in_time_counts() -> None:
    class Slow(AServer):
        async def get(self, path: str, query: Mapping[str, str] = {}, *, timeout: float | None = None) -> bytes:
            if "continue" in query:
                await asyncio.Event().wait()
            return await super().get(path, query, timeout=timeout)

    server = Slow(page=2, objects=a_shop().objects)
    assert await list_names(server, SERVICES, namespace="shop", time_limit=0.1) == [
        ("shop", "cart"),
        ("shop", "catalog"),
    ]


async def test_a_refusal_and_nonsense_raise() -> None:
    server = a_shop()
    server.refusals["services"] = 403
    with pytest.raises(Forbidden):
        await list_names(server, SERVICES, time_limit=10)

    class Odd(AServer):
        async def get(self, *_: object, **__: object) -> bytes:
            return b'{"items": 1}'

    with pytest.raises(UnexpectedResponse, match="expected a list of services, got something else"):
        await list_names(Odd(), SERVICES, time_limit=10)
