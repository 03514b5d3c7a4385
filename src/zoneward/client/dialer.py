"""Which proxy, if any, stands between us and the server, by the environment."""

import socket
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

_PORTS: Final = {"http": 80, "https": 443}


def proxy_for(server: str, environment: Mapping[str, str]) -> str | None:
    """``HTTPS_PROXY`` or ``HTTP_PROXY`` and ``NO_PROXY``, in either case, by the rules of Go's ``httpproxy``.

    None as well for what is on this machine, and for proxies that do not speak HTTP.
    """
    parts = urlsplit(server)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    proxy = _variable(environment, f"{parts.scheme}_proxy")
    if not proxy or is_loopback(host) or _is_excepted(host, port, _variable(environment, "no_proxy")):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    return proxy if urlsplit(proxy).scheme in _PORTS else None


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name, "")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_excepted(host: str, port: int, listed: str) -> bool:
    return any(_matches(each.strip().lower(), host, port) for each in listed.split(",") if each.strip())


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
    # A name is also all names below it, and with a dot or *. in front only those.
    if pattern.startswith(("*.", ".")):
        return host.endswith(pattern.removeprefix("*"))
    return host == pattern or host.endswith(f".{pattern}")


# --- Sockets that notice by themselves when nobody is at the other end any more. ---

SILENCE: Final = 15
"""Seconds until the other end is asked whether it is there."""
INTERVAL: Final = 5
"""Seconds between two such questions."""
QUESTIONS: Final = 3
UNANSWERED: Final = SILENCE + INTERVAL * QUESTIONS
"""Seconds until a connection is given up whose other end answers nothing."""
_OPTIONS: Final = (
    ("TCP_KEEPIDLE", SILENCE),
    ("TCP_KEEPINTVL", INTERVAL),
    ("TCP_KEEPCNT", QUESTIONS),
    ("TCP_USER_TIMEOUT", UNANSWERED * 1000),
)
"""As Linux calls them. Where the platform has not got one, its own times hold."""


def open_socket(address: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    """A socket for an address as ``socket.getaddrinfo`` gives it, not connected yet."""
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS:
        option = getattr(socket, name, None)
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
