"""Serves ``/proxyMode``, the kind of proxy, which scripts and tests request from kube-proxy on ``localhost:10249``."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from aiohttp import web

from zoneward.daemon.listen_address import ListenAddress

MODE: Final = "nftables"
"""kube-proxy's name for this mode."""
PATH: Final = "/proxyMode"
_AGAIN: Final = 5.0
_ALIVE: Final = 30.0
_LAST_MOMENT: Final = 0.5


class ProxyModeServer:
    """Serves ``/proxyMode`` while it `run`s.

    ``on_trouble`` gets the reason why the address cannot be opened, once for each reason: kube-proxy may still use it.
    The server retries every ``again`` seconds. ``on_listening`` gets the port.
    """

    def __init__(
        self,
        listen: ListenAddress,
        *,
        on_trouble: Callable[[str], None] = lambda _why: None,
        on_listening: Callable[[int], None] = lambda _port: None,
        again: float = _AGAIN,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._listen, self._on_trouble, self._on_listening = listen, on_trouble, on_listening
        self._again, self._sleep = again, sleep

    async def run(self) -> NoReturn:
        """Run until cancelled."""
        server = web.Server(_answer, keepalive_timeout=_ALIVE, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=_LAST_MOMENT)
        await runner.setup()
        try:
            await self._listen_until_free(runner)
            self._on_listening(runner.addresses[0][1])
            while True:
                await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _listen_until_free(self, runner: web.ServerRunner) -> None:
        reported = ""
        while True:
            site = web.TCPSite(runner, self._listen.host, self._listen.port)
            try:
                await site.start()
            except OSError as error:
                await site.stop()
                why = error.strerror or str(error)
                if why != reported:
                    reported = why
                    self._on_trouble(why)
                await self._sleep(self._again)
            else:
                return


async def _answer(request: web.BaseRequest) -> web.Response:
    if request.path != PATH:
        return web.Response(status=404, text=f"expected {PATH}\n")
    return web.Response(text=MODE, headers={"X-Content-Type-Options": "nosniff"})
