"""A play's file, ``kind: Play``, to a play. docs/plays.md has every field."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from zoneward.kube import formats, quantity
from zoneward.kube.document_fields import DocumentFields
from zoneward.kube.input_error import InputError, MalformedText, show
from zoneward.kube.input_files import read_small
from zoneward.kube.names import DOMAIN
from zoneward.sandbox.durations import EXPECTED_SPAN, Span, parse_duration, parse_span
from zoneward.sandbox.play.node_pool import MOST_PODS
from zoneward.sandbox.play.play_model import (
    MAX_NODES,
    MAX_REPLICAS,
    STARTUP,
    TERMINATION,
    AddNodes,
    Autoscale,
    CountOrPercent,
    CurvePoint,
    Drain,
    Flap,
    NodeGroup,
    NodeSelection,
    Outage,
    Play,
    PlayStep,
    PodSpread,
    RemoveNodes,
    RollOut,
    Rollout,
    Scale,
    StepAction,
    Wave,
    Workload,
    WorkloadService,
)

API_VERSION: Final = f"{DOMAIN}/v1alpha1"
_LARGEST: Final = 1 << 20
"""Bytes: manifests for a small cluster have room."""

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("apiVersion", "kind", "seed", "speed", "events", "nodes", "workloads", "objects", "steps"),
    "nodes": ("zone", "region", "name", "count", "cpu", "pods", "labels"),
    "workloads": (
        "name",
        "namespace",
        "replicas",
        "labels",
        "port",
        "cpu",
        "zones",
        "spread",
        "rollout",
        "startup",
        "termination",
        "service",
    ),
    "workloads.rollout": ("maxSurge", "maxUnavailable"),
    "workloads.service": ("port", "annotations", "trafficDistribution"),
    "scale": ("workload", "replicas"),
    "rollout": ("workload",),
    "autoscale": ("workload", "points", "wave", "noise", "each", "for"),
    "autoscale.points": ("at", "replicas"),
    "autoscale.wave": ("low", "high", "period"),
    "flap": ("workload", "pods", "period", "for"),
    "outage": ("zone", "count", "nodes", "for", "noticedAfter", "evictedAfter"),
    "drain": ("zone", "count", "nodes", "for"),
    "addNodes": ("zone", "region", "name", "count", "cpu", "pods", "labels"),
    "removeNodes": ("zone", "count", "nodes"),
}
"""The fields of each mapping; a step has those of `STEP`, and one of `STEP_ACTIONS`."""
STEP: Final = ("at", "every", "until")
STEP_ACTIONS: Final = ("scale", "rollout", "autoscale", "flap", "outage", "drain", "addNodes", "removeNodes")
SERVED: Final = (
    ("v1", "Service"),
    ("v1", "Node"),
    ("v1", "Pod"),
    ("v1", "Event"),
    ("v1", "Namespace"),
    ("v1", "Endpoints"),
    ("discovery.k8s.io/v1", "EndpointSlice"),
    ("events.k8s.io/v1", "Event"),
    ("coordination.k8s.io/v1", "Lease"),
)
"""What a whole manifest may be."""
_SERVERS_OWN: Final = ("resourceVersion", "uid", "generation", "creationTimestamp", "managedFields", "selfLink")
_CLUSTER_WIDE: Final = ("Node", "Namespace")


# --- fields of the file -----------------------------------------------------------------------------------------------

_Value = TypeVar("_Value")
_LONGEST = 10 * 365 * 86_400.0


class PlayFields:
    """A mapping with a known set of fields. Every method raises InputError, as those of `DocumentFields` do."""

    def __init__(self, fields: DocumentFields, known: Sequence[str]) -> None:
        self.fields = fields
        for name in fields.names():
            if name not in known:
                raise fields.error("", f"one of {', '.join(known)}", show(name))

    def __contains__(self, name: str) -> bool:
        return self.fields.raw(name) is not None

    def wrong(self, name: str, expected: str) -> Exception:
        value = self.fields.raw(name)
        return self.fields.error(name, expected, "none" if value is None else show(value))

    def text(self, name: str, default: str) -> str:
        return self.fields.text(name) or default

    def flag(self, name: str, *, default: bool) -> bool:
        return self.fields.flag(name) if name in self else default

    def whole(self, name: str, default: int | None, *, least: int, most: int) -> int:
        """A whole number; without a default it is required."""
        value = self.fields.raw(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.wrong(name, f"a whole number from {least} to {most}")
        return value

    def number(self, name: str, default: float, *, most: float) -> float:
        """Above 0."""
        value = self.fields.raw(name)
        if value is None:
            return default
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= most:
            raise self.wrong(name, f"a number above 0, up to {most:g}")
        return float(value)

    def seconds(self, name: str, default: float | None = None, *, above: float | None = None) -> float:
        """A time; a bare number is seconds. Without a default it is required."""
        if name not in self and default is not None:
            return default
        value = self._parsed(name, parse_duration)
        if above is not None and value <= above:
            raise self.wrong(name, f"a time above {above:g}")
        return value

    def maybe_seconds(self, name: str, *, above: float | None = None) -> float | None:
        return self.seconds(name, above=above) if name in self else None

    def span(self, name: str, default: Span) -> Span:
        if name not in self:
            return default
        span = self._parsed(name, parse_span)
        if span.most <= 0:
            raise self.wrong(name, EXPECTED_SPAN)
        return span

    def cpu(self, name: str, default: int) -> int:
        """Thousandths."""
        value = self.fields.raw(name)
        if value is None:
            return default
        try:
            milli = quantity.in_milli(quantity.parse(value)) if isinstance(value, str | int | float) else 0
        except ValueError:
            milli = 0
        if isinstance(value, bool) or not 0 < milli <= 10**7:
            raise self.wrong(name, "CPUs such as 4 or 250m")
        return milli

    def choice(self, name: str, default: str, choices: Iterable[str]) -> str:
        value = self.text(name, default)
        listed = list(choices)
        if value not in listed:
            raise self.wrong(name, f"one of {', '.join(listed)}")
        return value

    def label(self, name: str, default: str | None) -> str:
        """A DNS label, short enough for names made of it; without a default it is required."""
        value = self.text(name, default or "")
        if len(value) > 40 or next(formats.label_problems(value), None):
            raise self.wrong(name, "lower case letters, digits and '-', 1 to 40 of them")
        return value

    def zone(self, name: str) -> str:
        return self._zone(name, self.fields.text(name))

    def zones(self, name: str) -> tuple[str, ...]:
        return tuple(self._zone(f"{name}[{i}]", zone) for i, zone in enumerate(self.fields.texts(name)))

    def labels(self, name: str) -> dict[str, str]:
        found = self.strings(name)
        inner = self.fields.inner(name)
        for key, value in found.items():
            if next(formats.qualified_name_problems(key), None):
                raise inner.error("", "keys that labels can have", show(key))
            if next(formats.label_value_problems(value), None):
                raise inner.error(key, "a value that labels can have", show(value))
        return found

    def strings(self, name: str) -> dict[str, str]:
        inner = self.fields.inner(name)
        return {key: inner.text(key) for key in inner.names()}

    def inner(self, name: str, known: Sequence[str]) -> "PlayFields":
        return PlayFields(self.fields.inner(name), known)

    def items(self, name: str, known: Sequence[str]) -> Iterator["PlayFields"]:
        return (PlayFields(item, known) for item in self.fields.items(name))

    def _zone(self, name: str, zone: str) -> str:
        if not zone or next(formats.label_value_problems(zone), None):
            raise self.fields.error(name, "the name of a zone", show(zone) if zone else "none")
        return zone

    def _parsed(self, name: str, parse: Callable[[str], _Value]) -> _Value:
        value = self.fields.raw(name)
        text = f"{value:f}s" if isinstance(value, int | float) and not isinstance(value, bool) else value
        try:
            parsed = parse(text if isinstance(text, str) else "")
        except ValueError as error:
            raise self.wrong(name, str(error)) from None
        longest = parsed.most if isinstance(parsed, Span) else parsed
        if isinstance(longest, float) and longest > _LONGEST:
            raise self.wrong(name, "a time of no more than ten years")
        return parsed


# --- the file ---------------------------------------------------------------------------------------------------------


def read_play(file: str) -> Play:
    """Raises InputError with the file, the field, what was expected and what was found."""
    try:
        data = read_small(file, most=_LARGEST)
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise InputError(file, f"expected a readable file, got: {problem}") from None
    if len(data) > _LARGEST:
        raise InputError(file, "expected a play, got more than 1 MiB")
    return play_from(file, data)


def play_from(source: str, data: bytes) -> Play:
    """A play from YAML; ``source`` is what errors call it. Raises InputError."""
    from zoneward.kube.yaml_documents import whole_documents

    try:
        documents = whole_documents(data)
    except MalformedText as error:
        raise InputError(source, f"line {error.line}, column {error.column}", error.problem) from None
    if len(documents) != 1:
        raise InputError(source, f"expected one document, got {len(documents) or 'none'}")
    return _play(DocumentFields(documents[0], source=source))


def _play(fields: DocumentFields) -> Play:
    for name, value in (("apiVersion", API_VERSION), ("kind", "Play")):
        if fields.raw(name) != value:
            raise fields.error(name, value, "none" if fields.raw(name) is None else show(fields.raw(name)))
    form = PlayFields(fields, FIELDS[""])
    nodes = tuple(_group(item) for item in form.items("nodes", FIELDS["nodes"]))
    if sum(group.count for group in nodes) > MAX_NODES:
        raise fields.error("nodes", f"no more than {MAX_NODES} in all", str(sum(group.count for group in nodes)))
    workloads: dict[str, Workload] = {}
    for item in form.items("workloads", FIELDS["workloads"]):
        workload = _workload(item)
        if workload.path in workloads:
            raise item.fields.error("name", "a name of its own in its namespace", show(workload.name))
        workloads[workload.path] = workload
    steps = _StepReader(workloads, nodes)
    items = [(item, PlayFields(item, (*STEP, *STEP_ACTIONS))) for item in fields.items("steps")]
    for _, item_form in items:
        steps.note_groups(item_form)
    for number, item in enumerate(form.items("workloads", FIELDS["workloads"])):
        for place, zone in enumerate(item.zones("zones")):
            if zone not in steps.zones:
                raise fields.error(f"workloads[{number}].zones[{place}]", _one_of("zones", steps.zones), show(zone))
    return Play(
        source=fields.source,
        seed=form.whole("seed", 1, least=0, most=1 << 53),
        speed=form.number("speed", 1, most=100_000),
        events=form.flag("events", default=True),
        nodes=nodes,
        workloads=tuple(workloads.values()),
        objects=tuple(_object(item) for item in fields.items("objects")),
        steps=tuple(steps.step(item_form) for _, item_form in items),
    )


def _group(form: PlayFields) -> NodeGroup:
    zone = form.zone("zone")
    lettered = re.fullmatch(r"(.*[0-9])[a-z]", zone)
    default = re.sub("[^a-z0-9-]+", "-", zone.lower()).strip("-")[:40].strip("-")
    return NodeGroup(
        name=form.label("name", default),
        zone=zone,
        region=form.text("region", lettered[1] if lettered else zone),
        count=form.whole("count", 1, least=1, most=MAX_NODES),
        cpu=form.cpu("cpu", 4_000),
        pods=form.whole("pods", 110, least=1, most=MOST_PODS // 2),
        labels=form.labels("labels"),
    )


def _workload(form: PlayFields) -> Workload:
    name = form.label("name", None)
    rollout = form.inner("rollout", FIELDS["workloads.rollout"])
    limits = Rollout(
        max_surge=_part(rollout, "maxSurge", most=None), max_unavailable=_part(rollout, "maxUnavailable", most=100)
    )
    if not limits.max_surge.number and not limits.max_unavailable.number:
        raise rollout.fields.error("maxUnavailable", "more than 0, where maxSurge is 0", "0")
    return Workload(
        name=name,
        namespace=form.label("namespace", "default"),
        replicas=form.whole("replicas", 1, least=0, most=MAX_REPLICAS),
        labels=form.labels("labels") or {"app": name},
        port=form.whole("port", 8080, least=1, most=65_535),
        cpu=form.cpu("cpu", 100),
        zones=form.zones("zones"),
        spread=PodSpread(form.choice("spread", "even", list(PodSpread))),
        rollout=limits,
        startup=form.span("startup", STARTUP),
        termination=form.span("termination", TERMINATION),
        service=_service(form.inner("service", FIELDS["workloads.service"])) if "service" in form else None,
    )


def _service(form: PlayFields) -> WorkloadService:
    return WorkloadService(
        port=form.whole("port", 80, least=1, most=65_535),
        annotations=form.strings("annotations"),
        traffic_distribution=form.text("trafficDistribution", ""),
    )


def _part(form: PlayFields, name: str, *, most: int | None) -> CountOrPercent:
    value = form.fields.raw(name)
    if value is None:
        return CountOrPercent(25, is_percent=True)
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    match = re.fullmatch(r"([0-9]{1,4})(%?)", text, re.ASCII)
    if match is None or (match[2] and int(match[1]) > (most or 9_999)):
        raise form.wrong(name, "pods such as 1, or a part of them such as 25%")
    return CountOrPercent(int(match[1]), is_percent=bool(match[2]))


def _object(fields: DocumentFields) -> dict[str, Any]:
    api, kind = fields.required("apiVersion"), fields.required("kind")
    if (api, kind) not in SERVED:
        known = ", ".join(dict.fromkeys(kind for _, kind in SERVED))
        raise fields.error("kind", f"a kind that the sandbox serves ({known})", show(f"{api} {kind}"))
    metadata = fields.inner("metadata")
    metadata.required("name")
    thing: dict[str, Any] = {name: fields.raw(name) for name in fields.names()}
    # Output of kubectl is accepted: drop what only a server sets.
    kept = {name: metadata.raw(name) for name in metadata.names() if name not in _SERVERS_OWN}
    if kind not in _CLUSTER_WIDE:
        kept["namespace"] = metadata.text("namespace") or "default"
    return thing | {"metadata": kept}


# --- steps ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _StepReader:
    """What steps may name: workloads, zones and nodes of the play."""

    workloads: Mapping[str, Workload]
    groups: tuple[NodeGroup, ...]

    @property
    def zones(self) -> list[str]:
        return list(dict.fromkeys(group.zone for group in self.groups))

    def note_groups(self, form: PlayFields) -> None:
        """Nodes that come later count as well."""
        if "addNodes" in form:
            self.groups += (_group(form.inner("addNodes", FIELDS["addNodes"])),)

    def step(self, form: PlayFields) -> PlayStep:
        found = [name for name in STEP_ACTIONS if name in form]
        if len(found) != 1:
            got = " and ".join(found) or "none"
            raise form.fields.error("", f"one of {', '.join(STEP_ACTIONS)}", got)
        readers: dict[str, Callable[[PlayFields], StepAction]] = {
            "scale": self._scale,
            "rollout": lambda inner: RollOut(workload=self._workload(inner)),
            "autoscale": self._autoscale,
            "flap": self._flap,
            "outage": self._outage,
            "drain": lambda inner: Drain(which=self._which(inner), duration=inner.maybe_seconds("for", above=0)),
            "addNodes": lambda inner: AddNodes(group=_group(inner)),
            "removeNodes": lambda inner: RemoveNodes(which=self._which(inner)),
        }
        name = found[0]
        if "until" in form and "every" not in form:
            raise form.wrong("until", "it only together with every")
        return PlayStep(
            at=form.seconds("at"),
            every=form.maybe_seconds("every", above=0),
            until=form.maybe_seconds("until"),
            action=readers[name](form.inner(name, FIELDS[name])),
        )

    def _scale(self, form: PlayFields) -> Scale:
        replicas = form.whole("replicas", None, least=0, most=MAX_REPLICAS)
        return Scale(workload=self._workload(form), replicas=replicas)

    def _autoscale(self, form: PlayFields) -> Autoscale:
        if ("points" in form) == ("wave" in form):
            raise form.fields.error("", "either points or wave", "both" if "wave" in form else "none")
        points = tuple(
            CurvePoint(item.seconds("at"), item.whole("replicas", None, least=0, most=MAX_REPLICAS))
            for item in form.items("points", FIELDS["autoscale.points"])
        )
        for i in range(1, len(points)):
            if points[i].at <= points[i - 1].at:
                raise form.fields.error(f"points[{i}].at", "a time after that of the point before", "an earlier one")
        if "points" in form and not points:
            raise form.wrong("points", "a point at least")
        noise = form.fields.raw("noise")
        match = re.fullmatch(r"([0-9]{1,2}|100)%", noise, re.ASCII) if isinstance(noise, str) else None
        if noise is not None and match is None:
            raise form.wrong("noise", "a part such as 10%")
        return Autoscale(
            workload=self._workload(form),
            points=points,
            wave=self._wave(form.inner("wave", FIELDS["autoscale.wave"])) if "wave" in form else None,
            noise=int(match[1]) / 100 if match else 0,
            each=form.seconds("each", 30, above=0),
            duration=form.maybe_seconds("for", above=0),
        )

    @staticmethod
    def _wave(form: PlayFields) -> Wave:
        low = form.whole("low", None, least=0, most=MAX_REPLICAS)
        high = form.whole("high", None, least=low, most=MAX_REPLICAS)
        return Wave(low=low, high=high, period=form.seconds("period", above=0))

    def _flap(self, form: PlayFields) -> Flap:
        return Flap(
            workload=self._workload(form),
            pods=form.whole("pods", 1, least=1, most=MAX_REPLICAS),
            period=form.seconds("period", 20, above=0),
            duration=form.seconds("for", 60, above=0),
        )

    def _outage(self, form: PlayFields) -> Outage:
        return Outage(
            which=self._which(form),
            duration=form.maybe_seconds("for", above=0),
            noticed_after=form.seconds("noticedAfter", 40),
            evicted_after=form.seconds("evictedAfter", 300),
        )

    def _workload(self, form: PlayFields) -> str:
        text = form.fields.text("workload")
        path = text if "/" in text else f"default/{text}"
        if path not in self.workloads:
            raise form.wrong("workload", _one_of("workloads", self.workloads))
        return path

    def _which(self, form: PlayFields) -> NodeSelection:
        names = form.fields.texts("nodes")
        if bool(names) == ("zone" in form) or (names and "count" in form):
            raise form.fields.error("", "either zone, with or without count, or nodes", "none" if not names else "both")
        for i, name in enumerate(names):
            stem, _, number = name.rpartition("-")
            if not number.isdigit() or all(group.name != stem for group in self.groups):
                expected = _one_of("nodes", [f"{group.name}-1" for group in self.groups])
                raise form.fields.error(f"nodes[{i}]", expected, show(name))
        if names:
            return NodeSelection(nodes=names)
        zone = form.zone("zone")
        if zone not in self.zones:
            raise form.wrong("zone", _one_of("zones", self.zones))
        count = form.whole("count", 1, least=1, most=MAX_NODES) if "count" in form else None
        return NodeSelection(zone=zone, count=count)


def _one_of(what: str, known: Mapping[str, object] | list[str]) -> str:
    listed = ", ".join(list(known)[:5]) + (", ..." if len(known) > 5 else "")
    return f"one of the {what} ({listed or 'there are none'})"
