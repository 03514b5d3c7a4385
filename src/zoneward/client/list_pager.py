"""Lists objects, or only names, in pages, as client-go's ``tools/pager``: at most one page is in memory undecoded."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic

import msgspec

from zoneward.client.api_errors import AnswerTooLarge, Gone, ListTooLarge, UnexpectedResponse
from zoneward.client.list_watch_decoder import UnreadableHandler, UnreadableObject, decode_list_page
from zoneward.client.resources import (
    AnyWatchedResource,
    ApiResource,
    CachedObject,
    ListOf,
    WatchedResource,
    WatchedT,
    object_key_of,
)
from zoneward.client.transport_interface import ReadTransport, all_results
from zoneward.kube.json_documents import DECODE_ERRORS
from zoneward.kube.objects import ObjectKey, PlainMeta

PAGE_SIZE: Final = 500
MAX_LIST_PAGES: Final = 10_000
"""The largest clusters have 150,000 Pods of 6 to 20 kB each: 300 pages, 3 GB. A server whose list never ends must not
fill the memory."""
MAX_LIST_BYTES: Final = 8 << 30
MAX_RESTARTS: Final = 3
"""After this number of restarts because a continue token expired, the list is requested whole, which needs no token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListScope:
    """Which objects of a kind are listed and watched. ``namespace`` None: all; cluster-scoped kinds ignore it.

    Selectors use the API's syntax: ``app=cart``, ``metadata.name=n1``.
    """

    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""

    @property
    def query(self) -> dict[str, str]:
        """The query parameters of the request."""
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {name: selector for name, selector in selectors.items() if selector}


EVERYTHING: Final = ListScope()


@dataclass(frozen=True, slots=True)
class Page(Generic[WatchedT]):
    """One page of a list. All pages of a list show the cluster at the same ``version``.

    A later page with ``is_first`` invalidates the pages before it: the list was restarted.
    """

    objects: tuple[WatchedT, ...]
    version: str
    is_first: bool
    is_last: bool
    unreadable: tuple[UnreadableObject, ...] = ()


async def list_pages(
    transport: ReadTransport,
    resource: WatchedResource[WatchedT],
    options: ListScope = EVERYTHING,
    *,
    size: int = PAGE_SIZE,
) -> AsyncIterator[Page[WatchedT]]:
    """The objects of a kind that ``options`` select, page by page. Raises CallFailed.

    The server lists its latest state, not that of its cache. If a continue token expires (410 Gone), the list is
    restarted: the token that the server offers instead would mix two states of the cluster. A page that is too large is
    requested again with fewer objects.
    """
    path, what = resource.path(namespace=options.namespace), f"expected a list of {resource.plural}"
    token, restarts, page_size = "", 0, size
    tokens, bytes_so_far = set[str](), 0
    while True:
        query = options.query
        is_paged = restarts < MAX_RESTARTS
        if is_paged:
            query["limit"] = str(page_size)
        if token:
            query["continue"] = token
        try:
            data = await transport.get(path, query)
        except Gone:
            if not token:
                raise
            token, restarts = "", restarts + 1
            tokens, bytes_so_far = set(), 0
            continue
        except AnswerTooLarge:
            if page_size == 1 or not is_paged:
                raise
            # Later pages stay below the size that was too large.
            size, page_size = max(1, page_size // 2), max(1, page_size // 8)
            continue
        page, unreadable = _decode_page(data, resource)
        is_first, token = not token, page.metadata.continue_ or ""
        if token in tokens:
            raise ListTooLarge(f"{what} with an end, got the same continue token twice")
        if token:
            tokens.add(token)
        if len(tokens) >= MAX_LIST_PAGES:
            raise ListTooLarge(f"{what} of at most {MAX_LIST_PAGES:,} pages, got more")
        bytes_so_far += len(data)
        if bytes_so_far > MAX_LIST_BYTES:
            raise ListTooLarge(f"{what} of at most {MAX_LIST_BYTES:,} bytes, got more")
        # Free the bytes of the page before its objects are handled.
        del data
        page_size = min(size, 2 * page_size)
        yield Page(page.items or (), page.metadata.resource_version, is_first, not token, unreadable)
        if not token:
            return


async def list_all(
    transport: ReadTransport,
    resource: WatchedResource[WatchedT],
    options: ListScope = EVERYTHING,
    *,
    size: int = PAGE_SIZE,
    on_unreadable: UnreadableHandler | None = None,
) -> tuple[WatchedT, ...]:
    """All objects of a kind, in one state of the cluster. Raises CallFailed.

    ``on_unreadable`` is called with each object that cannot be decoded; without it such an object raises CallFailed.
    """
    listed: list[WatchedT] = []
    unreadable: list[UnreadableObject] = []
    async for page in list_pages(transport, resource, options, size=size):
        if page.is_first:
            listed.clear()
            unreadable.clear()
        listed.extend(page.objects)
        unreadable.extend(page.unreadable)
    for unreadable_object in unreadable:
        if on_unreadable is None:
            raise _cannot_read(unreadable_object)
        on_unreadable(unreadable_object)
    return tuple(listed)


async def list_resources(
    transport: ReadTransport,
    resources: Iterable[AnyWatchedResource],
    options: ListScope = EVERYTHING,
    *,
    on_unreadable: UnreadableHandler | None = None,
) -> tuple[CachedObject, ...]:
    """All objects of several kinds, listed at the same time, in the order of the kinds.

    Raises CallFailed: the first failure; the other lists are cancelled. ``on_unreadable`` as in `list_all`.
    """
    lists = await all_results(
        list_all(transport, resource, options, on_unreadable=on_unreadable) for resource in resources
    )
    return tuple(obj for objects in lists for obj in objects)


def decode_list(data: bytes, resource: WatchedResource[WatchedT]) -> tuple[WatchedT, ...]:
    """The objects of a complete list. Raises CallFailed, also if one of them cannot be decoded."""
    page, unreadable = _decode_page(data, resource)
    for unreadable_object in unreadable:
        raise _cannot_read(unreadable_object)
    return page.items or ()


def _cannot_read(unreadable: UnreadableObject) -> UnexpectedResponse:
    return UnexpectedResponse(f"expected {unreadable.resource.plural} that can be read, got {unreadable}")


def _decode_page(
    data: bytes, resource: WatchedResource[WatchedT]
) -> tuple[ListOf[WatchedT], tuple[UnreadableObject, ...]]:
    try:
        return decode_list_page(data, resource)
    except DECODE_ERRORS as error:
        raise UnexpectedResponse(f"expected a list of {resource.plural}, got something else: {error}") from None


# --- names alone ------------------------------------------------------------------------------------------------------


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
