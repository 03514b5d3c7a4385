"""A decision written into endpoints: their hints, or the slice groups they belong to."""

from msgspec.structs import replace

from zoneward.kube.objects import Endpoint
from zoneward.routing.decision import Decision
from zoneward.slices.endpoints import Endpoints, PortGroup


def in_order(endpoints: Endpoints) -> list[Endpoint]:
    """Every endpoint, port group by port group: the order in which a decision gives its answers."""
    return [endpoint for group in endpoints.groups.values() for endpoint in group.endpoints.values()]


def encoded(endpoints: Endpoints, decision: Decision) -> Endpoints:
    """The same endpoints with the hints or slice groups of a decision that was taken for `in_order`."""
    if decision.groups is not None:
        groups = iter(decision.groups)
        return Endpoints(
            {
                key: PortGroup(each.ports, each.endpoints, {identity: next(groups) for identity in each.endpoints})
                for key, each in endpoints.groups.items()
            },
            endpoints.gone,
        )
    if not any(decision.hints):
        return endpoints
    hints = iter(decision.hints)
    hinted_groups = {}
    for key, group in endpoints.groups.items():
        hinted = {}
        for identity, endpoint in group.endpoints.items():
            hint = next(hints)
            hinted[identity] = endpoint if hint is None else replace(endpoint, hints=hint)
        hinted_groups[key] = PortGroup(group.ports, hinted)
    return Endpoints(hinted_groups, endpoints.gone)
