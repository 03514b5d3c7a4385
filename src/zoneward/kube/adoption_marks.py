"""The marks of an adopted Service: its selector is in an annotation, where no other controller looks for it.

Nothing else records that a Service was adopted.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice, Service

SELECTOR_ANNOTATION: Final = "zoneward.dev/selector"
"""The selector, as a JSON object. Present from the moment at which the built-in controller stops until it has
the Service back."""
BEFORE_ANNOTATION: Final = "zoneward.dev/before-adoption"
"""A JSON object with the value that the label skip-mirror had before, or null. Present from the first step of adopting
to the last one of releasing."""
ENDPOINTS_ANNOTATION: Final = "zoneward.dev/endpoints"
"""What becomes of the Endpoints object while the Service is adopted: ``keep`` (current) or ``delete``."""
ADOPTION_MARKS: Final = (SELECTOR_ANNOTATION, BEFORE_ANNOTATION, ENDPOINTS_ANNOTATION)
SKIP_MIRROR_LABEL: Final = "endpointslice.kubernetes.io/skip-mirror"
"""On an Endpoints object, ``true``: no EndpointSlices are made of it. The Endpoints controller copies it there."""


class AdoptionAction(StrEnum):
    """What a controller that serves only adopted Services does about a Service."""

    LEAVE = "leave"
    """The Service is not ours."""
    SERVE = "serve"
    """We keep its slices."""
    RELEASE = "release"
    """Its selector is back: the built-in controller serves it, and what we wrote is deleted."""
    BROKEN = "broken"
    """It is ours, but no selector can be read. Its slices stay as they are."""
    ORPHANED = "orphaned"
    """It has slices of ours, but neither a mark nor a selector. They stay as they are."""


def has_selector_annotation(service: Service) -> bool:
    """Whether a Service is marked as ours: adopted, or about to be released."""
    return SELECTOR_ANNOTATION in (service.metadata.annotations or {})


def runs_zoneward(service: Service, slices: Iterable[EndpointSlice]) -> bool:
    """Whether a Service was adopted, or Zoneward's controller wrote slices of it under its own label."""
    return has_selector_annotation(service) or any(
        (slice_.metadata.labels or {}).get(names.MANAGED_BY_LABEL) == names.MANAGER for slice_ in slices
    )


def effective_selector(service: Service) -> Mapping[str, str] | None:
    """The selector of a Service: that of its spec, else that of its mark; None where there is none that can be read.

    A selector in the spec wins: every other controller uses that one.
    """
    return service.spec.selector or _marked_selector(service)


def with_effective_selector(service: Service) -> Service:
    """The Service as it would be with its selector in its spec, as planning reads it."""
    selector = effective_selector(service)
    if not selector or service.spec.selector:
        return service
    return replace(service, spec=replace(service.spec, selector=dict(selector)))


def adoption_action(service: Service, *, has_own: bool) -> AdoptionAction:
    """What to do about a Service. ``has_own``: whether slices of ours name it.

    A selector that comes back, by GitOps say, is a release, with or without the marks.
    """
    if service.spec.selector:
        return AdoptionAction.RELEASE if has_own or has_selector_annotation(service) else AdoptionAction.LEAVE
    if not has_selector_annotation(service):
        return AdoptionAction.ORPHANED if has_own else AdoptionAction.LEAVE
    return AdoptionAction.SERVE if effective_selector(service) else AdoptionAction.BROKEN


def encode_selector(selector: Mapping[str, str]) -> str:
    """Encode a selector for the annotation."""
    return msgspec.json.encode(dict(selector), order="sorted").decode()


def _marked_selector(service: Service) -> dict[str, str] | None:
    text = (service.metadata.annotations or {}).get(SELECTOR_ANNOTATION)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, str]) or None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
