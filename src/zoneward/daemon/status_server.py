"""What a program tells over HTTP: ``/healthz``, ``/readyz``, ``/metrics``, ``/debug/...``.

It is served in the event loop that does the work, so nothing here may hold it: what takes long is done in a thread, one
at a time. Whoever may connect may read; ``/debug`` names Services and their Pods' zones, and answers only who connects
over a loopback address, as ``kubectl port-forward`` does, unless told otherwise.

A page in an operator's browser can connect too, by way of a name of its own that leads to a loopback address (DNS
rebinding). So requests whose header ``Host`` has neither an address nor a name of this server are refused. Health and
metrics are told to all: kubelets and Prometheus may ask by any name.
"""

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

import msgspec
from aiohttp import web

from zoneward.daemon.health import Check, Health, failed_checks

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
Work = Callable[[], bytes]
OfService = Callable[[str, str], Work | None]
"""What is told of a Service, by namespace and name. Called in the event loop, it takes from the cache what is needed,
at once, and gives what makes the JSON, for a thread; None: there is no such Service."""
Page = Callable[[], Awaitable[bytes]]
_LAST_MOMENT: Final = 0.5
"""Seconds for answers under way when the server ends."""
_ALIVE: Final = 30.0
"""Seconds for which a connection waits for its next request."""


class StatusServer:
    """Serves from entering the block to leaving it.

    ``host`` None: on all addresses; ``port`` 0: any. ``names``: what requests may call it by, beside its addresses,
    ``localhost`` and ``host``. ``metrics`` None: there are none. By
    path, ``values`` are told in what JSON has, ``pages`` are JSON already, and ``of_service`` is asked for
    ``PATH/NAMESPACE/NAME``. ``on_trouble`` is told what making an answer raises. An answer of
    more than ``largest`` bytes or ``longest`` seconds, and one beyond ``most`` at once, is refused with 503.
    """

    def __init__(
        self,
        health: Health,
        *,
        host: str | None = "127.0.0.1",
        port: int = 0,
        names: Collection[str] = (),
        metrics: Page | None = None,
        metrics_type: str = TEXT,
        values: Mapping[str, Callable[[], Mapping[str, Any]]] = MappingProxyType({}),
        pages: Mapping[str, Page] = MappingProxyType({}),
        of_service: Mapping[str, OfService] = MappingProxyType({}),
        debug_for_all: bool = False,
        on_trouble: Callable[[Exception], None] = lambda _trouble: None,
        longest: float = 10.0,
        largest: int = 16 << 20,
        most: int = 16,
    ) -> None:
        self._health, self._host, self._port = health, host, port
        self._names = {each.lower() for each in ("localhost", host, *names) if each}
        self._metrics, self._metrics_type = metrics, metrics_type
        self._values, self._pages, self._of_service, self._debug_for_all = values, pages, of_service, debug_for_all
        known = ["/metrics"] if metrics is not None else []
        known += [*values, *pages, *(f"{path}/NAMESPACE/NAME" for path in of_service)]
        self._not_found = f"expected one of {', '.join(('/healthz', '/readyz', *known))}\n"
        self._on_trouble = on_trouble
        self._longest, self._largest, self._most = longest, largest, most
        self._addresses: tuple[tuple[str, int], ...] = ()
        self._open = 0
        self._turn = asyncio.Semaphore()
        self._stack = AsyncExitStack()

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Host and port of each address that is served, once it is: several where ``host`` is None."""
        return self._addresses

    @property
    def port(self) -> int:
        """The port of the first of them."""
        return self._addresses[0][1]

    async def __aenter__(self) -> Self:
        """Raises OSError where the port can't be had."""
        runner = web.ServerRunner(
            web.Server(self.answer, keepalive_timeout=_ALIVE, access_log=None), shutdown_timeout=_LAST_MOMENT
        )
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except BaseException:
            await self._stack.aclose()
            raise
        self._addresses = tuple((address[0], address[1]) for address in runner.addresses)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """What aiohttp calls for each request."""
        if request.method not in ("GET", "HEAD"):
            return _told(405, f"expected GET, got {request.method}\n", Allow="GET, HEAD")
        # Health is told however busy we are.
        if request.path in ("/healthz", "/livez"):
            return _checked(self._health.live, request)
        if request.path == "/readyz":
            return _checked(self._health.ready, request)
        if self._open >= self._most:
            return _told(503, f"{self._open} answers are under way, which is the limit\n", **{"Retry-After": "1"})
        self._open += 1
        try:
            async with asyncio.timeout(self._longest):
                return await self._long(request)
        except TimeoutError:
            return _told(503, f"no answer within {self._longest:g} s\n", **{"Retry-After": "5"})
        except Exception as error:
            self._on_trouble(error)
            return _told(500, "the answer could not be made; the log says why\n")
        finally:
            self._open -= 1

    async def _long(self, request: web.BaseRequest) -> web.Response:
        if request.path == "/metrics" and self._metrics is not None:
            return self._limited(await self._metrics(), self._metrics_type)
        if not all(map(self._is_ours, request.headers.getall("Host", ()))):
            return _told(403, "expected an address or a name of this server in the header Host\n")
        if request.path.startswith("/debug/") and not (self._debug_for_all or _is_loopback(request.remote)):
            return _told(403, "/debug answers on loopback addresses only: use kubectl port-forward\n")
        if (values := self._values.get(request.path)) is not None:
            return self._limited(msgspec.json.encode(values()), JSON)
        if (page := self._pages.get(request.path)) is not None:
            return self._limited(await page(), JSON)
        path, _, name = request.path.rpartition("/")
        path, _, namespace = path.rpartition("/")
        if namespace and name and (of_service := self._of_service.get(path)) is not None:
            return await self._about(of_service, namespace, name)
        return _told(404, self._not_found)

    def _is_ours(self, host: str) -> bool:
        """Whether a header ``Host`` says an address, or a name of ours; with or without a port."""
        name, colon, port = host.rpartition(":")
        bare = name if colon and (not port or port.isdecimal()) and (":" not in name or name.endswith("]")) else host
        return _is_address(bare.removeprefix("[").removesuffix("]")) or bare.lower() in self._names

    async def _about(self, of_service: OfService, namespace: str, name: str) -> web.Response:
        await self._turn.acquire()
        # It is the Service as it is when its turn comes that is told of.
        try:
            work = of_service(namespace, name)
            made = None if work is None else asyncio.get_running_loop().run_in_executor(None, work)
        except BaseException:
            self._turn.release()
            raise
        if made is None:
            self._turn.release()
            return _told(404, f"no Service {namespace}/{name} is known\n")
        # A thread can't be stopped. Where time runs out before it ends, the next one waits for it all the same.
        made.add_done_callback(self._ended)
        return self._limited(await asyncio.shield(made), JSON)

    def _ended(self, made: asyncio.Future[bytes]) -> None:
        self._turn.release()
        if not made.cancelled():
            # Nobody may be left to ask for it.
            made.exception()

    def _limited(self, body: bytes, content_type: str) -> web.Response:
        if len(body) > self._largest:
            return _told(503, f"the answer has {len(body)} bytes, more than {self._largest}\n")
        return web.Response(body=body, headers={"Content-Type": content_type, **_HEADERS})


_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def _told(status: int, text: str, **headers: str) -> web.Response:
    return web.Response(status=status, text=text, headers={**_HEADERS, **headers})


def _checked(checks: Mapping[str, Check], request: web.BaseRequest) -> web.Response:
    """As an API server tells it: ``ok``, or each check in a line; with ``?verbose`` always."""
    wrong = failed_checks(checks)
    if not wrong and "verbose" not in request.query:
        return _told(200, "ok")
    lines = [f"[-]{name} failed: {wrong[name]}" if name in wrong else f"[+]{name} ok" for name in checks]
    return _told(503 if wrong else 200, "".join(f"{line}\n" for line in lines))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_loopback(remote: str | None) -> bool:
    try:
        address = ipaddress.ip_address(remote or "")
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
