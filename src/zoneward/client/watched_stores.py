"""A store for each kind that a program watches: what every cache of the API server's objects has, or one of a node."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final, cast

from zoneward.client.list_pager import ListScope
from zoneward.client.list_watch_decoder import UnreadableHandler, UnreadableObject
from zoneward.client.object_store import IndexUpdater, ObjectStore
from zoneward.client.resources import NODES, RAW_SLICES, SERVICES, AnyWatchedResource, WatchedResource, WatchedT
from zoneward.kube.names import HEADLESS_LABEL


class WatchedStores:
    """What `zoneward.client.informers.run_informers` fills. A cache adds its stores, and what it looks up in them.

    ``on_unreadable`` is called with objects that cannot be decoded; `ObjectStore` says what becomes of them.
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
        """The new store of a kind."""
        store = ObjectStore[WatchedT](
            update_indexes, on_listed=lambda: self._mark_listed(resource.kind), on_unreadable=self._on_unreadable
        )
        self._stores[resource.kind] = store
        return store

    def store(self, resource: WatchedResource[WatchedT]) -> ObjectStore[WatchedT]:
        """Where objects of a kind are kept."""
        return cast(ObjectStore[WatchedT], self._stores[resource.kind])

    @property
    def unreadable(self) -> tuple[UnreadableObject, ...]:
        """All objects that cannot be decoded now, by kind and name."""
        return tuple(each for store in self._stores.values() for _, each in sorted(store.unreadable.items()))

    def _mark_listed(self, kind: str) -> None:
        self._unlisted.discard(kind)
        if not self._unlisted:
            self.synced.set()


class NodeWatchedStores(WatchedStores):
    """What a program on a node watches: Services and EndpointSlices, and its own Node.

    ``label_selector`` narrows the first two further: nothing on a node translates traffic to headless Services.
    """

    def __init__(self, node: str, *, label_selector: str = "", on_unreadable: UnreadableHandler) -> None:
        super().__init__((SERVICES, RAW_SLICES, NODES), on_unreadable=on_unreadable)
        selected = ListScope(label_selector=",".join(filter(None, (label_selector, f"!{HEADLESS_LABEL}"))))
        self.list_options: Final = {
            SERVICES.kind: selected,
            RAW_SLICES.kind: selected,
            NODES.kind: ListScope(field_selector=f"metadata.name={node}"),
        }
        """By kind, what limits its lists and watches."""
