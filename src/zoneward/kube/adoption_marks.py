"""The annotations of an adopted Service: they hold its selector, so that no other controller sees it in the spec.

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
"""The selector, as a JSON object. Present while the built-in controller does not manage the Service."""
BEFORE_ANNOTATION: Final = "zoneward.dev/before-adoption"
"""A JSON object with the former value of the label skip-mirror, or null. Present from the first step of adopting to the
last one of releasing."""
ENDPOINTS_ANNOTATION: Final = "zoneward.dev/endpoints"
"""What to do with the Endpoints object while the Service is adopted: ``keep`` (up to date) or ``delete``."""
ADOPTION_MARKS: Final = (SELECTOR_ANNOTATION, BEFORE_ANNOTATION, ENDPOINTS_ANNOTATION)
SKIP_MIRROR_LABEL: Final = "endpointslice.kubernetes.io/skip-mirror"
"""On an Endpoints object, ``true``: Kubernetes does not mirror it to EndpointSlices. The Endpoints controller copies it
from the Service."""


class AdoptionAction(StrEnum):
    """What a controller that serves only adopted Services does about a Service."""

    LEAVE = "leave"
    """Zoneward does not manage the Service."""
    SERVE = "serve"
    """Zoneward maintains its slices."""
    RELEASE = "release"
    """Its selector is restored: the built-in controller serves it, and Zoneward deletes its own slices."""
    BROKEN = "broken"
    """It is adopted, but its selector cannot be read. Its slices are not changed."""
    ORPHANED = "orphaned"
    """It has slices of Zoneward, but neither annotation nor selector. They are not changed."""


def has_selector_annotation(service: Service) -> bool:
    """Whether a Service is adopted, or about to be released."""
    return SELECTOR_ANNOTATION in (service.metadata.annotations or {})


def is_adopted(service: Service) -> bool:
    """Whether the selector is in the annotation only. Beside a selector, the annotation is left over or being removed:
    the built-in controller writes the slices."""
    return has_selector_annotation(service) and not service.spec.selector


def manager_of(slice_: EndpointSlice) -> str | None:
    """The controller that manages a slice, by its label."""
    return (slice_.metadata.labels or {}).get(names.MANAGED_BY_LABEL)


def runs_zoneward(service: Service, slices: Iterable[EndpointSlice]) -> bool:
    """Whether a Service is adopted, or has slices with the label of Zoneward's controller."""
    return is_adopted(service) or any(manager_of(slice_) == names.MANAGER for slice_ in slices)


def effective_selector(service: Service) -> Mapping[str, str] | None:
    """The selector in the spec of a Service, else in its annotation; None if neither can be read.

    The spec wins, because all other controllers use it.
    """
    return service.spec.selector or _marked_selector(service)


def with_effective_selector(service: Service) -> Service:
    """The Service with its effective selector in the spec, as planning reads it."""
    selector = effective_selector(service)
    if not selector or service.spec.selector:
        return service
    return replace(service, spec=replace(service.spec, selector=dict(selector)))


def adoption_action(service: Service, *, has_own: bool) -> AdoptionAction:
    """What to do about a Service. ``has_own``: whether it has slices of Zoneward.

    A restored selector, for example by GitOps, releases the Service, with or without the annotations.
    """
    if service.spec.selector:
        return AdoptionAction.RELEASE if has_own or has_selector_annotation(service) else AdoptionAction.LEAVE
    if not has_selector_annotation(service):
        return AdoptionAction.ORPHANED if has_own else AdoptionAction.LEAVE
    return AdoptionAction.SERVE if effective_selector(service) else AdoptionAction.BROKEN


def encode_selector(selector: Mapping[str, str]) -> str:
    """The value of `SELECTOR_ANNOTATION`."""
    return msgspec.json.encode(dict(selector), order="sorted").decode()


def _marked_selector(service: Service) -> dict[str, str] | None:
    text = (service.metadata.annotations or {}).get(SELECTOR_ANNOTATION)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, str]) or None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
