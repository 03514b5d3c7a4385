"""A decision's hints, or its slice groups, on the endpoints that it was taken for."""

from fractions import Fraction

from tests.clusters import DUAL_STACK, a_pod, a_service, hints, nodes_in

from zoneward.kube.objects import ContainerPort, ServicePort
from zoneward.routing.configuration import Configuration, SubsettingSettings
from zoneward.routing.deciding import decide
from zoneward.routing.decision import Decision
from zoneward.routing.demand import demand_of
from zoneward.routing.groups import own_group
from zoneward.routing.hysteresis import NOTHING_BEFORE
from zoneward.slices.encoding import encoded, in_order
from zoneward.slices.endpoints import Endpoints, endpoints_of_pods

SERVICE = a_service("Auto", families=DUAL_STACK, ports=[ServicePort(name="http", port=80, target_port="web")])
PLACES = (("a", 1, True), ("a", 2, False), ("b", 1, True), ("b", 2, True))
"""Zone, number behind the named port, readiness."""
PODS = [
    a_pod(
        f"p{number}",
        f"node-{zone}",
        ips=(f"10.0.0.{number}",),
        ready=ready,
        ports=[ContainerPort(name="web", container_port=port)],
    )
    for number, (zone, port, ready) in enumerate(PLACES)
]


def endpoints() -> Endpoints:
    """Two groups by port, one endpoint of four not ready."""
    return endpoints_of_pods(SERVICE, PODS, node_zones={"node-a": "a", "node-b": "b"}, address_type="IPv4")


SMALL = SubsettingSettings(starting_threshold=Fraction(1), padding=0)


def decision(mode: str | None = None, *, subsetting: str | None = None) -> Decision:
    return decide(
        a_service(mode, subsetting=subsetting),
        in_order(endpoints()),
        demand=demand_of(nodes_in({"a": 1, "b": 2})),
        previous=NOTHING_BEFORE,
        configuration=Configuration(subsetting=SMALL),
    )


def test_endpoints_stand_group_by_group() -> None:
    assert [one.target_ref.name for one in in_order(endpoints()) if one.target_ref] == ["p0", "p2", "p1", "p3"]


def test_each_endpoint_gets_the_hint_that_was_decided_for_it() -> None:
    hinted = encoded(endpoints(), decision("Auto"))
    assert [one.hints for one in in_order(hinted)] == [hints("a"), hints("b"), None, hints("b")]
    assert list(hinted.groups) == list(endpoints().groups)
    assert not any(group.slice_groups for group in hinted.groups.values())


def test_each_endpoint_gets_the_slice_group_that_was_decided_for_it() -> None:
    """One that is not ready too: it goes where it will be needed, zone b, which expects two thirds of four. Endpoints
    themselves say nothing of it.
    """
    bare = endpoints()
    grouped = encoded(bare, decision(subsetting="Auto"))
    assert in_order(grouped) == in_order(bare)
    assert list(grouped.groups) == list(bare.groups)
    found = {
        endpoint.target_ref.name: group.slice_groups[key]
        for group in grouped.groups.values()
        for key, endpoint in group.endpoints.items()
        if endpoint.target_ref
    }
    assert found == {"p0": own_group("a"), "p1": own_group("b"), "p2": own_group("b"), "p3": own_group("b")}


def test_without_hints_nothing_is_touched() -> None:
    bare = endpoints()
    assert encoded(bare, decision()) is bare
