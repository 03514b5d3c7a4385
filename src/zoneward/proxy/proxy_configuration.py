"""The settings of a node's proxy that selection does not depend on, and the options of the rules."""

from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address, ip_network
from typing import Annotated, Final

from msgspec import Meta, field

from zoneward.daemon.listen_address import ListenAddress, ListenText, OptionalListenText, parse_listen_address
from zoneward.daemon.log import LogFormat
from zoneward.kube.addresses import is_in_cidr, parse_address
from zoneward.kube.input_error import ConfigurationError, show
from zoneward.kube.objects import Node
from zoneward.kube.settings import AtLeastOne, Name, Seconds, Settings, bounds
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.model.node_service import family_of_address
from zoneward.proxy.ruleset.base_rules import RulesetOptions
from zoneward.proxy.ruleset.ruleset import quote
from zoneward.proxy.ruleset.service_rules import MAX_SERVICE_ENTRIES
from zoneward.routing.selection.entry_budget import MAX_ENTRIES, MAX_NAMESPACE_ENTRIES

SECTION: Final = "proxy"
PRIMARY: Final = "primary"
"""Instead of CIDRs: the addresses in the status of the Node."""
DEFAULT_PORT: Final = 10272
"""The port after the controller's 10271."""
HEALTHZ_PORT: Final = 10256
"""The port on which kube-proxy serves load balancers' probes."""
PROXY_MODE_PORT: Final = 10249
"""The port on which kube-proxy serves ``/proxyMode``."""
_LONGEST_INTERFACE: Final = 15


class ProxyConfiguration(Settings, frozen=True, kw_only=True):
    """Durations in seconds. ``cluster_cidrs`` or ``pod_interfaces`` (a prefix of names) identify traffic from Pods
    of this node; without either, the proxy cannot distinguish it from external traffic.

    ``node_port_addresses``: CIDRs, or `PRIMARY` alone. ``lease_namespace`` None: the Pod's namespace, or
    kube-system. ``healthz_listen`` None: disabled. ``proxy_mode_listen`` empty: disabled; None: see
    `proxy_mode_address`.
    """

    cluster_cidrs: tuple[str, ...] = field(default=(), name="clusterCIDRs")
    pod_interfaces: Name | None = field(default=None, name="podInterfacePrefix")
    masquerade_all: bool = False
    masquerade_bit: Annotated[int, Meta(ge=0, le=31)] = 14
    node_port_addresses: tuple[str, ...] = (PRIMARY,)
    service_cidrs: tuple[str, ...] = field(default=(), name="serviceCIDRs")
    proxy_name: Name | None = field(default=None, name="serviceProxyName")
    audit_period: Annotated[Seconds, bounds("a duration of at least 10s", ge=10)] = 900.0
    max_service_entries: AtLeastOne = MAX_SERVICE_ENTRIES
    max_namespace_entries: AtLeastOne = MAX_NAMESPACE_ENTRIES
    max_entries: AtLeastOne = MAX_ENTRIES
    count_connections: bool = True
    lease_namespace: Name | None = None
    listen: ListenText = f"127.0.0.1:{DEFAULT_PORT}"
    healthz_listen: ListenText | None = f":{HEALTHZ_PORT}"
    proxy_mode_listen: OptionalListenText | None = None
    debug_for_all: bool = False
    log_format: LogFormat | None = None

    def __post_init__(self) -> None:
        """Raises ConfigurationError for an invalid value, or a conflict between fields."""
        super().__post_init__()
        if self.cluster_cidrs and self.pod_interfaces is not None:
            raise ConfigurationError("clusterCIDRs and podInterfacePrefix: expected one of them, got both")
        if self.pod_interfaces is not None and not _is_interface_prefix(self.pod_interfaces):
            expected = "expected how names of interfaces begin (veth)"
            raise ConfigurationError(f"podInterfacePrefix: {expected}, got {show(self.pod_interfaces)}")
        node_ports = () if self.node_port_addresses == (PRIMARY,) else self.node_port_addresses
        for key, ranges, alternative in (
            ("clusterCIDRs", self.cluster_cidrs, ""),
            ("serviceCIDRs", self.service_cidrs, ""),
            ("nodePortAddresses", node_ports, f", or {PRIMARY} alone"),
        ):
            for text in ranges:
                try:
                    network_of(text)
                except ValueError:
                    expected = f"{key}: expected a range of addresses (10.0.0.0/8){alternative}"
                    raise ConfigurationError(f"{expected}, got {show(text)}") from None
        by_family(self.cluster_cidrs)

    @property
    def service_ranges(self) -> tuple[str, ...]:
        """The service CIDRs in canonical form."""
        return tuple(map(network_of, self.service_cidrs))

    @property
    def proxy_mode_address(self) -> ListenAddress | None:
        """Where ``/proxyMode`` is served; None: disabled. By default kube-proxy's address, if this proxy replaces
        it."""
        if self.proxy_mode_listen is None:
            return ListenAddress("127.0.0.1", PROXY_MODE_PORT) if self.proxy_name is None else None
        return parse_listen_address(self.proxy_mode_listen) if self.proxy_mode_listen else None


def by_family(ranges: Iterable[str]) -> dict[Family, str]:
    """The CIDR of each family. Raises ConfigurationError for two of the same family."""
    range_by_family: dict[Family, str] = {}
    for text in ranges:
        family = family_of_address(text)
        if family in range_by_family:
            both = f"{range_by_family[family]} and {text}"
            raise ConfigurationError(f"clusterCIDRs: expected one of each family, got {both}")
        range_by_family[family] = network_of(text)
    return range_by_family


def network_of(text: str) -> str:
    """The canonical form of a CIDR or an address from the settings. Raises ValueError."""
    if "%" in text:
        # Python accepts any text as the scope of an address.
        raise ValueError(f"expected a range of addresses, got {text!r}")
    return str(ip_network(text))


def _is_interface_prefix(text: str) -> bool:
    """Whether the kernel and nft accept the text as a prefix of an interface name."""
    try:
        quote(text)
    except ValueError:
        return False
    return len(text) <= _LONGEST_INTERFACE and not set(text) & set("/:*")


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
