"""Opens connections to the API server: TCP keepalive, and the HTTP proxy that the environment names.

A machine or load balancer that dies, or a firewall that drops its state, does not close connections. A watch, which
only reads, would wait until its own timeout. So the kernel probes the other end: it sends an empty packet after 15 s of
silence, and ends the connection if there is no answer.
"""

import socket
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

_PORTS: Final = {"http": 80, "https": 443}
KEEPALIVE_IDLE: Final = 15
"""Seconds of silence before the first keepalive probe."""
KEEPALIVE_INTERVAL: Final = 5
"""Seconds between two probes."""
KEEPALIVE_PROBES: Final = 3
UNANSWERED_LIMIT: Final = KEEPALIVE_IDLE + KEEPALIVE_INTERVAL * KEEPALIVE_PROBES
"""Seconds after which a connection ends whose other end does not answer."""
_OPTIONS: Final = (
    ("TCP_KEEPIDLE", KEEPALIVE_IDLE),
    ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL),
    ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ("TCP_USER_TIMEOUT", UNANSWERED_LIMIT * 1000),
)
"""Linux names. A platform that lacks one uses its default."""


def open_socket(address: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    """A socket, not connected yet, for an address as ``socket.getaddrinfo`` returns it."""
    family, kind, protocol = address[:3]
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS:
        option = getattr(socket, name, None)
        if option is not None:
            opened.setsockopt(socket.IPPROTO_TCP, option, value)
    return opened


def proxy_for(server: str, environment: Mapping[str, str]) -> str | None:
    """The HTTP proxy for a server, by the rules of Go's ``httpproxy``.

    It reads ``HTTPS_PROXY`` or ``HTTP_PROXY`` and ``NO_PROXY``, in upper or lower case. None for this machine, and if
    the proxy does not speak HTTP.
    """
    parts = urlsplit(server)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    proxy = _variable(environment, f"{parts.scheme}_proxy")
    excluded = filter(None, map(str.strip, _variable(environment, "no_proxy").lower().split(",")))
    if not proxy or is_loopback(host) or any(_matches(pattern, host, port) for pattern in excluded):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    return proxy if urlsplit(proxy).scheme in _PORTS else None


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name, "")


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _matches(pattern: str, host: str, port: int) -> bool:
    if pattern == "*":
        return True
    try:
        return ip_address(host) in ip_network(pattern, strict=False)
    except ValueError:
        pass
    name, colon, wanted_port = pattern.rpartition(":")
    if colon and wanted_port.isdecimal() and "]" not in wanted_port:
        if int(wanted_port) != port:
            return False
        pattern = name.strip("[]")
    # A name includes its subdomains; a leading dot or *. means only the subdomains.
    if pattern.startswith(("*.", ".")):
        return host.endswith(pattern.removeprefix("*"))
    return host == pattern or host.endswith(f".{pattern}")
