"""Changes are written so that no packet meets half of them."""

from zoneward.proxy.ruleset.difference import merge_changes, split_changes
from zoneward.proxy.ruleset.ruleset import Chain, RulesetChanges, SetDeclaration

CHANGES = RulesetChanges(
    family="ip",
    table="zoneward",
    sets={"kept": SetDeclaration("set", "type ipv4_addr")},
    chains={"c-3": Chain(("drop",))},
    removed_elements={"services": {"a": "goto c-2"}},
    added_elements={"services": {"a": "goto c-3"}},
    deleted_chains=frozenset({"c-2"}),
)


def test_a_chain_is_added_before_anything_leads_to_it_and_deleted_after_nothing_does() -> None:
    ahead, rest, behind = split_changes(CHANGES)
    assert (ahead.sets, ahead.chains) == (CHANGES.sets, CHANGES.chains)
    assert not any((ahead.added_elements, ahead.removed_elements, ahead.deleted_chains))
    assert (rest.removed_elements, rest.added_elements) == (CHANGES.removed_elements, CHANGES.added_elements)
    assert not any((rest.chains, rest.deleted_chains))
    assert behind.deleted_chains == CHANGES.deleted_chains
    assert not any((behind.chains, behind.added_elements, behind.removed_elements))
    assert merge_changes([ahead, rest, behind]) == CHANGES
