"""Checks objects from files before use: names, addresses, ports, zones, quantities.

The checks refuse only input that no API server accepts and that would make an answer wrong. An API server accepts the
zone ``my zone`` of an endpoint and the port 70000 of an EndpointSlice, so these are read. `zoneward.kube.validation`
has all rules of the API. Annotations and ``trafficDistribution`` are checked where they are interpreted.
"""

import re
from functools import lru_cache
from typing import Final, TypeVar

from msgspec.structs import replace

from zoneward.kube import names, quantity
from zoneward.kube.formats import label_value_problems
from zoneward.kube.input_error import FieldMismatch, show
from zoneward.kube.objects import EndpointSlice, Node, Object, ObjectMeta, Pod, PodMeta, Service
from zoneward.kube.validation import ADDRESS_TYPES

DEFAULT_NAMESPACE: Final = "default"
_MAX_PORT: Final = 65535
_PORT: Final = f"a port number from 0 to {_MAX_PORT}"
_QUANTITY: Final = "a quantity such as 4, 3920m, 3.92 or 1e3"
_LABEL_VALUE: Final = "a label value: at most 63 letters, digits and inner '-', '_' or '.'"


def check_object(obj: Object) -> Object:
    """The object, in the namespace ``default`` if it has none and its kind needs one. Raises FieldMismatch."""
    if not obj.metadata.name:
        raise FieldMismatch("metadata.name", "a name", "nothing")
    match obj:
        case Pod():
            _check_pod(obj)
            return obj if obj.metadata.namespace else replace(obj, metadata=_in_default(obj.metadata))
        case EndpointSlice():
            _check_slice(obj)
            return obj if obj.metadata.namespace else replace(obj, metadata=_in_default(obj.metadata))
        case Service():
            _check_service(obj)
            return obj if obj.metadata.namespace else replace(obj, metadata=_in_default(obj.metadata))
        case Node():
            _check_node(obj)
            return obj


_ADDRESS: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
"""Only the form, for speed: an API server has parsed the addresses of real objects."""

_Meta = TypeVar("_Meta", ObjectMeta, PodMeta)


def _in_default(metadata: _Meta) -> _Meta:
    return replace(metadata, namespace=DEFAULT_NAMESPACE)


def _check_pod(pod: Pod) -> None:
    status = pod.status
    if status.pod_ip and not _ADDRESS.fullmatch(status.pod_ip):
        raise FieldMismatch("status.podIP", "an IP address", show(status.pod_ip))
    for index, pod_ip in enumerate(status.pod_ips or ()):
        # The first address is in both fields.
        if not (pod_ip.ip and pod_ip.ip == status.pod_ip) and not _ADDRESS.fullmatch(pod_ip.ip):
            raise FieldMismatch(f"status.podIPs[{index}].ip", "an IP address", show(pod_ip.ip))
    for field, containers in (("containers", pod.spec.containers), ("initContainers", pod.spec.init_containers)):
        for i, container in enumerate(containers or ()):
            for j, port in enumerate(container.ports or ()):
                if not 0 <= port.container_port <= _MAX_PORT:
                    where = f"spec.{field}[{i}].ports[{j}].containerPort"
                    raise FieldMismatch(where, _PORT, show(port.container_port))


def _check_service(service: Service) -> None:
    for index, port in enumerate(service.spec.ports or ()):
        ports = (("port", port.port), ("targetPort", port.target_port), ("nodePort", port.node_port))
        for field, value in ports:
            if isinstance(value, int) and not 0 <= value <= _MAX_PORT:
                raise FieldMismatch(f"spec.ports[{index}].{field}", _PORT, show(value))


def _check_slice(slice_: EndpointSlice) -> None:
    if slice_.address_type not in ADDRESS_TYPES:
        got = show(slice_.address_type) if slice_.address_type else "nothing"
        raise FieldMismatch("addressType", "IPv4, IPv6 or FQDN", got)
    for index, endpoint in enumerate(slice_.endpoints or ()):
        if endpoint.hints is not None:
            for hint_index, zone in enumerate(endpoint.hints.for_zones or ()):
                _check_zone(zone.name, "endpoints[{}].hints.forZones[{}].name", index, hint_index)


def _check_node(node: Node) -> None:
    _check_zone((node.metadata.labels or {}).get(names.ZONE_LABEL), f"metadata.labels[{names.ZONE_LABEL}]")
    allocatable = node.status.allocatable if node.status is not None else None
    if allocatable is None or allocatable.cpu is None:
        return
    field, cpu = "status.allocatable.cpu", allocatable.cpu
    try:
        amount = quantity.parse(cpu)
    except ValueError:
        raise FieldMismatch(field, _QUANTITY, show(cpu)) from None
    if amount < 0:
        raise FieldMismatch(field, "a quantity that is not negative", show(cpu))


def _check_zone(zone: str | None, field: str, *indices: int) -> None:
    if zone and not _is_label_value(zone):
        raise FieldMismatch(field.format(*indices), _LABEL_VALUE, show(zone))


@lru_cache(maxsize=1024)
def _is_label_value(text: str) -> bool:
    return not any(label_value_problems(text))
