"""What is taken for an address or a range of addresses, and how it is written then."""

from ipaddress import ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.proxy.hostile_objects import TEXTS

from zoneward.kube.addresses import is_in_cidr, parse_address, parse_cidr, special_use


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("10.96.0.1", "10.96.0.1"),
        ("255.255.255.255", "255.255.255.255"),
        ("010.096.000.001", "10.96.0.1"),
        ("FD00:0:0::00A1", "fd00::a1"),
        ("::1.2.3.4", "::102:304"),
        # As Go reads it, and so every component of Kubernetes.
        ("::ffff:10.96.0.10", "10.96.0.10"),
        ("::FFFF:a60:a", "10.96.0.10"),
        ("10.0.0.900", None),
        ("10.0.0", None),
        ("10.0.0.1/8", None),
        ("10.0.0.1\n", None),
        (" 10.0.0.1", None),
        ("\u0661\u0660.0.0.1", None),
        ("0x0a.0.0.1", None),
        # Python accepts any text after the percent sign.
        ("fe80::1%eth0", None),
        ("fe80::1%x }\nadd table inet X", None),
        ("garbage", None),
        ("", None),
    ],
)
def test_address_is_canonical_and_all_else_is_none(written: str, read: str | None) -> None:
    assert parse_address(written) == read


@settings(max_examples=75)
@given(text=st.sampled_from(TEXTS) | st.text() | st.text("0123456789abcdef:.%/ \n", max_size=20))
def test_parsed_address_is_exactly_one_address(text: str) -> None:
    address = parse_address(text)
    if address is not None:
        assert str(ip_address(address)) == address
        assert "%" not in address
    range_ = parse_cidr(text)
    network, _, length = (range_ or "").partition("/")
    assert range_ is None or f"{ip_address(network)}/{int(length)}" == range_


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("10.0.0.7/8", "10.0.0.0/8"),
        ("010.0.0.0/8", "10.0.0.0/8"),
        ("FD00::7/16", "fd00::/16"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("10.0.0.0", None),
        ("10.0.0.0/", None),
        ("10.0.0.0/33", None),
        ("10.0.0.0/255.0.0.0", None),
        ("10.0.0.0/-1", None),
        ("::ffff:10.0.0.0/104", None),
        ("fe80::%x }\nadd table inet X/64", None),
        ("nonsense/8", None),
    ],
)
def test_a_range_has_an_address_and_a_length(written: str, read: str | None) -> None:
    assert parse_cidr(written) == read


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (["127.0.0.1", "127.255.0.1", "::1"], "loopback"),
        (["169.254.169.254", "fe80::1"], "link-local"),
        (["224.0.0.1", "239.1.2.3", "ff02::1", "ff0e::1"], "multicast"),
        (["0.0.0.0", "::"], "unspecified"),
        (["192.168.1.1", "10.0.0.1", "fd00::1", "2001:db8::1"], None),
    ],
)
def test_reserved_addresses_are_special(addresses: list[str], expected: str | None) -> None:
    assert {special_use(address) for address in addresses} == {expected}


def test_address_is_in_its_range_and_equals_itself() -> None:
    assert is_in_cidr("10.1.2.3", "10.0.0.0/8")
    assert is_in_cidr("fd00::1", "fd00::1")
    assert not is_in_cidr("10.1.2.3", "fd00::/8")
