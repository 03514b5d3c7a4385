"""The endpoints of one address family, as a decision has them: their hints, or the slice groups they belong to."""

from fractions import Fraction

from tests.clusters import DUAL_STACK, a_pod, a_service, hints, nodes_in

from zoneward.kube.objects import ContainerPort, Endpoint, Identity, ServicePort
from zoneward.routing.configuration import Configuration, SubsettingSettings
from zoneward.routing.deciding import decide_for
from zoneward.routing.demand import compute_demand
from zoneward.routing.placement.assignment import Assignment
from zoneward.routing.placement.groups import Group, own_group
from zoneward.slices.endpoints import Recipe
from zoneward.slices.kept_family import KeptFamily
from zoneward.slices.kept_slices import KeptSlices

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
SMALL = Configuration(subsetting=SubsettingSettings(starting_threshold=Fraction(1), padding=0))


def a_family() -> KeptFamily:
    """Two groups by port, one endpoint of four not ready."""
    recipe = Recipe(SERVICE, node_zones={"node-a": "a", "node-b": "b"})
    family = KeptFamily("IPv4", KeptSlices(SERVICE, SMALL), recipe, apart=False, portless=False)
    family.fill(PODS)
    return family


def decided(family: KeptFamily, mode: str | None = None, *, subsetting: str | None = None) -> Assignment:
    decision = decide_for(
        a_service(mode, subsetting=subsetting),
        family.crowd,
        demand=compute_demand(nodes_in({"a": 1, "b": 2})),
        in_force=None,
        configuration=SMALL,
    )
    assert decision.assignment is not None
    return decision.assignment


def loose(family: KeptFamily, assignment: Assignment) -> tuple[dict[str, Endpoint], dict[str, Group | None]]:
    """Endpoints and their groups by Pod."""
    endpoints: dict[Identity, Endpoint] = {}
    groups: dict[Identity, Group | None] = {}
    for ports in family.loose(assignment).values():
        endpoints |= ports.endpoints
        groups |= ports.slice_groups
    return {key[2]: each for key, each in endpoints.items()}, {key[2]: each for key, each in groups.items()}


def test_a_decision_tells_its_answers_by_ports_and_then_as_pods_came() -> None:
    assert [each.name for each in a_family().crowd.in_order()] == ["p0", "p2", "p1", "p3"]


def test_each_endpoint_gets_the_hint_that_was_decided_for_it() -> None:
    family = a_family()
    endpoints, groups = loose(family, decided(family, "Auto"))
    found = {name: endpoint.hints for name, endpoint in endpoints.items()}
    assert found == {"p0": hints("a"), "p1": None, "p2": hints("b"), "p3": hints("b")}
    assert not groups


def test_each_endpoint_gets_the_slice_group_that_was_decided_for_it() -> None:
    """One that is not ready too: it goes where it will be needed, zone b, which expects two thirds of four. Endpoints
    themselves say nothing of it.
    """
    family = a_family()
    endpoints, groups = loose(family, decided(family, subsetting="Auto"))
    assert endpoints == loose(family, decided(family))[0]
    assert groups == {"p0": own_group("a"), "p1": own_group("b"), "p2": own_group("b"), "p3": own_group("b")}


def test_without_hints_endpoints_are_as_their_pods_make_them() -> None:
    family = a_family()
    endpoints, groups = loose(family, decided(family))
    assert {each.hints for each in endpoints.values()} == {None}
    assert not groups
