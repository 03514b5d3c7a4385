"""A decision written into endpoints: their hints."""

from msgspec.structs import replace

from zoneward.kube.objects import Endpoint
from zoneward.routing.decision import Decision
from zoneward.slices.endpoints import Endpoints, PortGroup


def in_order(endpoints: Endpoints) -> list[Endpoint]:
    """Every endpoint, group by group: the order in which a decision gives its hints."""
    return [endpoint for group in endpoints.groups.values() for endpoint in group.endpoints.values()]


def with_hints(endpoints: Endpoints, decision: Decision) -> Endpoints:
    """The same endpoints with the hints of a decision that was taken for `in_order`."""
    if not any(decision.hints):
        return endpoints
    hints = iter(decision.hints)
    groups = {}
    for key, group in endpoints.groups.items():
        hinted = {}
        for identity, endpoint in group.endpoints.items():
            hint = next(hints)
            hinted[identity] = endpoint if hint is None else replace(endpoint, hints=hint)
        groups[key] = PortGroup(group.ports, hinted)
    return Endpoints(groups, endpoints.gone)
