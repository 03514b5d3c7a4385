"""In which words it is told whether a Service's traffic distribution is honored, and of what it is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from zoneward.controller.status.honored_condition import (
    HonoredReason,
    NeededVersions,
    WaitingServices,
    honored_condition,
    planned_reason,
    revision_of,
    states_honored,
)
from zoneward.controller.status.status_writer import are_equal, have_equal_meaning
from zoneward.kube import names
from zoneward.kube.objects import Condition, ObjectMeta, Service, ServicePort, ServiceSpec, ServiceStatus

ACCEPTED = Condition(type=names.ACCEPTED_CONDITION, status="True", reason="Accepted")
PROGRAMMED = Condition(
    type=names.PROGRAMMED_CONDITION, status="True", reason="Enabled", message="Hints/PreferSameZone: 9 endpoints: fine"
)
ON = (ACCEPTED, PROGRAMMED)
OFF = (ACCEPTED, replace(PROGRAMMED, status="False", reason="OneZone"))
UNKNOWN = (
    replace(ACCEPTED, status="False", reason="UnknownValue", message="x"),
    replace(PROGRAMMED, status="False", reason="UnknownValue", message="spec.trafficDistribution: 'x' is not known"),
)
CART = Service(
    metadata=ObjectMeta(name="cart", namespace="shop", uid="u-1", resource_version="7"),
    spec=ServiceSpec(
        traffic_distribution="PreferSameZone", selector={"a": "1", "b": "2"}, ports=(ServicePort(port=80),)
    ),
)


def test_a_revision_is_of_what_is_asked_for_and_of_nothing_that_a_controller_writes() -> None:
    revision = revision_of(CART, ON)
    assert len(revision) == 8
    written = replace(
        CART,
        metadata=replace(CART.metadata, resource_version="9", annotations={"other": "1"}),
        spec=replace(CART.spec, selector={"b": "2", "a": "1"}),
        status=ServiceStatus(conditions=ON),
    )
    assert revision_of(written, (ACCEPTED, replace(PROGRAMMED, message="Hints/PreferSameZone: 10"))) == revision
    others = {
        revision_of(CART, OFF),
        revision_of(replace(CART, metadata=replace(CART.metadata, uid="u-2")), ON),
        revision_of(replace(CART, spec=replace(CART.spec, traffic_distribution="PreferSameNode")), ON),
        revision_of(replace(CART, spec=replace(CART.spec, ports=(ServicePort(port=81),))), ON),
        revision_of(
            replace(CART, metadata=replace(CART.metadata, annotations={names.TOPOLOGY_MODE_ANNOTATION: ""})), ON
        ),
        revision_of(CART, (ACCEPTED, replace(PROGRAMMED, message="Hints/Other: 9"))),
    }
    assert revision not in others
    assert len(others) == 6


@pytest.mark.parametrize(
    ("planned", "reason"),
    [
        (ON, HonoredReason.PROGRAMMING),
        (OFF, HonoredReason.NOT_PROGRAMMED),
        (UNKNOWN, HonoredReason.NOT_ACCEPTED),
        ((UNKNOWN[0], PROGRAMMED), HonoredReason.NOT_ACCEPTED),
    ],
    ids=["on", "off", "unknown", "one of two unknown"],
)
def test_what_is_said_before_any_node_is_asked(planned: tuple[Condition, ...], reason: HonoredReason) -> None:
    assert planned_reason(planned) is reason


def test_the_words() -> None:
    def said(reason: HonoredReason, planned: tuple[Condition, ...] = ON, **more: object) -> tuple[str, str, str]:
        found = honored_condition(reason, planned, "0123abcd", **more)  # type: ignore[arg-type]
        assert found.type == names.HONORED_CONDITION
        return found.status, found.reason, found.message

    start = "Hints/PreferSameZone: revision 0123abcd"
    assert said(HonoredReason.PROGRAMMING) == ("Unknown", "Programming", f"{start} is on its way to the nodes")
    assert said(HonoredReason.PROGRAMMED, nodes=1) == ("True", "Programmed", f"{start} is in the kernel of 1 node")
    behind = ["n1", "n2", "n3", "n4"]
    words = f"{start} is in the kernel of 8 of 12 nodes; not yet of n1, n2, n3, ..."
    assert said(HonoredReason.NODES_BEHIND, nodes=12, behind=behind) == ("False", "NodesBehind", words)
    words = f"{start} is in the kernel of 0 of 1 node; not yet of n1"
    assert said(HonoredReason.NODES_BEHIND, nodes=1, behind=["n1"]) == ("False", "NodesBehind", words)
    assert said(HonoredReason.NOT_PROGRAMMED, OFF) == ("False", "NotProgrammed", f"{start}: OneZone")
    assert said(HonoredReason.NOT_ACCEPTED, UNKNOWN) == ("False", "NotAccepted", "revision 0123abcd: UnknownValue")


def test_it_is_found_to_be_of_a_revision_and_which_nodes_are_behind_are_mere_words() -> None:
    told = honored_condition(HonoredReason.PROGRAMMED, ON, "0123abcd", nodes=12)
    assert states_honored(told, "0123abcd")
    assert not states_honored(told, "0123abce")
    assert not states_honored(honored_condition(HonoredReason.PROGRAMMING, ON, "0123abcd"), "0123abcd")
    assert not states_honored(None, "0123abcd")
    one, other = (
        honored_condition(HonoredReason.NODES_BEHIND, ON, "0123abcd", nodes=12, behind=behind)
        for behind in (["n1", "n2"], ["n2"])
    )
    assert have_equal_meaning((one,), (other,))
    assert not are_equal((one,), (other,))
    assert not have_equal_meaning((one,), (told,))


# --- What is met is found, all of it, once, and nothing else ---


_NEED = st.builds(NeededVersions, st.integers(0, 6), st.integers(0, 6))
_STEPS = st.lists(
    st.tuples(st.just("add"), st.integers(0, 4), _NEED)
    | st.tuples(st.just("discard"), st.integers(0, 4), _NEED)
    | st.tuples(st.just("met"), st.just(0), _NEED),
    max_size=40,
)


@given(_STEPS)
def test_it_finds_what_a_look_at_all_of_them_would_find(steps: list[tuple[str, int, NeededVersions]]) -> None:
    needs, all_of_them = WaitingServices(), dict[tuple[str, str], NeededVersions]()
    for what, number, need in steps:
        key = ("shop", str(number))
        if what == "add":
            needs.add(key, need)
            all_of_them[key] = need
        elif what == "discard":
            needs.discard(key)
            all_of_them.pop(key, None)
        else:
            met = {k for k, n in all_of_them.items() if n.services <= need.services and n.slices <= need.slices}
            found = needs.pop_met(need)
            assert len(found) == len(met)
            assert set(found) == met
            for key in met:
                del all_of_them[key]
        assert len(needs) == len(all_of_them)
