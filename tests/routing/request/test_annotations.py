"""Numbers that a Service sets for itself, and what is no such number."""

from fractions import Fraction

import pytest

from zoneward.routing.request.annotations import parse_share, quote_value


@pytest.mark.parametrize(
    ("text", "share"),
    [
        *(("0.2", Fraction(1, 5)), ("20%", Fraction(1, 5)), ("1", Fraction(1)), ("100%", Fraction(1))),
        *(("0.000001", Fraction(1, 10**6)), ("12.5%", Fraction(1, 8)), ("10000%", Fraction(100))),
    ],
)
def test_a_share_is_written_as_a_number_or_as_a_percentage(text: str, share: Fraction) -> None:
    assert parse_share(text) == share


@pytest.mark.parametrize(
    "text",
    [
        *("20", "1.5", "1.000001", "0", "0%", "0.0", "-0.2", "+0.2", "-20%", "10000.1%", "99999%", "20 %", " 20%"),
        *("20%%", "%", "", ".2", "2.", "2e-1", "1/5", "0,2", "nan", "inf", "true", "\u0662\u0660%", "20%\n"),
        *("0.2000001", "9" * 1000),
    ],
    ids=lambda text: ascii(text)[:20],
)
def test_anything_else_is_no_share(text: str) -> None:
    """A number above 1 least of all: 20 would be 2000 %, and was meant as 20 %."""
    assert parse_share(text) is None


def test_a_value_is_quoted_on_one_line_and_not_at_length() -> None:
    assert quote_value("two\nlines\x1b") == "'two\\nlines\\x1b'"
    assert quote_value("x" * 200_000) == repr("x" * 40 + "...")
