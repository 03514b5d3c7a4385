"""What a Service's marks say."""

import pytest

from zoneward.kube.adoption_marks import (
    SELECTOR_ANNOTATION,
    AdoptionAction,
    adoption_action,
    effective_selector,
    encode_selector,
    has_selector_annotation,
    with_effective_selector,
)
from zoneward.kube.objects import ObjectMeta, Service, ServiceSpec

MARK = '{"app":"cart","tier":"web"}'
MARKED = {"app": "cart", "tier": "web"}


def a_service(*, selector: dict[str, str] | None = None, mark: str | None = None) -> Service:
    annotations = None if mark is None else {SELECTOR_ANNOTATION: mark}
    return Service(metadata=ObjectMeta(name="cart", annotations=annotations), spec=ServiceSpec(selector=selector))


@pytest.mark.parametrize(
    ("service", "selector", "marked"),
    [
        (a_service(), None, False),
        (a_service(selector={}), None, False),
        (a_service(selector={"app": "a"}), {"app": "a"}, False),
        (a_service(mark=MARK), MARKED, True),
        (a_service(selector={"app": "a"}, mark=MARK), {"app": "a"}, True),
        (a_service(mark=""), None, True),
        (a_service(mark="{}"), None, True),
        (a_service(mark='{"app": 1}'), None, True),
        (a_service(mark='["app"]'), None, True),
        (a_service(mark="{"), None, True),
    ],
)
def test_selector_is_that_of_the_spec_or_else_of_the_annotation(
    service: Service, selector: dict[str, str] | None, marked: bool
) -> None:
    assert effective_selector(service) == selector
    assert has_selector_annotation(service) is marked
    assert with_effective_selector(service).spec.selector == (selector or service.spec.selector)


def test_adoption_annotation_round_trips() -> None:
    assert encode_selector({"tier": "web", "app": "cart"}) == MARK
    awkward = {"a/b": 'é"\\'}
    assert effective_selector(a_service(mark=encode_selector(awkward))) == awkward


@pytest.mark.parametrize(
    ("service", "has_own", "course"),
    [
        (a_service(), False, AdoptionAction.LEAVE),
        (a_service(), True, AdoptionAction.ORPHANED),
        (a_service(selector={}), True, AdoptionAction.ORPHANED),
        (a_service(selector=MARKED), False, AdoptionAction.LEAVE),
        (a_service(selector=MARKED), True, AdoptionAction.RELEASE),
        (a_service(mark=MARK), False, AdoptionAction.SERVE),
        (a_service(mark=MARK), True, AdoptionAction.SERVE),
        (a_service(mark="{"), True, AdoptionAction.BROKEN),
        (a_service(selector=MARKED, mark=MARK), False, AdoptionAction.RELEASE),
        (a_service(selector=MARKED, mark="{"), True, AdoptionAction.RELEASE),
    ],
)
def test_restored_selector_is_a_release_and_slices_without_selector_or_annotation_are_orphaned(
    service: Service, has_own: bool, course: AdoptionAction
) -> None:
    assert adoption_action(service, has_own=has_own) is course
