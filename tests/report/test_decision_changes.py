"""Changes of decisions as lines: for scripts, and for a log."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from msgspec.structs import replace

from zoneward.advice.decisions import DecidedZone, DecisionDocument, SliceCounts
from zoneward.report.decision_changes import DecisionChange, change_json, change_text
from zoneward.routing.rules import Rule

NOW = datetime(2026, 6, 1, 12, 0, 0, 123_456, tzinfo=UTC)
CART = DecisionDocument(
    namespace="shop",
    service="cart",
    address_type="IPv4",
    approach="Hints",
    heuristic="ProportionalZoneCPU",
    active=True,
    reason="no zone is more than 5 % above",
    reason_code="Enabled",
    endpoints=6,
    zones={"a": DecidedZone(demand=1.0, located=6, consumed=6, expected=6.0, overload=0.0)},
    allocation={"a": {"a": 6}},
    groups=None,
    weights=None,
    in_zone_traffic=0.97,
    dropped_traffic=0.0,
    max_overload=0.05,
    mean_overload=0.01,
    moved=0,
    now=None,
    slices=SliceCounts(create=0, update=0, delete=0, unchanged=2),
    replaced_slices=(),
    other_slices=(),
    rules=(),
    events=(),
    conditions=(),
)


def test_json_line_has_type_time_and_decision() -> None:
    later = NOW.astimezone(timezone(timedelta(hours=2)))
    line = change_json(DecisionChange(None, CART), now=later)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    document = json.loads(line)
    assert [*document] == ["type", "time", "decision"]
    assert (document["type"], document["time"]) == ("ADDED", "2026-06-01T12:00:00.123Z")
    assert document["decision"]["inZoneTraffic"] == 0.97


REASON = "no zone is more than 5 % above"
ZONES = {"b": DecidedZone(demand=1.0, located=6, consumed=6, expected=6.0, overload=0.0)}


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (CART, None, "gone shop/cart"),
        (replace(CART, address_type="IPv6"), None, "gone shop/cart IPv6"),
        (
            None,
            CART,
            f"new shop/cart: endpoints 6, in zone 97%, worst +5%, slices =2, active: {REASON}",
        ),
        (
            CART,
            replace(CART, endpoints=7, in_zone_traffic=0.855, max_overload=0.1),
            "changed shop/cart: endpoints 6 > 7, in zone 97% > 86%, worst +5% > +10%",
        ),
        (CART, replace(CART, dropped_traffic=0.25), "changed shop/cart: dropped 0% > 25%"),
        (CART, replace(CART, in_zone_traffic=None), "changed shop/cart: in zone 97% > -"),
        (
            CART,
            replace(CART, slices=SliceCounts(create=1, update=2, delete=3, unchanged=0)),
            "changed shop/cart: slices =2 > +1 ~2 -3",
        ),
        (CART, replace(CART, active=False, reason="too few"), "changed shop/cart: not active: too few"),
        (CART, replace(CART, zones=ZONES), "changed shop/cart: endpoints in other zones"),
        (CART, replace(CART, moved=2, rules=(Rule("a", True, "b"),)), "changed shop/cart: other moved, other rules"),
    ],
    ids=["gone", "gone IPv6", "new", "numbers", "dropped", "unknown", "slices", "reason", "zones", "the rest"],
)
def test_log_line_names_the_differences(old: DecisionDocument | None, new: DecisionDocument | None, text: str) -> None:
    assert change_text(DecisionChange(old, new), now=NOW) == f"2026-06-01 12:00:00 {text}"
