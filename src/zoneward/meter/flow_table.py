"""Which flows are live, and how much of each has been counted.

A dump of connection tracking shows all flows that are live, and the kernel announces each flow that ends, with its last
counters. So a flow that lives from one dump to the next is counted as it goes, and one that is shorter when it ends.
Nothing is asked about flows that begin.

Flows that were there before the first dump began in somebody else's time, maybe that of a meter that ran here before:
their connections are not counted, and of their bytes only those that come later.
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
        self._has_baseline = False
        self._ended: set[bytes] | None = None
        """Flows that ended during this dump, which may still show them: it is read later than it is written."""
        self.unannounced = 0
        """Flows that went without being announced: what they sent after the last dump is not counted."""
        self.without_counters = 0
        """Flows of which no bytes can be counted: accounting was off when they began."""

    def __len__(self) -> int:
        return len(self._live)

    @property
    def has_baseline(self) -> bool:
        """Whether the first dump has ended: from then on everything is counted."""
        return self._has_baseline

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
            if self._has_baseline:
                self._count_connection(total, flow)
                _count_bytes(live, flow)
            else:
                live.request, live.response = max(0, flow.request), max(0, flow.response)
            return
        if 0 <= flow.request < live.request or 0 <= flow.response < live.response:
            # Another one in the same place: the end of the first was not announced.
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
            # Before the first dump has ended, nobody knows when it began.
            total = self._total_of(flow) if self._has_baseline else None
            if total is not None:
                self._count_connection(total, flow)
                if flow.request >= 0:
                    total.has_bytes = True
                    total.request += flow.request
                    total.response += flow.response
            return
        _count_bytes(live, flow)

    def end_dump(self) -> None:
        """Forget flows that two dumps did not have: one dump may leave a flow out where the kernel's table grows."""
        self._ended, self._has_baseline = None, True
        lost = [key for key, live in self._live.items() if live.dump < self._dump - 1]
        for key in lost:
            del self._live[key]
        self.unannounced += len(lost)

    def abandon_dump(self) -> None:
        """A dump broke off: what it did not have says nothing."""
        self._ended = None
        self._dump -= 1

    def _count_connection(self, total: TrafficTotal, flow: Flow) -> None:
        total.connections += 1
        if flow.request < 0:
            self.without_counters += 1


def _count_bytes(live: _LiveFlow, flow: Flow) -> None:
    """Count what a flow's counters grew by. A flow keeps counters, or has none, from its beginning."""
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
