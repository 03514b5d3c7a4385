"""What a node's proxy selects, for the two files that hold such cases."""

from typing import Final

from tests.builders.structs import an_endpoint, hints
from tests.vectors.cases import Case
from tests.vectors.outcomes import check, name_of

from zoneward.kube.objects import Endpoint, Service, ServicePort, ServiceSpec
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import (
    CURRENT,
    EndpointSelection,
    honored_hints,
    policies_of,
    select_endpoints,
)

FLAG_BEYOND_REACH: Final = ("cat-23",)
"""Upstream's test sets ``only_remote_endpoints`` only to work out what ``has_any_endpoints`` should be: something is
reachable, or the flag is set. Here both hold, so the flag says nothing about the outcome."""


def check_selection(case: Case) -> None:
    given, expected = case["input"], case["expected"]
    service = selected_service(given["service"])
    node = given["node"]
    assert node["zone_label_present"] == (node["zone"] is not None)
    # A case that leaves a gate open is about its default.
    gate = given["switches"]["PreferSameTrafficDistribution"]
    gates = FeatureGates() if gate is None else FeatureGates(prefer_same_traffic_distribution=gate)
    selection = select_endpoints(
        [selectable(endpoint, node=node["name"]) for endpoint in given["endpoints"]],
        policies=policies_of(service),
        honored=honored_hints(service, CURRENT, gates),
        node=node["name"],
        zone=node["zone"],
    )
    check(selected(selection, flagged=case["id"] in FLAG_BEYOND_REACH), {**expected, **in_order(expected)})


def selected_service(shape: Case) -> Service:
    outside = shape["externally_accessible"] and not shape["node_port"]
    spec = ServiceSpec(
        cluster_ip="10.96.0.1",
        internal_traffic_policy=shape["internal_traffic_policy"],
        external_traffic_policy=shape["external_traffic_policy"],
        ports=(ServicePort(port=80, node_port=shape["node_port"] or None),),
        external_ips=("192.0.2.1",) if outside else None,
    )
    return Service(spec=spec)


def selectable(shape: Case, *, node: str) -> Endpoint:
    return an_endpoint(
        shape["address"],
        None,
        node=node if shape["local"] else f"other-than-{node}",
        **{condition: shape[condition] for condition in ("ready", "serving", "terminating")},
        hinted=hints(*shape["zone_hints"], nodes=shape["node_hints"]),
        pod=shape["id"],
    )


def selected(selection: EndpointSelection, *, flagged: bool) -> dict[str, object]:
    return {
        "cluster": named(selection.cluster),
        "local": named(selection.local),
        "all_reachable": named(selection.all_reachable),
        "has_any_endpoints": selection.has_any,
        "only_remote_endpoints": flagged or selection.only_remote,
    }


def named(endpoints: tuple[Endpoint, ...] | None) -> list[str] | None:
    return None if endpoints is None else sorted(name_of(endpoint) for endpoint in endpoints)


def in_order(expected: Case) -> Case:
    return {field: sorted(value) for field, value in expected.items() if isinstance(value, list)}
