"""Stores for the kinds that a program watches, the reflectors that keep them current, and whether watches work."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NoReturn, cast

from zoneward.client.api_errors import CallFailed, Gone
from zoneward.client.list_pager import EVERYTHING, ListScope
from zoneward.client.list_watch_decoder import UnreadableHandler, UnreadableObject
from zoneward.client.object_store import IndexUpdater, ObjectStore
from zoneward.client.reflector import Reflector, ReflectorRuntime, ReflectorSettings, ServerFeatures
from zoneward.client.resources import NODES, RAW_SLICES, SERVICES, AnyWatchedResource, WatchedResource, WatchedT
from zoneward.client.transport_interface import ReadTransport, all_results
from zoneward.kube.names import HEADLESS_LABEL


class WatchedStores:
    """The stores that `run_informers` fills, as the base of a cache, which adds its stores and indexes.

    ``on_unreadable`` is called with objects that cannot be decoded; see `ObjectStore`.
    """

    def __init__(self, resources: Iterable[AnyWatchedResource], *, on_unreadable: UnreadableHandler) -> None:
        self.resources: Final = tuple(resources)
        self.synced: Final = asyncio.Event()
        """Set once every kind in ``resources`` has been listed; it stays set."""
        self._unlisted = {resource.kind for resource in self.resources}
        self._stores: dict[str, ObjectStore[Any]] = {}
        self._on_unreadable = on_unreadable

    def add_store(
        self, resource: WatchedResource[WatchedT], update_indexes: IndexUpdater[WatchedT] | None = None
    ) -> ObjectStore[WatchedT]:
        """Add and return the store of a kind."""
        store = ObjectStore[WatchedT](
            update_indexes, on_listed=lambda: self._mark_listed(resource.kind), on_unreadable=self._on_unreadable
        )
        self._stores[resource.kind] = store
        return store

    def store(self, resource: WatchedResource[WatchedT]) -> ObjectStore[WatchedT]:
        """The store of a kind."""
        return cast(ObjectStore[WatchedT], self._stores[resource.kind])

    @property
    def unreadable(self) -> tuple[UnreadableObject, ...]:
        """All objects that cannot be decoded now, by kind and name."""
        return tuple(
            unreadable for store in self._stores.values() for _, unreadable in sorted(store.unreadable.items())
        )

    def _mark_listed(self, kind: str) -> None:
        self._unlisted.discard(kind)
        if not self._unlisted:
            self.synced.set()


class NodeWatchedStores(WatchedStores):
    """What a program on a node watches: Services and EndpointSlices, and its own Node.

    ``label_selector`` narrows Services and slices further. Headless Services are never watched: no proxy translates
    traffic to them.
    """

    def __init__(self, node: str, *, label_selector: str = "", on_unreadable: UnreadableHandler) -> None:
        super().__init__((SERVICES, RAW_SLICES, NODES), on_unreadable=on_unreadable)
        selected = ListScope(label_selector=",".join(filter(None, (label_selector, f"!{HEADLESS_LABEL}"))))
        self.list_options: Final = {
            SERVICES.kind: selected,
            RAW_SLICES.kind: selected,
            NODES.kind: ListScope(field_selector=f"metadata.name={node}"),
        }
        """The scope of lists and watches, by kind."""


ErrorHandler = Callable[[AnyWatchedResource, CallFailed], None]


async def run_informers(
    transport: ReadTransport,
    cache: WatchedStores,
    *,
    options: ListScope | Mapping[str, ListScope] = EVERYTHING,
    features: ServerFeatures | None = None,
    settings: ReflectorSettings | None = None,
    runtime: ReflectorRuntime | None = None,
    on_error: ErrorHandler = lambda _resource, _error: None,
    on_version: Callable[[AnyWatchedResource, int], None] = lambda _resource, _version: None,
) -> NoReturn:
    """Fill the cache and keep it current until cancelled; all kinds are listed at the same time.

    ``options`` apply to every kind, or are given by kind (``{"Node": ListScope(field_selector="metadata.name=n1")}``).
    ``on_error`` and ``on_version`` are those of a `Reflector`. Raises the first CallFailed that another attempt does
    not change (see `Reflector`), and any error of a handler of the cache.
    """
    shared = features or ServerFeatures()

    def reflect(resource: AnyWatchedResource) -> Coroutine[Any, Any, NoReturn]:
        return Reflector(
            transport,
            resource,
            cache.store(resource),
            options=options if isinstance(options, ListScope) else options.get(resource.kind, EVERYTHING),
            features=shared,
            settings=settings,
            runtime=runtime,
            on_error=lambda error: on_error(resource, error),
            on_version=lambda version: on_version(resource, version),
        ).run()

    await all_results(map(reflect, cache.resources))
    raise AssertionError("a reflector does not end")


# --- whether watches work ---------------------------------------------------------------------------------------------


_NO_QUERY: Mapping[str, str] = {}


class WatchHealth:
    """A transport that records which watches are open, and lasting errors by kind.

    Pass it to `run_informers` in place of the wrapped one, and `trouble` as ``on_error``.

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
