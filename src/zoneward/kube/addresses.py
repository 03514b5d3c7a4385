"""Parses addresses and ranges of addresses, once, from what an API server, a person or a Node says.

The result is canonical text, as the kernel writes it: it compares, and it is safe in a command of nft. What is no
address gives None: nft takes a word in the place of an address for the name of a host, and asks DNS for it.
"""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_USUAL: Final = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}", re.ASCII)
"""An address of IPv4 as everybody writes it."""


def parse_address(text: str) -> str | None:
    """The canonical text of one address, as Kubernetes reads it: numbers of IPv4 may begin with zeros, and an address
    of IPv4 that is written as one of IPv6 (``::ffff:10.0.0.1``) is one of IPv4. An address with a zone has no place in
    a packet.
    """
    return text if _USUAL.fullmatch(text) else _unusual(text)


@lru_cache(maxsize=1 << 16)
def _unusual(text: str) -> str | None:
    if ":" not in text:
        # Zeros before a number were allowed once, and mean nothing; others take them for octal numbers.
        text = ".".join(each.lstrip("0") or "0" for each in text.split("."))
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if isinstance(found, IPv6Address):
        if found.scope_id is not None:
            return None
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
    return str(found)


def parse_cidr(text: str) -> str | None:
    """The canonical text of a range, ``ADDRESS/LENGTH``; bits beyond the length are cleared."""
    address, slash, length = text.partition("/")
    found = parse_address(address)
    if found is None or not slash or not (length.isascii() and length.isdecimal()):
        return None
    if (":" in address) != (":" in found):
        # Its length counts the bits of another family.
        return None
    try:
        return str(ip_network((found, int(length)), strict=False))
    except ValueError:
        return None


def is_in_cidr(address: str, ranges: str) -> bool:
    """Whether an address is in a range, or is the same address; both canonical."""
    return _parsed(address) in _network(ranges)


def special_use(address: str) -> str | None:
    """The special use of an address that no host has to itself, and that so cannot be an external IP of a Service;
    None: it has none.

    As ``ValidateNonSpecialIP`` of the API server, and all of multicast.
    """
    found = _parsed(address)
    if found.is_unspecified:
        return "unspecified"
    if found.is_loopback:
        return "loopback"
    if found.is_link_local:
        return "link-local"
    return "multicast" if found.is_multicast else None


@lru_cache(maxsize=1 << 12)
def _parsed(address: str) -> IPv4Address | IPv6Address:
    return ip_address(address)


@lru_cache(maxsize=1 << 10)
def _network(text: str) -> IPv4Network | IPv6Network:
    return ip_network(text)
