"""A decision in the making: what is known about one Service in one address family, and the rules asked so far."""

from zoneward.kube.objects import Service
from zoneward.routing.allocation import Allocation
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand
from zoneward.routing.placement.assignment import Assignment
from zoneward.routing.placement.crowd import Crowd
from zoneward.routing.request.approach import requested_approach
from zoneward.routing.rules import Reason, RuleLog, counted
from zoneward.routing.upstream_ranges import ZoneRange


class Case:
    """Everything that a decision depends on. ``number`` counts the ready endpoints, each address once; ``in_force`` is
    what the existing slices were written for.
    """

    def __init__(
        self, service: Service, crowd: Crowd, demand: Demand, in_force: str | None, configuration: Configuration
    ) -> None:
        self.service = service
        self.crowd = crowd
        self.number = crowd.number
        self.demand = demand
        self.in_force = in_force
        self.configuration = configuration
        self.rules = RuleLog()
        self.asked = requested_approach(service, configuration, self.rules)
        self.hints = self.asked.hints or configuration.hints

    # --- rules that several approaches ask ---------------------------------------------------------------------------

    def external_policy_refusal(self) -> Decision | None:
        """Endpoints may not serve other zones where traffic from outside stays on their node."""
        policy = self.service.spec.external_traffic_policy or "Cluster"
        if self.rules.record("external-traffic-policy", policy != "Local", f"externalTrafficPolicy is {policy}"):
            return None
        return self.inactive(
            Reason.EXTERNAL_TRAFFIC_POLICY_LOCAL,
            "externalTrafficPolicy is Local: an endpoint of a node could be given to another zone",
        )

    def ready_nodes_refusal(self) -> Decision | None:
        number = len(self.demand.nodes)
        if self.rules.record("ready-nodes", bool(number), counted(number, "ready node")):
            return None
        return self.inactive(Reason.NO_READY_NODES, "no node is ready")

    def ready_endpoints_refusal(self) -> Decision | None:
        number = self.number
        detail = f"{counted(number, 'endpoint')} ready of {self.crowd.size}"
        if self.rules.record("ready-endpoints", bool(number), detail):
            return None
        return self.inactive(Reason.NO_READY_ENDPOINTS, "no endpoint is ready")

    def one_zone_refusal(self, demand: Demand) -> Decision | None:
        zones = len(demand.zones)
        if self.rules.record("two-zones", zones >= 2, f"nodes ready in {counted(zones, 'zone')}"):
            return None
        return self.inactive(Reason.ONE_ZONE, f"nodes are only ready in {counted(zones, 'zone')}")

    # --- results --------------------------------------------------------------------------------------------------

    def inactive(self, reason: Reason, message: str, *, assignment: Assignment | None = None) -> Decision:
        """All endpoints serve all zones; ``assignment`` has hints that may stand in slices nevertheless."""
        return self.decided(active=False, reason=reason, message=message, assignment=assignment)

    def decided(
        self,
        *,
        active: bool,
        reason: Reason,
        message: str,
        assignment: Assignment | None = None,
        allocation: Allocation | None = None,
        moved: int = 0,
        ranges: dict[str, ZoneRange] | None = None,
    ) -> Decision:
        asked = self.asked
        assignment = Assignment(self.crowd) if assignment is None else assignment
        return Decision(
            approach=asked.approach,
            heuristic=asked.heuristic.name if asked.heuristic else None,
            active=active,
            reason=reason,
            message=message,
            endpoints=self.number + len(self.crowd.twins),
            allocation=allocation,
            hints=assignment.all_hints,
            rules=self.rules.as_tuple(),
            groups=assignment.all_groups,
            moved=moved,
            accepted=asked.accepted,
            accepted_reason=asked.accepted_reason,
            accepted_message=asked.accepted_detail,
            ranges=ranges,
            hints_settings=asked.hints,
            has_endpoints=self.crowd.size > 0,
            assignment=assignment,
        )
