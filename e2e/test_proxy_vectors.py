"""The selection vectors end in the kernel: who answers on real sockets is who upstream's proxy selects.

What a case says of ``all_reachable`` is whom all traffic together reaches; ``has_any_endpoints`` shows where nobody is
selected (refused at once, or dropped where others have endpoints), as does ``only_remote_endpoints``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import msgspec
import pytest
from e2e.node_rules import NodeRules
from e2e.nodes import Bed, Namespace
from e2e.spread import check_spread
from tests.vectors.cases import SELECTION, Case, load
from tests.vectors.selecting import selectable, selected_service

from zoneward.kube.objects import EndpointPort, EndpointSlice, ObjectMeta, Service, ServicePort
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.model.node_service import ADDRESS_TYPES, NodeService, ProxyNode, node_services
from zoneward.proxy.ruleset.base_rules import RulesetOptions
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import CURRENT, LOCAL

VECTORS: Final = [case for case in load("categorize_endpoints.json") if case["kind"] == SELECTION]
RANDOM: Final = load("random_selection.json.gz")[::3]
_PORT, _TARGET = 80, 8080


@dataclass(frozen=True, slots=True)
class Placed:
    """A case with addresses of its own. ``names``: of its endpoints, by address."""

    case: Case
    family: Family
    protocol: str
    served: NodeService
    names: Mapping[str, str]

    def addresses(self, names: list[str]) -> set[str]:
        return {address for address, name in self.names.items() if name in names}


def placed(case: Case, number: int) -> Placed:
    """The family and the protocol take turns."""
    family, protocol = FAMILIES[number % 2], ("tcp", "udp")[number // 2 % 2]
    given = case["input"]
    node = given["node"]
    gate = given["switches"]["PreferSameTrafficDistribution"]
    names, endpoints = {}, []
    for place, each in enumerate(given["endpoints"], start=1):
        side = 1 if each["local"] else 2
        address = f"10.{side}.0.{place}" if family == "ip" else f"fd00:{side}::{place:x}"
        names[address] = each["id"]
        endpoints.append(msgspec.structs.replace(selectable(each, node=node["name"]), addresses=(address,)))
    ports = (EndpointPort(name="", protocol=protocol.upper(), port=_TARGET),)
    slices = [EndpointSlice(address_type=ADDRESS_TYPES[family], endpoints=tuple(endpoints), ports=ports)]
    (found,) = node_services(
        _service(given["service"], number, family, protocol),
        slices,
        node=ProxyNode(name=node["name"], zone=node["zone"]),
        consumer=CURRENT,
        gates=FeatureGates() if gate is None else FeatureGates(prefer_same_traffic_distribution=gate),
    )
    return Placed(case, family, protocol, found, names)


def _service(shape: Mapping[str, Any], number: int, family: Family, protocol: str) -> Service:
    service = selected_service(dict(shape))
    node_port = 30_000 + number if shape["node_port"] else None
    spec = msgspec.structs.replace(
        service.spec,
        type="NodePort" if node_port else "ClusterIP",
        cluster_ip=f"10.96.0.{number + 1}" if family == "ip" else f"fd96::{number + 1:x}",
        ports=(ServicePort(port=_PORT, protocol=protocol.upper(), node_port=node_port),),
        external_ips=service.spec.external_ips and (_outer(family, number),),
    )
    return msgspec.structs.replace(service, metadata=ObjectMeta(namespace="ns", name=f"case-{number}"), spec=spec)


def _outer(family: Family, number: int) -> str:
    return f"198.51.100.{number + 1}" if family == "ip" else f"2001:db8:e::{number + 1:x}"


class World:
    """A node with its rules, its Pod, and somebody outside."""

    def __init__(self, bed: Bed) -> None:
        self.node = bed.node("here", pods=("10.1.0.0/16", "fd00:1::/64"))
        bed.node("there", pods=("10.2.0.0/16", "fd00:2::/64"))
        self.pod = self.node.pod("10.1.200.1", "fd00:1::c8:1")
        self.outside = bed.outside()
        self.outside.route("198.51.100.0/24", "2001:db8:e::/64", via=self.node)
        self.cases = {each.case["id"]: each for each in map(placed, (*VECTORS, *RANDOM), count())}
        options = RulesetOptions(pod_cidrs={"ip": "10.1.0.0/16", "ip6": "fd00:1::/64"})
        with NodeRules(self.node, options=options) as rules:
            rules.serve(each.served for each in self.cases.values())


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with Bed() as bed:
        yield World(bed)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in (*VECTORS, *RANDOM)])
def test_who_answers_is_whom_upstreams_proxy_selects(world: World, case: Case) -> None:
    each, shape, expected = world.cases[case["id"]], case["input"]["service"], case["expected"]
    reached: set[str] = set()

    def check(client: Namespace, address: str, port: int, names: list[str] | None) -> None:
        assert names is not None
        meant = each.addresses(names)
        check_spread(
            client,
            address,
            port,
            protocol=each.protocol,
            shares=dict.fromkeys(meant, 1.0),
            refused=not expected["has_any_endpoints"],
        )
        reached.update(meant)

    internal_local = shape["internal_traffic_policy"] == LOCAL
    check(world.pod, each.served.cluster_ip, _PORT, expected["local" if internal_local else "cluster"])
    if shape["externally_accessible"]:
        node_port = each.served.ports[0].node_port
        here = world.node.addresses[each.family == "ip6"]
        address, port = (here, node_port) if node_port else (each.served.external_ips[0], _PORT)
        external_local = shape["external_traffic_policy"] == LOCAL
        check(world.outside, address, port, expected["local" if external_local else "cluster"])
        # What starts on the node heeds no external policy.
        for client in (world.node, world.pod):
            check(client, address, port, expected["cluster"])
    assert reached == each.addresses(expected["all_reachable"])
