"""Where the controller reads figures of demand. `controller_program` connects the source."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from zoneward.kube.demand_figures import DemandFigures


class FiguresUnavailable(Exception):  # noqa: N818 -- named by what happened, as in `api_errors`
    """The source has no figures; the message has the reason on one line."""


@dataclass(frozen=True, slots=True)
class FiguresSource:
    """``read`` gets the names of the cluster's Nodes, whose figures count, and raises `FiguresUnavailable` where there
    are none; ``window`` is the time that they are about, in seconds."""

    read: Callable[[Collection[str]], Awaitable[DemandFigures]]
    window: float
