"""The meter counts each connection and each byte once, for any flows between dumps and during them."""

from dataclasses import dataclass
from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from tests.netlink.flow_messages import FlowMessage

from zoneward.meter.flow_meter import FlowTable
from zoneward.meter.traffic_totals import TrafficTotal
from zoneward.netlink.conntrack import Flow, read_flows


@dataclass(slots=True)
class LiveFlow:
    identity: int
    sent: int = 0
    counts: bool = True

    def as_reported(self) -> Flow:
        counts = (self.sent, 2 * self.sent) if self.counts else None
        (flow,) = read_flows(FlowMessage(identity=self.identity.to_bytes(4), counts=counts).message())
        return flow


class Kernel:
    """A table of flows beside the real one, and what a meter counts of it."""

    def __init__(self) -> None:
        self.total = TrafficTotal()
        self.table = FlowTable(lambda _flow: self.total)
        self.live: dict[int, LiveFlow] = {}
        self._next = 0
        self._written: list[Flow] = []

    def begin(self, sent: int = 0, *, counts: bool = True) -> LiveFlow:
        self._next += 1
        flow = self.live[self._next] = LiveFlow(self._next, sent, counts)
        return flow

    def end(self, flow: LiveFlow, *, announced: bool = True) -> None:
        del self.live[flow.identity]
        if announced:
            self.table.add_ended(flow.as_reported())

    def dump(self) -> None:
        self.begin_dump()
        self.end_dump()

    def begin_dump(self) -> None:
        """The kernel writes the whole dump now; the meter reads it at the end."""
        self.table.begin_dump()
        self._written = [flow.as_reported() for flow in self.live.values()]

    def end_dump(self) -> None:
        for flow in self._written:
            self.table.add_dumped(flow)
        self.table.end_dump()

    @property
    def counted(self) -> tuple[int, int, int]:
        return self.total.connections, self.total.request, self.total.response


STEPS: Final = st.lists(
    st.tuples(st.sampled_from(("begin", "send", "end", "dump", "begin dump", "end dump")), st.integers(0, 99)),
    max_size=40,
)


@given(STEPS, st.integers(0, 3))
def test_every_connection_and_byte_after_the_first_dump_is_counted_once(
    steps: list[tuple[str, int]], before: int
) -> None:
    kernel = Kernel()
    for index in range(before):
        kernel.begin(sent=1000 * index)
    kernel.dump()
    connections = sent = 0
    is_dumping = False
    for step, amount in steps:
        flows = list(kernel.live.values())
        if step == "begin":
            kernel.begin(sent=amount)
            connections, sent = connections + 1, sent + amount
        elif step in ("send", "end") and flows:
            flow = flows[amount % len(flows)]
            flow.sent, sent = flow.sent + amount, sent + amount
            if step == "end":
                kernel.end(flow)
        elif step == "begin dump" and not is_dumping:
            kernel.begin_dump()
            is_dumping = True
        elif step == "end dump" and is_dumping:
            kernel.end_dump()
            is_dumping = False
        elif step == "dump" and not is_dumping:
            kernel.dump()
    if is_dumping:
        kernel.end_dump()
    kernel.dump()
    assert kernel.counted == (connections, sent, 2 * sent)
    assert len(kernel.table) == len(kernel.live)


def test_before_the_first_dump_nothing_is_counted() -> None:
    kernel = Kernel()
    kernel.end(kernel.begin(sent=10))
    assert not kernel.table.has_baseline
    assert kernel.counted == (0, 0, 0)


def test_a_flow_that_ends_unannounced_is_forgotten_after_two_dumps_and_reported() -> None:
    kernel = Kernel()
    kernel.dump()
    flow = kernel.begin(sent=10)
    kernel.dump()
    flow.sent = 50
    kernel.end(flow, announced=False)
    kernel.dump()
    assert (len(kernel.table), kernel.table.unannounced) == (1, 0)
    kernel.dump()
    assert (len(kernel.table), kernel.table.unannounced) == (0, 1)
    assert kernel.counted == (1, 10, 20)


def test_another_flow_in_the_place_of_one_whose_end_was_lost_is_another_connection() -> None:
    kernel = Kernel()
    kernel.dump()
    flow = kernel.begin(sent=100)
    kernel.dump()
    flow.sent = 30
    kernel.dump()
    assert kernel.counted == (2, 130, 260)
    assert kernel.table.unannounced == 1


def test_flows_without_counters_are_counted_as_connections_alone() -> None:
    kernel = Kernel()
    old = kernel.begin(sent=5, counts=False)
    kernel.dump()
    kernel.begin(sent=5, counts=False)
    for _ in range(2):
        kernel.dump()
    kernel.end(old)
    assert kernel.counted == (1, 0, 0)
    assert not kernel.total.has_bytes
    assert (kernel.table.without_counters, kernel.table.unannounced) == (1, 0)


def test_a_dump_that_broke_off_forgets_no_flow() -> None:
    kernel = Kernel()
    kernel.dump()
    kernel.begin(sent=5)
    kernel.dump()
    for _ in range(3):
        kernel.table.begin_dump()
        kernel.table.abandon_dump()
    kernel.dump()
    assert (kernel.counted, kernel.table.unannounced) == ((1, 5, 10), 0)
