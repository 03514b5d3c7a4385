"""A decision: what a Service gets in one address family, and every rule that led there."""

from dataclasses import dataclass, field

from zoneward.kube import names
from zoneward.routing.allocation import Allocation
from zoneward.routing.configuration import HintsSettings
from zoneward.routing.placement.targets import Targets
from zoneward.routing.request.approach import Approach
from zoneward.routing.rules import Reason, Rule
from zoneward.routing.upstream_ranges import ZoneRange
from zoneward.routing.zone_weights import ZoneWeights


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Approach, allocation and reason for one Service and address family.

    ``allocation`` has the number of endpoints for each zone, or None where the decision is not active; ``targets`` has
    what each endpoint gets. ``endpoints`` counts the ready endpoints, ``has_endpoints`` says whether there are
    any, ready or not, and ``moved`` counts those that now serve other zones than before. ``ranges`` are upstream's
    bounds per zone, only where `zoneward.slices.upstream` has to set the hints. ``weights`` are for proxies that
    weigh zones, beside the hints. ``hints_settings`` are the settings that hints were balanced by. ``is_suspended``: it
    is not active only until something about Nodes or endpoints is known.
    ``beside_subsetting``: the hints stay while subsetting, which is requested too, is not active. ``deciding`` is the
    index of the rule that decided: the one that refused, or the last one that had to pass.
    """

    approach: Approach
    heuristic: str | None
    active: bool
    reason: Reason
    message: str
    endpoints: int
    allocation: Allocation | None
    rules: tuple[Rule, ...]
    deciding: int | None = None
    moved: int = 0
    accepted: bool | None = None
    accepted_reason: Reason = Reason.ACCEPTED
    accepted_message: str = ""
    ranges: dict[str, ZoneRange] | None = None
    weights: ZoneWeights | None = None
    has_endpoints: bool = True
    beside_subsetting: bool = False
    hints_settings: HintsSettings | None = None
    is_suspended: bool = False
    targets: Targets | None = field(default=None, compare=False, repr=False)

    @property
    def asked_for(self) -> str | None:
        """``<approach>/<heuristic>`` that the Service asks for, in force or not; None where it asks for none."""
        return f"{self.approach}/{self.heuristic}" if self.heuristic else None

    @property
    def in_force(self) -> str | None:
        """``<approach>/<heuristic>`` that is in force, or None where nothing is."""
        return self.asked_for if self.active else None

    @property
    def remembered(self) -> str | None:
        """What slices remember about it: what is in force, or was before it was suspended."""
        return f"{names.SUSPENDED_PREFIX}{self.asked_for}" if self.is_suspended else self.in_force

    @property
    def has_slice_groups(self) -> bool:
        """Whether zones have separate EndpointSlices, instead of hints."""
        return self.targets is not None and self.targets.encoding == "slice-groups"

    def has_same_outcome(self, other: "Decision") -> bool:
        """Whether slices need no change between two decisions about the same endpoints, and the reason is the same."""
        values, others = (
            (decision.active, decision.reason, decision.remembered, decision.weights, decision.ranges)
            for decision in (self, other)
        )
        if values != others or (self.targets is None) != (other.targets is None):
            return False
        return self.targets is None or other.targets is None or self.targets.is_equal(other.targets)
