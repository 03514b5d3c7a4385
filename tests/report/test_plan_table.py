"""Tables of plans: the content of a line, and that it fits; and what decisions say as JSON."""

import dataclasses
import re
from typing import Any

import msgspec
from msgspec.structs import replace
from tests.builders.structs import a_node, a_pod, a_service, nodes_in, pods_in
from tests.clusters import Cluster

from zoneward.advice.decisions import decisions_document
from zoneward.kube.objects import ServicePort
from zoneward.kube.zone_weights import ZoneWeights
from zoneward.report.plan_table import plan_parts
from zoneward.report.terminal_text import render_text


def lines_of(cluster: Cluster, *, width: int = 100, wide: bool = False) -> list[str]:
    demand = cluster.cluster_state.demand
    parts = plan_parts([cluster.plan()], demand=demand, configuration=cluster.configuration, wide=wide)
    return render_text(parts.for_terminal(width), color=False, width=width).splitlines()


def cluster_in(zones: str, setting: str | None = "Auto") -> Cluster:
    return Cluster(
        service=a_service(setting) if setting else a_service(),
        nodes=nodes_in(dict.fromkeys(zones, 4)),
        pods=pods_in(dict.fromkeys(zones, 2)),
    )


def test_every_zone_has_a_column() -> None:
    heading, header, _, line, *_ = lines_of(cluster_in("abc"))
    assert heading == "Demand: a 33%  b 33%  c 33%  (CPU of 3 ready nodes)"
    assert header.split()[:4] == ["SERVICE", "a", "b", "c"]
    assert re.fullmatch(r"shop/cart\s+2>2\s+2>2\s+2>2\s+100%\s+\+0%\s+\+1\s+zones by their CPU", line)


def test_zone_names_are_shortened_by_their_common_prefix() -> None:
    cluster = Cluster(
        service=a_service("Auto"),
        nodes=nodes_in({"eu-west-1a": 4, "eu-west-1b": 4}),
        pods=pods_in({"eu-west-1a": 2, "eu-west-1b": 2}),
    )
    lines = lines_of(cluster)
    assert lines[0].startswith("Demand: a = eu-west-1a 50%  b = eu-west-1b 50%")
    assert lines[1].split()[1:3] == ["a", "b"]


def test_table_without_ready_nodes_has_no_demand() -> None:
    lines = lines_of(cluster_in("ab").with_(nodes=()))
    assert lines[0] == "No ready Node in a zone: nothing is known about where traffic starts."


def test_wide_table_has_the_whole_reason() -> None:
    cluster = cluster_in("abc")
    few = cluster.with_(pods=cluster.pods[:2])
    assert any(line.endswith("all zones: 2 for 3 zones") for line in lines_of(few))
    assert any("2 endpoints for 3 zones: fewer than one each" in line for line in lines_of(few, width=200, wide=True))


def test_endpoint_without_zone_limits_same_node() -> None:
    cluster = cluster_in("ab").with_(service=a_service(distribution="PreferSameNode"))
    assert any(line.endswith("its own node, else zone") for line in lines_of(cluster))
    lost = cluster.with_(
        nodes=(*cluster.nodes, a_node("node-x", None)), pods=(*cluster.pods, a_pod("lost", "node-x", ips=("10.9.9.9",)))
    )
    assert any(line.endswith("its own node, else all") for line in lines_of(lost))
    assert any(
        "1 endpoint without zone (lost) voids zone hints" in line for line in lines_of(lost, width=250, wide=True)
    )


def test_a_long_service_name_stays_within_the_width() -> None:
    service = a_service("Auto")
    long = replace(service, metadata=replace(service.metadata, name="cart-" + "x" * 40))
    assert max(map(len, lines_of(cluster_in("abc").with_(service=long)))) <= 100


def test_service_without_endpoints_serves_nothing() -> None:
    """Ten zones with a tenth of the traffic each: ten times 0.1 is not 1."""
    cluster = cluster_in("abcdefghij", None).with_(pods=())
    (line,) = (line for line in lines_of(cluster) if "shop/cart" in line)
    assert line.split()[1:3] == ["-", "-"]
    assert line.endswith("nowhere: no endpoint")


def test_missing_target_port_is_shown() -> None:
    service = a_service("Auto", ports=[ServicePort(name="http", port=80, target_port="web")])
    (line,) = (line for line in lines_of(cluster_in("abc").with_(service=service)) if "shop/cart" in line)
    assert line.endswith("nowhere: no container port is called 'web'")


def test_unserved_port_is_shown() -> None:
    ports = [ServicePort(name="http", port=80, target_port=8080), ServicePort(name="grpc", port=81, target_port="grpc")]
    lines = lines_of(cluster_in("abc", None).with_(service=a_service(ports=ports)), width=160)
    (line,) = (line for line in lines if "shop/cart" in line)
    assert line.endswith("all zones: nothing asked for; grpc: no container port is called 'grpc'")


def test_headless_service_shows_that_clients_choose() -> None:
    for service in (a_service(cluster_ip="None"), a_service("Auto", cluster_ip="None")):
        (line,) = (line for line in lines_of(cluster_in("abc").with_(service=service)) if "shop/cart" in line)
        assert line.endswith("clients choose: headless")


def decision_with(weights: ZoneWeights | None) -> dict[str, Any]:
    """The JSON of a Service whose decision has these weights."""
    cluster = Cluster(service=a_service("Auto"), nodes=nodes_in({"a": 4, "b": 4}), pods=pods_in({"a": 2, "b": 2}))
    plan = cluster.plan()
    families = [
        dataclasses.replace(family, decision=dataclasses.replace(family.decision, weights=weights))
        for family in plan.families
    ]
    document = decisions_document([dataclasses.replace(plan, families=tuple(families))])
    (decision,) = msgspec.json.decode(msgspec.json.encode(document))["decisions"]
    assert isinstance(decision, dict)
    return decision


def test_weights_are_shares_by_zone_or_null() -> None:
    weights = ZoneWeights({"b": {"b": 2 / 3, "a": 1 / 3}, "a": {"a": 1.0}}, {"a": 2, "b": 2})
    weights_shown = decision_with(weights)["weights"]
    assert weights_shown == {"a": {"a": 1.0}, "b": {"a": 0.333333, "b": 0.666667}}
    assert [*weights_shown["b"]] == ["a", "b"]
    assert decision_with(None)["weights"] is None
