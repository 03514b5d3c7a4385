"""Which of the Services that request an address gets it does not depend on their order."""

from collections.abc import Mapping
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st
from tests.properties.random_clusters import examples
from tests.proxy.drawn_services import key, node_service, one_port

from zoneward.proxy.model.node_service import NodeService, NodeServicePort, OwnedServices, ServiceKey, resolve_ownership
from zoneward.proxy.ruleset.base_rules import RulesetOptions
from zoneward.proxy.ruleset.ruleset_state import full_ruleset

DNS: Final = "10.96.0.10"
OUTER: Final = "198.51.100.7"
NODE: Final = "192.0.2.1"
OPTIONS: Final = RulesetOptions()


def a_service(
    name: str, cluster_ip: str, *ports: int, creation_timestamp: str = "2026-01-01T00:00:00Z", **more: Any
) -> NodeService:
    namespace, _, name = name.rpartition("/")
    every = more.pop("ports", None) or [a_port(port) for port in ports or (53,)]
    names = {"namespace": namespace or "shop", "name": name}
    return node_service(*every, **names, cluster_ip=cluster_ip, creation_timestamp=creation_timestamp, **more)


def a_port(port: int, node_port: int | None = None) -> NodeServicePort:
    return one_port(protocol="udp", name=str(port), port=port, node_port=node_port)


KUBE_DNS: Final = a_service("kube-system/kube-dns", DNS, 53, creation_timestamp="2026-01-02T00:00:00Z")


class Cluster:
    """Served Services, while Services are added and deleted."""

    def __init__(self, *, node: frozenset[str] = frozenset()) -> None:
        self.claims = OwnedServices()
        self.claims.set_node_addresses(node)
        self.served: dict[ServiceKey, NodeService] = {}

    def take(self, changes: Mapping[ServiceKey, NodeService | None]) -> None:
        for service, served in changes.items():
            self.served.pop(service, None)
            if served is not None:
                self.served[service] = served

    def put(self, *every: NodeService) -> "Cluster":
        for served in every:
            self.take(self.claims.set_service(key(served), served))
        return self

    def remove(self, served: NodeService) -> None:
        self.take(self.claims.set_service(key(served), None))

    def spots(self, served: NodeService) -> set[tuple[str, int]]:
        """Outer addresses and ports that a Service has."""
        current = self.served.get(key(served))
        return (
            {(address, port.port) for port in current.ports for address in current.external_addresses(port)}
            if current
            else set()
        )

    def lost(self, served: NodeService) -> tuple[str, ...]:
        return self.claims.ownership.conflicts(key(served))


def test_a_cluster_ip_wins_over_external_and_load_balancers_addresses_in_any_order() -> None:
    # Older, first by name, with another port and with ranges of sources: none of it helps.
    thief = a_service(
        "a/thief", "10.96.0.99", 53, 9153, creation_timestamp="2020-01-01T00:00:00Z", external_ips=(DNS, OUTER)
    )
    other = a_service(
        "a/other",
        "10.96.0.98",
        53,
        creation_timestamp="2020-01-01T00:00:00Z",
        load_balancer_ips=(DNS,),
        source_ranges=("192.0.2.0/24",),
    )
    for every in ((thief, other, KUBE_DNS), (KUBE_DNS, other, thief)):
        here = Cluster().put(*every)
        assert here.served[key(KUBE_DNS)] == KUBE_DNS
        assert here.spots(thief) == {(OUTER, 53), (OUTER, 9153)}
        assert here.served[key(other)].load_balancer_ips == ()
        assert here.lost(thief) == (f"{DNS} of kube-system/kube-dns",)
        elements = full_ruleset("ip", here.served, options=OPTIONS).elements
        assert [entry for entries in elements.values() for entry in entries if DNS in entry] == [
            DNS,
            f"{DNS} . udp . 53",
        ]
        here.remove(KUBE_DNS)
        # Of the remaining two, which are equally old, the first by name gets the port that both request.
        assert here.spots(thief) == {(OUTER, 53), (OUTER, 9153), (DNS, 9153)}
        assert here.spots(other) == {(DNS, 53)}
        assert here.lost(thief) == (f"{DNS} udp 53 of a/other",)
        here.put(KUBE_DNS)
        assert here.spots(other) == set()


def test_of_two_that_ask_for_an_external_address_the_older_has_the_port_until_it_is_deleted() -> None:
    old = a_service("z", "10.96.0.1", 80, 81, creation_timestamp="2025-01-01T00:00:00Z", external_ips=(OUTER,))
    new = a_service("a", "10.96.0.2", 80, 82, creation_timestamp="2025-01-02T00:00:00Z", external_ips=(OUTER,))
    for every in ((old, new), (new, old)):
        here = Cluster().put(*every)
        assert (here.spots(old), here.spots(new)) == ({(OUTER, 80), (OUTER, 81)}, {(OUTER, 82)})
        assert (here.lost(old), here.lost(new)) == ((), (f"{OUTER} udp 80 of shop/z",))
        here.remove(old)
        assert here.spots(new) == {(OUTER, 80), (OUTER, 82)}
        assert here.lost(new) == ()


def test_on_an_address_of_the_node_a_node_port_is_its_services() -> None:
    port = a_port(80, 30_080)
    victim = a_service("z/victim", "10.96.0.1", ports=(port,), creation_timestamp="2026-01-03T00:00:00Z")
    thief = a_service("a/thief", "10.96.0.2", 443, 30_080, external_ips=(NODE, OUTER))
    for every in ((victim, thief), (thief, victim)):
        here = Cluster(node=frozenset({NODE})).put(*every)
        assert here.spots(thief) == {(NODE, 443), (OUTER, 443), (OUTER, 30_080)}
        assert here.lost(thief) == (f"{NODE} udp 30080 of z/victim",)
        here.take(here.claims.set_node_addresses(frozenset()))
        assert (NODE, 30_080) in here.spots(thief)
        here.take(here.claims.set_node_addresses(frozenset({NODE})))
        here.remove(victim)
        assert (NODE, 30_080) in here.spots(thief)


def test_a_services_own_node_port_may_be_its_port_too() -> None:
    one = a_service("one", "10.96.0.1", ports=(a_port(30_080, 30_080),), external_ips=(NODE,))
    assert Cluster(node=frozenset({NODE})).put(one).spots(one) == {(NODE, 30_080)}


def test_of_two_with_one_cluster_ip_or_node_port_the_older_has_it() -> None:
    port = a_port(80, 30_080)
    old = a_service("z", "10.96.0.1", ports=(port,), creation_timestamp="2025-01-01T00:00:00Z")
    same_address, same_port = a_service("a", "10.96.0.1"), a_service("b", "10.96.0.2", ports=(port,))
    for every in ((old, same_address, same_port), (same_port, same_address, old)):
        here = Cluster().put(*every)
        assert here.served[key(old)] is old
        assert key(same_address) not in here.served
        assert here.served[key(same_port)].ports[0].node_port is None
        here.remove(old)
        assert here.served == {key(same_address): same_address, key(same_port): same_port}


ADDRESSES: Final = ("10.96.0.1", "10.96.0.2", "10.96.0.3", OUTER, NODE)


@st.composite
def services(draw: st.DrawFn, name: str) -> NodeService:
    ports = draw(st.lists(st.sampled_from([80, 30_080, 30_081]), min_size=1, max_size=2, unique=True))
    node_ports = draw(st.lists(st.sampled_from([None, 30_080, 30_081]), min_size=2, max_size=2))
    addresses = st.lists(st.sampled_from(ADDRESSES), max_size=3, unique=True).map(tuple)
    return a_service(
        name,
        draw(st.sampled_from(ADDRESSES[:3])),
        creation_timestamp=draw(st.sampled_from(["", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"])),
        external_ips=draw(addresses),
        load_balancer_ips=draw(addresses),
        ports=tuple(map(a_port, ports, node_ports)),
    )


steps = st.lists(
    st.sampled_from("abc").flatmap(lambda name: st.tuples(st.just(name), st.none() | services(name))), max_size=8
)


@examples(50)
@given(steps=steps, node=st.sampled_from([frozenset[str](), frozenset({NODE})]), data=st.data())
def test_any_order_of_changes_ends_as_if_all_were_seen_at_once(
    steps: list[tuple[str, NodeService | None]], node: frozenset[str], data: st.DataObject
) -> None:
    here = Cluster(node=node)
    there: dict[str, NodeService] = {}
    for name, served in steps:
        there.pop(name, None)
        if served is None:
            here.take(here.claims.set_service(("shop", name), None))
        else:
            here.put(served)
            there[name] = served
    order = data.draw(st.permutations(sorted(there)))
    lost: list[str] = []
    assert (
        resolve_ownership((there[name] for name in order), node_addresses=node, on_conflict=lost.append) == here.served
    )
    conflicts = {
        f"Service shop/{name}: it does not get {what}"
        for name in there
        for what in here.claims.ownership.conflicts(("shop", name))
    }
    assert set(lost) == conflicts
    # No two Services have the same address and port.
    taken = [
        (address, port.protocol, port.port)
        for one in here.served.values()
        for port in one.ports
        for address in one.external_addresses(port)
    ]
    assert len(taken) == len(set(taken))
    cluster_ips = {one.cluster_ip for one in there.values()}
    assert not cluster_ips & {address for address, _, _ in taken}
