"""Inputs to score: demand (nodes) and supply (endpoints) of the zones of one Service each.

A dataset is a sequence of rows with numbers from 0 on. Memory holds one chunk of them: rows are
computed from their numbers, so that any machine gets the same row, in any order.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations_with_replacement, pairwise
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from zoneward.kube.input_error import InputError
from zoneward.routing.demand import Demand
from zoneward.routing.subsetting_decision import neediest_zone
from zoneward.slices.plan import ServicePlan

Integers = NDArray[np.int64]

ROWS_PER_CHUNK: Final = 1 << 16
"""Rows that are scored and summed up as one. Sums depend on it in their last bits, and on nothing else."""
MOST_ZONES: Final = 30
MOST_PER_ZONE: Final = 1_000_000
"""Nodes or endpoints in a zone: more is a mistake."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Rows of a dataset: ``numbers`` in it, ``demand`` and ``supply`` of shape (rows, zones), ``names`` if any."""

    numbers: Integers
    demand: Integers
    supply: Integers
    names: Sequence[str] = ()

    def name(self, row: int) -> str:
        return self.names[row] if self.names else str(self.numbers[row])

    def inputs(self) -> "Inputs":
        """These: known rows are a `Chunk` too."""
        return self


class Chunk(Protocol):
    """A stretch of a dataset, which can be sent to another machine. ``numbers`` has as many as there are rows."""

    @property
    def numbers(self) -> Integers | range: ...
    def inputs(self) -> Inputs: ...


class Dataset(Protocol):
    """``rows`` counts the inputs that `chunks` gives, always the same ones in the same order; ``whole`` those that they
    are a sample of, where they are one.
    """

    @property
    def name(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def whole(self) -> int: ...
    def chunks(self) -> Iterator[Chunk]: ...


class DatasetPart(Protocol):
    """Rows of a computed dataset that have the same number of zones."""

    @property
    def rows(self) -> int: ...
    def at(self, numbers: Integers) -> tuple[Integers, Integers]:
        """Demand and supply of the rows with these numbers, counted from the part's first one."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class InputTable:
    """Each row of ``nodes`` with each row of ``endpoints``, the latter running faster.

    With ``row_by_row`` each row of nodes belongs to its own row of endpoints.
    """

    nodes: Integers
    endpoints: Integers
    row_by_row: bool = False

    @property
    def rows(self) -> int:
        return len(self.nodes) * (1 if self.row_by_row else len(self.endpoints))

    def at(self, numbers: Integers) -> tuple[Integers, Integers]:
        if self.row_by_row:
            return self.nodes[numbers], self.endpoints[numbers]
        return self.nodes[numbers // len(self.endpoints)], self.endpoints[numbers % len(self.endpoints)]


@dataclass(frozen=True, slots=True, eq=False)
class PermutedEndpoints:
    """Another part's rows with their endpoints in any order over the zones, each order as likely as the others."""

    part: DatasetPart
    seed: int
    first: int
    """The number of the part's first row in the dataset."""

    @property
    def rows(self) -> int:
        return self.part.rows

    def at(self, numbers: Integers) -> tuple[Integers, Integers]:
        demand, supply = self.part.at(numbers)
        zones = supply.shape[1]
        keys = np.stack([_random_bits(self.seed, numbers + self.first, zone) for zone in range(zones)], axis=1)
        return demand, np.take_along_axis(supply, np.argsort(keys, axis=1, kind="stable"), axis=1)


@dataclass(frozen=True, slots=True)
class Range:
    """Whole numbers from ``low`` to ``high``, both included."""

    low: int
    high: int

    def by(self, chance: NDArray[np.uint64]) -> Integers:
        """A number for each draw. With at most a million of them the error of the remainder is below 1e-13."""
        return (chance % np.uint64(self.high - self.low + 1)).astype(np.int64) + self.low


@dataclass(frozen=True, slots=True)
class RandomInputs:
    """Random nodes and endpoints of each zone."""

    zones: int
    rows: int
    nodes: Range
    endpoints: Range
    seed: int
    first: int

    def at(self, numbers: Integers) -> tuple[Integers, Integers]:
        draws = [_random_bits(self.seed, numbers + self.first, draw) for draw in range(2 * self.zones)]
        demand = np.stack([self.nodes.by(draw) for draw in draws[: self.zones]], axis=1)
        supply = np.stack([self.endpoints.by(draw) for draw in draws[self.zones :]], axis=1)
        return demand, supply


def _random_bits(seed: int, numbers: Integers, draw: int) -> NDArray[np.uint64]:
    """64 random bits for each row, by its number: SplitMix64's finaliser over a counter."""
    with np.errstate(over="ignore"):
        state = numbers.astype(np.uint64) * np.uint64(64) + np.uint64(draw)
        state = (state + np.uint64(seed) * np.uint64(0xD1342543DE82EF95)) * np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: NDArray[np.uint64] = state ^ (state >> np.uint64(31))
    return mixed


def stratified_sample(whole: int, rows: int, *, seed: int, start: int, stop: int) -> Integers:
    """A sample of ``rows`` of the numbers below ``whole``, a random one from each of as many stretches of equal
    length: those of the stretches from ``start`` to before ``stop``, in order. No number comes twice.
    """
    # In Python's integers: the products pass 64 bits for a thousand million rows.
    bounds = np.array([index * whole // rows for index in range(start, stop + 1)], np.int64)
    room = (bounds[1:] - bounds[:-1]).astype(np.uint64)
    strata = np.arange(start, stop, dtype=np.int64)
    return bounds[:-1] + (_random_bits(seed + 1, strata, 0) % room).astype(np.int64)


# --- computed datasets ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ComputedDataset:
    """A dataset of parts, whole or a sample of it; two with the same fields have the same rows.

    ``name`` is one of `zoneward.lab.COMPUTED_DATASETS`; the ranges and ``inputs`` are for ``uniform`` alone. A sample
    takes a random row from each of ``sample`` stretches of equal length, so that it is spread evenly and holds no
    row twice.
    """

    name: str
    seed: int = 0
    zones: Range = Range(3, 3)
    nodes: Range = Range(1, 10)
    endpoints: Range = Range(0, 100)
    inputs: int = 1_000_000
    sample: int | None = None

    @cached_property
    def whole(self) -> int:
        return sum(part.rows for part in _parts(self))

    @property
    def rows(self) -> int:
        return self.whole if self.sample is None else min(self.sample, self.whole)

    def chunks(self) -> Iterator[Chunk]:
        if self.sample is not None:
            for start in range(0, self.rows, ROWS_PER_CHUNK):
                stop = min(start + ROWS_PER_CHUNK, self.rows)
                yield from self._chunks_of(
                    stratified_sample(self.whole, self.rows, seed=self.seed, start=start, stop=stop)
                )
            return
        for index, part in enumerate(_parts(self)):
            for start in range(0, part.rows, ROWS_PER_CHUNK):
                yield RowSelection(self, index, range(start, min(start + ROWS_PER_CHUNK, part.rows)))

    def _chunks_of(self, numbers: Integers) -> Iterator[Chunk]:
        """Rows of the dataset by part, since those of a chunk have the same number of zones."""
        first = 0
        for index, part in enumerate(_parts(self)):
            low, high = np.searchsorted(numbers, [first, first + part.rows])
            if low < high:
                yield RowSelection(self, index, numbers[low:high] - first)
            first += part.rows


@dataclass(frozen=True, slots=True, eq=False)
class RowSelection:
    """Some rows of one part, by their ``numbers`` in it."""

    dataset: ComputedDataset
    part: int
    numbers: Integers | range

    def inputs(self) -> Inputs:
        parts = _parts(self.dataset)
        numbers = np.asarray(self.numbers, np.int64)
        demand, supply = parts[self.part].at(numbers)
        first = sum(before.rows for before in parts[: self.part])
        return Inputs(numbers + first, np.ascontiguousarray(demand), np.ascontiguousarray(supply))


@cache
def _parts(dataset: ComputedDataset) -> tuple[DatasetPart, ...]:
    if dataset.name == "uniform":
        sizes = range(dataset.zones.low, dataset.zones.high + 1)
        bounds = [index * dataset.inputs // len(sizes) for index in range(len(sizes) + 1)]
        return tuple(
            RandomInputs(zones, stop - start, dataset.nodes, dataset.endpoints, dataset.seed, start)
            for zones, (start, stop) in zip(sizes, pairwise(bounds), strict=True)
        )
    if dataset.name == "representative":
        rows = np.array(REPRESENTATIVE, np.int64)
        return (InputTable(rows[:, 0], rows[:, 1], row_by_row=True),)
    nodes = _ascending_triples(range(1, 11))
    if dataset.name in MOST_ENDPOINTS_IN_A_ZONE:
        return (InputTable(nodes, _ascending_triples(range(MOST_ENDPOINTS_IN_A_ZONE[dataset.name] + 1))[1:]),)
    endpoints = _ascending_triples(range(101))[1:]
    if dataset.name == "few":
        return (InputTable(nodes, endpoints[endpoints.sum(axis=1) <= FEW_ENDPOINTS]),)
    kep = (
        InputTable(nodes, endpoints),
        InputTable(np.full((1, 3), 30, np.int64), _ascending_triples(range(100, 1001, 7))),
    )
    if dataset.name == "kep":
        return kep
    return tuple(
        PermutedEndpoints(part, dataset.seed, first) for part, first in zip(kep, (0, kep[0].rows), strict=True)
    )


REPRESENTATIVE: Final = (
    ((30, 30, 30), (100, 0, 0)),
    ((30, 30, 30), (100, 100, 0)),
    ((30, 30, 30), (100, 10, 10)),
    ((30, 30, 30), (1, 1, 1)),
    ((30, 30, 30), (2, 1, 0)),
    ((30, 30, 30), (1, 0, 0)),
    ((30, 30, 30), (2, 0, 0)),
    ((30, 30, 30), (3, 2, 2)),
    ((30, 30, 30), (10, 9, 12)),
    ((30, 30, 30), (60, 65, 55)),
    ((300, 300, 300), (654, 704, 555)),
    ((40, 30, 20), (40, 30, 20)),
    ((40, 30, 20), (70, 25, 15)),
    ((1, 2, 2), (3, 2, 2)),
    ((15, 20, 12), (10, 18, 10)),
    ((54, 58, 74), (80, 90, 105)),
    ((3, 2, 1), (3, 2, 1)),
    ((10, 11, 12), (20, 22, 24)),
    ((50, 60, 70), (100, 120, 140)),
)
"""Nodes and endpoints of each zone: the inputs that come with the proposal's tool (``example/topology-sim-input.csv``),
which the proposal calls representative data points."""
MOST_ENDPOINTS_IN_A_ZONE: Final = {"small": 20, "medium": 50}
"""The most endpoints of a zone. That of ``small`` is the one with which the proposal's table for it comes out; of
``medium`` the proposal says nothing but the name."""
FEW_ENDPOINTS: Final = 50
"""The most endpoints of an input in ``few``."""


def _ascending_triples(values: range) -> Integers:
    """Every ascending triple with repetition (docs/kep-2004-table.md § What the inputs are)."""
    return np.array(list(combinations_with_replacement(values, 3)), np.int64)


# --- what is held in memory -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class InMemoryDataset:
    """A few inputs with names, such as the Services of a cluster."""

    name: str
    stored: Inputs

    @property
    def rows(self) -> int:
        return len(self.stored.numbers)

    @property
    def whole(self) -> int:
        return self.rows

    def chunks(self) -> Iterator[Chunk]:
        yield self.stored


def cluster_dataset(plans: Iterable[ServicePlan], demand: Demand) -> InMemoryDataset:
    """A row for each Service and address family of a cluster whose traffic can be predicted.

    Endpoints count in their own zone. One outside the zones where traffic starts counts where subsetting would put it:
    in the zone in greatest need. Raises `InputError` where there is one zone, or no such Service.
    """
    if len(demand.zones) < 2:
        raise InputError("--dataset cluster", f"expected ready nodes in two zones or more, got {len(demand.zones)}")
    names, rows = [], []
    for plan in plans:
        meta = plan.service.metadata
        for family in plan.families:
            if family.traffic is None or not family.traffic.served:
                continue
            located = {zone: traffic.located for zone, traffic in family.traffic.zones.items()}
            supply = {zone: located.pop(zone, 0) for zone in demand.zones}
            total = sum(supply.values()) + sum(located.values())
            for _ in range(sum(located.values())):
                supply[neediest_zone(demand.weight_of, supply, total)] += 1
            suffix = f" {family.address_type[-1]}" if len(plan.families) > 1 else ""
            names.append(f"{meta.namespace}/{meta.name}{suffix}")
            rows.append(list(supply.values()))
    if not rows:
        raise InputError("--dataset cluster", "expected Services whose traffic can be predicted, got none")
    supplies = np.array(rows, np.int64)
    demands = np.tile(np.array(demand.weights, np.int64), (len(rows), 1))
    return InMemoryDataset("cluster", Inputs(np.arange(len(rows)), demands, supplies, names))
