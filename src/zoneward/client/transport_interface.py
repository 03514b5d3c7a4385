"""What readers and writers need of an API server's transport, which `zoneward.client.transport.Transport` implements;
and several calls at the same time.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

_T = TypeVar("_T")


class ReadTransport(Protocol):
    """What lists and watches need. Both raise what `zoneward.client.api_errors` defines."""

    async def get(self, path: str, query: Mapping[str, str] = ..., *, timeout: float | None = None) -> bytes:
        """The whole body of an answer."""
        ...

    def stream(
        self, path: str, query: Mapping[str, str], *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The lines of an answer as they arrive. Raises SilentConnection if none arrives for ``idle`` seconds."""
        ...


class WriteTransport(Protocol):
    """What a writer needs. Both raise what `zoneward.client.api_errors` defines."""

    async def get(self, path: str, query: Mapping[str, str] = ..., *, timeout: float | None = None) -> bytes: ...

    async def send(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        content_type: str = ...,
        query: Mapping[str, str] = ...,
        idempotent: bool = ...,
        once: bool = ...,
        metadata_only: bool = ...,
        may_send: Callable[[], bool] = ...,
        timeout: float | None = ...,
    ) -> bytes: ...


async def all_results(works: Iterable[Coroutine[Any, Any, _T]]) -> tuple[_T, ...]:
    """The results of all calls, in their order.

    Raises the error of the first call that failed, after the others were cancelled and have ended. With
    `asyncio.gather` they would continue, and use a connection that is closed by then.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except ExceptionGroup as failures:
        # Report the common cause once.
        raise failures.exceptions[0] from None
    return tuple(task.result() for task in tasks)
