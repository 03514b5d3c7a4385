"""What slices should say: hints and slice groups as decided, and labels."""

from fractions import Fraction

import pytest
from tests.builders.structs import DUAL_STACK, a_pod, a_service, hints, nodes_in
from tests.clusters import Cluster

from zoneward.kube import names
from zoneward.kube.objects import ContainerPort, Endpoint, Hints, ServicePort
from zoneward.routing.configuration import Configuration, SubsettingSettings
from zoneward.routing.demand import compute_demand
from zoneward.routing.zone_groups import ZoneGroup, own_group
from zoneward.slices.decide import decide
from zoneward.slices.desired import desired, mirrored_labels, slice_labels, slice_template
from zoneward.slices.endpoints import EndpointBuilder, ServiceEndpoints

SERVICE = a_service("Auto", families=DUAL_STACK, ports=[ServicePort(name="http", port=80, target_port="web")])
PLACES = (("a", 1, True), ("a", 2, False), ("b", 1, True), ("b", 2, True))
"""Zone, number of the named port, readiness: two groups by port, one endpoint of four not ready."""
SMALL = Configuration(subsetting=SubsettingSettings(starting_threshold=Fraction(1), padding=0))
TEMPLATE = slice_template(a_service(), address_type="IPv4", in_force="Hints/x", configuration=SMALL)


def desired_by_pod(
    mode: str | None = None, *, distribution: str | None = None, subsetting: str | None = None
) -> tuple[dict[str, Endpoint], dict[str, ZoneGroup | None]]:
    """The endpoints that slices get and their slice groups, by Pod."""
    service_endpoints = ServiceEndpoints(
        "IPv4",
        EndpointBuilder(SERVICE, node_zones={"node-a": "a", "node-b": "b"}),
        merge_addresses=True,
        count_without_ports=False,
    )
    for index, (zone, port, ready) in enumerate(PLACES):
        ports = [ContainerPort(name="web", container_port=port)]
        service_endpoints.add_pod(
            a_pod(f"p{index}", f"node-{zone}", ips=(f"10.0.0.{index}",), ready=ready, ports=ports), lambda _: None
        )
    decision = decide(
        a_service(mode, distribution=distribution, subsetting=subsetting),
        service_endpoints.index,
        demand=compute_demand(nodes_in({"a": 1, "b": 2})),
        in_force=None,
        configuration=SMALL,
    )
    assert decision.targets is not None
    slices = desired(TEMPLATE, decision.targets, service_endpoints, service_endpoints.by_identity.values())
    endpoints = {identity[2]: endpoint for slice_ in slices.values() for identity, endpoint in slice_.endpoints.items()}
    zones = {identity[2]: key[1] for key, slice_ in slices.items() for identity in slice_.endpoints}
    return endpoints, {pod: own_group(*group) if group else None for pod, group in zones.items()}


ALL = dict.fromkeys(("p0", "p1", "p2", "p3"))


@pytest.mark.parametrize(
    ("mode", "distribution", "expected"),
    [
        (None, None, ALL),
        ("Auto", None, {"p0": hints("a"), "p1": hints("a"), "p2": hints("b"), "p3": hints("b")}),
        (
            None,
            "PreferSameNode",
            {
                "p0": hints("a", nodes=["node-a"]),
                "p1": hints("a", nodes=["node-a"]),
                "p2": hints("b", nodes=["node-b"]),
                "p3": hints("b", nodes=["node-b"]),
            },
        ),
    ],
    ids=["none", "Auto", "PreferSameNode"],
)
def test_each_endpoint_gets_the_hints_that_were_decided_for_it(
    mode: str | None, distribution: str | None, expected: dict[str, Hints | None]
) -> None:
    endpoints, groups = desired_by_pod(mode, distribution=distribution)
    assert {name: endpoint.hints for name, endpoint in endpoints.items()} == expected
    assert groups == ALL


def test_each_endpoint_gets_the_slice_group_that_was_decided_for_it() -> None:
    """One that is not ready gets the group where it will be needed: zone b, which expects two thirds of four. The
    endpoints themselves have no hints.
    """
    endpoints, groups = desired_by_pod(subsetting="Auto")
    assert endpoints == desired_by_pod()[0]
    assert groups == {"p0": own_group("a"), "p1": own_group("b"), "p2": own_group("b"), "p3": own_group("b")}


OURS = {"kubernetes.io/service-name": "cart", "endpointslice.kubernetes.io/managed-by": "us"}


@pytest.mark.parametrize(("cluster_ip", "headless"), [("None", True), ("", False), (None, False), ("10.96.0.1", False)])
def test_a_headless_service_marks_its_slices(cluster_ip: str | None, headless: bool) -> None:
    service = a_service(cluster_ip=cluster_ip)
    assert slice_labels(service, manager="us") == {**OURS, **({names.HEADLESS_LABEL: ""} if headless else {})}


@pytest.mark.parametrize("label", names.RESERVED_SLICE_LABELS)
def test_a_reserved_label_on_the_service_is_not_mirrored(label: str) -> None:
    service = a_service(labels={label: "other", "team": "web"})
    assert slice_labels(service, manager="us") == {"team": "web", **OURS}
    assert mirrored_labels({label: "other", "team": "web"}) == {"team": "web"}


@pytest.mark.parametrize("cluster_ip", ["None", "", None])
def test_compat_upstream_takes_a_service_without_an_address_for_headless(cluster_ip: str | None) -> None:
    cluster = Cluster(
        service=a_service(cluster_ip=cluster_ip), nodes=nodes_in({"a": 1}), configuration=Configuration().as_upstream()
    )
    (slice_,) = cluster.plan().families[0].changes.create
    assert names.HEADLESS_LABEL in (slice_.metadata.labels or {})
