"""Lists only the names of objects."""

import asyncio
from contextlib import suppress
from typing import Any, Final

import msgspec

from zoneward.client.api_errors import UnexpectedResponse
from zoneward.client.resources import ApiResource
from zoneward.client.transport_interface import ReadTransport
from zoneward.kube.json_documents import DECODE_ERRORS, decode_json
from zoneward.kube.objects import ObjectKey

_PAGE: Final = 500


class _Metadata(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""


class _Named(msgspec.Struct, gc=False):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _ListMetadata(msgspec.Struct, gc=False):
    continue_: str | None = msgspec.field(name="continue", default=None)


class _NameList(msgspec.Struct, gc=False):
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)
    items: list[_Named] | None = None


async def list_names(
    transport: ReadTransport, resource: ApiResource[Any], *, namespace: str | None = None, time_limit: float
) -> list[ObjectKey]:
    """Namespaces and names of the objects of one kind that are received within ``time_limit`` seconds.

    Raises CallFailed.
    """
    path, query, keys = resource.path(namespace=namespace), {"limit": str(_PAGE)}, list[ObjectKey]()
    with suppress(TimeoutError):
        async with asyncio.timeout(time_limit):
            while True:
                page = _decode(await transport.get(path, query), resource)
                keys += [(item.metadata.namespace, item.metadata.name) for item in page.items or ()]
                if not page.metadata.continue_:
                    break
                query = query | {"continue": page.metadata.continue_}
    return keys


def _decode(data: bytes, resource: ApiResource[Any]) -> _NameList:
    try:
        return decode_json(data, _NameList)
    except DECODE_ERRORS as error:
        raise UnexpectedResponse(f"expected a list of {resource.plural}, got something else: {error}") from None
