"""Totals are kept by Service and zones, within a bound that shows when it is reached."""

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from zoneward.kube.demand import MeasuredTraffic, ServiceTraffic, TrafficBytes
from zoneward.meter.traffic_totals import EXTERNAL, GONE_SERVICE_AGE, MAX_TOTALS_OF_SERVICE, TrafficRoute, TrafficTotals

SINCE: Final = datetime(2026, 3, 1, tzinfo=UTC)
CART: Final = TrafficRoute(("shop", "cart"), "ip", "a", "b")


def document(totals: TrafficTotals, *, complete: bool = True) -> MeasuredTraffic:
    return totals.document(node="n1", zone="a", until=SINCE + timedelta(hours=1), complete=complete)


def test_a_document_separates_traffic_from_the_node_and_from_outside() -> None:
    totals = TrafficTotals(since=SINCE)
    for from_zone, to_zone, connections in (("a", "a", 7), ("a", "b", 2), (EXTERNAL, "b", 3), ("", "b", 1)):
        total = totals.total(CART._replace(from_zone=from_zone, to_zone=to_zone))
        total.connections, total.request, total.response = connections, 10 * connections, 100 * connections
        total.has_bytes = True
    traffic = document(totals)
    assert (traffic.node, traffic.zone) == ("n1", "a")
    assert traffic.services == (
        ServiceTraffic(
            namespace="shop",
            service="cart",
            address_type="IPv4",
            # Flows from before the Node had a zone started on this node, too.
            zones={"a": 7, "b": 3},
            external={"b": 3},
            bytes={"a": TrafficBytes(70, 700), "b": TrafficBytes(30, 300)},
            external_bytes={"b": TrafficBytes(30, 300)},
        ),
    )
    assert msgspec.json.decode(msgspec.json.encode(traffic), type=MeasuredTraffic) == traffic


def test_without_counters_a_document_says_nothing_about_bytes() -> None:
    totals = TrafficTotals(since=SINCE)
    totals.total(CART).connections = 3
    (cart,) = document(totals).services
    assert cart.bytes is cart.external_bytes is msgspec.UNSET
    assert b'"bytes"' not in msgspec.json.encode(cart)


def test_beyond_the_limit_everything_goes_to_one_total_and_the_document_is_incomplete() -> None:
    totals = TrafficTotals(since=SINCE, limit=2)
    for index in range(5):
        totals.total(CART._replace(service=("spam", f"s{index}"))).connections += 1
    assert len(totals) == 2
    assert totals.unlisted.connections == 3
    assert document(TrafficTotals(since=SINCE)).complete
    assert not document(totals).complete


def test_a_service_whose_endpoints_name_many_zones_takes_no_room_from_others() -> None:
    totals = TrafficTotals(since=SINCE)
    for index in range(1000):
        totals.total(CART._replace(to_zone=f"zone-{index}")).connections += 1
    totals.total(CART._replace(service=("shop", "mail"))).connections += 1
    (cart, mail) = document(totals).services
    assert (len(cart.zones), sum(cart.zones.values())) == (MAX_TOTALS_OF_SERVICE + 1, 1000)
    assert cart.zones[""] == 1000 - MAX_TOTALS_OF_SERVICE
    assert mail.zones == {"b": 1}


def test_what_nothing_was_counted_of_is_not_shown() -> None:
    totals = TrafficTotals(since=SINCE)
    totals.total(CART)
    assert not list(totals.totals())


def test_totals_of_a_service_stay_for_a_while_after_it_is_gone() -> None:
    totals = TrafficTotals(since=SINCE)
    totals.total(CART).connections = 1
    totals.forget_services(lambda _: True, now=100.0)
    totals.forget_services(lambda _: False, now=200.0)
    # The Service came back in between, so its time starts again.
    totals.forget_services(lambda _: True, now=300.0)
    totals.forget_services(lambda _: True, now=299.0 + GONE_SERVICE_AGE)
    assert len(totals) == 1
    totals.forget_services(lambda _: True, now=300.0 + GONE_SERVICE_AGE)
    assert len(totals) == 0
