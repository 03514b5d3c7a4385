"""Random clusters are worth something only if they reach every outcome."""

from collections import Counter
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.properties.random_clusters import BALANCED, SUBSETTING, clusters

from zoneward.routing.algorithms.heuristics import HEURISTICS
from zoneward.routing.request import Approach
from zoneward.routing.rules import Reason
from zoneward.slices.plan import ServicePlan

pytestmark = pytest.mark.slow

FIXED: Final = settings(
    max_examples=800,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
"""The same clusters each time: this is about what the strategy reaches, not about what holds."""


def test_every_outcome_is_reached() -> None:
    plans: list[ServicePlan] = []
    FIXED(given(clusters())(lambda cluster: plans.append(cluster.plan())))()
    settings(FIXED, max_examples=200)(
        given(clusters(setting=SUBSETTING, tidy=True))(lambda cluster: plans.append(cluster.plan()))
    )()
    decisions = [family.decision for plan in plans for family in plan.families]
    # Hardly any random cluster has Nodes at work in nine zones, which takes `TOO_MANY_ZONES`, or no sets of endpoints
    # that are worth it; none is being deleted, and none has an API server that drops hints.
    unmet = {
        Reason.ACCEPTED,
        Reason.NO_SELECTOR,
        Reason.TOO_MANY_ZONES,
        Reason.CLUSTER_WIDE_IS_BEST,
        Reason.BEING_DELETED,
        Reason.HINTS_NOT_STORED,
    }
    assert {decision.reason for decision in decisions} >= set(Reason) - unmet
    in_force = {decision.heuristic for decision in decisions if decision.active}
    assert in_force == set(HEURISTICS)
    assert {decision.approach for decision in decisions} == set(Approach)
    fates: Counter[str] = Counter()
    for plan in plans:
        for family in plan.families:
            changes = family.changes
            for fate in ("create", "update", "unchanged", "delete"):
                fates[fate] += len(getattr(changes, fate))
            fates["replaced"] += len(family.replaced)
            fates["others"] += len(family.others)
            fates["moved"] += family.decision.moved
        fates["events"] += len(plan.events)
    assert all(count >= 5 for count in fates.values()), fates
    assert len(fates) == 8


def test_hints_are_on_often_enough_where_only_numbers_stand_against_them() -> None:
    """Three in twenty at least: started and kept, and with endpoints that serve another zone."""
    seen: Counter[str] = Counter()

    def look(cluster_plan: ServicePlan) -> None:
        for family in cluster_plan.families:
            seen["all"] += 1
            seen["on"] += family.decision.active
            details = {rule.rule: rule.detail for rule in family.decision.rules}
            was_in_force = details.get("threshold-in-force", "").startswith("in force already")
            seen["kept"] += was_in_force and family.decision.active
            seen["lost"] += was_in_force and not family.decision.active
            seen["lent"] += bool(family.decision.allocation) and ", 0 another" not in details["placement"]

    half = settings(FIXED, max_examples=300)
    half(given(clusters(setting=BALANCED, tidy=True, others=False))(lambda cluster: look(cluster.plan())))()
    assert seen["on"] >= 0.15 * seen["all"], seen
    assert seen["kept"] >= 5, seen
    assert seen["lost"] >= 1, seen
    assert seen["lent"] >= 25, seen
