"""A client keeps its endpoint for as long as a Service says, and no longer."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest
from e2e.chances import FALSE_ALARM, chance
from e2e.node_rules import NodeRules
from e2e.nodes import Bed, Namespace
from tests.proxy.drawn_services import node_service, one_port

from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.model.node_service import Backend

CLUSTER: Final[dict[Family, str]] = {"ip": "10.96.0.1", "ip6": "fd96::1"}
CLIENTS: Final = 60
"""The probability that this number of clients draw the same of five endpoints again is 1e-41."""
SECONDS: Final = 6


@dataclass(frozen=True, slots=True)
class World:
    rules: NodeRules
    pod: Namespace

    def serve(
        self, family: Family, *endpoints: int, weights: tuple[float, ...] | None = None, tcp: int = 80, udp: int = 53
    ) -> None:
        targets = tuple(Backend(address(family, endpoint), 8080) for endpoint in endpoints)
        ports = tuple(
            one_port(*targets, protocol=protocol, port=port, weights=weights, affinity_seconds=SECONDS)
            for protocol, port in (("tcp", tcp), ("udp", udp))
        )
        self.rules.serve([node_service(*ports, family=family, cluster_ip=CLUSTER[family])])

    def ask(self, family: Family, protocol: str, port: int = 0) -> dict[str, str]:
        """The address that answers each client."""
        port = port or (80 if protocol == "tcp" else 53)
        return {
            source: self.pod.ask(CLUSTER[family], port, protocol=protocol, source=source).address
            for source in self.pod.addresses
            if (":" in source) == (family == "ip6")
        }


def address(family: Family, index: int) -> str:
    return f"10.2.0.{index}" if family == "ip" else f"fd00:2::{index:x}"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with Bed() as bed:
        node = bed.node("here", pods=("10.1.0.0/16", "fd00:1::/64"))
        bed.node("there", pods=("10.2.0.0/16", "fd00:2::/64"))
        sources = [f"10.1.200.{index}" for index in range(1, CLIENTS + 1)]
        sources += [f"fd00:1::c8:{index:x}" for index in range(1, CLIENTS + 1)]
        with NodeRules(node) as rules:
            yield World(rules, node.pod(*sources))


def test_clients_keep_their_endpoints_until_the_timeout(world: World) -> None:
    for family in FAMILIES:
        world.serve(family, 1, 2, 3, 4, 5)
    kinds = [(family, protocol) for family in FAMILIES for protocol in ("tcp", "udp")]
    first = {kind: world.ask(*kind) for kind in kinds}
    for family in FAMILIES:
        # Affinity is per port.
        assert first[family, "tcp"] != first[family, "udp"]
        for protocol in ("tcp", "udp"):
            answers = Counter(first[family, protocol].values())
            assert chance(answers, {address(family, index): 1.0 for index in range(1, 6)}) > FALSE_ALARM
    # A new connection restarts the timeout. A pause is between two beginnings: so it is what each client waits, however
    # long it takes to ask from all of them.
    begun = time.monotonic()
    for pause in (0.0, 0.55, 0.55):
        time.sleep(max(0.0, begun + SECONDS * pause - time.monotonic()))
        begun = time.monotonic()
        assert {kind: world.ask(*kind) for kind in kinds} == first
    time.sleep(SECONDS + 0.2)
    assert all(world.ask(*kind) != first[kind] for kind in kinds)


def test_added_or_removed_endpoint_moves_no_client_of_another(world: World) -> None:
    for family in FAMILIES:
        world.serve(family, 1, 2, 3, 4, 5, tcp=82)
        first = world.ask(family, "tcp", 82)
        world.serve(family, 1, 2, 4, 5, 6, tcp=82)
        then = world.ask(family, "tcp", 82)
        gone = address(family, 3)
        moved = {source for source, endpoint in first.items() if endpoint != then[source]}
        assert moved == {source for source, endpoint in first.items() if endpoint == gone}
        assert gone not in then.values()


def test_new_clients_are_spread_by_weights(world: World) -> None:
    for family in FAMILIES:
        # On other ports: the kernel remembers for minutes where earlier clients of a port went.
        world.serve(family, 7, 8, weights=(1.0, 3.0), tcp=81, udp=54)
        asked = (("tcp", 81), ("udp", 54))
        answers = Counter(to for protocol, port in asked for to in world.ask(family, protocol, port).values())
        assert chance(answers, {address(family, 7): 1.0, address(family, 8): 3.0}) > FALSE_ALARM
        assert answers[address(family, 8)] > answers[address(family, 7)]
