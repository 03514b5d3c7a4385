"""KEP-2433 § Events: its six and subsetting's, each provoked by a change, told once, by the worse address family."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

import pytest
from msgspec.structs import replace
from tests.builders.structs import DUAL_STACK, a_node, a_pod, a_service, nodes_in, pods_in
from tests.clusters import Cluster
from tests.routing.proposal_rows import KEP_2433_EVENTS

from zoneward.kube.objects import PodIP, ServiceEvent
from zoneward.routing.algorithms.heuristics import PROPORTIONAL_ZONE_CPU
from zoneward.routing.configuration import Configuration, FeatureGates, HintsSettings, SubsettingSettings
from zoneward.routing.decision import Decision
from zoneward.routing.request.annotations import SHARE_EXPECTED
from zoneward.routing.request.approach import Approach
from zoneward.routing.rules import Reason
from zoneward.routing.service_events import events_of

NODES: Final = nodes_in({"a": 4, "b": 4})
PODS: Final = pods_in({"a": 2, "b": 2})
AUTO: Final = Cluster(service=a_service("Auto"), nodes=NODES, pods=PODS)
"""A cluster in which hints are on."""
MISSING_CPU_DISABLES: Final = Configuration(hints=HintsSettings(missing_cpu="disable"))

ENABLED: Final = ServiceEvent("Normal", "TopologyAwareRoutingEnabled", "Topology Aware Routing has been enabled")
REMOVED: Final = ServiceEvent(
    "Normal", "TopologyAwareRoutingDisabled", "Topology Aware Routing configuration was removed"
)


def disabled(message: str) -> ServiceEvent:
    return ServiceEvent("Warning", "TopologyAwareRoutingDisabled", message)


TOO_FEW: Final = "Insufficient number of Endpoints ({}), impossible to safely allocate proportionally"

CHANGES: Final[Mapping[str, tuple[Cluster, Cluster, ServiceEvent]]] = {
    "enabled": (AUTO.with_(service=a_service()), AUTO, ENABLED),
    "configuration_removed": (AUTO, AUTO.with_(service=a_service()), REMOVED),
    "too_few_endpoints": (AUTO, AUTO.with_(pods=PODS[:1]), disabled(TOO_FEW.format(1))),
    "endpoint_without_zone": (
        AUTO,
        # A Node that is not ready adds nothing to demand; its label is not needed there.
        AUTO.with_(
            nodes=(*NODES, a_node("node-new", None, ready=False)),
            pods=(*PODS, a_pod("new", "node-new", ips=("10.9.9.9",))),
        ),
        disabled("1 or more Endpoints do not have a Zone specified"),
    ),
    "node_without_cpu": (
        AUTO.with_(configuration=MISSING_CPU_DISABLES),
        AUTO.with_(configuration=MISSING_CPU_DISABLES, nodes=(*NODES, a_node("node-new", "a", cpu=None))),
        disabled("1 or more Nodes do not have allocatable CPU specified"),
    ),
    "nodes_ready_in_one_zone": (
        AUTO,
        AUTO.with_(nodes=(NODES[0], a_node("node-b", "b", ready=False))),
        disabled("Nodes only ready in 1 zone"),
    ),
}
"""What was, what is now, and the event that this change is worth, under the proposal's row."""


def becomes(before: Cluster, now: Cluster) -> Cluster:
    """The cluster as it is now, with what is remembered from before."""
    settled = before.settled()
    return now.with_(slices=settled.slices, service=replace(now.service, status=settled.service.status))


@pytest.mark.parametrize("row", CHANGES)
def test_a_change_is_told(row: str) -> None:
    """Exact type, reason and message."""
    before, now, event = CHANGES[row]
    assert becomes(before, now).plan().events == (event,)


@pytest.mark.parametrize("row", CHANGES)
def test_it_is_told_once(row: str) -> None:
    """With slices and conditions in place nothing is told again, before the change or after it."""
    before, now, _ = CHANGES[row]
    assert before.settled().plan().events == ()
    assert becomes(before, now).settled().plan().events == ()


@pytest.mark.parametrize("row", CHANGES)
def test_a_change_back_is_told_too(row: str) -> None:
    before, now, event = CHANGES[row]
    back = becomes(becomes(before, now), before).plan().events
    expected = {ENABLED: REMOVED, REMOVED: ENABLED}.get(event, ENABLED)
    # Where nothing was ever asked for before, the first event is what a change back starts from.
    assert back == (expected,)


def test_every_event_of_the_proposal_is_provoked() -> None:
    assert tuple((event.type, event.reason, row) for row, (_, _, event) in CHANGES.items()) == KEP_2433_EVENTS


# --- what is told beside the six --------------------------------------------------------------------------------------

NO_WORDS: Final[Mapping[str, tuple[Cluster, ServiceEvent]]] = {
    "a split exists, but above the threshold": (
        AUTO.with_(nodes=nodes_in({"a": 4, "b": 4, "c": 4}), pods=pods_in({"a": 2, "b": 2})),
        disabled(TOO_FEW.format(4)),
    ),
    "a Node without a zone": (
        AUTO.with_(nodes=(*NODES, a_node("node-new", None))),
        disabled("1 or more Nodes do not have a Zone specified"),
    ),
    "no Node is ready": (
        AUTO.with_(nodes=tuple(a_node(f"node-{zone}", zone, ready=False) for zone in "ab")),
        disabled("No Nodes are ready"),
    ),
    "the external policy": (
        AUTO.with_(service=a_service("Auto", external="Local", type_="LoadBalancer")),
        disabled("externalTrafficPolicy is Local"),
    ),
    "nobody is ready under PreferZone": (
        AUTO.with_(service=a_service("PreferZone"), pods=()),
        disabled("No Endpoints are ready"),
    ),
}


@pytest.mark.parametrize("what", NO_WORDS)
def test_what_the_proposal_has_no_words_for_is_told_once_too(what: str) -> None:
    cluster, event = NO_WORDS[what]
    assert cluster.plan().events == (event,)
    assert cluster.settled().plan().events == ()


def test_every_reason_that_voids_hints_has_words() -> None:
    """No decision that asks for hints in vain meets a reason without a message."""
    silent = {
        *(Reason.ENABLED, Reason.NOT_ASKED_FOR, Reason.ACCEPTED, Reason.UNKNOWN_VALUE, Reason.FEATURE_GATE_OFF),
        *(Reason.TOPOLOGY_KEYS, Reason.NO_SELECTOR),
    }
    # Only what asks for slice groups meets these, and their events have the decision's own words.
    of_subsetting = {
        Reason.BELOW_STARTING_THRESHOLD,
        Reason.HINTS_WITHOUT_WEIGHTS,
        Reason.TOO_MANY_ZONES,
        Reason.BEING_DELETED,
    }
    for reason in set(Reason) - silent - of_subsetting:
        (event,) = events_of(a_service("Auto"), {"IPv4": a_decision(reason)}, in_force={})
        assert (event.type, event.reason) == ("Warning", "TopologyAwareRoutingDisabled")
        assert event.message


def a_decision(reason: Reason) -> Decision:
    return Decision(
        approach=Approach.HINTS,
        heuristic=PROPORTIONAL_ZONE_CPU.name,
        active=False,
        reason=reason,
        message="",
        endpoints=0,
        allocation=None,
        rules=(),
        accepted=True,
        accepted_message="service.kubernetes.io/topology-mode: Auto",
    )


def test_another_reason_is_told_though_hints_were_off_before() -> None:
    before = AUTO.with_(pods=PODS[:1])
    now = becomes(before, AUTO.with_(nodes=NODES[:1]))
    assert now.plan().events == (disabled("Nodes only ready in 1 zone"),)


def test_another_number_of_endpoints_is_no_other_reason() -> None:
    cluster = AUTO.with_(nodes=nodes_in({"a": 4, "b": 4, "c": 4}), pods=pods_in({"a": 2}))
    assert becomes(cluster, cluster.with_(pods=pods_in({"a": 1}))).plan().events == ()


def test_a_move_to_traffic_distribution_is_a_removal() -> None:
    """Hints stay on, but by another setting; what it says is told in conditions alone."""
    now = AUTO.with_(service=a_service(distribution="PreferSameZone"))
    assert becomes(AUTO, now).plan().events == (REMOVED,)
    assert becomes(AUTO, now).settled().plan().events == ()


def test_a_move_to_subsetting_and_back_tells_of_both() -> None:
    below = AUTO.with_(service=a_service(subsetting="Auto"))
    for now, event in ((below, subsetting_disabled(BELOW)), (ON_SUBSETTING, SUBSETTING_ENABLED)):
        assert becomes(AUTO, now).plan().events == (REMOVED, event)
        assert becomes(AUTO, now).settled().plan().events == ()
        assert becomes(now, AUTO).plan().events == (SUBSETTING_REMOVED, ENABLED)


OVERRIDDEN: Final = "spec.topologyKeys is set and overrides every newer setting"
MISSPELT: Final = "service.kubernetes.io/topology-mode: 'Atuo' is not a known value"
STILL_THERE: Final[Mapping[str, tuple[Cluster, ServiceEvent]]] = {
    "the gate of hints is off": (
        AUTO.with_(configuration=Configuration(gates=FeatureGates(topology_aware_hints=False))),
        disabled("the feature gate TopologyAwareHints is off"),
    ),
    "misspelt": (AUTO.with_(service=a_service("Atuo")), disabled(MISSPELT)),
    "misspelt, beside a distribution that works": (
        AUTO.with_(service=a_service("Atuo", distribution="PreferSameZone")),
        disabled(MISSPELT),
    ),
    "topologyKeys": (AUTO.with_(service=a_service("Auto", keys=("*",))), disabled(OVERRIDDEN)),
}
"""What stops hints while the annotation is there, and what is told of it."""


@pytest.mark.parametrize("what", STILL_THERE)
def test_what_stops_hints_while_the_annotation_is_there_is_told_and_no_removal(what: str) -> None:
    now, event = STILL_THERE[what]
    assert becomes(AUTO, now).plan().events == (event,)
    assert becomes(AUTO, now).settled().plan().events == ()
    assert becomes(becomes(AUTO, now), AUTO).plan().events == (ENABLED,)


def test_subsetting_that_stops_while_the_annotation_is_there_is_told_and_no_removal() -> None:
    off = Configuration(gates=FeatureGates(topology_aware_subsetting=False))
    keys = a_service(subsetting="Auto", starting="0.5", keys=("*",))
    for now, message in (
        (ON_SUBSETTING.with_(configuration=off), "the feature gate TopologyAwareSubsetting is off"),
        (ON_SUBSETTING.with_(service=a_service(subsetting="Atuo")), SUBSETTING_MISSPELT),
        (ON_SUBSETTING.with_(service=keys), OVERRIDDEN),
    ):
        assert becomes(ON_SUBSETTING, now).plan().events == (subsetting_disabled(message),)
        assert becomes(ON_SUBSETTING, now).settled().plan().events == ()


def test_subsetting_beside_an_annotation_that_stays_is_no_removal() -> None:
    now = ON_SUBSETTING.with_(service=a_service("Auto", subsetting="Auto", starting="0.5"))
    message = "Subsetting/local is asked for too and wins: endpointslice.kubernetes.io/subsetting: Auto"
    overruled = ServiceEvent("Normal", "TopologyAwareRoutingDisabled", message)
    assert becomes(AUTO, now).plan().events == (overruled, SUBSETTING_ENABLED)
    assert becomes(AUTO, now).settled().plan().events == ()


@pytest.mark.parametrize("value", ["Disabled", "disabled", ""])
def test_an_annotation_that_says_disabled_is_a_removal(value: str) -> None:
    assert becomes(AUTO, AUTO.with_(service=a_service(value))).plan().events == (REMOVED,)
    assert becomes(AUTO, AUTO.with_(service=a_service("Auto", old=value))).plan().events == (REMOVED,)


@pytest.mark.parametrize("value", ["Disabled", "Disable", "Random", ""])
def test_a_subsetting_annotation_that_says_disabled_is_a_removal(value: str) -> None:
    now = ON_SUBSETTING.with_(service=a_service(subsetting=value))
    assert becomes(ON_SUBSETTING, now).plan().events == (SUBSETTING_REMOVED,)


# --- values that nobody knows -----------------------------------------------------------------------------------------

SUBSETTING_MISSPELT: Final = "endpointslice.kubernetes.io/subsetting: 'Atuo' is not a known value"


def unknown(message: str) -> ServiceEvent:
    return ServiceEvent("Warning", "TrafficDistributionNotAccepted", message)


UNKNOWN: Final[Mapping[str, tuple[Cluster, tuple[ServiceEvent, ...]]]] = {
    "hints": (AUTO.with_(service=a_service("Atuo")), (unknown(MISSPELT),)),
    "hints, beside a distribution that works": (
        AUTO.with_(service=a_service("Atuo", distribution="PreferSameZone")),
        (unknown(MISSPELT),),
    ),
    "the field": (
        AUTO.with_(service=a_service(distribution="PreferSame")),
        (unknown("'spec.trafficDistribution: PreferSame' is not a known value"),),
    ),
    "subsetting": (AUTO.with_(service=a_service(subsetting="Atuo")), (unknown(SUBSETTING_MISSPELT),)),
    "subsetting, beside hints that work": (
        AUTO.with_(service=a_service("Auto", subsetting="Atuo")),
        (ENABLED, unknown(SUBSETTING_MISSPELT)),
    ),
    "the threshold": (
        AUTO.with_(service=a_service("Auto", threshold="20")),
        (ENABLED, unknown(f"zoneward.dev/hints-threshold: '20' is not {SHARE_EXPECTED}, so 0.2 is used")),
    ),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_a_value_that_nobody_knows_is_told_once(what: str) -> None:
    cluster, events = UNKNOWN[what]
    assert becomes(AUTO.with_(service=a_service()), cluster).plan().events == events
    assert cluster.settled().plan().events == ()
    assert becomes(cluster, cluster.with_(pods=pods_in({"a": 4, "b": 4}))).plan().events == ()


def test_a_value_that_was_told_in_a_message_that_is_left_out_is_not_told_again() -> None:
    """As in an anonymized snapshot."""
    cluster = AUTO.with_(service=a_service("Atuo")).settled()
    status = cluster.service.status
    assert status is not None
    conditions = tuple(replace(each, message="") for each in status.conditions or ())
    service = replace(cluster.service, status=replace(status, conditions=conditions))
    assert cluster.with_(service=service).plan().events == ()


def test_hints_that_were_never_on_are_removed_all_the_same() -> None:
    """Who asked in vain and asks no more was told why not, and is told that this is over."""
    before = AUTO.with_(pods=PODS[:1])
    assert becomes(before, before.with_(service=a_service())).plan().events == (REMOVED,)


ON_SUBSETTING: Final = AUTO.with_(service=a_service(subsetting="Auto", starting="0.5"))
"""Half an endpoint a zone and the padding are four endpoints: subsetting is on."""
SUBSETTING_ENABLED: Final = ServiceEvent(
    "Normal", "TopologyAwareSubsettingEnabled", "Topology Aware Subsetting has been enabled"
)
SUBSETTING_REMOVED: Final = ServiceEvent(
    "Normal", "TopologyAwareSubsettingDisabled", "Topology Aware Subsetting configuration was removed"
)
BELOW: Final = "4 endpoints, starts at 3 x 2 zones + 3 = 9"


def subsetting_disabled(message: str) -> ServiceEvent:
    return ServiceEvent("Warning", "TopologyAwareSubsettingDisabled", message)


SUBSETTING: Final[Mapping[str, tuple[Cluster, Cluster, ServiceEvent]]] = {
    "asked for, and enough endpoints": (AUTO.with_(service=a_service()), ON_SUBSETTING, SUBSETTING_ENABLED),
    "no longer asked for": (ON_SUBSETTING, AUTO.with_(service=a_service()), SUBSETTING_REMOVED),
    "asked for in vain": (
        AUTO.with_(service=a_service()),
        AUTO.with_(service=a_service(subsetting="Auto")),
        subsetting_disabled(BELOW),
    ),
    "Require": (
        AUTO.with_(service=a_service()),
        AUTO.with_(service=a_service(subsetting="Require")),
        SUBSETTING_ENABLED,
    ),
}


@pytest.mark.parametrize("what", SUBSETTING)
def test_subsetting_is_told_of_once_each_way(what: str) -> None:
    before, now, event = SUBSETTING[what]
    assert becomes(before, now).plan().events == (event,)
    assert becomes(before, now).settled().plan().events == ()


def test_nothing_is_told_of_subsetting_by_default() -> None:
    """Nothing would remember that it was: such a Service has no condition."""
    for starting in (Fraction(1, 2), Fraction(3)):
        subsetting = SubsettingSettings(starting_threshold=starting)
        by_default = Configuration(default_approach="Subsetting", subsetting=subsetting)
        now = AUTO.with_(service=a_service(), configuration=by_default)
        assert now.plan().events == ()
        assert becomes(now, AUTO.with_(service=a_service())).plan().events == ()


def test_an_earlier_service_of_the_same_name_told_nothing_about_this_one() -> None:
    """Slices of a deleted Service may still be there when one of its name is made again."""
    earlier = AUTO.with_(service=a_service("Auto", uid="uid-of-an-earlier-one"))
    assert AUTO.with_(slices=earlier.settled().slices).plan().events == (ENABLED,)


# --- two address families ---------------------------------------------------------------------------------------------


def dual_stack(ipv6: Sequence[str]) -> Cluster:
    """Four Pods with IPv4 addresses of which some have IPv6 addresses as well."""
    pods = tuple(
        pod
        if pod.metadata.name in ipv6
        else replace(pod, status=replace(pod.status, pod_ips=(PodIP(ip=pod.status.pod_ip),)))
        for pod in pods_in({"a": 2, "b": 2}, dual_stack=True)
    )
    return Cluster(service=a_service("Auto", families=DUAL_STACK), nodes=NODES, pods=pods)


BOTH: Final = dual_stack(("a-0000", "a-0001", "b-0000", "b-0001"))
ONE: Final = dual_stack(("a-0000",))


def test_the_family_without_hints_speaks_for_the_service() -> None:
    plan = ONE.plan()
    assert [family.decision.active for family in plan.families] == [True, False]
    assert plan.worst_family == "IPv6"
    assert plan.events == (disabled(TOO_FEW.format(1)),)
    assert ONE.settled().plan().events == ()


def test_the_last_family_that_comes_on_is_told() -> None:
    """What was told last is that routing is disabled, though one family was on."""
    assert becomes(ONE, BOTH).plan().events == (ENABLED,)


NONE: Final = dual_stack(())


def test_a_family_without_endpoints_has_no_say_in_conditions_and_events() -> None:
    """A PreferDualStack Service whose Pods have IPv4 addresses alone."""
    plan = NONE.plan()
    assert [family.decision.active for family in plan.families] == [True, False]
    assert plan.worst_family == "IPv4"
    assert [(each.status, each.reason) for each in plan.conditions] == [("True", "Accepted"), ("True", "Enabled")]
    assert plan.events == (ENABLED,)
    assert NONE.settled().plan().events == ()
    wiped = without_conditions(NONE.settled())
    assert wiped.plan().events == ()


def test_a_family_that_loses_or_gains_its_endpoints_is_told_only_where_it_is_worse() -> None:
    assert becomes(BOTH, NONE).plan().events == ()
    assert becomes(NONE, BOTH).plan().events == ()
    assert becomes(NONE, ONE).plan().events == (disabled(TOO_FEW.format(1)),)
    assert becomes(ONE, NONE).plan().events == (ENABLED,)


def test_where_no_family_has_endpoints_the_reason_is_told() -> None:
    assert becomes(BOTH, BOTH.with_(pods=())).plan().events == (disabled(TOO_FEW.format(0)),)


def without_conditions(cluster: Cluster) -> Cluster:
    status = cluster.service.status
    assert status is not None
    return cluster.with_(service=replace(cluster.service, status=replace(status, conditions=None)))


def test_what_is_in_force_counts_where_conditions_are_lost() -> None:
    """Slices alone keep an event from being told twice: conditions may be wiped by whoever writes the status."""
    assert without_conditions(AUTO.settled()).plan().events == ()
