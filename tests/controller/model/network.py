"""Between replicas and an API server's registry in the same process: requests, answers and watches that come late, get
lost or are refused, all by one seeded chance, in time that passes only when all wait."""

import asyncio
import selectors
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import wraps
from random import Random
from types import MappingProxyType
from typing import Any, Final, ParamSpec, Protocol, TypeVar

import msgspec

from zoneward.client.api_errors import CallFailed, Unreachable, WritesSuspended, api_error
from zoneward.client.transport import RetryPolicy
from zoneward.sandbox.server.list_watch import list_objects, list_options, watch
from zoneward.sandbox.server.patches import patch_object
from zoneward.sandbox.server.requests import ResourcePath, ResourcePaths, decode_object
from zoneward.sandbox.server.resource_registry import DeleteOptions, Registry, Write
from zoneward.sandbox.server.status_errors import StatusError
from zoneward.sandbox.server.versioned_store import head_of

R = TypeVar("R")
P = ParamSpec("P")
Object = dict[str, Any]
LEASES: Final = "leases.coordination.k8s.io"
"""As the registry calls them."""
LEASE_KEY: Final = ("kube-system", "zoneward")
NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
_JSON: Final = "application/json"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_BOOKMARKS: Final = 300.0
_LONGEST_HANG: Final = 20.0
_RETRIES: Final = RetryPolicy()


class _Skipping(selectors.DefaultSelector):
    """Waits for nothing: where the loop would wait, time passes instead."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # There is nothing outside that could come.
        assert timeout is not None, "all wait for each other"
        self.seconds += max(timeout, 0)
        return []


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.seconds


def in_no_time(work: Coroutine[Any, Any, R]) -> R:
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that is a coroutine, run in no time."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        in_no_time(test(*args, **kwargs))

    return run


def seconds() -> float:
    return asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """``delay``: the most seconds that anything takes one way; the others are probabilities, of single requests.

    ``hang``: arrives, but up to 20 s late. ``lost``: never arrives. ``unanswered``: a write that is done, but not
    answered. ``conflict``: a write that is refused as if another one had come before.
    """

    delay: float = 0.002
    hang: float = 0.0
    lost: float = 0.0
    unanswered: float = 0.0
    too_many: float = 0.0
    fault_before: float = 0.0
    fault_after: float = 0.0
    conflict: float = 0.0


CALM: Final = Weather()


@dataclass(frozen=True, slots=True)
class Sent:
    """A write on its way. ``planned``: what its sender had in mind for the Service, if it is about a slice."""

    sender: str
    method: str
    plural: str
    at: float
    planned: Any = None


class WriteObserver(Protocol):
    """Sees every write that leaves, may add what it was planned from, and says whose write is being done."""

    current: Sent | None

    def leaves(self, link: "Link", method: str, route: ResourcePath) -> Sent: ...


class NoObserver:
    current: Sent | None = None

    def leaves(self, link: "Link", method: str, route: ResourcePath) -> Sent:
        return Sent(link.name, method, route.kind.plural, seconds())


@dataclass(slots=True, eq=False)
class Network:
    """What all links share. ``stalled`` and ``cut`` hold times until which nothing comes through."""

    registry: Registry
    chance: Random
    weather: Weather = CALM
    rough: Weather | None = None
    """In force until ``rough_until``."""
    rough_until: float = 0.0
    lags: dict[str, float] = field(default_factory=dict)
    """The most seconds by which watches of a kind lag, by its plural."""
    stalled: dict[str, float] = field(default_factory=dict)
    cut: dict[str, float] = field(default_factory=dict)
    breaks: Counter[str] = field(default_factory=Counter)
    before_next: list[Callable[[], None]] = field(default_factory=list)
    """What others do immediately before the next write of a slice is done."""
    in_flight: "set[asyncio.Task[Any]]" = field(default_factory=set)
    writes_in_flight: "set[asyncio.Task[Any]]" = field(default_factory=set)
    """Without those of the Lease."""
    met: Counter[str] = field(default_factory=Counter)

    def now_weather(self) -> Weather:
        return self.rough if self.rough is not None and seconds() < self.rough_until else self.weather

    def heal(self) -> None:
        """From now on everything comes through; what is late is on its way still."""
        self.weather, self.rough = CALM, None
        self.lags.clear()
        self.stalled.clear()
        self.cut.clear()
        self.before_next.clear()

    async def passes(self, name: str) -> None:
        """A way through that may be cut for a while, also while somebody waits there."""
        while (left := self.cut.get(name, 0.0) - seconds()) > 0:
            await asyncio.sleep(min(left, 0.5))

    async def delivers(self, plural: str) -> None:
        lag = self.lags.get(plural, 0.0) + self.weather.delay
        await asyncio.sleep(self.chance.uniform(0, lag))
        while (left := self.stalled.get(plural, 0.0) - seconds()) > 0:
            await asyncio.sleep(min(left, 0.5))


class Link:
    """The connection of one replica, ``name``."""

    def __init__(self, network: Network, name: str, observer: WriteObserver | None = None) -> None:
        self.name: Final = name
        self._network, self._observer = network, observer or NoObserver()
        self._registry = network.registry
        self._routes = ResourcePaths(tuple(self._registry.kinds.values()))

    async def get(self, path: str, query: Mapping[str, str] = _NOTHING, *, timeout: float | None = None) -> bytes:  # noqa: ARG002
        return await self._repeated(lambda: self._read(path, query))

    async def send(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        content_type: str = _JSON,
        query: Mapping[str, str] = _NOTHING,  # noqa: ARG002
        idempotent: bool = False,
        timeout: float | None = None,
        once: bool = False,
        metadata_only: bool = False,  # noqa: ARG002
        may_send: Callable[[], bool] = lambda: True,
    ) -> bytes:
        assert timeout is not None
        if not may_send():
            raise WritesSuspended
        route = self._route(path)
        sent = self._observer.leaves(self, method, route)

        def done() -> bytes:
            return self._written(sent, route, body, content_type)

        return await self._repeated(done, sent, is_repeatable=idempotent, once=once)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        query: Mapping[str, str],
        *,
        idle: float,  # noqa: ARG002
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        network, route = self._network, self._route(path)
        await network.passes(self.name)
        await asyncio.sleep(network.chance.uniform(0, network.now_weather().delay))
        self._refuse_sometimes(network.now_weather())
        options = list_options(route.kind, query, namespace=route.namespace)
        events = watch(self._registry.store, route.kind, options, bookmarks=_BOOKMARKS, clock=seconds)
        try:
            await anext(events)
        except StatusError as refusal:
            raise _error(refusal) from None
        async with aclosing(self._lines(events, route.kind.plural)) as lines:
            yield lines

    async def _lines(self, events: Any, plural: str) -> AsyncGenerator[bytes]:
        network, breaks = self._network, self._network.breaks[plural]
        async with aclosing(events):
            async for batch in events:
                await network.delivers(plural)
                await network.passes(self.name)
                for line in batch:
                    if network.breaks[plural] != breaks:
                        network.met["a watch that broke off"] += 1
                        raise Unreachable("the connection broke off")
                    yield line

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _repeated(
        self, done: Callable[[], bytes], sent: Sent | None = None, *, is_repeatable: bool = True, once: bool = False
    ) -> bytes:
        """As a transport does it: what was certainly not done is sent again. ``sent``: None for a read."""
        failed = 0
        while True:
            try:
                return await self._call(done, sent)
            except CallFailed as error:
                failed += 1
                chance = self._network.chance.random()
                pause = _RETRIES.pause(error, failed=failed, is_repeatable=is_repeatable, chance=chance)
                if once or pause is None:
                    raise
            await asyncio.sleep(pause)

    async def _call(self, done: Callable[[], bytes], sent: Sent | None) -> bytes:
        network = self._network
        # In a separate task: what has left arrives, even if its sender ends.
        arriving = asyncio.ensure_future(self._arrive(done, network.now_weather(), is_write=sent is not None))
        for flights in (network.in_flight, network.writes_in_flight)[: 2 if sent and sent.plural != "leases" else 1]:
            flights.add(arriving)
            arriving.add_done_callback(flights.discard)
        answer = await asyncio.shield(arriving)
        await asyncio.sleep(network.chance.uniform(0, network.weather.delay))
        await network.passes(self.name)
        if isinstance(answer, CallFailed):
            raise answer
        return answer

    async def _arrive(self, done: Callable[[], bytes], weather: Weather, *, is_write: bool) -> bytes | CallFailed:
        network = self._network
        chance, met = network.chance, network.met
        drawn = [chance.random() for _ in range(3)]
        await asyncio.sleep(chance.uniform(0, weather.delay))
        await network.passes(self.name)
        if drawn[0] < weather.lost:
            met["a lost request"] += 1
            return Unreachable("the connection broke off")
        if drawn[0] < weather.lost + weather.hang:
            met["a request that came late"] += 1
            await asyncio.sleep(chance.uniform(0, _LONGEST_HANG))
        try:
            self._refuse_sometimes(weather)
            if is_write and weather.conflict and chance.random() < weather.conflict:
                raise StatusError(409, "Conflict", "on purpose")
            result = done()
        except StatusError as refusal:
            met[f"{refusal.code}{' to a write' if is_write else ''}"] += 1
            return _error(refusal)
        except CallFailed as error:
            return error
        if is_write and drawn[1] < weather.unanswered:
            met["a lost answer"] += 1
            return Unreachable("the connection broke off")
        if drawn[2] < weather.fault_after:
            met["a fault after all was done"] += 1
            return _error(StatusError(504, "Timeout", "after all was done"))
        return result

    def _refuse_sometimes(self, weather: Weather) -> None:
        drawn = self._network.chance.random()
        if drawn < weather.too_many:
            self._network.met["429"] += 1
            raise api_error(429, b"too many", retry_after=1.0)
        if drawn < weather.too_many + weather.fault_before:
            self._network.met["500"] += 1
            raise api_error(500, b"before anything was done")

    # --- what a server does -------------------------------------------------------------------------------------------

    def _route(self, path: str) -> ResourcePath:
        route = self._routes.route(path)
        assert route is not None, path
        return route

    def _read(self, path: str, query: Mapping[str, str]) -> bytes:
        route, store = self._route(path), self._registry.store
        kind = route.kind
        if route.name:
            return self._registry.record(kind, route.namespace, route.name).data
        result = list_objects(store, kind, list_options(kind, query, namespace=route.namespace))
        head = len(head_of(kind))
        items = b",".join([b"{" + record.data[head:] for _, record in result.records])
        return b'{"kind":"List","metadata":%s,"items":[%s]}' % (msgspec.json.encode(result.metadata()), items)

    def _written(self, sent: Sent, route: ResourcePath, body: bytes, content_type: str) -> bytes:
        if sent.plural == "endpointslices":
            while self._network.before_next:
                self._network.before_next.pop()()
        self._observer.current = sent
        try:
            return self._do(sent.method, route, body, content_type)
        finally:
            self._observer.current = None

    def _do(self, method: str, route: ResourcePath, body: bytes, content_type: str) -> bytes:
        registry, kind, namespace, name = self._registry, route.kind, route.namespace, route.name
        if method == "DELETE":
            options = msgspec.json.decode(body, type=DeleteOptions)
            return msgspec.json.encode(registry.delete(kind, namespace, name, options).object)
        write = Write(subresource=route.subresource, is_patch=method == "PATCH")
        if method == "PATCH":
            done = registry.update(
                kind, namespace, name, lambda old: patch_object(old, body, kind, content_type=content_type)[0], write
            )
        else:
            object_, warnings = decode_object(body, content_type, kind, validation="Strict")
            assert not warnings, warnings
            if method == "POST":
                done = registry.create(kind, namespace, object_)
            else:
                assert method == "PUT", method
                done = registry.update(kind, namespace, name, lambda _old: object_, write)
        return done.record.data if done.record is not None else msgspec.json.encode(done.object)


def _error(refusal: StatusError) -> CallFailed:
    return api_error(refusal.code, msgspec.json.encode(refusal.status()))
