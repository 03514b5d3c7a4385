"""The configuration of a node's proxy, beside what selection depends on: its values, and the table of its keys."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from typing import Final, Literal

from zoneward.daemon.configuration_file import (
    ListenAddress,
    Reader,
    read_boolean,
    read_choice,
    read_duration,
    read_listen_address,
    read_name,
    read_number,
    read_optional_listen_address,
    read_section,
    read_strings,
)
from zoneward.daemon.log import LogFormat
from zoneward.kube.input_error import ConfigurationError
from zoneward.netlink.messages import Family
from zoneward.proxy.model.node_service import family_of_address
from zoneward.proxy.ruleset.nft_commands import quote
from zoneward.proxy.ruleset.service_size import MAX_SERVICE_ENTRIES
from zoneward.routing.selection.entry_budget import MAX_ENTRIES, MAX_NAMESPACE_ENTRIES

SECTION: Final = "proxy"
PRIMARY: Final = "primary"
"""In place of ranges: the addresses in the status of the Node."""
DEFAULT_PORT: Final = 10272
"""Beside the controller's 10271."""
HEALTHZ_PORT: Final = 10256
"""Where load balancers ask kube-proxy."""
PROXY_MODE_PORT: Final = 10249
"""Where kube-proxy answers ``/proxyMode``."""
_MOST_BIT: Final = 31
_LONGEST_INTERFACE: Final = 15
_LEAST_AUDIT: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyConfiguration:
    """Durations in seconds. ``cluster_cidrs`` or ``pod_interfaces`` (how their names begin) tell which traffic comes
    from Pods of this node; without either, the proxy cannot tell it from traffic from outside.

    ``node_port_addresses``: CIDRs, or `PRIMARY` alone. ``lease_namespace`` None: the Pod's own, or kube-system.
    ``healthz_listen`` None: nowhere. ``proxy_mode_listen`` empty: nowhere; None: see `proxy_mode_address`.
    Raises ConfigurationError for values that do not go together.
    """

    cluster_cidrs: tuple[str, ...] = ()
    pod_interfaces: str | None = None
    masquerade_all: bool = False
    masquerade_bit: int = 14
    node_port_addresses: tuple[str, ...] = (PRIMARY,)
    service_cidrs: tuple[str, ...] = ()
    proxy_name: str | None = None
    audit_period: float = 900.0
    max_service_entries: int = MAX_SERVICE_ENTRIES
    max_namespace_entries: int = MAX_NAMESPACE_ENTRIES
    max_entries: int = MAX_ENTRIES
    count_connections: bool = True
    lease_namespace: str | None = None
    listen: ListenAddress = field(default_factory=lambda: ListenAddress("127.0.0.1", DEFAULT_PORT))
    healthz_listen: ListenAddress | None = field(default_factory=lambda: ListenAddress(None, HEALTHZ_PORT))
    proxy_mode_listen: ListenAddress | Literal[""] | None = None
    debug_for_all: bool = False
    log_format: LogFormat | None = None

    def __post_init__(self) -> None:
        if self.cluster_cidrs and self.pod_interfaces is not None:
            raise ConfigurationError(
                f"{SECTION}.clusterCIDRs and {SECTION}.podInterfacePrefix: expected one of them, got both"
            )
        if self.pod_interfaces is not None:
            _interface(self.pod_interfaces)
        for key, ranges in (("clusterCIDRs", self.cluster_cidrs), ("serviceCIDRs", self.service_cidrs)):
            for range_ in ranges:
                _network(range_, key)
        by_family(self.cluster_cidrs)
        if self.node_port_addresses != (PRIMARY,):
            for address in self.node_port_addresses:
                _network(address, "nodePortAddresses", or_else=f", or {PRIMARY} alone")
        if not 0 <= self.masquerade_bit <= _MOST_BIT:
            raise ConfigurationError(
                f"{SECTION}.masqueradeBit: expected a number from 0 to {_MOST_BIT}, got {self.masquerade_bit}"
            )
        for key, number in (
            ("maxServiceEntries", self.max_service_entries),
            ("maxNamespaceEntries", self.max_namespace_entries),
            ("maxEntries", self.max_entries),
        ):
            if number < 1:
                raise ConfigurationError(f"{SECTION}.{key}: expected at least 1, got {number}")
        if not self.audit_period >= _LEAST_AUDIT:
            raise ConfigurationError(
                f"{SECTION}.auditPeriod: expected at least {_LEAST_AUDIT:g}s, got {self.audit_period:g}s"
            )

    @property
    def service_ranges(self) -> tuple[str, ...]:
        """Canonical."""
        return tuple(map(network_of, self.service_cidrs))

    @property
    def proxy_mode_address(self) -> ListenAddress | None:
        """Where ``/proxyMode`` is answered; None: nowhere. By default where kube-proxy does, if this replaces it."""
        if self.proxy_mode_listen is None:
            return ListenAddress("127.0.0.1", PROXY_MODE_PORT) if self.proxy_name is None else None
        return self.proxy_mode_listen or None


def by_family(ranges: Iterable[str]) -> dict[Family, str]:
    """The range of each family. Raises ConfigurationError for two of one."""
    found: dict[Family, str] = {}
    for range_ in ranges:
        family = family_of_address(range_)
        if family in found:
            raise ConfigurationError(
                f"{SECTION}.clusterCIDRs: expected one of each family, got {found[family]} and {range_}"
            )
        found[family] = network_of(range_)
    return found


def network_of(text: str) -> str:
    """The canonical text of a range that an operator set, or of one address. Raises ValueError."""
    if "%" in text:
        # Python takes the zone of an address for a part of it, whatever that is.
        raise ValueError(f"expected a range of addresses, got {text!r}")
    return str(ip_network(text))


def read_proxy_configuration(section: object) -> ProxyConfiguration:
    """Read the section ``proxy`` of a ZonewardConfiguration.

    A key without a value is as if it were not there. Raises ConfigurationError for an unknown key, a wrong type, or a
    value out of range.
    """
    return replace(ProxyConfiguration(), **read_section(section, SECTION, _READ))


def _network(text: str, key: str, *, or_else: str = "") -> None:
    try:
        network_of(text)
    except ValueError:
        raise ConfigurationError(
            f"{SECTION}.{key}: expected a range of addresses (10.0.0.0/8){or_else}, got {text!r}"
        ) from None


def _interface(text: str) -> None:
    """As the kernel allows, but for what has a meaning of its own in a rule of nft."""
    try:
        quote(text)
    except ValueError:
        is_name = False
    else:
        is_name = len(text) <= _LONGEST_INTERFACE and not set(text) & set("/:*")
    if not is_name:
        raise ConfigurationError(
            f"{SECTION}.podInterfacePrefix: expected how names of interfaces begin (veth), got {text!r}"
        )


_READ: Final[Mapping[str, tuple[str, Reader]]] = {
    "clusterCIDRs": ("cluster_cidrs", read_strings),
    "podInterfacePrefix": ("pod_interfaces", read_name),
    "masqueradeAll": ("masquerade_all", read_boolean),
    "masqueradeBit": ("masquerade_bit", read_number),
    "nodePortAddresses": ("node_port_addresses", read_strings),
    "serviceCIDRs": ("service_cidrs", read_strings),
    "serviceProxyName": ("proxy_name", read_name),
    "auditPeriod": ("audit_period", read_duration),
    "maxServiceEntries": ("max_service_entries", read_number),
    "maxNamespaceEntries": ("max_namespace_entries", read_number),
    "maxEntries": ("max_entries", read_number),
    "countConnections": ("count_connections", read_boolean),
    "leaseNamespace": ("lease_namespace", read_name),
    "listen": ("listen", read_listen_address),
    "healthzListen": ("healthz_listen", read_listen_address),
    "proxyModeListen": ("proxy_mode_listen", read_optional_listen_address),
    "debugForAll": ("debug_for_all", read_boolean),
    "logFormat": ("log_format", read_choice(LogFormat)),
}
"""The field of `ProxyConfiguration` for each key, and how it is read."""
