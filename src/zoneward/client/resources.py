"""The kinds that are read or written: their paths on an API server, and the types they are decoded into."""

from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import msgspec

from zoneward.kube.names import SERVICE_NAME_LABEL
from zoneward.kube.objects import (
    ConfigMap,
    DaemonSet,
    EndpointPort,
    Endpoints,
    EndpointSlice,
    Event,
    Lease,
    Namespace,
    Node,
    NodeCondition,
    NodeMeta,
    NodeSpec,
    ObjectKey,
    PlainMeta,
    Pod,
    PodMeta,
    PodStatus,
    ProxyPod,
    Service,
)
from zoneward.kube.workload_objects import WORKLOAD_KINDS, ClusterScoped, WorkloadObject, plural
from zoneward.kube.workload_objects import Lease as WorkloadLease


class LivePodMeta(PodMeta, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    resource_version: str | None = None


READY_SINCE: Final = "zoneward.dev/ready-since"


class LivePodCondition(NodeCondition, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    last_transition_time: str | None = None
    """An API time; in a cache it is None, and only `LivePodStatus.ready_since` is set."""


class LivePodStatus(PodStatus, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    conditions: tuple[LivePodCondition, ...] | None = None
    ready_since: str | None = msgspec.field(name=READY_SINCE, default=None)
    """The time of the last transition of the condition Ready, true or false. A cache moves it here, so that Pods with
    the same conditions can share them. No API server sends it."""


class LivePod(Pod, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A Pod with its resourceVersion, by which a watch orders changes."""

    metadata: LivePodMeta = LivePodMeta()
    status: LivePodStatus = LivePodStatus()


class LiveNodeMeta(NodeMeta, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    namespace: str = ""
    """Always empty, so that the keys of all kinds have the same type."""
    uid: str = ""
    resource_version: str | None = None


class LiveNodeSpec(NodeSpec, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    pod_cidrs: tuple[str, ...] | None = msgspec.field(name="podCIDRs", default=None)


class LiveNode(Node, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A Node with its resourceVersion and its Pod CIDRs."""

    metadata: LiveNodeMeta = LiveNodeMeta()
    spec: LiveNodeSpec | None = None


class RawEndpointSliceMeta(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Metadata for a reader of slices that never writes them."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    resource_version: str | None = None


class RawEndpointSlice(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """An EndpointSlice whose endpoints are not decoded: a node's proxy needs few endpoints of other zones."""

    metadata: RawEndpointSliceMeta = RawEndpointSliceMeta()
    address_type: str = ""
    endpoints: msgspec.Raw = msgspec.Raw(b"null")
    """JSON that refers to the bytes that were decoded and keeps them all alive: copy it before you store it."""
    ports: tuple[EndpointPort, ...] | None = None


class LiveProxyMeta(PlainMeta, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    resource_version: str | None = None


class LiveDaemonSet(DaemonSet, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A DaemonSet with its resourceVersion."""

    metadata: LiveProxyMeta = LiveProxyMeta()


class LiveConfigMapMeta(PlainMeta, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    uid: str = ""
    resource_version: str | None = None
    labels: dict[str, str] | None = None


class LiveConfigMap(ConfigMap, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A ConfigMap with the metadata that a writer needs."""

    metadata: LiveConfigMapMeta = LiveConfigMapMeta()
    immutable: bool | None = None


class LiveProxyPod(ProxyPod, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A Pod with its programs and its resourceVersion."""

    metadata: LivePodMeta = LivePodMeta()


# --- resources --------------------------------------------------------------------------------------------------------

CachedObject = Service | LiveNode | LivePod | EndpointSlice
"""The kinds that an informer cache keeps."""
WatchedObject = (
    CachedObject | RawEndpointSlice | Lease | LiveDaemonSet | LiveProxyPod | LiveConfigMap | Namespace | WorkloadObject
)
ObjectT = TypeVar("ObjectT", bound=msgspec.Struct)
WatchedT = TypeVar("WatchedT", bound=WatchedObject)


def object_key_of(obj: WatchedObject) -> ObjectKey:
    metadata = obj.metadata
    return metadata.namespace, metadata.name


def service_key_of(slice_: EndpointSlice | RawEndpointSlice) -> ObjectKey:
    """Key of the Service that a slice names; its name is empty if the slice names none."""
    return slice_.metadata.namespace, (slice_.metadata.labels or {}).get(SERVICE_NAME_LABEL, "")


def owning_service_key(slice_: EndpointSlice) -> ObjectKey | None:
    """Key of the Service that a slice names; None if it names none."""
    key = service_key_of(slice_)
    return key if key[1] else None


class ListMetadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


class ListOf(msgspec.Struct, Generic[WatchedT], frozen=True, gc=False):
    """A page of a list; ``items`` may be null."""

    metadata: ListMetadata = ListMetadata()
    items: tuple[WatchedT, ...] | None = None


class EventOf(msgspec.Struct, Generic[WatchedT], frozen=True, gc=False):
    """One line of a watch that has an object."""

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

    def path(self, *, namespace: str | None = None, name: str | None = None) -> str:
        """The path of all objects, those in a namespace, or one object. Cluster-scoped kinds ignore ``namespace``."""
        parts = ["/apis" if self.group else "/api", self.api]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        return "/".join([*parts, self.plural] if name is None else [*parts, self.plural, name])


@dataclass(frozen=True, slots=True)
class WatchedResource(ApiResource[WatchedT]):
    """A kind that is listed and watched."""

    lists: msgspec.json.Decoder[ListOf[WatchedT]]
    events: msgspec.json.Decoder[EventOf[WatchedT]]

    @classmethod
    def of(
        cls, kind: str, api: str, plural: str, struct: type[WatchedT], *, namespaced: bool = True
    ) -> "WatchedResource[WatchedT]":
        """The resource with decoders for its lists and watches."""
        decoded: Any = struct
        return cls(
            kind,
            api,
            plural,
            struct,
            lists=msgspec.json.Decoder(ListOf[decoded]),
            events=msgspec.json.Decoder(EventOf[decoded]),
            namespaced=namespaced,
        )


SERVICES: Final = WatchedResource.of("Service", "v1", "services", Service)
NODES: Final = WatchedResource.of("Node", "v1", "nodes", LiveNode, namespaced=False)
PODS: Final = WatchedResource.of("Pod", "v1", "pods", LivePod)
SLICES: Final = WatchedResource.of("EndpointSlice", "discovery.k8s.io/v1", "endpointslices", EndpointSlice)
RAW_SLICES: Final = WatchedResource.of("EndpointSlice", "discovery.k8s.io/v1", "endpointslices", RawEndpointSlice)
AnyWatchedResource = WatchedResource[Any]
CACHED_RESOURCES: Final[tuple[AnyWatchedResource, ...]] = (SERVICES, NODES, PODS, SLICES)
"""The kinds that an informer cache keeps."""

LEASES: Final = WatchedResource.of("Lease", "coordination.k8s.io/v1", "leases", Lease)
DAEMON_SETS: Final = WatchedResource.of("DaemonSet", "apps/v1", "daemonsets", LiveDaemonSet)
PROXY_PODS: Final = WatchedResource.of("Pod", "v1", "pods", LiveProxyPod)
CONFIG_MAPS: Final = WatchedResource.of("ConfigMap", "v1", "configmaps", LiveConfigMap)


def _workload_resource(api: str, kind: str) -> WatchedResource[Any]:
    struct: Any = WORKLOAD_KINDS[api, kind]
    return WatchedResource.of(kind, api, plural(kind).lower(), struct, namespaced=not issubclass(struct, ClusterScoped))


WORKLOADS: Final = tuple(_workload_resource(*api_and_kind) for api_and_kind in WORKLOAD_KINDS)
"""The kinds that only checks use. They are listed and never watched."""
WORKLOAD_LEASES: Final[WatchedResource[WorkloadLease]] = next(
    workload for workload in WORKLOADS if workload.kind == "Lease"
)
EVENTS: Final = ApiResource("Event", "events.k8s.io/v1", "events", Event)
ENDPOINTS: Final = ApiResource("Endpoints", "v1", "endpoints", Endpoints)
NAMESPACES: Final = WatchedResource.of("Namespace", "v1", "namespaces", Namespace, namespaced=False)
