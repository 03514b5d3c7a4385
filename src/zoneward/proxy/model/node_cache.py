"""The cache of a node's proxy: Services, their EndpointSlices, and the Node.

The cache keeps slices for other zones undecoded and compressed until there are no other endpoints (KEP-2004 §
Kube-Proxy): in a large cluster they hold most endpoints, and are most of the received data.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import force_setattr
from msgspec.structs import replace as with_

from zoneward.client.informer_cache import Interner
from zoneward.client.informers import NodeWatchedStores
from zoneward.client.list_watch_decoder import unreadable_endpoints
from zoneward.client.object_store import KeyIndex
from zoneward.client.resources import (
    NODES,
    RAW_SLICES,
    SERVICES,
    LiveNode,
    RawEndpointSlice,
    service_key_of,
)
from zoneward.kube.json_documents import DECODE_ERRORS
from zoneward.kube.names import PROXY_NAME_LABEL
from zoneward.kube.objects import (
    Endpoint,
    EndpointSlice,
    ObjectKey,
    ObjectMeta,
    ObjectReference,
    Service,
    ServiceStatus,
    node_zone,
)
from zoneward.netlink.messages import ADDRESS_TYPES, Family
from zoneward.proxy.model.node_service import NodeService, ProxyNode, ServiceKey
from zoneward.proxy.reporter import Reporter
from zoneward.proxy.ruleset.service_rules import MAX_SERVICE_ENTRIES, ServiceTooLarge, node_services_within
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import ZONEWARD, SelectionRule, policies_of
from zoneward.routing.zone_groups import group_of_slice

TRIGGER_TIME: Final = "endpoints.kubernetes.io/last-change-trigger-time"
_NOTHING: Final = msgspec.Raw(b"null")
_MOST_LEFT_OUT: Final = 5
"""The maximum number of invalid values of a Service that are reported one by one."""
_FAST: Final = 1
"""The compression level: a hundred endpoints in 0.1 ms, to a ninth of their size."""


class _Endpoint(Endpoint, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """An endpoint without the fields that a proxy does not use, which are half of the memory."""

    hostname: str | None = msgspec.field(name="-hostname", default=None)
    target_ref: ObjectReference | None = msgspec.field(name="-targetRef", default=None)


_ENDPOINTS: Final = msgspec.json.Decoder(tuple[_Endpoint, ...] | None)


class _PackedSlice(NamedTuple):
    """A slice for other zones, without its endpoints, and its compressed endpoints."""

    empty: EndpointSlice
    packed: bytes

    @property
    def address_type(self) -> str:
        return self.empty.address_type


class NodeCache(NodeWatchedStores):
    """The Services, EndpointSlices and the Node that a proxy watches.

    Pass it to `zoneward.client.informers.run_informers`, with `list_options`.

    ``max_entries``: the limit for one Service in a family (`zoneward.proxy.ruleset.service_rules`). ``service_ranges``:
    the CIDRs of cluster IPs.
    ``proxy_name``: serve only Services with this value of the label ``service.kubernetes.io/service-proxy-name``; None:
    only those without the label.

    ``on_service`` gets each Service whose objects changed, unless that cannot affect this node, and the time of the
    change according to a new slice (`TRIGGER_TIME`). ``on_node`` gets the Node of this proxy; None after it was
    deleted.
    """

    def __init__(
        self,
        node: str,
        *,
        zone: str | None = None,
        gates: FeatureGates,
        proxy_name: str | None = None,
        max_entries: int = MAX_SERVICE_ENTRIES,
        service_ranges: Sequence[str] = (),
        reporter: Reporter | None = None,
        on_service: Callable[[ServiceKey, str | None], None] = lambda _key, _trigger: None,
        on_node: Callable[[LiveNode | None], None] = lambda _node: None,
    ) -> None:
        self._reporter = reporter or Reporter()
        # As upstream, exclude Services of other proxies.
        label_selector = f"!{PROXY_NAME_LABEL}" if proxy_name is None else f"{PROXY_NAME_LABEL}={proxy_name}"
        super().__init__(node, label_selector=label_selector, on_unreadable=self._reporter.unreadable)
        self.node = ProxyNode(name=node, zone=zone)
        """After the Node was deleted, this keeps its last zone."""
        self._gates, self._max_entries, self._service_ranges = gates, max_entries, tuple(service_ranges)
        self._on_service, self._on_node = on_service, on_node
        self.left_out_values: Final[dict[ObjectKey, tuple[str, ...]]] = {}
        """The first few invalid values of each Service that has any."""
        self._packing = Interner()
        self._slices_of = KeyIndex(service_key_of)
        self._stored: dict[ObjectKey, EndpointSlice | _PackedSlice] = {}
        self._needs_all_slices: set[ObjectKey] = set()
        """Services that need the slices of other zones, or whose selection failed."""
        self._is_irrelevant_slice = False
        """Whether the slice that changes now was and stays compressed, and no selection needs it; or nothing changed in
        it that a selection depends on."""
        self.services: Final = self.add_store(SERVICES)
        self.slices: Final = self.add_store(RAW_SLICES, self._slice_changes)
        self.nodes: Final = self.add_store(NODES)
        # Callbacks of `add_store` run before the store has the change; subscribers may select endpoints, so they run
        # after.
        self.services.subscribe(self._service_changed)
        self.slices.subscribe(self._slice_changed)
        self.nodes.subscribe(self._node_changed)

    @property
    def slice_counts(self) -> tuple[int, int]:
        """The number of decoded slices, and of compressed ones."""
        packed = sum(isinstance(stored, _PackedSlice) for stored in self._stored.values())
        return len(self._stored) - packed, packed

    def service_keys(self) -> Iterator[ObjectKey]:
        return ((service.metadata.namespace, service.metadata.name) for service in self.services)

    def endpoints(self, key: ObjectKey) -> Iterator[Endpoint]:
        """All endpoints of a Service, including those of other zones."""
        for slice_ in self._slices(self._slices_of.keys(key), everything=True):
            yield from slice_.endpoints or ()

    def node_services(self, key: ObjectKey) -> dict[Family, NodeService]:
        """The Service as this node serves it, in each of its families; empty if it does not.

        Raises ServiceTooLarge if the Service exceeds its limit of entries.
        """
        left_out: dict[str, None] = {}
        services = self._select_endpoints(key, left_out)
        self._set_left_out(key, left_out)
        return services

    def _select_endpoints(self, key: ObjectKey, left_out: dict[str, None]) -> dict[Family, NodeService]:
        service = self.services.get(*key)
        if service is None:
            self._needs_all_slices.discard(key)
            return {}
        self._needs_all_slices.add(key)
        slices = self._slices_of.keys(key)
        try:
            services = self._select_from(service, self._slices(slices, everything=False), left_out)
        except ServiceTooLarge:
            # The error has to name all endpoints: those that exist stay programmed.
            return self._select_from(service, self._slices(slices, everything=True), left_out)
        stored = [self._stored[slice_] for slice_ in slices]
        others = {slice_.address_type for slice_ in stored if isinstance(slice_, _PackedSlice)}
        if others and self._needs_other_zones(service, services):
            return self._select_from(service, self._slices(slices, everything=True), left_out)
        self._needs_all_slices.discard(key)
        if not others:
            return services
        return {
            family: _by_zone(served) if ADDRESS_TYPES[family] in others else served
            for family, served in services.items()
        }

    def _select_from(
        self, service: Service, slices: Iterable[EndpointSlice], left_out: dict[str, None]
    ) -> dict[Family, NodeService]:
        return node_services_within(
            self._max_entries,
            service,
            tuple(slices),
            node=self.node,
            consumer=ZONEWARD,
            gates=self._gates,
            service_ranges=self._service_ranges,
            left_out=left_out.setdefault,
        )

    def _set_left_out(self, key: ObjectKey, left_out: dict[str, None]) -> None:
        what = tuple(islice(left_out, _MOST_LEFT_OUT))
        if len(left_out) > len(what):
            what = (*what, f"{len(left_out) - len(what)} more")
        if what == self.left_out_values.get(key, ()):
            return
        if what:
            self.left_out_values[key] = what
        else:
            del self.left_out_values[key]
        self._reporter.values_left_out(key, what)

    def _needs_other_zones(self, service: Service, services: dict[Family, NodeService]) -> bool:
        """Whether the selection needs slices of other zones: they may have local endpoints, the only endpoints, or one
        that a UDP client keeps."""
        if policies_of(service, self._gates).uses_local or any(one.health_check_port for one in services.values()):
            return True
        return any(
            not port.cluster_endpoints or port.selection_rule is SelectionRule.TERMINATING or port.protocol == "udp"
            for served in services.values()
            for port in served.ports
        )

    # --- slices -------------------------------------------------------------------------------------------------------

    def _slices(self, keys: Iterable[ObjectKey], *, everything: bool) -> Iterator[EndpointSlice]:
        for key in keys:
            stored = self._stored[key]
            if not isinstance(stored, _PackedSlice):
                yield stored
            else:
                # Even without its endpoints, the slice shows that slice groups exist.
                yield self._decompress(stored) if everything else stored.empty

    def _decompress(self, slice_: _PackedSlice) -> EndpointSlice:
        try:
            return self._decode(slice_.empty, zlib.decompress(slice_.packed))
        except DECODE_ERRORS as error:
            self.slices.mark_unreadable(unreadable_endpoints(slice_.empty, error))
            return slice_.empty

    def _decode(self, empty: EndpointSlice, endpoints: bytes | msgspec.Raw) -> EndpointSlice:
        slice_ = with_(empty, endpoints=_ENDPOINTS.decode(endpoints))
        self._packing.intern_slice(slice_)
        return slice_

    def _is_for_zone(self, slice_: EndpointSlice) -> bool:
        """Whether a slice may be for this node. A node without a zone uses all slices."""
        zone = self.node.zone
        if zone is None or not self._gates.topology_aware_subsetting:
            return True
        group = group_of_slice(slice_, reads=ZONEWARD.zone_slices)
        return group is None or zone in group.zones

    def _slice_changes(self, key: ObjectKey, old: RawEndpointSlice | None, new: RawEndpointSlice | None) -> None:
        self._slices_of.update(key, old, new)
        before, self._is_irrelevant_slice = self._stored.pop(key, None), False
        if new is None:
            return
        # The last readable version stays in force.
        after = self._stored[key] = self._read_slice(new) or before or EndpointSlice(address_type=new.address_type)
        if old is not None and service_key_of(old) == service_key_of(new):
            if isinstance(before, _PackedSlice):
                is_packed = isinstance(after, _PackedSlice) and before.address_type == after.address_type
                self._is_irrelevant_slice = is_packed and service_key_of(new) not in self._needs_all_slices
            elif before is not None and not isinstance(after, _PackedSlice):
                self._is_irrelevant_slice = _is_alike(before, after)

    def _read_slice(self, slice_: RawEndpointSlice) -> EndpointSlice | _PackedSlice | None:
        """The slice as it is stored; None if its endpoints cannot be decoded."""
        metadata, raw = slice_.metadata, slice_.endpoints
        # The raw endpoints would keep the whole message in memory.
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
        if not self._is_for_zone(empty):
            self._packing.intern_slice(empty)
            return _PackedSlice(empty, zlib.compress(raw, _FAST))
        try:
            return self._decode(empty, raw)
        except DECODE_ERRORS as error:
            self.slices.mark_unreadable(unreadable_endpoints(empty, error))
            return None

    def _zone_changes(self) -> None:
        """Decode the slices that are for this zone now, and compress those that no longer are."""
        for key, stored in self._stored.items():
            if isinstance(stored, _PackedSlice):
                if self._is_for_zone(stored.empty):
                    self._stored[key] = self._decompress(stored)
            elif not self._is_for_zone(stored):
                # Fields that `_Endpoint` skips are lost, but nothing reads them.
                packed = zlib.compress(msgspec.json.encode(stored.endpoints), _FAST)
                self._stored[key] = _PackedSlice(with_(stored, endpoints=None), packed)

    # --- what changes -------------------------------------------------------------------------------------------------

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        service = new or old
        assert service is not None
        if old is not None and new is not None and _selected_by(old) == _selected_by(new):
            # For example, its conditions are written often.
            return
        self._on_service((service.metadata.namespace, service.metadata.name), None)

    def _slice_changed(self, old: RawEndpointSlice | None, new: RawEndpointSlice | None) -> None:
        if self._is_irrelevant_slice:
            # No selection uses this slice.
            return
        for version in (old, new):
            if version is not None:
                key = service_key_of(version)
                is_last = version is new or new is None or service_key_of(new) != key
                if is_last:
                    trigger = (version.metadata.annotations or {}).get(TRIGGER_TIME) if version is new else None
                    self._on_service(key, trigger)

    def _node_changed(self, _old: LiveNode | None, new: LiveNode | None) -> None:
        if new is not None and new.metadata.name == self.node.name:
            zone = node_zone(new)
            if zone != self.node.zone:
                self.node = ProxyNode(name=self.node.name, zone=zone)
                self._zone_changes()
                for service in self.service_keys():
                    self._on_service(service, None)
        self._on_node(new)


def _selected_by(service: Service) -> Service:
    """The Service with only the fields that a selection depends on."""
    metadata, status = service.metadata, service.status or ServiceStatus()
    return Service(
        metadata=ObjectMeta(
            labels=metadata.labels,
            annotations=metadata.annotations,
            uid=metadata.uid,
            creation_timestamp=metadata.creation_timestamp,
        ),
        spec=service.spec,
        status=ServiceStatus(load_balancer=status.load_balancer),
    )


def _is_alike(one: EndpointSlice, other: EndpointSlice) -> bool:
    """Whether two versions of a slice are the same in all that a selection depends on."""
    return (
        one.address_type == other.address_type
        and one.ports == other.ports
        and one.metadata.labels == other.metadata.labels
        and _annotations(one) == _annotations(other)
        and one.endpoints == other.endpoints
    )


def _annotations(slice_: EndpointSlice) -> dict[str, str]:
    return {name: value for name, value in (slice_.metadata.annotations or {}).items() if name != TRIGGER_TIME}


def _by_zone(served: NodeService) -> NodeService:
    """The Service with the rule ``zone-slices`` instead of ``all``: endpoints of other zones were not even decoded."""
    return replace(
        served,
        ports=tuple(
            replace(port, selection_rule=SelectionRule.ZONE_SLICES)
            if port.selection_rule is SelectionRule.ALL
            else port
            for port in served.ports
        ),
    )
