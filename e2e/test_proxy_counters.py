"""Connections are counted as they are: each once, by the endpoint that answered, whatever changes meanwhile."""

import asyncio
import socket
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Final

import pytest
from e2e.node_rules import NodeRules
from e2e.nodes import Bed, Namespace, Node, kernel_of
from tests.proxy.drawn_services import node_service, one_port

from zoneward.netlink.messages import FAMILIES, Family
from zoneward.netlink.nftables import elements_request
from zoneward.proxy.measure.connection_collector import service_lookups
from zoneward.proxy.measure.connection_set import CONNECTIONS_SET
from zoneward.proxy.measure.connection_totals import ConnectionTotals
from zoneward.proxy.model.node_service import Backend
from zoneward.proxy.ruleset.base_rules import TABLE, RulesetOptions

Addresses = dict[Family, tuple[str, ...]]
NEAR: Final[Addresses] = {"ip": ("10.1.0.1", "10.1.0.2"), "ip6": ("fd00:1::1", "fd00:1::2")}
FAR: Final[Addresses] = {"ip": ("10.2.0.1", "10.2.0.2"), "ip6": ("fd00:2::1",)}
CLUSTER: Final[dict[Family, str]] = {"ip": "10.96.0.1", "ip6": "fd00:96::1"}
BALANCER: Final[dict[Family, str]] = {"ip": "198.51.100.1", "ip6": "2001:db8:1::1"}
NODE_PORT: Final = 30_080
TIMES: Final = 60
OPTIONS: Final = RulesetOptions(pod_cidrs={"ip": "10.1.0.0/16", "ip6": "fd00:1::/64"})
_ZONES: Final = {address: zone for of, zone in ((NEAR, "a"), (FAR, "b")) for some in of.values() for address in some}


class Site:
    """A node of zone a with a client, a node of zone b, and one Service with endpoints in both."""

    def __init__(self, cleanup: ExitStack) -> None:
        self.bed: Final = cleanup.enter_context(Bed())
        self.node: Final[Node] = self.bed.node("a", pods=("10.1.0.0/16", "fd00:1::/64"))
        self.bed.node("b", pods=("10.2.0.0/16", "fd00:2::/64"))
        self.client: Final = self.node.pod("10.1.200.1", "fd00:1::c8:1")
        self._places = service_lookups()
        self._rules = cleanup.enter_context(NodeRules(self.node, options=OPTIONS))
        self.zones: dict[str, str] = dict(_ZONES)

    def serve(self, family: Family, *addresses: str, protocol: str = "tcp", affinity: int | None = None) -> None:
        targets = tuple(Backend(address, 8080, address in NEAR[family]) for address in addresses)
        port = one_port(*targets, protocol=protocol, node_port=NODE_PORT, affinity_seconds=affinity)
        some = node_service(
            port, name="cart", family=family, cluster_ip=CLUSTER[family], load_balancer_ips=(BALANCER[family],)
        )
        self._rules.serve([some])
        self._places[family].set_service(("shop", "cart"), some)

    def measuring(self) -> ConnectionTotals:
        """One that begins now."""
        found = ConnectionTotals(
            since=datetime.now(UTC),
            service_of=lambda family, one: self._places[family].find(one.address, one.protocol, one.port),
            zone_of=lambda _service, endpoint: self.zones.get(endpoint),
        )
        self.look(found)
        return found

    def look(self, measuring: ConnectionTotals) -> None:
        for family, answer in asyncio.run(_counted(self.node)).items():
            measuring.add_counts(family, answer, now=datetime.now(UTC))


async def _counted(node: Namespace) -> dict[Family, bytes]:
    async with kernel_of(node) as kernel:
        return {family: await kernel.query(elements_request(family, TABLE, CONNECTIONS_SET)) for family in FAMILIES}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with ExitStack() as cleanup:
        yield Site(cleanup)


def by_zone(answers: Mapping[str, int]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for address, number in answers.items():
        found[_ZONES[address]] += number
    return dict(found)


def totals(measuring: ConnectionTotals, family: Family, *, internal: bool) -> dict[str, int]:
    return {
        total.zone: total.connections
        for total in measuring.totals()
        if (total.family, total.internal) == (family, internal)
    }


@pytest.mark.parametrize("affinity", [None, 60], ids=["drawn", "kept"])
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
@pytest.mark.parametrize("family", FAMILIES)
def test_each_connection_is_counted_once(site: Site, family: Family, protocol: str, affinity: int | None) -> None:
    site.serve(family, *NEAR[family], *FAR[family], protocol=protocol, affinity=affinity)
    measuring = site.measuring()
    asked = partial(site.client.tally, times=TIMES, protocol=protocol)
    inner = by_zone(asked(CLUSTER[family], 80))
    # By other addresses they are masqueraded on their way.
    outer = asked(BALANCER[family], 80)
    outer += asked(site.node.addresses[family == "ip6"], NODE_PORT)
    site.look(measuring)
    assert totals(measuring, family, internal=True) == inner
    assert totals(measuring, family, internal=False) == by_zone(outer)
    # By a chance below 1e-10 one zone would be left out.
    assert affinity or inner.keys() == {"a", "b"}


def test_a_change_of_endpoints_takes_no_count_along(site: Site) -> None:
    measuring, answers = site.measuring(), Counter[str]()
    for some in (NEAR["ip"], (*NEAR["ip"], *FAR["ip"]), FAR["ip"][:1], NEAR["ip"][:1]):
        site.serve("ip", *some)
        site.zones = {each: _ZONES[each] for each in some}
        answers += site.client.tally(CLUSTER["ip"], 80, times=TIMES)
        site.look(measuring)
    site.zones = dict(_ZONES)
    assert totals(measuring, "ip", internal=True) == by_zone(answers)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_endpoint_that_is_the_node_itself_is_counted_whoever_asks(site: Site, family: Family) -> None:
    own = site.node.addresses[family == "ip6"]
    kind = socket.AF_INET6 if family == "ip6" else socket.AF_INET
    with site.node.call(socket.create_server, (own, 8080), family=kind):
        site.zones[own] = "a"
        site.serve(family, own)
        measuring = site.measuring()
        for number, who in enumerate((site.client, site.node), start=1):
            for _ in range(TIMES):
                who.call(socket.create_connection, (CLUSTER[family], 80), 30.0).close()
            site.look(measuring)
            assert totals(measuring, family, internal=True) == {"a": number * TIMES}
