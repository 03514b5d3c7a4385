"""Which concrete endpoints serve which zone, moving as few as possible from where they were."""

from collections.abc import Sequence

from zoneward.kube.objects import Identity


def place(
    located: Sequence[int],
    before: Sequence[int],
    identities: Sequence[Identity],
    allocation: Sequence[int],
    zones: int,
) -> list[int]:
    """The zone that consumes each endpoint, as an index.

    ``located`` and ``before`` give, per endpoint, the zone it is in and the zone it served (-1 for none).
    ``allocation`` says at ``located * zones + consumer`` how many are to serve whom; each row adds up to the endpoints
    located there. Endpoints stay where they served as far as the counts allow; who leaves, and where the others go, is
    decided by identity, so that the order of the input does not matter.
    """
    placed = [-1] * len(located)
    groups: dict[tuple[int, int], list[int]] = {}
    for endpoint, cell in enumerate(zip(located, before, strict=True)):
        groups.setdefault(cell, []).append(endpoint)
    left = list(allocation)
    unplaced: list[list[int]] = [[] for _ in range(zones)]
    for (zone, served), endpoints in groups.items():
        stay = min(len(endpoints), left[zone * zones + served]) if served >= 0 else 0
        if 0 < stay < len(endpoints):
            endpoints.sort(key=identities.__getitem__)
        for endpoint in endpoints[:stay]:
            placed[endpoint] = served
        unplaced[zone].extend(endpoints[stay:])
        if stay:
            left[zone * zones + served] -= stay
    for zone, endpoints in enumerate(unplaced):
        row = left[zone * zones : zone * zones + zones]
        if endpoints and sum(1 for number in row if number) > 1:
            endpoints.sort(key=identities.__getitem__)
        # Home first: the first by identity stay in their own zone.
        order = [zone, *(other for other in range(zones) if other != zone)]
        consumers = [other for other in order for _ in range(row[other])]
        for endpoint, consumer in zip(endpoints, consumers, strict=True):
            placed[endpoint] = consumer
    return placed
