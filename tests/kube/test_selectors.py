"""Label selectors as kubectl takes them."""

import pytest

from zoneward.kube.selectors import parse_selector

LABELS = {"app": "web", "tier": "front", "zone": "a", "example.com/team": "x"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app=db", False),
        ("app!=db", True),
        ("missing!=x", True),
        ("app", True),
        ("missing", False),
        ("!missing", True),
        ("!app", False),
        ("zone in (a,b)", True),
        ("zone in ( b , c )", False),
        ("zone notin (b)", True),
        ("missing in (b)", False),
        ("example.com/team=x", True),
        ("app=web,tier=front, zone in (a),!missing", True),
        ("app=", False),
    ],
)
def test_every_requirement_has_to_hold(text: str, matches: bool) -> None:
    assert parse_selector(text).matches(LABELS) is matches


@pytest.mark.parametrize("text", ["a b", "=x", "a in b", "a in (b", ",", "a=b c", "a=b,,c=d"])
def test_invalid_selector_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected key=value"):
        parse_selector(text)
