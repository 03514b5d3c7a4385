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


class SealedSlice(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
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


class Regarding(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
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
    regarding: Regarding = Regarding()
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


class LegacyAddress(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    ip: str = ""
    hostname: str | None = None
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class LegacySubset(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Addresses that all serve all of these ports."""

    addresses: tuple[LegacyAddress, ...] | None = None
    not_ready_addresses: tuple[LegacyAddress, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None


class LegacyEndpoints(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``v1`` Endpoints: what came before EndpointSlices, one object a Service, of its first address family."""

    metadata: ObjectMeta = ObjectMeta()
    subsets: tuple[LegacySubset, ...] | None = None


def micro_time(moment: datetime) -> str:
    """The API's MicroTime: UTC, always with six digits, without which it is refused."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# --- places -----------------------------------------------------------------------------------------------------------

Live = Service | LiveNode | LivePod | EndpointSlice
"""Kinds of which a cache is kept."""
Watched = Live | SealedSlice | Lease
K = TypeVar("K", bound=msgspec.Struct)
T = TypeVar("T", bound=Watched)
T_contra = TypeVar("T_contra", bound=Watched, contravariant=True)
_LONGEST_VERSION: Final = 64
"""Digits; a number of 128 bits has 39. Python reads no number of thousands."""
Key = tuple[str, str]
"""Namespace (empty where the kind has none) and name."""


def key_of(thing: Watched) -> Key:
    metadata = thing.metadata
    return metadata.namespace, metadata.name


def service_of(slice_: EndpointSlice | SealedSlice) -> Key:
    """The Service that a slice names; with an empty name, which no Service has, where it names none."""
    return slice_.metadata.namespace, (slice_.metadata.labels or {}).get(SERVICE_NAME_LABEL, "")


def owner_of(slice_: EndpointSlice) -> Key | None:
    """The same; None where it names none."""
    key = service_of(slice_)
    return key if key[1] else None


def version_of(text: str | None) -> int | None:
    """A resourceVersion as a number, as they compare (KEP-5504); None where a server writes something else."""
    if text is None or len(text) > _LONGEST_VERSION or not text.isascii() or not text.isdigit():
        return None
    return int(text)


class ListMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


class ListOf(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A page of a list; ``items`` may be null."""

    metadata: ListMeta = ListMeta()
    items: tuple[T, ...] | None = None


class EventOf(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One line of a watch that is about an object."""

    type: str
    object: T


@dataclass(frozen=True, slots=True)
class Place(Generic[K]):
    """One kind. ``api`` is its group and version (``v1``, ``discovery.k8s.io/v1``), ``plural`` its name in paths."""

    kind: str
    api: str
    plural: str
    struct: type[K]
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
class Resource(Place[T]):
    """A kind that is listed and watched."""

    lists: msgspec.json.Decoder[ListOf[T]]
    events: msgspec.json.Decoder[EventOf[T]]


SERVICES: Final[Resource[Service]] = Resource(
    "Service",
    "v1",
    "services",
    Service,
    lists=msgspec.json.Decoder(ListOf[Service]),
    events=msgspec.json.Decoder(EventOf[Service]),
)
NODES: Final[Resource[LiveNode]] = Resource(
    "Node",
    "v1",
    "nodes",
    LiveNode,
    lists=msgspec.json.Decoder(ListOf[LiveNode]),
    events=msgspec.json.Decoder(EventOf[LiveNode]),
    namespaced=False,
)
PODS: Final[Resource[LivePod]] = Resource(
    "Pod",
    "v1",
    "pods",
    LivePod,
    lists=msgspec.json.Decoder(ListOf[LivePod]),
    events=msgspec.json.Decoder(EventOf[LivePod]),
)
SLICES: Final[Resource[EndpointSlice]] = Resource(
    "EndpointSlice",
    "discovery.k8s.io/v1",
    "endpointslices",
    EndpointSlice,
    lists=msgspec.json.Decoder(ListOf[EndpointSlice]),
    events=msgspec.json.Decoder(EventOf[EndpointSlice]),
)
SEALED_SLICES: Final[Resource[SealedSlice]] = Resource(
    "EndpointSlice",
    "discovery.k8s.io/v1",
    "endpointslices",
    SealedSlice,
    lists=msgspec.json.Decoder(ListOf[SealedSlice]),
    events=msgspec.json.Decoder(EventOf[SealedSlice]),
)
AnyResource = (
    Resource[Service]
    | Resource[LiveNode]
    | Resource[LivePod]
    | Resource[EndpointSlice]
    | Resource[SealedSlice]
    | Resource[Lease]
)
RESOURCES: Final[tuple[AnyResource, ...]] = (SERVICES, NODES, PODS, SLICES)
"""Every kind of which a cache is kept."""

LEASES: Final[Resource[Lease]] = Resource(
    "Lease",
    "coordination.k8s.io/v1",
    "leases",
    Lease,
    lists=msgspec.json.Decoder(ListOf[Lease]),
    events=msgspec.json.Decoder(EventOf[Lease]),
)
EVENTS: Final = Place("Event", "events.k8s.io/v1", "events", Event)
ENDPOINTS: Final = Place("Endpoints", "v1", "endpoints", LegacyEndpoints)
NAMESPACES: Final = Place("Namespace", "v1", "namespaces", Namespace, namespaced=False)
