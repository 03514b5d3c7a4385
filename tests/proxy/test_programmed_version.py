"""A proxy claims a version only when the kernel has all changes up to it."""

from collections.abc import Set

from hypothesis import given
from hypothesis import strategies as st

from zoneward.kube.leases import MAX_NOT_PROGRAMMED, ProgrammedReport
from zoneward.kube.objects import ObjectKey
from zoneward.proxy.node_lease import ProgrammedVersion

CART, WISHLIST = ("shop", "cart"), ("shop", "wishlist")
SERVICE, SLICE = "Service", "EndpointSlice"


def claimed(
    mark: ProgrammedVersion, *, waits: Set[ObjectKey] = frozenset(), refused: Set[ObjectKey] = frozenset()
) -> ProgrammedReport | None:
    return mark.current(is_pending=lambda key: key in waits, refused=refused)


def listed(services: int = 10, slices: int = 20) -> ProgrammedVersion:
    mark = ProgrammedVersion()
    mark.mark_changed(CART)
    mark.mark_received(SERVICE, services)
    mark.mark_changed(CART)
    mark.mark_received(SLICE, slices)
    return mark


def test_nothing_is_claimed_before_all_was_listed_and_programmed_once() -> None:
    mark = ProgrammedVersion()
    assert claimed(mark) is None
    mark.mark_changed(CART)
    mark.mark_received(SERVICE, 10)
    assert claimed(mark, waits={CART}) is None
    mark.mark_received(SLICE, 20)
    assert claimed(mark, waits={CART}) is None
    assert claimed(mark) == ProgrammedReport(10, 20)


def test_what_concerns_no_service_moves_the_mark() -> None:
    mark = listed()
    mark.mark_received(SERVICE, 40)
    mark.mark_received("Node", 70)
    assert claimed(mark) == ProgrammedReport(40, 20)


def test_more_refused_services_than_can_be_named_hold_the_mark() -> None:
    mark = listed()
    many = {("shop", f"s{index:03}") for index in range(MAX_NOT_PROGRAMMED + 1)}
    assert claimed(mark, refused=many) == ProgrammedReport(10, 20, tuple(sorted(many)[:MAX_NOT_PROGRAMMED]))
    mark.mark_received(SERVICE, 50)
    assert claimed(mark, refused=many) == ProgrammedReport(10, 20, tuple(sorted(many)[:MAX_NOT_PROGRAMMED]))
    fewer = sorted(many)[:-1]
    assert claimed(mark, refused=set(fewer)) == ProgrammedReport(50, 20, tuple(fewer))


_SERVICES = [("shop", name) for name in "abc"]
_STEPS = st.lists(
    st.tuples(st.just("event"), st.sampled_from([SERVICE, SLICE]), st.sampled_from(_SERVICES))
    | st.tuples(st.just("program"), st.just(""), st.sampled_from(_SERVICES))
    | st.tuples(st.just("refuse"), st.just(""), st.sampled_from(_SERVICES))
    | st.tuples(st.just("claim"), st.just(""), st.none()),
    max_size=40,
)


@given(_STEPS)
def test_no_claim_says_more_than_the_kernel_has_and_all_is_claimed_in_the_end(
    steps: list[tuple[str, str, ObjectKey]],
) -> None:
    mark, version = listed(), 20
    events: list[tuple[str, int, ObjectKey]] = []
    done: dict[ObjectKey, int] = {}
    """How many events of a Service the kernel has."""
    refused: set[ObjectKey] = set()

    def missing(key: ObjectKey) -> list[tuple[str, int, ObjectKey]]:
        return [event for event in events if event[2] == key][done.get(key, 0) :]

    def claim() -> ProgrammedReport:
        report = claimed(mark, waits={key for key in _SERVICES if missing(key)} - refused, refused=refused)
        assert report is not None
        for key in set(_SERVICES) - set(report.excluded):
            for kind, at, _ in missing(key):
                assert at > (report.services if kind == SERVICE else report.slices)
        return report

    claim()
    for what, kind, key in steps:
        if what == "event":
            version += 1
            mark.mark_changed(key)
            mark.mark_received(kind, version)
            events.append((kind, version, key))
            refused.discard(key)
        elif what == "program":
            done[key] = sum(event[2] == key for event in events)
            refused.discard(key)
        elif what == "refuse" and missing(key):
            refused.add(key)
        elif what == "claim":
            claim()
    for key in _SERVICES:
        done[key] = len(events)
    refused.clear()
    newest = {
        kind: max((at for event_kind, at, _ in events if event_kind == kind), default=0) for kind in (SERVICE, SLICE)
    }
    assert claim() == ProgrammedReport(max(10, newest[SERVICE]), max(20, newest[SLICE]))
