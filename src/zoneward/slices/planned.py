"""What a plan is made from beside the Service's own objects, and what it comes to."""

from collections.abc import Mapping
from dataclasses import dataclass

from zoneward.kube.objects import Condition, EndpointSlice, Service
from zoneward.routing.configuration import Configuration
from zoneward.routing.decision import Decision
from zoneward.routing.demand import Demand
from zoneward.routing.late import Late
from zoneward.routing.selection.endpoint_selection import ZONEWARD, Consumer
from zoneward.routing.selection.expected_traffic import ExpectedTraffic
from zoneward.routing.service_conditions import worst_family
from zoneward.routing.service_events import ServiceEvent
from zoneward.slices.packing import SliceChanges


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all Services of a cluster share.

    ``node_zones`` has every Node that exists with its zone or None; it is never changed, another takes its place.
    ``pods_known`` is off where a snapshot holds no Pods: endpoints are then taken from its slices. ``consumer`` is the
    kind of proxy that traffic is predicted for.
    """

    demand: Demand
    node_zones: Mapping[str, str | None]
    configuration: Configuration
    pods_known: bool = True
    consumer: Consumer = ZONEWARD


@dataclass(frozen=True)
class FamilyPlan:
    """What one address family of a Service comes to.

    ``replaced`` are slices of the built-in controller that this plan's would stand in for; ``others`` those of anybody
    else, which are never written but count in selection. ``traffic`` is None where nothing can be predicted; it is
    made when it is first asked for.
    """

    address_type: str
    decision: Decision
    changes: SliceChanges
    replaced: tuple[EndpointSlice, ...]
    others: tuple[EndpointSlice, ...]
    traffic: Late[ExpectedTraffic | None] = Late()  # noqa: RUF009 -- a descriptor

    @property
    def void_hints(self) -> str | None:
        """Why proxies heed none of the hints that the decision set, or None where they do."""
        return next(
            (rule.detail for rule in self.decision.rules if rule.rule == "slices-of-others" and not rule.passed), None
        )

    @property
    def slices(self) -> tuple[EndpointSlice, ...]:
        """Every slice that proxies would see afterwards."""
        return (*self.changes.after, *self.others)


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """What a Service comes to: a plan per address family, and what is told about the Service as a whole.

    ``surplus`` are slices of address families that the Service no longer has, to be deleted.
    """

    service: Service
    families: tuple[FamilyPlan, ...]
    conditions: tuple[Condition, ...]
    events: tuple[ServiceEvent, ...]
    surplus: tuple[EndpointSlice, ...] = ()

    @property
    def worst_family(self) -> str | None:
        """The address type whose decision speaks for the Service."""
        spoken = worst_family({family.address_type: family.decision for family in self.families})
        return spoken[0] if spoken else None
