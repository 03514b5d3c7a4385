"""What a node knows of its cluster: Services, their slices, and itself.

Slices that are meant for other zones stay as they came, packed, until there is nobody else to send to (KEP-2004
§ Kube-Proxy): in a large cluster they are most of all endpoints, and most of what is heard of.
"""

import asyncio
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, cast

import msgspec
from msgspec.structs import force_setattr
from msgspec.structs import replace as with_

from zoneward.client.interning import Packing
from zoneward.client.resources import (
    NODES,
    SEALED_SLICES,
    SERVICES,
    AnyResource,
    Key,
    LiveNode,
    Resource,
    SealedSlice,
    T,
    service_of,
)
from zoneward.client.store import Groups, Store
from zoneward.client.unreadable import OnUnreadable, Unreadable, problem_of
from zoneward.kube.names import HEADLESS_LABEL, PROXY_NAME_LABEL
from zoneward.kube.objects import Endpoint, EndpointSlice, ObjectMeta, ObjectReference, Service, zone_of
from zoneward.kube.readable_json import FAILURES
from zoneward.netlink.messages import Family
from zoneward.proxy.model.served import ADDRESS_TYPES, Node, Served
from zoneward.proxy.ruleset.large_services import MAX_SERVICE_ENTRIES, served_within
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import ZONEWARD, Consumer, SelectionRule, policies_of
from zoneward.routing.selection.group_labels import group_of_slice

TRIGGER_TIME: Final = "endpoints.kubernetes.io/last-change-trigger-time"
_NOTHING: Final = msgspec.Raw(b"null")
_MOST_LEFT_OUT: Final = 5
"""Values of a Service that are named."""
_FAST: Final = 1
"""The level of packing: a hundred endpoints in 0.1 ms, to a ninth of their size."""


class _Endpoint(Endpoint, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Without what a proxy has no use for, which is half of the memory."""

    hostname: str | None = msgspec.field(name="-hostname", default=None)
    target_ref: ObjectReference | None = msgspec.field(name="-targetRef", default=None)


_ENDPOINTS: Final = msgspec.json.Decoder(tuple[_Endpoint, ...] | None)


class Known:
    """Give it to `zoneward.client.following.follow`, with `queries`.

    ``on_service`` is told of each Service whose objects changed, unless that can make no difference here, and the time
    that a new slice gives for the change (`TRIGGER_TIME`); ``on_node`` of the own Node, None where it is gone.
    ``on_unreadable`` is told of objects that cannot be read.
    ``max_entries``: what one Service may take in a family (`zoneward.proxy.ruleset.large_services`).
    ``on_left_out`` is told what of a Service cannot be served, in a few lines, each time that changes (`LeftOut`).
    ``service_ranges`` are those of cluster IPs.
    ``proxy_name``: only Services that carry it in ``service.kubernetes.io/service-proxy-name`` are served; None: only
    those without that label.
    """

    resources: Final[tuple[AnyResource, ...]] = (SERVICES, SEALED_SLICES, NODES)

    def __init__(
        self,
        node: str,
        *,
        zone: str | None = None,
        gates: FeatureGates,
        consumer: Consumer = ZONEWARD,
        proxy_name: str | None = None,
        max_entries: int = MAX_SERVICE_ENTRIES,
        service_ranges: Sequence[str] = (),
        on_service: Callable[[Key, str | None], None] = lambda _key, _trigger: None,
        on_node: Callable[[LiveNode | None], None] = lambda _node: None,
        on_left_out: Callable[[Key, tuple[str, ...]], None] = lambda _key, _what: None,
        on_unreadable: OnUnreadable = lambda _found: None,
    ) -> None:
        self.node = Node(name=node, zone=zone)
        """The zone stays what it was where the Node is gone."""
        self.synced: Final = asyncio.Event()
        """Set once every kind has been listed; it stays set."""
        self._gates, self._consumer, self._proxy_name = gates, consumer, proxy_name
        self._max_entries = max_entries
        self._service_ranges = tuple(service_ranges)
        self._on_service, self._on_node, self._on_left_out = on_service, on_node, on_left_out
        self.left_out: Final[dict[Key, tuple[str, ...]]] = {}
        """What of each Service cannot be served, in a few lines; without Services of which all is."""
        self._packing = Packing()
        self._missing = {resource.kind for resource in self.resources}
        self._slices_of = Groups(service_of)
        self._open: dict[Key, EndpointSlice] = {}
        self._sealed: dict[Key, tuple[EndpointSlice, bytes]] = {}
        """Without endpoints, and these, packed."""
        self._looked_into: set[Key] = set()
        """Services for which slices of other zones had to be decoded, or whose selection failed."""
        self._is_of_others = False
        """Whether the slice that changes now was packed and is, and nobody looked into it."""
        self.services: Final = Store[Service](listed=lambda: self._listed(SERVICES.kind), on_unreadable=on_unreadable)
        self.slices: Final = Store[SealedSlice](
            self._slice_changes, listed=lambda: self._listed(SEALED_SLICES.kind), on_unreadable=on_unreadable
        )
        self.nodes: Final = Store[LiveNode](listed=lambda: self._listed(NODES.kind), on_unreadable=on_unreadable)
        # The keeper sees a change before the store has it: who asks for what is served has to come after.
        self.services.subscribe(self._tell_service)
        self.slices.subscribe(self._tell_slice)
        self.nodes.subscribe(self._tell_node)

    @property
    def queries(self) -> dict[str, dict[str, str]]:
        """By kind, what limits its lists and watches: as upstream, without what is headless or others' to serve."""
        ours = f"!{PROXY_NAME_LABEL}" if self._proxy_name is None else f"{PROXY_NAME_LABEL}={self._proxy_name}"
        selected = {"labelSelector": f"{ours},!{HEADLESS_LABEL}"}
        return {
            SERVICES.kind: selected,
            SEALED_SLICES.kind: selected,
            NODES.kind: {"fieldSelector": f"metadata.name={self.node.name}"},
        }

    def store(self, resource: Resource[T]) -> Store[T]:
        """Where objects of a kind are kept."""
        stores = {SERVICES.kind: self.services, NODES.kind: self.nodes, SEALED_SLICES.kind: self.slices}
        return cast(Store[T], stores[resource.kind])

    @property
    def numbers(self) -> tuple[int, int]:
        """How many slices are decoded, and how many are not."""
        return len(self._open), len(self._sealed)

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """All objects that cannot be read now, by kind and name."""
        stores = (self.services, self.slices, self.nodes)
        return tuple(each for store in stores for _, each in sorted(store.unreadable.items()))

    def keys(self) -> Iterator[Key]:
        """Of all Services."""
        return ((each.metadata.namespace, each.metadata.name) for each in self.services)

    def endpoints(self, key: Key) -> Iterator[Endpoint]:
        """All endpoints of a Service, those of other zones too."""
        for each in self._slices(self._slices_of.get(key), everything=True):
            yield from each.endpoints or ()

    def served(self, key: Key) -> dict[Family, Served]:
        """A Service as this node serves it, in each of its families; nothing for one that it does not serve.

        Raises TooLarge for one with more entries than it may have.
        """
        left_out: dict[str, None] = {}
        found = self._selected(key, left_out)
        self._leave_out(key, left_out)
        return found

    def _selected(self, key: Key, left_out: dict[str, None]) -> dict[Family, Served]:
        service = self.services.get(*key)
        if service is None:
            self._looked_into.discard(key)
            return {}
        self._looked_into.add(key)
        slices = self._slices_of.get(key)
        found = self._served(service, self._slices(slices, everything=False), left_out)
        others = {self._sealed[each][0].address_type for each in slices if each in self._sealed}
        if others and self._lacks(service, found):
            return self._served(service, self._slices(slices, everything=True), left_out)
        self._looked_into.discard(key)
        if not others:
            return found
        return {family: _by_zone(each) if ADDRESS_TYPES[family] in others else each for family, each in found.items()}

    def _served(
        self, service: Service, slices: Iterable[EndpointSlice], left_out: dict[str, None]
    ) -> dict[Family, Served]:
        return served_within(
            self._max_entries,
            service,
            tuple(slices),
            node=self.node,
            consumer=self._consumer,
            gates=self._gates,
            service_ranges=self._service_ranges,
            left_out=left_out.setdefault,
        )

    def _leave_out(self, key: Key, left_out: dict[str, None]) -> None:
        what = tuple(islice(left_out, _MOST_LEFT_OUT))
        if len(left_out) > len(what):
            what = (*what, f"{len(left_out) - len(what)} more")
        if what == self.left_out.get(key, ()):
            return
        if what:
            self.left_out[key] = what
        else:
            del self.left_out[key]
        self._on_left_out(key, what)

    def _lacks(self, service: Service, found: dict[Family, Served]) -> bool:
        """Whether slices of other zones have to be looked into: local endpoints may lie there, or all that there are,
        or one that a client of UDP is to keep."""
        return policies_of(service, self._gates).uses_local or any(
            not port.cluster or port.rule is SelectionRule.TERMINATING or port.protocol == "udp"
            for each in found.values()
            for port in each.ports
        )

    # --- slices -------------------------------------------------------------------------------------------------------

    def _slices(self, keys: Iterable[Key], *, everything: bool) -> Iterator[EndpointSlice]:
        for key in keys:
            there = self._open.get(key)
            if there is not None:
                yield there
            elif everything:
                yield self._opened(*self._sealed[key])

    def _opened(self, empty: EndpointSlice, packed: bytes) -> EndpointSlice:
        try:
            return self._decoded(empty, zlib.decompress(packed))
        except FAILURES as error:
            self._cannot_read(empty, error)
            return empty

    def _cannot_read(self, slice_: EndpointSlice, error: Exception) -> None:
        metadata = slice_.metadata
        self.slices.set_aside(
            Unreadable(
                resource=SEALED_SLICES,
                namespace=metadata.namespace,
                name=metadata.name,
                uid=metadata.uid,
                version=metadata.resource_version or "",
                labels=metadata.labels or {},
                problem=f"endpoints: {problem_of(error, EndpointSlice)}",
            )
        )

    def _decoded(self, empty: EndpointSlice, endpoints: bytes | msgspec.Raw) -> EndpointSlice:
        found = with_(empty, endpoints=_ENDPOINTS.decode(endpoints))
        self._packing.slice(found)
        return found

    def _is_meant(self, slice_: EndpointSlice) -> bool:
        """Whether a slice may be for this node; all are for one without a zone."""
        zone = self.node.zone
        if zone is None or not self._gates.topology_aware_subsetting:
            return True
        group = group_of_slice(slice_, reads=self._consumer.zone_slices)
        return group is None or zone in group.zones

    def _slice_changes(self, key: Key, old: SealedSlice | None, new: SealedSlice | None) -> None:
        before_open, before = self._open.pop(key, None), self._sealed.pop(key, None)
        if new is not None and not self._take(key, new):
            # What there was of it stays in force.
            if before is not None:
                self._sealed[key] = before
            else:
                self._open[key] = before_open or EndpointSlice(address_type=new.address_type)
        self._slices_of.change(key, old, new)
        after = self._sealed.get(key)
        self._is_of_others = (
            (before is not None and after is not None and before[0].address_type == after[0].address_type)
            and (old is not None and new is not None and service_of(old) == service_of(new))
            and service_of(new) not in self._looked_into
        )

    def _take(self, key: Key, slice_: SealedSlice) -> bool:
        """False where its endpoints cannot be read."""
        metadata, raw = slice_.metadata, slice_.endpoints
        # All the rest of the message would stay with them.
        force_setattr(slice_, "endpoints", _NOTHING)
        empty = EndpointSlice(
            metadata=ObjectMeta(
                name=metadata.name,
                namespace=metadata.namespace,
                labels=metadata.labels,
                annotations=metadata.annotations,
                resource_version=metadata.resource_version,
            ),
            address_type=slice_.address_type,
            ports=slice_.ports,
        )
        if not self._is_meant(empty):
            self._packing.slice(empty)
            self._sealed[key] = empty, zlib.compress(raw, _FAST)
            return True
        try:
            self._open[key] = self._decoded(empty, raw)
        except FAILURES as error:
            self._cannot_read(empty, error)
            return False
        return True

    def _zone_changes(self) -> None:
        """Slices are opened and packed anew, each where it is for another zone now."""
        for key, (empty, packed) in list(self._sealed.items()):
            if self._is_meant(empty):
                del self._sealed[key]
                self._open[key] = self._opened(empty, packed)
        for key, slice_ in list(self._open.items()):
            if not self._is_meant(slice_):
                del self._open[key]
                # What was not decoded is not missed: nobody but us reads it.
                packed = zlib.compress(msgspec.json.encode(slice_.endpoints), _FAST)
                self._sealed[key] = with_(slice_, endpoints=None), packed

    # --- what changes -------------------------------------------------------------------------------------------------

    def _listed(self, kind: str) -> None:
        self._missing.discard(kind)
        if not self._missing:
            self.synced.set()

    def _tell_service(self, old: Service | None, new: Service | None) -> None:
        some = new or old
        assert some is not None
        self._on_service((some.metadata.namespace, some.metadata.name), None)

    def _tell_slice(self, old: SealedSlice | None, new: SealedSlice | None) -> None:
        if self._is_of_others:
            # What is served was selected without it: nothing comes of it.
            return
        for each in (old, new):
            if each is not None:
                key = service_of(each)
                is_last = each is new or new is None or service_of(new) != key
                if is_last:
                    trigger = (each.metadata.annotations or {}).get(TRIGGER_TIME) if each is new else None
                    self._on_service(key, trigger)

    def _tell_node(self, _old: LiveNode | None, new: LiveNode | None) -> None:
        if new is not None and new.metadata.name == self.node.name:
            zone = zone_of(new)
            if zone != self.node.zone:
                self.node = Node(name=self.node.name, zone=zone)
                self._zone_changes()
                for service in self.keys():
                    self._on_service(service, None)
        self._on_node(new)


def _by_zone(each: Served) -> Served:
    """Endpoints of other zones were not even looked at: those that are left are not all."""
    return replace(
        each,
        ports=tuple(
            replace(port, rule=SelectionRule.ZONE_SLICES) if port.rule is SelectionRule.ALL else port
            for port in each.ports
        ),
    )
