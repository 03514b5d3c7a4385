"""Which step comes next, from whatever is there; and that no order of steps loses an endpoint."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert, structs

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
from zoneward.kube.objects import EndpointConditions, Endpoints, EndpointSlice, Node, ObjectMeta, Pod, Service, is_ready
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import compute_demand
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import ServicePlan, plan_service

SELECTOR = {"app": "cart"}
MARK = '{"app":"cart"}'
ZONES = "abc"
NODES = [
    convert(
        {
            "metadata": {"name": f"node-{zone}", "labels": {names.ZONE_LABEL: zone}},
            "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
        },
        Node,
    )
    for zone in ZONES
]


def a_pod(number: int, *, ready: bool = True) -> Pod:
    return convert(
        {
            "metadata": {"name": f"cart-{number}", "namespace": "shop", "labels": SELECTOR},
            "spec": {"nodeName": f"node-{ZONES[number % 3]}"},
            "status": {
                "phase": "Running",
                "podIP": f"10.0.0.{number}",
                "conditions": [{"type": "Ready", "status": str(ready)}],
            },
        },
        Pod,
    )


def a_service(
    *,
    selector: dict[str, str] | None = SELECTOR,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Service:
    metadata = {"name": "cart", "namespace": "shop", "uid": "u-1", "labels": labels, "annotations": annotations}
    spec = {"clusterIP": "10.96.0.9", "ports": [{"port": 80}], "selector": selector, **spec}
    return convert({"metadata": metadata, "spec": spec}, Service)


def planned(pods: Sequence[Pod]) -> Callable[[HandoverState], ServicePlan]:
    cluster_state = ClusterState(
        demand=compute_demand(NODES),
        node_zones={f"node-{zone}": zone for zone in ZONES},
        configuration=Configuration(),
    )
    return lambda there: plan_service(
        with_effective_selector(there.service), pods=pods, slices=there.slices, cluster_state=cluster_state
    )


def as_built_in(slices: Sequence[EndpointSlice]) -> tuple[EndpointSlice, ...]:
    return tuple(
        structs.replace(
            each,
            metadata=structs.replace(
                each.metadata,
                name=f"cart-in-tree-{number}",
                labels=(each.metadata.labels or {}) | {names.MANAGED_BY_LABEL: names.BUILT_IN_MANAGER},
            ),
        )
        for number, each in enumerate(slices)
    )


PODS = [a_pod(number) for number in range(1, 7)]
PLAN = planned(PODS)
BARE = HandoverState(service=a_service(), manager=names.MANAGER)
BUILT_IN = as_built_in([each for family in PLAN(BARE).families for each in family.changes.create])
UNLABELLED = Endpoints(metadata=ObjectMeta(name="cart", namespace="shop", uid="e-1"))
LABELLED = Endpoints(metadata=ObjectMeta(name="cart", namespace="shop", uid="e-1", labels={SKIP_MIRROR_LABEL: "true"}))
BEGUN = HandoverState(service=a_service(), manager=names.MANAGER, slices=BUILT_IN, endpoints=UNLABELLED)


def adoption(
    endpoints_policy: EndpointsPolicy = "keep", pods: Sequence[Pod] = PODS
) -> Callable[[HandoverState], HandoverStep]:
    plan = planned(pods)
    return lambda there: next_adoption_step(there, plan=plan, endpoints_policy=endpoints_policy)


def releasing(pods: Sequence[Pod] = PODS) -> Callable[[HandoverState], HandoverStep]:
    plan = planned(pods)
    return lambda there: next_release_step(there, plan=plan)


def walked(
    there: HandoverState, following: Callable[[HandoverState], HandoverStep]
) -> tuple[list[HandoverStep], list[HandoverState]]:
    """All steps to the end, and what is there before the first and after each."""
    found, places = list(all_steps(there, following)), [there]
    for step in found:
        places.append(state_after(places[-1], step))
    return found, places


def listed(there: HandoverState) -> set[str]:
    endpoints = (one for each in there.slices for one in each.endpoints or () if is_ready(one))
    return {address for one in endpoints for address in one.addresses or ()}


ADOPTED = walked(BEGUN, adoption())[1][-1]


def test_the_label_comes_before_the_selector_goes_and_ours_before_theirs_go() -> None:
    found, _ = walked(BEGUN, adoption("delete"))
    assert [type(step) for step in found] == [
        ChangeService,
        WaitForOthers,
        ChangeService,
        WriteSlices,
        DeleteSlices,
        DeleteEndpoints,
        HandoverDone,
    ]
    label, _, move, write, delete, *_ = found
    assert isinstance(label, ChangeService)
    assert isinstance(move, ChangeService)
    assert isinstance(write, WriteSlices)
    assert isinstance(delete, DeleteSlices)
    assert label.change == {
        "metadata": {
            "labels": {SKIP_MIRROR_LABEL: "true"},
            "annotations": {
                ENDPOINTS_ANNOTATION: "delete",
                BEFORE_ANNOTATION: '{"endpointslice.kubernetes.io/skip-mirror":null}',
            },
        }
    }
    assert move.change == {"metadata": {"annotations": {SELECTOR_ANNOTATION: MARK}}, "spec": {"selector": None}}
    assert (len(write.create), write.update, write.delete) == (1, (), ())
    assert delete.slices == BUILT_IN


def test_the_endpoints_object_stays_where_it_is_to_be_kept() -> None:
    found, places = walked(BEGUN, adoption("keep"))
    assert DeleteEndpoints not in map(type, found)
    assert places[-1].endpoints == LABELLED
    assert (places[-1].service.metadata.annotations or {})[ENDPOINTS_ANNOTATION] == "keep"


def test_adopted_it_is_ours_alone_and_nothing_more_is_to_be_done() -> None:
    assert ADOPTED.service.spec.selector is None
    assert (ADOPTED.service.metadata.annotations or {})[SELECTOR_ANNOTATION] == MARK
    assert ADOPTED.built_in == ()
    assert len(ADOPTED.own) == 1
    assert isinstance(adoption()(ADOPTED), HandoverDone)


@pytest.mark.parametrize("labels", [None, {SKIP_MIRROR_LABEL: "true"}, {SKIP_MIRROR_LABEL: "false", "a": "b"}])
@pytest.mark.parametrize("annotations", [None, {"a": "b"}])
@pytest.mark.parametrize("endpoints_policy", ["keep", "delete"])
def test_released_from_any_step_of_adopting_the_service_is_as_it_was(
    labels: dict[str, str] | None, annotations: dict[str, str] | None, endpoints_policy: EndpointsPolicy
) -> None:
    service = a_service(labels=labels, annotations=annotations)
    _, places = walked(replace(BEGUN, service=service), adoption(endpoints_policy))
    for place in places:
        found, back = walked(place, releasing())
        assert back[-1].service == service
        assert back[-1].own == ()
        assert len(found) <= 5
        assert isinstance(releasing()(back[-1]), HandoverDone)


def test_adopted_from_any_step_of_releasing_the_service_is_ours() -> None:
    _, places = walked(ADOPTED, releasing())
    for place in places:
        end = walked(place, adoption())[1][-1]
        assert end.service == ADOPTED.service
        assert (end.built_in, len(end.own)) == ((), 1)


@given(
    ready=st.lists(st.booleans(), min_size=6, max_size=6),
    then=st.lists(st.booleans(), min_size=6, max_size=6),
    ways=st.lists(st.tuples(st.sampled_from(["keep", "delete", "back"]), st.integers(1, 8)), max_size=6),
)
def test_whatever_is_begun_and_cut_off_no_ready_endpoint_is_ever_missing(
    ready: list[bool], then: list[bool], ways: list[tuple[str, int]]
) -> None:
    """Pods change once, after the first way."""
    before = [a_pod(number, ready=each) for number, each in enumerate(ready, 1)]
    built_in = as_built_in([each for family in planned(before)(BARE).families for each in family.changes.create])
    there = replace(BEGUN, slices=built_in)
    both = enumerate(zip(ready, then, strict=True), 1)
    steady = {f"10.0.0.{number}" for number, (one, other) in both if one and other}
    for number, (way, most) in enumerate(ways):
        pods = before if number == 0 else [a_pod(place, ready=each) for place, each in enumerate(then, 1)]
        following = releasing(pods) if way == "back" else adoption(way, pods)  # type: ignore[arg-type]
        for _ in range(most):
            there = state_after(there, following(there))
            assert steady <= listed(there)


# --- what somebody else did meanwhile ---------------------------------------------------------------------------------


def test_a_selector_that_comes_back_is_released_without_touching_it() -> None:
    selector = {"app": "cart", "v": "2"}
    back = structs.replace(ADOPTED.service, spec=structs.replace(ADOPTED.service.spec, selector=selector))
    pods = [structs.replace(pod, metadata=structs.replace(pod.metadata, labels=selector)) for pod in PODS]
    found, places = walked(replace(ADOPTED, service=back), releasing(pods))
    assert [type(step) for step in found] == [WaitForOthers, DeleteSlices, ChangeService, HandoverDone]
    assert places[-1].service == a_service(selector=selector)


def test_where_the_marks_went_with_the_selector_coming_back_our_slices_go_all_the_same() -> None:
    found, places = walked(replace(ADOPTED, service=a_service()), releasing())
    assert [type(step) for step in found] == [WaitForOthers, DeleteSlices, HandoverDone]
    assert (places[-1].own, places[-1].service) == ((), a_service())


@pytest.mark.parametrize("missing", [0, 3])
def test_ours_stay_while_the_built_in_controller_lacks_a_ready_endpoint(missing: int) -> None:
    short = [structs.replace(each, endpoints=tuple((each.endpoints or ())[1:] if missing else ())) for each in BUILT_IN]
    there = replace(ADOPTED, service=a_service(), slices=(*ADOPTED.slices, *short))
    assert isinstance(releasing()(there), WaitForOthers)


def test_ours_stay_while_the_built_in_controller_lists_an_endpoint_with_another_port() -> None:
    other = [structs.replace(each, ports=()) for each in BUILT_IN]
    assert isinstance(
        releasing()(replace(ADOPTED, service=a_service(), slices=(*ADOPTED.slices, *other))), WaitForOthers
    )


def test_ours_stay_while_the_built_in_controller_lists_an_endpoint_as_not_ready() -> None:
    def unready(each: EndpointSlice) -> EndpointSlice:
        first, *rest = each.endpoints or ()
        return structs.replace(
            each, endpoints=(structs.replace(first, conditions=EndpointConditions(ready=False)), *rest)
        )

    there = replace(ADOPTED, service=a_service(), slices=(*ADOPTED.slices, *map(unready, BUILT_IN)))
    assert isinstance(releasing()(there), WaitForOthers)


def test_a_slice_of_theirs_in_a_family_that_the_service_has_not_goes_with_the_others() -> None:
    metadata = structs.replace(BUILT_IN[0].metadata, name="cart-six")
    six = structs.replace(BUILT_IN[0], metadata=metadata, address_type="IPv6", endpoints=())
    found, _ = walked(replace(BEGUN, slices=(*BUILT_IN, six)), adoption())
    (write,) = (step for step in found if isinstance(step, WriteSlices))
    (delete,) = (step for step in found if isinstance(step, DeleteSlices))
    assert (write.delete, delete.slices) == ((), (*BUILT_IN, six))


def test_without_ready_endpoints_a_slice_of_the_built_in_controller_is_awaited_all_the_same() -> None:
    following = releasing([])
    there = replace(ADOPTED, service=a_service())
    assert isinstance(following(there), WaitForOthers)
    empty = tuple(structs.replace(each, endpoints=()) for each in BUILT_IN)
    assert isinstance(following(replace(there, slices=(*there.slices, *empty))), DeleteSlices)


def test_slices_that_come_back_are_deleted_again() -> None:
    step = adoption()(replace(ADOPTED, slices=(*ADOPTED.slices, *BUILT_IN)))
    assert isinstance(step, DeleteSlices)
    assert step.slices == BUILT_IN


def test_a_slice_of_somebody_else_is_neither_deleted_nor_counted() -> None:
    other = structs.replace(
        BUILT_IN[0],
        metadata=structs.replace(
            BUILT_IN[0].metadata,
            name="others",
            labels=(BUILT_IN[0].metadata.labels or {}) | {names.MANAGED_BY_LABEL: "example.com"},
        ),
    )
    adopted = walked(replace(BEGUN, slices=(*BUILT_IN, other)), adoption())[1][-1]
    assert other in adopted.slices
    assert isinstance(releasing()(replace(adopted, service=a_service())), WaitForOthers)


def test_a_pod_that_changes_is_written_before_theirs_go() -> None:
    _, places = walked(BEGUN, adoption())
    written = places[4]
    assert written.built_in
    step = adoption(pods=[*PODS, a_pod(9)])(written)
    assert isinstance(step, WriteSlices)
    assert [len(each.endpoints or ()) for each in step.update] == [7]


def test_without_an_endpoints_object_nothing_is_awaited() -> None:
    found, _ = walked(replace(BEGUN, endpoints=None), adoption())
    assert WaitForOthers not in map(type, found)


def test_where_no_controller_copies_the_label_we_set_it() -> None:
    service = state_after(BEGUN, adoption()(BEGUN)).service
    step = adoption()(replace(BEGUN, service=service))
    assert isinstance(step, WaitForOthers)
    assert isinstance(step.otherwise, LabelEndpoints)
    assert step.then.endpoints == LABELLED


def test_an_endpoints_object_that_appears_without_the_label_is_labelled_at_once() -> None:
    step = adoption()(replace(ADOPTED, endpoints=UNLABELLED))
    assert isinstance(step, LabelEndpoints)


def test_the_other_choice_for_the_endpoints_object_is_noted_and_done() -> None:
    found, places = walked(ADOPTED, adoption("delete"))
    assert [type(step) for step in found] == [ChangeService, DeleteEndpoints, HandoverDone]
    assert (places[-1].service.metadata.annotations or {})[ENDPOINTS_ANNOTATION] == "delete"


def test_whose_label_it_is_nobody_knows_once_the_mark_is_lost_and_it_stays() -> None:
    annotations = dict(ADOPTED.service.metadata.annotations or {})
    del annotations[BEFORE_ANNOTATION]
    lost = structs.replace(ADOPTED.service, metadata=structs.replace(ADOPTED.service.metadata, annotations=annotations))
    there = walked(walked(replace(ADOPTED, service=lost), adoption())[1][-1], releasing())[1][-1]
    assert there.service == a_service(labels={SKIP_MIRROR_LABEL: "true"})


def test_slices_of_ours_are_those_that_the_configured_manager_wrote() -> None:
    there = replace(BEGUN, manager="example.com")
    assert (there.own, there.built_in) == ((), BUILT_IN)
    renamed = structs.replace(
        BUILT_IN[0],
        metadata=structs.replace(BUILT_IN[0].metadata, labels={names.MANAGED_BY_LABEL: "example.com"}),
    )
    assert replace(there, slices=(renamed,)).own == (renamed,)


def test_a_service_that_was_never_adopted_is_left_as_it_is() -> None:
    assert isinstance(releasing()(BEGUN), HandoverDone)


# --- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("service", "words"),
    [
        (a_service(selector=None), "expected a selector, got none"),
        (a_service(selector={}), "expected a selector, got none"),
        (a_service(type="ExternalName"), "of type ExternalName"),
        (
            a_service(selector=None, annotations={SELECTOR_ANNOTATION: "[1]"}),
            "a JSON object of labels, got '[1]'",
        ),
        (convert({"metadata": {"deletionTimestamp": "x"}, "spec": {"selector": SELECTOR}}, Service), "being deleted"),
        (a_service(), None),
        (a_service(clusterIP="None"), None),
        (a_service(selector=None, annotations={SELECTOR_ANNOTATION: MARK}), None),
    ],
)
def test_what_is_refused_says_what_was_expected(service: Service, words: str | None) -> None:
    reason = reason_to_refuse(service)
    assert reason is None if words is None else words in (reason or "")


def test_all_marks_are_known() -> None:
    marks = {name for name in ADOPTED.service.metadata.annotations or {} if name.startswith(names.DOMAIN)}
    assert marks == set(ADOPTION_MARKS)
