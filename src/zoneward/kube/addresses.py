"""Parses IP addresses and CIDR ranges to canonical text, as the kernel writes it.

Canonical text compares, and is safe in an nft command. Anything else gives None: nft would resolve a word as a host
name, through DNS.
"""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from zoneward.kube import formats

_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_USUAL: Final = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}", re.ASCII)
"""An IPv4 address without leading zeros."""


def parse_address(text: str) -> str | None:
    """The canonical text of an address as Kubernetes reads it, or None.

    Numbers may have leading zeros, and an IPv4-mapped address (``::ffff:10.0.0.1``) becomes IPv4. An IPv6 address
    with a zone is refused: a packet cannot carry it.
    """
    return text if _USUAL.fullmatch(text) else _unusual(text)


@lru_cache(maxsize=1 << 16)
def _unusual(text: str) -> str | None:
    address = formats.parse_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return None if address is None else str(mapped or address)


def parse_cidr(text: str) -> str | None:
    """The canonical text of a range, ``ADDRESS/LENGTH``, with the host bits cleared; or None."""
    address, slash, length = text.partition("/")
    canonical = parse_address(address)
    if canonical is None or not slash or not (length.isascii() and length.isdecimal()):
        return None
    if (":" in address) != (":" in canonical):
        # The length counts the bits of the other family.
        return None
    try:
        return str(ip_network((canonical, int(length)), strict=False))
    except ValueError:
        return None


def is_in_cidr(address: str, ranges: str) -> bool:
    """Whether a canonical address is in a canonical range, or equal to a single address."""
    return _parsed(address) in _network(ranges)


def special_use(address: str) -> str | None:
    """The reserved range of an address that cannot be an external IP of a Service; None for a usual address.

    As the API server's ``ValidateNonSpecialIP``, and all of multicast.
    """
    parsed = _parsed(address)
    if parsed.is_unspecified:
        return "unspecified"
    if parsed.is_loopback:
        return "loopback"
    if parsed.is_link_local:
        return "link-local"
    return "multicast" if parsed.is_multicast else None


@lru_cache(maxsize=1 << 12)
def _parsed(address: str) -> IPv4Address | IPv6Address:
    return ip_address(address)


@lru_cache(maxsize=1 << 10)
def _network(text: str) -> IPv4Network | IPv6Network:
    return ip_network(text)
