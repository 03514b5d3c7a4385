"""Lists in pages: decoded one by one, so that memory holds the objects and the bytes of one page."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic

from zoneward.client.api_errors import AnswerTooLarge, CallFailed, Gone
from zoneward.client.list_watch_decoder import UnreadableHandler, UnreadableObject, decode_list_page
from zoneward.client.resources import AnyWatchedResource, CachedObject, ListOf, WatchedResource, WatchedT
from zoneward.client.transport_interface import ReadTransport
from zoneward.kube.readable_json import DECODE_ERRORS

PAGE: Final = 500
MAX_RESTARTS: Final = 3
"""How many lists may outlive their continue tokens; then all is asked for at once, which needs no token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListLimits:
    """What ends a list: a server that never comes to the end must not fill the memory.

    The largest clusters have 150,000 Pods, of some 6 to 20 kB each: 300 pages, 3 GB.
    """

    pages: int = 10_000
    bytes: int = 8 << 30


LIMITS: Final = ListLimits()


class UnexpectedResponse(CallFailed):
    """What came is not what an API server sends: cut short, or of another form."""


class ListTooLarge(UnexpectedResponse):
    """A list that is larger than any, or comes back to where it was."""


@dataclass(frozen=True, slots=True)
class Page(Generic[WatchedT]):
    """Some objects of a list. All pages of one list show the cluster at the same ``version``.

    ``is_first`` True on a page that is not the first: the pages before it are void, for the list began anew.
    """

    objects: tuple[WatchedT, ...]
    version: str
    is_first: bool
    is_last: bool
    unreadable: tuple[UnreadableObject, ...] = ()


@dataclass(slots=True)
class _Extent:
    """Of a list, so far."""

    resource: AnyWatchedResource
    limits: ListLimits
    tokens: set[str] = field(default_factory=set)
    bytes: int = 0

    def add(self, size: int, token: str) -> None:
        """A page of this many bytes, which names the next one. Raises ListTooLarge."""
        what = self.resource.plural
        self.bytes += size
        if token in self.tokens:
            raise ListTooLarge(f"expected a list of {what} with an end, got the same continue token twice")
        if token:
            self.tokens.add(token)
        if len(self.tokens) >= self.limits.pages:
            raise ListTooLarge(f"expected a list of {what} of at most {self.limits.pages:,} pages, got more")
        if self.bytes > self.limits.bytes:
            raise ListTooLarge(f"expected a list of {what} of at most {self.limits.bytes:,} bytes, got more")


async def list_pages(
    connection: ReadTransport,
    resource: WatchedResource[WatchedT],
    *,
    namespace: str | None = None,
    labels: str = "",
    fields: str = "",
    query: Mapping[str, str] | None = None,
    size: int = PAGE,
    limits: ListLimits = LIMITS,
) -> AsyncIterator[Page[WatchedT]]:
    """All objects of a kind, in one namespace or all, that ``labels`` and ``fields`` select. Raises CallFailed.

    ``query`` is put into each request, as `zoneward.client.reflector.Reflector` has it.

    The list is the latest, not what some cache happens to have. A continue token that expires starts it again; the
    token that the server offers instead would mix two states of the cluster. Objects may be large: a page that is too
    large is asked for again with fewer of them.
    """
    path = resource.path(namespace=namespace)
    token, restarts, number, extent = "", 0, size, _Extent(resource, limits)  # type: ignore[arg-type]
    while True:
        asked = dict(query or {})
        is_paged = restarts < MAX_RESTARTS
        if is_paged:
            asked["limit"] = str(number)
        if labels:
            asked["labelSelector"] = labels
        if fields:
            asked["fieldSelector"] = fields
        if token:
            asked["continue"] = token
        try:
            data = await connection.get(path, asked)
        except Gone:
            if not token:
                raise
            token, restarts, extent = "", restarts + 1, _Extent(resource, limits)  # type: ignore[arg-type]
            continue
        except AnswerTooLarge:
            if number == 1 or not is_paged:
                raise
            number = max(1, number // 8)
            continue
        page, unreadable = _decoded(data, resource)
        is_first, token = not token, page.metadata.continue_ or ""
        extent.add(len(data), token)
        # Bytes of a page are not kept while its objects are dealt with.
        del data
        number = min(size, 2 * number)
        yield Page(page.items or (), page.metadata.resource_version, is_first, not token, unreadable)
        if not token:
            return


async def list_all(
    connection: ReadTransport,
    resource: WatchedResource[WatchedT],
    *,
    namespace: str | None = None,
    labels: str = "",
    fields: str = "",
    size: int = PAGE,
    on_unreadable: UnreadableHandler | None = None,
) -> tuple[WatchedT, ...]:
    """All objects of a kind as of one moment; ``labels`` and ``fields`` are selectors. Raises CallFailed.

    Without ``on_unreadable``, which is told of objects that are left out, also for one that cannot be read.
    """
    found: list[WatchedT] = []
    unreadable: list[UnreadableObject] = []
    async for page in list_pages(connection, resource, namespace=namespace, labels=labels, fields=fields, size=size):
        if page.is_first:
            found.clear()
            unreadable.clear()
        found.extend(page.objects)
        unreadable.extend(page.unreadable)
    for each in unreadable:
        if on_unreadable is None:
            raise _cannot_read(each)
        on_unreadable(each)
    return tuple(found)


async def list_resources(
    connection: ReadTransport,
    resources: Iterable[AnyWatchedResource],
    *,
    namespace: str | None = None,
    size: int = PAGE,
    on_unreadable: UnreadableHandler | None = None,
) -> tuple[CachedObject, ...]:
    """All objects of several kinds, asked for at once, in the order of the kinds.

    ``namespace`` limits the kinds that have one. Raises CallFailed: the first, and the other lists are given up.
    ``on_unreadable`` as of `list_all`.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    list_all(connection, resource, namespace=namespace, size=size, on_unreadable=on_unreadable)
                )
                for resource in resources
            ]
    except ExceptionGroup as failures:
        # One line for a person says more than four that say the same.
        raise failures.exceptions[0] from None
    return tuple(thing for task in tasks for thing in task.result())


def decode_list(data: bytes, resource: WatchedResource[WatchedT]) -> tuple[WatchedT, ...]:
    """The objects of an answer that has all of them. Raises CallFailed, also for one that cannot be read."""
    page, unreadable = _decoded(data, resource)
    for each in unreadable:
        raise _cannot_read(each)
    return page.items or ()


def _cannot_read(found: UnreadableObject) -> UnexpectedResponse:
    return UnexpectedResponse(f"expected {found.resource.plural} that can be read, got {found}")


def _decoded(data: bytes, resource: WatchedResource[WatchedT]) -> tuple[ListOf[WatchedT], tuple[UnreadableObject, ...]]:
    try:
        return decode_list_page(data, resource)
    except DECODE_ERRORS as error:
        raise UnexpectedResponse(f"expected a list of {resource.plural}, got something else: {error}") from None
