"""Connections reach the zones that `plan` predicts: three zones, each with a proxy, a client and its Pods.

Includes the proposals' tests that need a data plane, by name: KEP-2004's Traffic Reliability Test, and KEP-4444 § e2e
tests.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import pytest
from e2e.zones import Zones
from tests.contract.api import Object

from zoneward.kube.objects import Service
from zoneward.routing.what_if import WHAT_IF_VALUES

TIMES: Final = 400
"""Connections from each zone to each Service: the share over all Services is then off by 2 points once in ten million
runs."""
POINTS: Final = 0.02
_SIGMAS: Final = 6.0


@pytest.fixture(scope="module")
def zones(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zones]:
    with Zones(tmp_path_factory.mktemp("zones")) as zones:
        yield zones


def asked(zones: Zones) -> list[tuple[Object, Service]]:
    """IPv4 Services whose traffic is predicted and served everywhere, with their decisions."""
    services = []
    for decision in zones.decisions():
        service = zones.service(decision["namespace"], decision["service"])
        if service is None:
            # Of the API server.
            continue
        is_served = service.spec.selector and any(port.protocol == "TCP" for port in service.spec.ports or ())
        if decision["addressType"] == "IPv4" and is_served and decision.get("droppedTraffic") == 0.0:
            services.append((decision, service))
    return services


def tally(zones: Zones, zone: str, service: Service, *, times: int = TIMES) -> Counter[str]:
    """The addresses that answered a client in a zone."""
    port = next(port.port for port in service.spec.ports or () if port.protocol == "TCP")
    assert service.spec.cluster_ip is not None
    return zones.clients[zone].tally(service.spec.cluster_ip, port, times=times)


def in_zone_share(counted: Mapping[str, Counter[str]], where: Mapping[str, str], decision: Object) -> float:
    """The share of in-zone traffic, weighted by the zones' demand."""
    in_zone = {
        zone: sum(count for address, count in answers.items() if where[address] == zone)
        for zone, answers in counted.items()
    }
    demand: dict[str, float] = {zone: figures["demand"] for zone, figures in decision["zones"].items()}
    return sum(demand[zone] * in_zone[zone] / answers.total() for zone, answers in counted.items())


@pytest.mark.parametrize("value", WHAT_IF_VALUES)
def test_in_zone_share_is_as_predicted(zones: Zones, value: str) -> None:
    zones.ask_for(value)
    where, predicted, measured = zones.zones_of_endpoints(), [], []
    services = asked(zones)
    assert len(services) >= 10
    for decision, service in services:
        counted = {zone: tally(zones, zone, service) for zone in zones.nodes}
        share = in_zone_share(counted, where, decision)
        bound = _SIGMAS * (0.25 * sum(zone["demand"] ** 2 for zone in decision["zones"].values()) / TIMES) ** 0.5
        assert abs(share - decision["inZoneTraffic"]) < bound, decision["service"]
        predicted.append(decision["inZoneTraffic"])
        measured.append(share)
    assert abs(sum(measured) - sum(predicted)) / len(predicted) < POINTS


@pytest.mark.parametrize("value", ["local", "RequireZone"], ids=["Auto", "Require"])
def test_kep_2004_traffic_reliability_test(zones: Zones, value: str) -> None:
    """Above the starting threshold with padding all endpoints are reached, each from the zones that it serves."""
    zones.ask_for(value)
    routes = {zone: zones.route(zone) for zone in zones.nodes}
    reached = 0
    for decision, service in asked(zones):
        is_subset = decision["approach"] == "Subsetting" and decision["active"]
        if not is_subset or decision["endpoints"] > 60 or service.spec.internal_traffic_policy == "Local":
            continue
        answered = {zone: tally(zones, zone, service, times=40 * decision["endpoints"]) for zone in zones.nodes}
        for zone, counted in answered.items():
            assert set(counted) == cluster(routes[zone], decision), (decision["service"], zone)
        everybody = set().union(*answered.values())
        assert len(everybody) == decision["endpoints"], decision["service"]
        reached += 1
    assert reached >= 3


def test_kep_4444_zone_with_pods_is_served_by_them_and_one_without_is_not_blackholed(zones: Zones) -> None:
    zones.ask_for("PreferSameZone")
    where = zones.zones_of_endpoints()
    with_pods = without = 0
    for decision, service in asked(zones):
        located = {zone: figures["located"] for zone, figures in decision["zones"].items()}
        for zone in zones.nodes:
            answered = tally(zones, zone, service, times=60)
            assert answered.total() == 60
            from_zones = {where[address] for address in answered}
            if located[zone]:
                assert from_zones == {zone}, decision["service"]
                with_pods += 1
            else:
                assert from_zones <= {located_zone for located_zone, count in located.items() if count}
                without += 1
    assert with_pods
    assert without


def cluster(route: Object, decision: Object) -> set[str]:
    """Addresses of the endpoints that a node selects for all ports of a Service."""
    return {
        address.rpartition(":")[0]
        for port in route["ports"]
        if (port["namespace"], port["service"], port["addressType"])
        == (decision["namespace"], decision["service"], decision["addressType"])
        for address in port["cluster"] or ()
    }
