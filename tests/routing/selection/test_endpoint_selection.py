"""What the proxy of a node uses: hints for nodes, for zones, then all; traffic policies; proxies of every age.

Upstream's own cases are in `tests.vectors.test_categorize_endpoints`; these are about what stands around them.
"""

from collections.abc import Mapping
from typing import Final

import pytest
from msgspec.structs import replace
from tests.builders.structs import a_service, a_slice, an_endpoint, hints
from tests.clusters import ALL_HINTS, CLUSTER

from zoneward.kube import names
from zoneward.kube.objects import (
    Endpoint,
    EndpointPort,
    EndpointSlice,
    Hints,
    LoadBalancerIngress,
    LoadBalancerStatus,
    Service,
    ServiceStatus,
    is_ready,
)
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.placement.groups import ZoneGroup, own_group
from zoneward.routing.selection.endpoint_selection import (
    CONSUMERS,
    CURRENT,
    ZONEWARD,
    EndpointSelection,
    HonoredHints,
    Policies,
    SelectionRule,
    endpoints_of_all_ports,
    endpoints_of_port,
    honored_hints,
    is_externally_accessible,
    is_proxied,
    policies_of,
    select_endpoints,
    slice_groups,
    slices_by_port,
)

NO_HINTS: Final = HonoredHints(zones=False, nodes=False)


def chosen(
    *endpoints: Endpoint, node: str = "n1", zone: str | None = "a", honored: HonoredHints = ALL_HINTS
) -> tuple[str, set[str]]:
    """The rule and the addresses under the policy Cluster."""
    selection = select_endpoints(endpoints, policies=CLUSTER, honored=honored, node=node, zone=zone)
    return selection.rule.value, addresses(selection.cluster)


def addresses(endpoints: tuple[Endpoint, ...] | None) -> set[str]:
    assert endpoints is not None
    return {address for endpoint in endpoints for address in endpoint.addresses or ()}


# --- hints ------------------------------------------------------------------------------------------------------------


def hinted(*each: Hints | None) -> tuple[Endpoint, ...]:
    return tuple(an_endpoint(f"10.0.0.{number}", hinted=one) for number, one in enumerate(each, start=1))


ALL: Final = {"10.0.0.1", "10.0.0.2"}
HINTS: Final[Mapping[str, tuple[tuple[Endpoint, ...], tuple[str, set[str]]]]] = {
    "none": (hinted(None, None), ("all", ALL)),
    "empty ones": (hinted(Hints(), Hints(for_zones=(), for_nodes=())), ("all", ALL)),
    "for this zone and another": (hinted(hints("a"), hints("b")), ("zone-hints", {"10.0.0.1"})),
    "for several zones": (hinted(hints("b", "a"), hints("b")), ("zone-hints", {"10.0.0.1"})),
    "for other zones alone": (hinted(hints("b"), hints("c")), ("all", ALL)),
    "missing on one": (hinted(hints("a"), None), ("all", ALL)),
    "for this node and another": (hinted(hints(nodes=["n1"]), hints(nodes=["n2"])), ("node-hints", {"10.0.0.1"})),
    "for several nodes": (hinted(hints(nodes=["n2", "n1"]), hints(nodes=["n2"])), ("node-hints", {"10.0.0.1"})),
    "for other nodes alone": (hinted(hints(nodes=["n2"]), hints(nodes=["n3"])), ("all", ALL)),
    "for other nodes, and for this zone": (
        hinted(hints("a", nodes=["n2"]), hints("b", nodes=["n3"])),
        ("zone-hints", {"10.0.0.1"}),
    ),
    "for this node in another zone": (
        hinted(hints("b", nodes=["n1"]), hints("a", nodes=["n2"])),
        ("node-hints", {"10.0.0.1"}),
    ),
    "for nodes on one, for zones on both": (
        hinted(hints("a", nodes=["n1"]), hints("b")),
        ("zone-hints", {"10.0.0.1"}),
    ),
    "for nodes on one, for zones on the other": (hinted(hints(nodes=["n1"]), hints("a")), ("all", ALL)),
}


@pytest.mark.parametrize("which", HINTS)
def test_hints_are_heeded_only_if_every_endpoint_has_them_and_one_matches(which: str) -> None:
    """KEP-3015 § Addition of PreferSameNode: nodes, then zones, then all."""
    endpoints, expected = HINTS[which]
    assert chosen(*endpoints) == expected


def test_a_proxy_that_does_not_know_its_zone_uses_all() -> None:
    """KEP-2433 § Kube-Proxy: it has to determine the zone it runs in. Hints for nodes need none."""
    endpoints = hinted(hints("a", nodes=["n1"]), hints("a", nodes=["n2"]))
    assert chosen(*endpoints, zone=None, node="n3") == ("all", ALL)
    assert chosen(*endpoints, zone="", node="n3") == ("all", ALL)
    assert chosen(*endpoints, zone=None) == ("node-hints", {"10.0.0.1"})


def test_hints_that_are_not_heeded_do_not_matter() -> None:
    endpoints = hinted(hints("a", nodes=["n1"]), hints("b", nodes=["n2"]))
    assert chosen(*endpoints, honored=HonoredHints(zones=True, nodes=False), node="n2") == ("zone-hints", {"10.0.0.1"})
    assert chosen(*endpoints, honored=HonoredHints(zones=False, nodes=True), node="n3") == ("all", ALL)
    assert chosen(*endpoints, honored=NO_HINTS) == ("all", ALL)


def test_endpoints_that_are_not_ready_need_no_hint() -> None:
    endpoints = (*hinted(hints("a"), hints("b")), an_endpoint("10.0.0.9", ready=False))
    assert chosen(*endpoints) == ("zone-hints", {"10.0.0.1"})


def test_a_hint_on_an_endpoint_that_is_not_ready_matches_nobody() -> None:
    endpoints = (*hinted(hints("b"), hints("b")), an_endpoint("10.0.0.9", ready=False, hinted=hints("a")))
    assert chosen(*endpoints) == ("all", ALL)


def test_where_nobody_is_there_nobody_is_chosen() -> None:
    selection = select_endpoints((), policies=CLUSTER, honored=ALL_HINTS, node="n1", zone="a")
    assert (selection.cluster, selection.all_reachable, selection.has_any, selection.only_remote) == (
        (),
        (),
        False,
        False,
    )


# --- readiness --------------------------------------------------------------------------------------------------------


def leaving(address: str, *, node: str | None = None, hinted: Hints | None = None) -> Endpoint:
    """Terminating, and still serving."""
    return an_endpoint(address, node=node, ready=False, serving=True, terminating=True, hinted=hinted)


def test_terminating_endpoints_are_the_last_resort() -> None:
    gone = an_endpoint("10.0.0.3", ready=False, serving=False, terminating=True)
    unready = an_endpoint("10.0.0.4", ready=False, serving=True, terminating=False)
    assert chosen(leaving("10.0.0.2"), gone, unready) == ("terminating", {"10.0.0.2"})
    assert chosen(an_endpoint("10.0.0.1"), leaving("10.0.0.2"), gone) == ("all", {"10.0.0.1"})
    assert chosen(gone, unready) == ("all", set())


def test_the_last_resort_heeds_no_hints() -> None:
    assert chosen(leaving("10.0.0.1", hinted=hints("a")), leaving("10.0.0.2", hinted=hints("b"))) == (
        "terminating",
        ALL,
    )


def test_an_absent_condition_means_ready() -> None:
    assert chosen(replace(an_endpoint("10.0.0.1"), conditions=None), an_endpoint("10.0.0.2", ready=None)) == (
        "all",
        ALL,
    )


# --- traffic policies -------------------------------------------------------------------------------------------------

LOAD_BALANCER: Final = a_service(external="Local", type_="LoadBalancer", node_port=30080)
POLICIES: Final[Mapping[str, tuple[Service, Policies]]] = {
    "none": (a_service(), Policies(uses_cluster=True, uses_local=False)),
    "Cluster, spelt out": (
        a_service(internal="Cluster", external="Cluster", node_port=30080),
        Policies(uses_cluster=True, uses_local=False),
    ),
    "internal Local": (a_service(internal="Local"), Policies(uses_cluster=False, uses_local=True, internal_local=True)),
    "internal Local, reached from outside": (
        a_service(internal="Local", node_port=30080),
        Policies(uses_cluster=True, uses_local=True, internal_local=True),
    ),
    "external Local": (LOAD_BALANCER, Policies(uses_cluster=True, uses_local=True)),
    "external Local, not reached from outside": (
        a_service(external="Local"),
        Policies(uses_cluster=True, uses_local=False),
    ),
    "both Local": (
        a_service(internal="Local", external="Local", node_port=30080),
        Policies(uses_cluster=True, uses_local=True, internal_local=True),
    ),
}


@pytest.mark.parametrize("which", POLICIES)
def test_policies_say_which_endpoints_a_proxy_needs(which: str) -> None:
    """Local traffic from inside goes to external addresses as well, so the external policy Local needs both."""
    service, expected = POLICIES[which]
    assert policies_of(service) == expected


def test_with_its_gate_off_the_internal_policy_is_not_heeded() -> None:
    """KEP-2086's gate; the external policy is older than it."""
    service = a_service(internal="Local", external="Local", node_port=30080)
    off = FeatureGates(topology_aware_hints=False, service_traffic_policy=False)
    assert policies_of(service, FeatureGates()) == Policies(uses_cluster=True, uses_local=True, internal_local=True)
    assert policies_of(service, off) == Policies(uses_cluster=True, uses_local=True, internal_local=False)
    assert policies_of(a_service(internal="Local"), off) == CLUSTER


def with_status(service: Service, ip: str | None) -> Service:
    ingress = (LoadBalancerIngress(ip=ip),)
    return replace(service, status=ServiceStatus(load_balancer=LoadBalancerStatus(ingress=ingress)))


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        (a_service(), False),
        (a_service(node_port=30080), True),
        (a_service(type_="LoadBalancer"), False),
        (with_status(a_service(type_="LoadBalancer"), "192.0.2.1"), True),
        (with_status(a_service(type_="LoadBalancer"), None), False),
        (replace(a_service(), spec=replace(a_service().spec, external_ips=("192.0.2.1",))), True),
        (replace(a_service(), status=ServiceStatus()), False),
    ],
)
def test_a_service_is_reached_from_outside_by_port_or_address(service: Service, expected: bool) -> None:
    assert is_externally_accessible(service) == expected


@pytest.mark.parametrize(
    ("service", "expected"),
    [(a_service(), True), (a_service(cluster_ip="None"), False), (a_service(type_="ExternalName"), False)],
)
def test_proxies_serve_what_has_an_address_of_its_own(service: Service, expected: bool) -> None:
    assert is_proxied(service) == expected


def under(policies: Policies, *endpoints: Endpoint) -> EndpointSelection:
    return select_endpoints(endpoints, policies=policies, honored=ALL_HINTS, node="n1", zone="a")


INTERNAL_LOCAL: Final = POLICIES["internal Local"][1]
EXTERNAL_LOCAL: Final = POLICIES["external Local"][1]
HERE: Final = an_endpoint("10.0.0.1", node="n1", hinted=hints("b"))
THERE: Final = an_endpoint("10.0.0.2", node="n2", hinted=hints("a"))


def test_local_endpoints_are_those_of_the_node_whatever_their_hints() -> None:
    selection = under(INTERNAL_LOCAL, HERE, THERE)
    assert (selection.cluster, selection.local, selection.all_reachable) == (None, (HERE,), (HERE,))
    assert (selection.has_any, selection.healthy_local, selection.only_remote) == (True, 1, False)


def test_with_both_policies_everything_in_use_is_reachable() -> None:
    selection = under(EXTERNAL_LOCAL, HERE, THERE)
    assert (selection.cluster, selection.local, selection.all_reachable) == ((THERE,), (HERE,), (HERE, THERE))
    assert selection.rule is SelectionRule.ZONE_HINTS


def test_a_node_without_local_endpoints_drops_what_must_stay_local() -> None:
    selection = under(INTERNAL_LOCAL, THERE)
    assert (selection.local, selection.all_reachable) == ((), ())
    assert (selection.has_any, selection.only_remote, selection.healthy_local) == (True, True, 0)


def test_a_local_endpoint_that_terminates_serves_until_it_is_gone_but_is_not_healthy() -> None:
    last = leaving("10.0.0.1", node="n1")
    selection = under(INTERNAL_LOCAL, last, THERE)
    assert (selection.local, selection.rule, selection.healthy_local) == ((last,), SelectionRule.TERMINATING, 0)
    selection = under(EXTERNAL_LOCAL, last, THERE)
    assert (selection.local, selection.cluster, selection.all_reachable) == ((last,), (THERE,), (last, THERE))


# --- proxies of every age ---------------------------------------------------------------------------------------------


def with_annotation(each: EndpointSlice, zones: str) -> EndpointSlice:
    return replace(each, metadata=replace(each.metadata, annotations={names.ZONES_ANNOTATION: zones}))


BESIDE: Final[Mapping[str, Service]] = {
    "nothing": a_service(),
    "Auto": a_service("Auto"),
    "auto, old": a_service(old="auto"),
    "an empty old one": a_service("Auto", old=""),
    "PreferZone": a_service("PreferZone"),
    "a distribution": a_service(distribution="PreferSameNode"),
}
HEEDED: Final[Mapping[str, Mapping[str, HonoredHints]]] = {
    "zoneward": dict.fromkeys(BESIDE, ALL_HINTS),
    "current": dict.fromkeys(BESIDE, ALL_HINTS),
    "zone-slices": dict.fromkeys(BESIDE, ALL_HINTS),
    "zone-hints": dict.fromkeys(BESIDE, HonoredHints(zones=True, nodes=False)),
    "annotation": {service: HonoredHints(zones=service in ("Auto", "auto, old"), nodes=False) for service in BESIDE},
    "no-hints": dict.fromkeys(BESIDE, NO_HINTS),
}


def test_every_consumer_is_in_the_table() -> None:
    assert list(CONSUMERS) == list(HEEDED) == list(READS)
    assert CONSUMERS["current"] is CURRENT
    assert CONSUMERS["zoneward"] is ZONEWARD


@pytest.mark.parametrize("consumer", HEEDED)
@pytest.mark.parametrize("service", BESIDE)
def test_a_consumer_heeds_the_hints_of_its_time(service: str, consumer: str) -> None:
    """One that came before KEP-4444 knows no value of the annotation but Auto."""
    assert honored_hints(BESIDE[service], CONSUMERS[consumer], FeatureGates()) == HEEDED[consumer][service]


SLICES: Final[tuple[EndpointSlice, ...]] = (
    a_slice("s1", an_endpoint("10.0.0.1"), labels={names.ZONE_LABEL: "b"}),
    with_annotation(a_slice("s2", an_endpoint("10.0.0.2"), labels={names.ZONE_LABEL: "a"}), "a=0.75,b=0.25"),
    a_slice("s3", an_endpoint("10.0.0.3")),
)
"""A slice for zone b, one for both zones with weights, and one for all."""
READS: Final[Mapping[str, Mapping[str, ZoneGroup]]] = {
    "zoneward": {"10.0.0.1": own_group("b"), "10.0.0.2": ZoneGroup(("a", "b"), (0.75, 0.25))},
    "current": {},
    "zone-slices": {"10.0.0.1": own_group("b"), "10.0.0.2": own_group("a")},
    "zone-hints": {},
    "annotation": {},
    "no-hints": {},
}


@pytest.mark.parametrize("consumer", READS)
def test_a_consumer_reads_as_much_of_a_slice_s_zones_as_it_knows(consumer: str) -> None:
    """Ours the label and the annotation, one that knows KEP-2004 alone the label, all others neither."""
    found = slice_groups(SLICES, CONSUMERS[consumer], FeatureGates())
    assert {key: found[id(one)] for each in SLICES for key, one in by_address(each) if id(one) in found} == READS[
        consumer
    ]
    assert slice_groups(SLICES, CONSUMERS[consumer], FeatureGates(topology_aware_subsetting=False)) == {}


def by_address(each: EndpointSlice) -> list[tuple[str, Endpoint]]:
    return [(address, one) for one in each.endpoints or () for address in one.addresses or ()]


@pytest.mark.parametrize(
    ("zone", "rule", "expected", "weights"),
    [
        ("a", "zone-slices", {"10.0.0.2", "10.0.0.3"}, (0.75, 1.0)),
        ("b", "all", {"10.0.0.1", "10.0.0.2", "10.0.0.3"}, (1.0, 0.25, 1.0)),
        ("c", "zone-slices", {"10.0.0.3"}, None),
        (None, "all", {"10.0.0.1", "10.0.0.2", "10.0.0.3"}, None),
    ],
)
def test_a_zone_uses_the_slices_that_it_consumes_and_those_for_all_with_their_weights(
    zone: str | None, rule: str, expected: set[str], weights: tuple[float, ...] | None
) -> None:
    """KEP-2004 § Kube-Proxy; a proxy that does not know its zone uses all."""
    endpoints = endpoints_of_all_ports(SLICES)
    groups = slice_groups(SLICES, ZONEWARD, FeatureGates())
    found = select_endpoints(endpoints, policies=CLUSTER, honored=ALL_HINTS, node="n1", zone=zone, groups=groups)
    assert (found.rule.value, addresses(found.cluster), found.weights) == (rule, expected, weights)


def test_a_zone_that_no_slice_is_for_uses_all_evenly() -> None:
    """Weights are for zones that consume a group."""
    endpoints = endpoints_of_all_ports(SLICES[:2])
    groups = slice_groups(SLICES, ZONEWARD, FeatureGates())
    found = select_endpoints(endpoints, policies=CLUSTER, honored=ALL_HINTS, node="n1", zone="c", groups=groups)
    assert (found.rule.value, addresses(found.cluster), found.weights) == ("all", {"10.0.0.1", "10.0.0.2"}, None)


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        (FeatureGates(topology_aware_hints=False), NO_HINTS),
        (FeatureGates(prefer_same_traffic_distribution=False), HonoredHints(zones=True, nodes=False)),
        (FeatureGates(service_traffic_distribution=False), ALL_HINTS),
    ],
)
def test_a_gate_that_is_off_in_the_proxy_hides_its_hints(gates: FeatureGates, expected: HonoredHints) -> None:
    assert honored_hints(a_service("Auto"), CURRENT, gates) == expected


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_beside_topology_keys_no_hints_are_heeded(consumer: str) -> None:
    """Hints may be there all the same, from before or from another controller."""
    service = a_service("Auto", distribution="PreferSameNode", keys=("kubernetes.io/hostname",))
    assert honored_hints(service, CONSUMERS[consumer], FeatureGates()) == NO_HINTS
    assert honored_hints(a_service("Auto", keys=()), CURRENT, FeatureGates()) == ALL_HINTS


# --- endpoints of slices ----------------------------------------------------------------------------------------------


def of_port(*slices: EndpointSlice, port: str = "http", node: str | None = None) -> dict[str, str | None]:
    """Node by address and port."""
    found = endpoints_of_port(slices, port, node=node)
    return {key: endpoint.node_name for key, endpoint in found.items()}


def test_an_address_is_written_with_its_port_and_of_ipv6_in_brackets() -> None:
    four = a_slice("s1", an_endpoint("10.0.0.1"))
    six = a_slice("s2", an_endpoint("fd00::1"), family="IPv6")
    assert list(of_port(four, six)) == ["10.0.0.1:8080", "[fd00::1]:8080"]


def test_only_slices_with_the_port_and_its_number_count() -> None:
    """By name, whatever the number: Pods may resolve a name each their own way."""
    other = a_slice("s2", an_endpoint("10.0.0.2"), ports=[EndpointPort(name="http", port=9090)])
    metrics = a_slice("s3", an_endpoint("10.0.0.3"), ports=[EndpointPort(name="metrics", port=9091)])
    without = a_slice("s4", an_endpoint("10.0.0.4"), ports=[EndpointPort(name="http", port=None)])
    bare = a_slice("s5", an_endpoint("10.0.0.5"), ports=[])
    assert list(of_port(a_slice("s1", an_endpoint("10.0.0.1")), other, metrics, without, bare)) == [
        "10.0.0.1:8080",
        "10.0.0.2:9090",
    ]


def test_a_port_without_a_name_is_the_empty_name() -> None:
    nameless = a_slice("s1", an_endpoint("10.0.0.1"), ports=[EndpointPort(port=80)])
    assert list(of_port(nameless, port="")) == ["10.0.0.1:80"]


def test_of_an_address_twice_the_first_by_slice_name_counts() -> None:
    """The same address with another port is another endpoint."""
    first = a_slice("s1", an_endpoint("10.0.0.1", node="n1"))
    second = a_slice("s2", an_endpoint("10.0.0.1", node="n2"))
    third = a_slice("s3", an_endpoint("10.0.0.1", node="n3"), ports=[EndpointPort(name="http", port=9090)])
    assert of_port(second, third, first) == {"10.0.0.1:8080": "n1", "10.0.0.1:9090": "n3"}


def test_of_an_address_twice_the_one_on_the_own_node_counts() -> None:
    first = a_slice("s1", an_endpoint("10.0.0.1", node="n1"))
    second = a_slice("s2", an_endpoint("10.0.0.1", node="n2"))
    assert of_port(first, second, node="n2") == {"10.0.0.1:8080": "n2"}
    assert of_port(first, second, node="n3") == {"10.0.0.1:8080": "n1"}


def test_a_ready_endpoint_wins_its_address_wherever_it_stands() -> None:
    """A Pod on the host's network hands over to the next one on its node: both are listed for a while."""
    old = a_slice("s1", an_endpoint("10.0.0.1", node="n1", ready=False))
    new = a_slice("s2", an_endpoint("10.0.0.1", node="n1"))
    for slices in ([old, new], [new, old]):
        (kept,) = endpoints_of_port(slices, "http", node="n1").values()
        assert is_ready(kept)
        assert all(map(is_ready, endpoints_of_all_ports(slices)))


def test_a_port_is_found_by_name_and_protocol() -> None:
    one = a_slice("s1", an_endpoint("10.0.0.1"))
    assert endpoints_of_port([one], "http", protocol="UDP") == {}


def test_of_several_addresses_only_the_first_is_used() -> None:
    endpoint = replace(an_endpoint("10.0.0.1"), addresses=("10.0.0.1", "10.0.0.2"))
    assert list(of_port(a_slice("s1", endpoint))) == ["10.0.0.1:8080"]


def test_endpoints_of_all_ports_stand_once_by_address() -> None:
    first = a_slice("s1", an_endpoint("10.0.0.1", node="n1"))
    second = a_slice("s2", an_endpoint("10.0.0.1", node="n2"), an_endpoint("10.0.0.2"))
    without_ports = a_slice("s3", an_endpoint("10.0.0.3"), ports=[])
    found = endpoints_of_all_ports([without_ports, second, first])
    assert [(each.addresses, each.node_name) for each in found] == [(("10.0.0.1",), "n1"), (("10.0.0.2",), None)]


def test_null_lists_are_empty_ones() -> None:
    empty = replace(a_slice("s1"), endpoints=None, ports=None)
    assert endpoints_of_port([empty], "http") == {}
    assert endpoints_of_all_ports([empty]) == ()


def test_slices_by_port_have_that_port_alone_and_the_same_endpoints() -> None:
    """Of thousands of ports each would otherwise go through all ports of all slices."""
    endpoints = (Endpoint(addresses=("10.0.0.1",)),)
    ports = tuple(EndpointPort(name=name, protocol="TCP", port=80) for name in ("a", "b"))
    two = EndpointSlice(endpoints=endpoints, ports=ports)
    one = EndpointSlice(endpoints=endpoints, ports=(EndpointPort(port=90),))
    found = slices_by_port([two, one])
    assert found.keys() == {("a", "TCP"), ("b", "TCP"), ("", "TCP")}
    assert found["", "TCP"] == [one]
    for name in ("a", "b"):
        (narrow,) = found[name, "TCP"]
        assert [each.name for each in narrow.ports or ()] == [name]
        assert endpoints_of_port([narrow], name) == endpoints_of_port([two, one], name)
