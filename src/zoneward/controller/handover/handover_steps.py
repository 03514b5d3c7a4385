"""The next step of adopting a Service from the built-in controller, or of releasing it, from the state of the cluster.

There is no state between steps: an interrupted command, or several at once, continue from the state of the cluster. The
order matters:

- Adopting: the Endpoints object is labelled before the selector is removed, because otherwise it would be mirrored into
  slices. All of Zoneward's slices exist before those of the built-in controller are deleted. Zoneward never relabels
  those: the tracker of the built-in controller would wait for them forever.
- Releasing: the built-in controller's slices list every ready endpoint before Zoneward's are deleted. The annotations
  are removed last: a selector beside the annotation shows that a release is in progress.
- Both: the Endpoints object is mirrored if it has no label and the Service no selector. The mirroring controller
  watches them separately, and may see the changes in another order. So it gets time between the two changes.

In between, endpoints are listed twice, which is harmless; none is ever missing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import msgspec
from msgspec import structs

from zoneward.kube import names
from zoneward.kube.adoption_marks import (
    ADOPTION_MARKS,
    BEFORE_ANNOTATION,
    ENDPOINTS_ANNOTATION,
    SELECTOR_ANNOTATION,
    SKIP_MIRROR_LABEL,
    effective_selector,
    encode_selector,
    has_selector_annotation,
    manager_of,
)
from zoneward.kube.objects import EndpointIdentity, Endpoints, EndpointSlice, Service, identity, is_ready
from zoneward.routing.phrases import counted
from zoneward.slices.endpoints import PortKey, port_key
from zoneward.slices.plan import ServicePlan

EndpointsPolicy = Literal["keep", "delete"]
"""What happens to the Endpoints object."""
_SKIPPED: Final = "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverState:
    """The state of one Service: the Service, all its slices, and its Endpoints object. ``manager`` is the managed-by
    label of Zoneward's slices (`Configuration.manager`)."""

    service: Service
    manager: str
    slices: tuple[EndpointSlice, ...] = ()
    endpoints: Endpoints | None = None

    @property
    def own(self) -> tuple[EndpointSlice, ...]:
        return self._by(self.manager)

    @property
    def built_in(self) -> tuple[EndpointSlice, ...]:
        return self._by(names.BUILT_IN_MANAGER)

    def _by(self, manager: str) -> tuple[EndpointSlice, ...]:
        return tuple(slice_ for slice_ in self.slices if manager_of(slice_) == manager)


Plan = Callable[[HandoverState], ServicePlan]
"""Plans the Service with the selector that it has or had."""

# --- steps ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChangeService:
    """A merge patch (RFC 7386) for this version of the Service only. ``about`` describes the step to the
    user. ``after_rest``: only after the mirroring controller had time to see the state before."""

    about: str
    change: Mapping[str, Any]
    after_rest: bool = False


@dataclass(frozen=True, slots=True)
class LabelEndpoints:
    about: str
    endpoints: Endpoints


@dataclass(frozen=True, slots=True)
class DeleteEndpoints:
    about: str
    endpoints: Endpoints


@dataclass(frozen=True, slots=True)
class WriteSlices:
    """Writes of Zoneward's slices, in this order: those that add endpoints are before those that remove some."""

    about: str
    create: tuple[EndpointSlice, ...]
    update: tuple[EndpointSlice, ...]
    delete: tuple[EndpointSlice, ...]


@dataclass(frozen=True, slots=True)
class DeleteSlices:
    about: str
    slices: tuple[EndpointSlice, ...]


@dataclass(frozen=True, slots=True)
class WaitForOthers:
    """Wait until another controller has acted. ``then``: the state afterwards; ``otherwise``: the step if none acts."""

    about: str
    then: HandoverState
    otherwise: LabelEndpoints | None = None


@dataclass(frozen=True, slots=True)
class HandoverDone:
    about: str


HandoverStep = (
    ChangeService | LabelEndpoints | DeleteEndpoints | WriteSlices | DeleteSlices | WaitForOthers | HandoverDone
)
NextStep = Callable[[HandoverState], HandoverStep]

# --- adopting ---------------------------------------------------------------------------------------------------------


def reason_to_refuse(service: Service) -> str | None:
    """Why a Service can be neither adopted nor released, as ``expected ..., got ...``; None if it can."""
    if service.metadata.deletion_timestamp is not None:
        return "expected a Service that stays, got one that is being deleted"
    if service.spec.type == "ExternalName":
        return "expected a Service with endpoints, got one of type ExternalName"
    if effective_selector(service):
        return None
    if has_selector_annotation(service):
        return f"annotation {SELECTOR_ANNOTATION}: expected a JSON object of labels, got {_quoted_selector(service)}"
    return "expected a selector, got none: its EndpointSlices are managed by others"


def next_adoption_step(state: HandoverState, *, plan: Plan, endpoints_policy: EndpointsPolicy) -> HandoverStep:
    """The next step to adopt a Service that `reason_to_refuse` does not refuse.

    ``plan`` is called only after the built-in controller has stopped managing the Service.
    """
    service = state.service
    if (missing := _mark(service, endpoints_policy)) is not None:
        return missing
    if not _is_skipped(state):
        return _label_endpoints(state)
    if service.spec.selector:
        mark = {SELECTOR_ANNOTATION: encode_selector(service.spec.selector)}
        about = f"move the selector into the annotation {SELECTOR_ANNOTATION}: the built-in controller lets go"
        return ChangeService(about, {"metadata": {"annotations": mark}, "spec": {"selector": None}}, after_rest=True)
    if (writes := _slice_writes(state, plan(state))) is not None:
        return writes
    if state.built_in:
        about = f"delete {counted(len(state.built_in), 'EndpointSlice')} of the built-in controller"
        return DeleteSlices(about, state.built_in)
    if endpoints_policy == "delete" and state.endpoints is not None:
        return DeleteEndpoints("delete the Endpoints object", state.endpoints)
    return HandoverDone(f"done: managed by Zoneward, with {counted(len(state.own), 'EndpointSlice')}")


def _mark(service: Service, endpoints_policy: EndpointsPolicy) -> ChangeService | None:
    """The labels and annotations that the Service needs first; None if it has them."""
    labels, annotations = service.metadata.labels or {}, service.metadata.annotations or {}
    metadata: dict[str, dict[str, str]] = {}
    if labels.get(SKIP_MIRROR_LABEL) != _SKIPPED:
        metadata["labels"] = {SKIP_MIRROR_LABEL: _SKIPPED}
    marks: dict[str, str] = {ENDPOINTS_ANNOTATION: endpoints_policy}
    if BEFORE_ANNOTATION not in annotations and (service.spec.selector or "labels" in metadata):
        # Without a selector, the label may be Zoneward's or not: it stays.
        marks[BEFORE_ANNOTATION] = msgspec.json.encode({SKIP_MIRROR_LABEL: labels.get(SKIP_MIRROR_LABEL)}).decode()
    marks = {name: value for name, value in marks.items() if annotations.get(name) != value}
    if marks:
        metadata["annotations"] = marks
    about = f"label the Service {SKIP_MIRROR_LABEL}: {_SKIPPED!r}, and record its previous value"
    if "labels" not in metadata:
        about = f"note {' and '.join(sorted(marks))}"
    return ChangeService(about, {"metadata": metadata}) if metadata else None


def _is_skipped(state: HandoverState) -> bool:
    """Whether the mirroring controller ignores the Endpoints object."""
    endpoints = state.endpoints
    return endpoints is None or (endpoints.metadata.labels or {}).get(SKIP_MIRROR_LABEL) == _SKIPPED


def _label_endpoints(state: HandoverState) -> HandoverStep:
    assert state.endpoints is not None
    endpoints = state.endpoints
    label = LabelEndpoints("label the Endpoints object, because no controller did", endpoints)
    if not state.service.spec.selector:
        # Without a selector the Endpoints controller ignores the object.
        return label
    return WaitForOthers("the label to be on the Endpoints object", state_after(state, label), otherwise=label)


def _slice_writes(state: HandoverState, plan: ServicePlan) -> WriteSlices | None:
    """The writes that Zoneward's slices need; None if they are as planned."""
    own_names = {slice_.metadata.name for slice_ in state.own}
    create = tuple(slice_ for family in plan.families for slice_ in family.changes.create)
    update = tuple(slice_ for family in plan.families for slice_ in family.changes.update)
    gone = (*(slice_ for family in plan.families for slice_ in family.changes.delete), *plan.surplus)
    delete = tuple(slice_ for slice_ in gone if slice_.metadata.name in own_names)
    if not (create or update or delete):
        return None
    count = sum(len(slice_.endpoints or ()) for slice_ in (*create, *update))
    whole = counted(len(create) + len(update) + len(delete), "EndpointSlice")
    about = f"write {whole} of Zoneward, with {counted(count, 'endpoint')}"
    return WriteSlices(about, create, update, delete)


# --- releasing --------------------------------------------------------------------------------------------------------


def next_release_step(state: HandoverState, *, plan: Plan) -> HandoverStep:
    """The next step to release a Service that `reason_to_refuse` does not refuse, to its state before it was adopted. A
    Service whose selector was restored by hand is released in the same way.
    """
    service = state.service
    if not service.spec.selector:
        selector = dict(effective_selector(service) or {})
        about = "restore the selector so that the built-in controller resumes"
        return ChangeService(about, {"spec": {"selector": selector}})
    if state.own:
        wanted = [slice_ for family in plan(state).families for slice_ in family.changes.after]
        missing = _ready_endpoints(wanted) - _ready_endpoints(state.built_in)
        # Without ready endpoints, no slices at all would look complete.
        if missing or not state.built_in:
            about = "the built-in controller to list every ready endpoint"
            return WaitForOthers(about, replace(state, slices=(*state.slices, *map(_as_built_in, wanted))))
        return DeleteSlices(f"delete {counted(len(state.own), 'EndpointSlice')} of Zoneward", state.own)
    annotations = service.metadata.annotations or {}
    marks = {name: None for name in ADOPTION_MARKS if name in annotations}
    if not marks:
        return HandoverDone("done: managed by the built-in controller")
    metadata: dict[str, Any] = {"annotations": marks}
    previous = _previous_label(annotations.get(BEFORE_ANNOTATION, ""))
    if previous is not None and (service.metadata.labels or {}).get(SKIP_MIRROR_LABEL) != previous[SKIP_MIRROR_LABEL]:
        metadata["labels"] = previous
    about = "restore the previous labels and annotations"
    return ChangeService(about, {"metadata": metadata}, after_rest="labels" in metadata)


def _previous_label(text: str) -> dict[str, str | None] | None:
    """The previous label; None if the annotation is not valid."""
    try:
        label = msgspec.json.decode(text, type=dict[str, str | None])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return {SKIP_MIRROR_LABEL: label[SKIP_MIRROR_LABEL]} if SKIP_MIRROR_LABEL in label else None


def _ready_endpoints(slices: Sequence[EndpointSlice]) -> set[tuple[str, EndpointIdentity, PortKey]]:
    """The ready endpoints of slices, by address family, identity and ports."""
    return {
        (slice_.address_type, identity(endpoint), ports)
        for slice_ in slices
        for ports in (port_key(slice_.ports),)
        for endpoint in slice_.endpoints or ()
        if is_ready(endpoint)
    }


def _as_built_in(slice_: EndpointSlice) -> EndpointSlice:
    labels = (slice_.metadata.labels or {}) | {names.MANAGED_BY_LABEL: names.BUILT_IN_MANAGER}
    metadata = structs.replace(slice_.metadata, name=f"{slice_.metadata.name}-built-in", labels=labels)
    return structs.replace(slice_, metadata=metadata)


# --- the state after a step -------------------------------------------------------------------------------------------


def state_after(state: HandoverState, step: HandoverStep) -> HandoverState:
    """The state after a step, if nothing else happens."""
    match step:
        case ChangeService(change=change):
            return replace(state, service=_patched(state.service, change))
        case LabelEndpoints(endpoints=endpoints):
            labels = (endpoints.metadata.labels or {}) | {SKIP_MIRROR_LABEL: _SKIPPED}
            metadata = structs.replace(endpoints.metadata, labels=labels)
            return replace(state, endpoints=Endpoints(metadata=metadata))
        case DeleteEndpoints():
            return replace(state, endpoints=None)
        case WriteSlices():
            slices = {slice_.metadata.name: slice_ for slice_ in (*state.slices, *step.update, *step.create)}
            for slice_ in step.delete:
                del slices[slice_.metadata.name]
            return replace(state, slices=tuple(slices.values()))
        case DeleteSlices():
            gone = {slice_.metadata.name for slice_ in step.slices}
            return replace(state, slices=tuple(slice_ for slice_ in state.slices if slice_.metadata.name not in gone))
        case WaitForOthers(then=then):
            return then
        case HandoverDone():
            return state


def all_steps(state: HandoverState, next_step: NextStep) -> Iterator[HandoverStep]:
    """All steps from here to the end, if nothing else happens and the other controllers act."""
    while not isinstance(step := next_step(state), HandoverDone):
        yield step
        state = state_after(state, step)
    yield step


def _patched(service: Service, change: Mapping[str, Any]) -> Service:
    metadata = change.get("metadata", {})
    labels = _merge(service.metadata.labels, metadata.get("labels", {}))
    annotations = _merge(service.metadata.annotations, metadata.get("annotations", {}))
    spec = service.spec
    if "selector" in change.get("spec", {}):
        spec = structs.replace(spec, selector=change["spec"]["selector"])
    return structs.replace(
        service, metadata=structs.replace(service.metadata, labels=labels, annotations=annotations), spec=spec
    )


def _merge(existing: Mapping[str, str] | None, change: Mapping[str, str | None]) -> dict[str, str] | None:
    whole = {**(existing or {}), **change}
    return {name: value for name, value in whole.items() if value is not None} or None


def _quoted_selector(service: Service) -> str:
    text = (service.metadata.annotations or {}).get(SELECTOR_ANNOTATION, "")
    return repr(text if len(text) <= 60 else text[:57] + "...")
