"""What Zoneward does differently from current Kubernetes, as settings: ``--compat=upstream`` chooses `KUBERNETES`.

Thresholds differ too (`zoneward.routing.configuration.Configuration.as_upstream`).
"""

from dataclasses import dataclass
from typing import Final

from zoneward.routing.configuration import Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """``sets_hints_in_slices``: hints follow from how endpoints lie in slices, not from the decision.
    ``reads_own_settings``: annotations and values that only Zoneward knows count. ``knows_new_nodes``: a new Node
    without a zone voids no hints. ``merges_addresses``: endpoints with the same address count as one.
    ``counts_without_ports``: endpoints without ports count. ``needs_nodes``: Pods do not count while no Node is known.
    ``needs_families``: a Service without IP families or cluster IP gets both families. ``hints_unready``: endpoints
    that are not ready have hints. ``repeats_events``: every sync that fails sends an Event.
    """

    sets_hints_in_slices: bool
    reads_own_settings: bool
    knows_new_nodes: bool
    merges_addresses: bool
    counts_without_ports: bool
    needs_nodes: bool
    needs_families: bool
    hints_unready: bool
    repeats_events: bool


ZONEWARD: Final = Compatibility(
    sets_hints_in_slices=False,
    reads_own_settings=True,
    knows_new_nodes=True,
    merges_addresses=True,
    counts_without_ports=False,
    needs_nodes=False,
    needs_families=False,
    hints_unready=True,
    repeats_events=False,
)
KUBERNETES: Final = Compatibility(
    sets_hints_in_slices=True,
    reads_own_settings=False,
    knows_new_nodes=False,
    merges_addresses=False,
    counts_without_ports=True,
    needs_nodes=True,
    needs_families=True,
    hints_unready=False,
    repeats_events=True,
)


def compatibility_of(configuration: Configuration) -> Compatibility:
    return KUBERNETES if configuration.upstream else ZONEWARD
