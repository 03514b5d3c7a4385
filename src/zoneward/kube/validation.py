"""Validates parts of EndpointSlices, metadata and ``spec.trafficDistribution`` as an API server does.

The rules are those of Kubernetes' ``pkg/apis/discovery/validation``, ``pkg/apis/core/validation`` and
``k8s.io/apimachinery`` (v1.37, whose default gates include strict IP addresses and node hints), in upstream's order
and words. As upstream, validation follows defaulting: an absent port name counts as empty, an absent protocol is an
error. Fields that `zoneward.kube.objects` does not read (managed fields) are not validated.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Final, Literal

import msgspec

from zoneward.kube import formats, names
from zoneward.kube.objects import Endpoint, EndpointPort, EndpointSlice, Hints, ObjectMeta, OwnerReference

MAX_ENDPOINTS: Final = 1000
"""Endpoints in one EndpointSlice."""
MAX_ADDRESSES: Final = 100
"""Addresses of one endpoint."""
MAX_PORTS: Final = 20_000
"""Ports of one EndpointSlice; the API's documentation still says 100."""
MAX_ZONE_HINTS: Final = 8
MAX_NODE_HINTS: Final = 8
"""``forZones`` and ``forNodes`` of one endpoint."""
MAX_ANNOTATION_BYTES: Final = 256 * 1024
"""Keys and values of all annotations of one object together."""
ADDRESS_TYPES: Final = ("IPv4", "IPv6", "FQDN")
PROTOCOLS: Final = ("TCP", "UDP", "SCTP")

ENDPOINTS_PER_SLICE: Final = range(1, MAX_ENDPOINTS + 1)
"""Valid values of a controller's ``--max-endpoints-per-slice``."""
DEFAULT_ENDPOINTS_PER_SLICE: Final = 100

_CACHE_SIZE: Final = 16_384
"""Size of the caches: each write repeats the same keys, names and addresses."""

ErrorType = Literal[
    "FieldValueInvalid",
    "FieldValueRequired",
    "FieldValueDuplicate",
    "FieldValueTooMany",
    "FieldValueTooLong",
    "FieldValueNotSupported",
    "FieldValueForbidden",
]
_PHRASES: Final[Mapping[ErrorType, str]] = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueTooMany": "Too many",
    "FieldValueTooLong": "Too long",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
}


@dataclass(frozen=True, slots=True)
class FieldError:
    """A cause in the API's ``Status``, where ``type`` has the name ``reason``."""

    type: ErrorType
    field: str
    """``endpoints[0].hints.forZones[2].name``"""
    message: str
    """The kind of error, the offending value and the rule: ``Too many: 9: must have at most 8 items``."""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def validate_endpoint_slice(slice_: EndpointSlice) -> tuple[FieldError, ...]:
    """Errors of a new EndpointSlice (upstream's ``ValidateEndpointSliceCreate``)."""
    endpoints = slice_.endpoints or ()
    errors = [*new_metadata_errors(slice_.metadata), *content_errors(slice_)]
    if len(endpoints) > MAX_ENDPOINTS:
        return *errors, too_many("endpoints", len(endpoints), MAX_ENDPOINTS)
    for index, endpoint in enumerate(endpoints):
        errors += endpoint_errors(endpoint, f"endpoints[{index}]", slice_.address_type)
    return tuple(errors)


def traffic_distribution_errors(value: str | None, *, has_prefer_same: bool) -> Iterator[FieldError]:
    """Errors of ``spec.trafficDistribution`` of a Service of any type.

    Upstream's ``validateServiceTrafficDistribution``. Without the gate ``PreferSameTrafficDistribution`` (KEP-3015 §
    Feature Enablement and Rollback; on since v1.34) only ``PreferClose`` is known (KEP-4444 § PreferClose).
    """
    supported = names.TRAFFIC_DISTRIBUTIONS if has_prefer_same else (names.PREFER_CLOSE,)
    if value is not None and value not in supported:
        yield not_supported("spec.trafficDistribution", value, supported)


# --- an EndpointSlice's own fields ------------------------------------------------------------------------------------


def content_errors(slice_: EndpointSlice) -> Iterator[FieldError]:
    """Address type and ports."""
    if not slice_.address_type:
        yield error("FieldValueRequired", "addressType")
    elif slice_.address_type not in ADDRESS_TYPES:
        yield not_supported("addressType", slice_.address_type, sorted(ADDRESS_TYPES))
    ports = slice_.ports or ()
    if len(ports) > MAX_PORTS:
        yield too_many("ports", len(ports), MAX_PORTS)
        return
    taken: set[str] = set()
    for index, port in enumerate(ports):
        yield from _port(port, f"ports[{index}]", taken)


def _port(port: EndpointPort, field: str, taken: set[str]) -> Iterator[FieldError]:
    """``taken`` has the names of the ports before this one, and gets its name. Any number is valid."""
    name = port.name or ""
    if name:
        yield from invalid(f"{field}.name", name, formats.label_problems(name))
    if name in taken:
        yield error("FieldValueDuplicate", f"{field}.name", value=name)
    taken.add(name)
    if port.protocol is None:
        yield error("FieldValueRequired", f"{field}.protocol")
    elif port.protocol not in PROTOCOLS:
        yield not_supported(f"{field}.protocol", port.protocol, sorted(PROTOCOLS))
    if port.app_protocol is not None:
        yield from invalid(
            f"{field}.appProtocol", port.app_protocol, formats.qualified_name_problems(port.app_protocol)
        )


def endpoint_errors(endpoint: Endpoint, field: str, address_type: str) -> Iterator[FieldError]:
    """Errors of the endpoint at ``field`` of an EndpointSlice of this type."""
    addresses = endpoint.addresses or ()
    if not addresses:
        yield error("FieldValueRequired", f"{field}.addresses")
    elif len(addresses) > MAX_ADDRESSES:
        yield too_many(f"{field}.addresses", len(addresses), MAX_ADDRESSES)
    for index, address in enumerate(addresses):
        if address_type == "FQDN":
            yield from _domain_name(address, f"{field}.addresses[{index}]")
        elif address_type in ADDRESS_TYPES and (ip_problems := _address_problems(address, address_type)):
            yield from _ip(address, f"{field}.addresses", index, ip_problems)
    if endpoint.node_name is not None and (problems := _subdomain_problems(endpoint.node_name)):
        yield from invalid(f"{field}.nodeName", endpoint.node_name, problems)
    if endpoint.hostname is not None:
        yield from invalid(f"{field}.hostname", endpoint.hostname, formats.label_problems(endpoint.hostname))
    if endpoint.hints is not None:
        yield from _hints(endpoint.hints, f"{field}.hints")


def _hints(hints: Hints, field: str) -> Iterator[FieldError]:
    """Validation stops at too many hints of one kind."""
    zones, nodes = hints.for_zones or (), hints.for_nodes or ()
    for kind, hinted, limit, problems in (
        ("forZones", [zone.name for zone in zones], MAX_ZONE_HINTS, _value_problems),
        ("forNodes", [node.name for node in nodes], MAX_NODE_HINTS, _subdomain_problems),
    ):
        if len(hinted) > limit:
            yield too_many(f"{field}.{kind}", len(hinted), limit)
            return
        for index, name in enumerate(hinted):
            if name in hinted[:index]:
                yield error("FieldValueDuplicate", f"{field}.{kind}[{index}].name", value=name)
            yield from invalid(f"{field}.{kind}[{index}].name", name, problems(name))


# --- addresses --------------------------------------------------------------------------------------------------------


def _ip(address: str, field: str, index: int, problems: Iterable[tuple[bool, str]]) -> Iterator[FieldError]:
    for is_about_list, problem in problems:
        # For an address of the other family, upstream names the list, not the address.
        yield from invalid(field if is_about_list else f"{field}[{index}]", address, [problem])


@lru_cache(maxsize=_CACHE_SIZE)
def _address_problems(address: str, address_type: str) -> tuple[tuple[bool, str], ...]:
    """Pairs of whether a problem is one of the whole list, and its message."""
    # An IPv4 address without leading zeros is canonical.
    problems = tuple(
        (False, problem) for problem in formats.address_problems(address, canonical=address_type == "IPv6")
    )
    parsed = formats.parse_address(address)
    if problems or parsed is None:
        return problems
    family = () if f"IPv{parsed.version}" == address_type else ((True, f"must be an {address_type} address"),)
    return (*family, *((False, problem) for problem in formats.destination_problems(address, parsed)))


def _domain_name(name: str, field: str) -> Iterator[FieldError]:
    """A trailing dot is valid."""
    if not name:
        yield error("FieldValueRequired", field)
    else:
        yield from invalid(field, name, formats.subdomain_problems(name.removesuffix(".")))


# --- metadata ---------------------------------------------------------------------------------------------------------


def new_metadata_errors(
    metadata: ObjectMeta,
    *,
    name_problems: Callable[[str], Iterable[str]] = formats.subdomain_problems,
    is_namespaced: bool = True,
) -> Iterator[FieldError]:
    """``ValidateObjectMeta``; ``name_problems`` validates names of the kind."""
    if prefix := metadata.generate_name:
        # A suffix follows the prefix, so that it may end in a dash. Upstream replaces two characters by one.
        stem = f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        yield from invalid("metadata.generateName", prefix, name_problems(stem))
    if metadata.name:
        yield from invalid("metadata.name", metadata.name, name_problems(metadata.name))
    else:
        yield error("FieldValueRequired", "metadata.name", "name or generateName is required")
    if not is_namespaced:
        if metadata.namespace:
            yield error("FieldValueForbidden", "metadata.namespace", "not allowed on this type")
    elif metadata.namespace:
        yield from invalid("metadata.namespace", metadata.namespace, formats.label_problems(metadata.namespace))
    else:
        yield error("FieldValueRequired", "metadata.namespace")
    yield from free_metadata_errors(metadata)


def free_metadata_errors(metadata: ObjectMeta) -> Iterator[FieldError]:
    """Errors of fields that an update may change: labels, annotations, owners."""
    yield from labels_errors(metadata.labels or {}, "metadata.labels")
    annotations = metadata.annotations or {}
    for key in annotations:
        yield from invalid("metadata.annotations", key, _key_problems(key.lower()))
    if sum(map(formats.size, chain.from_iterable(annotations.items()))) > MAX_ANNOTATION_BYTES:
        limit = f"may not be more than {MAX_ANNOTATION_BYTES} bytes"
        yield error("FieldValueTooLong", "metadata.annotations", limit)
    yield from _owners(metadata.owner_references or ())


def labels_errors(labels: Mapping[str, str], field: str) -> Iterator[FieldError]:
    for key, value in labels.items():
        yield from invalid(field, key, _key_problems(key))
        yield from invalid(field, value, _value_problems(value))


def _owners(owners: tuple[OwnerReference, ...]) -> Iterator[FieldError]:
    for index, owner in enumerate(owners):
        fields = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
        for name, value in fields.items():
            if not value:
                yield error("FieldValueRequired", f"metadata.ownerReferences[{index}].{name}", "must not be empty")


# --- cached formats ---------------------------------------------------------------------------------------------------


def _cached(problems: Callable[[str], Iterable[str]]) -> Callable[[str], tuple[str, ...]]:
    return lru_cache(maxsize=_CACHE_SIZE)(lambda text: tuple(problems(text)))


_key_problems: Final = _cached(formats.qualified_name_problems)
_value_problems: Final = _cached(formats.label_value_problems)
_subdomain_problems: Final = _cached(formats.subdomain_problems)


# --- errors -----------------------------------------------------------------------------------------------------------

_NO_VALUE: Final = object()


def error(type_: ErrorType, field: str, detail: str = "", *, value: object = _NO_VALUE) -> FieldError:
    phrase = _PHRASES[type_] if value is _NO_VALUE else f"{_PHRASES[type_]}: {_shown(value)}"
    return FieldError(type_, field, f"{phrase}: {detail}" if detail else phrase)


def invalid(field: str, value: object, problems: Iterable[str]) -> Iterator[FieldError]:
    return (error("FieldValueInvalid", field, problem, value=value) for problem in problems)


def immutable(field: str, new: object, old: object) -> Iterator[FieldError]:
    return invalid(field, new, () if new == old else ["field is immutable"])


def immutable_address_type(new: object, old: object) -> Iterator[FieldError]:
    """An EndpointSlice's ``addressType`` never changes. The declarative rule of v1.37 names no value."""
    return invalid("addressType", None, () if new == old else ["field is immutable"])


def not_supported(field: str, value: str, supported: Iterable[str]) -> FieldError:
    listed = ", ".join(map(formats.quoted, supported))
    return error("FieldValueNotSupported", field, f"supported values: {listed}", value=value)


def too_many(field: str, count: int, limit: int) -> FieldError:
    return error("FieldValueTooMany", field, f"must have at most {limit} items", value=count)


def _shown(value: object) -> str:
    """A value as upstream prints it: text as a Go string literal, all else as JSON."""
    return formats.quoted(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
