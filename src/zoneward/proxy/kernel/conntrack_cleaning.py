"""Stale flows of UDP, taken out of the kernel after the rules have changed."""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from zoneward.client.backoff import Backoff
from zoneward.netlink.conntrack_messages import deletions, flows, identity, listing, packed
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.kernel.applying import Lost, Refused
from zoneward.proxy.kernel.conntrack import Front, Judge, Serving, Suspects
from zoneward.proxy.model.served import Served

_GATHERING: Final = 0.1
"""Seconds before flows are looked at: changes seldom come alone, and packets under way met the rules of before."""
_BACKOFF: Final = Backoff(initial=1.0, cap=60.0)
"""Between two looks; the first delay is that of a look that went well."""
_FEW: Final = 16
"""Fronts up to which the kernel is asked for the flows of each. It looks through all of its flows each time, but tells
few."""
_AT_ONCE: Final = 500
"""Flows that are read before others get their turn: some milliseconds."""
_ADDRESSES: Final[dict[Family, socket.AddressFamily]] = {"ip": socket.AF_INET, "ip6": socket.AF_INET6}


class Asked(Protocol):
    """The part of a `zoneward.proxy.kernel.applying.Kernel` that is needed here."""

    async def ask(self, request: bytes) -> bytes:
        """All that the kernel answers to one netlink request. Raises Refused or Lost."""
        ...


def is_local(family: Family, address: bytes) -> bool:
    """Whether an address is this machine's, and not loopback, on which no node port is served."""
    if address[0] == 127 if family == "ip" else address == b"\0" * 15 + b"\1":
        return False
    # The kernel lets a socket have just those, and asks for no rights.
    with socket.socket(_ADDRESSES[family], socket.SOCK_DGRAM) as attempt:
        try:
            attempt.bind((socket.inet_ntop(_ADDRESSES[family], address), 0))
        except OSError:
            return False
    return True


class Conntrack:
    """Forgets flows of UDP that go where nobody answers. Tell it what `changed`, and `run` it.

    ``on_removed`` is told how many flows were removed, each time that some were; ``on_trouble`` why they could not be
    looked at, which is tried again, up to a minute later. ``is_node_address``: whether node ports are served on an
    address. ``sleep`` waits for seconds.
    """

    def __init__(
        self,
        kernel: Asked,
        *,
        is_node_address: Callable[[Family, bytes], bool] = is_local,
        on_removed: Callable[[int], None] = lambda _count: None,
        on_trouble: Callable[[str], None] = lambda _trouble: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._kernel, self._is_node_address, self._sleep = kernel, is_node_address, sleep
        self._on_removed, self._on_trouble = on_removed, on_trouble
        self._suspects = Suspects()
        self._something = asyncio.Event()

    def changed(self, before: Served | None, after: Served | None) -> None:
        """The kernel has the rules of a Service as it is now, in one family; either is None where it was or is not.

        To be called once they are there: flows that began under the rules of before would come back.
        """
        self._suspects.changed(before, after)
        if self._suspects:
            self._something.set()

    async def run(self) -> None:
        """Until cancelled. At most one look a second."""
        failures = 0
        while True:
            await self._something.wait()
            await self._sleep(_GATHERING)
            self._something.clear()
            try:
                for family in FAMILIES:
                    await self._clean(family)
                failures = 0
            except (Refused, Lost) as error:
                self._on_trouble(str(error))
                failures += 1
                self._something.set()
            await self._sleep(_BACKOFF.delay(failures + 1))

    async def _clean(self, family: Family) -> None:
        suspects = self._suspects.of(family)
        if not suspects:
            return
        stale: dict[bytes, None] = {}
        for request in _requests(family, suspects):
            await self._find(family, await self._kernel.ask(request), stale)
        for count, request in deletions(family, stale):
            removed = await self._delete(count, request)
            if removed:
                self._on_removed(removed)
        self._suspects.clear(family, suspects)

    async def _find(self, family: Family, answer: bytes, stale: dict[bytes, None]) -> None:
        """Add what identifies each stale flow: one may be told for several fronts."""
        # Endpoints may have come since it was asked for.
        judge = Judge(family, self._suspects.of(family), lambda address: self._is_node_address(family, address))
        for number, flow in enumerate(flows(family, answer), start=1):
            if judge.is_stale(flow):
                stale[identity(flow)] = None
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _delete(self, count: int, request: bytes) -> int:
        """How many were removed; where some had gone by themselves, one of them is known."""
        try:
            await self._kernel.ask(request)
        except Refused as error:
            if error.number != errno.ENOENT:
                raise
            return count - 1
        return count


def _requests(family: Family, suspects: dict[Front, Serving]) -> list[bytes]:
    if len(suspects) > _FEW:
        return [listing(family)]
    found = (
        listing(family, address=None if address is None else packed(family, address), port=port)
        for address, port in suspects
    )
    return list(dict.fromkeys(found))
