"""What is met is found, all of it, once, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from zoneward.controller.status.honored_condition import NeededVersions, WaitingServices

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
