"""The list of rules in the making, and the words that its numbers stand in."""

import pytest

from zoneward.routing.rules import Rule, RuleLog, counted, listed


def test_rules_stand_in_the_order_in_which_they_were_asked_with_their_answers() -> None:
    rules = RuleLog()
    assert rules.record("first", True, "1 of 1") is True
    assert rules.record("second", False, "0 of 1") is False
    assert rules.as_tuple() == (Rule("first", True, "1 of 1"), Rule("second", False, "0 of 1"))


@pytest.mark.parametrize(("number", "text"), [(0, "0 endpoints"), (1, "1 endpoint"), (2, "2 endpoints")])
def test_a_number_goes_with_its_noun(number: int, text: str) -> None:
    assert counted(number, "endpoint") == text


@pytest.mark.parametrize(
    ("names", "text"),
    [((), ""), (("a",), "a"), (("a", "b", "c"), "a, b, c"), (("a", "b", "c", "d", "e"), "a, b, c and 2 more")],
)
def test_a_long_list_of_names_is_cut_and_says_so(names: tuple[str, ...], text: str) -> None:
    assert listed(names) == text
