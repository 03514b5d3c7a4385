"""Runs a sandbox: the HTTP server and its background work."""

import asyncio
import logging
import secrets
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from zoneward.sandbox.server.garbage_collector import GarbageCollector, PodTerminator
from zoneward.sandbox.server.http_handler import ApiHandler
from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.list_watch import BOOKMARKS
from zoneward.sandbox.server.resource_registry import Registry

CONTEXT: Final = "zoneward-sandbox"
"""The name of everything in the kubeconfig."""
_BACKGROUND_PERIOD: Final = 0.2
"""Seconds between two rounds of background work."""
_SHUTDOWN: Final = 0.01
"""Seconds until open connections are closed at the end; 0 would mean no limit."""
_LOG: Final = logging.getLogger(__name__)
_HTTP: Final = logging.getLogger(f"{__name__}.http")
_HTTP.addFilter(lambda record: not _is_malformed(record))
_KEEP_ALIVE: Final = 75.0
"""Seconds for which a connection waits for its next request."""


def _is_malformed(record: logging.LogRecord) -> bool:
    """Whether a record is about a malformed request. Its traceback could contain the token."""
    error = record.exc_info[1] if record.exc_info else None
    return isinstance(error, HttpProcessingError | web.RequestPayloadError)


class SandboxServer:
    """Serves inside an ``async with`` block.

    Clients send the token in the ``Authorization`` header, or as the first part of the path, because kubectl sends the
    header only over TLS. ``ends_pods`` is False if a play ends pods.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        bookmarks: float = BOOKMARKS,
        ends_pods: bool = True,
    ) -> None:
        self.registry: Final = registry
        self.token: Final = secrets.token_urlsafe(24)
        self._host, self._port = host, port
        self.handler: Final = ApiHandler(registry, token=self.token, bookmarks=bookmarks)
        self._garbage = GarbageCollector(registry)
        self._ending = PodTerminator(registry) if ends_pods else None
        self._stack = AsyncExitStack()

    @property
    def authority(self) -> str:
        """``127.0.0.1:40123``."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    @property
    def address(self) -> str:
        """The URL of the server, with the token in its path."""
        return f"http://{self.authority}/{self.token}"

    async def __aenter__(self) -> Self:
        """Raises OSError if the port is not available."""
        runner = web.ServerRunner(
            # Cancel requests when the client disconnects: a watch would wait for the next change.
            web.Server(
                self.handler.answer,
                keepalive_timeout=_KEEP_ALIVE,
                access_log=None,
                handler_cancellation=True,
                logger=_HTTP,
            ),
            shutdown_timeout=_SHUTDOWN,
        )
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except BaseException:
            await self._stack.aclose()
            raise
        self._port = runner.addresses[0][1]
        self._stack.push_async_callback(self.handler.end_watches, within=_SHUTDOWN)
        background = asyncio.create_task(self._background_loop())
        self._stack.callback(background.cancel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def kubeconfig(self) -> Object:
        cluster = {"server": self.address, "disable-compression": True}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": CONTEXT,
            "clusters": [{"name": CONTEXT, "cluster": cluster}],
            "users": [{"name": CONTEXT, "user": {"token": self.token}}],
            "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": "default"}}],
        }

    async def _background_loop(self) -> None:
        while True:
            try:
                self._garbage.collect()
                if self._ending is not None:
                    self._ending.end_pods()
            except Exception:
                # A bug of the sandbox; continue with the other work.
                _LOG.exception("background work")
            await asyncio.sleep(_BACKGROUND_PERIOD if self._garbage.is_idle else 0)
