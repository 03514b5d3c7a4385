"""Which tracked flows of UDP are stale: their client would go on to send where nobody answers.

The kernel remembers for each flow where it goes, as long as packets come. One of TCP ends when its endpoint does, one
of UDP does not. So flows through a Service are forgotten when they go to an endpoint that does not serve any more, and
those that went to the Service's own address when it gets its first endpoint. As upstream: flows are left alone while
nobody serves, and as long as their endpoint serves at all, whether this node still selects it or not.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Final

from zoneward.netlink.conntrack import Flow, Place, packed
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.model.node_service import Served, Target

Front = tuple[str | None, int]
"""Where clients send to: an address and a port. Without an address: a port of the node."""
Serving = tuple[Target, ...]
_UDP: Final = "udp"


def fronts(served: Served | None) -> dict[Front, Serving]:
    """Where clients of UDP send to, and who serves each."""
    found: dict[Front, Serving] = {}
    for port in served.ports if served is not None else ():
        if served is not None and port.protocol == _UDP:
            for address in served.addresses(port):
                found[address, port.port] = port.serving
            if port.node_port:
                found[None, port.node_port] = port.serving
    return found


class Suspects:
    """The fronts whose flows have to be looked at, and who serves them now."""

    def __init__(self) -> None:
        self._found: dict[Family, dict[Front, tuple[tuple[str, str], Serving]]] = {each: {} for each in FAMILIES}

    def __bool__(self) -> bool:
        return any(self._found.values())

    def changed(self, before: Served | None, after: Served | None) -> None:
        """A Service changed, and the kernel's rules with it. Either may be None, and both are of one family."""
        one = after or before
        if one is None:
            return
        was, now = fronts(before), fronts(after)
        if not was and not now:
            return
        found, service = self._found[one.family], (one.namespace, one.name)
        for front, serving in now.items():
            if serving and (front in found or _lost(was.get(front, ()), serving)):
                found[front] = service, serving
        for front in was:
            # Another Service may have got the address since.
            if not now.get(front) and front in found and found[front][0] == service:
                del found[front]

    def of(self, family: Family) -> dict[Front, Serving]:
        return {front: serving for front, (_, serving) in self._found[family].items()}

    def clear(self, family: Family, looked_at: Mapping[Front, Serving]) -> None:
        """They were looked at; what changed meanwhile stays."""
        found = self._found[family]
        for front, serving in looked_at.items():
            if front in found and found[front][1] is serving:
                del found[front]


class Judge:
    """Judges flows by fronts. ``is_node_address``: whether an address is one of the node's, by its bytes."""

    def __init__(
        self, family: Family, suspects: Mapping[Front, Serving], is_node_address: Callable[[bytes], bool]
    ) -> None:
        made: dict[int, frozenset[Place]] = {}

        def places(serving: Serving) -> frozenset[Place]:
            if id(serving) not in made:
                made[id(serving)] = frozenset(_places(family, serving))
            return made[id(serving)]

        self._by_address = {
            (packed(family, address), port): places(serving)
            for (address, port), serving in suspects.items()
            if address is not None
        }
        self._by_port = {port: places(serving) for (address, port), serving in suspects.items() if address is None}
        self._is_node_address = cache(is_node_address)

    def is_stale(self, flow: Flow) -> bool:
        serving = self._by_address.get(flow.to)
        if serving is None:
            address, port = flow.to
            serving = self._by_port.get(port)
            if serving is None or not self._is_node_address(address):
                return False
        return flow.answers not in serving


def _places(family: Family, serving: Serving) -> Iterator[Place]:
    """Endpoints as flows tell them; one whose address the system does not take answers nobody."""
    for each in serving:
        with suppress(OSError):
            yield packed(family, each.address), each.port


def _lost(before: Serving, now: Serving) -> bool:
    """Whether flows may be there that none of those who serve now answers."""
    return before is not now and (not before or not set(before) <= set(now))
