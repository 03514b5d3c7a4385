"""What is played: nodes, workloads, and what happens to them when. Values only; times are seconds of the play."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from zoneward.sandbox.durations import Span

Object = dict[str, Any]

STARTUP: Final = Span(5, 10)
TERMINATION: Final = Span(2, 5)
MAX_REPLICAS: Final = 5_000
MAX_NODES: Final = 1_000
"""At the same time."""


class PodSpread(StrEnum):
    """On which nodes the pods of a workload go."""

    EVEN = "even"
    """To the zone with the fewest of them, and in it to the node with the fewest."""
    RANDOM = "random"
    PACKED = "packed"
    """To the fullest node that has room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes of one zone that are alike. They are called ``<name>-1`` and so on."""

    name: str
    zone: str
    region: str
    count: int = 1
    cpu: int = 4_000
    """Allocatable, in thousandths of a CPU."""
    pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CountOrPercent:
    """So many, or so many of a hundred."""

    number: int
    is_percent: bool = False

    def of(self, replicas: int, *, rounded_up: bool) -> int:
        if not self.is_percent:
            return self.number
        return (self.number * replicas + (99 if rounded_up else 0)) // 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """As ``spec.strategy.rollingUpdate`` of a Deployment."""

    max_surge: CountOrPercent = CountOrPercent(25, is_percent=True)
    max_unavailable: CountOrPercent = CountOrPercent(25, is_percent=True)

    def bounds(self, replicas: int) -> tuple[int, int]:
        """The pods allowed above ``replicas``, and the ready pods allowed below; never both 0: a rollout would hang."""
        surge = self.max_surge.of(replicas, rounded_up=True)
        unavailable = self.max_unavailable.of(replicas, rounded_up=False)
        return surge, unavailable if surge or unavailable else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadService:
    """In front of a workload, with its name."""

    port: int = 80
    annotations: Mapping[str, str] = field(default_factory=dict)
    traffic_distribution: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Pods that are alike, held at a number: a Deployment, but the sandbox serves no such kind."""

    name: str
    namespace: str = "default"
    replicas: int = 1
    labels: Mapping[str, str]
    port: int = 8080
    cpu: int = 100
    """The request of a pod, in thousandths of a CPU."""
    zones: tuple[str, ...] = ()
    """Where its pods may be; empty: anywhere."""
    spread: PodSpread = PodSpread.EVEN
    rollout: Rollout = Rollout()
    startup: Span = STARTUP
    """From a pod's node until it is ready."""
    termination: Span = TERMINATION
    """From the deletion until it is gone."""
    service: WorkloadService | None = None

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}"


# --- what happens -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelection:
    """Nodes: by name, or of a zone, all of them or ``count``, the newest first."""

    zone: str = ""
    nodes: tuple[str, ...] = ()
    count: int | None = None

    def __str__(self) -> str:
        if self.nodes:
            return f"node{'s' * (len(self.nodes) > 1)} {', '.join(self.nodes)}"
        return f"zone {self.zone}" if self.count is None else f"zone {self.zone}, {self.count} of its nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Ends autoscaling of the workload."""

    workload: str
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RollOut:
    """Every pod is replaced, a few at a time."""

    workload: str


@dataclass(frozen=True, slots=True)
class CurvePoint:
    at: float
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """A sine that begins at its lowest."""

    low: int
    high: int
    period: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscale:
    """Replicas follow a curve: straight lines between points, or a wave. Times count from the step."""

    workload: str
    points: tuple[CurvePoint, ...] = ()
    wave: Wave | None = None
    noise: float = 0
    """Up to this part more or less."""
    each: float = 30
    duration: float | None = None
    """None: to the last point; a wave never ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flap:
    """Some ready pods are ready for half a period and not for the other half."""

    workload: str
    pods: int = 1
    period: float = 20
    duration: float = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Nodes fall silent."""

    which: NodeSelection
    duration: float | None = None
    """None: for good."""
    noticed_after: float = 40
    """Until the Node is ``Unknown`` and its pods are not ready (kube-controller-manager's grace period)."""
    evicted_after: float = 300
    """From then until the pods are deleted, and so replaced (a pod's ``tolerationSeconds``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Nodes take no more pods and lose those they have."""

    which: NodeSelection
    duration: float | None = None
    """None: they stay cordoned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddNodes:
    group: NodeGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveNodes:
    """Drained, then deleted."""

    which: NodeSelection


StepAction = Scale | RollOut | Autoscale | Flap | Outage | Drain | AddNodes | RemoveNodes


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayStep:
    at: float
    every: float | None = None
    """Again and again, this long after."""
    until: float | None = None
    """The last time that it may happen again."""
    action: StepAction


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    source: str = "play"
    """What errors call it."""
    seed: int = 1
    speed: float = 1
    """Seconds of the play in a second."""
    events: bool = True
    """Whether Events report what happens."""
    nodes: tuple[NodeGroup, ...] = ()
    workloads: tuple[Workload, ...] = ()
    objects: tuple[Object, ...] = ()
    """Whole manifests, created at the start."""
    steps: tuple[PlayStep, ...] = ()
