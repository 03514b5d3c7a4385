"""The load of the endpoints of a Service after a change of the cluster, against their load before it.

Traffic does not go away with Pods and Nodes: what started in a zone that failed starts in the others, and all of it is
shared by the endpoints that are left. So the load of an endpoint is its share of all traffic of the Service, and shares
before and after the change can be compared. ``max_overload`` cannot: it is relative to a fair share, which grows where
endpoints go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zoneward.kube.objects import EndpointIdentity, identity
from zoneward.routing.selection.endpoint_selection import endpoints_of_all_ports
from zoneward.slices.plan import FamilyPlan, ServicePlan

PlansBefore = Mapping[tuple[str, str, str], FamilyPlan]
"""The plans of the unchanged cluster, by namespace, name and address type."""


@dataclass(frozen=True, slots=True)
class LoadChange:
    """Loads are shares of all traffic of the Service, 0 to 1.

    ``before`` and ``after`` are those of the busiest endpoint, which need not be the same one. ``highest_rise`` is the
    most that the load of one endpoint rises, of those that have traffic before and after: 0.5 is half as much again,
    below 0 all of them have less. None where there is no such endpoint.
    """

    before: float
    after: float
    highest_rise: float | None

    @property
    def change(self) -> float:
        """By how much the busiest endpoint has more load than the busiest one had: 0.5 is half as much again."""
        return self.after / self.before - 1


def plans_before(plans: Iterable[ServicePlan]) -> PlansBefore:
    """Plans of the unchanged cluster, as `load_change` looks them up."""
    return {_key(family): family for plan in plans for family in plan.families}


def load_change(after: FamilyPlan, before: PlansBefore) -> LoadChange | None:
    """Compare one address family of a Service. None where no endpoint is known to have traffic before, or after."""
    earlier = family_before(after, before)
    if earlier is None:
        return None
    was, now = earlier.traffic, after.traffic
    if was is None or now is None or not was.busiest_load or not now.busiest_load:
        return None
    loads = _loads(earlier)
    rises = [load / loads[key] - 1 for key, load in _loads(after).items() if key in loads]
    return LoadChange(was.busiest_load, now.busiest_load, max(rises, default=None))


def family_before(after: FamilyPlan, before: PlansBefore) -> FamilyPlan | None:
    """The same address family of the same Service, before the change."""
    return before.get(_key(after))


def _key(family: FamilyPlan) -> tuple[str, str, str]:
    meta = family.service.metadata
    return meta.namespace, meta.name, family.address_type


def _loads(family: FamilyPlan) -> dict[EndpointIdentity, float]:
    """The load of every endpoint that has some."""
    assert family.traffic is not None
    endpoints = endpoints_of_all_ports(family.slices)
    return {identity(endpoint): load for endpoint, load in zip(endpoints, family.traffic.load, strict=True) if load}
