"""Which concrete endpoints go into which group, moving as few as possible from where they were."""

from collections.abc import Sequence

from zoneward.kube.objects import Identity


def place(
    located: Sequence[int],
    before: Sequence[int],
    identities: Sequence[Identity],
    counts: Sequence[int],
    zones: int,
) -> list[int]:
    """The group of each endpoint, as an index.

    ``located`` and ``before`` give, per endpoint, the zone it is in and the group it was in (-1 for none). ``counts``
    says at ``group * zones + located`` how many are to be in which group, the zones' own groups first; what is located
    in a zone adds up. Endpoints stay where they were as far as the counts allow; who leaves, and where the others go,
    is decided by identity, so that the order of the input does not matter.
    """
    placed = [-1] * len(located)
    cells: dict[tuple[int, int], list[int]] = {}
    for endpoint, cell in enumerate(zip(located, before, strict=True)):
        cells.setdefault(cell, []).append(endpoint)
    left = list(counts)
    unplaced: list[list[int]] = [[] for _ in range(zones)]
    for (zone, group), endpoints in cells.items():
        stay = min(len(endpoints), left[group * zones + zone]) if group >= 0 else 0
        if 0 < stay < len(endpoints):
            endpoints.sort(key=identities.__getitem__)
        for endpoint in endpoints[:stay]:
            placed[endpoint] = group
        unplaced[zone].extend(endpoints[stay:])
        if stay:
            left[group * zones + zone] -= stay
    for zone, endpoints in enumerate(unplaced):
        column = left[zone::zones]
        if endpoints and sum(1 for number in column if number) > 1:
            endpoints.sort(key=identities.__getitem__)
        # Home first: the first by identity stay in their own zone.
        order = [zone, *(group for group in range(len(column)) if group != zone)]
        groups = [group for group in order for _ in range(column[group])]
        for endpoint, group in zip(endpoints, groups, strict=True):
            placed[endpoint] = group
    return placed
