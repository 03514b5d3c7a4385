"""Listing the objects of proxies: a missing permission costs a line, and no call outlives it."""

import asyncio

from aiohttp import web
from tests.client.calling import transport
from tests.client.serving import access_to, json_status, served

from zoneward.client.optional_objects import list_proxy_objects


async def test_a_missing_permission_costs_one_line_and_no_call_outlives_it() -> None:
    config_maps: list[str] = []
    go_on = asyncio.Event()

    async def refuse(request: web.BaseRequest) -> web.StreamResponse:
        if "/configmaps/" in request.path:
            config_maps.append(request.path)
            if len(config_maps) == 2:
                await go_on.wait()
        return json_status(403, "Forbidden", "no")

    async with served(refuse) as server, transport(access_to(server.url)) as client:
        proxy_objects = await list_proxy_objects(client)
        calls = [task for task in asyncio.all_tasks() if "_read_config_map" in repr(task)]
        go_on.set()
    assert proxy_objects.unread == (
        "DaemonSets and ConfigMaps of proxies and Pods of proxies cannot be read (no permission)",
    )
    assert len(config_maps) == 2
    assert not calls
