"""Lists objects in pages, as client-go's ``tools/pager``: memory holds the objects and the bytes of one page."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Final, Generic

from zoneward.client.all_results import all_results
from zoneward.client.api_errors import AnswerTooLarge, Gone, ListTooLarge, UnexpectedResponse
from zoneward.client.list_watch_decoder import UnreadableHandler, UnreadableObject, decode_list_page
from zoneward.client.resources import AnyWatchedResource, CachedObject, ListOf, WatchedResource, WatchedT
from zoneward.client.transport_interface import ReadTransport
from zoneward.kube.json_documents import DECODE_ERRORS

PAGE_SIZE: Final = 500
MAX_RESTARTS: Final = 3
"""After so many lists whose continue tokens expired, everything is requested at once, which needs no token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListLimits:
    """Ends a list: a server whose list has no end must not fill the memory.

    The largest clusters have 150,000 Pods, of some 6 to 20 kB each: 300 pages, 3 GB.
    """

    pages: int = 10_000
    bytes: int = 8 << 30


LIMITS: Final = ListLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListScope:
    """Which objects of a kind are listed and watched. ``namespace`` None: all; a kind without namespaces ignores it.

    Selectors are the API's: ``app=cart``, ``metadata.name=n1``.
    """

    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the request."""
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {name: selector for name, selector in selectors.items() if selector}


EVERYTHING: Final = ListScope()


@dataclass(frozen=True, slots=True)
class Page(Generic[WatchedT]):
    """Some objects of a list. All pages of one list show the cluster at the same ``version``.

    A later page with ``is_first`` makes the pages before it void: the list began again.
    """

    objects: tuple[WatchedT, ...]
    version: str
    is_first: bool
    is_last: bool
    unreadable: tuple[UnreadableObject, ...] = ()


@dataclass(slots=True)
class _Extent:
    """How long a list is so far."""

    resource: AnyWatchedResource
    limits: ListLimits
    tokens: set[str] = field(default_factory=set)
    bytes: int = 0

    def add(self, size: int, token: str) -> None:
        """Count a page of this many bytes, whose continue token is ``token``. Raises ListTooLarge."""
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
    transport: ReadTransport,
    resource: WatchedResource[WatchedT],
    options: ListScope = EVERYTHING,
    *,
    size: int = PAGE_SIZE,
    limits: ListLimits = LIMITS,
) -> AsyncIterator[Page[WatchedT]]:
    """All objects of a kind that ``options`` select, page by page. Raises CallFailed.

    The list is the latest, not what some cache happens to have. A continue token that expires (410 Gone) starts the
    list again; the token that the server offers instead would mix two states of the cluster. Objects may be large: a
    page that is too large is requested again with fewer of them.
    """
    path = resource.path(namespace=options.namespace)
    token, restarts, number, extent = "", 0, size, _Extent(resource, limits)  # type: ignore[arg-type]
    while True:
        query = options.query
        is_paged = restarts < MAX_RESTARTS
        if is_paged:
            query["limit"] = str(number)
        if token:
            query["continue"] = token
        try:
            data = await transport.get(path, query)
        except Gone:
            if not token:
                raise
            token, restarts, extent = "", restarts + 1, _Extent(resource, limits)  # type: ignore[arg-type]
            continue
        except AnswerTooLarge:
            if number == 1 or not is_paged:
                raise
            # Later pages stay below what was too large.
            size, number = max(1, number // 2), max(1, number // 8)
            continue
        page, unreadable = _decode_page(data, resource)
        is_first, token = not token, page.metadata.continue_ or ""
        extent.add(len(data), token)
        # The bytes of a page are not kept while its objects are handled.
        del data
        number = min(size, 2 * number)
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
    """All objects of a kind as of one moment. Raises CallFailed.

    ``on_unreadable`` is called with each object that cannot be decoded; without it such an object raises CallFailed.
    """
    found: list[WatchedT] = []
    unreadable: list[UnreadableObject] = []
    async for page in list_pages(transport, resource, options, size=size):
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
    """The objects of an answer that has all of them. Raises CallFailed, also where one of them cannot be decoded."""
    page, unreadable = _decode_page(data, resource)
    for each in unreadable:
        raise _cannot_read(each)
    return page.items or ()


def _cannot_read(found: UnreadableObject) -> UnexpectedResponse:
    return UnexpectedResponse(f"expected {found.resource.plural} that can be read, got {found}")


def _decode_page(
    data: bytes, resource: WatchedResource[WatchedT]
) -> tuple[ListOf[WatchedT], tuple[UnreadableObject, ...]]:
    try:
        return decode_list_page(data, resource)
    except DECODE_ERRORS as error:
        raise UnexpectedResponse(f"expected a list of {resource.plural}, got something else: {error}") from None
