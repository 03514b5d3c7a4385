"""Live flows, and how much of each has been counted.

A dump of connection tracking lists all live flows, and the kernel sends a message for each flow that ends, with its
last counters. So a flow that outlives a dump is counted at each dump, and a shorter one when it ends. Messages about
new flows are not needed.

Flows that existed before the first dump may have been counted by an earlier meter: their connections are not counted,
and only the bytes that they transfer from then on.
"""

from collections.abc import Callable

from zoneward.meter.traffic_totals import TrafficTotal
from zoneward.netlink.conntrack import Flow


class _LiveFlow:
    """What has been counted of a flow, and the number of the last dump that had it."""

    __slots__ = ("dump", "request", "response", "total")

    def __init__(self, total: TrafficTotal, dump: int) -> None:
        self.total, self.dump = total, dump
        self.request = self.response = 0


class FlowTable:
    """Begin a dump with `begin_dump`, pass each of its flows to `add_dumped`, and end it with `end_dump`; in between
    and at all times pass flows that end to `add_ended`.

    ``total_of`` returns the total that a flow belongs to; None: it is not counted.
    """

    def __init__(self, total_of: Callable[[Flow], TrafficTotal | None]) -> None:
        self._total_of = total_of
        self._live: dict[bytes, _LiveFlow] = {}
        self._dump = 0
        self.has_baseline = False
        """Whether the first dump has ended. Everything after it is counted."""
        self._ended: set[bytes] | None = None
        """Flows that ended during this dump: the parts that are read later may still list them."""
        self.unannounced = 0
        """Flows that ended without a message: what they sent after the last dump is not counted."""
        self.without_counters = 0
        """Flows without byte counters: accounting was off when they began."""

    def __len__(self) -> int:
        return len(self._live)

    def begin_dump(self) -> None:
        self._dump += 1
        self._ended = set()

    def add_dumped(self, flow: Flow) -> None:
        key = flow.key
        if self._ended and key in self._ended:
            return
        live = self._live.get(key)
        if live is None:
            total = self._total_of(flow)
            if total is None:
                return
            live = self._live[key] = _LiveFlow(total, self._dump)
            if self.has_baseline:
                self._count_connection(total, flow)
                _count_bytes(live, flow)
            else:
                live.request, live.response = max(0, flow.request), max(0, flow.response)
            return
        if 0 <= flow.request < live.request or 0 <= flow.response < live.response:
            # Another flow with the same key: the message about the end of the first one was lost.
            self.unannounced += 1
            live.request = live.response = 0
            self._count_connection(live.total, flow)
        live.dump = self._dump
        _count_bytes(live, flow)

    def add_ended(self, flow: Flow) -> None:
        key = flow.key
        if self._ended is not None:
            self._ended.add(key)
        live = self._live.pop(key, None)
        if live is None:
            # Before the first dump has ended, it is unknown when the flow began.
            total = self._total_of(flow) if self.has_baseline else None
            if total is not None:
                self._count_connection(total, flow)
                if flow.request >= 0:
                    total.has_bytes = True
                    total.request += flow.request
                    total.response += flow.response
            return
        _count_bytes(live, flow)

    def end_dump(self) -> None:
        """Forget flows that two dumps in a row did not list: a dump may skip one while the kernel's table grows."""
        self._ended, self.has_baseline = None, True
        lost = [key for key, live in self._live.items() if live.dump < self._dump - 1]
        for key in lost:
            del self._live[key]
        self.unannounced += len(lost)

    def abandon_dump(self) -> None:
        """Discard a dump that broke off: it did not list all flows."""
        self._ended = None
        self._dump -= 1

    def _count_connection(self, total: TrafficTotal, flow: Flow) -> None:
        total.connections += 1
        if flow.request < 0:
            self.without_counters += 1


def _count_bytes(live: _LiveFlow, flow: Flow) -> None:
    """Count by how much a flow's counters grew. A flow has counters from its beginning or never."""
    request, response = flow.request, flow.response
    if request < 0:
        return
    total = live.total
    total.has_bytes = True
    if request > live.request:
        total.request += request - live.request
        live.request = request
    if response > live.response:
        total.response += response - live.response
        live.response = response
