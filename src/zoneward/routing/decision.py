"""One decision: what a Service gets in one address family, and every rule that led there."""

from dataclasses import dataclass, field

from zoneward.kube.objects import Hints
from zoneward.routing.allocation import Allocation
from zoneward.routing.configuration import HintsSettings
from zoneward.routing.late import Late
from zoneward.routing.placement.assignment import Assignment
from zoneward.routing.placement.groups import Group
from zoneward.routing.request.approach import Approach
from zoneward.routing.rules import Reason, Rule
from zoneward.routing.upstream_ranges import ZoneRange


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Approach, allocation and reason for one Service and address family.

    ``hints`` and ``groups`` stand in the order of the endpoints that were given. Where the decision is not active, all
    are None, and so is ``allocation``; a decision sets hints, or says which slice group each endpoint belongs to (None
    for the slices that all zones consume). Both are made from ``assignment`` when they are first asked for, which must
    be before the endpoints change. ``endpoints`` counts the ready ones, and ``has_endpoints`` tells whether there are
    any, ready or not; ``moved`` those that now serve other zones than before. ``ranges`` are upstream's bounds per
    zone, set only where upstream's own way of hinting is still to be taken. ``hints_settings`` are those that hints
    were balanced by.
    """

    approach: Approach
    heuristic: str | None
    active: bool
    reason: Reason
    message: str
    endpoints: int
    allocation: Allocation | None
    hints: Late[tuple[Hints | None, ...]] = Late()  # noqa: RUF009 -- a descriptor
    rules: tuple[Rule, ...]
    groups: Late[tuple[Group | None, ...] | None] = Late(None)  # noqa: RUF009
    moved: int = 0
    accepted: bool | None = None
    accepted_reason: Reason = Reason.ACCEPTED
    accepted_message: str = ""
    ranges: dict[str, ZoneRange] | None = None
    has_endpoints: bool = True
    hints_settings: HintsSettings | None = None
    assignment: Assignment | None = field(default=None, compare=False, repr=False)

    @property
    def asked_for(self) -> str | None:
        """``<approach>/<heuristic>`` that the Service asks for, in force or not; None where it asks for none."""
        return f"{self.approach}/{self.heuristic}" if self.heuristic else None

    @property
    def in_force(self) -> str | None:
        """What slices remember about it: ``<approach>/<heuristic>``, or None where nothing is in force."""
        return self.asked_for if self.active else None
