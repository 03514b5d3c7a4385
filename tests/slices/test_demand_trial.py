"""A trial says what the pipeline would do with another demand, and changes nothing by itself."""

from collections.abc import Mapping
from fractions import Fraction

import pytest
from tests.builders.structs import a_service, nodes_in, pods_in
from tests.clusters import Cluster, demand_in

from zoneward.kube.names import DEMAND_ANNOTATION
from zoneward.kube.zone_weights import ZoneWeights
from zoneward.routing.configuration import Configuration
from zoneward.routing.what_if import as_if_requested
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.demand_trial import DemandTrial, OutcomeMeasures, TrialOutcome, depends_on_demand, measure_weights

KEY = ("shop", "cart")
MARGIN = Fraction(1, 10)


def parts(**percent: int) -> dict[str, Fraction]:
    return {zone: Fraction(part, 100) for zone, part in percent.items()}


EVEN, SKEWED = parts(a=34, b=33, c=33), parts(a=60, b=20, c=20)


def in_force(approach: str, supply: Mapping[str, int] | None = None) -> Cluster:
    """A cluster whose slices are those of even demand."""
    service = as_if_requested(a_service(), approach, Configuration())
    pods = pods_in(supply or {"a": 4, "b": 4, "c": 4})
    return Cluster(service=service, nodes=nodes_in({"a": 4, "b": 4, "c": 4}), pods=pods).settled().settled()


def a_trial(cluster: Cluster, *expected: Mapping[str, Fraction] | None) -> DemandTrial:
    return DemandTrial(
        cluster.service,
        pods=cluster.pods,
        slices=cluster.slices,
        cluster_state=cluster.cluster_state,
        expected=expected,
    )


@pytest.mark.parametrize("approach", ["ProportionalZoneCPU", "Balanced", "local"])
def test_demand_that_overloads_what_is_in_force_is_worth_a_change_that_ends_it(approach: str) -> None:
    trial = a_trial(in_force(approach), SKEWED)
    assert trial.may_change(MARGIN)
    outcome = trial.outcome(SKEWED)
    assert outcome.moves
    assert outcome.excess > 0 > outcome.new_excess
    assert outcome.is_worth(MARGIN)


@pytest.mark.parametrize("approach", ["ProportionalZoneCPU", "Balanced", "local"])
def test_demand_by_which_what_is_in_force_holds_changes_nothing(approach: str) -> None:
    near = parts(a=36, b=33, c=31)
    trial = a_trial(in_force(approach), near)
    assert not trial.may_change(MARGIN)
    assert not trial.outcome(near).is_worth(MARGIN)


def test_a_decision_has_to_hold_by_all_that_is_expected() -> None:
    cluster = in_force("ProportionalZoneCPU")
    both = a_trial(cluster, EVEN, SKEWED).outcome(SKEWED)
    assert both.excess == a_trial(cluster, SKEWED).outcome(SKEWED).excess
    assert both.new_excess == a_trial(cluster, EVEN).outcome(SKEWED).new_excess > 0
    assert both.gain == a_trial(cluster, SKEWED).outcome(SKEWED).gain


def test_traffic_that_can_stay_in_its_zone_is_worth_more_than_a_margin() -> None:
    # By CPU there are too few endpoints in a for hints.
    cluster = in_force("ProportionalZoneCPU", {"a": 1, "b": 2, "c": 2})
    assert not cluster.plan().families[0].decision.active
    demand = parts(a=20, b=40, c=40)
    outcome = a_trial(cluster, demand).outcome(demand)
    assert outcome.moves
    assert outcome.gain == pytest.approx(1 - 0.36)
    assert outcome.is_worth(Fraction(1, 2))
    assert not outcome.is_worth(Fraction(7, 10))


def test_the_demand_in_force_is_that_of_the_state_and_none_is_the_clusters() -> None:
    cluster = in_force("ProportionalZoneCPU")
    state = cluster.cluster_state
    skewed = ClusterState(
        demand=state.demand,
        node_zones=state.node_zones,
        configuration=state.configuration,
        service_parts={KEY: SKEWED},
    )
    trial = DemandTrial(
        cluster.service, pods=cluster.pods, slices=cluster.slices, cluster_state=skewed, expected=(None,)
    )
    assert trial.outcome(None).moves
    assert not trial.outcome(SKEWED).moves
    assert trial.outcome(SKEWED).excess > 0, "so few endpoints for b and c are too few for even demand"


def test_without_ready_endpoints_nothing_moves() -> None:
    cluster = in_force("Balanced").with_(pods=())
    trial = a_trial(cluster, SKEWED)
    assert not trial.may_change(MARGIN)
    assert not trial.outcome(SKEWED).moves


def test_only_approaches_that_balance_load_depend_on_demand() -> None:
    state = in_force("Balanced").cluster_state
    upstream = ClusterState(
        demand=state.demand, node_zones=state.node_zones, configuration=Configuration().as_upstream()
    )
    for approach, depends in {
        "ProportionalZoneCPU": True,
        "Balanced": True,
        "local-opt": True,
        "PreferSameZone": False,
        "PreferSameNode": False,
        "RequireZone": False,
        "none": False,
    }.items():
        service = as_if_requested(a_service(), approach, Configuration())
        assert depends_on_demand(service, state) is depends
        assert not depends_on_demand(service, upstream)
    assert not depends_on_demand(a_service("Auto", annotations={DEMAND_ANNOTATION: "a=1"}), state)
    assert not depends_on_demand(a_service("Auto", selects=False), state)


@pytest.mark.parametrize(
    ("outcome", "worth"),
    [
        (TrialOutcome(moves=False, excess=1.0, new_excess=-0.1, gain=1.0), False),
        (TrialOutcome(moves=True, excess=0.2, new_excess=0.1, gain=-0.5), True),
        (TrialOutcome(moves=True, excess=0.2, new_excess=0.2, gain=0.5), False),
        (TrialOutcome(moves=True, excess=-0.1, new_excess=-0.1, gain=0.11), True),
        (TrialOutcome(moves=True, excess=-0.1, new_excess=0.0, gain=0.5), False),
        (TrialOutcome(moves=True, excess=-0.1, new_excess=-0.2, gain=0.09), False),
    ],
)
def test_a_change_is_worth_it_against_overload_or_for_more_than_the_margin(outcome: TrialOutcome, worth: bool) -> None:
    assert outcome.is_worth(MARGIN) is worth


def test_what_weights_do_with_another_demand_is_measured_and_a_zone_without_any_uses_all() -> None:
    weights = ZoneWeights({"a": {"a": 0.75, "b": 0.25}, "b": {"b": 1.0}}, {"a": 2, "b": 2})
    assert measure_weights(weights, demand_in(a=2, b=1)).in_zone == pytest.approx(0.5 + 1 / 3)
    assert measure_weights(weights, demand_in(a=1, b=3)) == OutcomeMeasures(0.9375, 0.625)
    assert measure_weights(weights, demand_in(c=1)) == OutcomeMeasures(0.0, 0.0)
    assert measure_weights(ZoneWeights({}, {}), demand_in(a=1)) == OutcomeMeasures(0.0, 0.0)
