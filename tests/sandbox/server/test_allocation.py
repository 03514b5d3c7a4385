"""Cluster IPs and node ports: dealt without chance, taken once, given back by their owner alone."""

import time

import pytest
from zoneward.sandbox.server.allocation import CLUSTER_IPS, CLUSTER_IPS_V6, AddressRange, PortRange, Unavailable

TAKEN = "provided IP is already allocated"
OUTSIDE = "the provided network does not match the current range"


def test_addresses_are_dealt_upwards_above_the_part_left_to_those_who_name_theirs() -> None:
    addresses = AddressRange(CLUSTER_IPS)
    assert [addresses.deal("a/x") for _ in range(3)] == ["10.96.1.1", "10.96.1.2", "10.96.1.3"]
    assert AddressRange(CLUSTER_IPS_V6).deal("a/x") == "fd00:10:96::101"


def test_a_range_has_four_addresses_at_least() -> None:
    assert AddressRange("10.0.0.0/30").deal("a/x") == "10.0.0.2"


def test_a_small_range_is_dealt_whole_but_for_its_ends_and_the_first_address() -> None:
    addresses = AddressRange("10.0.0.0/29")
    assert sorted(addresses.deal("a/x") for _ in range(5)) == [f"10.0.0.{last}" for last in range(2, 7)]
    with pytest.raises(Unavailable, match=r"^range is full$"):
        addresses.deal("a/x")
    addresses.take(addresses.first, "default/kubernetes")
    assert addresses.owner("10.0.0.1") == "default/kubernetes"


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("10.0.0.0", OUTSIDE),
        ("10.0.0.7", OUTSIDE),
        ("10.0.0.8", OUTSIDE),
        ("9.255.255.255", OUTSIDE),
        ("fd00::1", OUTSIDE),
        ("10.0.0.3", TAKEN),
    ],
)
def test_an_address_is_refused_in_upstreams_words(address: str, problem: str) -> None:
    addresses = AddressRange("10.0.0.0/29")
    addresses.take("10.0.0.3", "a/x")
    with pytest.raises(Unavailable) as refused:
        addresses.take(address, "a/x")
    assert str(refused.value) == problem


def test_the_last_address_of_an_ipv6_range_can_be_had() -> None:
    addresses = AddressRange("fd00::/120")
    addresses.take("fd00::ff", "a/x")
    with pytest.raises(Unavailable):
        addresses.take("fd00::", "a/x")


def test_only_its_owner_gives_something_back() -> None:
    addresses, ports = AddressRange(CLUSTER_IPS), PortRange()
    addresses.take("10.96.0.9", "a/x")
    ports.take(30000, "a/x")
    addresses.release("10.96.0.9", "a/y")
    ports.release(30000, "a/y")
    assert (addresses.owner("10.96.0.9"), ports.owner(30000)) == ("a/x", "a/x")
    addresses.release("10.96.0.9", "a/x")
    ports.release(30000, "a/x")
    assert (addresses.owner("10.96.0.9"), ports.owner(30000)) == (None, None)
    addresses.release("192.0.2.1", "a/x")


def test_what_is_given_back_is_dealt_again_after_all_others() -> None:
    ports = PortRange(range(30000, 30003))
    first = ports.deal("a/x")
    ports.release(first, "a/x")
    assert [ports.deal("a/x") for _ in range(3)] == [30001, 30002, first]


def test_node_ports_are_dealt_above_the_part_left_to_those_who_name_theirs_and_in_it_last() -> None:
    ports = PortRange()
    dealt = [ports.deal("a/x") for _ in range(2768)]
    assert dealt == [*range(30086, 32768), *range(30000, 30086)]
    with pytest.raises(Unavailable, match=r"^range is full$"):
        ports.deal("a/x")


@pytest.mark.parametrize(
    ("port", "problem"),
    [
        (29999, "provided port is not in the valid range. The range of valid ports is 30000-32767"),
        (32768, "provided port is not in the valid range. The range of valid ports is 30000-32767"),
        (-1, "provided port is not in the valid range. The range of valid ports is 30000-32767"),
        (30000, "provided port is already allocated"),
    ],
)
def test_a_port_is_refused_in_upstreams_words(port: int, problem: str) -> None:
    ports = PortRange()
    ports.take(30000, "a/x")
    with pytest.raises(Unavailable) as refused:
        ports.take(port, "a/x")
    assert str(refused.value) == problem


def test_a_taken_number_is_passed_over() -> None:
    ports = PortRange(range(30000, 30004))
    ports.take(30001, "a/x")
    assert [ports.deal("a/y") for _ in range(3)] == [30000, 30002, 30003]


@pytest.mark.parametrize("network", ["10.0.0.0/31", "10.0.0.1/24", "here"])
def test_a_range_that_is_none_is_refused(network: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- the library's words for most
        AddressRange(network)


@pytest.mark.parametrize("ports", [range(5, 5), range(1, 9, 2)])
def test_ports_that_are_no_range_are_refused(ports: range) -> None:
    with pytest.raises(ValueError, match="range of node ports"):
        PortRange(ports)


def test_ten_thousand_services_get_their_addresses_at_once() -> None:
    addresses = AddressRange(CLUSTER_IPS)
    started = time.process_time()
    assert len({addresses.deal("a/x") for _ in range(10_000)}) == 10_000
    assert time.process_time() - started < 1
