"""A decision's hints on the endpoints that it was taken for."""

from tests.clusters import DUAL_STACK, a_pod, a_service, hints, nodes_in

from zoneward.kube.objects import ContainerPort, ServicePort
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision, decide
from zoneward.routing.demand import demand_of
from zoneward.routing.hysteresis import NOTHING_BEFORE
from zoneward.slices.encoding import in_order, with_hints
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


def decision(mode: str | None) -> Decision:
    return decide(
        a_service(mode),
        in_order(endpoints()),
        demand=demand_of(nodes_in({"a": 1, "b": 2})),
        previous=NOTHING_BEFORE,
        configuration=Configuration(),
    )


def test_endpoints_stand_group_by_group() -> None:
    assert [one.target_ref.name for one in in_order(endpoints()) if one.target_ref] == ["p0", "p2", "p1", "p3"]


def test_each_endpoint_gets_the_hint_that_was_decided_for_it() -> None:
    hinted = with_hints(endpoints(), decision("Auto"))
    assert [one.hints for one in in_order(hinted)] == [hints("a"), hints("b"), None, hints("b")]
    assert list(hinted.groups) == list(endpoints().groups)


def test_without_hints_nothing_is_touched() -> None:
    bare = endpoints()
    assert with_hints(bare, decision(None)) is bare
