"""A play's file, ``kind: Play``, to a play. docs/plays.md has every field."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from zoneward.kube.document_fields import DocumentFields
from zoneward.kube.input_error import InputError, MalformedText, show
from zoneward.kube.input_files import read_small
from zoneward.kube.names import DOMAIN
from zoneward.sandbox.play.fleet import MOST_PODS
from zoneward.sandbox.play.forms import Form
from zoneward.sandbox.play.plays import (
    MAX_NODES,
    MAX_REPLICAS,
    STARTUP,
    TERMINATION,
    AddNodes,
    Autoscale,
    Drain,
    Flap,
    Happening,
    NodeGroup,
    Outage,
    Part,
    Play,
    Point,
    RemoveNodes,
    RollOut,
    Rollout,
    Scale,
    Service,
    Spread,
    Step,
    Wave,
    Which,
    Workload,
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
"""The fields of each mapping; those of a step are `STEP`, and one of the happenings."""
STEP: Final = ("at", "every", "until")
HAPPENINGS: Final = ("scale", "rollout", "autoscale", "flap", "outage", "drain", "addNodes", "removeNodes")
SERVED: Final = (
    ("v1", "Service"),
    ("v1", "Node"),
    ("v1", "Pod"),
    ("v1", "Event"),
    ("v1", "Namespace"),
    ("discovery.k8s.io/v1", "EndpointSlice"),
    ("events.k8s.io/v1", "Event"),
    ("coordination.k8s.io/v1", "Lease"),
)
"""What a whole manifest may be."""
_SERVERS_OWN: Final = ("resourceVersion", "uid", "generation", "creationTimestamp", "managedFields", "selfLink")
_CLUSTER_WIDE: Final = ("Node", "Namespace")


def read_play(file: str) -> Play:
    """Raises InputError with file, field, what was expected and what was there."""
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
    form = Form(fields, FIELDS[""])
    nodes = tuple(_group(item) for item in form.items("nodes", FIELDS["nodes"]))
    if sum(group.count for group in nodes) > MAX_NODES:
        raise fields.error("nodes", f"no more than {MAX_NODES} in all", str(sum(group.count for group in nodes)))
    workloads: dict[str, Workload] = {}
    for item in form.items("workloads", FIELDS["workloads"]):
        workload = _workload(item)
        if workload.path in workloads:
            raise item.fields.error("name", "a name of its own in its namespace", show(workload.name))
        workloads[workload.path] = workload
    steps = _Steps(workloads, nodes)
    items = [(item, Form(item, (*STEP, *HAPPENINGS))) for item in fields.items("steps")]
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


def _group(form: Form) -> NodeGroup:
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


def _workload(form: Form) -> Workload:
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
        spread=Spread(form.choice("spread", "even", list(Spread))),
        rollout=limits,
        startup=form.span("startup", STARTUP),
        termination=form.span("termination", TERMINATION),
        service=_service(form.inner("service", FIELDS["workloads.service"])) if "service" in form else None,
    )


def _service(form: Form) -> Service:
    return Service(
        port=form.whole("port", 80, least=1, most=65_535),
        annotations=form.strings("annotations"),
        traffic_distribution=form.text("trafficDistribution", ""),
    )


def _part(form: Form, name: str, *, most: int | None) -> Part:
    value = form.fields.raw(name)
    if value is None:
        return Part(25, is_percent=True)
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    match = re.fullmatch(r"([0-9]{1,4})(%?)", text, re.ASCII)
    if match is None or (match[2] and int(match[1]) > (most or 9_999)):
        raise form.wrong(name, "pods such as 1, or a part of them such as 25%")
    return Part(int(match[1]), is_percent=bool(match[2]))


def _object(fields: DocumentFields) -> dict[str, Any]:
    api, kind = fields.required("apiVersion"), fields.required("kind")
    if (api, kind) not in SERVED:
        known = ", ".join(dict.fromkeys(kind for _, kind in SERVED))
        raise fields.error("kind", f"a kind that the sandbox serves ({known})", show(f"{api} {kind}"))
    metadata = fields.inner("metadata")
    metadata.required("name")
    thing: dict[str, Any] = {name: fields.raw(name) for name in fields.names()}
    # What kubectl printed is as good as what somebody wrote.
    kept = {name: metadata.raw(name) for name in metadata.names() if name not in _SERVERS_OWN}
    if kind not in _CLUSTER_WIDE:
        kept["namespace"] = metadata.text("namespace") or "default"
    return thing | {"metadata": kept}


# --- steps ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Steps:
    """What steps may name: workloads, zones and nodes of the play."""

    workloads: Mapping[str, Workload]
    groups: tuple[NodeGroup, ...]

    @property
    def zones(self) -> list[str]:
        return list(dict.fromkeys(group.zone for group in self.groups))

    def note_groups(self, form: Form) -> None:
        """Nodes that come later count as well."""
        if "addNodes" in form:
            self.groups += (_group(form.inner("addNodes", FIELDS["addNodes"])),)

    def step(self, form: Form) -> Step:
        found = [name for name in HAPPENINGS if name in form]
        if len(found) != 1:
            got = " and ".join(found) or "none"
            raise form.fields.error("", f"one of {', '.join(HAPPENINGS)}", got)
        readers: dict[str, Callable[[Form], Happening]] = {
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
        return Step(
            at=form.seconds("at"),
            every=form.maybe_seconds("every", above=0),
            until=form.maybe_seconds("until"),
            happening=readers[name](form.inner(name, FIELDS[name])),
        )

    def _scale(self, form: Form) -> Scale:
        replicas = form.whole("replicas", None, least=0, most=MAX_REPLICAS)
        return Scale(workload=self._workload(form), replicas=replicas)

    def _autoscale(self, form: Form) -> Autoscale:
        if ("points" in form) == ("wave" in form):
            raise form.fields.error("", "either points or wave", "both" if "wave" in form else "none")
        points = tuple(
            Point(item.seconds("at"), item.whole("replicas", None, least=0, most=MAX_REPLICAS))
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
    def _wave(form: Form) -> Wave:
        low = form.whole("low", None, least=0, most=MAX_REPLICAS)
        high = form.whole("high", None, least=low, most=MAX_REPLICAS)
        return Wave(low=low, high=high, period=form.seconds("period", above=0))

    def _flap(self, form: Form) -> Flap:
        return Flap(
            workload=self._workload(form),
            pods=form.whole("pods", 1, least=1, most=MAX_REPLICAS),
            period=form.seconds("period", 20, above=0),
            duration=form.seconds("for", 60, above=0),
        )

    def _outage(self, form: Form) -> Outage:
        return Outage(
            which=self._which(form),
            duration=form.maybe_seconds("for", above=0),
            noticed_after=form.seconds("noticedAfter", 40),
            evicted_after=form.seconds("evictedAfter", 300),
        )

    def _workload(self, form: Form) -> str:
        text = form.fields.text("workload")
        path = text if "/" in text else f"default/{text}"
        if path not in self.workloads:
            raise form.wrong("workload", _one_of("workloads", self.workloads))
        return path

    def _which(self, form: Form) -> Which:
        names = form.fields.texts("nodes")
        if bool(names) == ("zone" in form) or (names and "count" in form):
            raise form.fields.error("", "either zone, with or without count, or nodes", "none" if not names else "both")
        for i, name in enumerate(names):
            stem, _, number = name.rpartition("-")
            if not number.isdigit() or all(group.name != stem for group in self.groups):
                expected = _one_of("nodes", [f"{group.name}-1" for group in self.groups])
                raise form.fields.error(f"nodes[{i}]", expected, show(name))
        if names:
            return Which(nodes=names)
        zone = form.zone("zone")
        if zone not in self.zones:
            raise form.wrong("zone", _one_of("zones", self.zones))
        count = form.whole("count", 1, least=1, most=MAX_NODES) if "count" in form else None
        return Which(zone=zone, count=count)


def _one_of(what: str, known: Mapping[str, object] | list[str]) -> str:
    listed = ", ".join(list(known)[:5]) + (", ..." if len(known) > 5 else "")
    return f"one of the {what} ({listed or 'there are none'})"
