"""What the proxy of a node uses: hints for nodes, for zones, then all; traffic policies; proxies of every age.

Upstream's own cases are in `tests.vectors.test_categorize_endpoints`; these test the code around them.
"""

from collections.abc import Mapping
from typing import Any, Final

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
from zoneward.kube.zone_weights import ZoneWeights, format_zone_weights
from zoneward.routing.configuration import FeatureGates
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
    is_stale,
    policies_of,
    select_endpoints,
    slices_by_port,
    usable_zone_weights,
)
from zoneward.routing.zone_groups import own_group

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


def hinted(*endpoint_hints: Hints | None) -> tuple[Endpoint, ...]:
    return tuple(an_endpoint(f"10.0.0.{index}", hinted=one) for index, one in enumerate(endpoint_hints, start=1))


ALL: Final = {"10.0.0.1", "10.0.0.2"}


def test_hints_that_are_not_heeded_do_not_matter() -> None:
    endpoints = hinted(hints("a", nodes=["n1"]), hints("b", nodes=["n2"]))
    assert chosen(*endpoints, honored=HonoredHints(zones=True, nodes=False), node="n2") == ("zone-hints", {"10.0.0.1"})
    assert chosen(*endpoints, honored=HonoredHints(zones=False, nodes=True), node="n3") == ("all", ALL)
    assert chosen(*endpoints, honored=NO_HINTS) == ("all", ALL)


def test_with_its_gate_off_the_internal_policy_is_not_heeded() -> None:
    service = a_service(internal="Local", external="Local", node_port=30080)
    off = FeatureGates(topology_aware_hints=False, service_traffic_policy=False)
    assert policies_of(service, FeatureGates()) == Policies(uses_cluster=True, uses_local=True, internal_local=True)
    assert policies_of(service, off) == Policies(uses_cluster=True, uses_local=True, internal_local=False)
    assert policies_of(a_service(internal="Local"), off) == CLUSTER


def test_a_load_balancer_without_an_address_is_not_reached_from_outside() -> None:
    service = a_service(type_="LoadBalancer")
    without_ip = ServiceStatus(load_balancer=LoadBalancerStatus(ingress=(LoadBalancerIngress(ip=None),)))
    for status in (None, ServiceStatus(), without_ip):
        assert not is_externally_accessible(replace(service, status=status))


def under(policies: Policies, *endpoints: Endpoint) -> EndpointSelection:
    return select_endpoints(endpoints, policies=policies, honored=ALL_HINTS, node="n1", zone="a")


INTERNAL_LOCAL: Final = Policies(uses_cluster=False, uses_local=True, internal_local=True)
EXTERNAL_LOCAL: Final = Policies(uses_cluster=True, uses_local=True)
THERE: Final = an_endpoint("10.0.0.2", node="n2", hinted=hints("a"))


def test_a_local_endpoint_that_terminates_serves_until_it_is_gone_but_is_not_healthy() -> None:
    last = an_endpoint("10.0.0.1", node="n1", ready=False, serving=True, terminating=True)
    selection = under(INTERNAL_LOCAL, last, THERE)
    assert (selection.local, selection.rule, selection.healthy_local) == ((last,), SelectionRule.TERMINATING, 0)
    selection = under(EXTERNAL_LOCAL, last, THERE)
    assert (selection.local, selection.cluster, selection.all_reachable) == ((last,), (THERE,), (last, THERE))


BESIDE: Final[Mapping[str, Service]] = {
    "nothing": a_service(),
    "Auto": a_service("Auto"),
    "auto, old": a_service(old="auto"),
    "an empty old one": a_service("Auto", old=""),
    "PreferZone": a_service("PreferZone"),
    "a distribution": a_service(distribution="PreferSameNode"),
}
HEEDED: Final[Mapping[str, Mapping[str, HonoredHints]]] = {
    "zoneward": dict.fromkeys(BESIDE, HonoredHints(zones=True, nodes=True, weights=True)),
    "current": dict.fromkeys(BESIDE, ALL_HINTS),
    "zone-slices": dict.fromkeys(BESIDE, ALL_HINTS),
    "zone-hints": dict.fromkeys(BESIDE, HonoredHints(zones=True, nodes=False)),
    "annotation": {service: HonoredHints(zones=service in ("Auto", "auto, old"), nodes=False) for service in BESIDE},
    "no-hints": dict.fromkeys(BESIDE, NO_HINTS),
}


def test_every_consumer_is_in_the_table() -> None:
    assert list(CONSUMERS) == list(HEEDED)
    assert CONSUMERS["current"] is CURRENT
    assert CONSUMERS["zoneward"] is ZONEWARD


@pytest.mark.parametrize("consumer", HEEDED)
def test_a_consumer_heeds_the_hints_of_its_time(consumer: str) -> None:
    for name, service in BESIDE.items():
        assert honored_hints(service, CONSUMERS[consumer], FeatureGates()) == HEEDED[consumer][name], name
    beside_keys = a_service("Auto", distribution="PreferSameNode", keys=("kubernetes.io/hostname",))
    assert honored_hints(beside_keys, CONSUMERS[consumer], FeatureGates()) == NO_HINTS


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


OUR_HINTS: Final = HEEDED["zoneward"]["nothing"]


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        (a_service(distribution="PreferClose"), NO_HINTS),
        (a_service(distribution="PreferSameNode"), NO_HINTS),
        (a_service("Disabled", distribution="PreferClose"), NO_HINTS),
        # An unknown value counts as not set.
        (a_service("Banana", distribution="PreferClose"), NO_HINTS),
        (a_service(subsetting="Banana", distribution="PreferClose"), NO_HINTS),
        (a_service("Auto", distribution="PreferClose"), OUR_HINTS),
        (a_service(), OUR_HINTS),
    ],
)
def test_without_its_gate_our_own_proxy_ignores_hints_of_traffic_distribution(
    service: Service, expected: HonoredHints
) -> None:
    """KEP-4444 § Feature Enablement and Rollback: they may still be in the slices."""
    gates = FeatureGates(service_traffic_distribution=False)
    assert honored_hints(service, ZONEWARD, gates) == expected
    assert honored_hints(service, ZONEWARD, FeatureGates()) == OUR_HINTS
    # The gates of kube-proxy are not known.
    assert honored_hints(service, CURRENT, gates) == ALL_HINTS


def of_port(*slices: EndpointSlice, port: str = "http", node: str | None = None) -> dict[str, str | None]:
    """Node by address and port."""
    endpoints = endpoints_of_port(slices, port, node=node)
    return {key: endpoint.node_name for key, endpoint in endpoints.items()}


def test_an_address_is_written_with_its_port_and_of_ipv6_in_brackets() -> None:
    four = a_slice("s1", an_endpoint("10.0.0.1"))
    six = a_slice("s2", an_endpoint("fd00::1"), family="IPv6")
    assert list(of_port(four, six)) == ["10.0.0.1:8080", "[fd00::1]:8080"]


def test_only_slices_with_the_port_and_its_number_count() -> None:
    other = a_slice("s2", an_endpoint("10.0.0.2"), ports=[EndpointPort(name="http", port=9090)])
    metrics = a_slice("s3", an_endpoint("10.0.0.3"), ports=[EndpointPort(name="metrics", port=9091)])
    without = a_slice("s4", an_endpoint("10.0.0.4"), ports=[EndpointPort(name="http", port=None)])
    bare = a_slice("s5", an_endpoint("10.0.0.5"), ports=[])
    first = a_slice("s1", an_endpoint("10.0.0.1"))
    assert list(of_port(first, other, metrics, without, bare)) == ["10.0.0.1:8080", "10.0.0.2:9090"]
    assert endpoints_of_port([first], "http", protocol="UDP") == {}


def test_of_an_address_twice_the_one_on_the_own_node_counts_else_the_first_by_slice_name() -> None:
    first = a_slice("s1", an_endpoint("10.0.0.1", node="n1"))
    second = a_slice("s2", an_endpoint("10.0.0.1", node="n2"))
    third = a_slice("s3", an_endpoint("10.0.0.1", node="n3"), ports=[EndpointPort(name="http", port=9090)])
    assert of_port(second, third, first) == {"10.0.0.1:8080": "n1", "10.0.0.1:9090": "n3"}
    assert of_port(first, second, node="n2") == {"10.0.0.1:8080": "n2"}
    assert of_port(first, second, node="n3") == {"10.0.0.1:8080": "n1"}


def test_a_ready_endpoint_wins_its_address_wherever_it_stands() -> None:
    old = a_slice("s1", an_endpoint("10.0.0.1", node="n1", ready=False))
    new = a_slice("s2", an_endpoint("10.0.0.1", node="n1"))
    for slices in ([old, new], [new, old]):
        (endpoint,) = endpoints_of_port(slices, "http", node="n1").values()
        assert is_ready(endpoint)
        assert all(map(is_ready, endpoints_of_all_ports(slices)))


def test_endpoints_of_all_ports_stand_once_by_address() -> None:
    first = a_slice("s1", an_endpoint("10.0.0.1", node="n1"))
    second = a_slice("s2", an_endpoint("10.0.0.1", node="n2"), an_endpoint("10.0.0.2"))
    without_ports = a_slice("s3", an_endpoint("10.0.0.3"), ports=[])
    endpoints = endpoints_of_all_ports([without_ports, second, first])
    assert [(endpoint.addresses, endpoint.node_name) for endpoint in endpoints] == [
        (("10.0.0.1",), "n1"),
        (("10.0.0.2",), None),
    ]


def test_slices_by_port_have_that_port_alone_and_the_same_endpoints() -> None:
    endpoints = (Endpoint(addresses=("10.0.0.1",)),)
    ports = tuple(EndpointPort(name=name, protocol="TCP", port=80) for name in ("a", "b"))
    two = EndpointSlice(endpoints=endpoints, ports=ports)
    one = EndpointSlice(endpoints=endpoints, ports=(EndpointPort(port=90),))
    by_port = slices_by_port([two, one])
    assert by_port.keys() == {("a", "TCP"), ("b", "TCP"), ("", "TCP")}
    assert by_port["", "TCP"] == [one]
    for name in ("a", "b"):
        (narrow,) = by_port[name, "TCP"]
        assert [port.name for port in narrow.ports or ()] == [name]
        assert endpoints_of_port([narrow], name) == endpoints_of_port([two, one], name)


# --- weights of zones -------------------------------------------------------------------------------------------------

READS_WEIGHTS: Final = HonoredHints(zones=True, nodes=True, weights=True)
WEIGHTS: Final = ZoneWeights({"a": {"a": 0.6, "b": 0.4}, "b": {"b": 1.0}}, {"a": 2, "b": 1})


def in_zones(**numbers: int) -> tuple[Endpoint, ...]:
    """This number of ready endpoints in each zone, with hints for zone z."""
    every = [zone for zone, count in numbers.items() for _ in range(count)]
    return tuple(an_endpoint(f"10.0.0.{index}", zone, hinted=hints("z")) for index, zone in enumerate(every, start=1))


def weighed(
    *endpoints: Endpoint, zone: str | None = "a", weights: ZoneWeights = WEIGHTS, **more: Any
) -> tuple[str, dict[str, float]]:
    """The rule, and each chosen address with its weight."""
    selection = select_endpoints(
        endpoints, policies=CLUSTER, honored=READS_WEIGHTS, node="n1", zone=zone, zone_weights=weights, **more
    )
    cluster = [*addresses_in_order(selection.cluster or ())]
    return selection.rule.value, dict(zip(cluster, selection.weights or (1.0,) * len(cluster), strict=True))


def addresses_in_order(endpoints: tuple[Endpoint, ...]) -> tuple[str, ...]:
    return tuple(address for endpoint in endpoints for address in endpoint.addresses or ())


def test_a_zone_s_share_is_spread_over_its_ready_endpoints() -> None:
    endpoints = (*in_zones(a=2, b=1, c=1), an_endpoint("10.0.1.1", "b", ready=False))
    assert weighed(*endpoints) == ("zone-weights", {"10.0.0.1": 0.3, "10.0.0.2": 0.3, "10.0.0.3": 0.4})
    # From zone b there is one endpoint, and nothing to weigh.
    assert weighed(*endpoints, zone="b") == ("zone-weights", {"10.0.0.3": 1.0})


def test_weights_that_are_alike_are_none() -> None:
    thirds = ZoneWeights({"a": {"a": 0.6, "b": 0.2}}, {"a": 3, "b": 1})
    assert weighed(*in_zones(a=3, b=1), weights=thirds) == (
        "zone-weights",
        {"10.0.0.1": 1.0, "10.0.0.2": 1.0, "10.0.0.3": 1.0, "10.0.0.4": 1.0},
    )


def test_the_share_of_a_zone_without_endpoints_goes_to_the_others() -> None:
    shares = ZoneWeights({"a": {"a": 0.2, "b": 0.6, "c": 0.2}}, {})
    assert weighed(*in_zones(a=1, c=2), weights=shares) == (
        "zone-weights",
        {"10.0.0.1": 0.2, "10.0.0.2": 0.1, "10.0.0.3": 0.1},
    )


def test_a_share_below_one_percent_goes_to_the_others() -> None:
    shares = ZoneWeights({"a": {"a": 0.591, "b": 0.4, "c": 0.009}}, {})
    assert weighed(*in_zones(a=1, b=1, c=1), weights=shares)[1].keys() == {"10.0.0.1", "10.0.0.2"}


@pytest.mark.parametrize(
    ("zone", "endpoints"),
    [("c", in_zones(a=2, b=1)), (None, in_zones(a=2, b=1)), ("b", in_zones(a=3))],
    ids=["no row for the zone", "no zone", "nothing where the shares go"],
)
def test_without_a_share_for_any_endpoint_hints_decide(zone: str | None, endpoints: tuple[Endpoint, ...]) -> None:
    assert weighed(*endpoints, zone=zone) == ("all", dict.fromkeys(addresses_in_order(endpoints), 1.0))
    near = tuple(replace(endpoint, hints=hints(zone or "a")) for endpoint in endpoints[:1])
    rule, used = weighed(*near, *endpoints[1:], zone=zone)
    assert (rule, len(used)) == (("zone-hints", 1) if zone else ("all", 3))


def test_hints_for_nodes_and_slice_groups_win_over_weights() -> None:
    endpoints = in_zones(a=2, b=1)
    on_node = tuple(replace(endpoint, hints=hints("a", nodes=["n1"])) for endpoint in endpoints)
    assert weighed(*on_node)[0] == "node-hints"
    elsewhere = tuple(replace(endpoint, hints=hints("a", nodes=["n2"])) for endpoint in endpoints)
    assert weighed(*elsewhere)[0] == "zone-weights"
    groups = {id(endpoints[0]): own_group("a"), id(endpoints[1]): own_group("b"), id(endpoints[2]): own_group("b")}
    assert weighed(*endpoints, groups=groups) == ("zone-slices", {"10.0.0.1": 1.0})


def test_without_ready_endpoints_those_that_terminate_serve_whatever_the_weights() -> None:
    leaving = an_endpoint("10.0.0.1", "c", ready=False, serving=True, terminating=True)
    assert weighed(leaving) == ("terminating", {"10.0.0.1": 1.0})


def test_a_policy_of_local_takes_no_notice_of_weights() -> None:
    here = an_endpoint("10.0.0.9", "c", node="n1")
    selection = select_endpoints(
        (*in_zones(a=2), here),
        policies=INTERNAL_LOCAL,
        honored=READS_WEIGHTS,
        node="n1",
        zone="a",
        zone_weights=WEIGHTS,
    )
    assert (selection.local, selection.cluster, selection.weights) == ((here,), None, None)


TEXT: Final = format_zone_weights(WEIGHTS)


def annotated(name: str, text: str | None, *endpoints: Endpoint, manager: str = names.MANAGER) -> EndpointSlice:
    annotations = {names.ZONE_WEIGHTS_ANNOTATION: text} if text is not None else None
    return a_slice(name, *endpoints, annotations=annotations, manager=manager)


def test_the_first_valid_weights_by_slice_name_count_whoever_wrote_them() -> None:
    endpoints = in_zones(a=2, b=1)
    others = format_zone_weights(ZoneWeights({"a": {"b": 1.0}}, WEIGHTS.counts))
    invalid: list[str] = []
    weights = usable_zone_weights(
        [
            annotated("d", others),
            annotated("c", TEXT, manager="example.com"),
            annotated("b", "nonsense"),
            annotated("a", None, *endpoints),
        ],
        READS_WEIGHTS,
        on_invalid=invalid.append,
    )
    assert weights == WEIGHTS
    assert invalid == ["b"]


def test_of_many_slices_with_invalid_weights_a_few_are_read() -> None:
    invalid: list[str] = []
    slices = [annotated(f"s{index:03}", "nonsense") for index in range(100)]
    weights = usable_zone_weights([*slices, annotated("t", TEXT)], READS_WEIGHTS, on_invalid=invalid.append)
    assert weights is None
    assert invalid == ["s000", "s001", "s002", "s003"]


@pytest.mark.parametrize(
    ("endpoints", "used"),
    [
        (in_zones(a=2, b=1), True),
        (in_zones(a=3, b=2, c=1), True),
        (in_zones(a=2), True),
        (in_zones(b=1), False),
        (in_zones(a=4, b=1), False),
        (in_zones(a=2, b=1, c=2), False),
        ((*in_zones(a=2, b=1), an_endpoint("10.0.1.1", None)), False),
        ((*in_zones(a=2, b=1), an_endpoint("10.0.1.1", None, ready=False)), True),
    ],
)
def test_weights_for_other_endpoints_or_beside_one_without_a_zone_are_not_used(
    endpoints: tuple[Endpoint, ...], used: bool
) -> None:
    """The ready endpoints of all slices count, each address once."""
    slices = [annotated("a", TEXT, *endpoints[:1]), annotated("b", None, *endpoints[1:], *endpoints[1:])]
    assert usable_zone_weights(slices, READS_WEIGHTS) == (WEIGHTS if used else None)


def test_weights_beside_a_slice_group_are_not_used_even_where_it_has_no_endpoints() -> None:
    slices = [annotated("a", TEXT, *in_zones(a=2, b=1)), a_slice("b", labels={names.ZONE_LABEL: "c"})]
    assert usable_zone_weights(slices, READS_WEIGHTS) is None
    assert usable_zone_weights(slices[:1], READS_WEIGHTS) == WEIGHTS


@pytest.mark.parametrize(
    ("consumer", "service", "gates", "reads"),
    [
        ("zoneward", a_service(), FeatureGates(), True),
        ("zoneward", a_service(keys=("*",)), FeatureGates(), False),
        ("zoneward", a_service(), FeatureGates(topology_aware_hints=False), False),
        *((name, a_service("Auto"), FeatureGates(), False) for name in CONSUMERS if name != "zoneward"),
    ],
)
def test_our_own_proxy_alone_reads_weights_and_only_where_it_honors_hints(
    consumer: str, service: Service, gates: FeatureGates, reads: bool
) -> None:
    honored = honored_hints(service, CONSUMERS[consumer], gates)
    assert usable_zone_weights([annotated("a", TEXT, *in_zones(a=2, b=1))], honored) == (WEIGHTS if reads else None)


@pytest.mark.parametrize(
    ("counted", "ready", "stale"),
    [
        ({"a": 4}, {"a": 4}, False),
        ({"a": 4}, {"a": 5}, False),
        ({"a": 4}, {"a": 3}, False),
        ({"a": 4}, {"a": 6}, True),
        ({"a": 4}, {"a": 2}, True),
        ({"a": 20}, {"a": 22}, False),
        ({"a": 20}, {"a": 18}, False),
        ({"a": 20}, {"a": 23}, True),
        ({"a": 19}, {"a": 21}, True),
        ({"a": 1}, {}, False),
        ({"a": 2}, {}, True),
        ({}, {"a": 1}, False),
        ({"a": 0}, {"a": 2}, True),
        ({"a": 100, "b": 4}, {"a": 100, "b": 6}, True),
        ({"a": 100, "b": 4}, {"a": 100, "b": 4, "c": 2}, True),
    ],
)
def test_weights_are_stale_when_a_zone_differs_by_more_than_a_tenth_and_more_than_one(
    counted: dict[str, int], ready: dict[str, int], stale: bool
) -> None:
    assert is_stale(ZoneWeights({}, counted), ready) is stale
