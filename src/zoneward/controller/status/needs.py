"""Services in the order of what they wait for: two versions, of themselves and of their slices."""

from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from zoneward.kube.objects import ObjectKey


class Need(NamedTuple):
    """Versions that everybody has to have come to."""

    services: int
    slices: int


class Needs:
    """Looking for what is met costs as much as there is of it, however many wait."""

    def __init__(self) -> None:
        self._numbers: dict[ObjectKey, int] = {}
        """Of the only entry of a Service that counts."""
        self._next = count()
        self._by_services: list[tuple[int, int, int, ObjectKey]] = []
        self._by_slices: list[tuple[int, int, int, ObjectKey]] = []
        """Of those that waited no more for their Service when last looked at."""

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, service: ObjectKey, need: Need) -> None:
        """In place of what the Service waited for before."""
        number = self._numbers[service] = next(self._next)
        heappush(self._by_services, (need.services, number, need.slices, service))

    def discard(self, service: ObjectKey) -> None:
        if self._numbers.pop(service, None) is not None and not self._numbers:
            self._by_services.clear()
            self._by_slices.clear()

    def met(self, reached: Need) -> list[ObjectKey]:
        """Take out those that need no more than this."""
        found: list[ObjectKey] = []
        while self._by_services and self._by_services[0][0] <= reached.services:
            services, number, slices, service = heappop(self._by_services)
            heappush(self._by_slices, (slices, number, services, service))
        while self._by_slices and self._by_slices[0][0] <= reached.slices:
            slices, number, services, service = heappop(self._by_slices)
            if self._numbers.get(service) != number:
                continue
            if services > reached.services:
                # Somebody is here by now who has less than all had then.
                heappush(self._by_services, (services, number, slices, service))
                continue
            del self._numbers[service]
            found.append(service)
        return found
