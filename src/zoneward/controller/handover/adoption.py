"""The next step of taking one Service over from the built-in controller, or of giving it back: from what is there.

Nothing is remembered between steps, so that whoever is cut off, or meets others at work, goes on from where things
stand. Order is all that matters here:

- Adopting, the Endpoints object is labelled before the selector goes, or it would be mirrored into slices; our slices
  are all there before the built-in controller's go; and those are deleted, never relabelled: its tracker would wait for
  them for ever.
- Releasing, the built-in controller's slices list every ready endpoint before ours go, and the marks go last: with a
  selector beside its mark, anybody sees what is going on.

In between endpoints are listed twice, which costs no reachability; none is ever missing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import msgspec
from msgspec import structs

from zoneward.client.resources import LegacyEndpoints
from zoneward.kube import names
from zoneward.kube.adoption import (
    BEFORE_ANNOTATION,
    ENDPOINTS_ANNOTATION,
    MARKS,
    SELECTOR_ANNOTATION,
    SKIP_MIRROR_LABEL,
    as_mark,
    is_marked,
    selector_of,
)
from zoneward.kube.objects import EndpointSlice, Identity, Service, identity, is_ready
from zoneward.routing.rules import counted
from zoneward.slices.plan import ServicePlan
from zoneward.slices.ports import PortKey, port_key

Legacy = Literal["keep", "delete"]
"""What becomes of the Endpoints object."""
LEGACY: Final[tuple[Legacy, ...]] = ("keep", "delete")
_SKIPPED: Final = "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class There:
    """What is there: the Service, all slices that name it, and its Endpoints object. ``manager``: who writes ours, by
    the label, as `Configuration.manager` has it."""

    service: Service
    manager: str
    slices: tuple[EndpointSlice, ...] = ()
    endpoints: LegacyEndpoints | None = None

    @property
    def own(self) -> tuple[EndpointSlice, ...]:
        return self._by(self.manager)

    @property
    def built_in(self) -> tuple[EndpointSlice, ...]:
        return self._by(names.BUILT_IN_MANAGER)

    def _by(self, manager: str) -> tuple[EndpointSlice, ...]:
        return tuple(
            each for each in self.slices if (each.metadata.labels or {}).get(names.MANAGED_BY_LABEL) == manager
        )


Plan = Callable[[There], ServicePlan]
"""What the Service comes to, planned with the selector that it has or had."""

# --- steps ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChangeService:
    """A merge patch (RFC 7386), of this version of the Service only. ``about``: what it does, for people."""

    about: str
    change: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LabelEndpoints:
    about: str
    endpoints: LegacyEndpoints


@dataclass(frozen=True, slots=True)
class DeleteEndpoints:
    about: str
    endpoints: LegacyEndpoints


@dataclass(frozen=True, slots=True)
class WriteSlices:
    """Slices of ours; in this order: what adds endpoints comes before what takes some away."""

    about: str
    create: tuple[EndpointSlice, ...]
    update: tuple[EndpointSlice, ...]
    delete: tuple[EndpointSlice, ...]


@dataclass(frozen=True, slots=True)
class DeleteSlices:
    about: str
    slices: tuple[EndpointSlice, ...]


@dataclass(frozen=True, slots=True)
class Await:
    """Somebody else has to do something. ``then``: how things will be; ``otherwise``: what to do where nobody does."""

    about: str
    then: There
    otherwise: LabelEndpoints | None = None


@dataclass(frozen=True, slots=True)
class Done:
    about: str


Step = ChangeService | LabelEndpoints | DeleteEndpoints | WriteSlices | DeleteSlices | Await | Done
Following = Callable[[There], Step]

# --- adopting ---------------------------------------------------------------------------------------------------------


def refusal(service: Service) -> str | None:
    """Why a Service can be neither adopted nor released, as ``expected ..., got ...``; None where it can."""
    if service.metadata.deletion_timestamp is not None:
        return "expected a Service that stays, got one that is being deleted"
    if service.spec.type == "ExternalName":
        return "expected a Service with endpoints, got one of type ExternalName"
    if selector_of(service):
        return None
    if is_marked(service):
        return f"annotation {SELECTOR_ANNOTATION}: expected a JSON object of labels, got {_shown(service)}"
    return "expected a selector, got none: its EndpointSlices are managed by others"


def next_adoption(there: There, *, plan: Plan, legacy: Legacy) -> Step:
    """The next step to a Service of ours. Refused ones (`refusal`) are not asked about.

    ``plan`` is asked for only once the built-in controller has let go.
    """
    service = there.service
    if (missing := _marked(service, legacy)) is not None:
        return missing
    if not _is_skipped(there):
        return _label(there)
    if service.spec.selector:
        mark = {SELECTOR_ANNOTATION: as_mark(service.spec.selector)}
        about = f"move the selector into the annotation {SELECTOR_ANNOTATION}: the built-in controller lets go"
        return ChangeService(about, {"metadata": {"annotations": mark}, "spec": {"selector": None}})
    if (written := _written(there, plan(there))) is not None:
        return written
    if there.built_in:
        about = f"delete {counted(len(there.built_in), 'EndpointSlice')} of the built-in controller"
        return DeleteSlices(about, there.built_in)
    if legacy == "delete" and there.endpoints is not None:
        return DeleteEndpoints("delete the Endpoints object", there.endpoints)
    return Done(f"Zoneward has it, with {counted(len(there.own), 'EndpointSlice')}")


def _marked(service: Service, legacy: Legacy) -> ChangeService | None:
    """What the Service has to say before anything else happens; None where it says it."""
    labels, annotations = service.metadata.labels or {}, service.metadata.annotations or {}
    metadata: dict[str, dict[str, str]] = {}
    if labels.get(SKIP_MIRROR_LABEL) != _SKIPPED:
        metadata["labels"] = {SKIP_MIRROR_LABEL: _SKIPPED}
    marks: dict[str, str] = {ENDPOINTS_ANNOTATION: legacy}
    if BEFORE_ANNOTATION not in annotations and (service.spec.selector or "labels" in metadata):
        # A label that is there once the selector has gone may be ours or not: it stays.
        marks[BEFORE_ANNOTATION] = msgspec.json.encode({SKIP_MIRROR_LABEL: labels.get(SKIP_MIRROR_LABEL)}).decode()
    marks = {name: value for name, value in marks.items() if annotations.get(name) != value}
    if marks:
        metadata["annotations"] = marks
    about = f"label the Service {SKIP_MIRROR_LABEL}: {_SKIPPED!r}, and remember what was there before"
    if "labels" not in metadata:
        about = f"note {' and '.join(sorted(marks))}"
    return ChangeService(about, {"metadata": metadata}) if metadata else None


def _is_skipped(there: There) -> bool:
    """Whether nobody will make slices of the Endpoints object."""
    endpoints = there.endpoints
    return endpoints is None or (endpoints.metadata.labels or {}).get(SKIP_MIRROR_LABEL) == _SKIPPED


def _label(there: There) -> Step:
    assert there.endpoints is not None
    endpoints = there.endpoints
    label = LabelEndpoints("label the Endpoints object, which no controller did", endpoints)
    if not there.service.spec.selector:
        # Without a selector its controller no longer looks at it.
        return label
    return Await("the label to be on the Endpoints object", foreseen(there, label), otherwise=label)


def _written(there: There, plan: ServicePlan) -> WriteSlices | None:
    """What our slices lack; None where they are as planned."""
    ours = {each.metadata.name for each in there.own}
    create = tuple(each for family in plan.families for each in family.changes.create)
    update = tuple(each for family in plan.families for each in family.changes.update)
    gone = (*(each for family in plan.families for each in family.changes.delete), *plan.surplus)
    delete = tuple(each for each in gone if each.metadata.name in ours)
    if not (create or update or delete):
        return None
    number = sum(len(each.endpoints or ()) for each in (*create, *update))
    whole = counted(len(create) + len(update) + len(delete), "EndpointSlice")
    about = f"write {whole} of ours, with {counted(number, 'endpoint')}"
    return WriteSlices(about, create, update, delete)


# --- releasing --------------------------------------------------------------------------------------------------------


def next_release(there: There, *, plan: Plan) -> Step:
    """The next step to a Service that is the built-in controller's, as it was before. So is one whose selector came
    back by itself. Refused ones (`refusal`) are not asked about.
    """
    service = there.service
    if not service.spec.selector:
        selector = dict(selector_of(service) or {})
        about = "put the selector back: the built-in controller takes up the Service"
        return ChangeService(about, {"spec": {"selector": selector}})
    if there.own:
        wanted = [each for family in plan(there).families for each in family.changes.after]
        missing = _ready(wanted) - _ready(there.built_in)
        # None at all would look complete for a Service without ready endpoints.
        if missing or not there.built_in:
            about = "the built-in controller to list every ready endpoint"
            return Await(about, replace(there, slices=(*there.slices, *map(_as_built_in, wanted))))
        return DeleteSlices(f"delete {counted(len(there.own), 'EndpointSlice')} of ours", there.own)
    annotations = service.metadata.annotations or {}
    marks = {name: None for name in MARKS if name in annotations}
    if not marks:
        return Done("the built-in controller has it")
    metadata: dict[str, Any] = {"annotations": marks}
    before = _before(annotations.get(BEFORE_ANNOTATION, ""))
    if before is not None and (service.metadata.labels or {}).get(SKIP_MIRROR_LABEL) != before[SKIP_MIRROR_LABEL]:
        metadata["labels"] = before
    return ChangeService("restore labels and annotations as they were", {"metadata": metadata})


def _before(text: str) -> dict[str, str | None] | None:
    """The label as it was; None where nothing says it."""
    try:
        said = msgspec.json.decode(text, type=dict[str, str | None])
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return {SKIP_MIRROR_LABEL: said[SKIP_MIRROR_LABEL]} if SKIP_MIRROR_LABEL in said else None


def _ready(slices: Sequence[EndpointSlice]) -> set[tuple[str, Identity, PortKey]]:
    """The ready endpoints of slices, by family, by who they are and by what they serve."""
    return {
        (each.address_type, identity(endpoint), ports)
        for each in slices
        for ports in (port_key(each.ports),)
        for endpoint in each.endpoints or ()
        if is_ready(endpoint)
    }


def _as_built_in(each: EndpointSlice) -> EndpointSlice:
    labels = (each.metadata.labels or {}) | {names.MANAGED_BY_LABEL: names.BUILT_IN_MANAGER}
    metadata = structs.replace(each.metadata, name=f"{each.metadata.name}-built-in", labels=labels)
    return structs.replace(each, metadata=metadata)


# --- what a step leads to ---------------------------------------------------------------------------------------------


def foreseen(there: There, step: Step) -> There:
    """What will be there after a step, where nothing else happens."""
    match step:
        case ChangeService(change=change):
            return replace(there, service=_changed(there.service, change))
        case LabelEndpoints(endpoints=endpoints):
            labels = (endpoints.metadata.labels or {}) | {SKIP_MIRROR_LABEL: _SKIPPED}
            metadata = structs.replace(endpoints.metadata, labels=labels)
            return replace(there, endpoints=LegacyEndpoints(metadata=metadata))
        case DeleteEndpoints():
            return replace(there, endpoints=None)
        case WriteSlices():
            slices = {each.metadata.name: each for each in (*there.slices, *step.update, *step.create)}
            for each in step.delete:
                del slices[each.metadata.name]
            return replace(there, slices=tuple(slices.values()))
        case DeleteSlices():
            gone = {each.metadata.name for each in step.slices}
            return replace(there, slices=tuple(each for each in there.slices if each.metadata.name not in gone))
        case Await(then=then):
            return then
        case Done():
            return there


def steps(there: There, following: Following) -> Iterator[Step]:
    """All steps from here to the end, where nothing else happens and everybody does what is awaited."""
    while not isinstance(step := following(there), Done):
        yield step
        there = foreseen(there, step)
    yield step


def _changed(service: Service, change: Mapping[str, Any]) -> Service:
    metadata = change.get("metadata", {})
    labels = _merged(service.metadata.labels, metadata.get("labels", {}))
    annotations = _merged(service.metadata.annotations, metadata.get("annotations", {}))
    spec = service.spec
    if "selector" in change.get("spec", {}):
        spec = structs.replace(spec, selector=change["spec"]["selector"])
    return structs.replace(
        service, metadata=structs.replace(service.metadata, labels=labels, annotations=annotations), spec=spec
    )


def _merged(there: Mapping[str, str] | None, change: Mapping[str, str | None]) -> dict[str, str] | None:
    whole = {**(there or {}), **change}
    return {name: value for name, value in whole.items() if value is not None} or None


def _shown(service: Service) -> str:
    text = (service.metadata.annotations or {}).get(SELECTOR_ANNOTATION, "")
    return repr(text if len(text) <= 60 else text[:57] + "...")
