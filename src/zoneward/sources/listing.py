"""Lists in pages: decoded one by one, so that memory holds the objects and the bytes of one page."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic

import msgspec

from zoneward.sources.api_errors import CallFailed, Gone
from zoneward.sources.connection import Connection
from zoneward.sources.resources import AnyResource, ListOf, Live, Resource, T

PAGE: Final = 500
MAX_RESTARTS: Final = 3
"""How many lists may outlive their continue tokens; then all is asked for at once, which needs no token."""


class UnexpectedAnswer(CallFailed):
    """What came is not what an API server sends: cut short, or of another form."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some objects of a list. All pages of one list show the cluster at the same ``version``.

    ``is_first`` True on a page that is not the first: the pages before it are void, for the list began anew.
    """

    objects: tuple[T, ...]
    version: str
    is_first: bool
    is_last: bool


async def pages(
    connection: Connection,
    resource: Resource[T],
    *,
    namespace: str | None = None,
    labels: str = "",
    fields: str = "",
    query: Mapping[str, str] | None = None,
    size: int = PAGE,
) -> AsyncIterator[Page[T]]:
    """All objects of a kind, in one namespace or all, that ``labels`` and ``fields`` select. Raises CallFailed.

    ``query`` is put into each request, as `zoneward.sources.watching.Reflector` has it.

    The list is the latest, not what some cache happens to have. A continue token that expires starts it again; the
    token that the server offers instead would mix two states of the cluster.
    """
    path = resource.path(namespace=namespace)
    token, restarts = "", 0
    while True:
        asked = dict(query or {})
        if restarts < MAX_RESTARTS:
            asked["limit"] = str(size)
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
            token, restarts = "", restarts + 1
            continue
        page = _decoded(data, resource)
        # Bytes of a page are not kept while its objects are dealt with.
        del data
        is_first, token = not token, page.metadata.continue_ or ""
        yield Page(page.items or (), page.metadata.resource_version, is_first=is_first, is_last=not token)
        if not token:
            return


async def list_all(
    connection: Connection,
    resource: Resource[T],
    *,
    namespace: str | None = None,
    labels: str = "",
    fields: str = "",
    size: int = PAGE,
) -> tuple[T, ...]:
    """All objects of a kind as of one moment; ``labels`` and ``fields`` are selectors. Raises CallFailed."""
    found: list[T] = []
    async for page in pages(connection, resource, namespace=namespace, labels=labels, fields=fields, size=size):
        if page.is_first:
            found.clear()
        found.extend(page.objects)
    return tuple(found)


async def list_kinds(
    connection: Connection, resources: Iterable[AnyResource], *, namespace: str | None = None, size: int = PAGE
) -> tuple[Live, ...]:
    """All objects of several kinds, asked for at once, in the order of the kinds.

    ``namespace`` limits the kinds that have one. Raises CallFailed: the first, and the other lists are given up.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(list_all(connection, resource, namespace=namespace, size=size))
                for resource in resources
            ]
    except ExceptionGroup as failures:
        # One line for a person says more than four that say the same.
        raise failures.exceptions[0] from None
    return tuple(thing for task in tasks for thing in task.result())


def _decoded(data: bytes, resource: Resource[T]) -> ListOf[T]:
    try:
        return resource.lists.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnexpectedAnswer(f"expected a list of {resource.plural}, got something else: {error}") from None
