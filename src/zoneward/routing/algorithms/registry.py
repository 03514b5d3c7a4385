"""Every heuristic by name. A new one is a file beside this one, and a line in `HEURISTICS`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zoneward.kube import names
from zoneward.routing.algorithms.proportional_zone_cpu import proportional_zone_cpu
from zoneward.routing.algorithms.results import Allocate
from zoneward.routing.algorithms.same_zone import same_zone


@dataclass(frozen=True, slots=True)
class Heuristic:
    """A rule that can be asked for by name.

    ``balances``: it needs demand, two zones and enough endpoints, and obeys the overload thresholds (KEP-2433).
    ``node_hints``: endpoints are also hinted to their own node (KEP-3015).
    """

    name: str
    allocate: Allocate
    balances: bool = False
    node_hints: bool = False


PROPORTIONAL_ZONE_CPU: Final = Heuristic("ProportionalZoneCPU", proportional_zone_cpu, balances=True)
PREFER_ZONE: Final = Heuristic("PreferZone", same_zone)
PREFER_SAME_ZONE: Final = Heuristic(names.PREFER_SAME_ZONE, same_zone)
PREFER_SAME_NODE: Final = Heuristic(names.PREFER_SAME_NODE, same_zone, node_hints=True)

HEURISTICS: Final[Mapping[str, Heuristic]] = {
    heuristic.name: heuristic for heuristic in (PROPORTIONAL_ZONE_CPU, PREFER_ZONE, PREFER_SAME_ZONE, PREFER_SAME_NODE)
}


def find(value: str) -> Heuristic | None:
    """The heuristic behind ``<domain>/<heuristic>`` (KEP-4444 § Implementation specific heuristics), or None.

    Only our own domain has any.
    """
    domain, slash, name = value.partition("/")
    return HEURISTICS.get(name) if slash and domain == names.DOMAIN else None
