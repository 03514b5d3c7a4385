"""Changes are written so that no packet meets half of them.

For any objects of an API server, commands for nft consist of parsed values and of valid names.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from ipaddress import ip_network
from typing import Any, Final

import pytest
from hypothesis import given, settings
from tests.proxy.hostile_objects import DOCUMENT, INJECTED, PATHS, documents, rulesets
from tests.proxy.kernel.fake_kernel import FakeKernel

from zoneward.proxy.kernel.table_writer import encode_transaction
from zoneward.proxy.ruleset.ruleset import (
    Chain,
    Ruleset,
    RulesetChanges,
    SetDeclaration,
    comment_line,
    diff_rulesets,
    merge_changes,
    quote,
    render_commands,
    safe_name,
    split_changes,
)

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


_OWN_NAME: Final = re.compile(r"[a-z-]+-[A-Z2-7]{12}-[A-Za-z0-9/_.-]*")
_SHARED_NAME: Final = re.compile(r"[a-z-]+-\d+|layout-[0-9a-f]{16}")
_NUMBER: Final = re.compile(r"\d+s?|0x[0-9a-f]{8}")
_ENDPOINT: Final = re.compile(r"([0-9.]+|\[[0-9a-f:]+\]):\d+")


def emitted(ruleset: Ruleset) -> str:
    return render_commands(replace(diff_rulesets(None, ruleset), replaces_table=True))


def words(line: str) -> list[str]:
    return [word.removeprefix("@") for word in re.split(r",? ", line.replace("; ", " ; "))]


@cache
def vocabulary() -> frozenset[str]:
    """Words of rules that are not values: those of nft and Zoneward's names."""
    all_words = {
        word
        for ruleset in rulesets(DOCUMENT).values()
        for line in emitted(ruleset).splitlines()
        for word in words(line)
    }
    return frozenset(word for word in all_words if not is_value(word))


def is_value(word: str) -> bool:
    """Whether a word is an address, a range, a number, or a name that Zoneward built."""
    if any(pattern.fullmatch(word) for pattern in (_OWN_NAME, _SHARED_NAME, _NUMBER, _ENDPOINT)):
        return True
    try:
        return str(ip_network(word)).removesuffix("/32").removesuffix("/128") == word and "%" not in word
    except ValueError:
        return False


def check(document: Mapping[str, Any]) -> None:
    for family, ruleset in rulesets(document).items():
        whole = emitted(ruleset)
        lines = whole.split("\n")
        assert lines.pop() == ""
        for line in lines:
            assert {word for word in words(line) if not is_value(word)} <= vocabulary(), line
        # Every line is one of Zoneward's commands.
        rules = sum(len(chain.rules) for chain in ruleset.chains.values())
        elements = sum((len(entries) + 499) // 500 for entries in ruleset.elements.values())
        assert len(lines) == 3 + len(ruleset.sets) + len(ruleset.chains) + rules + elements
        kernel = FakeKernel()
        kernel.load(whole)
        assert kernel.chains(family, ruleset.table) == {name: chain.rules for name, chain in ruleset.chains.items()}
        # The same elements can be sent to the kernel without nft.
        changes = RulesetChanges(family=family, table=ruleset.table, added_elements=ruleset.elements)
        assert (encode_transaction(changes, ruleset.sets) is not None) == any(ruleset.elements.values())


@pytest.mark.slow
@settings(max_examples=50)
@given(document=documents())
def test_no_text_of_others_becomes_a_word_of_nft(document: Mapping[str, Any]) -> None:
    check(document)


def test_a_cluster_without_hostile_texts_has_all_kinds_of_rules_there_are() -> None:
    check(DOCUMENT)
    every = "".join(map(emitted, rulesets(DOCUMENT).values()))
    for name in ("guard-", "kept-", "keep-", "endpoint-", "hairpin", "node-ports", "198.51.100.1", "192.0.2.10"):
        assert name in every
    assert len(PATHS) > 100


@pytest.mark.parametrize("word", ["a b", 'a"b', "a\nb", "a\\", "", "ä", "\x1b"])
def test_what_cannot_be_quoted_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="printable characters"):
        quote(word)


def test_names_and_comments_stay_in_their_place() -> None:
    assert quote("veth*") == '"veth*"'
    assert safe_name(f"shop/ä }}\n{INJECTED}") == "shop/....add.table.inet.X"
    assert comment_line(f"zone a\n{INJECTED}\x1b\u202e") == f"# zone a?{INJECTED}??"
