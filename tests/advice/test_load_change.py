"""Loads after a change of the cluster against those before."""

import pytest
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.clusters import Cluster

from zoneward.advice.load_change import LoadChange, load_change, plans_before

NODES = nodes_in({"a": 4, "b": 4})


def _change(before: Cluster, after: Cluster) -> LoadChange | None:
    (family,) = after.plan().families
    return load_change(family, plans_before([before.plan()]))


def test_the_busiest_endpoints_are_compared_and_each_endpoint_with_itself() -> None:
    before = Cluster(service=a_service("PreferZone"), nodes=NODES, pods=pods_in({"a": 1, "b": 5}))
    after = before.with_(pods=pods_in({"a": 2, "b": 4}))
    result = _change(before, after)
    assert result is not None
    assert (result.before, result.after, result.change) == pytest.approx((0.5, 0.25, -0.5))
    assert result.highest_rise == pytest.approx(5 / 4 - 1), "in zone b, where four endpoints do the work of five"


def test_with_fewer_pods_each_takes_more_though_none_is_above_fair() -> None:
    before = Cluster(service=a_service(), nodes=NODES, pods=pods_in({"a": 4, "b": 4}))
    after = before.with_(pods=pods_in({"a": 1, "b": 1}))
    result = _change(before, after)
    assert result is not None
    assert result.change == pytest.approx(3)
    (family,) = after.plan().families
    assert family.traffic is not None
    assert family.traffic.max_overload == 0


def test_where_no_endpoint_is_the_same_only_the_busiest_are_compared() -> None:
    before = Cluster(service=a_service(), nodes=NODES, pods=pods_in({"a": 1}))
    result = _change(before, before.with_(pods=pods_in({"b": 2})))
    assert result is not None
    assert (result.change, result.highest_rise) == (-0.5, None)


def test_without_endpoints_or_the_service_before_there_is_nothing_to_compare() -> None:
    cluster = Cluster(service=a_service(), nodes=NODES, pods=pods_in({"a": 1}))
    none = cluster.with_(pods=())
    assert _change(none, cluster) is None
    assert _change(cluster, none) is None
    assert _change(cluster.with_(service=a_service(name="other")), cluster) is None
    assert _change(cluster.with_(nodes=()), cluster) is None
