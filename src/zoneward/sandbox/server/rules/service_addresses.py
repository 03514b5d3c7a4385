"""What a Service takes from a common stock: its families, its cluster IPs, its node ports.

As upstream's ``pkg/registry/core/service/storage`` (v1.36) has it, oddities included: a new Service shares a node port
between protocols of one port, an updated one does not.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from zoneward.kube.formats import parse_address
from zoneward.kube.names import HEADLESS
from zoneward.kube.validation import FieldError, error, invalid
from zoneward.sandbox.server.allocation import AddressRange, PortRange, Unavailable
from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.refusals import Refusal, internal
from zoneward.sandbox.server.rules.service_needs import (
    WITH_NODE_PORTS,
    Spec,
    has_cluster_ips,
    held_addresses,
    held_ports,
    is_same,
    needs_health_check,
    needs_node_ports,
    numbers_of,
)
from zoneward.sandbox.server.rules.service_validation import cluster_ip_errors

FAMILIES: Final = ("IPv4", "IPv6")
SINGLE_STACK: Final = "SingleStack"
PREFER_DUAL_STACK: Final = "PreferDualStack"
REQUIRE_DUAL_STACK: Final = "RequireDualStack"
_SINGLE_ONLY: Final = "must be 'SingleStack' to release the secondary "
_DUAL_ONLY: Final = "must be 'RequireDualStack' or 'PreferDualStack' when multiple "


class Addresses:
    """The ranges of a cluster, and what its Services take from them."""

    def __init__(self, ranges: Sequence[AddressRange], ports: PortRange) -> None:
        """``ranges``: one, or one of each family; the first is the default."""
        if not 1 <= len(ranges) <= 2 or len({each.family for each in ranges}) != len(ranges):
            raise ValueError("a cluster has one range of cluster IPs, or one of each family")
        self._ranges = {each.family: each for each in ranges}
        self._default = ranges[0].family
        self._ports = ports

    def choose_families(self, new: dict[str, Any], old: Spec | None) -> list[FieldError]:
        """``ipFamilies`` and ``ipFamilyPolicy`` (``initIPFamilyFields``); again changes nothing."""
        if not has_cluster_ips(new):
            return []
        if old is not None:
            if "ipFamilyPolicy" not in new and "ipFamilyPolicy" in old:
                new["ipFamilyPolicy"] = old["ipFamilyPolicy"]
            if _keeps_preference(new, old):
                return []
        is_free = new.get("clusterIP") == HEADLESS and not new.get("selector")
        policy = new.get("ipFamilyPolicy")
        if errors := list(cluster_ip_errors(new)):
            return errors
        if policy is None:
            policy = REQUIRE_DUAL_STACK if is_free else SINGLE_STACK
        if errors := [*self._kept_both(new, old, policy), *self._inferred(new, policy)]:
            return errors
        new["ipFamilyPolicy"] = policy
        families: list[str] = list(new.get("ipFamilies") or ())
        if not is_free and (errors := list(self._configured(families, policy))):
            return errors
        families = families or [self._default]
        if len(families) == 1 and policy != SINGLE_STACK and (is_free or len(self._ranges) == 2):
            families.append(FAMILIES[1 - FAMILIES.index(families[0])])
        new["ipFamilies"] = families
        return []

    def _kept_both(self, new: dict[str, Any], old: Spec | None, policy: str) -> Iterator[FieldError]:
        """Only ``SingleStack`` gives up the second; it alone is enough, for what it leaves out is clear."""
        listed = (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family"))
        for field, word in listed if old is not None else ():
            had, has = (old or {}).get(field) or [], new.get(field) or []
            if policy == SINGLE_STACK:
                if had == has and len(has) > 1:
                    new[field] = has[:1]
            elif has and len(has) < len(had):
                yield from invalid("spec.ipFamilyPolicy", policy, [_SINGLE_ONLY + word])

    def _inferred(self, new: dict[str, Any], policy: str) -> Iterator[FieldError]:
        """The families of addresses whose family has not been named."""
        addresses, families = new.get("clusterIPs") or [], list(new.get("ipFamilies") or ())
        if policy == SINGLE_STACK:
            if len(addresses) == 2:
                yield from invalid("spec.ipFamilyPolicy", policy, [f"{_DUAL_ONLY}cluster IPs are specified"])
            if len(families) == 2:
                yield from invalid("spec.ipFamilyPolicy", policy, [f"{_DUAL_ONLY}IP families are specified"])
        for index, address in enumerate(addresses):
            parsed = parse_address(address)
            if parsed is None or index < len(families):
                continue
            if (family := f"IPv{parsed.version}") in self._ranges:
                families.append(family)
            else:
                yield from invalid(
                    f"spec.clusterIPs[{index}]", addresses, [f"{family} is not configured on this cluster"]
                )
        if families:
            new["ipFamilies"] = families

    def _configured(self, families: Sequence[str], policy: str) -> Iterator[FieldError]:
        if policy == REQUIRE_DUAL_STACK and len(self._ranges) < 2:
            problem = "this cluster is not configured for dual-stack services"
            yield from invalid("spec.ipFamilyPolicy", policy, [problem])
        for index, family in enumerate(families):
            if family not in self._ranges:
                yield from invalid(f"spec.ipFamilies[{index}]", family, ["not configured on this cluster"])

    def take(self, new: Object, old: Object | None) -> list[FieldError]:
        """All that ``new`` needs and ``old`` has not. Where it fails nothing is taken, and what is wrong returned or,
        where upstream has no field for it, raised as a Refusal.
        """
        taking = _Taking(self._ranges, self._ports, _owner(new))
        spec, before = new["spec"], None if old is None else old["spec"]
        try:
            errors = taking.addresses(spec, before) or taking.node_ports(spec, before)
            if not errors:
                taking.health_check(spec, before)
        except Refusal:
            taking.undo()
            raise
        if errors:
            taking.undo()
        return errors

    def take_all(self, thing: Object) -> list[FieldError]:
        """What an object from elsewhere has; what lies in no range of ours is let be. Where something is somebody
        else's nothing is taken.
        """
        spec, owner = thing["spec"], _owner(thing)
        errors: list[FieldError] = []
        taking = _Taking(self._ranges, self._ports, owner)
        for address in held_addresses(spec):
            for each in self._ranges.values():
                if address in each:
                    errors += taking.address(each, address, spec["clusterIPs"])
        for index, port in enumerate(spec.get("ports") or () if spec.get("type") in WITH_NODE_PORTS else ()):
            number = port.get("nodePort", 0)
            if number in self._ports and self._ports.owner(number) != owner:
                errors += taking.port(number, f"spec.ports[{index}].nodePort")
        number = spec.get("healthCheckNodePort", 0) if needs_health_check(spec) else 0
        if number in self._ports:
            errors += taking.port(number, "spec.healthCheckNodePort")
        if errors:
            taking.undo()
        return errors

    def give_back(self, new: Object | None, old: Object) -> None:
        """What ``old`` has and ``new`` has not."""
        spec, owner = old["spec"], _owner(old)
        kept = new["spec"] if new is not None else {}
        if kept is spec or (new is not None and is_same(kept, spec)):
            return
        kept_addresses, kept_ports = set(held_addresses(kept)), held_ports(kept)
        for address in held_addresses(spec):
            if address not in kept_addresses:
                for each in self._ranges.values():
                    each.release(address, owner)
        for port in held_ports(spec) - kept_ports:
            self._ports.release(port, owner)


def _keeps_preference(new: Spec, old: Spec) -> bool:
    """A Service that prefers two families does not gain or lose one because the cluster did."""
    fields = ("type", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
    return old.get("ipFamilyPolicy") == PREFER_DUAL_STACK and all(new.get(field) == old.get(field) for field in fields)


def _owner(thing: Object) -> str:
    metadata = thing["metadata"]
    # Not the name alone: one that is refused for its name must not give back what the other one of that name has.
    return str(metadata.get("uid") or f"{metadata.get('namespace', '')}/{metadata.get('name', '')}")


class _Taking:
    """What one write takes, until it is sure."""

    def __init__(self, ranges: Mapping[str, AddressRange], ports: PortRange, owner: str) -> None:
        self._ranges, self._ports, self._owner = ranges, ports, owner
        self._taken: list[tuple[AddressRange, str]] = []
        self._taken_ports: list[int] = []

    def undo(self) -> None:
        for range_, address in self._taken:
            range_.release(address, self._owner)
        for port in self._taken_ports:
            self._ports.release(port, self._owner)

    def address(self, range_: AddressRange, address: str, listed: list[str]) -> list[FieldError]:
        """One that was named."""
        try:
            range_.take(address, self._owner)
        except Unavailable as problem:
            return list(invalid("spec.clusterIPs", listed, [f"failed to allocate IP {address}: {problem}"]))
        self._taken.append((range_, address))
        return []

    def port(self, number: int, field: str) -> list[FieldError]:
        """One that was named."""
        try:
            self._take_port(number)
        except Unavailable as problem:
            return [error("FieldValueInvalid", field, str(problem), value=number)]
        return []

    def _take_port(self, number: int) -> None:
        self._ports.take(number, self._owner)
        self._taken_ports.append(number)

    def _next_port(self, what: str) -> int:
        try:
            number = self._ports.deal(self._owner)
        except Unavailable as problem:
            raise _internal(f"failed to allocate {what}: {problem}") from None
        self._taken_ports.append(number)
        return number

    def addresses(self, spec: dict[str, Any], old: Spec | None) -> list[FieldError]:
        """For a new Service all, for one that gets its second family that one; all else is not to change."""
        if not has_cluster_ips(spec) or spec.get("clusterIP") == HEADLESS:
            return []
        families, named = spec.get("ipFamilies") or [], list(spec.get("clusterIPs") or ())
        had = (old.get("clusterIPs") or []) if old is not None and has_cluster_ips(old) else []
        if old is not None and has_cluster_ips(old) and not (len(had) == 1 and len(families) == 2):
            return []
        got = had[:1]
        for index in range(len(got), len(families)):
            range_ = self._ranges[families[index]]
            if index < len(named) and named[index]:
                if errors := self.address(range_, named[index], named):
                    return errors
                got.append(named[index])
                continue
            try:
                address = range_.deal(self._owner)
            except Unavailable as problem:
                raise _internal(f"failed to allocate a serviceIP: {problem}") from None
            self._taken.append((range_, address))
            got.append(address)
        if had and spec.get("clusterIP") != had[0]:
            # It is refused for that later, and would not tell then what it has got.
            self.undo()
            return []
        spec["clusterIP"], spec["clusterIPs"] = got[0], got
        return []

    def node_ports(self, spec: dict[str, Any], old: Spec | None) -> list[FieldError]:
        if spec.get("type") not in WITH_NODE_PORTS:
            return []
        is_dealt = needs_node_ports(spec)
        ports: list[dict[str, Any]] = [dict(port) for port in spec.get("ports") or ()]
        errors = (
            self._new_node_ports(ports, is_dealt=is_dealt)
            if old is None
            else self._changed_node_ports(ports, numbers_of(old), is_dealt=is_dealt)
        )
        if ports != spec.get("ports"):
            spec["ports"] = ports
        return errors

    def _new_node_ports(self, ports: list[dict[str, Any]], *, is_dealt: bool) -> list[FieldError]:
        by_port: dict[int, int] = {}
        for index, port in enumerate(ports):
            if not port.get("nodePort") and not is_dealt:
                continue
            number = by_port.get(port["port"], 0)
            if number and port.get("nodePort") in (None, 0, number):
                port["nodePort"] = number
                continue
            alike = (each["nodePort"] for each in ports if each["port"] == port["port"] and each.get("nodePort"))
            wanted = port.get("nodePort", 0) if number else next(alike, 0)
            if wanted and (errors := self.port(wanted, f"spec.ports[{index}].nodePort")):
                return errors
            port["nodePort"] = wanted or self._next_port("a nodePort")
            by_port.setdefault(port["port"], port["nodePort"])
        return []

    def _changed_node_ports(self, ports: list[dict[str, Any]], had: set[int], *, is_dealt: bool) -> list[FieldError]:
        met: set[tuple[str, int]] = set()
        for index, port in enumerate(ports):
            number = port.get("nodePort", 0)
            if not number and not is_dealt:
                continue
            if not number:
                port["nodePort"] = number = self._next_port("a nodePort")
            elif number not in had | {*self._taken_ports}:
                errors = self.port(number, f"spec.ports[{index}].nodePort")
                if errors:
                    return errors
            if (key := (port.get("protocol", ""), number)) in met:
                raise internal(f"duplicate nodePort: {{{key[0]} {number}}}")
            met.add(key)
        return []

    def health_check(self, spec: dict[str, Any], old: Spec | None) -> None:
        if not needs_health_check(spec) or (old is not None and needs_health_check(old)):
            return
        if not (number := spec.get("healthCheckNodePort", 0)):
            spec["healthCheckNodePort"] = self._next_port("a HealthCheck NodePort 0")
            return
        try:
            self._take_port(number)
        except Unavailable as problem:
            raise _internal(f"failed to allocate requested HealthCheck NodePort {number}: {problem}") from None


def _internal(problem: str) -> Refusal:
    message = f"Internal error occurred: {problem}"
    return Refusal(500, "InternalError", message, details={"causes": [{"message": problem}]})
