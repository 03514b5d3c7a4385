"""Where an API server has the kinds that are read or written, and what they are decoded into."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar

import msgspec

from zoneward.kube.names import SERVICE_NAME_LABEL
from zoneward.kube.objects import (
    EndpointPort,
    EndpointSlice,
    Int32,
    Node,
    NodeCondition,
    NodeMeta,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodMeta,
    PodStatus,
    Service,
)


class LivePodMeta(PodMeta, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    resource_version: str | None = None


READY_SINCE: Final = "zoneward.dev/ready-since"


class LivePodCondition(NodeCondition, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    last_transition_time: str | None = None
    """As the API writes times; in a cache only `LivePodStatus.ready_since` has one."""


class LivePodStatus(PodStatus, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    conditions: tuple[LivePodCondition, ...] | None = None
    ready_since: str | None = msgspec.field(name=READY_SINCE, default=None)
    """The time of the last transition of the condition Ready, be it true or not, which a cache takes from there: Pods
    with the same conditions can then share them. No API server sends it."""


class LivePod(Pod, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A Pod that knows its version, without which a watch could not tell what is older."""

    metadata: LivePodMeta = LivePodMeta()
    status: LivePodStatus = LivePodStatus()


class LiveNodeMeta(NodeMeta, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    namespace: str = ""
    """Always empty: so that all kinds have a key of the same form."""
    uid: str = ""
    resource_version: str | None = None


class LiveNode(Node, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A Node that knows its version."""

    metadata: LiveNodeMeta = LiveNodeMeta()


class ReadMeta(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Metadata for who reads slices and never writes them."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    resource_version: str | None = None


class RawEndpointSlice(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """An EndpointSlice whose endpoints are not decoded: most of those of other zones a node's proxy has no use for."""

    metadata: ReadMeta = ReadMeta()
    address_type: str = ""
    endpoints: msgspec.Raw = msgspec.Raw(b"null")
    """JSON. A part of the bytes that were decoded, all of which it keeps alive: nothing to be kept as it is."""
    ports: tuple[EndpointPort, ...] | None = None


# --- kinds of which no cache is kept ----------------------------------------------------------------------------------


class LeaseSpec(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Times are text, as `micro_time` writes them: they are told to people, and never compared with a clock."""

    holder_identity: str | None = None
    """Empty: whoever held it let go."""
    lease_duration_seconds: Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int32 | None = None


class Lease(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class EventRegarding(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """The object that an Event is about, as ``kubectl describe`` looks for it."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class EventSeries(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    count: int = 0
    last_observed_time: str | None = None


class Event(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``events.k8s.io/v1``. Once written, nothing of it may change but its series."""

    metadata: ObjectMeta = ObjectMeta()
    event_time: str | None = None
    """As `micro_time` writes it."""
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: EventRegarding = EventRegarding()
    note: str = ""
    """At most 1,024 bytes."""
    type: str = ""
    """``Normal`` or ``Warning``."""


class NamespaceStatus(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    phase: str = ""
    """``Terminating``: nothing can be created in it any more."""


class Namespace(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    status: NamespaceStatus = NamespaceStatus()


class EndpointAddress(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    ip: str = ""
    hostname: str | None = None
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class EndpointSubset(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Addresses that all serve all of these ports."""

    addresses: tuple[EndpointAddress, ...] | None = None
    not_ready_addresses: tuple[EndpointAddress, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None


class Endpoints(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``v1`` Endpoints: what came before EndpointSlices, one object a Service, of its first address family."""

    metadata: ObjectMeta = ObjectMeta()
    subsets: tuple[EndpointSubset, ...] | None = None


def micro_time(moment: datetime) -> str:
    """The API's MicroTime: UTC, always with six digits, without which it is refused."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# --- places -----------------------------------------------------------------------------------------------------------

CachedObject = Service | LiveNode | LivePod | EndpointSlice
"""Kinds of which a cache is kept."""
WatchedObject = CachedObject | RawEndpointSlice | Lease
ObjectT = TypeVar("ObjectT", bound=msgspec.Struct)
WatchedT = TypeVar("WatchedT", bound=WatchedObject)
WatchedT_contra = TypeVar("WatchedT_contra", bound=WatchedObject, contravariant=True)
_LONGEST_VERSION: Final = 64
"""Digits; a number of 128 bits has 39. Python reads no number of thousands."""
ObjectKey = tuple[str, str]
"""Namespace (empty where the kind has none) and name."""


def object_key_of(thing: WatchedObject) -> ObjectKey:
    metadata = thing.metadata
    return metadata.namespace, metadata.name


def service_key_of(slice_: EndpointSlice | RawEndpointSlice) -> ObjectKey:
    """The Service that a slice names; with an empty name, which no Service has, where it names none."""
    return slice_.metadata.namespace, (slice_.metadata.labels or {}).get(SERVICE_NAME_LABEL, "")


def owning_service_key(slice_: EndpointSlice) -> ObjectKey | None:
    """The same; None where it names none."""
    key = service_key_of(slice_)
    return key if key[1] else None


def parse_resource_version(text: str | None) -> int | None:
    """A resourceVersion as a number, as they compare (KEP-5504); None where a server writes something else."""
    if text is None or len(text) > _LONGEST_VERSION or not text.isascii() or not text.isdigit():
        return None
    return int(text)


class ListMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


class ListOf(msgspec.Struct, Generic[WatchedT], frozen=True, gc=False):
    """A page of a list; ``items`` may be null."""

    metadata: ListMeta = ListMeta()
    items: tuple[WatchedT, ...] | None = None


class EventOf(msgspec.Struct, Generic[WatchedT], frozen=True, gc=False):
    """One line of a watch that is about an object."""

    type: str
    object: WatchedT


@dataclass(frozen=True, slots=True)
class ApiResource(Generic[ObjectT]):
    """One kind. ``api`` is its group and version (``v1``, ``discovery.k8s.io/v1``), ``plural`` its name in paths."""

    kind: str
    api: str
    plural: str
    struct: type[ObjectT]
    namespaced: bool = field(default=True, kw_only=True)

    @property
    def group(self) -> str:
        """Empty for the core group, as in the rules of a ClusterRole."""
        return self.api.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api.rpartition("/")[2]

    def path(self, *, namespace: str | None = None, name: str | None = None) -> str:
        """Of all objects, those of one namespace, or one object. A kind without namespaces ignores ``namespace``."""
        parts = ["/apis" if self.group else "/api", self.api]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        return "/".join([*parts, self.plural] if name is None else [*parts, self.plural, name])


@dataclass(frozen=True, slots=True)
class WatchedResource(ApiResource[WatchedT]):
    """A kind that is listed and watched."""

    lists: msgspec.json.Decoder[ListOf[WatchedT]]
    events: msgspec.json.Decoder[EventOf[WatchedT]]


SERVICES: Final[WatchedResource[Service]] = WatchedResource(
    "Service",
    "v1",
    "services",
    Service,
    lists=msgspec.json.Decoder(ListOf[Service]),
    events=msgspec.json.Decoder(EventOf[Service]),
)
NODES: Final[WatchedResource[LiveNode]] = WatchedResource(
    "Node",
    "v1",
    "nodes",
    LiveNode,
    lists=msgspec.json.Decoder(ListOf[LiveNode]),
    events=msgspec.json.Decoder(EventOf[LiveNode]),
    namespaced=False,
)
PODS: Final[WatchedResource[LivePod]] = WatchedResource(
    "Pod",
    "v1",
    "pods",
    LivePod,
    lists=msgspec.json.Decoder(ListOf[LivePod]),
    events=msgspec.json.Decoder(EventOf[LivePod]),
)
SLICES: Final[WatchedResource[EndpointSlice]] = WatchedResource(
    "EndpointSlice",
    "discovery.k8s.io/v1",
    "endpointslices",
    EndpointSlice,
    lists=msgspec.json.Decoder(ListOf[EndpointSlice]),
    events=msgspec.json.Decoder(EventOf[EndpointSlice]),
)
RAW_SLICES: Final[WatchedResource[RawEndpointSlice]] = WatchedResource(
    "EndpointSlice",
    "discovery.k8s.io/v1",
    "endpointslices",
    RawEndpointSlice,
    lists=msgspec.json.Decoder(ListOf[RawEndpointSlice]),
    events=msgspec.json.Decoder(EventOf[RawEndpointSlice]),
)
AnyWatchedResource = (
    WatchedResource[Service]
    | WatchedResource[LiveNode]
    | WatchedResource[LivePod]
    | WatchedResource[EndpointSlice]
    | WatchedResource[RawEndpointSlice]
    | WatchedResource[Lease]
)
CACHED_RESOURCES: Final[tuple[AnyWatchedResource, ...]] = (SERVICES, NODES, PODS, SLICES)
"""Every kind of which a cache is kept."""

LEASES: Final[WatchedResource[Lease]] = WatchedResource(
    "Lease",
    "coordination.k8s.io/v1",
    "leases",
    Lease,
    lists=msgspec.json.Decoder(ListOf[Lease]),
    events=msgspec.json.Decoder(EventOf[Lease]),
)
EVENTS: Final = ApiResource("Event", "events.k8s.io/v1", "events", Event)
ENDPOINTS: Final = ApiResource("Endpoints", "v1", "endpoints", Endpoints)
NAMESPACES: Final = ApiResource("Namespace", "v1", "namespaces", Namespace, namespaced=False)
