"""Decisions as JSON: what a document says of a plan."""

import dataclasses
from typing import Any

import msgspec
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.clusters import Cluster

from zoneward.advice.decisions import decisions_document
from zoneward.kube.zone_weights import ZoneWeights


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
