"""What a node's meter watches: all Services and EndpointSlices, and its own Node; indexed as flows are looked up."""

import time
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from zoneward.client.informers import NodeWatchedStores
from zoneward.client.list_watch_decoder import UnreadableHandler, unreadable_endpoints
from zoneward.client.resources import (
    NODES,
    RAW_SLICES,
    SERVICES,
    LiveNode,
    RawEndpointSlice,
    service_key_of,
)
from zoneward.kube.json_documents import DECODE_ERRORS
from zoneward.kube.objects import ObjectKey, Service
from zoneward.meter.service_index import EndpointZones, MeteredNode, ServiceIndex
from zoneward.routing.selection.address_ownership import AddressKind
from zoneward.routing.selection.entry_budget import EntryBudget

_NOTHING: Final = msgspec.Raw(b"null")


class _Endpoint(msgspec.Struct, frozen=True, gc=False):
    """What a meter reads of an endpoint."""

    addresses: tuple[str, ...] | None = None
    zone: str | None = None


_ENDPOINTS: Final = msgspec.json.Decoder(tuple[_Endpoint, ...] | None)


class MeterCache(NodeWatchedStores):
    """Pass it to `zoneward.client.informers.run_informers`, with `list_options`.

    ``budget`` limits the addresses and ports of Services; ``on_set_aside`` gets each Service that exceeds it, and why.
    ``on_unreadable`` gets objects that cannot be decoded; their last valid version stays. ``clock`` counts seconds.
    """

    def __init__(
        self,
        node: str,
        *,
        budget: EntryBudget | None = None,
        on_unreadable: UnreadableHandler = lambda _found: None,
        on_set_aside: Callable[[ObjectKey, str], None] = lambda _service, _why: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(node, on_unreadable=on_unreadable)
        self.node_name: Final = node
        self.node = MeteredNode()
        """Unchanged after the Node was deleted."""
        self.services: Final = ServiceIndex(budget, on_set_aside=on_set_aside)
        self.endpoints: Final = EndpointZones()
        self.changes = 0
        """Incremented with each change of the index."""
        self._clock = clock
        self._service_store = self.add_store(SERVICES, self._index_service)
        self._slice_store = self.add_store(RAW_SLICES, self._index_slice)
        self.add_store(NODES, self._index_node)

    @property
    def counts(self) -> tuple[int, int]:
        """The number of Services and of slices."""
        return len(self._service_store), len(self._slice_store)

    # --- lookups of flows (`zoneward.meter.flow_meter.TrafficIndex`) --------------------------------------------------

    @property
    def node_zone(self) -> str | None:
        return self.node.zone

    def __contains__(self, service: ObjectKey) -> bool:
        return service in self.services

    def find_service(self, destination: bytes, protocol: int, port: bytes) -> tuple[ObjectKey, AddressKind] | None:
        return self.services.find(destination, protocol, port)

    def endpoint_zone(self, service: ObjectKey, endpoint: bytes) -> str | None:
        return self.endpoints.zone(service, endpoint)

    def is_local(self, source: bytes) -> bool:
        return self.node.is_local(source)

    def forget_gone(self) -> None:
        self.endpoints.forget_gone(now=self._clock())

    # --- what changes -------------------------------------------------------------------------------------------------

    def _index_service(self, key: ObjectKey, _old: Service | None, new: Service | None) -> None:
        self.changes += 1
        self.services.set_service(key, new)

    def _index_slice(self, key: ObjectKey, _old: RawEndpointSlice | None, new: RawEndpointSlice | None) -> None:
        self.changes += 1
        if new is None:
            self.endpoints.remove_slice(key, now=self._clock())
            return
        raw = new.endpoints
        # They would keep the whole message in memory.
        force_setattr(new, "endpoints", _NOTHING)
        force_setattr(new.metadata, "annotations", None)
        try:
            endpoints = _ENDPOINTS.decode(raw) or ()
        except DECODE_ERRORS as error:
            self._slice_store.mark_unreadable(unreadable_endpoints(new, error))
            return
        addresses = ((address, endpoint.zone) for endpoint in endpoints for address in endpoint.addresses or ())
        self.endpoints.set_slice(key, service_key_of(new), addresses, now=self._clock())

    def _index_node(self, _key: ObjectKey, _old: LiveNode | None, new: LiveNode | None) -> None:
        if new is None or new.metadata.name != self.node_name:
            return
        self.changes += 1
        addresses = [address.address for address in (new.status.addresses or ())] if new.status is not None else []
        self.services.set_node_addresses(addresses)
        self.node = MeteredNode.of_node(new)
