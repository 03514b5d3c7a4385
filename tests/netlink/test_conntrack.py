"""Flows are read from messages as kernels write them, with their attributes in any order."""

import socket
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.netlink.flow_messages import FlowMessage

from zoneward.netlink.conntrack import PROTOCOLS, Flow, read_flows
from zoneward.netlink.messages import Family

_ADDRESSES = {"ip": st.binary(min_size=4, max_size=4), "ip6": st.binary(min_size=16, max_size=16)}
_PORTS = st.binary(min_size=2, max_size=2)
_COUNTS = st.none() | st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))


@st.composite
def flow_messages(draw: st.DrawFn) -> FlowMessage:
    family: Family = draw(st.sampled_from(("ip", "ip6")))
    address = _ADDRESSES[family]
    return FlowMessage(
        family=family,
        protocol=draw(st.sampled_from((*PROTOCOLS, socket.IPPROTO_ICMP))),
        source=draw(address),
        destination=draw(address),
        ports=(draw(_PORTS), draw(_PORTS)),
        endpoint=draw(address),
        endpoint_port=draw(_PORTS),
        counts=draw(_COUNTS),
        identity=draw(st.binary(min_size=4, max_size=4)),
        order=draw(st.permutations(("identity", "status", "counters", "protocol info"))),
        ended=draw(st.booleans()),
    )


@given(st.lists(flow_messages(), max_size=6))
def test_all_translated_flows_of_a_datagram_are_read_and_no_others(messages: list[FlowMessage]) -> None:
    flows = list(read_flows(b"".join(message.message() for message in messages), only_translated=True))
    expected = [message for message in messages if message.is_translated and message.protocol in PROTOCOLS]
    assert [_fields(flow) for flow in flows] == [
        (
            message.family,
            message.protocol,
            message.source,
            message.destination,
            message.ports[1],
            message.endpoint,
            *(message.counts or (-1, -1)),
        )
        for message in expected
    ]


@given(flow_messages(), st.data())
def test_a_message_that_is_cut_off_breaks_nothing(one: FlowMessage, data: st.DataObject) -> None:
    message = one.message()
    list(read_flows(message[: data.draw(st.integers(0, len(message)))]))


def test_all_messages_about_a_flow_have_its_key_and_those_about_another_have_another() -> None:
    one = FlowMessage(ended=False)
    keys = {flow.key for order in permutations(one.order) for flow in read_flows(one.but(order=order).message())}
    assert len(keys) == 1
    for other in (one.but(identity=b"next"), one.but(ports=(b"\0\7", b"\0\x50")), one.but(source=b"\n\1\0\7")):
        (flow,) = read_flows(other.message())
        assert flow.key not in keys
    (flow,) = read_flows(one.but(ended=True, counts=(7, 8)).message())
    assert flow.key in keys


@pytest.mark.parametrize("family", ["ip", "ip6"])
def test_directions_whose_attributes_come_in_another_order_are_read(family: Family) -> None:
    (usual,), (unusual,) = (
        read_flows(FlowMessage.of(family).but(reverses=reverses).message()) for reverses in (False, True)
    )
    assert _fields(usual) == _fields(unusual)


def _fields(flow: Flow) -> tuple[object, ...]:
    return (
        flow.family,
        flow.protocol,
        flow.source,
        flow.destination,
        flow.destination_port,
        flow.endpoint,
        flow.request,
        flow.response,
    )
