"""The ConfigMaps from which the API server takes the hints of an overlay: one for each namespace with Services in it.

Only what changed is written, as a merge patch, so that two Services of a namespace never overwrite each other's
entries, and a write is small however large the ConfigMap is. The watch shows what
somebody else writes into it, and the Service of such an entry is synced again.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from zoneward.client.api_errors import Conflict, NotFound
from zoneward.client.informers import WatchedStores
from zoneward.client.list_pager import ListScope
from zoneward.client.list_watch_decoder import UnreadableHandler
from zoneward.client.resources import CONFIG_MAPS, NAMESPACES, LiveConfigMap, LiveConfigMapMeta, service_key_of
from zoneward.client.writer import Writer
from zoneward.kube.names import OVERLAY_CONFIG_MAP
from zoneward.kube.objects import (
    EndpointSlice,
    Namespace,
    ObjectKey,
    parse_resource_version,
)
from zoneward.slices.overlay import approach_of_entries, service_of_entry, with_approach

MAX_BYTES: Final = 512 * 1024
"""Of all entries of a namespace. An API server refuses a ConfigMap above 1 MiB, and etcd one above 1.5 MiB together
with its ``managedFields``, which repeat every key."""
_NO_ENTRIES: Final[Mapping[str, str]] = MappingProxyType({})


class OverlayStores(WatchedStores):
    """What an overlay watches besides the cache: its ConfigMaps, and the labels of namespaces."""

    def __init__(self, *, on_unreadable: UnreadableHandler) -> None:
        super().__init__((CONFIG_MAPS, NAMESPACES), on_unreadable=on_unreadable)
        self.config_maps: Final = self.add_store(CONFIG_MAPS)
        self.namespaces: Final = self.add_store(NAMESPACES)
        self.list_options: Final = {
            CONFIG_MAPS.kind: ListScope(field_selector=f"metadata.name={OVERLAY_CONFIG_MAP}"),
            NAMESPACES.kind: ListScope(),
        }

    def labels_of(self, namespace: str) -> Mapping[str, str] | None:
        known: Namespace | None = self.namespaces.get("", namespace)
        return None if known is None else known.metadata.labels


@dataclass(slots=True)
class _NamespaceParameters:
    """The ConfigMap of a namespace, as the API server last showed it. ``uid`` None: there is none."""

    entries: dict[str, dict[str, str]] = field(default_factory=dict)
    """By the name of their Service."""
    uid: str | None = None
    version: int | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class OverlayParameters:
    """``on_change`` gets the Services whose entries another writer changed, ``on_approach`` those whose approach in
    force is another one now.
    """

    def __init__(
        self,
        stores: OverlayStores,
        writer: Writer,
        *,
        on_change: Callable[[Iterable[ObjectKey]], None],
        on_approach: Callable[[ObjectKey], None],
    ) -> None:
        self.stores: Final = stores
        self._writer, self._on_change, self._on_approach = writer.once(), on_change, on_approach
        self._namespaces: dict[str, _NamespaceParameters] = {}
        stores.config_maps.subscribe(self._config_map_changed)

    def entries_of(self, key: ObjectKey) -> Mapping[str, str]:
        parameters = self._namespaces.get(key[0])
        return _NO_ENTRIES if parameters is None else parameters.entries.get(key[1], _NO_ENTRIES)

    def approach_of(self, key: ObjectKey, address_type: str) -> str | None:
        """The approach in force for a Service and address family."""
        return approach_of_entries(self.entries_of(key), key[1], address_type)

    def as_planned(self, slice_: EndpointSlice) -> EndpointSlice:
        """A slice with the approach that is in force for it."""
        key = service_key_of(slice_)
        return with_approach(slice_, self.approach_of(key, slice_.address_type))

    def fits(self, key: ObjectKey, entries: Mapping[str, str]) -> bool:
        """Whether the entries of a Service have room beside those of the other Services of its namespace."""
        parameters = self._namespaces.get(key[0])
        others = () if parameters is None else (own for name, own in parameters.entries.items() if name != key[1])
        return _size(entries) + sum(map(_size, others)) <= MAX_BYTES

    @property
    def is_empty(self) -> bool:
        """Whether no Service has entries."""
        return not any(parameters.entries for parameters in self._namespaces.values())

    # --- writes -------------------------------------------------------------------------------------------------------

    async def write(self, key: ObjectKey, entries: Mapping[str, str]) -> bool:
        """Replace the entries of a Service. Returns whether anything was written. Raises CallFailed."""
        namespace, name = key
        parameters = self._namespaces.setdefault(namespace, _NamespaceParameters())
        async with parameters.lock:
            present = parameters.entries.get(name, _NO_ENTRIES)
            changes: dict[str, str | None] = {
                entry: value for entry, value in entries.items() if present.get(entry) != value
            }
            changes |= {entry: None for entry in present if entry not in entries}
            if not changes:
                return False
            if entries or len(parameters.entries) > 1:
                await self._change(namespace, parameters, changes, name, entries)
            else:
                await self._delete(namespace, parameters)
            self._set(namespace, parameters, name, entries)
            return True

    async def _change(
        self,
        namespace: str,
        parameters: _NamespaceParameters,
        changes: Mapping[str, str | None],
        name: str,
        entries: Mapping[str, str],
    ) -> None:
        metadata = None
        if parameters.uid is not None:
            try:
                metadata = await self._writer.patch(
                    CONFIG_MAPS, {"data": changes}, namespace=namespace, name=OVERLAY_CONFIG_MAP
                )
            except NotFound:
                parameters.uid = None
        if metadata is None:
            data = {entry: value for own in parameters.entries.values() for entry, value in own.items()}
            for entry in parameters.entries.get(name, ()):
                del data[entry]
            metadata = await self._writer.apply(CONFIG_MAPS, _config_map(namespace, data | dict(entries)))
        parameters.uid, parameters.version = metadata.uid, parse_resource_version(metadata.resource_version)

    async def _delete(self, namespace: str, parameters: _NamespaceParameters) -> None:
        """The last Service of the namespace leaves the overlay: nothing remains."""
        if parameters.uid is not None:
            config_map = _config_map(namespace, {})
            config_map = replace(config_map, metadata=replace(config_map.metadata, uid=parameters.uid))
            try:
                await self._writer.delete(CONFIG_MAPS, config_map)
            except Conflict:
                # Somebody replaced it: the watch will show what it holds.
                return
        parameters.uid = parameters.version = None

    def _set(self, namespace: str, parameters: _NamespaceParameters, name: str, entries: Mapping[str, str]) -> None:
        before = parameters.entries.pop(name, _NO_ENTRIES)
        if entries:
            parameters.entries[name] = dict(entries)
        if any(
            approach_of_entries(before, name, address_type) != approach_of_entries(entries, name, address_type)
            for address_type in ("IPv4", "IPv6")
        ):
            self._on_approach((namespace, name))

    # --- the watch ----------------------------------------------------------------------------------------------------

    def _config_map_changed(self, old: LiveConfigMap | None, new: LiveConfigMap | None) -> None:
        changed = new if new is not None else old
        assert changed is not None
        namespace = changed.metadata.namespace
        parameters = self._namespaces.setdefault(namespace, _NamespaceParameters())
        if new is None and parameters.uid not in (None, changed.metadata.uid):
            # It is an earlier one that was deleted.
            return
        version = None if new is None else parse_resource_version(new.metadata.resource_version)
        if version is not None and parameters.version is not None and version <= parameters.version:
            # This replica's own write, or a state before it.
            return
        parameters.uid, parameters.version = (None, None) if new is None else (new.metadata.uid, version)
        entries: dict[str, dict[str, str]] = {}
        for entry, value in ((new.data if new is not None else None) or {}).items():
            entries.setdefault(service_of_entry(entry), {})[entry] = value
        names = sorted(
            name
            for name in parameters.entries.keys() | entries.keys()
            if parameters.entries.get(name) != entries.get(name)
        )
        for name in names:
            self._set(namespace, parameters, name, entries.get(name, _NO_ENTRIES))
        if names:
            self._on_change([(namespace, name) for name in names])


def _config_map(namespace: str, data: Mapping[str, str]) -> LiveConfigMap:
    labels = {"app.kubernetes.io/name": OVERLAY_CONFIG_MAP, "app.kubernetes.io/managed-by": "zoneward"}
    metadata = LiveConfigMapMeta(name=OVERLAY_CONFIG_MAP, namespace=namespace, labels=labels)
    return LiveConfigMap(metadata=metadata, data=dict(data))


def _size(entries: Mapping[str, str]) -> int:
    return sum(len(entry) + len(value) for entry, value in entries.items())
