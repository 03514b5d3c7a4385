"""Conditions and events of a Service (KEP-4444 § Status Reporting, KEP-2433 § Events)."""

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, Final

import pytest
from msgspec.structs import replace
from tests.builders.structs import DUAL_STACK, a_node, a_pod, a_service, nodes_in, pods_in
from tests.clusters import Cluster, only_family

from zoneward.controller.status.status_writer import own_conditions, with_own_conditions
from zoneward.kube.objects import Pod, PodIP, Service, ServiceEvent
from zoneward.routing.algorithms.heuristics import PROPORTIONAL_ZONE_CPU
from zoneward.routing.configuration import Configuration, FeatureGates, SubsettingSettings
from zoneward.routing.decision import Decision
from zoneward.routing.request import SHARE_EXPECTED, Approach
from zoneward.routing.rules import Reason
from zoneward.routing.service_events import events_of, worst_family

# --- conditions -------------------------------------------------------------------------------------------------------


ACCEPTED: Final = "zoneward.dev/TrafficDistributionAccepted"
PROGRAMMED: Final = "zoneward.dev/TrafficDistributionProgrammed"


def a_cluster(service: Service, *, pods: int = 2) -> Cluster:
    return Cluster(service=service, nodes=nodes_in({"a": 4, "b": 4}), pods=pods_in({"a": pods, "b": pods}))


OVERRIDDEN: Final = "spec.topologyKeys is set and overrides every newer setting"
ON: Final = ("True", "Enabled")
CASES: Final[Mapping[str, tuple[Cluster, str, tuple[str, str]]]] = {
    "Auto, on": (a_cluster(a_service("Auto")), "Accepted", ON),
    "Auto, in vain": (a_cluster(a_service("Auto"), pods=0), "Accepted", ("False", "TooFewEndpoints")),
    "a distribution, on": (a_cluster(a_service(distribution="PreferClose")), "Accepted", ON),
    "an unknown value beside one that works": (
        *(a_cluster(a_service("Banana", distribution="PreferSameZone")), "UnknownValue", ON),
    ),
    "topologyKeys over a newer setting": (
        *(a_cluster(a_service("Auto", keys=("*",))), "TopologyKeys", ("False", "TopologyKeys")),
    ),
}
"""The reason of Accepted, and status and reason of Programmed."""


@pytest.mark.parametrize("what", CASES)
def test_conditions_say_what_was_understood_and_what_was_done(what: str) -> None:
    """In the words of the decision, which has its approach before them where it comes to one."""
    cluster, accepted_reason, programmed = CASES[what]
    plan = cluster.plan()
    decision = only_family(plan).decision
    done = f"{decision.approach}/{decision.heuristic}: {decision.message}" if decision.heuristic else OVERRIDDEN
    assert [(one.type, one.status, one.reason, one.message) for one in plan.conditions] == [
        (ACCEPTED, str(accepted_reason == "Accepted"), accepted_reason, decision.accepted_message),
        (PROGRAMMED, *programmed, done),
    ]


def test_a_service_that_asks_for_nothing_of_ours_has_no_conditions() -> None:
    """Nor does one that has no slices of Zoneward."""
    nothing = (a_service(), a_service("Disabled"), a_service(keys=("*",)))
    for service in (*nothing, a_service("Auto", type_="ExternalName"), a_service("Auto", selects=False)):
        assert a_cluster(service).plan().conditions == ()


def decision(mode: str | None, pods: tuple[Pod, ...]) -> Decision:
    cluster = Cluster(service=a_service(mode), nodes=nodes_in({"a": 1, "b": 1}), pods=pods)
    return only_family(cluster.plan()).decision


ONE_EACH = pods_in({"a": 1, "b": 1})
BY_SEVERITY = {
    "in force": decision("Auto", ONE_EACH),
    "nothing asked for": decision(None, ONE_EACH),
    "in vain": decision("Auto", ONE_EACH[:1]),
}
"""From best to worst."""
EMPTY = decision("Auto", ())
UNREADY = decision("Auto", (a_pod("starting", ready=False),))


def test_conditions_report_the_worst_family_and_of_equals_the_first() -> None:
    for (rank, first), (other, second) in product(enumerate(BY_SEVERITY.values()), repeat=2):
        worst = ("IPv6", second) if other > rank else ("IPv4", first)
        assert worst_family({"IPv4": first, "IPv6": second}) == worst


def test_a_family_without_endpoints_does_not_count_unless_no_family_has_any() -> None:
    for outcome in BY_SEVERITY.values():
        for families in ({"IPv4": EMPTY, "IPv6": outcome}, {"IPv6": outcome, "IPv4": EMPTY}):
            assert worst_family(families) == ("IPv6", outcome)
    assert worst_family({"IPv4": BY_SEVERITY["in force"], "IPv6": UNREADY}) == ("IPv6", UNREADY)
    assert worst_family({"IPv4": EMPTY, "IPv6": EMPTY}) == ("IPv4", EMPTY)
    assert worst_family({"IPv4": decision(None, ()), "IPv6": EMPTY}) == ("IPv6", EMPTY)


# --- events -----------------------------------------------------------------------------------------------------------


NODES: Final = nodes_in({"a": 4, "b": 4})
PODS: Final = pods_in({"a": 2, "b": 2})
AUTO: Final = Cluster(service=a_service("Auto"), nodes=NODES, pods=PODS)
"""A cluster in which hints are on."""
NOT_ASKED: Final = AUTO.with_(service=a_service())
FOUR_IN_THREE: Final = AUTO.with_(nodes=nodes_in({"a": 4, "b": 4, "c": 4}))
ON_SUBSETTING: Final = AUTO.with_(service=a_service(subsetting="Auto", starting="0.5"))
"""Half an endpoint a zone and the padding are four endpoints: subsetting is on."""

ENABLED: Final = ServiceEvent("Normal", "TopologyAwareRoutingEnabled", "Topology Aware Routing has been enabled")
REMOVED: Final = ServiceEvent(
    "Normal", "TopologyAwareRoutingDisabled", "Topology Aware Routing configuration was removed"
)
SUBSETTING_ENABLED: Final = ServiceEvent(
    "Normal", "TopologyAwareSubsettingEnabled", "Topology Aware Subsetting has been enabled"
)
SUBSETTING_REMOVED: Final = ServiceEvent(
    "Normal", "TopologyAwareSubsettingDisabled", "Topology Aware Subsetting configuration was removed"
)
OVERRULED: Final = ServiceEvent(
    "Normal",
    "TopologyAwareRoutingDisabled",
    "Subsetting/local is asked for too and wins: endpointslice.kubernetes.io/subsetting: Auto",
)


def disabled(message: str) -> ServiceEvent:
    return ServiceEvent("Warning", "TopologyAwareRoutingDisabled", message)


def subsetting_disabled(message: str) -> ServiceEvent:
    return ServiceEvent("Warning", "TopologyAwareSubsettingDisabled", message)


def unknown(message: str) -> ServiceEvent:
    return ServiceEvent("Warning", "TrafficDistributionNotAccepted", message)


def too_few(endpoints: int) -> ServiceEvent:
    return disabled(f"Insufficient number of Endpoints ({endpoints}), impossible to safely allocate proportionally")


def off(**gates: bool) -> Configuration:
    return Configuration(gates=FeatureGates(**gates))


def asking(mode: str | None = None, **settings: Any) -> Cluster:
    return AUTO.with_(service=a_service(mode, **settings))


def becomes(before: Cluster, now: Cluster) -> Cluster:
    """The cluster as it is now, with what is remembered from before."""
    settled = before.settled()
    service = with_own_conditions(now.service, own_conditions(settled.service))
    return now.with_(slices=settled.slices, service=service)


Change = tuple[Cluster, Cluster, *tuple[ServiceEvent, ...]]
"""What was, what is now, and the events that this change is worth."""

# --- other events than the six ----------------------------------------------------------------------------------------

MISSPELT: Final = "service.kubernetes.io/topology-mode: 'Atuo' is not a known value"
SUBSETTING_MISSPELT: Final = "endpointslice.kubernetes.io/subsetting: 'Atuo' is not a known value"
BELOW: Final = "4 endpoints, starts at 3 x 2 zones + 3 = 9"


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
NONE: Final = dual_stack(())

CONTROL_PLANE: Final = {"node-role.kubernetes.io/control-plane": ""}

CHANGES: Final[Mapping[str, Change]] = {
    # What the proposal has no words for.
    "a split exists, but above the threshold": (NOT_ASKED, FOUR_IN_THREE, too_few(4)),
    "a Node without a zone": (
        NOT_ASKED,
        AUTO.with_(nodes=(*NODES, a_node("node-new", None))),
        disabled("1 or more Nodes do not have a Zone specified"),
    ),
    "no Node is ready": (
        NOT_ASKED,
        AUTO.with_(nodes=tuple(a_node(f"node-{zone}", zone, ready=False) for zone in "ab")),
        disabled("No Nodes are ready"),
    ),
    "only control planes are ready": (
        NOT_ASKED,
        AUTO.with_(nodes=tuple(a_node(f"plane-{zone}", zone, labels=CONTROL_PLANE) for zone in "ab")),
        disabled("Only control plane Nodes are ready"),
    ),
    "the external policy": (
        NOT_ASKED,
        asking("Auto", external="Local", type_="LoadBalancer"),
        disabled("externalTrafficPolicy is Local"),
    ),
    "nobody is ready under PreferZone": (
        NOT_ASKED,
        asking("PreferZone").with_(pods=()),
        disabled("No Endpoints are ready"),
    ),
    "another reason though hints were off before": (
        AUTO.with_(pods=PODS[:1]),
        AUTO.with_(nodes=NODES[:1]),
        disabled("Nodes only ready in 1 zone"),
    ),
    "another number of endpoints is no other reason": (
        FOUR_IN_THREE.with_(pods=PODS[:2]),
        FOUR_IN_THREE.with_(pods=PODS[:1]),
    ),
    # What stops hints while the annotation is set is reported, and no removal; otherwise it is a removal.
    "the gate of hints is off": (
        AUTO,
        AUTO.with_(configuration=off(topology_aware_hints=False)),
        disabled("the feature gate TopologyAwareHints is off"),
    ),
    "misspelt": (AUTO, asking("Atuo"), disabled(MISSPELT)),
    "misspelt, beside a distribution that works": (
        AUTO,
        asking("Atuo", distribution="PreferSameZone"),
        disabled(MISSPELT),
    ),
    "topologyKeys": (AUTO, asking("Auto", keys=("*",)), disabled(OVERRIDDEN)),
    "Disabled": (AUTO, asking("Disabled"), REMOVED),
    "empty": (AUTO, asking(""), REMOVED),
    "Disabled in the old annotation": (AUTO, asking("Auto", old="Disabled"), REMOVED),
    "never on, and no longer asked for": (AUTO.with_(pods=PODS[:1]), NOT_ASKED, REMOVED),
    "hints by the field, which has conditions alone": (AUTO, asking(distribution="PreferSameZone"), REMOVED),
    # Subsetting.
    "subsetting starts": (NOT_ASKED, ON_SUBSETTING, SUBSETTING_ENABLED),
    "subsetting is no longer asked for": (ON_SUBSETTING, NOT_ASKED, SUBSETTING_REMOVED),
    "subsetting says Disabled": (ON_SUBSETTING, asking(subsetting="Disabled"), SUBSETTING_REMOVED),
    "subsetting says Random": (ON_SUBSETTING, asking(subsetting="Random"), SUBSETTING_REMOVED),
    "subsetting in vain": (NOT_ASKED, asking(subsetting="Auto"), subsetting_disabled(BELOW)),
    "Require": (NOT_ASKED, asking(subsetting="Require"), SUBSETTING_ENABLED),
    "the gate of subsetting is off": (
        ON_SUBSETTING,
        ON_SUBSETTING.with_(configuration=off(topology_aware_subsetting=False)),
        subsetting_disabled("the feature gate TopologyAwareSubsetting is off"),
    ),
    "subsetting misspelt": (ON_SUBSETTING, asking(subsetting="Atuo"), subsetting_disabled(SUBSETTING_MISSPELT)),
    "topologyKeys over subsetting": (
        ON_SUBSETTING,
        asking(subsetting="Auto", starting="0.5", keys=("*",)),
        subsetting_disabled(OVERRIDDEN),
    ),
    "from hints to subsetting": (AUTO, ON_SUBSETTING, REMOVED, SUBSETTING_ENABLED),
    "from hints to subsetting in vain": (AUTO, asking(subsetting="Auto"), REMOVED, subsetting_disabled(BELOW)),
    "from subsetting to hints": (ON_SUBSETTING, AUTO, SUBSETTING_REMOVED, ENABLED),
    "subsetting beside an annotation that stays": (
        AUTO,
        asking("Auto", subsetting="Auto", starting="0.5"),
        OVERRULED,
        SUBSETTING_ENABLED,
    ),
    # Values that nobody knows.
    "unknown": (NOT_ASKED, asking("Atuo"), unknown(MISSPELT)),
    "unknown, beside a distribution that works": (
        NOT_ASKED,
        asking("Atuo", distribution="PreferSameZone"),
        unknown(MISSPELT),
    ),
    "the field unknown": (
        NOT_ASKED,
        asking(distribution="PreferSame"),
        unknown("spec.trafficDistribution: 'PreferSame' is not a known value"),
    ),
    "subsetting unknown": (NOT_ASKED, asking(subsetting="Atuo"), unknown(SUBSETTING_MISSPELT)),
    "subsetting unknown, beside hints that work": (
        NOT_ASKED,
        asking("Auto", subsetting="Atuo"),
        ENABLED,
        unknown(SUBSETTING_MISSPELT),
    ),
    "the threshold unknown": (
        NOT_ASKED,
        asking("Auto", threshold="20"),
        ENABLED,
        unknown(f"zoneward.dev/hints-threshold: '20' is not {SHARE_EXPECTED}, so 0.2 is used"),
    ),
    "unknown before, and other Pods": (asking("Atuo"), asking("Atuo").with_(pods=pods_in({"a": 4, "b": 4}))),
    # Two address families: the worse one speaks, and one without endpoints has no say.
    "one family is without hints": (NOT_ASKED, ONE, too_few(1)),
    "the last family comes on": (ONE, BOTH, ENABLED),
    "one family is without endpoints": (NOT_ASKED, NONE, ENABLED),
    "a family loses its endpoints": (BOTH, NONE),
    "a family gains endpoints": (NONE, BOTH),
    "a family gains too few endpoints": (NONE, ONE, too_few(1)),
    "the worse family loses its endpoints": (ONE, NONE, ENABLED),
    "no family has endpoints": (BOTH, BOTH.with_(pods=()), too_few(0)),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_told_once(what: str) -> None:
    before, now, *events = CHANGES[what]
    assert becomes(before, now).plan().events == tuple(events)
    assert becomes(before, now).settled().plan().events == ()


def test_every_reason_that_voids_hints_has_words() -> None:
    silent = {
        *(Reason.ENABLED, Reason.NOT_ASKED_FOR, Reason.ACCEPTED, Reason.UNKNOWN_VALUE, Reason.FEATURE_GATE_OFF),
        *(Reason.TOPOLOGY_KEYS, Reason.NO_SELECTOR),
        # Only what asks for slice groups meets these, and their events have the decision's own words.
        *(Reason.BELOW_STARTING_THRESHOLD, Reason.HINTS_WITHOUT_WEIGHTS, Reason.TOO_MANY_ZONES, Reason.BEING_DELETED),
        # And only Balanced this one: so have its events.
        Reason.CLUSTER_WIDE_IS_BEST,
    }
    for reason in set(Reason) - silent:
        decision = Decision(
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
        (event,) = events_of(a_service("Auto"), {"IPv4": decision}, in_force={})
        assert (event.type, event.reason) == ("Warning", "TopologyAwareRoutingDisabled")
        assert event.message


def test_nothing_is_told_of_subsetting_by_default() -> None:
    for starting in (Fraction(1, 2), Fraction(3)):
        subsetting = SubsettingSettings(starting_threshold=starting)
        now = NOT_ASKED.with_(configuration=Configuration(default_approach="Subsetting", subsetting=subsetting))
        assert now.plan().events == ()
        assert becomes(now, NOT_ASKED).plan().events == ()


BY_DEFAULT: Final = Decision(
    approach=Approach.HINTS,
    heuristic="Balanced",
    active=True,
    reason=Reason.ENABLED,
    message="",
    endpoints=4,
    allocation=None,
    rules=(),
)
NOT_ASKED_FOR: Final = dataclasses.replace(
    BY_DEFAULT, approach=Approach.CLUSTER_WIDE, heuristic=None, active=False, reason=Reason.NOT_ASKED_FOR
)
REMOVED_TEXT: Final = "Topology Aware Routing configuration was removed"


@pytest.mark.parametrize(
    "in_force", [{}, {"IPv4": None}, {"IPv4": "Hints/Balanced"}], ids=["no slices", "none", "in force"]
)
@pytest.mark.parametrize("decision", [BY_DEFAULT, dataclasses.replace(BY_DEFAULT, active=False), NOT_ASKED_FOR])
def test_nothing_is_told_of_balanced_by_default(decision: Decision, in_force: dict[str, str | None]) -> None:
    assert events_of(a_service(), {"IPv4": decision}, in_force=in_force) == ()


def test_hints_that_no_default_gives_are_told_to_be_removed_where_conditions_are_lost() -> None:
    for in_force in ("Hints/ProportionalZoneCPU", "Hints/PreferZone"):
        for decision in (BY_DEFAULT, NOT_ASKED_FOR):
            (event,) = events_of(a_service(), {"IPv4": decision}, in_force={"IPv4": in_force})
            assert (event.reason, event.message) == ("TopologyAwareRoutingDisabled", REMOVED_TEXT)


def test_balanced_that_is_asked_for_and_in_force_is_not_told_again_where_conditions_are_lost() -> None:
    asked = dataclasses.replace(BY_DEFAULT, accepted=True)
    service = a_service("zoneward.dev/Balanced")
    assert events_of(service, {"IPv4": asked}, in_force={"IPv4": "Hints/Balanced"}) == ()
    assert events_of(service, {"IPv4": asked}, in_force={"IPv4": None}) == (ENABLED,)


def test_an_earlier_service_of_the_same_name_told_nothing_about_this_one() -> None:
    """Slices of a deleted Service may still be there when one of its name is made again."""
    earlier = AUTO.with_(service=a_service("Auto", uid="uid-of-an-earlier-one"))
    assert AUTO.with_(slices=earlier.settled().slices).plan().events == (ENABLED,)


# --- conditions that are lost -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cluster", [AUTO, NONE], ids=["one family", "two families"])
def test_what_is_in_force_counts_where_conditions_are_lost(cluster: Cluster) -> None:
    """Slices alone keep an event from being written twice: another client may remove conditions from the status."""
    cluster = cluster.settled()
    assert cluster.service.status is not None
    status = replace(cluster.service.status, conditions=None)
    assert cluster.with_(service=replace(cluster.service, status=status)).plan().events == ()


def test_a_value_that_was_told_in_a_message_that_is_left_out_is_not_told_again() -> None:
    cluster = AUTO.with_(service=a_service("Atuo")).settled()
    status = cluster.service.status
    assert status is not None
    conditions = tuple(replace(condition, message="") for condition in status.conditions or ())
    service = replace(cluster.service, status=replace(status, conditions=conditions))
    assert cluster.with_(service=service).plan().events == ()


def test_conditions_are_those_of_the_family_that_speaks() -> None:
    assert [family.decision.active for family in ONE.plan().families] == [True, False]
    assert (ONE.plan().worst_family, NONE.plan().worst_family) == ("IPv6", "IPv4")
    assert [condition.reason for condition in NONE.plan().conditions] == ["Accepted", "Enabled"]


def test_compat_upstream_reports_hints_that_the_api_server_does_not_store() -> None:
    cluster = AUTO.with_(configuration=replace(Configuration().as_upstream(), stored_hints="none"))
    (event,) = cluster.plan().events
    assert (event.reason, "does not store hints" in event.message) == ("TopologyAwareHintsDisabled", True)
