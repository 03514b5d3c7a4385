"""The cost of many Services of a tenant: owners of shared external IPs, and an exceeded budget of entries."""

import random
import time
from collections.abc import Iterator
from typing import Final

from bench.measuring import Figure
from zoneward.routing.selection.address_ownership import AddressOwnership, AddressRequest
from zoneward.routing.selection.entry_budget import EntryBudget

_SERVICES: Final = 200
_ADDRESSES: Final = frozenset(f"203.0.113.{index}" for index in range(100))
_PORTS: Final = frozenset(("tcp", port) for port in range(1, 101))
_CHANGES: Final = 20
_MOST_SECONDS: Final = 5.6
"""kube-proxy v1.36 with these Services, from the list to the kernel."""
_MOST_RATIO: Final = 3.0
"""Twice as many Services take twice as long."""
_MOST_CHANGE: Final = 100.0
"""Milliseconds for the oldest of them, which hands over all that it owns."""

_SMALL_SERVICES: Final = 20_000
_ENTRIES: Final = 104
"""Of each: five times what a namespace may have, all together."""
_MOST_BUDGET: Final = 6.0
"""Seconds for all of them in random order: comparing all Services with each change takes minutes."""


def shared_addresses() -> Iterator[Figure]:
    """200 Services with the same 100 external IPs and 100 ports."""
    _seconds(_SERVICES // 10)
    half, whole = _seconds(_SERVICES // 2), _seconds(_SERVICES)
    what = f"{_SERVICES} Services that share {len(_ADDRESSES)} external IPs x {len(_PORTS)} ports"
    yield Figure(f"{what}: owners", whole, "s", _MOST_SECONDS)
    yield Figure("  compared with half as many Services", whole / half, "times", _MOST_RATIO)
    yield Figure("  the oldest one is added and removed", _change() * 1e3, "ms", _MOST_CHANGE)
    what = f"{_SMALL_SERVICES:,} Services of one namespace, beyond its budget"
    yield Figure(what, _exceeded_budget(), "s", _MOST_BUDGET)


def _seconds(services: int) -> float:
    start = time.process_time()
    _ownership(services)
    return time.process_time() - start


def _change() -> float:
    ownership = _ownership(_SERVICES)
    start = time.process_time()
    for _ in range(_CHANGES):
        for request in (None, _request(0)):
            for service in ownership.set_service(("team", "service-0"), request):
                if service != ("team", "service-0") or request is not None:
                    ownership.owned_by_others(service)
    return (time.process_time() - start) / (2 * _CHANGES)


def _exceeded_budget() -> float:
    ages = random.Random(5).sample(range(_SMALL_SERVICES), _SMALL_SERVICES)
    budget, start = EntryBudget(), time.process_time()
    for index, age in enumerate(ages):
        created = f"2026-01-01T00:00:00.{age:06}Z"
        budget.set_entries(("team", f"service-{index}"), _ENTRIES, creation_timestamp=created)
    return time.process_time() - start


def _ownership(services: int) -> AddressOwnership:
    ownership = AddressOwnership()
    for index in range(services):
        key = "team", f"service-{index}"
        for service in ownership.set_service(key, _request(index)):
            ownership.owned_by_others(service)
            ownership.conflicts(service)
    return ownership


def _request(index: int) -> AddressRequest:
    return AddressRequest(
        cluster_ip=f"10.96.0.{index}",
        external=_ADDRESSES,
        ports=_PORTS,
        creation_timestamp=f"2026-01-01T00:{index // 60:02}:{index % 60:02}Z",
    )
