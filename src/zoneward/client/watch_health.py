"""Tracks whether the watches of a cluster work: lasting errors, by kind."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from zoneward.client.api_errors import CallFailed, Gone
from zoneward.client.resources import AnyWatchedResource
from zoneward.client.transport_interface import ReadTransport

_NO_QUERY: Mapping[str, str] = {}


class WatchHealth:
    """A transport that records which watches are open.

    Pass it to `zoneward.client.informers.run_informers` in place of the wrapped one, and `trouble` as ``on_error``.

    ``clock`` counts seconds. A watch that breaks and opens again within ``patience`` seconds is no error: servers
    often end watches.
    """

    def __init__(self, transport: ReadTransport, *, clock: Callable[[], float], patience: float = 1.0) -> None:
        self._transport, self._clock, self._patience = transport, clock, patience
        self._errors: dict[str, tuple[float, CallFailed]] = {}
        """By the last part of the path, the plural of a kind: when the error began, and the latest error."""

    async def get(self, path: str, query: Mapping[str, str] = _NO_QUERY, *, timeout: float | None = None) -> bytes:
        return await self._transport.get(path, query, timeout=timeout)

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], *, idle: float) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._transport.stream(path, query, idle=idle) as lines:
            self._errors.pop(path.rpartition("/")[2], None)
            yield lines

    def trouble(self, resource: AnyWatchedResource, error: CallFailed) -> None:
        if isinstance(error, Gone):
            # The reflector lists again.
            return
        since, _ = self._errors.get(resource.plural, (self._clock(), error))
        self._errors[resource.plural] = since, error

    @property
    def lasting(self) -> tuple[float, CallFailed] | None:
        """When the longest-lasting error began, by the clock, and the latest error of that kind."""
        if not self._errors:
            return None
        since, error = min(self._errors.values(), key=lambda error: error[0])
        return (since, error) if self._clock() - since >= self._patience else None

    @property
    def trouble_seconds(self) -> float:
        """Seconds for which the watch of a kind has failed; 0 if all work."""
        lasting = self.lasting
        return 0.0 if lasting is None else self._clock() - lasting[0]
