"""One decision: what a Service gets in one address family, and every rule that led there."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from zoneward.kube.objects import Endpoint, ForNode, ForZone, Hints, Service, identity
from zoneward.routing import upstream
from zoneward.routing.addresses import distinct
from zoneward.routing.algorithms.proportional_zone_cpu import least_endpoints
from zoneward.routing.algorithms.registry import Heuristic
from zoneward.routing.allocation import Allocation, allocate
from zoneward.routing.approach import Approach, Asked, asked_for
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import Demand
from zoneward.routing.hysteresis import Previous, threshold_in_force
from zoneward.routing.placement import place
from zoneward.routing.reasons import Reason
from zoneward.routing.rules import Rule, Rules, counted, listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Approach, allocation and reason for one Service and address family.

    ``hints`` stand in the order of the endpoints that were given; all are None where the decision is not active.
    ``allocation`` is None then, too. ``endpoints`` counts the ready ones; ``moved`` those that now serve another zone
    than before. ``ranges`` are upstream's bounds per zone, set only where upstream's own way of hinting is still to be
    taken.
    """

    approach: Approach
    heuristic: str | None
    active: bool
    reason: Reason
    message: str
    endpoints: int
    allocation: Allocation | None
    hints: tuple[Hints | None, ...]
    rules: tuple[Rule, ...]
    moved: int = 0
    accepted: bool | None = None
    accepted_reason: Reason = Reason.ACCEPTED
    accepted_message: str = ""
    ranges: dict[str, upstream.ZoneRange] | None = None

    @property
    def asked_for(self) -> str | None:
        """``<approach>/<heuristic>`` that the Service asks for, in force or not; None where it asks for none."""
        return f"{self.approach}/{self.heuristic}" if self.heuristic else None

    @property
    def in_force(self) -> str | None:
        """What slices remember about it: ``<approach>/<heuristic>``, or None where nothing is in force."""
        return self.asked_for if self.active else None


def decide(
    service: Service,
    endpoints: Sequence[Endpoint],
    *,
    demand: Demand,
    previous: Previous,
    configuration: Configuration,
) -> Decision:
    """Decide for the endpoints of one Service in one address family.

    ``endpoints`` come without hints, in any order. Nothing is raised for what people may write: an unknown value is a
    rule that did not pass.
    """
    return _Deciding(service, endpoints, demand, previous, configuration).decision()


class _Deciding:
    """One decision in the making."""

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
        self.asked = Asked(Approach.CLUSTER_WIDE, None)

    def decision(self) -> Decision:
        self.asked = asked = asked_for(self.service, self.configuration, self.rules)
        if asked.heuristic is None:
            if asked.refusal is None:
                return self._inactive(Reason.NOT_ASKED_FOR, "nothing is asked for: all endpoints serve all zones")
            return self._inactive(asked.refusal, asked.refusal_detail)
        if asked.heuristic.balances:
            if self.configuration.upstream:
                return self._as_upstream(asked.heuristic)
            return self._balanced(asked.heuristic)
        return self._own_zone(asked.heuristic)

    # --- the ways to a decision -----------------------------------------------------------------------------------

    def _balanced(self, heuristic: Heuristic) -> Decision:
        """KEP-2433's heuristic, with this project's guarantees."""
        local = self.service.spec.external_traffic_policy == "Local"
        if not self.rules.ask(
            "external-traffic-policy", not local, f"externalTrafficPolicy is {_policy(self.service)}"
        ):
            return self._inactive(
                Reason.EXTERNAL_TRAFFIC_POLICY_LOCAL,
                "externalTrafficPolicy is Local: an endpoint of a node could be given to another zone",
            )
        refusal = self._node_refusal() or self._count_refusal() or self._zone_refusal()
        if refusal is not None:
            return refusal
        settings = self.configuration.hints
        kept = self.previous.in_force == f"{self.asked.approach}/{heuristic.name}"
        threshold = threshold_in_force(settings, kept=kept)
        self.rules.ask(
            "threshold-in-force",
            True,
            f"in force already: kept below {_percent(threshold)}"
            if kept
            else f"not in force yet: starts below {_percent(threshold)}",
        )
        decision = self._allocated(heuristic, threshold)
        if decision is not None:
            return decision
        # Without the threshold: it is lower the next time, when nothing is in force, and the words would change.
        number, zones = len(self.ready), len(self.demand.zones)
        return self._inactive(
            Reason.OVERLOAD,
            f"{counted(number, 'endpoint')} for {counted(zones, 'zone')}: any split would put too much on some zone",
        )

    def _own_zone(self, heuristic: Heuristic) -> Decision:
        """Every endpoint to its own zone (and node): no threshold, no demand asked."""
        if not self.rules.ask(
            "ready-endpoints",
            bool(self.ready),
            f"{counted(len(self.ready), 'endpoint')} ready of {len(self.endpoints)}",
        ):
            return self._inactive(Reason.NO_READY_ENDPOINTS, "no endpoint is ready")
        refusal = self._zone_refusal()
        if refusal is not None and self.asked.approach is Approach.HINTS:
            return refusal
        decision = self._allocated(heuristic, self.configuration.hints.start_threshold)
        if decision is None:
            raise AssertionError(f"{heuristic.name} refused, though it has no threshold")
        if refusal is None:
            return decision
        without_node = sum(1 for number in self.ready if not self.endpoints[number].node_name)
        if heuristic.node_hints and self.rules.ask(
            "endpoint-nodes", not without_node, f"{counted(without_node, 'ready endpoint')} without a node"
        ):
            return decision
        # Hints of the others stay as they are: proxies take none of them while one is missing, and no slice is
        # rewritten for an endpoint that comes and goes.
        return self._inactive(refusal.reason, refusal.message, hints=decision.hints)

    def _as_upstream(self, heuristic: Heuristic) -> Decision:
        """Upstream's checks; its hints depend on how endpoints lie in slices and are set there."""
        number = len(self.ready)
        ranges = upstream.zone_ranges(self.demand, number)
        if isinstance(ranges, upstream.Refusal):
            self.rules.ask("upstream-allocation", False, ranges.detail)
            return self._inactive(ranges.reason, ranges.detail)
        self.rules.ask(
            "upstream-allocation",
            True,
            "; ".join(f"{zone} {each.minimum} to {each.maximum}" for zone, each in ranges.items()),
        )
        refusal = self._zone_refusal()
        if refusal is not None:
            return refusal
        return self._decided(
            heuristic.name,
            active=True,
            reason=Reason.ENABLED,
            message="hints as upstream sets them",
            hints=(None,) * len(self.endpoints),
            ranges=dict(ranges),
        )

    # --- rules ----------------------------------------------------------------------------------------------------

    def _node_refusal(self) -> Decision | None:
        demand = self.demand
        without_zone, without_cpu = demand.without_zone, demand.without_cpu
        if not self.rules.ask("ready-nodes", bool(demand.nodes), counted(len(demand.nodes), "ready node")):
            return self._inactive(Reason.NO_READY_NODES, "no node is ready")
        if not self.rules.ask(
            "node-zones",
            not without_zone,
            _lacking(without_zone, "node", "zone label") or "every ready node has a zone",
        ):
            return self._inactive(Reason.NODE_WITHOUT_ZONE, _lacking(without_zone, "node", "zone label"))
        detail = _lacking(without_cpu, "node", "allocatable CPU")
        if without_cpu and demand.unit == "nodes":
            self.rules.ask("node-cpu", True, f"{detail}: nodes are counted instead, in all zones")
        elif not self.rules.ask("node-cpu", not without_cpu, detail or "every ready node has allocatable CPU"):
            return self._inactive(Reason.NODE_WITHOUT_CPU, detail)
        zones = len(demand.zones)
        if not self.rules.ask("two-zones", zones >= 2, f"nodes ready in {counted(zones, 'zone')}"):
            return self._inactive(Reason.ONE_ZONE, f"nodes are only ready in {counted(zones, 'zone')}")
        return None

    def _count_refusal(self) -> Decision | None:
        number, zones = len(self.ready), len(self.demand.zones)
        detail = f"{counted(number, 'endpoint')} for {counted(zones, 'zone')}"
        if self.rules.ask("enough-endpoints", number >= zones, detail):
            return None
        return self._inactive(Reason.TOO_FEW_ENDPOINTS, f"{detail}: fewer than one each")

    def _zone_refusal(self) -> Decision | None:
        without = tuple(sorted(_name(self.endpoints[each]) for each in self.ready if not self.endpoints[each].zone))
        detail = _lacking(without, "endpoint", "zone")
        if self.rules.ask("endpoint-zones", not without, detail or "every ready endpoint has a zone"):
            return None
        return self._inactive(Reason.ENDPOINT_WITHOUT_ZONE, detail)

    # --- the allocation -------------------------------------------------------------------------------------------

    def _allocated(self, heuristic: Heuristic, threshold: Fraction) -> Decision | None:
        """Allocation and placement, or None where the heuristic finds none."""
        weights = self.demand.reduced
        placeable = [number for number in self.ready if self.endpoints[number].zone]
        zones = tuple(sorted(weights.keys() | {self.endpoints[number].zone or "" for number in placeable}))
        index = {zone: position for position, zone in enumerate(zones)}
        size = len(zones)
        identities = [identity(self.endpoints[number]) for number in placeable]
        located = [index[self.endpoints[number].zone or ""] for number in placeable]
        served = self.previous.placement
        before = [-1] * len(placeable)
        if served:
            before = [index.get(served.get(each, ""), -1) for each in identities]
        supply = [0] * size
        counts = [0] * (size * size)
        for position, (here, there) in enumerate(zip(located, before, strict=True)):
            supply[here] += 1
            if there >= 0 and heuristic.balances and zones[there] not in weights:
                before[position] = -1  # nobody starts traffic there any more
            elif there >= 0:
                counts[here * size + there] += 1
        allocation = allocate(
            heuristic,
            zones=zones,
            demand=[weights.get(zone, 0) for zone in zones],
            supply=supply,
            previous=counts,
            threshold=threshold,
            start_threshold=self.configuration.hints.start_threshold,
        )
        if heuristic.balances:
            detail = self._minimums(threshold)
            if not self.rules.ask("overload-threshold", allocation is not None, detail):
                return None
        if allocation is None:
            return None
        placed = place(located, before, identities, allocation.counts, size)
        moved = sum(1 for was, now in zip(before, placed, strict=True) if was not in (-1, now))
        away = sum(1 for here, there in zip(located, placed, strict=True) if here != there)
        self.rules.ask(
            "placement",
            True,
            f"{counted(len(placed) - away, 'endpoint')} serve their own zone, {away} another; {moved} moved",
        )
        hints: list[Hints | None] = [None] * len(self.endpoints)
        for_zone = [(ForZone(zone),) for zone in zones]
        alike = [Hints(for_zones=zone) for zone in for_zone]
        for number, zone in zip(placeable, placed, strict=True):
            node = self.endpoints[number].node_name if heuristic.node_hints else None
            hints[number] = Hints(for_zones=for_zone[zone], for_nodes=(ForNode(node),)) if node else alike[zone]
        if heuristic.node_hints:
            for number in self.ready:
                if hints[number] is None and (node := self.endpoints[number].node_name):
                    hints[number] = Hints(for_nodes=(ForNode(node),))
        for number, twin in self.twins.items():
            hints[number] = hints[twin]
        return self._decided(
            heuristic.name,
            active=True,
            reason=Reason.ENABLED,
            message=self._message(heuristic, allocation),
            allocation=allocation,
            hints=tuple(hints),
            moved=moved,
        )

    def _minimums(self, threshold: Fraction) -> str:
        """The least each zone needs to stay below the threshold, and what there is."""
        total, number = self.demand.total, len(self.ready)
        needed = [
            least_endpoints(number, weight, total, threshold.numerator, threshold.denominator)
            for weight in self.demand.weights
        ]
        parts = " + ".join(str(each) for each in needed)
        return f"below {_percent(threshold)} the zones need at least {parts} = {sum(needed)} of {number} endpoints"

    def _message(self, heuristic: Heuristic, allocation: Allocation) -> str:
        if not heuristic.balances:
            empty = tuple(
                zone
                for position, zone in enumerate(allocation.zones)
                if zone in self.demand.weight_of and not allocation.consumed(position)
            )
            where = "node, then its own zone" if heuristic.node_hints else "zone"
            text = f"every endpoint serves its own {where}"
            return f"{text}; {listed(empty)} without endpoints: all serve there" if empty else text
        number = len(self.ready)
        worst, zone = max(
            (Fraction(number * weight, self.demand.total * allocation.consumed(allocation.zones.index(zone))) - 1, zone)
            for zone, weight in self.demand.weight_of.items()
        )
        numbers = f"{counted(number, 'endpoint')} for {counted(len(self.demand.zones), 'zone')}"
        if not worst:
            return f"every zone has its fair share; {numbers}"
        return f"no zone is more than {_percent(worst)} above fair ({zone} is); {numbers}"

    # --- results --------------------------------------------------------------------------------------------------

    def _inactive(self, reason: Reason, message: str, *, hints: tuple[Hints | None, ...] | None = None) -> Decision:
        heuristic = self.asked.heuristic.name if self.asked.heuristic else None
        none = (None,) * len(self.endpoints)
        return self._decided(
            heuristic, active=False, reason=reason, message=message, hints=none if hints is None else hints
        )

    def _decided(
        self,
        heuristic: str | None,
        *,
        active: bool,
        reason: Reason,
        message: str,
        hints: tuple[Hints | None, ...],
        allocation: Allocation | None = None,
        moved: int = 0,
        ranges: dict[str, upstream.ZoneRange] | None = None,
    ) -> Decision:
        asked = self.asked
        refused = asked.refusal if asked.refusal is not None else Reason.UNKNOWN_VALUE
        return Decision(
            approach=asked.approach,
            heuristic=heuristic,
            active=active,
            reason=reason,
            message=message,
            endpoints=len(self.ready) + len(self.twins),
            allocation=allocation,
            hints=hints,
            rules=self.rules.as_tuple(),
            moved=moved,
            accepted=asked.accepted,
            accepted_reason=Reason.ACCEPTED if asked.accepted else refused,
            accepted_message=asked.accepted_detail,
            ranges=ranges,
        )


def _percent(share: Fraction) -> str:
    return f"{float(share * 100):.3g} %"


def _policy(service: Service) -> str:
    return service.spec.external_traffic_policy or "Cluster"


def _name(endpoint: Endpoint) -> str:
    return endpoint.target_ref.name if endpoint.target_ref else ", ".join(endpoint.addresses or ("?",))


def _lacking(names: tuple[str, ...], noun: str, what: str) -> str:
    return f"{counted(len(names), noun)} without {what} ({listed(names)})" if names else ""
