"""The annotation of demand: what is read, and that nothing else is."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoneward.kube.demand import parse_demand


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a=0.5,b=0.3,c=0.2", {"a": Fraction(1, 2), "b": Fraction(3, 10), "c": Fraction(1, 5)}),
        (" a = 50% , b=1", {"a": Fraction(1, 2), "b": Fraction(1)}),
        ("eu-1a=7,eu-1b=0", {"eu-1a": Fraction(7), "eu-1b": Fraction(0)}),
        ("a=999999999.999999999", {"a": Fraction(999999999999999999, 10**9)}),
    ],
)
def test_parts_are_numbers_or_percentages(text: str, parts: dict[str, Fraction]) -> None:
    assert parse_demand(text) == parts


@pytest.mark.parametrize(
    "text",
    [
        *("", "banana", "a", "a=", "=1", "a=b", "a=-1", "a=1e3", "a=.5", "a=1.", "a=0", "a=0,b=0%", "a=nan", "a=1=2"),
        *("a=1,", ",a=1", "a=1,a=2", "a b=1", "a\n=1\nb", "a=1;b=2", "-a=1", "a=१", f"{'z' * 64}=1", "a=1234567890"),
        ",".join(f"zone-{index}=1" for index in range(1000)),
    ],
)
def test_any_other_text_is_none(text: str) -> None:
    assert parse_demand(text) is None


@given(st.text(alphabet="ab=,.%0123456789 \n-"))
def test_any_text_is_positive_shares_or_none(text: str) -> None:
    parts = parse_demand(text)
    assert parts is None or (all(part >= 0 for part in parts.values()) and sum(parts.values()) > 0)
