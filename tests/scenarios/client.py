"""Requests of a scenario to its server, many at a time, without any of Zoneward's own client."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from tests.contract.api import JSON, MERGE_PATCH, STRATEGIC_PATCH, Api, ApiError, Object, collection_of, path_of

_AT_ONCE: Final = 32
_LIMIT: Final = aiohttp.ClientTimeout(total=30)
_NO_LIMIT: Final = aiohttp.ClientTimeout(total=None)


@dataclass(frozen=True, slots=True)
class Client:
    """Every call raises ApiError for any other answer than success."""

    address: str
    session: aiohttp.ClientSession

    async def create(self, *things: Object) -> None:
        """At once, each with the status that it has."""
        await _gathered(self._create(thing) for thing in things)

    async def patch(self, thing: Object, change: Object, *, subresource: str = "") -> Object:
        """Strategic for a status, whose conditions are merged; else a merge patch. ``thing`` names the object."""
        form = STRATEGIC_PATCH if subresource else MERGE_PATCH
        return await self._send("PATCH", path_of(thing, subresource), change, form)

    async def patch_all(self, things: Iterable[Object], change: Object, *, subresource: str = "") -> None:
        await _gathered(self.patch(thing, change, subresource=subresource) for thing in things)

    async def replace(self, thing: Object) -> Object:
        return await self._send("PUT", path_of(thing), thing)

    async def delete(self, *things: Object) -> None:
        """At once: there is no kubelet to wait for."""
        await _gathered(self._send("DELETE", f"{path_of(thing)}?gracePeriodSeconds=0") for thing in things)

    async def items(self, path: str) -> tuple[list[Object], str]:
        """All objects of a collection, and the resourceVersion of the list."""
        found = await self._send("GET", path)
        return found["items"], found["metadata"]["resourceVersion"]

    async def watch(self, path: str, version: str) -> AsyncIterator[Object]:
        """Events from a version on, as long as the server sends any."""
        query = {"watch": "true", "resourceVersion": version}
        async with self.session.get(self.address + path, params=query, timeout=_NO_LIMIT) as answer:
            transport = answer.connection.transport if answer.connection is not None else None
            rest = b""
            try:
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        yield json.loads(line)
            finally:
                if transport is not None:
                    # With TLS a close would wait for the server's.
                    transport.abort()

    async def _create(self, thing: Object) -> None:
        await self._send("POST", collection_of(thing), thing)
        if thing["kind"] in {"Pod", "Node"}:
            await self.patch(thing, {"status": thing["status"]}, subresource="status")

    async def _send(self, method: str, path: str, body: object = None, content_type: str = JSON) -> Object:
        data = None if body is None else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": content_type}
        async with self.session.request(method, self.address + path, data=data, headers=headers) as answer:
            found: Object = await answer.json()
            if answer.status >= 400:
                raise ApiError(f"{method} {path}", answer.status, found)
            return found


@asynccontextmanager
async def client_for(api: Api) -> AsyncIterator[Client]:
    connector = aiohttp.TCPConnector(limit=0, ssl=api._trust if api.address.startswith("https") else False)
    async with aiohttp.ClientSession(headers=api.headers, connector=connector, timeout=_LIMIT) as session:
        yield Client(api.address, session)


async def _gathered(calls: Iterable[Any]) -> None:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(call: Any) -> None:
        async with gate:
            await call

    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(one(call))
