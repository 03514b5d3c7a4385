"""Updated rules equal rules that are built from scratch, and a kernel accepts every step."""

from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.proxy.drawn_services import changes
from tests.proxy.kernel.fake_kernel import FakeKernel

from zoneward.netlink.messages import Family
from zoneward.proxy.model.node_service import NodeService
from zoneward.proxy.ruleset.base_rules import RulesetOptions
from zoneward.proxy.ruleset.ruleset import Ruleset, render_commands
from zoneward.proxy.ruleset.ruleset_state import RulesetState
from zoneward.proxy.ruleset.service_rules import assign_slots, service_rules

OPTIONS = RulesetOptions(pod_cidrs={"ip": "10.0.0.0/24", "ip6": "fd00::/64"})
_HOWEVER_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
"""A busy machine is not an error of the strategy."""


def has(kernel: FakeKernel, ruleset: Ruleset) -> None:
    """A kernel has what a ruleset says, and nothing else."""
    table = kernel.tables[ruleset.family, ruleset.table]
    assert kernel.elements(ruleset.family, ruleset.table) == {k: dict(v) for k, v in ruleset.elements.items() if v}
    assert kernel.chains(ruleset.family, ruleset.table) == {name: chain.rules for name, chain in ruleset.chains.items()}
    assert table.sets.keys() == ruleset.sets.keys()


@pytest.mark.parametrize("family", ["ip", "ip6"])
@settings(max_examples=25, suppress_health_check=_HOWEVER_SLOW)
@given(data=st.data())
def test_a_table_that_is_found_is_taken_over(family: Family, data: st.DataObject) -> None:
    before, after = (dict(data.draw(changes(family))) for _ in range(2))
    kernel = FakeKernel()
    loaded = with_services(kernel, family, before, present=None)
    state = with_services(kernel, family, after, present=loaded.full_ruleset())
    has(kernel, state.full_ruleset())
    assert not with_services(
        FakeKernel(), family, after, present=state.full_ruleset(), only_what_is_needed=True
    ).remove_leftovers()


def with_services(
    kernel: FakeKernel,
    family: Family,
    services: Mapping[str, NodeService | None],
    *,
    present: Ruleset | None,
    only_what_is_needed: bool = False,
) -> RulesetState:
    """A start with some Services, in a kernel that has a table or none."""
    state = RulesetState(family, "zoneward", OPTIONS, present=present)
    steps = [state.start()]
    # By name, as the first one gets what two request.
    for name, service in sorted(services.items()):
        if service is not None:
            steps.append(
                state.set_service(("shop", name), service_rules((service,), assign_slots((service,), {}), OPTIONS))
            )
    steps.append(state.remove_leftovers())
    for step in steps:
        if only_what_is_needed:
            assert not step
        else:
            kernel.load(render_commands(step))
    return state
