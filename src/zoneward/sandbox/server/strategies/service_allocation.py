"""What Services take from a common stock: cluster IPs of both families, node ports.

Numbers are given upwards, from above the part that kube-apiserver leaves to those who name theirs (KEP-3070, KEP-3668),
and what was given back is given again only after all others. The cluster is always dual-stack, IPv4 first.
"""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_network
from typing import Any, Final

from zoneward.kube.formats import parse_address
from zoneward.kube.names import HEADLESS
from zoneward.kube.validation import FieldError, error, invalid
from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.status_errors import StatusError

Spec = Mapping[str, Any]

CLUSTER_IPS: Final = "10.96.0.0/12"
CLUSTER_IPS_V6: Final = "fd00:10:96::/112"
NODE_PORTS: Final = range(30000, 32768)
WITH_NODE_PORTS: Final = ("NodePort", "LoadBalancer")
_BEARING: Final = (
    "type",
    "clusterIP",
    "clusterIPs",
    "ipFamilies",
    "ports",
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "allocateLoadBalancerNodePorts",
)
"""What decides on addresses and ports."""


class UnavailableError(Exception):
    """What was asked for cannot be had; the text says why, in kube-apiserver's words."""


class Allocator:
    """Numbers from ``first`` up to but without ``end``, each with its owner."""

    def __init__(self, first: int, end: int, *, start: int, outside: str, taken: str) -> None:
        """``start``: where giving begins. ``outside`` and ``taken`` are the words of an `UnavailableError`."""
        self._first, self._end, self._next = first, end, start
        self._outside, self._taken = outside, taken
        self._owners: dict[int, str] = {}

    def __contains__(self, number: int) -> bool:
        return self._first <= number < self._end

    def take(self, number: int, owner: str) -> None:
        """Raises UnavailableError, unless it is the owner's already."""
        if number not in self:
            raise UnavailableError(self._outside)
        if self._owners.setdefault(number, owner) != owner:
            raise UnavailableError(self._taken)

    def take_next(self, owner: str) -> int:
        """Raises UnavailableError when there is none left."""
        # There is a free one among this many, if there is any: each step meets another number.
        for _ in range(min(self._end - self._first, len(self._owners) + 1)):
            number, self._next = self._next, self._next + 1 if self._next + 1 < self._end else self._first
            if number not in self._owners:
                self._owners[number] = owner
                return number
        raise UnavailableError("range is full")

    def release(self, number: int, owner: str) -> None:
        """Nothing happens to what somebody else has."""
        if self._owners.get(number) == owner:
            del self._owners[number]


class IPAllocator:
    """The cluster IPs of one family. The first is that of the Service ``kubernetes``."""

    def __init__(self, network: str) -> None:
        self._network = ip_network(network)
        size = self._network.num_addresses
        # The first address is the network's own, the last one of IPv4 that for broadcasts.
        end = size - 1 if self._network.version == 4 else size
        start = min(size // 16, 256) + 1
        outside = "the provided network does not match the current range"
        self._numbers = Allocator(1, end, start=start, outside=outside, taken="provided IP is already allocated")

    def __contains__(self, address: str) -> bool:
        return self._number(address) in self._numbers

    def take(self, address: str, owner: str) -> None:
        """Raises UnavailableError."""
        self._numbers.take(self._number(address), owner)

    def take_next(self, owner: str) -> str:
        """Raises UnavailableError."""
        return str(self._network.network_address + self._numbers.take_next(owner))

    def release(self, address: str, owner: str) -> None:
        self._numbers.release(self._number(address), owner)

    def _number(self, address: str) -> int:
        parsed = parse_address(address)
        if parsed is None or parsed.version != self._network.version:
            return -1
        return int(parsed) - int(self._network.network_address)


class ServiceAllocator:
    """Gives Services what they need, and takes back what they no longer have."""

    def __init__(self, cluster_ips: Sequence[str] = (CLUSTER_IPS, CLUSTER_IPS_V6), ports: range = NODE_PORTS) -> None:
        """``cluster_ips``: a network of each family."""
        self._ips = dict(zip(("IPv4", "IPv6"), map(IPAllocator, cluster_ips), strict=True))
        span = f"{ports.start}-{ports.stop - 1}"
        self._ports = Allocator(
            ports.start,
            ports.stop,
            start=ports.start + len(ports) // 32,
            outside=f"provided port is not in the valid range. The range of valid ports is {span}",
            taken="provided port is already allocated",
        )

    def allocate(self, new: Object, old: Object | None) -> list[FieldError]:
        """All that ``new`` needs and ``old`` has not. Where that fails nothing is taken. Raises StatusError where
        kube-apiserver has no field for what is wrong.
        """
        spec, before = new["spec"], {} if old is None else old["spec"]
        if old is not None and all(spec.get(field) == before.get(field) for field in _BEARING):
            return []
        errors = []
        try:
            errors = [*self._allocate_ips(spec, before, _owner(new)), *self._allocate_ports(spec, _owner(new))]
        except UnavailableError as problem:
            self.release(old, new)
            message = f"Internal error occurred: failed to allocate: {problem}"
            raise StatusError(500, "InternalError", message, details={"causes": [{"message": str(problem)}]}) from None
        if errors:
            self.release(old, new)
        return errors

    def restore(self, new: Object) -> list[FieldError]:
        """Take what an object from a file has, where that lies in a range."""
        spec, owner = new["spec"], _owner(new)
        errors: list[FieldError] = []
        for address in _held_ips(spec):
            errors += self._take_ip(address, spec["clusterIPs"], owner) if self._family_of(address) else []
        for number in sorted(_held_ports(spec)):
            errors += self._take_port(number, "spec.ports", owner) if number in self._ports else []
        if errors:
            self.release(None, new)
        return errors

    def release(self, new: Object | None, old: Object) -> None:
        """What ``old`` has and ``new`` has not."""
        spec, owner, kept = old["spec"], _owner(old), {} if new is None else new["spec"]
        kept_ips = _held_ips(kept)
        for address in _held_ips(spec):
            if address not in kept_ips:
                for allocator in self._ips.values():
                    allocator.release(address, owner)
        for port in _held_ports(spec) - _held_ports(kept):
            self._ports.release(port, owner)

    def _family_of(self, address: str) -> str:
        return next((family for family, allocator in self._ips.items() if address in allocator), "")

    def _allocate_ips(self, spec: dict[str, Any], before: Spec, owner: str) -> Iterator[FieldError]:
        if spec.get("type") == "ExternalName" or spec.get("clusterIP") == HEADLESS:
            return
        families, named = spec.get("ipFamilies") or [], list(spec.get("clusterIPs") or ())
        had = _held_ips(before)
        if had and (spec.get("clusterIP") != had[0] or len(families) <= len(had)):
            # It stays as it is, or is refused for what it changes.
            return
        got = list(had)
        for index in range(len(had), len(families)):
            if index < len(named) and named[index]:
                if errors := self._take_ip(named[index], named, owner, family=families[index]):
                    yield from errors
                    return
                got.append(named[index])
            else:
                got.append(self._ips[families[index]].take_next(owner))
            spec["clusterIP"], spec["clusterIPs"] = got[0], got

    def _take_ip(self, address: str, list_objects: list[str], owner: str, *, family: str = "") -> list[FieldError]:
        try:
            self._ips[family or self._family_of(address)].take(address, owner)
        except UnavailableError as problem:
            return list(invalid("spec.clusterIPs", list_objects, [f"failed to allocate IP {address}: {problem}"]))
        return []

    def _allocate_ports(self, spec: dict[str, Any], owner: str) -> Iterator[FieldError]:
        if spec.get("type") not in WITH_NODE_PORTS:
            return
        ports: list[dict[str, Any]] = [dict(port) for port in spec.get("ports") or ()]
        # One number serves a port in all its protocols.
        numbers = {port["port"]: port["nodePort"] for port in ports if port.get("nodePort")}
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                yield from self._take_port(port["nodePort"], f"spec.ports[{index}].nodePort", owner)
            elif needs_node_ports(spec):
                port["nodePort"] = numbers.get(port["port"]) or self._ports.take_next(owner)
                numbers[port["port"]] = port["nodePort"]
        if ports != spec.get("ports"):
            spec["ports"] = ports
        if needs_health_check(spec) and not spec.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = self._ports.take_next(owner)
        elif needs_health_check(spec):
            yield from self._take_port(spec["healthCheckNodePort"], "spec.healthCheckNodePort", owner)

    def _take_port(self, number: int, field: str, owner: str) -> list[FieldError]:
        try:
            self._ports.take(number, owner)
        except UnavailableError as problem:
            return [error("FieldValueInvalid", field, str(problem), value=number)]
        return []


def needs_node_ports(spec: Spec) -> bool:
    """Whether its ports get node ports unasked."""
    if spec.get("type") == "LoadBalancer":
        return bool(spec.get("allocateLoadBalancerNodePorts", True))
    return spec.get("type") == "NodePort"


def needs_health_check(spec: Spec) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _owner(thing: Object) -> str:
    metadata = thing["metadata"]
    # Not the name alone: one that is refused for its name must not give back what the other one of that name has.
    return str(metadata.get("uid") or f"{metadata.get('namespace', '')}/{metadata.get('name', '')}")


def _held_ips(spec: Spec) -> list[str]:
    if spec.get("type") == "ExternalName":
        return []
    return [address for address in spec.get("clusterIPs") or () if address and address != HEADLESS]


def _held_ports(spec: Spec) -> set[int]:
    ports = {port.get("nodePort") or 0 for port in spec.get("ports") or () if spec.get("type") in WITH_NODE_PORTS}
    return {*ports, spec.get("healthCheckNodePort") or 0 if needs_health_check(spec) else 0} - {0}
