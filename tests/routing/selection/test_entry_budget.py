"""Services that do not fit into a namespace's or a node's budget are set aside: the youngest, in any order."""

from random import Random
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from zoneward.kube.objects import ObjectKey
from zoneward.routing.selection.entry_budget import EntryBudget

MOST: Final = 20
OF_NAMESPACE: Final = 12
NAMES: Final = tuple((namespace, name) for namespace in "abc" for name in "xyz")


def a_budget() -> EntryBudget:
    return EntryBudget(most=MOST, most_of_namespace=OF_NAMESPACE)


def set_aside(budget: EntryBudget) -> dict[ObjectKey, str]:
    return {key: limit for key in NAMES if (limit := budget.set_aside(key)) is not None}


def test_services_that_are_set_aside_are_counted_and_the_limit_is_named() -> None:
    budget = a_budget()
    for index, namespace in enumerate("aabc"):
        budget.set_entries((namespace, "xyz"[index % 3]), 8, creation_timestamp=f"2026-01-0{index + 1}T00:00:00Z")
    assert set_aside(budget) == {("a", "y"): "namespace", ("c", "x"): "node"}
    assert (budget.used, budget.counts()) == (16, {"namespace": 1, "node": 1})
    assert budget.reason(("a", "y")) == (
        "the Services of its namespace come to 16 entries, expected at most 12 (--max-namespace-entries);"
        " older Services come first"
    )
    assert "expected at most 20 (--max-entries)" in budget.reason(("c", "x"))
    assert budget.set_entries(("a", "x"), None) == {("a", "y")}
    assert budget.set_entries(("b", "z"), 4, creation_timestamp="2026-01-03T00:00:00Z") == {("c", "x")}
    assert budget.set_entries(("b", "x"), 0) == set()


steps = st.lists(
    st.tuples(
        st.sampled_from(NAMES), st.none() | st.integers(0, 15), st.sampled_from(["", "2026-01-01T00:00:00Z", "2026-02"])
    ),
    max_size=20,
)


@given(steps=steps, data=st.data())
def test_any_order_of_changes_ends_alike_and_within_the_limits(
    steps: list[tuple[ObjectKey, int | None, str]], data: st.DataObject
) -> None:
    budget, last, aside = a_budget(), dict[ObjectKey, tuple[int, str]](), dict[ObjectKey, str]()
    for key, entries, creation in steps:
        changed = budget.set_entries(key, entries, creation_timestamp=creation)
        last.pop(key, None)
        if entries is not None:
            last[key] = entries, creation
        before, aside = aside, set_aside(budget)
        assert changed >= before.keys() ^ aside.keys()
    again = a_budget()
    for key in data.draw(st.permutations(sorted(last))):
        again.set_entries(key, last[key][0], creation_timestamp=last[key][1])
    assert set_aside(again) == aside
    fitting = {key: entries for key, (entries, _) in last.items() if key not in aside}
    assert budget.used == again.used == sum(fitting.values()) <= MOST
    assert all(sum(count for key, count in fitting.items() if key[0] == of) <= OF_NAMESPACE for of in "abc")


def test_many_services_fit_as_if_they_were_counted_one_after_another() -> None:
    random, budget = Random(5), EntryBudget(most=9_000, most_of_namespace=4_000)
    services: dict[ObjectKey, tuple[str, int]] = {}
    for index in range(2_500):
        key = random.choice("abc"), f"s{random.randrange(800)}"
        services[key] = f"2026-01-{random.randrange(10, 30)}T00:00:00Z", random.choice((1, 3, 40))
        budget.set_entries(key, services[key][1], creation_timestamp=services[key][0])
        if index % 25 == 0:
            gone = random.choice(sorted(services))
            del services[gone]
            budget.set_entries(gone, None)
    expected, used, node = dict.fromkeys(services), dict.fromkeys("abc", 0), 0
    for key in sorted(services, key=lambda key: (services[key][0], key)):
        entries = services[key][1]
        if used[key[0]] + entries > 4_000:
            expected[key] = "namespace"
            continue
        used[key[0]] += entries
        if node + entries > 9_000:
            expected[key] = "node"
        else:
            node += entries
    assert {key: budget.set_aside(key) for key in services} == expected
    assert budget.used == node
    assert {*expected.values()} == {None, "namespace", "node"}
