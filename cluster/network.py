"""The nodes' wire: a bridge in the box, with the control plane's address, and a link to each node. Dual-stack.

Pods are reached by routes from node to node; nothing is translated. The machine's own network is not touched.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from cluster.box import BOX, Box
from cluster.sites import CONTROL_PLANE_IPS, Site

_SETTINGS: Final = {
    "net.ipv4.ip_forward": "1",
    "net.ipv6.conf.all.forwarding": "1",
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
}


def make_wire(box: Box) -> None:
    lines = ["link add wire type bridge", "link set wire up"]
    lines += [f"addr add {address}/{length} dev wire {options}" for address, length, options in _own(CONTROL_PLANE_IPS)]
    _ip(box, BOX, lines)


def join_nodes(box: Box, sites: Sequence[Site]) -> None:
    """Each to the wire, and to the Pods of the other ones."""
    links = []
    for site in sites:
        port = _port(site)
        links += [f"link add {port} type veth peer name eth0 netns {box.network(site.name)}"]
        links += [f"link set {port} master wire up"]
    # Before another process namespace is entered, so that the file of a node's network is what we mean by it.
    box.run_here("ip", "-batch", "-", network=BOX, text="\n".join(links))
    for site in sites:
        settings = [f"{name}={value}" for name, value in _SETTINGS.items()]
        box.run("sysctl", "-qw", *settings, inside=site.name)
        lines = [f"addr add {address}/{length} dev eth0 {options}" for address, length, options in _own(site.ips)]
        lines += ["link set eth0 up", "link set lo up"]
        lines += [f"route add default via {address}" for address in CONTROL_PLANE_IPS]
        lines += _routes(other for other in sites if other != site)
        _ip(box, site.name, lines)
    _ip(box, BOX, _routes(sites))


def unplug(box: Box, site: Site) -> None:
    """Drop all packets to that node, without an error to the sender."""
    _ip(box, BOX, [f"link set {_port(site)} nomaster"])


def plug_in(box: Box, site: Site) -> None:
    _ip(box, BOX, [f"link set {_port(site)} master wire"])


def _port(site: Site) -> str:
    return f"port{site.index}"


def _routes(sites: Iterable[Site]) -> list[str]:
    return [
        f"route add {pods} via {address}" for site in sites for pods, address in zip(site.pods, site.ips, strict=True)
    ]


def _own(addresses: Sequence[str]) -> list[tuple[str, int, str]]:
    return [(address, 64, "nodad") if ":" in address else (address, 24, "") for address in addresses]


def _ip(box: Box, inside: str, lines: Sequence[str]) -> None:
    box.run("ip", "-batch", "-", inside=inside, text="\n".join(lines))
