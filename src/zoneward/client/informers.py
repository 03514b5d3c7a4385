"""Stores for the kinds that a program watches, and the reflectors that keep them current."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, NoReturn, cast

from zoneward.client.all_results import all_results
from zoneward.client.api_errors import CallFailed
from zoneward.client.list_pager import EVERYTHING, ListScope
from zoneward.client.list_watch_decoder import UnreadableHandler, UnreadableObject
from zoneward.client.object_store import IndexUpdater, ObjectStore
from zoneward.client.reflector import Reflector, ReflectorRuntime, ReflectorSettings, ServerFeatures
from zoneward.client.resources import NODES, RAW_SLICES, SERVICES, AnyWatchedResource, WatchedResource, WatchedT
from zoneward.client.transport_interface import ReadTransport
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
