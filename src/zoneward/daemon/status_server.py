"""The status of a program over HTTP: ``/healthz``, ``/readyz``, ``/metrics``, ``/debug/...``.

It is served in the event loop that does the work, so nothing here may block: what takes long is done in a thread, one
request at a time. Every client that can connect can read. ``/debug`` names Services and the zones of their Pods, and
answers only connections over a loopback address, as ``kubectl port-forward`` makes them, unless it is opened to all.

A page in an operator's browser can connect too, with a name that resolves to a loopback address (DNS rebinding). So
requests are refused whose header ``Host`` has neither an address nor a name of this server. Health and metrics are open
to all: kubelets and Prometheus may use any name.

Health is named checks, each with a reason where it fails. A restart would repair what is not live; an operator should
look at what is not ready. A standby replica is ready. An API server that cannot be reached, or asks for patience, makes
a program unready after `WATCH_LIMIT`, but never dead: a restart would only cost the cache.
"""

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, NoReturn, Self

import msgspec
from aiohttp import web

from zoneward.client.informers import WatchHealth
from zoneward.daemon.listen_address import ListenAddress

# --- checks -----------------------------------------------------------------------------------------------------------

Check = Callable[[], str | None]
"""Returns what is wrong, or None. It runs in the event loop and must not wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Checks by name, in the order in which they are reported."""

    live: Mapping[str, Check] = field(default_factory=dict)
    ready: Mapping[str, Check] = field(default_factory=dict)


def failed_checks(checks: Mapping[str, Check]) -> dict[str, str]:
    """The reason of every check that fails; empty if all succeed."""
    return {name: reason for name, check in checks.items() if (reason := check()) is not None}


class Heartbeat:
    """A check that the event loop turns. ``limit``: seconds that a turn may take; ``clock`` counts seconds."""

    def __init__(
        self,
        *,
        limit: float = 30.0,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._limit, self._sleep = limit, sleep
        self._clock = clock or asyncio.get_running_loop().time
        self._last = self._clock()

    async def run(self, *, every: float = 1.0) -> NoReturn:
        while True:
            self._last = self._clock()
            await self._sleep(every)

    def __call__(self) -> str | None:
        silent = self._clock() - self._last
        return None if silent <= self._limit else f"the event loop has not turned for {silent:.0f} s"


def task_is_running(task: "asyncio.Task[object]") -> Check:
    """A check that a task that never ends still runs."""
    return lambda: f"{task.get_name()} has ended" if task.done() else None


WATCH_LIMIT: Final = 30.0
"""Seconds for which a kind may have no watch: every server restarts at times."""


def watches_are_open(health: WatchHealth) -> Check:
    """A check that changes of all kinds are received."""

    def check() -> str | None:
        seconds = health.trouble_seconds
        return None if seconds < WATCH_LIMIT else f"no changes have been received for {seconds:.0f} s"

    return check


def cache_is_synced(is_synced: Callable[[], bool]) -> Check:
    """A check that the cache has been filled."""
    return lambda: None if is_synced() else "the cluster has not been listed yet"


# --- the server -------------------------------------------------------------------------------------------------------

METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
JSON: Final = "application/json"
Work = Callable[[], bytes]
OfService = Callable[[str, str], Work | None]
"""A page about a Service, by namespace and name. Called in the event loop, it takes from the cache what it needs, at
once, and returns what makes the JSON, for a thread; None: there is no such Service."""
Page = Callable[[], Awaitable[bytes]]
_SHUTDOWN_TIMEOUT: Final = 0.5
"""Seconds for answers under way when the server ends."""
_KEEPALIVE_TIMEOUT: Final = 30.0
"""Seconds for which a connection waits for its next request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusPages:
    """What is served beside health, by path. ``metrics`` None: no ``/metrics``.

    ``values`` become JSON, ``pages`` are JSON already, and ``of_service`` serves ``PATH/NAMESPACE/NAME``.
    """

    metrics: Page | None = None
    values: Mapping[str, Callable[[], Mapping[str, Any]]] = field(default_factory=dict)
    pages: Mapping[str, Page] = field(default_factory=dict)
    of_service: Mapping[str, OfService] = field(default_factory=dict)

    @property
    def paths(self) -> tuple[str, ...]:
        metrics = ["/metrics"] if self.metrics is not None else []
        of_service = [f"{path}/NAMESPACE/NAME" for path in self.of_service]
        return (*metrics, *self.values, *self.pages, *of_service)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusLimits:
    """Answers beyond these are refused with 503."""

    seconds: float = 10.0
    size: int = 16 << 20
    """Bytes."""
    concurrent: int = 16


class StatusServer:
    """Serves from entering the block to leaving it.

    ``names``: what requests may call it, beside its addresses, ``localhost`` and the host of ``listen``. ``on_error``
    gets what making an answer raises.
    """

    def __init__(
        self,
        health: Health,
        pages: StatusPages | None = None,
        *,
        listen: ListenAddress | None = None,
        names: Collection[str] = (),
        debug_for_all: bool = False,
        on_error: Callable[[Exception], None] = lambda _error: None,
        limits: StatusLimits | None = None,
    ) -> None:
        self._health, self._pages = health, pages or StatusPages()
        self._listen = listen or ListenAddress("127.0.0.1", 0)
        self._names = {name.lower() for name in ("localhost", self._listen.host, *names) if name}
        self._debug_for_all, self._on_error, self._limits = debug_for_all, on_error, limits or StatusLimits()
        self._not_found = f"expected one of {', '.join(('/healthz', '/readyz', *self._pages.paths))}\n"
        self._addresses: tuple[tuple[str, int], ...] = ()
        self._open = 0
        self._turn = asyncio.Semaphore()
        self._stack = AsyncExitStack()

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Host and port of each address that is served: several where it listens on all addresses."""
        return self._addresses

    @property
    def port(self) -> int:
        """The port of the first of them."""
        return self._addresses[0][1]

    async def __aenter__(self) -> Self:
        """Raises OSError where the address cannot be had."""
        runner = web.ServerRunner(
            web.Server(self.answer, keepalive_timeout=_KEEPALIVE_TIMEOUT, access_log=None),
            shutdown_timeout=_SHUTDOWN_TIMEOUT,
        )
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        try:
            await web.TCPSite(runner, self._listen.host, self._listen.port).start()
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
            return _respond(405, f"expected GET, got {request.method}\n", Allow="GET, HEAD")
        # Health is answered however busy the server is.
        if request.path in ("/healthz", "/livez"):
            return _health_response(self._health.live, request)
        if request.path == "/readyz":
            return _health_response(self._health.ready, request)
        if self._open >= self._limits.concurrent:
            return _respond(503, f"{self._open} answers are under way, which is the limit\n", **{"Retry-After": "1"})
        self._open += 1
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self._answer_in_time(request)
        except TimeoutError:
            return _respond(503, f"no answer within {self._limits.seconds:g} s\n", **{"Retry-After": "5"})
        except Exception as error:
            self._on_error(error)
            return _respond(500, "the answer could not be made; the log says why\n")
        finally:
            self._open -= 1

    async def _answer_in_time(self, request: web.BaseRequest) -> web.Response:
        pages = self._pages
        if request.path == "/metrics" and pages.metrics is not None:
            return self._limited(await pages.metrics(), METRICS)
        if not all(map(self._is_ours, request.headers.getall("Host", ()))):
            return _respond(403, "expected an address or a name of this server in the header Host\n")
        if request.path.startswith("/debug/") and not (self._debug_for_all or _is_loopback(request.remote)):
            return _respond(403, "/debug answers on loopback addresses only: use kubectl port-forward\n")
        if (values := pages.values.get(request.path)) is not None:
            return self._limited(msgspec.json.encode(values()), JSON)
        if (page := pages.pages.get(request.path)) is not None:
            return self._limited(await page(), JSON)
        path, _, name = request.path.rpartition("/")
        path, _, namespace = path.rpartition("/")
        if namespace and name and (of_service := pages.of_service.get(path)) is not None:
            return await self._about(of_service, namespace, name)
        return _respond(404, self._not_found)

    def _is_ours(self, host: str) -> bool:
        """Whether a header ``Host`` has an address, or a known name; with or without a port."""
        name, colon, port = host.rpartition(":")
        bare = name if colon and (not port or port.isdecimal()) and (":" not in name or name.endswith("]")) else host
        return _is_address(bare.removeprefix("[").removesuffix("]")) or bare.lower() in self._names

    async def _about(self, of_service: OfService, namespace: str, name: str) -> web.Response:
        await self._turn.acquire()
        # The answer is about the Service as it is when its turn comes.
        try:
            work = of_service(namespace, name)
            made = None if work is None else asyncio.get_running_loop().run_in_executor(None, work)
        except BaseException:
            self._turn.release()
            raise
        if made is None:
            self._turn.release()
            return _respond(404, f"no Service {namespace}/{name} is known\n")
        # A thread can't be stopped. Where time runs out before it ends, the next one waits for it all the same.
        made.add_done_callback(self._ended)
        return self._limited(await asyncio.shield(made), JSON)

    def _ended(self, made: asyncio.Future[bytes]) -> None:
        self._turn.release()
        if not made.cancelled():
            # Nobody may be left who asks for it.
            made.exception()

    def _limited(self, body: bytes, content_type: str) -> web.Response:
        if len(body) > self._limits.size:
            return _respond(503, f"the answer has {len(body)} bytes, more than {self._limits.size}\n")
        return web.Response(body=body, headers={"Content-Type": content_type, **_HEADERS})


_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def _respond(status: int, text: str, **headers: str) -> web.Response:
    return web.Response(status=status, text=text, headers={**_HEADERS, **headers})


def _health_response(checks: Mapping[str, Check], request: web.BaseRequest) -> web.Response:
    """As an API server answers: ``ok``, or each check in a line; with ``?verbose`` always."""
    wrong = failed_checks(checks)
    if not wrong and "verbose" not in request.query:
        return _respond(200, "ok")
    lines = [f"[-]{name} failed: {wrong[name]}" if name in wrong else f"[+]{name} ok" for name in checks]
    return _respond(503 if wrong else 200, "".join(f"{line}\n" for line in lines))


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
