"""Which step comes next from any state; and that no order of steps loses an endpoint."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.builders.structs import a_node, a_pod, a_service, an_endpoint

from zoneward.controller.handover.handover_steps import (
    ChangeService,
    DeleteEndpoints,
    DeleteSlices,
    EndpointsPolicy,
    HandoverDone,
    HandoverState,
    HandoverStep,
    LabelEndpoints,
    WaitForOthers,
    WriteSlices,
    all_steps,
    next_adoption_step,
    next_release_step,
    reason_to_refuse,
    state_after,
)
from zoneward.kube import names
from zoneward.kube.adoption_marks import (
    ADOPTION_MARKS,
    BEFORE_ANNOTATION,
    ENDPOINTS_ANNOTATION,
    SELECTOR_ANNOTATION,
    SKIP_MIRROR_LABEL,
    with_effective_selector,
)
from zoneward.kube.objects import Endpoints, EndpointSlice, ObjectMeta, Pod, Service, is_ready, node_zone
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import compute_demand
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import ServicePlan, plan_service

MARK = '{"app":"cart"}'
ZONES = "abc"
NODES = [a_node(f"node-{zone}", zone) for zone in ZONES]


def cart(index: int, *, ready: bool = True) -> Pod:
    return a_pod(f"cart-{index}", f"node-{ZONES[index % 3]}", ips=[f"10.0.0.{index}"], ready=ready)


def planned(pods: Sequence[Pod]) -> Callable[[HandoverState], ServicePlan]:
    cluster_state = ClusterState(
        demand=compute_demand(NODES),
        node_zones={node.metadata.name: node_zone(node) for node in NODES},
        configuration=Configuration(),
    )
    return lambda state: plan_service(
        with_effective_selector(state.service), pods=pods, slices=state.slices, cluster_state=cluster_state
    )


def of_manager(slice_: EndpointSlice, manager: str, name: str) -> EndpointSlice:
    """The same slice as somebody else writes it."""
    labels = (slice_.metadata.labels or {}) | {names.MANAGED_BY_LABEL: manager}
    return structs.replace(slice_, metadata=structs.replace(slice_.metadata, name=name, labels=labels))


def built_in_slices(pods: Sequence[Pod]) -> tuple[EndpointSlice, ...]:
    made = (slice_ for family in planned(pods)(BARE).families for slice_ in family.changes.create)
    return tuple(of_manager(slice_, names.BUILT_IN_MANAGER, f"cart-in-tree-{n}") for n, slice_ in enumerate(made))


PODS = [cart(index) for index in range(1, 7)]
BARE = HandoverState(service=a_service(), manager=names.MANAGER)
BUILT_IN = built_in_slices(PODS)
THEIRS = BUILT_IN[0].endpoints or ()
UNLABELLED = Endpoints(metadata=ObjectMeta(name="cart", namespace="shop", uid="e-1"))
LABELLED = Endpoints(metadata=ObjectMeta(name="cart", namespace="shop", uid="e-1", labels={SKIP_MIRROR_LABEL: "true"}))
BEGUN = HandoverState(service=a_service(), manager=names.MANAGER, slices=BUILT_IN, endpoints=UNLABELLED)


def adoption(
    endpoints_policy: EndpointsPolicy = "keep", pods: Sequence[Pod] = PODS
) -> Callable[[HandoverState], HandoverStep]:
    plan = planned(pods)
    return lambda state: next_adoption_step(state, plan=plan, endpoints_policy=endpoints_policy)


def releasing(pods: Sequence[Pod] = PODS) -> Callable[[HandoverState], HandoverStep]:
    plan = planned(pods)
    return lambda state: next_release_step(state, plan=plan)


def walked(
    state: HandoverState, following: Callable[[HandoverState], HandoverStep]
) -> tuple[list[HandoverStep], list[HandoverState]]:
    """All steps to the end, and the states before the first step and after each one."""
    result, places = list(all_steps(state, following)), [state]
    for step in result:
        places.append(state_after(places[-1], step))
    return result, places


def listed(state: HandoverState) -> set[str]:
    endpoints = (one for slice_ in state.slices for one in slice_.endpoints or () if is_ready(one))
    return {address for one in endpoints for address in one.addresses or ()}


ADOPTED = walked(BEGUN, adoption())[1][-1]


def test_adopting_labels_before_it_removes_the_selector_and_creates_before_it_deletes() -> None:
    result, places = walked(BEGUN, adoption("delete"))
    assert [type(step) for step in result] == [
        ChangeService,
        WaitForOthers,
        ChangeService,
        WriteSlices,
        DeleteSlices,
        DeleteEndpoints,
        HandoverDone,
    ]
    assert (places[-1].service.metadata.annotations or {})[ENDPOINTS_ANNOTATION] == "delete"


def test_an_adopted_service_has_only_slices_of_zoneward_and_keeps_its_endpoints_object() -> None:
    assert ADOPTED.service.spec.selector is None
    marks = ADOPTED.service.metadata.annotations or {}
    assert (marks[SELECTOR_ANNOTATION], marks[ENDPOINTS_ANNOTATION]) == (MARK, "keep")
    assert {name for name in marks if name.startswith(names.DOMAIN)} == set(ADOPTION_MARKS)
    assert (ADOPTED.built_in, len(ADOPTED.own), ADOPTED.endpoints) == ((), 1, LABELLED)
    assert isinstance(adoption()(ADOPTED), HandoverDone)
    assert isinstance(releasing()(BEGUN), HandoverDone), "one that was never adopted is left as it is"


@pytest.mark.parametrize("labels", [None, {SKIP_MIRROR_LABEL: "true"}, {SKIP_MIRROR_LABEL: "false", "a": "b"}])
@pytest.mark.parametrize("annotations", [None, {"a": "b"}])
@pytest.mark.parametrize("endpoints_policy", ["keep", "delete"])
def test_releasing_from_any_step_of_adopting_restores_the_service(
    labels: dict[str, str] | None, annotations: dict[str, str] | None, endpoints_policy: EndpointsPolicy
) -> None:
    service = a_service(labels=labels, annotations=annotations)
    _, places = walked(replace(BEGUN, service=service), adoption(endpoints_policy))
    for sandbox in places:
        result, back = walked(sandbox, releasing())
        assert back[-1].service == service
        assert back[-1].own == ()
        assert len(result) <= 5
        assert isinstance(releasing()(back[-1]), HandoverDone)


def test_adopting_from_any_step_of_releasing_succeeds() -> None:
    _, places = walked(ADOPTED, releasing())
    for sandbox in places:
        end = walked(sandbox, adoption())[1][-1]
        assert end.service == ADOPTED.service
        assert (end.built_in, len(end.own)) == ((), 1)


@given(
    ready=st.lists(st.booleans(), min_size=6, max_size=6),
    then=st.lists(st.booleans(), min_size=6, max_size=6),
    ways=st.lists(st.tuples(st.sampled_from(["keep", "delete", "back"]), st.integers(1, 8)), max_size=6),
)
def test_no_interrupted_handover_loses_a_ready_endpoint(
    ready: list[bool], then: list[bool], ways: list[tuple[str, int]]
) -> None:
    """Pods change once, after the first way."""
    before = [cart(index, ready=pod_ready) for index, pod_ready in enumerate(ready, 1)]
    state = replace(BEGUN, slices=built_in_slices(before))
    both = enumerate(zip(ready, then, strict=True), 1)
    steady = {f"10.0.0.{index}" for index, (one, other) in both if one and other}
    for index, (way, most) in enumerate(ways):
        pods = before if index == 0 else [cart(sandbox, ready=pod_ready) for sandbox, pod_ready in enumerate(then, 1)]
        following = releasing(pods) if way == "back" else adoption(way, pods)  # type: ignore[arg-type]
        for _ in range(most):
            state = state_after(state, following(state))
            assert steady <= listed(state)


# --- what somebody else did meanwhile ---------------------------------------------------------------------------------


def test_a_service_whose_selector_was_restored_is_released_with_that_selector() -> None:
    selector = {"app": "cart", "v": "2"}
    back = structs.replace(ADOPTED.service, spec=structs.replace(ADOPTED.service.spec, selector=selector))
    pods = [structs.replace(pod, metadata=structs.replace(pod.metadata, labels=selector)) for pod in PODS]
    result, places = walked(replace(ADOPTED, service=back), releasing(pods))
    assert [type(step) for step in result] == [WaitForOthers, DeleteSlices, ChangeService, HandoverDone]
    assert places[-1].service == a_service(selector=selector)
    # Also where the marks went with it.
    result, places = walked(replace(ADOPTED, service=a_service()), releasing())
    assert [type(step) for step in result] == [WaitForOthers, DeleteSlices, HandoverDone]
    assert (places[-1].own, places[-1].service) == ((), a_service())


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"endpoints": ()}, id="lists-none"),
        pytest.param({"endpoints": THEIRS[1:]}, id="lacks-a-ready-endpoint"),
        pytest.param({"ports": ()}, id="lists-another-port"),
        pytest.param({"endpoints": (an_endpoint("10.0.0.1", ready=False), *THEIRS[1:])}, id="lists-one-as-not-ready"),
    ],
)
def test_zoneward_slices_stay_until_the_built_in_slices_list_the_same_endpoints(change: dict[str, Any]) -> None:
    theirs = [structs.replace(slice_, **change) for slice_ in BUILT_IN]
    state = replace(ADOPTED, service=a_service(), slices=(*ADOPTED.slices, *theirs))
    assert isinstance(releasing()(state), WaitForOthers)


def test_a_built_in_slice_of_another_address_family_is_deleted_too() -> None:
    metadata = structs.replace(BUILT_IN[0].metadata, name="cart-six")
    six = structs.replace(BUILT_IN[0], metadata=metadata, address_type="IPv6", endpoints=())
    result, _ = walked(replace(BEGUN, slices=(*BUILT_IN, six)), adoption())
    (write,) = (step for step in result if isinstance(step, WriteSlices))
    (delete,) = (step for step in result if isinstance(step, DeleteSlices))
    assert (write.delete, delete.slices) == ((), (*BUILT_IN, six))


def test_releasing_waits_for_a_built_in_slice_even_without_ready_endpoints() -> None:
    following = releasing([])
    state = replace(ADOPTED, service=a_service())
    assert isinstance(following(state), WaitForOthers)
    empty = tuple(structs.replace(slice_, endpoints=()) for slice_ in BUILT_IN)
    assert isinstance(following(replace(state, slices=(*state.slices, *empty))), DeleteSlices)


def test_slices_of_other_managers_are_neither_deleted_nor_counted() -> None:
    other = of_manager(BUILT_IN[0], "example.com", "others")
    adopted = walked(replace(BEGUN, slices=(*BUILT_IN, other)), adoption())[1][-1]
    assert other in adopted.slices
    assert isinstance(releasing()(replace(adopted, service=a_service())), WaitForOthers)
    state = replace(BEGUN, slices=(*BUILT_IN, other), manager="example.com")
    assert (state.own, state.built_in) == ((other,), BUILT_IN), "unless that is our name"


def test_changes_during_a_handover_are_corrected() -> None:
    step = adoption()(replace(ADOPTED, slices=(*ADOPTED.slices, *BUILT_IN)))
    assert isinstance(step, DeleteSlices)
    assert step.slices == BUILT_IN
    assert isinstance(adoption()(replace(ADOPTED, endpoints=UNLABELLED)), LabelEndpoints)
    assert WaitForOthers not in map(type, walked(replace(BEGUN, endpoints=None), adoption())[0])


def test_zoneward_labels_the_endpoints_object_if_no_controller_does() -> None:
    service = state_after(BEGUN, adoption()(BEGUN)).service
    step = adoption()(replace(BEGUN, service=service))
    assert isinstance(step, WaitForOthers)
    assert isinstance(step.otherwise, LabelEndpoints)
    assert step.then.endpoints == LABELLED


def test_the_label_stays_once_its_annotation_is_lost() -> None:
    annotations = dict(ADOPTED.service.metadata.annotations or {})
    del annotations[BEFORE_ANNOTATION]
    lost = structs.replace(ADOPTED.service, metadata=structs.replace(ADOPTED.service.metadata, annotations=annotations))
    state = walked(walked(replace(ADOPTED, service=lost), adoption())[1][-1], releasing())[1][-1]
    assert state.service == a_service(labels={SKIP_MIRROR_LABEL: "true"})


# --- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("service", "words"),
    [
        (a_service(selects=False), "expected a selector, got none"),
        (a_service(type_="ExternalName"), "of type ExternalName"),
        (a_service(selects=False, annotations={SELECTOR_ANNOTATION: "[1]"}), "a JSON object of labels, got '[1]'"),
        (a_service(deleting=True), "being deleted"),
        (a_service(), None),
        (a_service(cluster_ip="None"), None),
        (a_service(selects=False, annotations={SELECTOR_ANNOTATION: MARK}), None),
    ],
)
def test_a_refusal_names_what_was_expected(service: Service, words: str | None) -> None:
    reason = reason_to_refuse(service)
    assert reason is None if words is None else words in (reason or "")
