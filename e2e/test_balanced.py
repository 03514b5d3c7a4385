"""Small Services with ``Balanced``: connections reach the endpoints that `plan` predicts, through kube-proxies with
hints, and through Zoneward's proxies with weights; also after endpoints leave and return.

Each of three zones has two nodes, with a proxy of either kind. The controller writes to a real API server.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Final

import pytest
from e2e.chances import check_spread
from e2e.control_plane import ControlPlane
from e2e.controllers import ZonewardController, command_json, decisions, to_write
from e2e.door import Door
from e2e.kube_proxy import KubeProxy
from e2e.nodes import Bed, Namespace
from e2e.pods import Shop
from e2e.proxies import ZonewardProxy
from e2e.recording import Recording
from tests.builders.objects import SERVICE_NAME, a_namespace, a_node, a_pod, a_service
from tests.contract.api import Object

NAMESPACE: Final = "balanced"
ZONES: Final = "abc"
SPREADS: Final = {"two": (1, 1, 0), "three": (2, 1, 0), "four": (2, 1, 1), "five": (4, 1, 0), "eight": (5, 2, 1)}
"""By Service, its endpoints in each zone."""
LEAVING: Final = {"three": "a", "four": "a", "five": "a", "eight": "b"}
"""By Service, the zone in which one endpoint leaves; `Balanced` is active before and after."""
BALANCED: Final = {"service.kubernetes.io/topology-mode": "zoneward.dev/Balanced"}
APPROACH: Final = "zoneward.dev/approach"
KUBE, ZONEWARD = "current", "zoneward"
"""Consumers: kinds of proxies, as `--consumer` names them."""
_MOST_ZONES: Final = 8
"""Hints that the API takes for one endpoint."""
_DEFAULT_OVERLOAD: Final = 0.2
_VERSIONS: Final = 40
"""Of slices, while endpoints come and go."""
Place = tuple[str, str]
"""A kind of proxy and a zone."""
Shares = dict[str, dict[str, float]]
"""By Service, the shares of the addresses that its connections go to."""


def node_name(node: Place) -> str:
    return "-".join(node)


def pod_name(service: str, zone: str, index: int) -> str:
    return f"{service}-{zone}-{index}"


def pod_address(service: str, zone: str, index: int) -> str:
    return f"10.{ZONES.index(zone) + 1}.{list(SPREADS).index(service)}.{index + 1}"


def zone_of(address: str) -> str:
    return ZONES[int(address.split(".")[1]) - 1]


def addresses(service: str) -> list[str]:
    spread = zip(ZONES, SPREADS[service], strict=True)
    return [pod_address(service, zone, index) for zone, count in spread for index in range(count)]


def last_pod(service: str) -> tuple[str, str]:
    """Name and address of the endpoint that leaves."""
    zone = LEAVING[service]
    last = SPREADS[service][ZONES.index(zone)] - 1
    return pod_name(service, zone, last), pod_address(service, zone, last)


def pods() -> Iterator[Object]:
    for name, spread in SPREADS.items():
        for zone, count in zip(ZONES, spread, strict=True):
            for index in range(count):
                ips, node = [pod_address(name, zone, index)], node_name((KUBE, zone))
                yield a_pod(pod_name(name, zone, index), namespace=NAMESPACE, node=node, ips=ips, labels={"app": name})


def service(name: str) -> Object:
    return a_service(name, namespace=NAMESPACE, selector={"app": name}, annotations=BALANCED)


@dataclass(frozen=True, slots=True)
class Cluster:
    """``kube`` and ``zoneward`` are the proxies by zone, ``clients`` a Pod beside each of them to ask from."""

    plane: ControlPlane
    shop: Shop
    services: Mapping[str, str]
    clients: Mapping[Place, Namespace]
    kube: Mapping[str, KubeProxy]
    zoneward: Mapping[str, ZonewardProxy]

    def check_traffic(self) -> dict[Place, Shares]:
        """Wait until everything is as planned, and check that connections are spread as predicted; the prediction."""
        self.plane.wait_until(lambda: to_write(self.plane, "-n", NAMESPACE) == {}, what="Zoneward's slices")
        predicted = {node: self._predicted(node) for node in self.clients}
        for node, shares in predicted.items():
            self.plane.wait_until(partial(self._serves, node, shares), what=f"the proxy of {node_name(node)}")
            for service, address in self.services.items():
                check_spread(self.clients[node], address, 80, shares=shares[service])
        return predicted

    def _predicted(self, node: Place) -> Shares:
        flags = ("--node", node_name(node), "--consumer", node[0])
        return selected(command_json(self.plane.kubeconfig(), "route", "-n", NAMESPACE, *flags))

    def _serves(self, node: Place, shares: Shares) -> bool:
        """Whether the kernel of a node has these endpoints, and Zoneward's these weights."""
        kind, zone = node
        if kind == KUBE:
            return {name: shares[name].keys() for name in SPREADS} == {
                name: {endpoint.rpartition(":")[0] for endpoint in endpoints}
                for name, endpoints in self.kube[zone].programmed(NAMESPACE).items()
                if name in SPREADS
            }
        proxy = self.zoneward[zone]
        if proxy.get("/readyz")[0] != 200:
            return False
        # In this order: what is selected waits for the kernel then.
        is_selected = selected(json.loads(proxy.get("/debug/selection")[1])) == shares
        return is_selected and not proxy.metric("zoneward_proxy_waiting_seconds")


def selected(route: Object) -> Shares:
    """The shares in the output of `zoneward route`, or of a proxy."""
    seen: Shares = {}
    for port in route["ports"]:
        if port["namespace"] == NAMESPACE and port["service"] in SPREADS:
            cluster = [endpoint.rpartition(":")[0] for endpoint in port["cluster"]]
            weights = port.get("weights") or [1.0] * len(cluster)
            seen[port["service"]] = {
                endpoint: weight / sum(weights) for endpoint, weight in zip(cluster, weights, strict=True)
            }
    return seen


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("balanced")
    with ExitStack() as running:
        plane, bed = running.enter_context(ControlPlane()), running.enter_context(Bed())
        api = plane.api()
        ranges = {owner: f"10.{index}" for index, owner in enumerate(product((KUBE, ZONEWARD), ZONES), start=1)}
        nodes = {owner: bed.node(node_name(owner), pods=[f"{prefix}.0.0/16"]) for owner, prefix in ranges.items()}
        known = (a_node(node.name, zone=owner[1], address=node.addresses[0]) for owner, node in nodes.items())
        api.create_all([a_namespace(NAMESPACE), *known, *pods()])
        created = [api.create(service(name)) for name in SPREADS]
        running.enter_context(ZonewardController(plane))
        zoneward = {}
        for zone in ZONES:
            node = nodes[ZONEWARD, zone]
            running.enter_context(Door(node.path, plane.ports.server))
            zoneward[zone] = running.enter_context(ZonewardProxy(node, plane.kubeconfig(), folder))
            zoneward[zone].start(wait=False)
        kube = {zone: KubeProxy(plane, node=nodes[KUBE, zone].name, network=nodes[KUBE, zone]) for zone in ZONES}
        yield Cluster(
            plane,
            Shop(api, NAMESPACE),
            services={
                created_service["metadata"]["name"]: created_service["spec"]["clusterIP"] for created_service in created
            },
            clients={owner: node.pod(f"{ranges[owner]}.250.1") for owner, node in nodes.items()},
            kube={zone: running.enter_context(proxy) for zone, proxy in kube.items()},
            zoneward=zoneward,
        )


def zones_of_ready(version: Object) -> list[set[str]]:
    """The zones in the hints of each ready endpoint of a slice."""
    return [
        {hint["name"] for hint in (endpoint.get("hints") or {}).get("forZones") or ()}
        for endpoint in version["endpoints"]
        if endpoint["conditions"]["ready"]
    ]


def check_hints(versions: Iterable[Object]) -> None:
    """`Balanced` is in force: ready endpoints have hints that the API accepts, and serve all zones."""
    for version in versions:
        assert all(0 < len(zones) <= _MOST_ZONES for zones in zones_of_ready(version)), version
        assert set().union(*zones_of_ready(version)) == set(ZONES), version
        assert version["metadata"]["annotations"][APPROACH] == "Hints/Balanced", version


def check_prediction(decision: Object, shares: Mapping[str, Mapping[str, float]]) -> None:
    """The figures of `plan` follow from the shares of each zone's connections."""
    load: Counter[str] = Counter()
    in_zone = 0.0
    for zone, predicted in shares.items():
        demand = decision["zones"][zone]["demand"]
        for address, share in predicted.items():
            load[address] += demand * share
            in_zone += demand * share * (zone_of(address) == zone)
    assert decision["inZoneTraffic"] == pytest.approx(in_zone, abs=1e-4)
    assert decision["maxOverload"] == pytest.approx(max(load.values()) * decision["endpoints"] - 1, abs=1e-4)


def test_connections_reach_the_endpoints_that_plan_predicts(cluster: Cluster) -> None:
    predicted = cluster.check_traffic()
    for name in SPREADS:
        (written,) = cluster.shop.slices(name)
        assert sorted(address for endpoint in written["endpoints"] for address in endpoint["addresses"]) == addresses(
            name
        )
        check_hints([written])
    for kind in (KUBE, ZONEWARD):
        decided = decisions(cluster.plane, "-n", NAMESPACE, "--consumer", kind)
        assert {planned["service"] for planned in decided} == SPREADS.keys()
        for decision in decided:
            assert decision["active"]
            assert decision["maxOverload"] <= _DEFAULT_OVERLOAD
            check_prediction(decision, {zone: predicted[kind, zone][decision["service"]] for zone in ZONES})
    # Weights and hints give different shares.
    for name in ("four", "five", "eight"):
        assert any(predicted[KUBE, zone][name] != predicted[ZONEWARD, zone][name] for zone in ZONES)


def test_every_ready_endpoint_has_hints_while_endpoints_change(cluster: Cluster) -> None:
    leaving = {name: last_pod(name) for name in LEAVING}
    steady = {name: set(addresses(name)) - {leaving[name][1]} for name in LEAVING}
    with Recording(cluster.plane.api(), NAMESPACE, LEAVING, steady=steady) as recording:
        for is_ready in (False, True):
            for pod, _ in leaving.values():
                cluster.shop.make_ready(pod, is_ready)
            predicted = cluster.check_traffic()
            for node, (name, (_, address)) in product(predicted, leaving.items()):
                assert is_ready or address not in predicted[node][name]
            for name, (_, address) in leaving.items():
                assert is_ready == any(address in shares[name] for shares in predicted.values())
        with cluster.shop.flipping(*(pod for pod, _ in leaving.values())):
            cluster.plane.wait_until(lambda: len(recording.versions()) >= _VERSIONS, what="versions of slices")
    versions = [version for version in recording.versions() if version["metadata"]["labels"][SERVICE_NAME] in LEAVING]
    check_hints(versions)
    assert recording.missing == []
    for name in LEAVING:
        assert recording.writes[name] >= 4
        assert len(cluster.shop.slices(name)) == 1
