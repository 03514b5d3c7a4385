"""A client keeps its endpoint for as long as a Service says, and no longer."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
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
Kind = tuple[Family, str]
"""A family and a protocol."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The address that answered a client, and the times before the question and after the answer."""

    address: str
    begun: float
    ended: float

    def is_in_time(self, before: "Asked") -> bool:
        """Whether the client has kept its endpoint since an earlier question, also where the machine is slow."""
        return self.ended - before.begun < SECONDS


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

    def ask(self, family: Family, protocol: str, port: int = 0) -> dict[str, Asked]:
        """By client, what answers it."""
        port = port or (80 if protocol == "tcp" else 53)
        return {
            source: self._ask(source, CLUSTER[family], port, protocol)
            for source in self.pod.addresses
            if (":" in source) == (family == "ip6")
        }

    def _ask(self, source: str, cluster_ip: str, port: int, protocol: str) -> Asked:
        begun = time.monotonic()
        answered = self.pod.ask(cluster_ip, port, protocol=protocol, source=source).address
        return Asked(answered, begun, time.monotonic())


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


def addresses(asked: Mapping[str, Asked]) -> dict[str, str]:
    return {source: answer.address for source, answer in asked.items()}


def test_clients_keep_their_endpoints_until_the_timeout(world: World) -> None:
    for family in FAMILIES:
        world.serve(family, 1, 2, 3, 4, 5)
    kinds: list[Kind] = [(family, protocol) for family in FAMILIES for protocol in ("tcp", "udp")]
    last = {kind: world.ask(*kind) for kind in kinds}
    for family in FAMILIES:
        # Affinity is per port.
        assert addresses(last[family, "tcp"]) != addresses(last[family, "udp"])
        for protocol in ("tcp", "udp"):
            answers = Counter(addresses(last[family, protocol]).values())
            assert chance(answers, {address(family, index): 1.0 for index in range(1, 6)}) > FALSE_ALARM
    # A new connection restarts the timeout. A pause is between two beginnings: so it is what each client waits, however
    # long it takes to ask from all of them.
    begun = time.monotonic()
    for pause in (0.0, 0.55, 0.55):
        time.sleep(max(0.0, begun + SECONDS * pause - time.monotonic()))
        begun = time.monotonic()
        for kind in kinds:
            again = world.ask(*kind)
            in_time = [source for source, asked in again.items() if asked.is_in_time(last[kind][source])]
            assert in_time
            assert [source for source in in_time if again[source].address != last[kind][source].address] == []
            last[kind] = again
    time.sleep(SECONDS + 0.2)
    assert all(addresses(world.ask(*kind)) != addresses(last[kind]) for kind in kinds)


def test_added_or_removed_endpoint_moves_no_client_of_another(world: World) -> None:
    for family in FAMILIES:
        world.serve(family, 1, 2, 3, 4, 5, tcp=82)
        first = world.ask(family, "tcp", 82)
        world.serve(family, 1, 2, 4, 5, 6, tcp=82)
        then = world.ask(family, "tcp", 82)
        gone = address(family, 3)
        in_time = [source for source, asked in then.items() if asked.is_in_time(first[source])]
        assert in_time
        moved = {source for source in in_time if first[source].address != then[source].address}
        assert moved == {source for source in in_time if first[source].address == gone}
        assert gone not in addresses(then).values()


def test_new_clients_are_spread_by_weights(world: World) -> None:
    for family in FAMILIES:
        # On other ports: the kernel remembers for minutes where earlier clients of a port went.
        world.serve(family, 7, 8, weights=(1.0, 4.0), tcp=81, udp=54)
        asked = (("tcp", 81), ("udp", 54))
        answers = Counter(
            answer for protocol, port in asked for answer in addresses(world.ask(family, protocol, port)).values()
        )
        assert chance(answers, {address(family, 7): 1.0, address(family, 8): 4.0}) > FALSE_ALARM
        assert answers[address(family, 8)] > answers[address(family, 7)]
