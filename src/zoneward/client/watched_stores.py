"""Stores for the kinds that a program watches: the base of the caches of a cluster and of a node."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final, cast

from zoneward.client.list_pager import ListScope
from zoneward.client.list_watch_decoder import UnreadableHandler, UnreadableObject
from zoneward.client.object_store import IndexUpdater, ObjectStore
from zoneward.client.resources import NODES, RAW_SLICES, SERVICES, AnyWatchedResource, WatchedResource, WatchedT
from zoneward.kube.names import HEADLESS_LABEL


class WatchedStores:
    """The stores that `zoneward.client.informers.run_informers` fills. A cache adds its stores and indexes.

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
