"""Reads a play's file, ``kind: Play``. docs/plays.md describes all fields."""

import re
from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from zoneward.kube.formats import in_milli, parse_quantity
from zoneward.kube.input_error import InputError, show
from zoneward.kube.schema import field_mismatch
from zoneward.kube.settings import parse_duration
from zoneward.sandbox.durations import parse_span

MAX_REPLICAS: Final = 5_000
MAX_NODES: Final = 1_000

# --- the types of values ----------------------------------------------------------------------------------------------


if TYPE_CHECKING:
    Seconds = float
    Interval = float
    MilliCpu = int
    SpanText = str
else:
    # `_parse` creates these for msgspec. An interval is above 0.
    Seconds, Interval = type("Seconds", (float,), {}), type("Interval", (float,), {})
    MilliCpu, SpanText = type("MilliCpu", (int,), {}), type("SpanText", (str,), {})
_Name = Annotated[
    str,
    Meta(
        pattern="^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$",
        description="a name of at most 40 characters: small letters, digits and dashes between them",
    ),
]
_Zone = Annotated[
    str, Meta(pattern="^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$", description="a zone, as the value of a label")
]
_Replicas = Annotated[int, Meta(ge=0, le=MAX_REPLICAS)]
_Percent = Annotated[str, Meta(pattern="^[0-9]{1,3}%$", description="a percentage such as 25%")]
_TIME: Final = "a time such as 90s, 1m30s or 250ms"


def _parse(type_: Any, value: object) -> Any:
    """Decoder hook of msgspec, which adds the path to a ValueError. A bare number is seconds."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    text = f"{value:f}s" if is_number else value if isinstance(value, str) else ""
    try:
        if type_ is MilliCpu:
            milli = in_milli(parse_quantity(text.removesuffix("s")))
            if not 0 < milli <= 10**7:
                raise ValueError
            return MilliCpu(milli)
        longest = parse_span(text).most if type_ is SpanText else parse_duration(text)
    except ValueError as error:
        expected = {MilliCpu: "CPUs such as 4 or 250m", SpanText: str(error)}.get(type_, _TIME)
        raise ValueError(f"expected {expected}, got {show(value)}") from None
    if longest > 10 * 365 * 86_400 or (not longest and type_ is not Seconds):
        raise ValueError(f"expected a time above 0 and of no more than ten years, got {show(value)}")
    return type_(text if type_ is SpanText else longest)


# --- the fields -------------------------------------------------------------------------------------------------------


class _Fields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    pass


class NodeGroup(_Fields, frozen=True, kw_only=True):
    """Equal nodes of one zone: ``<name>-1`` and so on."""

    zone: _Zone
    name: _Name = ""
    count: Annotated[int, Meta(ge=1, le=MAX_NODES)] = 1
    cpu: MilliCpu = 4_000
    """Allocatable, in thousandths of a CPU."""

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
    """The Service of a workload, with the same name."""

    annotations: dict[str, str] = field(default_factory=dict)
    traffic_distribution: str = ""


class Workload(_Fields, frozen=True, kw_only=True):
    """A number of equal pods, like a Deployment, a kind that the sandbox does not serve."""

    name: _Name
    namespace: _Name = "default"
    replicas: _Replicas = 1
    cpu: MilliCpu = 100
    """The request of a pod, in thousandths of a CPU."""
    spread: Literal["even", "random"] = "even"
    rollout: RollingUpdate = RollingUpdate()
    startup: SpanText = "5s-10s"
    """From the creation of a pod until it is ready."""
    termination: SpanText = "2s-5s"
    """From the deletion until it is gone."""
    service: WorkloadService | None = None

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}"


class NodeSelection(_Fields, frozen=True, kw_only=True):
    """Nodes by name, or of a zone: all of them, or the ``count`` newest."""

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
    """Set the replicas of a workload: at once, or evenly within a time, as an autoscaler would."""

    workload: str
    replicas: _Replicas
    over: Seconds = 0.0


class RollOut(_Fields, frozen=True, kw_only=True):
    """Replace all pods, a few at a time."""

    workload: str


class Flap(_Fields, frozen=True, kw_only=True):
    """Some ready pods alternate between unready and ready, for half a period each."""

    workload: str
    pods: Annotated[int, Meta(ge=1)] = 1
    period: Interval = 20.0
    duration: Interval = field(name="for", default=60.0)


class Outage(NodeSelection, frozen=True, kw_only=True):
    """The kubelets of nodes stop."""

    duration: Interval | None = field(name="for", default=None)
    """None: without an end."""
    noticed_after: Seconds = 40.0
    """Seconds until the Node is ``Unknown`` and its pods are not ready (grace period of kube-controller-manager)."""
    evicted_after: Seconds = 300.0
    """Seconds from then until the pods are deleted and replaced (``tolerationSeconds`` of a pod)."""


StepAction = Scale | RollOut | Flap | Outage | NodeGroup | NodeSelection


class Step(_Fields, frozen=True, kw_only=True):
    """An action at a time of the play."""

    at: Seconds
    every: Interval | None = None
    """Repeat after this time."""
    scale: Scale | None = None
    rollout: RollOut | None = None
    flap: Flap | None = None
    outage: Outage | None = None
    add_nodes: NodeGroup | None = None
    remove_nodes: NodeSelection | None = None

    def __post_init__(self) -> None:
        if len(actions := self._actions()) != 1:
            raise ValueError(f"expected one action, got {' and '.join(actions) or 'none'}")

    @property
    def action(self) -> StepAction:
        (action,) = self._actions().values()
        return action

    def _actions(self) -> dict[str, StepAction]:
        names = zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True)
        fields = {written: getattr(self, name) for name, written in names if name not in ("at", "every")}
        return {written: action for written, action in fields.items() if action is not None}


class Play(_Fields, frozen=True, kw_only=True):
    api_version: Literal["zoneward.dev/v1alpha1"]
    kind: Literal["Play"]
    seed: Annotated[int, Meta(ge=0)] = 1
    speed: Annotated[float, Meta(gt=0, le=100_000, description="a number above 0, at most 100000")] = 1
    """Seconds of the play per second."""
    nodes: tuple[NodeGroup, ...] = ()
    workloads: tuple[Workload, ...] = ()
    steps: tuple[Step, ...] = ()


# --- reading ----------------------------------------------------------------------------------------------------------


def read_play(file: str) -> Play:
    """Raises InputError with the file, the field, what was expected, and the value."""
    from zoneward.kube.yaml_documents import read_document

    return _play(file, read_document(file, what="play", most=1))


def play_from(source: str, data: bytes) -> Play:
    """A play from YAML; ``source`` names it in errors. Raises InputError."""
    from zoneward.kube.yaml_documents import one_document

    return _play(source, one_document(source, data))


def _play(source: str, document: object) -> Play:
    try:
        play = msgspec.convert(document, Play, dec_hook=_parse)
    except msgspec.ValidationError as error:
        raise InputError(source, str(field_mismatch(error, Play, document))) from None
    for path, expected, got in _problems(play):
        raise InputError(source, path, f"expected {expected}, got {got}")
    return play


def _problems(play: Play) -> Iterator[tuple[str, str, str]]:
    """Errors across fields of a play: the path, what was expected, and the value."""
    groups = [*play.nodes, *(step.add_nodes for step in play.steps if step.add_nodes is not None)]
    zones, stems = {group.zone for group in groups}, {group.prefix for group in groups}
    if (count := sum(group.count for group in play.nodes)) > MAX_NODES:
        yield "nodes", f"no more than {MAX_NODES} in all", str(count)
    paths = set[str]()
    for index, workload in enumerate(play.workloads):
        if workload.path in paths:
            yield f"workloads[{index}].name", "a unique name in its namespace", show(workload.name)
        paths.add(workload.path)
    for index, step in enumerate(play.steps):
        path, action = f"steps[{index}]", step.action
        if isinstance(action, Scale | RollOut | Flap) and action.workload not in paths:
            yield path, _one_of("workloads", paths), show(action.workload)
        if isinstance(action, NodeSelection):
            if action.zone and action.zone not in zones:
                yield path, _one_of("zones", zones), show(action.zone)
            for name in action.nodes:
                if name.rpartition("-")[0] not in stems:
                    yield path, _one_of("nodes", {f"{stem}-1" for stem in stems}), show(name)


def _one_of(what: str, known: set[str]) -> str:
    return f"one of the {what} ({', '.join(sorted(known)[:5]) or 'there are none'})"
