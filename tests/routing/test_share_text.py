"""Shares written as text: ``0.2`` and ``20%``."""

from fractions import Fraction

import pytest

from zoneward.routing.share_text import parse_max_overload


@pytest.mark.parametrize(
    ("text", "share"),
    [
        *(("0", "0"), ("0.2", "1/5"), ("10", "10"), ("3", "3"), ("00.5", "1/2"), ("0.000001", "1/1000000")),
        *(("0%", "0"), ("20%", "1/5"), ("1000%", "10"), ("12.5%", "1/8")),
    ],
)
def test_an_overload_is_a_share_or_a_percentage(text: str, share: str) -> None:
    assert parse_max_overload(text) == Fraction(share)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "banana", "20", "10.1", "1001%", "1000.01%", "-0.2", "+0.2", "-0%", "20 %", "%", ".5", "1.", "1e0"),
        *("nan", "inf", "20%%", "0.2\n", "0,2", "1/5", "0.0000001", "\u0662%", "\u00b2", "1" * 300, "true"),
    ],
    ids=lambda text: ascii(text)[:20],
)
def test_nothing_else_is_an_overload(text: str) -> None:
    assert parse_max_overload(text) is None
