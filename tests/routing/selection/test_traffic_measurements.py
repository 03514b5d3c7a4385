"""What nodes counted, taken together, and held against a prediction."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from zoneward.kube.demand import MeasuredTraffic, ServiceTraffic
from zoneward.routing.selection.expected_traffic import ExpectedTraffic, ExpectedZoneTraffic
from zoneward.routing.selection.traffic_measurements import (
    ServiceMeasurement,
    TrafficMeasurements,
    combine_measurements,
    predicted_in_zone_share,
)

START = datetime(2026, 3, 1, tzinfo=UTC)


def counted(
    node: str,
    zone: str | None,
    to: Mapping[str, int],
    *,
    external: Mapping[str, int] | None = None,
    since: datetime = START,
    hours: int = 1,
    complete: bool = True,
) -> MeasuredTraffic:
    service = ServiceTraffic(
        namespace="shop", service="cart", address_type="IPv4", zones=dict(to), external=dict(external or {})
    )
    until = since + timedelta(hours=hours)
    return MeasuredTraffic(node=node, zone=zone, since=since, until=until, services=(service,), complete=complete)


def together(*documents: MeasuredTraffic) -> tuple[TrafficMeasurements, ServiceMeasurement]:
    measurements = combine_measurements(documents)
    assert measurements is not None
    cart = measurements.of("shop", "cart", "IPv4")
    assert cart is not None
    return measurements, cart


def test_the_share_is_of_connections_whichever_zone_they_come_from() -> None:
    _, cart = together(counted("n1", "a", {"a": 90, "b": 10}), counted("n2", "b", {"a": 5, "b": 5}))
    assert (cart.connections, cart.share) == (110, 95 / 110)
    assert {zone: measured.share for zone, measured in cart.zones.items()} == {"a": 0.9, "b": 0.5}


def test_of_one_life_of_a_proxy_the_last_document_counts_and_several_lives_add_up() -> None:
    early, late = counted("n1", "a", {"a": 1}), counted("n1", "a", {"a": 10}, hours=2)
    other = counted("n1", "a", {"a": 100}, since=START + timedelta(days=1))
    for order in ((early, late, other), (other, late, early)):
        assert together(*order)[1].connections == 110


def test_nothing_stays_in_a_zone_that_nobody_knows() -> None:
    _, cart = together(counted("n1", None, {"": 3, "a": 4}), counted("n2", "a", {"": 5, "a": 5}))
    assert (cart.connections, cart.share) == (17, 5 / 17)


def test_external_connections_are_in_no_share() -> None:
    _, cart = together(counted("n1", "a", {"a": 1}, external={"b": 50, "a": 2}))
    assert (cart.connections, cart.share, cart.external) == (1, 1.0, 52)


def test_what_was_not_counted_is_told() -> None:
    measurements, _ = together(counted("n1", "a", {}, complete=False), counted("n2", "b", {}))
    assert measurements.missing(["a", "b", "c"]) == ("c",)
    assert measurements.incomplete == {"n1"}
    assert measurements.of("shop", "cart", "IPv6") is None
    assert combine_measurements([]) is None


def test_a_prediction_is_made_for_traffic_that_starts_as_it_did() -> None:
    _, cart = together(counted("n1", "a", {"a": 30}), counted("n2", "b", {"a": 10}), counted("n3", "x", {"x": 7}))
    zones = {
        "a": ExpectedZoneTraffic(0.5, 2, 2, 1.0, 0.0, in_zone=1.0),
        "b": ExpectedZoneTraffic(0.5, 0, 2, 1.0, 0.0, in_zone=0.0),
        "c": ExpectedZoneTraffic(0.0, 0, 0, 0.0, None),
    }
    traffic = ExpectedTraffic(zones, (), 0.5, 1.0, 0.0, 0.0, 0.0)
    assert predicted_in_zone_share(cart, traffic) == pytest.approx(0.75)
    _, elsewhere = together(counted("n3", "x", {"x": 7}))
    assert predicted_in_zone_share(elsewhere, traffic) is None
