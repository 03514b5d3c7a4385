"""Lists only the names of objects."""

import asyncio
from contextlib import suppress
from typing import Any

import msgspec

from zoneward.client.list_pager import ListScope, list_pages
from zoneward.client.resources import ApiResource, WatchedResource, object_key_of
from zoneward.client.transport_interface import ReadTransport
from zoneward.kube.objects import ObjectKey, PlainMeta


class _Named(msgspec.Struct, frozen=True, gc=False):
    metadata: PlainMeta = PlainMeta()


async def list_names(
    transport: ReadTransport, resource: ApiResource[Any], *, namespace: str | None = None, time_limit: float
) -> list[ObjectKey]:
    """Namespaces and names of the objects of one kind that are received within ``time_limit`` seconds.

    Objects without a name that can be read are skipped. Raises CallFailed.
    """
    struct: Any = _Named
    names: WatchedResource[Any] = WatchedResource.of(
        resource.kind, resource.api, resource.plural, struct, namespaced=resource.namespaced
    )
    keys: list[ObjectKey] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(time_limit):
            async for page in list_pages(transport, names, ListScope(namespace=namespace)):
                if page.is_first:
                    keys.clear()
                keys += map(object_key_of, page.objects)
    return keys
