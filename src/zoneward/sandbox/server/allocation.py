"""Cluster IPs and node ports: who has which, and the next free one; words of refusals are upstream's (v1.36).

Without chance: numbers are dealt upwards, from above the part that upstream leaves to those who name theirs (KEP-3070,
KEP-3668), and what has been given back is dealt again only after all others.
"""

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from zoneward.kube.formats import parse_address

CLUSTER_IPS: Final = "10.96.0.0/12"
CLUSTER_IPS_V6: Final = "fd00:10:96::/112"
NODE_PORTS: Final = range(30000, 32768)

_FULL: Final = "range is full"


class Unavailable(Exception):  # noqa: N818 -- an answer, as refusals are
    """What was asked for cannot be had; the text says why, in upstream's words."""


class _Numbers:
    """Numbers below ``end``, of which some are never dealt unasked; each has an owner."""

    def __init__(self, first: int, end: int, *, dealt_from: int, kept: int | None = None) -> None:
        self._first, self._end, self._kept = first, end, kept
        self._owners: dict[int, str] = {}
        self._next = dealt_from

    def __contains__(self, number: int) -> bool:
        return self._first <= number < self._end

    def owner(self, number: int) -> str | None:
        return self._owners.get(number)

    def take(self, number: int, owner: str) -> bool:
        """Whether it was free."""
        if number in self._owners:
            return False
        self._owners[number] = owner
        return True

    def deal(self, owner: str) -> int | None:
        """The next free one; none where all are taken."""
        # There is a free one among this many, if there is any: each step meets another number.
        for _ in range(min(self._end - self._first, len(self._owners) + 2)):
            number = self._next
            self._next = number + 1 if number + 1 < self._end else self._first
            if number != self._kept and number not in self._owners:
                self._owners[number] = owner
                return number
        return None

    def release(self, number: int, owner: str) -> None:
        """Nothing happens to what somebody else has."""
        if self._owners.get(number) == owner:
            del self._owners[number]


class AddressRange:
    """The cluster IPs of one family. The first is never dealt: it is that of the Service ``kubernetes``."""

    def __init__(self, network: str) -> None:
        """Raises ValueError for what is no network, or one with fewer than four addresses."""
        self.network: Final[IPv4Network | IPv6Network] = ip_network(network)
        self.family: Final = f"IPv{self.network.version}"
        size = self.network.num_addresses
        if size < 4:
            raise ValueError(f"a range of cluster IPs has four addresses at least, {network} has {size}")
        self._base = int(self.network.network_address)
        # The first address is the network's own, the last one that for broadcasts.
        end = size - 1 if self.network.version == 4 else size
        left = min(max(16, size // 16), 256)
        self._numbers = _Numbers(1, end, dealt_from=left + 1 if left + 1 < end else 1, kept=1)

    @property
    def first(self) -> str:
        """Of the Service ``kubernetes``."""
        return str(self.network[1])

    def take(self, address: str, owner: str) -> None:
        """Raises Unavailable."""
        number = self._number(address)
        if number not in self._numbers:
            raise Unavailable("the provided network does not match the current range")
        if not self._numbers.take(number, owner):
            raise Unavailable("provided IP is already allocated")

    def deal(self, owner: str) -> str:
        """Raises Unavailable when there is none left."""
        number = self._numbers.deal(owner)
        if number is None:
            raise Unavailable(_FULL)
        return str(self.network.network_address + number)

    def release(self, address: str, owner: str) -> None:
        """Nothing happens to an address of somebody else's, or of no range."""
        self._numbers.release(self._number(address), owner)

    def __contains__(self, address: str) -> bool:
        return self._number(address) in self._numbers

    def owner(self, address: str) -> str | None:
        return self._numbers.owner(self._number(address))

    def _number(self, address: str) -> int:
        parsed = parse_address(address)
        return int(parsed) - self._base if parsed is not None and parsed.version == self.network.version else -1


class PortRange:
    """The node ports."""

    def __init__(self, ports: range = NODE_PORTS) -> None:
        """``ports``: a step of one, not empty."""
        if not ports or ports.step != 1:
            raise ValueError(f"a range of node ports has a port at least, and all between; got {ports}")
        self.ports: Final = ports
        left = min(max(16, len(ports) // 32), 128) if len(ports) > 16 else 0
        self._numbers = _Numbers(ports.start, ports.stop, dealt_from=ports.start + left)

    def take(self, port: int, owner: str) -> None:
        """Raises Unavailable."""
        if port not in self.ports:
            span = f"{self.ports.start}-{self.ports.stop - 1}"
            raise Unavailable(f"provided port is not in the valid range. The range of valid ports is {span}")
        if not self._numbers.take(port, owner):
            raise Unavailable("provided port is already allocated")

    def deal(self, owner: str) -> int:
        """Raises Unavailable when there is none left."""
        port = self._numbers.deal(owner)
        if port is None:
            raise Unavailable(_FULL)
        return port

    def release(self, port: int, owner: str) -> None:
        """Nothing happens to a port of somebody else's, or of no range."""
        self._numbers.release(port, owner)

    def __contains__(self, port: int) -> bool:
        return port in self.ports

    def owner(self, port: int) -> str | None:
        return self._numbers.owner(port)
