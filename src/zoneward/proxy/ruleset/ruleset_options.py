"""Builds the options of the rules from the proxy's settings and the Node's addresses."""

from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Final

from zoneward.kube.addresses import is_in_cidr, parse_address
from zoneward.kube.objects import Node
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.model.node_service import family_of_address
from zoneward.proxy.proxy_configuration import PRIMARY, ProxyConfiguration, by_family, network_of
from zoneward.proxy.ruleset.base_rules import RulesetOptions

_KINDS: Final = ("InternalIP", "ExternalIP")


def all_node_addresses(
    node: Node | None, *, left_out: Callable[[str], None] = lambda _address: None
) -> dict[Family, tuple[str, ...]]:
    """The addresses of a Node, internal ones first. ``left_out`` gets each invalid one, unchanged."""
    reported = (node.status.addresses if node is not None and node.status is not None else None) or ()
    addresses_by_family: dict[Family, dict[str, None]] = {}
    for kind in _KINDS:
        for entry in reported:
            if entry.type == kind and entry.address:
                address = parse_address(entry.address)
                if address is None:
                    left_out(entry.address)
                else:
                    addresses_by_family.setdefault(family_of_address(address), {})[address] = None
    return {family: tuple(addresses) for family, addresses in addresses_by_family.items()}


def node_port_addresses(options: RulesetOptions, node: Node | None) -> dict[Family, frozenset[str]]:
    """The Node's addresses that serve node ports."""
    ranges = options.node_port_cidrs or {}
    return {
        family: frozenset(
            address
            for address in addresses
            if family not in ranges or any(is_in_cidr(address, range_) for range_ in ranges[family])
        )
        for family, addresses in all_node_addresses(node).items()
    }


def ruleset_options(settings: ProxyConfiguration, node: Node | None) -> RulesetOptions:
    """The options of the rules. If the Node reports no address, all of its addresses serve node ports."""
    # The first internal address of each family identifies a Node, else the first external one.
    own = {family: addresses[0] for family, addresses in all_node_addresses(node).items()}
    ranges: dict[Family, Sequence[str]]
    if settings.node_port_addresses == (PRIMARY,):
        ranges = {family: (address,) for family, address in own.items()}
    else:
        ranges = _of_families([network_of(address) for address in settings.node_port_addresses])
    return RulesetOptions(
        pod_cidrs=by_family(settings.cluster_cidrs) or None,
        pod_interfaces=None if settings.pod_interfaces is None else f"{settings.pod_interfaces}*",
        masquerade_all=settings.masquerade_all,
        masquerade_mark=1 << settings.masquerade_bit,
        service_cidrs=_of_families(settings.service_ranges) or None,
        node_port_cidrs=ranges or None,
        node_ips=own or None,
    )


def is_node_port_address(options: RulesetOptions, family: Family, address: bytes) -> bool:
    """Whether the options allow node ports on an address, given by its bytes."""
    ranges = (options.node_port_cidrs or {}).get(family, ())
    return not ranges or any(is_in_cidr(str(ip_address(address)), range_) for range_ in ranges)


def _of_families(ranges: Sequence[str]) -> dict[Family, Sequence[str]]:
    ranges_by_family = {
        family: tuple(range_ for range_ in ranges if family_of_address(range_) == family) for family in FAMILIES
    }
    return {family: family_ranges for family, family_ranges in ranges_by_family.items() if family_ranges}
