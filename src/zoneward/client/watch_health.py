"""Whether what follows a cluster still hears from it: troubles that last, by kind."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from zoneward.client.api_errors import CallFailed, Gone
from zoneward.client.resources import AnyWatchedResource
from zoneward.client.transport_interface import ReadTransport

_NO_QUERY: Mapping[str, str] = {}


class WatchHealth:
    """A connection that notes which watches stand. Give it to `zoneward.client.informers.follow` in place of the other
    one, and `trouble` as its ``on_trouble``.

    ``clock`` counts seconds. A watch that breaks and stands again within ``patience`` seconds is no trouble: servers
    end them all the time.
    """

    def __init__(self, connection: ReadTransport, *, clock: Callable[[], float], patience: float = 1.0) -> None:
        self._connection, self._clock, self._patience = connection, clock, patience
        self._troubles: dict[str, tuple[float, CallFailed]] = {}
        """By the end of the path, a kind's plural: since when, and the latest."""

    async def get(self, path: str, query: Mapping[str, str] = _NO_QUERY, *, timeout: float | None = None) -> bytes:
        return await self._connection.get(path, query, timeout=timeout)

    def stream(
        self, path: str, query: Mapping[str, str], *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._stream(path, query, idle)

    @asynccontextmanager
    async def _stream(self, path: str, query: Mapping[str, str], idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._connection.stream(path, query, idle=idle) as lines:
            self._troubles.pop(path.rpartition("/")[2], None)
            yield lines

    def trouble(self, resource: AnyWatchedResource, error: CallFailed) -> None:
        if isinstance(error, Gone):
            # The server's memory is short; a list brings everything back.
            return
        since, _ = self._troubles.get(resource.plural, (self._clock(), error))
        self._troubles[resource.plural] = since, error

    @property
    def lasting(self) -> tuple[float, CallFailed] | None:
        """Since when it lasts, by the clock, and the latest error; of several kinds the one that lasts longest."""
        if not self._troubles:
            return None
        since, error = min(self._troubles.values(), key=lambda each: each[0])
        return (since, error) if self._clock() - since >= self._patience else None
