"""The algorithms of KEP-2004 and their score, written out a second time: slowly, sentence by sentence.

Nothing here is shared with the product, so that an error would have to be made twice to stay unseen. The sentences are
those of the evaluation that reproduces the proposal's table. Numbers are ints and doubles throughout, never exact
fractions: which side of a bound an input falls on is decided by doubles there, and the table depends on it. So does the
order of products: always ``T * r``, then ``/ n``, then ``- 1``. Doubles are added one by one, because ``sum`` adds them
differently from Python 3.12 on.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

ALGORITHMS = ("random", "local", "local-kep-tool", "local-shared", "local-weighted", "local-opt")
"""The five of the proposal; ``local-kep-tool`` is ``local`` as the proposal's tool has it."""


@dataclass(frozen=True)
class Group:
    """Endpoints that get separate slices."""

    located: tuple[int, ...]
    """How many of its endpoints are located in each zone."""
    weights: tuple[float, ...]
    """The weight of each of its endpoints for the traffic from each zone; 0.0 where it is not consumed."""

    @property
    def size(self) -> int:
        return sum(self.located)


@dataclass(frozen=True)
class Score:
    """The columns of the proposal's table: credits up to 100."""

    total: float
    in_zone: float
    max_overload: float
    mean_overload: float
    overload: float
    slices: float


class Heap:
    """A binary heap of zones, step for step that of Go's ``container/heap``.

    ``less`` looks at the counts as they are when it is called. A zone whose count changes while it is in the queue is
    not moved: it stays where it is until something else passes by.
    """

    def __init__(self, less: Callable[[int, int], bool], zones: Iterable[int] = ()) -> None:
        self._less = less
        self._zones = list(zones)
        for i in range(len(self._zones) // 2 - 1, -1, -1):
            self._down(i, len(self._zones))

    def __len__(self) -> int:
        return len(self._zones)

    def top(self) -> int:
        return self._zones[0]

    def push(self, zone: int) -> None:
        self._zones.append(zone)
        self._up(len(self._zones) - 1)

    def pop(self) -> int:
        last = len(self._zones) - 1
        self._swap(0, last)
        self._down(0, last)
        return self._zones.pop()

    def _swap(self, i: int, j: int) -> None:
        self._zones[i], self._zones[j] = self._zones[j], self._zones[i]

    def _up(self, child: int) -> None:
        while child > 0:
            parent = (child - 1) // 2
            if not self._less(self._zones[child], self._zones[parent]):
                break
            self._swap(parent, child)
            child = parent

    def _down(self, parent: int, size: int) -> None:
        while True:
            left = 2 * parent + 1
            right = left + 1
            if left >= size:
                break
            child = left
            if right < size and self._less(self._zones[right], self._zones[left]):
                child = right
            if not self._less(self._zones[child], self._zones[parent]):
                break
            self._swap(parent, child)
            parent = child


class OwnGroups:
    """One group per zone that the zone alone consumes: at first, of the endpoints located in it."""

    def __init__(self, nodes: Sequence[int], endpoints: Sequence[int], threshold: float) -> None:
        self.zones = range(len(nodes))
        """In index order, which is the order of names."""
        self.r = [count / sum(nodes) for count in nodes]
        """r_z: share of nodes of zone z."""
        self.total = sum(endpoints)
        """T: total endpoints."""
        self.threshold = threshold
        self.located = [[endpoints[zone] if zone == position else 0 for position in self.zones] for zone in self.zones]
        """How many endpoints located in each place (second) the group of each zone (first) has at present."""

    def n(self, zone: int) -> int:
        """How many endpoints the zone's group has at present."""
        return sum(self.located[zone])

    def excess(self, zone: int) -> float:
        """n - T r: what the zone has beyond its share; negative where it has less."""
        return self.n(zone) - self.total * self.r[zone]

    def is_above(self, zone: int) -> bool:
        """Above: n = 0, or T r / n - 1 >= threshold."""
        n = self.n(zone)
        return n == 0 or self.total * self.r[zone] / n - 1 >= self.threshold

    def can_give(self, zone: int) -> bool:
        """A zone contributes if n > 1 and it would not be above after giving one."""
        n = self.n(zone)
        return n > 1 and not (self.total * self.r[zone] / (n - 1) - 1 >= self.threshold)

    def gives_before(self, a: int, b: int) -> bool:
        """Give-queue key: smallest r / (n - 1) first."""
        return self.r[a] / (self.n(a) - 1) < self.r[b] / (self.n(b) - 1)

    def receives_before(self, a: int, b: int) -> bool:
        """Receive-queue key: zones with n = 0 before all (and of two of them neither), then largest r / n first."""
        if self.n(a) == 0:
            return self.n(b) != 0
        if self.n(b) == 0:
            return False
        return self.r[a] / self.n(a) > self.r[b] / self.n(b)

    def give_queue(self) -> Heap:
        """All zones that contribute, heapified from index order."""
        return Heap(self.gives_before, [zone for zone in self.zones if self.can_give(zone)])

    def move_endpoint(self, giver: int, receiving: list[int]) -> None:
        """Move one endpoint of the giver's group to another: one located in the giver itself if its group still has
        one, else in the last zone that its group has one of."""
        of_giver = self.located[giver]
        if of_giver[giver] > 0:
            position = giver
        else:
            position = max(position for position in self.zones if of_giver[position] > 0)
        of_giver[position] -= 1
        receiving[position] += 1

    def draw_one(self, givers: Heap, receiving: list[int]) -> bool:
        """One endpoint from the top of the give queue: pop it, take one, push it back if it still contributes. False
        where the queue is empty."""
        if len(givers) == 0:
            return False
        giver = givers.pop()
        self.move_endpoint(giver, receiving)
        if self.can_give(giver):
            givers.push(giver)
        return True

    def as_groups(self) -> list[Group]:
        """In index order. The zone's own group weighs 1 for it, and nothing for the others."""
        return [
            Group(tuple(self.located[zone]), tuple(1.0 if zone == other else 0.0 for other in self.zones))
            for zone in self.zones
        ]


def allocate(
    algorithm: str,
    nodes: Sequence[int],
    endpoints: Sequence[int],
    *,
    overload_threshold: float = 0.5,
    starting_threshold: int = 3,
) -> tuple[Group, ...] | None:
    """The groups that are not empty, or None where the rules end in random.

    First the zones' own groups, in index order; then the others in the order in which the rules come to them: the
    merged group and the pool of ``local-shared``; the single endpoints of ``local-weighted`` in the order of their
    zones, and its left-over surpluses; the global group of ``local-opt``.

    There is at least one endpoint. ``starting_threshold`` is for the two of ``local`` alone.
    """
    groups: list[Group] | None
    if algorithm == "random":
        groups = [_one_for_all(endpoints)]
    elif algorithm == "local":
        groups = _local(nodes, endpoints, overload_threshold, starting_threshold)
    elif algorithm == "local-kep-tool":
        groups = _local_kep_tool(nodes, endpoints, overload_threshold, starting_threshold)
    elif algorithm == "local-shared":
        groups = _local_shared(nodes, endpoints, overload_threshold)
    elif algorithm == "local-weighted":
        groups = _local_weighted(nodes, endpoints)
    elif algorithm == "local-opt":
        groups = _local_opt(nodes, endpoints)
    else:
        raise ValueError(f"expected one of {', '.join(ALGORITHMS)}, got {algorithm!r}")
    return None if groups is None else tuple(group for group in groups if group.size > 0)


def _one_for_all(endpoints: Sequence[int]) -> Group:
    """random: one group for all."""
    return Group(tuple(endpoints), (1.0,) * len(endpoints))


def _local(
    nodes: Sequence[int], endpoints: Sequence[int], threshold: float, starting_threshold: int
) -> list[Group] | None:
    own = OwnGroups(nodes, endpoints, threshold)
    if _lifted(own, starting_threshold) is None:
        return None

    # "All zones have at least the flooring number of expected endpoints in their local SliceGroup." In whole numbers,
    # so that no zone is left below it.
    floor = [own.total * nodes[zone] // sum(nodes) for zone in own.zones]
    # "Zones in `endpoints_available` pool only provide extra endpoints when they have endpoints > expected endpoints":
    # who has more than it expects has more than the floor of it.
    givers = Heap(own.gives_before, [zone for zone in own.zones if own.can_give(zone) and own.n(zone) > floor[zone]])
    # "Assign endpoints from zones in `endpoints_available` pool to zones with endpoints fewer than expected endpoints":
    # those that lack the floor, the most loaded one first.
    receivers = Heap(own.receives_before, [zone for zone in own.zones if own.n(zone) < floor[zone]])
    while len(receivers) > 0:
        receiver = receivers.pop()
        while own.n(receiver) < floor[receiver]:
            # "This ends when (...) `endpoints_available` pool is empty."
            if len(givers) == 0:
                return own.as_groups()
            giver = givers.pop()
            own.move_endpoint(giver, own.located[receiver])
            if own.can_give(giver) and own.n(giver) > floor[giver]:
                givers.push(giver)
    return own.as_groups()


def _lifted(own: OwnGroups, starting_threshold: int) -> Heap | None:
    """Both phases 1: every zone below the threshold. The give queue as it is then, or None where that ends in
    random."""
    # T < 3 x zones -> random.
    if own.total < starting_threshold * len(own.zones):
        return None

    # A zone contributes if n > 1 and it would not be above after giving one.
    givers = own.give_queue()

    # Phase 1: pop the worst zone that is above;
    receivers = Heap(own.receives_before, [zone for zone in own.zones if own.is_above(zone)])
    while len(receivers) > 0:
        receiver = receivers.pop()
        # give it one endpoint at a time from the give queue until it is not above
        while own.is_above(receiver):
            # (a giver that still contributes is pushed back); queue empty -> random.
            if not own.draw_one(givers, own.located[receiver]):
                return None
    return givers


def _local_kep_tool(
    nodes: Sequence[int], endpoints: Sequence[int], threshold: float, starting_threshold: int
) -> list[Group] | None:
    own = OwnGroups(nodes, endpoints, threshold)
    givers = _lifted(own, starting_threshold)
    if givers is None:
        return None

    # Phase 2: heapify all zones as receivers.
    receivers = Heap(own.receives_before, own.zones)
    while len(givers) > 0:
        # Pop a giver (not pushed back); stop if n - T r < 1.
        giver = givers.pop()
        if own.excess(giver) < 1:
            break
        while own.excess(giver) >= 1:
            # Pop a receiver; finish if n - T r > -1.
            receiver = receivers.pop()
            if own.excess(receiver) > -1:
                return own.as_groups()
            # Move one endpoint after the other until either bound is hit;
            while own.excess(giver) >= 1 and own.excess(receiver) <= -1:
                own.move_endpoint(giver, own.located[receiver])
            # push the receiver back;
            receivers.push(receiver)
        # next giver.
    return own.as_groups()


def _local_shared(nodes: Sequence[int], endpoints: Sequence[int], threshold: float) -> list[Group] | None:
    own = OwnGroups(nodes, endpoints, threshold)
    merged = [0] * len(nodes)
    pool = [0] * len(nodes)

    # T < zones -> random.
    if own.total < len(nodes):
        return None

    # The give queue holds all zones that contribute at the start.
    givers = own.give_queue()

    # Empty zones form one merged group, served first:
    empty = [zone for zone in own.zones if endpoints[zone] == 0]
    served = [zone for zone in own.zones if endpoints[zone] > 0]
    # with x = sum of T r over them,
    x = 0.0
    for zone in empty:
        x += own.total * own.r[zone]
    # target = ceil(x) if x < 1, else round(ceil(1000 x) / 1000), half away from zero.
    target = math.ceil(x) if x < 1 else math.floor(math.ceil(1000 * x) / 1000 + 0.5)
    # One at a time from the give queue; no giver left -> random.
    for _ in range(target):
        if not own.draw_one(givers, merged):
            return None

    # Then zones with n - T r <= -1 get trunc(T r - n) endpoints, in name order, one at a time from the give queue; no
    # giver left -> random. What they lack is counted at the start: who gave to the merged group gets nothing back.
    for zone in served:
        if endpoints[zone] - own.total * own.r[zone] <= -1:
            for _ in range(math.trunc(own.total * own.r[zone] - endpoints[zone])):
                if not own.draw_one(givers, own.located[zone]):
                    return None

    # The receive queue is filled only now, with all zones that have endpoints.
    receivers = Heap(own.receives_before, served)

    # Zones that are above are then popped for good from the receive queue:
    above = []
    while len(receivers) > 0 and own.is_above(receivers.top()):
        above.append(receivers.pop())
    pooled = []
    if above:
        # each gets one endpoint, in the order of the queue, while the top of the give queue has a surplus >= 1.
        helped = 0
        while helped < len(above) and len(givers) > 0 and own.excess(givers.top()) >= 1:
            own.draw_one(givers, own.located[above[helped]])
            helped += 1
        # If that does not suffice, they pool all that they have then into one shared group
        if helped < len(above):
            pooled = above
            for zone in pooled:
                for position in own.zones:
                    pool[position] += own.located[zone][position]
                    own.located[zone][position] = 0
            # that draws further contributors until sum(T r) / n - 1 < 0.5; if that fails -> random.
            while not _load(own, pooled, sum(pool)) - 1 < threshold:
                if not own.draw_one(givers, pool):
                    return None

    # Last, givers with a surplus >= 1 hand single endpoints to the top of the receive queue.
    while len(givers) > 0 and len(receivers) > 0:
        giver = givers.pop()
        if own.excess(giver) < 1:
            break
        receiver = receivers.pop()
        own.move_endpoint(giver, own.located[receiver])
        receivers.push(receiver)
        if own.can_give(giver):
            givers.push(giver)

    # The merged group serves the empty zones, the pool those that it is of.
    return [
        *own.as_groups(),
        Group(tuple(merged), tuple(1.0 if zone in empty else 0.0 for zone in own.zones)),
        Group(tuple(pool), tuple(1.0 if zone in pooled else 0.0 for zone in own.zones)),
    ]


def _load(own: OwnGroups, zones: Sequence[int], n: int) -> float:
    """sum(T r) / n, each quotient by itself."""
    load = 0.0
    for zone in zones:
        load += own.total * own.r[zone] / n
    return load


def _local_opt(nodes: Sequence[int], endpoints: Sequence[int]) -> list[Group]:
    own = OwnGroups(nodes, endpoints, 0.0)
    offered = [0] * len(nodes)

    # A zone with surplus keeps trunc(T r) and offers the rest;
    for zone in own.zones:
        if own.excess(zone) > 0:
            offered[zone] = endpoints[zone] - math.trunc(own.total * own.r[zone])
            own.located[zone][zone] -= offered[zone]

    # a zone in deficit takes trunc(deficit), first fit by name.
    for zone in own.zones:
        deficit = own.total * own.r[zone] - endpoints[zone]
        if deficit > 0:
            _first_fit(math.trunc(deficit), offered, own.located[zone])

    # What is left over forms a global group with weight 1/zones from every zone; own groups weigh 1.
    return [*own.as_groups(), Group(tuple(offered), (1 / len(nodes),) * len(nodes))]


def _first_fit(wanted: int, offered: list[int], receiving: list[int]) -> int:
    """Moves as many as are wanted and offered, from the zones in index order. How many are missing."""
    for position in range(len(offered)):
        moved = min(wanted, offered[position])
        offered[position] -= moved
        receiving[position] += moved
        wanted -= moved
    return wanted


def _local_weighted(nodes: Sequence[int], endpoints: Sequence[int]) -> list[Group]:
    own = OwnGroups(nodes, endpoints, 0.0)

    # A zone's n - T r is split into its truncated part and its fraction.
    excess = [own.excess(zone) for zone in own.zones]
    whole = [math.trunc(excess[zone]) for zone in own.zones]
    fraction = [excess[zone] - whole[zone] for zone in own.zones]

    # A zone with a surplus keeps what is neither of the truncated part nor the one endpoint behind its fraction.
    # Comparisons with 0 are exact.
    offered = [0] * len(nodes)
    for zone in own.zones:
        if excess[zone] > 0:
            offered[zone] = whole[zone]
            own.located[zone][zone] -= whole[zone] + (1 if fraction[zone] > 0 else 0)

    # Truncated parts are matched first fit.
    whole_needs = [0.0] * len(nodes)
    for zone in own.zones:
        if whole[zone] < 0:
            whole_needs[zone] = float(_first_fit(-whole[zone], offered, own.located[zone]))
    fractional_needs = [-fraction[zone] if fraction[zone] < 0 else 0.0 for zone in own.zones]

    def serving(zone: int, index: int, local: float, rest: float) -> Group:
        located = [0] * len(nodes)
        located[zone] = index
        weights = [0.0] * len(nodes)
        weights[zone] = local
        for needs in (fractional_needs, whole_needs):
            for other in own.zones:
                part = min(rest, needs[other])
                weights[other] += part / index
                needs[other] -= part
                rest -= part
        return Group(tuple(located), tuple(weights))

    # Each positive fraction f makes one single-endpoint group, with weight 1 - f for its own zone and the rest to zones
    # in need, in list order, fractional needs first, then left-over integer needs.
    singles = [serving(zone, 1, 1 - fraction[zone], fraction[zone]) for zone in own.zones if fraction[zone] > 0]

    # A left-over integer surplus forms a separate group, in each zone that has one, which serves zones in need in the
    # same way: of m endpoints, with weight (need) / m.
    left_over = [serving(zone, offered[zone], 0.0, float(offered[zone])) for zone in own.zones if offered[zone] > 0]
    return [*own.as_groups(), *singles, *left_over]


def score(groups: Sequence[Group] | None, nodes: Sequence[int], endpoints: Sequence[int]) -> Score:
    """How good the groups are; None is random. There is at least one endpoint."""
    if groups is None:
        groups = [_one_for_all(endpoints)]
    zones = range(len(nodes))
    r = [count / sum(nodes) for count in nodes]
    total = sum(endpoints)

    # Zone z sends the share p(z, g) = n_g w[g][z] / sum over h of n_h w[h][z] to group g, evenly over its endpoints.
    p = []
    for zone in zones:
        weight = 0.0
        for group in groups:
            weight += group.size * group.weights[zone]
        if weight > 0:
            p.append([group.size * group.weights[zone] / weight for group in groups])
        else:
            # Where no endpoint is for it, its traffic falls back on all of them, evenly.
            p.append([group.size / total for group in groups])

    # deviation of an endpoint in g = T * sum over z of r_z p(z, g) / n_g - 1.
    deviations = []
    for g, group in enumerate(groups):
        received = 0.0
        for zone in zones:
            received += r[zone] * p[zone][g] / group.size
        deviations.append(total * received - 1)

    # max overload = max(0, largest deviation).
    max_overload = max(0.0, *deviations)

    # mean overload = sum of |deviation| over endpoints / T. Neither is clipped.
    mean_overload = 0.0
    for group, deviation in zip(groups, deviations, strict=True):
        mean_overload += group.size * abs(deviation)
    mean_overload /= total

    # in-zone = sum over z of r_z * (share of z's traffic that reaches endpoints located in z).
    in_zone = 0.0
    for zone in zones:
        for g, group in enumerate(groups):
            in_zone += r[zone] * p[zone][g] * group.located[zone] / group.size

    # slices score = ceil(T/100) / sum over groups of ceil(n_g/100); a shared group once.
    slices = _slices(total) / sum(_slices(group.size) for group in groups)

    # total = 45 in-zone + 20 (1 - max overload) + 20 (1 - mean overload) + 15 slices score.
    return Score(
        total=45 * in_zone + 20 * (1 - max_overload) + 20 * (1 - mean_overload) + 15 * slices,
        in_zone=100 * in_zone,
        max_overload=100 * (1 - max_overload),
        mean_overload=100 * (1 - mean_overload),
        overload=(100 * (1 - max_overload) + 100 * (1 - mean_overload)) / 2,
        slices=100 * slices,
    )


def _slices(endpoints: int) -> int:
    """How many slices of at most 100 endpoints that makes: rounded up, in whole numbers."""
    return (endpoints + 99) // 100
