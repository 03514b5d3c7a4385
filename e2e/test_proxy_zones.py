"""Where connections go is where `plan` says that they will: three zones, each with a proxy, a client and its Pods.

The rows of the proposals that need a data plane are here by their names: KEP-2004's Traffic Reliability Test, and
KEP-4444 § e2e tests.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import pytest
from e2e.zones import Zones
from tests.contract.api import Object

from zoneward.kube.objects import Service
from zoneward.routing.request.what_if import WHAT_IF_VALUES

TIMES: Final = 400
"""Connections from each zone to each Service: a share of all Services together is then off by 2 points once in ten
million times."""
POINTS: Final = 0.02
_SIGMAS: Final = 6.0


@pytest.fixture(scope="module")
def zones(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zones]:
    with Zones(tmp_path_factory.mktemp("zones")) as found:
        yield found


def asked(zones: Zones) -> list[tuple[Object, Service]]:
    """Services of IPv4 whose traffic is predicted and served everywhere, with what `plan` says of them."""
    found = []
    for decision in zones.decisions():
        service = zones.service(decision["namespace"], decision["service"])
        if service is None:
            # The API server's own.
            continue
        is_served = service.spec.selector and any(port.protocol == "TCP" for port in service.spec.ports or ())
        if decision["addressType"] == "IPv4" and is_served and decision.get("droppedTraffic") == 0.0:
            found.append((decision, service))
    return found


def tally(zones: Zones, zone: str, service: Service, *, times: int = TIMES) -> Counter[str]:
    """Who answered a client in a zone."""
    port = next(port.port for port in service.spec.ports or () if port.protocol == "TCP")
    assert service.spec.cluster_ip is not None
    return zones.clients[zone].tally(service.spec.cluster_ip, port, times=times)


def in_zone(counted: Mapping[str, Counter[str]], where: Mapping[str, str], decision: Object) -> float:
    """The share that stays in its zone, of the traffic that zones are expected to start."""
    stayed = {zone: sum(some[each] for each in some if where[each] == zone) for zone, some in counted.items()}
    demand: dict[str, float] = {zone: each["demand"] for zone, each in decision["zones"].items()}
    return sum(demand[zone] * stayed[zone] / some.total() for zone, some in counted.items())


@pytest.mark.parametrize("value", WHAT_IF_VALUES)
def test_the_share_that_stays_in_its_zone_is_as_predicted(zones: Zones, value: str) -> None:
    zones.ask_for(value)
    where, predicted, measured = zones.zones_of_endpoints(), [], []
    some = asked(zones)
    assert len(some) >= 10
    for decision, service in some:
        counted = {zone: tally(zones, zone, service) for zone in zones.nodes}
        share = in_zone(counted, where, decision)
        bound = _SIGMAS * (0.25 * sum(zone["demand"] ** 2 for zone in decision["zones"].values()) / TIMES) ** 0.5
        assert abs(share - decision["inZoneTraffic"]) < bound, decision["service"]
        predicted.append(decision["inZoneTraffic"])
        measured.append(share)
    assert abs(sum(measured) - sum(predicted)) / len(predicted) < POINTS


@pytest.mark.parametrize("value", ["local", "RequireZone"], ids=["Auto", "Require"])
def test_kep_2004_traffic_reliability_test(zones: Zones, value: str) -> None:
    """Above the starting threshold with padding all endpoints are reached, each from the zones that it is there for."""
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


def test_kep_4444_a_zone_with_pods_is_served_by_them_and_one_without_is_not_blackholed(zones: Zones) -> None:
    zones.ask_for("PreferSameZone")
    where = zones.zones_of_endpoints()
    with_pods = without = 0
    for decision, service in asked(zones):
        located = {zone: each["located"] for zone, each in decision["zones"].items()}
        for zone in zones.nodes:
            answered = tally(zones, zone, service, times=60)
            assert answered.total() == 60
            from_zones = {where[address] for address in answered}
            if located[zone]:
                assert from_zones == {zone}, decision["service"]
                with_pods += 1
            else:
                assert from_zones <= {each for each, number in located.items() if number}
                without += 1
    assert with_pods
    assert without


def test_what_the_proxies_counted_is_what_clients_saw_and_stands_beside_the_prediction(zones: Zones) -> None:
    zones.ask_for("none")
    where = zones.zones_of_endpoints()
    decision, service = next(each for each in asked(zones) if each[0]["service"] == "cart")
    before = zones.measured()
    seen = {zone: tally(zones, zone, service, times=150) for zone in zones.nodes}
    after = zones.measured()
    for zone, answered in seen.items():
        by_zone = Counter(where[address] for address in answered.elements())
        assert counted(after[zone], decision) - counted(before[zone], decision) == by_zone
        assert (after[zone]["node"], after[zone]["zone"]) == (zones.nodes[zone], zone)
    beside = next(each for each in zones.decisions_measured(after.values()) if each["service"] == "cart")
    every = sum((counted(each, decision) for each in after.values()), Counter[str]())
    stayed = sum(counted(each, decision)[zone] for zone, each in after.items())
    assert beside["measured"]["connections"] == every.total()
    assert beside["measured"]["inZone"] == pytest.approx(stayed / every.total(), abs=1e-5)


def counted(document: Object, decision: Object) -> Counter[str]:
    """Connections to a Service's own address, by the zone that they went to."""
    key = decision["namespace"], decision["service"], decision["addressType"]
    for service in document["services"]:
        if (service["namespace"], service["service"], service["addressType"]) == key:
            return Counter(service["zones"])
    return Counter()


def cluster(route: Object, decision: Object) -> set[str]:
    """Addresses of the endpoints that a node sends to, over the ports of a Service."""
    return {
        address.rpartition(":")[0]
        for port in route["ports"]
        if (port["namespace"], port["service"], port["addressType"])
        == (decision["namespace"], decision["service"], decision["addressType"])
        for address in port["cluster"] or ()
    }
