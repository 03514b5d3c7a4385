"""SCTP is served like other protocols. Only first packets are sent, because kernels may lack SCTP sockets."""

import select
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest
from e2e.chances import FALSE_ALARM, chance
from e2e.node_rules import NodeRules
from e2e.nodes import Bed, Namespace, Node
from e2e.raw_connections import SCTP_HEADER, begin_associations
from tests.patience import PATIENCE
from tests.proxy.drawn_services import node_service, one_port

from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.model.node_service import Backend, NodeService

CLUSTER: Final[dict[Family, str]] = {"ip": "10.96.0.1", "ip6": "fd96::1"}
PORT, TARGET, NODE_PORT = 3868, 13_868, 30_000
ASSOCIATIONS: Final = 300
ADDRESSES: Final[dict[Family, tuple[str, ...]]] = {
    "ip": ("10.1.0.1", "10.1.0.2", "10.1.0.3"),
    "ip6": ("fd00:1::1", "fd00:1::2", "fd00:1::3"),
}


@pytest.fixture(scope="module")
def node() -> Iterator[tuple[Node, Namespace]]:
    with Bed() as bed:
        node = bed.node("here", pods=("10.1.0.0/16", "fd00:1::/64"))
        with NodeRules(node) as rules:
            rules.serve(map(served, FAMILIES))
        yield node, node.pod("10.1.200.1", "fd00:1::c8:1")


def served(family: Family) -> NodeService:
    targets = tuple(Backend(address, TARGET, is_local=True) for address in ADDRESSES[family])
    port = one_port(*targets, protocol="sctp", port=PORT, node_port=NODE_PORT)
    return node_service(port, family=family, cluster_ip=CLUSTER[family])


@pytest.mark.parametrize("family", FAMILIES)
def test_associations_reach_all_endpoints_evenly(node: tuple[Node, Namespace], family: Family) -> None:
    here, client = node
    is_6 = family == "ip6"
    for address, port in ((CLUSTER[family], PORT), (here.addresses[is_6], NODE_PORT)):
        raw = socket.AF_INET6 if is_6 else socket.AF_INET
        with ExitStack() as sockets:
            arriving = {
                sockets.enter_context(here.pods.call(_listening, raw, endpoint)): endpoint
                for endpoint in ADDRESSES[family]
            }
            # The kernel drops packets if too many of them wait for the address of a link.
            client.ask(ADDRESSES[family][0], 8080)
            client.call(begin_associations, client.addresses[is_6], address, port, count=ASSOCIATIONS)
            counts: Counter[str] = Counter()
            while counts.total() < ASSOCIATIONS:
                ready, _, _ = select.select(arriving, (), (), PATIENCE)
                assert ready, counts
                counts.update(arriving[listening] for listening in ready if _is_expected(listening))
            while ready := select.select(arriving, (), (), 0.3)[0]:
                counts.update(arriving[listening] for listening in ready if _is_expected(listening))
        assert counts.total() == ASSOCIATIONS
        assert chance(counts, dict.fromkeys(ADDRESSES[family], 1.0)) > FALSE_ALARM


def _listening(family: int, address: str) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_SCTP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    listening.bind((address, 0))
    return listening


def _is_expected(arriving: socket.socket) -> bool:
    """Whether the next packet came to the endpoints' port."""
    packet = arriving.recv(2048)
    # The IPv4 header precedes it.
    start = (packet[0] & 15) * 4 if arriving.family == socket.AF_INET else 0
    return bool(SCTP_HEADER.unpack_from(packet, start)[1] == TARGET)
