"""A play's file, ``kind: Play``: its fields, as values, and how it is read. docs/plays.md describes every field."""

import re
from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from zoneward.kube import quantity
from zoneward.kube.input_error import InputError, show
from zoneward.kube.names import DOMAIN
from zoneward.sandbox.durations import parse_duration, parse_span

MAX_REPLICAS: Final = 5_000
MAX_NODES: Final = 1_000

# --- the types of values ----------------------------------------------------------------------------------------------


if TYPE_CHECKING:
    Seconds = float
    Interval = float
    MilliCpu = int
    SpanText = str
else:
    # `_parse` makes these for msgspec. An interval is above 0.
    Seconds, Interval = type("Seconds", (float,), {}), type("Interval", (float,), {})
    MilliCpu, SpanText = type("MilliCpu", (int,), {}), type("SpanText", (str,), {})
_Name = Annotated[str, Meta(pattern="^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$")]
_Zone = Annotated[str, Meta(pattern="^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$")]
_Replicas = Annotated[int, Meta(ge=0, le=MAX_REPLICAS)]
_Percent = Annotated[str, Meta(pattern="^[0-9]{1,3}%$")]


def _parse(type_: Any, value: object) -> Any:
    """For msgspec, which adds the place to a ValueError. A bare number is seconds."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    text = f"{value:f}s" if is_number else value if isinstance(value, str) else ""
    try:
        if type_ is MilliCpu:
            milli = quantity.in_milli(quantity.parse(text.removesuffix("s")))
            if not 0 < milli <= 10**7:
                raise ValueError
            return MilliCpu(milli)
        longest = parse_span(text).most if type_ is SpanText else parse_duration(text)
    except ValueError as error:
        raise ValueError(f"Expected {'CPUs such as 4 or 250m' if type_ is MilliCpu else error}") from None
    if longest > 10 * 365 * 86_400 or (not longest and type_ is not Seconds):
        raise ValueError("Expected a time above 0 and of no more than ten years")
    return type_(text if type_ is SpanText else longest)


# --- the fields -------------------------------------------------------------------------------------------------------


class _Fields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    pass


class NodeGroup(_Fields, frozen=True, kw_only=True):
    """Equal nodes of one zone, called ``<name>-1`` and so on."""

    zone: _Zone
    name: _Name = ""
    count: Annotated[int, Meta(ge=1, le=MAX_NODES)] = 1
    cpu: MilliCpu = 4_000
    """Allocatable, in thousandths of a CPU."""
    pods: Annotated[int, Meta(ge=1, le=255)] = 110

    @property
    def prefix(self) -> str:
        return self.name or re.sub("[^a-z0-9-]+", "-", self.zone.lower()).strip("-")[:40].strip("-")

    @property
    def region(self) -> str:
        lettered = re.fullmatch(r"(.*[0-9])[a-z]", self.zone)
        return lettered[1] if lettered else self.zone


class RollingUpdate(_Fields, frozen=True, kw_only=True):
    """As ``spec.strategy.rollingUpdate`` of a Deployment."""

    max_surge: _Replicas | _Percent = "25%"
    max_unavailable: _Replicas | _Percent = "25%"

    def bounds(self, replicas: int) -> tuple[int, int]:
        """The pods allowed above ``replicas``, and the ready pods allowed below; never both 0: a rollout would hang."""
        surge, unavailable = (
            part if isinstance(part, int) else int(part[:-1]) * replicas / 100
            for part in (self.max_surge, self.max_unavailable)
        )
        return ceil(surge), int(unavailable) or (0 if surge else 1)


class WorkloadService(_Fields, frozen=True, kw_only=True):
    """In front of a workload, with its name."""

    annotations: dict[str, str] = field(default_factory=dict)
    traffic_distribution: str = ""


class Workload(_Fields, frozen=True, kw_only=True):
    """Equal pods, held at a number: a Deployment, but the sandbox serves no such kind."""

    name: _Name
    namespace: _Name = "default"
    replicas: _Replicas = 1
    cpu: MilliCpu = 100
    """The request of a pod, in thousandths of a CPU."""
    spread: Annotated[str, Meta(pattern="^(even|random)$")] = "even"
    rollout: RollingUpdate = RollingUpdate()
    startup: SpanText = "5s-10s"
    """From a pod's node until it is ready."""
    termination: SpanText = "2s-5s"
    """From the deletion until it is gone."""
    service: WorkloadService | None = None

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}"


class NodeSelection(_Fields, frozen=True, kw_only=True):
    """Nodes: by name, or of a zone, all of them or ``count``, the newest first."""

    zone: _Zone | None = None
    count: Annotated[int, Meta(ge=1)] | None = None
    nodes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.nodes) == bool(self.zone) or (self.nodes and self.count):
            raise ValueError("expected either zone, with or without count, or nodes")

    def __str__(self) -> str:
        if self.nodes:
            return f"node{'s' * (len(self.nodes) > 1)} {', '.join(self.nodes)}"
        return f"zone {self.zone}" if self.count is None else f"zone {self.zone}, {self.count} of its nodes"


class Scale(_Fields, frozen=True, kw_only=True):
    """Ends autoscaling of the workload."""

    workload: str
    replicas: _Replicas


class RollOut(_Fields, frozen=True, kw_only=True):
    """Every pod is replaced, a few at a time."""

    workload: str


class CurvePoint(_Fields, frozen=True, kw_only=True):
    at: Seconds
    replicas: _Replicas


class Wave(_Fields, frozen=True, kw_only=True):
    """A sine that begins at ``low``."""

    low: _Replicas
    high: _Replicas
    period: Interval


class Autoscale(_Fields, frozen=True, kw_only=True):
    """Replicas follow a curve from the step on: straight lines between points, or a wave without an end."""

    workload: str
    points: tuple[CurvePoint, ...] = ()
    wave: Wave | None = None
    noise: _Percent = "0%"
    """Up to this part more or less."""
    each: Interval = 30.0

    def __post_init__(self) -> None:
        if bool(self.points) == (self.wave is not None):
            raise ValueError("expected either points or wave")
        if any(after.at <= before.at for before, after in zip(self.points, self.points[1:], strict=False)):
            raise ValueError("expected points in the order of their times")


class Flap(_Fields, frozen=True, kw_only=True):
    """Some ready pods are ready for half a period and not for the other half."""

    workload: str
    pods: Annotated[int, Meta(ge=1)] = 1
    period: Interval = 20.0
    duration: Interval = field(name="for", default=60.0)


class Outage(NodeSelection, frozen=True, kw_only=True):
    """Nodes fall silent."""

    duration: Interval | None = field(name="for", default=None)
    """None: for good."""
    noticed_after: Seconds = 40.0
    """Until the Node is ``Unknown`` and its pods are not ready (kube-controller-manager's grace period)."""
    evicted_after: Seconds = 300.0
    """From then until the pods are deleted, and so replaced (a pod's ``tolerationSeconds``)."""


class Drain(NodeSelection, frozen=True, kw_only=True):
    """Nodes are cordoned, and their pods are deleted."""

    duration: Interval | None = field(name="for", default=None)
    """Until they are uncordoned; None: never."""


StepAction = Scale | RollOut | Autoscale | Flap | Outage | Drain | NodeGroup | NodeSelection


class Step(_Fields, frozen=True, kw_only=True):
    """One of the actions, at a time."""

    at: Seconds
    every: Interval | None = None
    """Again and again, this long after."""
    scale: Scale | None = None
    rollout: RollOut | None = None
    autoscale: Autoscale | None = None
    flap: Flap | None = None
    outage: Outage | None = None
    drain: Drain | None = None
    add_nodes: NodeGroup | None = None
    remove_nodes: NodeSelection | None = None

    def __post_init__(self) -> None:
        names = [name for name in self.__struct_fields__ if name not in ("at", "every")]
        if len(found := [name for name in names if getattr(self, name) is not None]) != 1:
            raise ValueError(f"expected one action, got {' and '.join(found) or 'none'}")

    @property
    def action(self) -> StepAction:
        nodes = (self.outage, self.drain, self.add_nodes, self.remove_nodes)
        return next(each for each in (self.scale, self.rollout, self.autoscale, self.flap, *nodes) if each is not None)


class Play(_Fields, frozen=True, kw_only=True):
    api_version: Annotated[str, Meta(pattern=f"^{DOMAIN}/v1alpha1$")]
    kind: Annotated[str, Meta(pattern="^Play$")]
    seed: Annotated[int, Meta(ge=0)] = 1
    speed: Annotated[float, Meta(gt=0, le=100_000)] = 1
    """Seconds of the play in a second."""
    nodes: tuple[NodeGroup, ...] = ()
    workloads: tuple[Workload, ...] = ()
    steps: tuple[Step, ...] = ()


# --- reading ----------------------------------------------------------------------------------------------------------


def read_play(file: str) -> Play:
    """Raises InputError with the file, the field, what was expected and what was found."""
    from zoneward.kube.yaml_documents import read_document

    return _play(file, read_document(file, what="play", most=1))


def play_from(source: str, data: bytes) -> Play:
    """A play from YAML; ``source`` is what errors call it. Raises InputError."""
    from zoneward.kube.yaml_documents import one_document

    return _play(source, one_document(source, data))


def _play(source: str, document: object) -> Play:
    try:
        play = msgspec.convert(document, Play, dec_hook=_parse)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).replace("`", "").partition(" - at $")
        raise InputError(source, place.removeprefix("."), problem[0].lower() + problem[1:]) from None
    for place, expected, got in _problems(play):
        raise InputError(source, place, f"expected {expected}, got {got}")
    return play


def _problems(play: Play) -> Iterator[tuple[str, str, str]]:
    """What is wrong between parts of a play: the place, what was expected and what was found."""
    groups = [*play.nodes, *(step.add_nodes for step in play.steps if step.add_nodes is not None)]
    zones, stems = {group.zone for group in groups}, {group.prefix for group in groups}
    if (count := sum(group.count for group in play.nodes)) > MAX_NODES:
        yield "nodes", f"no more than {MAX_NODES} in all", str(count)
    paths = set[str]()
    for number, workload in enumerate(play.workloads):
        if workload.path in paths:
            yield f"workloads[{number}].name", "a name of its own in its namespace", show(workload.name)
        paths.add(workload.path)
    for number, step in enumerate(play.steps):
        place, action = f"steps[{number}]", step.action
        if isinstance(action, Scale | RollOut | Autoscale | Flap) and action.workload not in paths:
            yield place, _one_of("workloads", paths), show(action.workload)
        if isinstance(action, NodeSelection):
            if action.zone and action.zone not in zones:
                yield place, _one_of("zones", zones), show(action.zone)
            for name in action.nodes:
                if name.rpartition("-")[0] not in stems:
                    yield place, _one_of("nodes", {f"{stem}-1" for stem in stems}), show(name)


def _one_of(what: str, known: set[str]) -> str:
    return f"one of the {what} ({', '.join(sorted(known)[:5]) or 'there are none'})"
