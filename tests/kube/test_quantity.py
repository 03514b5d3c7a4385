"""Quantities are read exactly as the API defines them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoneward.kube.quantity import in_milli, parse

VALUES: dict[str | int | float, Fraction] = {
    **{text: Fraction(4) for text in ("4", "+4", "004")},
    **{f"2{suffix}": Fraction(2 * 10**power) for suffix, power in zip("kMGTPE", range(3, 21, 3), strict=True)},
    **{f"1{suffix}i": Fraction(2**power) for suffix, power in zip("KMGTPE", range(10, 70, 10), strict=True)},
    **{text: Fraction(1000) for text in ("1e3", "1E3", "1e+3")},
    "-4": Fraction(-4),
    "3.": Fraction(3),
    ".5": Fraction(1, 2),
    "3920m": Fraction(392, 100),
    "0.5m": Fraction(1, 2000),
    "1u": Fraction(1, 10**6),
    "100n": Fraction(1, 10**7),
    "15e-1": Fraction(3, 2),
    "1.5Ei": Fraction(3 * 2**59),
    4: Fraction(4),
    0.1: Fraction(1, 10),
    "1E999999999": Fraction(10**1000),
    1e22: Fraction(10**22),
}
NO_QUANTITIES: list[str | int | float] = [
    "", " ", ".", "+", "m", "4 cores", " 4", "4\n", "4,5", "1_000", "--1", "1e", "1e1.5", "1e3m", "3.9.2",
    "1K", "1ki", "1KI", "1mi", "1mm", "0x10", "٣", "½", "inf", "nan", float("inf"), float("nan"), "1\u200bm",
]  # fmt: skip


@pytest.mark.parametrize(("written", "value"), VALUES.items(), ids=repr)
def test_a_quantity_has_its_exact_value(written: str | int | float, value: Fraction) -> None:
    assert parse(written) == value


@pytest.mark.parametrize("written", NO_QUANTITIES, ids=repr)
def test_anything_else_is_refused_with_what_was_expected(written: str | int | float) -> None:
    with pytest.raises(ValueError, match=r"^expected a quantity such as 4, 3920m, 3\.92 or 1e3, got '"):
        parse(written)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=9), st.integers(min_value=-999, max_value=999))
def test_no_digit_is_lost(value: object, exponent: int) -> None:
    assert parse(f"{value:f}e{exponent}") == Fraction(str(value)) * Fraction(10) ** exponent


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_float_is_read_as_its_decimal_text(value: float) -> None:
    assert parse(value) == Fraction(repr(value))


@pytest.mark.parametrize(
    ("written", "milli"), [("0", 0), ("4", 4000), ("3920m", 3920), ("0.5m", 1), ("1n", 1), ("-0.5m", 0), ("-1", -1000)]
)
def test_milli_is_rounded_up(written: str, milli: int) -> None:
    assert in_milli(parse(written)) == milli
