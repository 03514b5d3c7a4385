"""A decision in the making: what is known about one Service in one address family, and the rules asked so far."""

from collections.abc import Sequence
from fractions import Fraction

from zoneward.kube.objects import Endpoint, Hints, Service
from zoneward.routing import upstream
from zoneward.routing.addresses import distinct
from zoneward.routing.allocation import Allocation
from zoneward.routing.approach import asked_for
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand
from zoneward.routing.groups import Group
from zoneward.routing.hysteresis import Previous
from zoneward.routing.reasons import Reason
from zoneward.routing.rules import Rules, counted, listed


class Case:
    """Everything that a decision depends on. ``ready`` numbers the ready endpoints that count, ``twins`` those that
    share an address with one of them.
    """

    def __init__(
        self,
        service: Service,
        endpoints: Sequence[Endpoint],
        demand: Demand,
        previous: Previous,
        configuration: Configuration,
    ) -> None:
        self.service = service
        self.endpoints = endpoints
        self.demand = demand
        self.previous = previous
        self.configuration = configuration
        self.rules = Rules()
        self.ready, self.twins = distinct(endpoints, apart=configuration.upstream)
        self.asked = asked_for(service, configuration, self.rules)

    # --- rules that several approaches ask ------------------------------------------------------------------------

    def external_policy_refusal(self) -> Decision | None:
        """Endpoints may not serve other zones where traffic from outside stays on their node."""
        policy = self.service.spec.external_traffic_policy or "Cluster"
        if self.rules.ask("external-traffic-policy", policy != "Local", f"externalTrafficPolicy is {policy}"):
            return None
        return self.inactive(
            Reason.EXTERNAL_TRAFFIC_POLICY_LOCAL,
            "externalTrafficPolicy is Local: an endpoint of a node could be given to another zone",
        )

    def ready_nodes_refusal(self) -> Decision | None:
        number = len(self.demand.nodes)
        if self.rules.ask("ready-nodes", bool(number), counted(number, "ready node")):
            return None
        return self.inactive(Reason.NO_READY_NODES, "no node is ready")

    def ready_endpoints_refusal(self) -> Decision | None:
        number = len(self.ready)
        detail = f"{counted(number, 'endpoint')} ready of {len(self.endpoints)}"
        if self.rules.ask("ready-endpoints", bool(number), detail):
            return None
        return self.inactive(Reason.NO_READY_ENDPOINTS, "no endpoint is ready")

    def one_zone_refusal(self, demand: Demand) -> Decision | None:
        zones = len(demand.zones)
        if self.rules.ask("two-zones", zones >= 2, f"nodes ready in {counted(zones, 'zone')}"):
            return None
        return self.inactive(Reason.ONE_ZONE, f"nodes are only ready in {counted(zones, 'zone')}")

    # --- results --------------------------------------------------------------------------------------------------

    def inactive(self, reason: Reason, message: str, *, hints: tuple[Hints | None, ...] | None = None) -> Decision:
        """All endpoints serve all zones; ``hints`` that may stand in slices nevertheless."""
        none = (None,) * len(self.endpoints)
        return self.decided(active=False, reason=reason, message=message, hints=none if hints is None else hints)

    def decided(
        self,
        *,
        active: bool,
        reason: Reason,
        message: str,
        hints: tuple[Hints | None, ...],
        groups: tuple[Group | None, ...] | None = None,
        allocation: Allocation | None = None,
        moved: int = 0,
        ranges: dict[str, upstream.ZoneRange] | None = None,
    ) -> Decision:
        asked = self.asked
        return Decision(
            approach=asked.approach,
            heuristic=asked.heuristic.name if asked.heuristic else None,
            active=active,
            reason=reason,
            message=message,
            endpoints=len(self.ready) + len(self.twins),
            allocation=allocation,
            hints=hints,
            rules=self.rules.as_tuple(),
            groups=groups,
            moved=moved,
            accepted=asked.accepted,
            accepted_reason=asked.accepted_reason,
            accepted_message=asked.accepted_detail,
            ranges=ranges,
        )


def percent(share: Fraction) -> str:
    return f"{float(share * 100):.3g} %"


def lacking(names: tuple[str, ...], noun: str, what: str) -> str:
    """``2 nodes without zone label (n1, n2)``, or nothing."""
    return f"{counted(len(names), noun)} without {what} ({listed(names)})" if names else ""


def name_of(endpoint: Endpoint) -> str:
    return endpoint.target_ref.name if endpoint.target_ref else ", ".join(endpoint.addresses or ("?",))
