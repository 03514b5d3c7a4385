"""A Service that was handed to Zoneward: its selector lies in an annotation, where no other controller looks for it.

Marks on the Service, and what they say. Nothing else remembers that a Service was adopted.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from zoneward.kube.objects import Service

SELECTOR_ANNOTATION: Final = "zoneward.dev/selector"
"""The selector, as a JSON object. There from the moment at which the built-in controller lets go until it has the
Service back."""
BEFORE_ANNOTATION: Final = "zoneward.dev/before-adoption"
"""A JSON object with the value that the label skip-mirror had before, or null. There from the first step of adopting
to the last one of releasing."""
ENDPOINTS_ANNOTATION: Final = "zoneward.dev/endpoints"
"""What becomes of the Endpoints object while the Service is adopted: ``keep`` (current) or ``delete``."""
ADOPTION_MARKS: Final = (SELECTOR_ANNOTATION, BEFORE_ANNOTATION, ENDPOINTS_ANNOTATION)
SKIP_MIRROR_LABEL: Final = "endpointslice.kubernetes.io/skip-mirror"
"""On an Endpoints object, ``true``: no EndpointSlices are made of it. The Endpoints controller copies it there."""


class AdoptionAction(StrEnum):
    """What a controller that serves only marked Services does about one."""

    LEAVE = "leave"
    """It is none of ours."""
    SERVE = "serve"
    """Its slices are ours to keep."""
    RELEASE = "release"
    """Its selector is back: the built-in controller serves it, and what we wrote has to go."""
    BROKEN = "broken"
    """It is ours, and nothing says which Pods it selects. Its slices stay as they are."""
    ORPHANED = "orphaned"
    """Its mark is lost and no selector came back: nobody keeps the slices of ours that it still has. They stay as they
    are."""


def has_selector_annotation(service: Service) -> bool:
    """Whether a Service says that it is ours, be it taken over or about to be given back."""
    return SELECTOR_ANNOTATION in (service.metadata.annotations or {})


def effective_selector(service: Service) -> Mapping[str, str] | None:
    """What a Service selects: by its spec, else by its mark; None where it says nothing, or nothing that can be read.

    A selector in the spec wins: every other controller goes by that one.
    """
    return service.spec.selector or _marked_selector(service)


def with_effective_selector(service: Service) -> Service:
    """The Service as it would be with its selector in its spec, as planning reads it."""
    selector = effective_selector(service)
    if not selector or service.spec.selector:
        return service
    return replace(service, spec=replace(service.spec, selector=dict(selector)))


def adoption_action(service: Service, *, has_own: bool) -> AdoptionAction:
    """What to do about a Service. ``has_own``: whether there are slices of ours that name it.

    A selector that comes back, by GitOps say, is a release: whether the marks are still there or went with it.
    """
    if service.spec.selector:
        return AdoptionAction.RELEASE if has_own or has_selector_annotation(service) else AdoptionAction.LEAVE
    if not has_selector_annotation(service):
        return AdoptionAction.ORPHANED if has_own else AdoptionAction.LEAVE
    return AdoptionAction.SERVE if effective_selector(service) else AdoptionAction.BROKEN


def encode_selector(selector: Mapping[str, str]) -> str:
    """A selector as the mark has it."""
    return msgspec.json.encode(dict(selector), order="sorted").decode()


def _marked_selector(service: Service) -> dict[str, str] | None:
    text = (service.metadata.annotations or {}).get(SELECTOR_ANNOTATION)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, str]) or None
    except (msgspec.MsgspecError, UnicodeError):
        return None
