"""Every heuristic by name.

To add an algorithm, write a file beside this one, and add a line to `SUBSETTING_ALGORITHMS` (slice groups) or
`HEURISTICS` (hints). Settings, ``--what-if`` and the lab take it from here.
"""

from collections.abc import Mapping, MutableSequence
from dataclasses import dataclass
from typing import Final

from zoneward.kube import names
from zoneward.routing.algorithms.balanced import balanced
from zoneward.routing.algorithms.local import local, local_kep_tool, local_opt, local_shared, local_weighted
from zoneward.routing.algorithms.proportional_zone_cpu import proportional_zone_cpu
from zoneward.routing.algorithms.signature import IMPOSSIBLE, AllocateFunction, IntegerSequence

# --- algorithms that need no search -----------------------------------------------------------------------------------


def same_zone(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,  # noqa: ARG001 -- every algorithm has the same signature; this one has nothing to tune
    previous: IntegerSequence,  # noqa: ARG001 -- where an endpoint is does not depend on where it served
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],  # noqa: ARG001 -- needs no room
    reals: MutableSequence[float],  # noqa: ARG001
) -> int:
    """All of a zone's supply to that zone. A zone without endpoints gets none: its proxies fall back to all."""
    zones = len(demand)
    for zone in range(zones):
        composition[zone * zones + zone] = supply[zone]
        weights[zone * zones + zone] = 1.0
    return zones


def one_group(
    demand: IntegerSequence,
    supply: IntegerSequence,
    parameters: IntegerSequence,  # noqa: ARG001 -- every algorithm has the same signature; this one has nothing to tune
    previous: IntegerSequence,  # noqa: ARG001 -- no endpoint can move
    composition: MutableSequence[int],
    weights: MutableSequence[float],
    scratch: MutableSequence[int],  # noqa: ARG001 -- needs no room
    reals: MutableSequence[float],  # noqa: ARG001
) -> int:
    """Every endpoint to every zone. The own groups stay empty. The proxies choose at random, not this function."""
    zones = len(demand)
    total = 0
    for zone in range(zones):
        total += supply[zone]
        composition[zones * zones + zone] = supply[zone]
        weights[zones * zones + zone] = 1.0
    return zones + 1 if total > 0 else IMPOSSIBLE


# --- heuristics -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Heuristic:
    """An algorithm with the name that settings request it by.

    ``balances``: it needs demand and two zones, and may find that nothing safe can be allocated.
    ``subsets``: it is for slice groups (KEP-2004), else for hints. ``weighs``: its groups have weights, which hints
    cannot express. ``node_hints``: endpoints are also hinted to their own node (KEP-3015).
    """

    name: str
    allocate: AllocateFunction
    balances: bool = False
    subsets: bool = False
    weighs: bool = False
    node_hints: bool = False


PROPORTIONAL_ZONE_CPU: Final = Heuristic("ProportionalZoneCPU", proportional_zone_cpu, balances=True)
BALANCED: Final = Heuristic("Balanced", balanced, balances=True)
"""Sets of endpoints that zones may share, in hints (``docs/balanced.md``); `zoneward.routing.balanced_decision`."""
PREFER_ZONE: Final = Heuristic("PreferZone", same_zone)
PREFER_SAME_ZONE: Final = Heuristic(names.PREFER_SAME_ZONE, same_zone)
PREFER_SAME_NODE: Final = Heuristic(names.PREFER_SAME_NODE, same_zone, node_hints=True)
REQUIRE_ZONE: Final = Heuristic("RequireZone", same_zone, subsets=True)
LOCAL_KEP_TOOL: Final = Heuristic("local-kep-tool", local_kep_tool, balances=True, subsets=True)
"""For the lab alone: it reproduces the proposal's table, and no setting of a cluster can request it."""

SUBSETTING_ALGORITHMS: Final[Mapping[str, Heuristic]] = {
    heuristic.name: heuristic
    for heuristic in (
        Heuristic("local", local, balances=True, subsets=True),
        Heuristic("local-shared", local_shared, balances=True, subsets=True),
        Heuristic("local-weighted", local_weighted, balances=True, subsets=True, weighs=True),
        Heuristic("local-opt", local_opt, balances=True, subsets=True, weighs=True),
        Heuristic("random", one_group, balances=True, subsets=True),
    )
}
"""The values of ``subsetting.algorithm`` and of the annotation ``zoneward.dev/subsetting-algorithm``."""

HEURISTICS: Final[Mapping[str, Heuristic]] = {
    heuristic.name: heuristic
    for heuristic in (
        PROPORTIONAL_ZONE_CPU,
        BALANCED,
        PREFER_ZONE,
        PREFER_SAME_ZONE,
        PREFER_SAME_NODE,
        *SUBSETTING_ALGORITHMS.values(),
        REQUIRE_ZONE,
    )
}


BUILT_IN_HEURISTICS: Final = frozenset(
    heuristic.name for heuristic in (PROPORTIONAL_ZONE_CPU, PREFER_SAME_ZONE, PREFER_SAME_NODE)
)
"""Those of the built-in controller."""


def find_heuristic(value: str) -> Heuristic | None:
    """The heuristic behind ``<domain>/<heuristic>`` (KEP-4444 § Implementation specific heuristics), or None.

    Only the domain of Zoneward has any, and only those for hints.
    """
    domain, slash, name = value.partition("/")
    heuristic = HEURISTICS.get(name) if slash and domain == names.DOMAIN else None
    return None if heuristic is None or heuristic.subsets else heuristic
