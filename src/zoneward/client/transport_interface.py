"""What lists and watches need of a connection to an API server; `zoneward.client.transport` has it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol


class ReadTransport(Protocol):
    """Reads only. Both raise what `zoneward.client.api_errors` defines."""

    async def get(self, path: str, query: Mapping[str, str] = ..., *, timeout: float | None = None) -> bytes:
        """The whole body of an answer."""
        ...

    def stream(
        self, path: str, query: Mapping[str, str], *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The lines of an answer as they come. SilentConnection where none comes for ``idle`` seconds."""
        ...


@dataclass(slots=True)
class ServerFeatures:
    """What one server was found to be able to do; shared by all that talk to it."""

    streams_lists: bool = True
    """Whether a watch may begin with all objects (KEP-3157), until the server refuses."""
