"""What text in the API may look like, and upstream's words where it does not."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.test_validation import LABEL, LOOPBACK, NO_IP, SUBDOMAIN, VALUE
from tests.contract.test_validation import NAME as NAME_PART

from zoneward.kube.formats import (
    address_problems,
    destination_problems,
    in_milli,
    label_problems,
    label_value_problems,
    parse_address,
    parse_quantity,
    qualified_name_problems,
    quoted,
    subdomain_problems,
)

NAME: Final = NAME_PART.removeprefix("name part ")
KEY: Final = f"a valid label key {NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
TOO_LONG: Final = "must be no more than {} bytes"
TOO_MANY: Final = "must be no more than {} characters"


@pytest.mark.parametrize(
    ("problems", "text", "expected"),
    [
        (label_problems, "123-abc", []),
        (label_problems, "a" * 64, [TOO_MANY.format(63)]),
        (label_problems, "-" * 64, [TOO_MANY.format(63), LABEL]),
        (label_problems, "", [LABEL]),
        (label_problems, "aCapital", [LABEL]),
        (label_problems, "abc\n", [LABEL]),
        (label_problems, "a.b", ["must not contain dots"]),
        (label_problems, "a..b", [LABEL]),
        (subdomain_problems, "node-1.example.com", []),
        (subdomain_problems, "a" * 253, []),
        (subdomain_problems, "a" * 254, [TOO_MANY.format(253)]),
        (subdomain_problems, "Node_1", [SUBDOMAIN]),
        (subdomain_problems, "example.com.", [SUBDOMAIN]),
        (label_value_problems, "é" * 32, [TOO_LONG.format(63), VALUE]),
        (label_value_problems, "zone-a\n", [VALUE]),
        (qualified_name_problems, "HTTP", []),
        (qualified_name_problems, "kubernetes.io/h2c", []),
        (qualified_name_problems, "", ["name part must be non-empty", NAME_PART]),
        (qualified_name_problems, "--", [NAME_PART]),
        (qualified_name_problems, "/h2c", ["prefix part must be non-empty"]),
        (
            qualified_name_problems,
            "Example.com/",
            [f"prefix part {SUBDOMAIN}", "name part must be non-empty", NAME_PART],
        ),
        (qualified_name_problems, "a/" + "b" * 64, [f"name part {TOO_LONG.format(63)}"]),
        (qualified_name_problems, "a/b/c", [KEY]),
    ],
)
def test_name_reports_every_broken_rule(
    problems: Callable[[str], Iterator[str]], text: str, expected: list[str]
) -> None:
    assert list(problems(text)) == expected


ZEROS: Final = "must not have leading 0s"
MAPPED: Final = "must not be an IPv4-mapped IPv6 address"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("::", None),
        ("", NO_IP),
        ("1.2.3", NO_IP),
        ("1.2.3.256", NO_IP),
        ("10.1.2.3%eth0", NO_IP),
        ("fe80::1%eth0", NO_IP),
        ("[2001:db8::1]", NO_IP),
        ("2001:db8::10005", NO_IP),
        ("1::2::3", NO_IP),
        ("10.1.2.03", ZEROS),
        ("2001:db8::00001", ZEROS),
        ("::ffff:10.1.2.03", ZEROS),
        ("::ffff:10.1.2.3", MAPPED),
        ("::ffff:a01:203", MAPPED),
        ("2001:DB8::1", 'must be in canonical form ("2001:db8::1")'),
        ("2001:db8:0:0::1", 'must be in canonical form ("2001:db8::1")'),
        ("0001::", 'must be in canonical form ("1::")'),
        ("::10.1.2.3", 'must be in canonical form ("::a01:203")'),
    ],
)
def test_address_has_a_canonical_form(text: str, problem: str | None) -> None:
    assert list(address_problems(text, canonical=True)) == ([] if problem is None else [problem])
    if problem is not None and "canonical" in problem:
        assert not list(address_problems(text, canonical=False))


LINK_LOCAL: Final = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
MULTICAST: Final = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("10.1.2.3", None),
        ("224.0.1.1", None),
        ("255.255.255.255", None),
        ("a00:100::4", None),
        ("ff05::1:3", None),
        ("0.0.0.0", "may not be unspecified (0.0.0.0)"),
        ("::", "may not be unspecified (::)"),
        ("127.9.9.9", LOOPBACK),
        ("::1", LOOPBACK),
        ("169.254.169.254", LINK_LOCAL),
        ("fe80::9656:d028:8652:66b6", LINK_LOCAL),
        ("febf::1", LINK_LOCAL),
        ("fec0::1", None),
        ("224.0.0.18", MULTICAST),
        ("ff02::1", MULTICAST),
        ("ff12::1", MULTICAST),
    ],
)
def test_link_local_address_is_no_destination(text: str, problem: str | None) -> None:
    address = parse_address(text)
    assert address is not None
    assert list(destination_problems(text, address)) == ([] if problem is None else [problem])


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("zone-a", '"zone-a"'),
        ("é 😀", '"é 😀"'),
        ('a"b\\', r'"a\"b\\"'),
        ("\a\b\t\n\v\f\r", r'"\a\b\t\n\v\f\r"'),
        ("\x00\x1b\x7f", r'"\x00\x1b\x7f"'),
        ("\xa0\u200b\U000e0001", r'"\u00a0\u200b\U000e0001"'),
    ],
)
def test_invisible_characters_are_escaped(text: str, literal: str) -> None:
    assert quoted(text) == literal


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
    assert parse_quantity(written) == value


@pytest.mark.parametrize("written", NO_QUANTITIES, ids=repr)
def test_anything_else_is_refused_with_what_was_expected(written: str | int | float) -> None:
    with pytest.raises(ValueError, match=r"^expected a quantity such as 4, 3920m, 3\.92 or 1e3, got '"):
        parse_quantity(written)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=9), st.integers(min_value=-999, max_value=999))
def test_no_digit_is_lost(value: object, exponent: int) -> None:
    assert parse_quantity(f"{value:f}e{exponent}") == Fraction(str(value)) * Fraction(10) ** exponent


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_float_is_read_as_its_decimal_text(value: float) -> None:
    assert parse_quantity(value) == Fraction(repr(value))


@pytest.mark.parametrize(
    ("written", "milli"), [("0", 0), ("4", 4000), ("3920m", 3920), ("0.5m", 1), ("1n", 1), ("-0.5m", 0), ("-1", -1000)]
)
def test_milli_is_rounded_up(written: str, milli: int) -> None:
    assert in_milli(parse_quantity(written)) == milli
