"""Rules that are mended equal rules that are made anew, and a kernel takes every step."""

from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.proxy.drawn_services import services

from zoneward.netlink.messages import Family
from zoneward.proxy.kernel.fake_kernel import FakeKernel
from zoneward.proxy.model.node_service import NodeService
from zoneward.proxy.ruleset.base_rules import RulesetOptions
from zoneward.proxy.ruleset.difference import diff_rulesets, split_changes
from zoneward.proxy.ruleset.nft_commands import render_commands
from zoneward.proxy.ruleset.ruleset import NO_RULES, Ruleset
from zoneward.proxy.ruleset.ruleset_state import RulesetState
from zoneward.proxy.ruleset.service_rules import EndpointSlots, assign_slots, service_rules

OPTIONS = RulesetOptions(pod_cidrs={"ip": "10.0.0.0/24", "ip6": "fd00::/64"})
NAMES = ["1", "2", "3"]
_HOWEVER_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
"""A busy machine is no fault of what is drawn."""
Steps = list[tuple[str, NodeService | None]]


def steps(family: Family) -> st.SearchStrategy[Steps]:
    """Services that come, change and go."""

    def one(name: str) -> st.SearchStrategy[tuple[str, NodeService | None]]:
        return st.tuples(st.just(name), st.none() | services(family, name=name))

    return st.lists(st.sampled_from(NAMES).flatmap(one), max_size=8)


def has(kernel: FakeKernel, ruleset: Ruleset) -> None:
    """A kernel has what a ruleset says, and nothing else."""
    table = kernel.tables[ruleset.family, ruleset.table]
    assert kernel.elements(ruleset.family, ruleset.table) == {k: dict(v) for k, v in ruleset.elements.items() if v}
    assert kernel.chains(ruleset.family, ruleset.table) == {name: chain.rules for name, chain in ruleset.chains.items()}
    assert table.sets.keys() == ruleset.sets.keys()


@pytest.mark.parametrize("family", ["ip", "ip6"])
@settings(max_examples=50, suppress_health_check=_HOWEVER_SLOW)
@given(data=st.data())
def test_any_changes_one_after_the_other_come_to_a_fresh_load(family: Family, data: st.DataObject) -> None:
    kept, kernel = RulesetState(family, "zoneward", OPTIONS), FakeKernel()
    kernel.load(render_commands(kept.start()))
    there: dict[str, EndpointSlots] = {}
    for name, service in data.draw(steps(family)):
        before = kept.full_ruleset()
        if service is None:
            there.pop(name, None)
            changes = kept.set_service(("shop", name), NO_RULES)
        else:
            there[name] = assign_slots((service,), there.get(name, {}))
            changes = kept.set_service(("shop", name), service_rules((service,), there[name], OPTIONS))
        for transaction in split_changes(changes):
            kernel.load(render_commands(transaction))
        has(kernel, kept.full_ruleset())
        other = FakeKernel()
        other.load(render_commands(diff_rulesets(None, before)))
        other.load(render_commands(diff_rulesets(before, kept.full_ruleset())))
        has(other, kept.full_ruleset())
    fresh = FakeKernel()
    fresh.load(render_commands(diff_rulesets(None, kept.full_ruleset())))
    has(fresh, kept.full_ruleset())


@pytest.mark.parametrize("family", ["ip", "ip6"])
@settings(max_examples=50, suppress_health_check=_HOWEVER_SLOW)
@given(data=st.data())
def test_a_table_that_is_found_is_taken_over(family: Family, data: st.DataObject) -> None:
    before, after = (dict(data.draw(steps(family))) for _ in range(2))
    kernel = FakeKernel()
    there = begun(kernel, family, before, present=None)
    kept = begun(kernel, family, after, present=there.full_ruleset())
    has(kernel, kept.full_ruleset())
    assert not begun(
        FakeKernel(), family, after, present=kept.full_ruleset(), only_what_is_needed=True
    ).remove_leftovers()


def begun(
    kernel: FakeKernel,
    family: Family,
    found: Mapping[str, NodeService | None],
    *,
    present: Ruleset | None,
    only_what_is_needed: bool = False,
) -> RulesetState:
    """A start with some Services, in a kernel that has a table or none."""
    kept = RulesetState(family, "zoneward", OPTIONS, present=present)
    steps = [kept.start()]
    # By name, as the first one gets what two ask for.
    for name, service in sorted(found.items()):
        if service is not None:
            steps.append(
                kept.set_service(("shop", name), service_rules((service,), assign_slots((service,), {}), OPTIONS))
            )
    steps.append(kept.remove_leftovers())
    for each in steps:
        if only_what_is_needed:
            assert not each
        else:
            kernel.load(render_commands(each))
    return kept
