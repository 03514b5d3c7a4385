"""The endpoints that current Kubernetes wants hinted to each zone for ``Auto`` (``--compat=upstream``).

Upstream computes in doubles and gives each zone a minimum, a maximum and a desired number of endpoints. Which
endpoints it hints then depends on how they lie in slices: see `zoneward.slices.upstream`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

from zoneward.routing.configuration import UPSTREAM_THRESHOLD
from zoneward.routing.demand import Demand
from zoneward.routing.rules import Reason

OVERLOAD_THRESHOLD: Final = float(UPSTREAM_THRESHOLD)


@dataclass(frozen=True, slots=True)
class ZoneRange:
    """How many endpoints upstream wants hinted to a zone."""

    minimum: int
    maximum: int
    desired: float


@dataclass(frozen=True, slots=True)
class UpstreamRefusal:
    """Why upstream gives no hints. ``minimums``: the endpoints that the zones need, where there are too few."""

    reason: Reason
    detail: str
    minimums: tuple[int, ...] = ()


def has_node_information(demand: Demand) -> bool:
    """Upstream gives up on all Nodes when one ready Node lacks a zone or CPU, or when there is only one zone."""
    return not demand.without_zone and not demand.without_cpu and len(demand.zones) >= 2


def zone_ranges(demand: Demand, endpoints: int) -> Mapping[str, ZoneRange] | UpstreamRefusal:
    """The range of each zone for a number of ready endpoints, or why there is none.

    Double arithmetic as upstream's: with five equal zones and 12 endpoints the minimum comes out as 3, not 2.
    """
    zones = len(demand.zones)
    if not has_node_information(demand):
        return UpstreamRefusal(Reason.NODE_WITHOUT_CPU, "allocatable CPU or zone not specified on one or more nodes")
    if zones > endpoints:
        return UpstreamRefusal(Reason.TOO_FEW_ENDPOINTS, f"{endpoints} endpoints, {zones} zones")
    minimums = {}
    desired = {}
    for zone, weight in demand.weight_of.items():
        wanted = weight / demand.total * endpoints
        minimums[zone] = ceil(wanted * (1 / (1 + OVERLOAD_THRESHOLD)))
        desired[zone] = max(wanted, float(minimums[zone]))
    spare = endpoints - sum(minimums.values())
    if spare < 0:
        return UpstreamRefusal(Reason.OVERLOAD, f"{endpoints} endpoints, {zones} zones", tuple(minimums.values()))
    return {zone: ZoneRange(minimum, minimum + spare, desired[zone]) for zone, minimum in minimums.items()}
