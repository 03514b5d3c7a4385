"""What a kind of object is, and rules for metadata. ``catalog`` has all kinds."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from zoneward.kube.formats import label_problems, subdomain_problems
from zoneward.kube.objects import ObjectMeta
from zoneward.kube.validation import (
    PROTOCOLS,
    FieldError,
    error,
    free_metadata_errors,
    immutable,
    invalid,
    new_metadata_errors,
    not_supported,
)

Object = dict[str, Any]
"""A decoded JSON object."""


def get_field(obj: Any, path: str) -> Any:
    """The value of a field such as ``status.phase``; None if absent."""
    for name in path.split("."):
        obj = (obj or {}).get(name)
    return obj


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerGates:
    """Upstream's feature gates of the same names, which older Kubernetes did not have."""

    topology_aware_hints: bool = True
    prefer_same_traffic_distribution: bool = True
    service_traffic_distribution: bool = True


def same_names(*fields: str) -> Mapping[str, str]:
    """Field selectors that are the paths of the fields."""
    return {field: field for field in fields}


FindObject = Callable[[str, str, str], Object | None]
"""Another object of the core group, by its plural, namespace and name; callers must not change it."""


class Kind:
    """A kind of object: its names, its defaults and its validation, as in a strategy of kube-apiserver's registries.

    All methods get complete objects that match the schema. Those that return None change ``new`` in place. ``new`` may
    share nested values with ``old``: copy these before changing them.
    """

    kind: str
    plural: str
    group: str = ""
    """Empty for the core group."""
    version: str = "v1"
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    struct: str = ""
    """The name of its fields in ``schema.json``; empty: its own."""
    has_status: bool = False
    """Whether it has the status subresource."""
    selectable: Mapping[str, str] = {}
    """The names that field selectors may use, and the paths that they mean in a stored object; besides
    ``metadata.name`` and ``metadata.namespace``.
    """
    is_created_by_update: bool = False
    """Whether PUT creates an object that does not exist."""
    needs_version: bool = False
    """Whether an update has to say which version it replaces."""
    warning: str = ""
    """What each answer about the kind warns of."""
    stored_as: "Kind | None" = None
    """Another version of the kind, in which its objects are stored."""
    name_problems: Callable[[str], Iterable[str]] = staticmethod(subdomain_problems)
    """The rule for names of the kind."""
    is_namespaced: bool = True
    has_generation: bool = False
    """Whether a new object gets generation 1."""
    is_graceful: bool = False
    """Whether a deleted object always gets a deletion timestamp, even if it is deleted at once."""
    protected: frozenset[str] = frozenset()
    """Names of objects that can't be deleted."""

    def default(self, new: Object, old: Object | None = None) -> None:
        """Set defaults, as upstream's ``SetDefaults_*``; called first on each write."""

    def prepare_create(self, new: Object, find: FindObject) -> None:
        """Drop fields that clients cannot set, and add those of admission."""

    def prepare_update(self, new: Object, old: Object, find: FindObject) -> None:
        """Keep the status of ``old``."""
        if "status" in old:
            new["status"] = old["status"]

    def validate_create(self, new: Object) -> Iterable[FieldError]:
        return ()

    def validate_update(self, new: Object, old: Object) -> Iterable[FieldError]:
        return self.validate_create(new)

    def validate_status(self, new: Object) -> Iterable[FieldError]:
        return ()

    def metadata_errors(self, new: Object) -> Iterable[FieldError]:
        read = msgspec.convert(new["metadata"], ObjectMeta)
        return new_metadata_errors(read, name_problems=self.name_problems, is_namespaced=self.is_namespaced)

    def is_new_generation(self, new: Object, old: Object) -> bool:
        """Whether ``metadata.generation`` grows by one."""
        return False

    def allocate(self, new: Object, old: Object | None) -> Iterable[FieldError]:
        """Allocate addresses and ports, before validation."""
        return ()

    def restore(self, new: Object, old: Object | None) -> Iterable[FieldError]:
        """Validate and complete an object from a file."""
        return ()

    def on_stored(self, new: Object | None, old: Object | None) -> None:
        """Called after an object was stored or deleted."""

    def grace(self, obj: Object, wanted: int | None) -> int:
        """The grace period in seconds; 0 deletes the object at once."""
        return 0

    def begin_to_end(self, new: Object) -> None:
        """Further changes when the deletion begins."""

    def holds(self, obj: Object) -> bool:
        """Whether something delays the deletion of an object."""
        return bool(obj["metadata"].get("finalizers"))

    def to_stored(self, obj: Object) -> Object:
        return obj

    def from_stored(self, obj: Object) -> Object:
        return obj

    @property
    def stored(self) -> "Kind":
        return self.stored_as or self

    @property
    def api(self) -> str:
        """``v1``, ``discovery.k8s.io/v1``: the ``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """``services``, ``endpointslices.discovery.k8s.io``: as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified(self) -> str:
        """``Service``, ``EndpointSlice.discovery.k8s.io``."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


# --- metadata (upstream's ``k8s.io/apimachinery``, v1.37), except finalizers ------------------------------------------


_IMMUTABLE: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def changed_metadata_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """``ValidateObjectMetaUpdate``, for what a client can change; upstream reports most causes twice."""
    metadata, before = new["metadata"], old["metadata"]
    for name in _IMMUTABLE:
        yield from immutable(f"metadata.{name}", metadata.get(name), before.get(name))
    yield from free_metadata_errors(msgspec.convert(metadata, ObjectMeta))


# --- ports ------------------------------------------------------------------------------------------------------------


def port_errors(port: Object, field: str, *, needs_name: bool) -> Iterator[FieldError]:
    """Errors of the fields that ports of Services and of Endpoints share."""
    name, protocol = port.get("name") or "", port.get("protocol") or ""
    if name:
        yield from invalid(f"{field}.name", name, label_problems(name))
    elif needs_name:
        yield error("FieldValueRequired", f"{field}.name")
    yield from port_range_errors(port["port"], f"{field}.port")
    if not protocol:
        yield error("FieldValueRequired", f"{field}.protocol")
    elif protocol not in PROTOCOLS:
        yield not_supported(f"{field}.protocol", protocol, sorted(PROTOCOLS))


def port_range_errors(port: int, field: str) -> Iterator[FieldError]:
    if not 1 <= port <= 65535:
        yield from invalid(field, port, ["must be between 1 and 65535, inclusive"])
