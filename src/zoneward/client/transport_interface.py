"""What readers and writers need of an API server's transport; `zoneward.client.transport.Transport` implements it."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol


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
