"""The transport as lists and watches have it, which tries nothing again, and what they asked of it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from zoneward.client.auth.client_config import ClientConfig, ClusterInfo, UserInfo
from zoneward.client.transport import RetryPolicy, Transport


class AClient:
    """A connection to the server at an address."""

    def __init__(self, address: str) -> None:
        access = ClientConfig(cluster=ClusterInfo(server=address), user=UserInfo())
        self._transport = Transport(access, retries=RetryPolicy(attempts=1), is_terminal=False)
        self.asked: list[tuple[str, dict[str, str]]] = []
        """Paths and queries, in the order of the requests."""

    async def __aenter__(self) -> "AClient":
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    async def get(self, path: str, query: Mapping[str, str] | None = None, *, timeout: float | None = None) -> bytes:
        self.asked.append((path, dict(query or {})))
        return await self._transport.get(path, query or {}, timeout=timeout)

    def stream(
        self, path: str, query: Mapping[str, str], *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        self.asked.append((path, dict(query)))
        return self._transport.stream(path, query, idle=idle)
