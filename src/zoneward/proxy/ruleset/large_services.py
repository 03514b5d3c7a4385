"""How large a Service is in a table, whether it may be, and the way to one that is too large for one transaction: some
of its ports at a time, each port as a whole."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from zoneward.kube.objects import EndpointSlice, Service
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.model.addresses import address_of
from zoneward.proxy.model.served import ADDRESS_TYPES, LeftOut, Node, Served, ServedPort, served
from zoneward.proxy.ruleset.slots import repeats
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import Consumer, port_key

MAX_SERVICE_ENTRIES: Final = 250_000
"""By default: 50 ports with 5,000 endpoints."""
_OF_A_CHAIN: Final = 20
"""Entries that the kernel takes in the time of one chain with its rules."""
Parts = tuple[Served, ...]
"""A Service as it is between two versions: each port once, with the addresses and policies that it has. One part alone
is the Service itself; none: it is not there."""


class TooLarge(Exception):  # noqa: N818 -- it is a fact about a Service
    """A Service takes more entries in one family than it may. ``addresses`` are those of its endpoints."""

    def __init__(self, family: Family, entries: int, most: int, addresses: Collection[str] = ()) -> None:
        super().__init__(
            f"the addresses and endpoints of all its ports come to {entries:,} entries in {ADDRESS_TYPES[family]}, "
            f"expected at most {most:,} (--max-service-entries)"
        )
        self.family, self.addresses = family, frozenset(addresses)


def served_within(
    most: int,
    service: Service,
    slices: Sequence[EndpointSlice],
    *,
    node: Node,
    consumer: Consumer,
    gates: FeatureGates,
    service_ranges: Sequence[str],
    left_out: LeftOut,
) -> dict[Family, Served]:
    """As `served`, by family, of a Service that has at most ``most`` entries in each. Raises TooLarge."""
    check_endpoints(service, slices, most=most)
    found = {}
    for each in served(
        service,
        slices,
        node=node,
        consumer=consumer,
        gates=gates,
        service_ranges=service_ranges,
        left_out=left_out,
    ):
        _check_size(each, slices, most=most)
        found[each.family] = each
    return found


def check_endpoints(service: Service, slices: Sequence[EndpointSlice], *, most: int) -> None:
    """Before anything is selected of them: the endpoints of all ports, ready or not. Raises TooLarge."""
    ports = [(port.name, port.protocol) for port in service.spec.ports or ()]
    found: Counter[str] = Counter()
    for each in slices:
        there = Counter(map(port_key, each.ports or ()))
        found[each.address_type] += sum(there[port] for port in ports) * len(each.endpoints or ())
    for family in FAMILIES:
        if (entries := found[ADDRESS_TYPES[family]]) > most:
            raise TooLarge(family, entries, most, _addresses(slices))


def _check_size(served: Served, slices: Sequence[EndpointSlice], *, most: int) -> None:
    """Raises TooLarge."""
    if (entries := size(served)) > most:
        raise TooLarge(served.family, entries, most, _addresses(slices))


def _addresses(slices: Sequence[EndpointSlice]) -> Collection[str]:
    words = (word for each in slices for endpoint in each.endpoints or () for word in endpoint.addresses or ())
    return {address for word in words if (address := address_of(word)) is not None}


def with_endpoints(served: Served, addresses: Collection[str]) -> Served:
    """Without endpoints that have none of these addresses."""
    return replace(served, ports=tuple(_with_endpoints(port, addresses) for port in served.ports))


def _with_endpoints(port: ServedPort, addresses: Collection[str]) -> ServedPort:
    cluster, local, serving = (
        tuple(each for each in some if each.address in addresses) for some in (port.cluster, port.local, port.serving)
    )
    weights = port.weights
    if weights is not None:
        weights = tuple(weight for each, weight in zip(port.cluster, weights, strict=True) if each.address in addresses)
    return replace(port, cluster=cluster, local=local, serving=serving, weights=weights)


def size(served: Served) -> int:
    """The entries of a Service in one family: for each port its addresses, its node port and its endpoints.

    With weights, an endpoint counts as many times as it has slots; with affinity it has a chain, which counts as 20.
    """
    addresses = 1 + len(served.external) + len(served.balancers)
    return 1 + sum(addresses + _size(port) for port in served.ports)


def _size(port: ServedPort) -> int:
    slots = len(port.cluster) if port.weights is None else sum(repeats(port.weights))
    chains = 0 if port.affinity is None else _OF_A_CHAIN * len(port.reachable)
    return slots + len(port.local) + chains + (port.node_port is not None)


def next_parts(there: Parts, wanted: Parts, *, most: int) -> Parts:
    """What to program next on the way from what is there: all that is wanted, where that changes ``most`` entries at
    most, else as many ports as that allows, one at least."""
    if sum(map(size, (*there, *wanted))) <= most:
        return wanted
    now, then = _by_port(there), _by_port(wanted)
    found, room = dict(now), most
    for port in {**then, **now}:
        before, after = now.get(port), then.get(port)
        if before == after:
            continue
        if room <= 0:
            return tuple(found.values())
        room -= max(size(each) for each in (before, after) if each is not None)
        if after is None:
            del found[port]
        else:
            found[port] = after
    return wanted


def _by_port(parts: Sequence[Served]) -> Mapping[tuple[str, str], Served]:
    """Each port as a Service of its own, without what no rule depends on."""
    return {
        (port.name, port.protocol): replace(each, ports=(port,), healthy=0, health_check_port=None)
        for each in parts
        for port in each.ports
    }
