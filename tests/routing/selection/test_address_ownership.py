"""Many Services may request the same addresses: what that costs and what is reported of it stay small."""

from typing import Final

from zoneward.kube.objects import ObjectKey
from zoneward.routing.selection.address_ownership import AddressOwnership, AddressRequest, OwnedByOthers

SERVICES: Final = 100
ADDRESSES: Final = frozenset(f"198.51.100.{index}" for index in range(70))
PORTS: Final = frozenset(("tcp", index) for index in range(1, 71))


def key(index: int) -> ObjectKey:
    return "team", f"s{index}"


def request(index: int, *, ports: frozenset[tuple[str, int]] = PORTS) -> AddressRequest:
    time_of_day = f"{index // 60:02}:{index % 60:02}"
    return AddressRequest(
        cluster_ip=f"10.96.0.{index}",
        external=ADDRESSES,
        ports=ports,
        creation_timestamp=f"2026-01-01T00:{time_of_day}Z",
    )


def shared_addresses(*, youngest_first: bool = False) -> AddressOwnership:
    ownership = AddressOwnership()
    for index in sorted(range(SERVICES), reverse=youngest_first):
        ownership.set_service(key(index), request(index))
    return ownership


def test_the_oldest_service_owns_all_shared_addresses_in_any_order() -> None:
    for youngest_first in (False, True):
        ownership = shared_addresses(youngest_first=youngest_first)
        assert not ownership.owned_by_others(key(0))
        assert all(ownership.owned_by_others(key(index)) for index in range(1, SERVICES))


def test_a_change_affects_only_services_that_gain_or_lose_a_port() -> None:
    ownership = shared_addresses()
    assert ownership.set_service(key(SERVICES), request(SERVICES)) == {key(SERVICES)}
    assert ownership.set_service(key(0), None) == {key(0), key(1)}
    assert ownership.set_service(key(0), request(0)) == {key(0), key(1)}
    assert ownership.set_service(key(0), request(0)) == set()


def test_what_the_owner_releases_is_divided_among_the_next_ones() -> None:
    half = frozenset(sorted(PORTS)[:30])
    ownership = AddressOwnership()
    ownership.set_service(key(0), request(0))
    ownership.set_service(key(1), request(1, ports=half))
    ownership.set_service(key(2), request(2))
    assert ownership.set_service(key(0), None) == {key(0), key(1), key(2)}
    assert not ownership.owned_by_others(key(1))
    assert ownership.owned_by_others(key(2)).external == dict.fromkeys(ADDRESSES, half)
    assert ownership.set_service(key(1), None) == {key(1), key(2)}
    assert ownership.owned_by_others(key(2)) == OwnedByOthers()


def test_a_report_names_a_few_conflicts_and_counts_the_others() -> None:
    conflicts = shared_addresses().conflicts(key(7))
    assert conflicts[0] == "198.51.100.0 tcp 1 of team/s0"
    assert conflicts[5:] == (f"{len(ADDRESSES) * len(PORTS) - 5} more",)
