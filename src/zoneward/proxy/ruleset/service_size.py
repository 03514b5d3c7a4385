"""Counts the entries of a Service, enforces their limit, and splits a Service that is too large for one transaction:
some of its ports at a time, each port as a whole."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from zoneward.kube.addresses import parse_address
from zoneward.kube.objects import EndpointSlice, Service
from zoneward.netlink.messages import ADDRESS_TYPES, FAMILIES, Family
from zoneward.proxy.model.node_service import (
    NodeService,
    NodeServicePort,
    OnLeftOut,
    ProxyNode,
    ServiceKey,
    family_of_address,
    node_services,
)
from zoneward.proxy.ruleset.endpoint_slots import slots_per_endpoint
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import (
    Consumer,
    SelectionRule,
    load_balancer_addresses,
    port_key,
)
from zoneward.routing.selection.entry_budget import EntryBudget

MAX_SERVICE_ENTRIES: Final = 250_000
"""The default limit: 50 ports with 5,000 endpoints."""
_OF_A_CHAIN: Final = 20
"""One chain with its rules takes the kernel as long as this number of entries."""
ServiceParts = tuple[NodeService, ...]
"""A Service between two versions: each port once, with its addresses and policies. A single part is the whole Service;
no part: the Service does not exist."""


class ServiceTooLarge(Exception):  # noqa: N818 -- it is a fact about a Service
    """A Service exceeds its limit of entries in one family. ``addresses`` are those of its endpoints."""

    def __init__(self, family: Family, entries: int, most: int, addresses: Collection[str] = ()) -> None:
        super().__init__(
            f"the addresses, source ranges and endpoints of all its ports come to {entries:,} entries in"
            f" {ADDRESS_TYPES[family]}, "
            f"expected at most {most:,} (--max-service-entries)"
        )
        self.family, self.addresses = family, frozenset(addresses)


def node_services_within(
    most: int,
    service: Service,
    slices: Sequence[EndpointSlice],
    *,
    node: ProxyNode,
    consumer: Consumer,
    gates: FeatureGates,
    service_ranges: Sequence[str],
    left_out: OnLeftOut,
) -> dict[Family, NodeService]:
    """The result of `node_services` by family, with at most ``most`` entries in each. Raises ServiceTooLarge.

    Weights of zones are ignored where they take too many slots: with hints the Service may be small enough.
    """
    check_requested_entries(service, slices, most=most)

    def selected(consumer: Consumer) -> dict[Family, NodeService]:
        services = node_services(
            service,
            slices,
            node=node,
            consumer=consumer,
            gates=gates,
            service_ranges=service_ranges,
            left_out=left_out,
        )
        return {served.family: served for served in services}

    services = selected(consumer)
    if any(
        count_entries(served) > most and port.selection_rule is SelectionRule.ZONE_WEIGHTS
        for served in services.values()
        for port in served.ports
    ):
        left_out("weights of zones take too many entries (--max-service-entries)")
        services = selected(replace(consumer, zone_weights=False))
    for family, served in services.items():
        if (entries := count_entries(served)) > most:
            raise ServiceTooLarge(family, entries, most, _addresses(slices))
    return services


def check_requested_entries(service: Service, slices: Sequence[EndpointSlice], *, most: int) -> None:
    """Check the number of endpoints of all ports, ready or not, external addresses and source ranges, before any is
    selected or parsed. Raises ServiceTooLarge."""
    spec = service.spec
    ports = [(port.name, port.protocol) for port in spec.ports or ()]
    counts: Counter[str] = Counter()
    for text in (*(spec.external_ips or ()), *load_balancer_addresses(service)):
        counts[ADDRESS_TYPES[family_of_address(text)]] += len(ports)
    for text in spec.load_balancer_source_ranges or ():
        counts[ADDRESS_TYPES[family_of_address(text)]] += 1
    for slice_ in slices:
        there = Counter(map(port_key, slice_.ports or ()))
        counts[slice_.address_type] += sum(there[port] for port in ports) * len(slice_.endpoints or ())
    for family in FAMILIES:
        if (entries := counts[ADDRESS_TYPES[family]]) > most:
            raise ServiceTooLarge(family, entries, most, _addresses(slices))


def _addresses(slices: Sequence[EndpointSlice]) -> Collection[str]:
    words = (word for slice_ in slices for endpoint in slice_.endpoints or () for word in endpoint.addresses or ())
    return {address for word in words if (address := parse_address(word)) is not None}


def keep_endpoints(service: NodeService, addresses: Collection[str]) -> NodeService:
    """The Service with only the endpoints that have one of these addresses."""
    return replace(service, ports=tuple(_with_endpoints(port, addresses) for port in service.ports))


def _with_endpoints(port: NodeServicePort, addresses: Collection[str]) -> NodeServicePort:
    cluster, local, serving = (
        tuple(endpoint for endpoint in endpoints if endpoint.address in addresses)
        for endpoints in (port.cluster_endpoints, port.local_endpoints, port.serving_endpoints)
    )
    weights = port.weights
    if weights is not None:
        weights = tuple(
            weight
            for endpoint, weight in zip(port.cluster_endpoints, weights, strict=True)
            if endpoint.address in addresses
        )
    return replace(port, cluster_endpoints=cluster, local_endpoints=local, serving_endpoints=serving, weights=weights)


def count_entries(service: NodeService) -> int:
    """The number of entries of a Service in one family: for each port its addresses, its node port and its endpoints;
    and its source ranges, with which each load balancer IP counts twice.

    With weights, an endpoint counts once per slot; with affinity it has a chain, which counts as 20 entries.
    """
    addresses = 1 + len(service.external_ips) + len(service.load_balancer_ips)
    if service.source_ranges:
        addresses += len(service.load_balancer_ips)
    return 1 + len(service.source_ranges) + sum(addresses + _size(port) for port in service.ports)


def set_entries(budget: EntryBudget, service: ServiceKey, families: Mapping[Family, NodeService]) -> set[ServiceKey]:
    """Record the entries of a Service in all its families; no family: it was deleted. Returns the Services that are
    newly set aside, or no longer are."""
    entries = sum(map(count_entries, families.values())) if families else None
    creation_timestamp = next((family.creation_timestamp for family in families.values()), "")
    return budget.set_entries(service, entries, creation_timestamp=creation_timestamp)


def _size(port: NodeServicePort) -> int:
    slots = len(port.cluster_endpoints) if port.weights is None else sum(slots_per_endpoint(port.weights))
    chains = 0 if port.affinity_seconds is None else _OF_A_CHAIN * len(port.all_reachable_endpoints)
    return slots + len(port.local_endpoints) + chains + (port.node_port is not None)


def next_parts(there: ServiceParts, wanted: ServiceParts, *, most: int) -> ServiceParts:
    """The parts to program next: all of ``wanted`` where that changes at most ``most`` entries, else as many ports as
    that allows, and at least one.

    Each step costs as much as the whole Service, so a small change of a large Service takes one step.
    """
    if sum(map(count_entries, (*there, *wanted))) <= most:
        return wanted
    now, then = _by_port(there), _by_port(wanted)
    parts, room = dict(now), most
    for port in {**then, **now}:
        before, after = now.get(port), then.get(port)
        if before == after:
            continue
        if room <= 0:
            return tuple(parts.values())
        room -= _changed_entries(before, after)
        if after is None:
            del parts[port]
        else:
            parts[port] = after
    return wanted


def _changed_entries(before: NodeService | None, after: NodeService | None) -> int:
    """The number of entries of one port that change: all of them where more than its endpoints changes."""
    if before is not None and after is not None:
        (old,), (new,) = before.ports, after.ports
        is_plain = new.weights is None and new.affinity_seconds is None
        alike = replace(
            old,
            cluster_endpoints=new.cluster_endpoints,
            local_endpoints=new.local_endpoints,
            serving_endpoints=new.serving_endpoints,
        )
        if is_plain and replace(before, ports=(alike,)) == after:
            return sum(
                len(set(one) ^ set(other))
                for one, other in (
                    (old.cluster_endpoints, new.cluster_endpoints),
                    (old.local_endpoints, new.local_endpoints),
                )
            )
    return max(count_entries(part) for part in (before, after) if part is not None)


def _by_port(parts: Sequence[NodeService]) -> Mapping[tuple[str, str], NodeService]:
    """Each port as a separate Service, without the fields that no rule depends on."""
    return {
        (port.name, port.protocol): replace(part, ports=(port,), ready_local_endpoints=0, health_check_port=None)
        for part in parts
        for port in part.ports
    }
