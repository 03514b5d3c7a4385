"""A decision: what a Service gets in one address family, and every rule that led there; and, while it is made, what it
depends on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from zoneward.kube import names
from zoneward.kube.objects import Service
from zoneward.kube.zone_weights import ZoneWeights
from zoneward.routing.algorithms.heuristics import Heuristic
from zoneward.routing.allocation import Allocation, Zones
from zoneward.routing.configuration import Configuration, HintsSettings, compatibility_of
from zoneward.routing.demand import Demand
from zoneward.routing.endpoint_index import Bucket, EndpointIndex, IndexedEndpoint, count_and_first_names
from zoneward.routing.phrases import counted, describe_without
from zoneward.routing.placement import Target, Targets, hint_target
from zoneward.routing.request import Approach, RequestedApproach, check_demand, requested_approach, with_problem
from zoneward.routing.rules import Reason, Rule, RuleLog


@dataclass(frozen=True, slots=True)
class ZoneRange:
    """How many endpoints upstream wants hinted to a zone (``--compat=upstream``)."""

    minimum: int
    maximum: int
    desired: float


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Approach, allocation and reason for one Service and address family.

    ``allocation`` has the number of endpoints for each zone, or None where the decision is not active; ``targets`` has
    what each endpoint gets. ``endpoints`` counts the ready endpoints, ``has_endpoints`` says whether there are
    any, ready or not, and ``moved`` counts those that now serve other zones than before. ``ranges`` are upstream's
    bounds per zone, only where `zoneward.slices.upstream` has to set the hints. ``weights`` are for proxies that
    weigh zones, beside the hints. ``hints_settings`` are the settings that hints were balanced by. ``is_suspended``: it
    is not active only until something about Nodes or endpoints is known.
    ``beside_subsetting``: the hints stay while subsetting, which is requested too, is not active. ``deciding`` is the
    index of the rule that decided: the one that refused, or the last one that had to pass.
    """

    approach: Approach
    heuristic: str | None
    active: bool
    reason: Reason
    message: str
    endpoints: int
    allocation: Allocation | None
    rules: tuple[Rule, ...]
    deciding: int | None = None
    moved: int = 0
    accepted: bool | None = None
    accepted_reason: Reason = Reason.ACCEPTED
    accepted_message: str = ""
    ranges: dict[str, ZoneRange] | None = None
    weights: ZoneWeights | None = None
    has_endpoints: bool = True
    beside_subsetting: bool = False
    hints_settings: HintsSettings | None = None
    is_suspended: bool = False
    targets: Targets | None = field(default=None, compare=False, repr=False)

    @property
    def asked_for(self) -> str | None:
        """``<approach>/<heuristic>`` that the Service asks for, in force or not; None where it asks for none."""
        return f"{self.approach}/{self.heuristic}" if self.heuristic else None

    @property
    def in_force(self) -> str | None:
        """``<approach>/<heuristic>`` that is in force, or None where nothing is."""
        return self.asked_for if self.active else None

    @property
    def remembered(self) -> str | None:
        """What slices remember about it: what is in force, or was before it was suspended."""
        return f"{names.SUSPENDED_PREFIX}{self.asked_for}" if self.is_suspended else self.in_force

    @property
    def has_slice_groups(self) -> bool:
        """Whether zones have separate EndpointSlices, instead of hints."""
        return self.targets is not None and self.targets.encoding == "slice-groups"

    def has_same_outcome(self, other: "Decision") -> bool:
        """Whether slices need no change between two decisions about the same endpoints, and the reason is the same."""
        own, others = (
            (
                *(decision.active, decision.reason, decision.remembered, decision.weights, decision.ranges),
                decision.targets and decision.targets.values,
            )
            for decision in (self, other)
        )
        return own == others


# --- while it is made -------------------------------------------------------------------------------------------------


_SUSPENDING: Final = frozenset(
    (
        Reason.NODE_WITHOUT_ZONE,
        Reason.NODE_WITHOUT_CPU,
        Reason.NO_READY_NODES,
        Reason.ONLY_CONTROL_PLANES,
        Reason.ENDPOINT_WITHOUT_ZONE,
    )
)
"""Reasons that say nothing about the Service: what was in force comes back by the threshold that keeps it."""


class DecisionContext:
    """One Service in one address family, for the functions that decide.

    ``ready_count`` is the number of ready endpoints, each address once; ``in_force`` is the approach that the existing
    slices were written for, ``<approach>/<heuristic>`` or None. ``slice_groups_read``: whether any proxy of the cluster
    may read slice groups; while that is not known (None), only those in force stay.
    """

    def __init__(
        self,
        service: Service,
        endpoint_index: EndpointIndex,
        demand: Demand,
        in_force: str | None,
        configuration: Configuration,
        *,
        slice_groups_read: bool | None = True,
    ) -> None:
        self.service = service
        self.endpoint_index = endpoint_index
        self.ready_count = endpoint_index.ready_count
        self.demand = demand
        self.in_force = in_force
        self.configuration = configuration
        self.compatibility = compatibility_of(configuration)
        self.rules = RuleLog()
        if slice_groups_read is None:
            slice_groups_read = (in_force or "").startswith(f"{Approach.SUBSETTING}/")
        self.request = self._read_request(slice_groups_read)
        self.hints = self.request.hints or configuration.hints
        self.beside_subsetting = False

    def use_hints_instead(self, refused: Decision) -> bool:
        """Whether hints are requested beside subsetting, which was ``refused``: then they are what is requested."""
        if self.request.instead is None:
            return False
        self.request = self.request.instead
        self.hints = self.request.hints or self.configuration.hints
        self.beside_subsetting = True
        assert self.request.heuristic is not None
        name = self.request.heuristic.name
        self.rules.record("hints-instead", True, f"subsetting is not active ({refused.message}): {name} stays")
        return True

    def is_in_force(self, heuristic: Heuristic) -> bool:
        """Whether the existing slices were written for the same approach and heuristic."""
        return self.in_force == f"{self.request.approach}/{heuristic.name}"

    def was_suspended(self, heuristic: Heuristic) -> bool:
        """Whether it was in force until something about Nodes or endpoints was unknown."""
        return self.in_force == f"{names.SUSPENDED_PREFIX}{self.request.approach}/{heuristic.name}"

    def _read_request(self, slice_groups_read: bool) -> RequestedApproach:
        request = requested_approach(self.service, self.configuration, self.rules, slice_groups_read=slice_groups_read)
        if request.heuristic is None or not self.compatibility.reads_own_settings:
            return request
        problem = check_demand(self.service, self.demand, self.rules)
        if problem is None:
            return request
        instead = request.instead and with_problem(request.instead, Reason.UNKNOWN_VALUE, problem)
        return replace(with_problem(request, Reason.UNKNOWN_VALUE, problem), instead=instead)

    # --- rules of several approaches: the refusal where one is not met, or None ---------------------------------------

    def check_external_policy(self) -> Decision | None:
        """Endpoints may not serve other zones where traffic from outside stays on their node."""
        policy = self.service.spec.external_traffic_policy or "Cluster"
        if self.rules.require("external-traffic-policy", policy != "Local", f"externalTrafficPolicy is {policy}"):
            return None
        return self.build_inactive(
            Reason.EXTERNAL_TRAFFIC_POLICY_LOCAL,
            "externalTrafficPolicy is Local: an endpoint of a node could be given to another zone",
        )

    def check_ready_nodes(self) -> Decision | None:
        nodes, control_planes = len(self.demand.nodes), self.demand.control_planes
        if control_planes:
            detail = f"{counted(control_planes, 'ready control plane node')}, no other node is ready"
            self.rules.require("ready-nodes", False, detail)
            return self.build_inactive(Reason.ONLY_CONTROL_PLANES, "only control plane nodes are ready")
        if self.rules.require("ready-nodes", bool(nodes), counted(nodes, "ready node")):
            return None
        return self.build_inactive(Reason.NO_READY_NODES, "no node is ready")

    def check_ready_endpoints(self) -> Decision | None:
        ready = self.ready_count
        detail = f"{counted(ready, 'endpoint')} ready of {self.endpoint_index.total_count}"
        if self.rules.require("ready-endpoints", bool(ready), detail):
            return None
        return self.build_inactive(Reason.NO_READY_ENDPOINTS, "no endpoint is ready")

    def check_zones(self, demand: Demand) -> Decision | None:
        zones = len(demand.zones)
        if self.rules.require("two-zones", zones >= 2, f"nodes ready in {counted(zones, 'zone')}"):
            return None
        return self.build_inactive(Reason.ONE_ZONE, f"nodes are only ready in {counted(zones, 'zone')}")

    def check_nodes(self) -> Decision | None:
        """The refusal where a Node has no zone, or no CPU and the settings ask for that; else None."""
        demand = self.demand
        without_zone, without_cpu = demand.without_zone, demand.without_cpu
        if not self.rules.require(
            "node-zones",
            not without_zone,
            describe_without(without_zone, "node", "zone label")
            or _describe_new(demand)
            or "every ready node has a zone",
        ):
            return self.build_inactive(Reason.NODE_WITHOUT_ZONE, describe_without(without_zone, "node", "zone label"))
        detail = describe_without(without_cpu, "node", "allocatable CPU")
        if without_cpu and demand.unit == "nodes":
            self.rules.record("node-cpu", True, f"{detail}: nodes are counted instead, in all zones")
        elif not self.rules.require("node-cpu", not without_cpu, detail or "every ready node has allocatable CPU"):
            return self.build_inactive(Reason.NODE_WITHOUT_CPU, detail)
        return None

    def check_endpoint_zones(self) -> Decision | None:
        """The refusal where a ready endpoint has no zone; else None."""
        count, without = count_and_first_names(
            bucket for bucket in self.endpoint_index.ready_buckets() if not bucket.zone
        )
        detail = describe_without(without, "endpoint", "zone", count=count)
        if self.rules.require("endpoint-zones", not without, detail or "every ready endpoint has a zone"):
            return None
        return self.build_inactive(Reason.ENDPOINT_WITHOUT_ZONE, detail)

    def hint_targets(
        self,
        allocation: Allocation,
        consumers: Mapping[Bucket | IndexedEndpoint, Zones],
        *,
        node_hints: bool = False,
    ) -> Targets:
        """Ready endpoints get hints for their consumers, the others a hint for the zone where they are.

        kube-proxy ignores endpoints that are not ready when it looks for hints. Cilium 1.19 and 1.20 drop zone routing
        of the whole Service while one of them has no hint, and select it like a ready one by the hint that it has:
        where no ready endpoint serves its zone, such a hint would leave the zone without endpoints. The first zone
        with ready endpoints takes its place. Upstream gives them none.
        """
        targets: dict[Bucket | IndexedEndpoint, Target] = {
            members: hint_target(zones) for members, zones in consumers.items()
        }
        served = {zone for zones, _ in allocation.counts for zone in zones}
        for bucket in self.endpoint_index.unready_buckets():
            if bucket.zone and served and self.compatibility.hints_unready:
                targets[bucket] = hint_target((bucket.zone if bucket.zone in served else min(served),))
        return Targets(self.endpoint_index, "hints", targets, node_hints=node_hints)

    # --- results --------------------------------------------------------------------------------------------------

    def build_inactive(
        self,
        reason: Reason,
        message: str,
        *,
        targets: Targets | None = None,
        weights: ZoneWeights | None = None,
        deciding: int | None = None,
    ) -> Decision:
        """All endpoints serve all zones. ``targets`` are hints that slices keep nevertheless; ``weights`` are for
        proxies that weigh zones. ``deciding`` is the rule that decided, where a later one is marked."""
        return self.build_decision(
            active=False, reason=reason, message=message, targets=targets, weights=weights, deciding=deciding
        )

    def build_decision(
        self,
        *,
        active: bool,
        reason: Reason,
        message: str,
        targets: Targets | None = None,
        allocation: Allocation | None = None,
        moved: int = 0,
        ranges: dict[str, ZoneRange] | None = None,
        weights: ZoneWeights | None = None,
        deciding: int | None = None,
    ) -> Decision:
        request = self.request
        return Decision(
            approach=request.approach,
            heuristic=request.heuristic.name if request.heuristic else None,
            active=active,
            reason=reason,
            message=message,
            endpoints=self.ready_count + len(self.endpoint_index.shared_address),
            allocation=allocation,
            rules=self.rules.as_tuple(),
            deciding=self.rules.deciding if deciding is None else deciding,
            moved=moved,
            accepted=request.accepted,
            accepted_reason=request.accepted_reason,
            accepted_message=request.accepted_detail,
            ranges=ranges,
            weights=weights,
            hints_settings=request.hints,
            has_endpoints=self.endpoint_index.total_count > 0,
            is_suspended=self._is_suspended(reason),
            beside_subsetting=self.beside_subsetting,
            targets=Targets(self.endpoint_index) if targets is None else targets,
        )

    def _is_suspended(self, reason: Reason) -> bool:
        """Whether slices remember an approach that a decision refuses for a reason of `_SUSPENDING`."""
        heuristic = self.request.heuristic
        if heuristic is None or heuristic.subsets or not heuristic.balances or reason not in _SUSPENDING:
            return False
        return self.is_in_force(heuristic) or self.was_suspended(heuristic)


def _describe_new(demand: Demand) -> str:
    """The Nodes that are too new to void hints; empty where there are none."""
    detail = describe_without(demand.new_without_zone, "new node", "zone label")
    return f"{detail}: it may get one, and its proxy uses all endpoints until then" if detail else ""
