"""Cluster IPs of both families and node ports, which all Services share.

Addresses and ports are allocated in order, starting above the part that kube-apiserver keeps for clients that name
theirs (KEP-3070, KEP-3668); one that is free again comes last. The cluster is always dual-stack, IPv4 first.
"""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any, Final, Generic, TypeVar

from zoneward.kube.formats import parse_address
from zoneward.kube.names import HEADLESS
from zoneward.kube.validation import FieldError, error, invalid
from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.status_errors import StatusError

Spec = Mapping[str, Any]
WITH_NODE_PORTS: Final = ("NodePort", "LoadBalancer")
CLUSTER_IPS: Final = ("10.96.0.0/12", "fd00:10:96::/112")
NODE_PORTS: Final = range(30000, 32768)
_Value = TypeVar("_Value", int, IPv4Address, IPv6Address)


class UnavailableError(Exception):
    """An address or port cannot be allocated; the text says why, in kube-apiserver's words."""


class AllocationPool(Generic[_Value]):
    """Values in order, such as a network or a range, each with its owner."""

    def __init__(self, values: Any, *, size: int, start: int, what: str, outside: str) -> None:
        """``start`` is the index at which to begin. ``what`` and ``outside`` are words of an `UnavailableError`."""
        self.values, self._size, self._next = values, size, start
        self._what, self._outside = what, outside
        self._owners: dict[_Value, str] = {}

    def take(self, value: _Value | None, owner: str) -> None:
        """Raises UnavailableError, unless the owner has the value already."""
        if value is None or value not in self.values:
            raise UnavailableError(self._outside)
        if self._owners.setdefault(value, owner) != owner:
            raise UnavailableError(f"provided {self._what} is already allocated")

    def take_next(self, owner: str) -> _Value:
        """Raises UnavailableError when none is free."""
        # One step more than owners finds a free value, if any is left.
        for _ in range(min(self._size, len(self._owners) + 1)):
            value: _Value = self.values[self._next]
            self._next = (self._next + 1) % self._size
            if value not in self._owners:
                self._owners[value] = owner
                return value
        raise UnavailableError("range is full")

    def release(self, value: _Value | None, owner: str) -> None:
        """Does nothing to the value of another owner."""
        if value is not None and self._owners.get(value) == owner:
            del self._owners[value]


class ServiceAllocator:
    """Allocates and releases the cluster IPs and node ports of Services."""

    def __init__(self, cluster_ips: tuple[str, str] = CLUSTER_IPS, ports: range = NODE_PORTS) -> None:
        """``cluster_ips``: a network of each family."""
        outside = "the provided network does not match the current range"
        self._ips: dict[str, AllocationPool[Any]] = {}
        for family, network in zip(("IPv4", "IPv6"), map(ip_network, cluster_ips), strict=True):
            size = network.num_addresses
            start = min(size // 16, 256) + 1
            pool = AllocationPool[Any](network, size=size, start=start, what="IP", outside=outside)
            # No Service gets the address of the network, or the one for broadcasts.
            pool.take(network[0], "")
            pool.take(network[-1], "")
            self._ips[family] = pool
        span = f"{ports.start}-{ports.stop - 1}"
        outside = f"provided port is not in the valid range. The range of valid ports is {span}"
        start = len(ports) // 32
        self._ports = AllocationPool[int](ports, size=len(ports), start=start, what="port", outside=outside)

    def allocate(self, new: Object, old: Object | None) -> list[FieldError]:
        """All that ``new`` needs and ``old`` does not have. Where that fails nothing is taken. Raises StatusError where
        kube-apiserver has no field for what is wrong.
        """
        spec, before, owner = new["spec"], {} if old is None else old["spec"], _owner(new)
        try:
            errors = [*self._allocate_ips(spec, before, owner), *self._allocate_ports(spec, before, owner)]
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
            parsed = parse_address(address)
            if parsed is not None and parsed in self._ips[family_of(address)].values:
                errors += self._take_ip(address, spec["clusterIPs"], owner)
        for number in sorted(_held_ports(spec)):
            errors += self._take_port(number, "spec.ports", owner) if number in self._ports.values else []
        if errors:
            self.release(None, new)
        return errors

    def release(self, new: Object | None, old: Object) -> None:
        """What ``old`` has and ``new`` does not."""
        spec, owner, kept = old["spec"], _owner(old), {} if new is None else new["spec"]
        for address in set(_held_ips(spec)) - set(_held_ips(kept)):
            self._ips[family_of(address)].release(parse_address(address), owner)
        for port in _held_ports(spec) - _held_ports(kept):
            self._ports.release(port, owner)

    def _allocate_ips(self, spec: dict[str, Any], before: Spec, owner: str) -> Iterator[FieldError]:
        if spec.get("type") == "ExternalName" or spec.get("clusterIP") == HEADLESS:
            return
        families, named, had = spec.get("ipFamilies") or [], list(spec.get("clusterIPs") or ()), _held_ips(before)
        if had and (spec.get("clusterIP") != had[0] or len(families) <= len(had)):
            # It stays as it is, or validation refuses the change.
            return
        got = list(had)
        for index in range(len(had), len(families)):
            if index < len(named) and named[index]:
                if errors := self._take_ip(named[index], named, owner):
                    yield from errors
                    return
                got.append(named[index])
            else:
                got.append(str(self._ips[families[index]].take_next(owner)))
            spec["clusterIP"], spec["clusterIPs"] = got[0], got

    def _take_ip(self, address: str, addresses: list[str], owner: str) -> list[FieldError]:
        try:
            self._ips[family_of(address)].take(parse_address(address), owner)
        except UnavailableError as problem:
            return list(invalid("spec.clusterIPs", addresses, [f"failed to allocate IP {address}: {problem}"]))
        return []

    def _allocate_ports(self, spec: dict[str, Any], before: Spec, owner: str) -> Iterator[FieldError]:
        if spec.get("type") not in WITH_NODE_PORTS:
            return
        had = _held_ports(before)
        ports: list[dict[str, Any]] = [dict(port) for port in spec.get("ports") or ()]
        # One number serves a port in all its protocols.
        numbers = {port["port"]: port["nodePort"] for port in ports if port.get("nodePort")}
        for index, port in enumerate(ports):
            if port.get("nodePort") and port["nodePort"] not in had:
                yield from self._take_port(port["nodePort"], f"spec.ports[{index}].nodePort", owner)
            elif needs_node_ports(spec) and not port.get("nodePort"):
                port["nodePort"] = numbers.get(port["port"]) or self._ports.take_next(owner)
                numbers[port["port"]] = port["nodePort"]
        if ports != (spec.get("ports") or []):
            spec["ports"] = ports
        if needs_health_check(spec) and not spec.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = self._ports.take_next(owner)
        elif needs_health_check(spec) and spec["healthCheckNodePort"] not in had:
            yield from self._take_port(spec["healthCheckNodePort"], "spec.healthCheckNodePort", owner)

    def _take_port(self, number: int, field: str, owner: str) -> list[FieldError]:
        try:
            self._ports.take(number, owner)
        except UnavailableError as problem:
            return [error("FieldValueInvalid", field, str(problem), value=number)]
        return []


def family_of(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"


def needs_node_ports(spec: Spec) -> bool:
    """Whether each of its ports gets a node port."""
    if spec.get("type") == "LoadBalancer":
        return bool(spec.get("allocateLoadBalancerNodePorts", True))
    return spec.get("type") == "NodePort"


def needs_health_check(spec: Spec) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _owner(thing: Object) -> str:
    metadata = thing["metadata"]
    # Not the name alone: a Service that is refused must not give back what another one of its name has.
    return str(metadata.get("uid") or f"{metadata.get('namespace', '')}/{metadata.get('name', '')}")


def _held_ips(spec: Spec) -> list[str]:
    if spec.get("type") == "ExternalName":
        return []
    return [address for address in spec.get("clusterIPs") or () if address and address != HEADLESS]


def _held_ports(spec: Spec) -> set[int]:
    ports = {port.get("nodePort") or 0 for port in spec.get("ports") or () if spec.get("type") in WITH_NODE_PORTS}
    return {*ports, spec.get("healthCheckNodePort") or 0 if needs_health_check(spec) else 0} - {0}
