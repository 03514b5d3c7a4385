"""EndpointSlices and Endpoints: defaults, gates, generations, validation (kube-apiserver v1.37).

The rules of EndpointSlices are in `zoneward.kube.validation`; an update is validated only where it changes something.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from zoneward.kube import formats
from zoneward.kube.objects import Endpoint, EndpointSlice
from zoneward.kube.validation import (
    MAX_ENDPOINTS,
    FieldError,
    content_errors,
    endpoint_errors,
    error,
    immutable_address_type,
    invalid,
    too_many,
)
from zoneward.sandbox.server.kinds import FindObject, Kind, Object, ServerGates, port_errors

_CONTENT: Final = ("addressType", "endpoints", "ports")


class EndpointSliceKind(Kind):
    """Without the gates of hints, hints are dropped that the stored slice has none of."""

    kind, plural, group = "EndpointSlice", "endpointslices", "discovery.k8s.io"
    has_generation = True

    def __init__(self, gates: ServerGates) -> None:
        self._zone_hints, self._node_hints = gates.topology_aware_hints, gates.prefer_same_traffic_distribution

    def default(self, new: Object, old: Object | None = None) -> None:
        ports = new.get("ports") or ()
        if any(port.get("name") is None or port.get("protocol") is None for port in ports):
            given = ({name: value for name, value in port.items() if value is not None} for port in ports)
            new["ports"] = [{"name": "", "protocol": "TCP"} | port for port in given]
        # An empty list is stored as null.
        new["endpoints"], new["ports"] = new.get("endpoints") or None, new.get("ports") or None

    def prepare_create(self, new: Object, find: FindObject) -> None:
        self.prepare_update(new, {}, find)

    def prepare_update(self, new: Object, old: Object, find: FindObject) -> None:
        if new["endpoints"] and not (self._zone_hints and self._node_hints):
            new["endpoints"] = self._without_gated_hints(new["endpoints"], old)

    def _without_gated_hints(self, endpoints: Sequence[Object], old: Object) -> Sequence[Object]:
        known = [endpoint.get("hints") or {} for endpoint in old.get("endpoints") or ()]
        if not self._zone_hints and not any(known):
            return [_without(endpoint, "hints") for endpoint in endpoints]
        if not self._node_hints and not any(hints.get("forNodes") for hints in known):
            return [
                endpoint | {"hints": _without(endpoint["hints"], "forNodes")} if endpoint.get("hints") else endpoint
                for endpoint in endpoints
            ]
        return endpoints

    def is_new_generation(self, new: Object, old: Object) -> bool:
        """Labels count, all other metadata does not."""
        labels, before = (obj["metadata"].get("labels") or {} for obj in (new, old))
        return labels != before or any((new.get(name) or None) != (old.get(name) or None) for name in _CONTENT)

    def validate_create(self, new: Object) -> Iterator[FieldError]:
        yield from _content(new)
        yield from _endpoints(new, known={})

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        type_, before = (obj.get("addressType") or "" for obj in (new, old))
        if type_ != before or new.get("ports") != old.get("ports"):
            yield from _content(new)
        if new.get("endpoints") != old.get("endpoints"):
            # Endpoints of the old slice are valid at any index.
            known = old.get("endpoints") or () if type_ == before else ()
            by_address = {endpoint["addresses"][0]: endpoint for endpoint in known if endpoint.get("addresses")}
            yield from _endpoints(new, known=by_address)
        yield from immutable_address_type(type_, before)


def _without(part: Mapping[str, Any], name: str) -> Object:
    return {key: value for key, value in part.items() if key != name}


def _content(slice_: Object) -> Iterator[FieldError]:
    content = {"addressType": slice_.get("addressType") or "", "ports": slice_.get("ports")}
    return content_errors(msgspec.convert(content, EndpointSlice))


def _endpoints(slice_: Object, *, known: Mapping[str, Object]) -> Iterator[FieldError]:
    """``known``: valid endpoints by their first address."""
    endpoints = slice_.get("endpoints") or ()
    if len(endpoints) > MAX_ENDPOINTS:
        yield too_many("endpoints", len(endpoints), MAX_ENDPOINTS)
        return
    unknown = {
        index: endpoint
        for index, endpoint in enumerate(endpoints)
        if not endpoint.get("addresses") or known.get(endpoint["addresses"][0]) != endpoint
    }
    address_type = slice_.get("addressType") or ""
    for index, endpoint in zip(unknown, msgspec.convert(list(unknown.values()), list[Endpoint]), strict=True):
        yield from endpoint_errors(endpoint, f"endpoints[{index}]", address_type)


# --- Endpoints --------------------------------------------------------------------------------------------------------


class EndpointsKind(Kind):
    kind, plural, short_names = "Endpoints", "endpoints", ("ep",)
    is_created_by_update = True
    warning = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"

    def default(self, new: Object, old: Object | None = None) -> None:
        subsets = new.pop("subsets", None) or ()
        if subsets:
            new["subsets"] = [_with_protocols(subset) for subset in subsets]

    def validate_create(self, new: Object) -> Iterator[FieldError]:
        for index, subset in enumerate(new.get("subsets") or ()):
            yield from _subset_errors(subset, f"subsets[{index}]")

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        if new.get("subsets") != old.get("subsets"):
            yield from self.validate_create(new)


def _with_protocols(subset: Object) -> Object:
    ports = [port | {"protocol": port.get("protocol") or "TCP"} for port in subset.get("ports") or ()]
    return subset | {"ports": ports} if ports else subset


def _subset_errors(subset: Mapping[str, Any], field: str) -> Iterator[FieldError]:
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        yield error("FieldValueRequired", field, "must specify `addresses` or `notReadyAddresses`")
    for name in ("addresses", "notReadyAddresses"):
        for index, address in enumerate(subset.get(name) or ()):
            yield from _address_errors(address, f"{field}.{name}[{index}]")
    ports = subset.get("ports") or ()
    for index, port in enumerate(ports):
        yield from port_errors(port, f"{field}.ports[{index}]", needs_name=len(ports) > 1)
        if (app_protocol := port.get("appProtocol")) is not None:
            problems = formats.qualified_name_problems(app_protocol)
            yield from invalid(f"{field}.ports[{index}].appProtocol", app_protocol, problems)


def _address_errors(address: Mapping[str, Any], field: str) -> Iterator[FieldError]:
    ip = address.get("ip") or ""
    parsed = formats.parse_address(ip)
    yield from invalid(f"{field}.ip", ip, formats.address_problems(ip, canonical=False))
    special = formats.destination_problems(ip, parsed) if parsed is not None else ["must be a valid IP address"]
    yield from invalid(f"{field}.ip", ip, special)
    if hostname := address.get("hostname"):
        yield from invalid(f"{field}.hostname", hostname, formats.label_problems(hostname))
    if (node := address.get("nodeName")) is not None:
        yield from invalid(f"{field}.nodeName", node, formats.subdomain_problems(node))
