"""Endpoints: defaults, and what is refused (``ValidateEndpoints`` of kube-apiserver v1.36)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from zoneward.kube import formats
from zoneward.kube.validation import PROTOCOLS, FieldError, error, invalid, not_supported
from zoneward.sandbox.server.kinds import Object, ObjectReader, Strategy
from zoneward.sandbox.server.strategies import metadata


class EndpointsStrategy(Strategy):
    def default(self, new: Object, old: Object | None = None) -> None:
        subsets = new.get("subsets") or ()
        if any(not port.get("protocol") for subset in subsets for port in subset.get("ports") or ()):
            new["subsets"] = [_with_protocols(subset) for subset in subsets]

    def prepare_create(self, new: Object, surroundings: ObjectReader) -> None:
        if not new.get("subsets"):
            new.pop("subsets", None)

    def prepare_update(self, new: Object, old: Object, surroundings: ObjectReader) -> None:
        self.prepare_create(new, surroundings)

    def metadata_errors(self, new: Object) -> Iterable[FieldError]:
        return metadata.metadata_errors(new, name_problems=metadata.subdomain_name_problems, is_namespaced=True)

    def metadata_update_errors(self, new: Object, old: Object) -> Iterable[FieldError]:
        return metadata.metadata_update_errors(new, old)

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
    yield from _ports_errors(subset.get("ports") or (), f"{field}.ports")


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


def _ports_errors(ports: Sequence[Mapping[str, Any]], field: str) -> Iterator[FieldError]:
    for index, port in enumerate(ports):
        here, name, protocol = f"{field}[{index}]", port.get("name") or "", port.get("protocol") or ""
        if name:
            yield from invalid(f"{here}.name", name, formats.label_problems(name))
        elif len(ports) > 1:
            yield error("FieldValueRequired", f"{here}.name")
        if not 1 <= port["port"] <= 65535:
            yield from invalid(f"{here}.port", port["port"], ["must be between 1 and 65535, inclusive"])
        if not protocol:
            yield error("FieldValueRequired", f"{here}.protocol")
        elif protocol not in PROTOCOLS:
            yield not_supported(f"{here}.protocol", protocol, sorted(PROTOCOLS))
        if (app_protocol := port.get("appProtocol")) is not None:
            yield from invalid(f"{here}.appProtocol", app_protocol, formats.qualified_name_problems(app_protocol))
