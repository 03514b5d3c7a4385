"""The kinds that are listed and watched: where an API server has them, and what they are decoded into."""

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from zoneward.kube.objects import EndpointSlice, Node, NodeMeta, Pod, PodMeta, Service


class LivePodMeta(PodMeta, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    resource_version: str | None = None


class LivePod(Pod, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A Pod that knows its version, without which a watch could not tell what is older."""

    metadata: LivePodMeta = LivePodMeta()


class LiveNodeMeta(NodeMeta, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    namespace: str = ""
    """Always empty: so that all kinds have a key of the same form."""
    resource_version: str | None = None


class LiveNode(Node, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A Node that knows its version."""

    metadata: LiveNodeMeta = LiveNodeMeta()


Live = Service | LiveNode | LivePod | EndpointSlice
T = TypeVar("T", bound=Live)
T_contra = TypeVar("T_contra", bound=Live, contravariant=True)
Key = tuple[str, str]
"""Namespace (empty where the kind has none) and name."""


def key_of(thing: Live) -> Key:
    metadata = thing.metadata
    return metadata.namespace, metadata.name


def version_of(text: str | None) -> int | None:
    """A resourceVersion as a number, as they compare (KEP-5504); None where a server writes something else."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


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
class Resource(Generic[T]):
    """One kind. ``api`` is its group and version (``v1``, ``discovery.k8s.io/v1``), ``plural`` its name in paths."""

    kind: str
    api: str
    plural: str
    struct: type[T]
    lists: msgspec.json.Decoder[ListOf[T]]
    events: msgspec.json.Decoder[EventOf[T]]
    namespaced: bool = True

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
AnyResource = Resource[Service] | Resource[LiveNode] | Resource[LivePod] | Resource[EndpointSlice]
RESOURCES: Final[tuple[AnyResource, ...]] = (SERVICES, NODES, PODS, SLICES)
"""Every kind that is read."""
