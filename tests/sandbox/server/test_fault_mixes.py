"""The real client on the sandbox over HTTP, while everything goes wrong: its cache ends equal to the server.

500 changes a run, half of them over HTTP, by writers that meet the same faults. ``ZONEWARD_FAULT_MIXES=300`` runs
more mixes; what a mix is follows from its number, which stands in brackets behind the test that failed.
"""

import asyncio
import os
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

import pytest
from tests.sandbox.server.a_faulty_sandbox import Scene, a_scene
from tests.sandbox.server.fault_writers import Controller, Insider

from zoneward.client.api_errors import Gone
from zoneward.client.resources import CACHED_RESOURCES
from zoneward.sandbox.play.durations import Span
from zoneward.sandbox.server.faults import Fault, FaultKind

MIXES: Final = int(os.environ.get("ZONEWARD_FAULT_MIXES") or (30 if os.environ.get("CI") else 12))
CHANGES: Final = 500
CONTROLLERS: Final = 2
COMPACTED: Final = 0.05
"""Seconds between two times at which a mix forgets all history, on average."""
LATENCY: Final = Span(0.0005, 0.004)
RANGES: Final = {
    FaultKind.LATENCY: (0.05, 0.3),
    FaultKind.SERVER_ERROR: (0.01, 0.06),
    FaultKind.UNAVAILABLE: (0.01, 0.1),
    FaultKind.TOO_MANY: (0.01, 0.1),
    FaultKind.CONFLICT: (0.02, 0.3),
    FaultKind.LOST_ANSWER: (0.02, 0.2),
    FaultKind.GONE: (0.002, 0.03),
    FaultKind.DROP_WATCH: (0.002, 0.03),
    FaultKind.CUT_WATCH: (0.002, 0.03),
    FaultKind.SILENT_WATCH: (0.002, 0.02),
}
"""How probable the faults of a mix are."""
ALONE: Final = {
    FaultKind.LATENCY: 1.0,
    FaultKind.SERVER_ERROR: 0.4,
    FaultKind.UNAVAILABLE: 0.4,
    FaultKind.TOO_MANY: 0.4,
    FaultKind.CONFLICT: 0.8,
    FaultKind.LOST_ANSWER: 0.5,
    FaultKind.GONE: 0.15,
    FaultKind.DROP_WATCH: 0.2,
    FaultKind.CUT_WATCH: 0.2,
    FaultKind.SILENT_WATCH: 0.05,
}
LOSES: Final = frozenset({FaultKind.GONE, FaultKind.SERVER_ERROR})
"""After which a list may be needed: 500 again and again makes the client suspect the version."""
MET: Final = {
    FaultKind.LATENCY: "late",
    FaultKind.CONFLICT: "409",
    FaultKind.LOST_ANSWER: "lost",
    FaultKind.GONE: "410",
}
"""What `Passing` calls them, where that is not their own word."""


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever goes wrong on purpose, neither the server nor the client has an error that nobody deals with."""
    yield
    assert [record.getMessage() for record in caplog.get_records("call")] == []


def test_every_fault_has_its_test_and_its_part_in_the_mixes() -> None:
    assert set(RANGES) == set(ALONE) == set(FaultKind)


def a_mix(seed: int) -> tuple[list[Fault], bool]:
    """The faults, and whether history is lost. Half of the mixes lose none: there every single change must be told."""
    chance = Random(f"{seed} mix")
    is_lossy = chance.random() < 0.5
    kinds = [kind for kind in FaultKind if chance.random() < 0.6 and (is_lossy or kind is not FaultKind.GONE)]
    return [a_fault(kind, chance.uniform(*RANGES[kind])) for kind in kinds or [FaultKind.DROP_WATCH]], is_lossy


def a_fault(kind: FaultKind, probability: float) -> Fault:
    return Fault(kind=kind, probability=probability, latency=LATENCY if kind is FaultKind.LATENCY else Span(0, 0))


async def happen(scene: Scene, seed: int, *, changes: int, compacted: float | None) -> None:
    """Changes from all sides; then faults are over, and the cache becomes equal, and stays so."""
    insider = Insider(scene, "insider", seed)

    async def compact(every: float) -> None:
        chance = Random(f"{seed} compact")
        while True:
            await asyncio.sleep(chance.random() * 2 * every)
            scene.registry.store.compact()

    async with asyncio.TaskGroup() as group:
        compacting = None if compacted is None else group.create_task(compact(compacted))
        async with asyncio.TaskGroup() as writers:
            writers.create_task(insider.work(changes // 2))
            for number in range(CONTROLLERS):
                writers.create_task(Controller(scene, f"{number}", seed).work(changes // 2 // CONTROLLERS))
        if compacting is not None:
            compacting.cancel()
    scene.faults.is_over = True
    await scene.settle()
    for _ in range(5):
        insider.change()
    await scene.settle()
    assert set(scene.past.done.values()) == {1}, "something was done twice"


async def run(
    faults: Sequence[Fault],
    seed: int,
    *,
    loses: bool,
    streams_lists: bool,
    changes: int = CHANGES,
    compacted: float | None = None,
) -> Scene:
    """The scene afterwards. Where history is lost the changes begin with the client, otherwise when it has all."""
    async with a_scene(faults, seed, streams_lists=streams_lists) as scene:
        if not loses:
            async with asyncio.timeout(20):
                await scene.cache.synced.wait()
            scene.connection.lists.clear()
        await happen(scene, seed, changes=changes, compacted=compacted)
        every = [resource.plural for resource in CACHED_RESOURCES]
        scene.check(relisted=every if loses else scene.connection.lists)
        return scene


@pytest.mark.parametrize("seed", range(MIXES))
def test_after_any_mix_of_faults_the_cache_is_equal_to_the_server(seed: int) -> None:
    """No object goes back, no state is told twice, and without lost history every single change is told."""
    faults, is_lossy = a_mix(seed)
    told = ", ".join(f"{each.kind}@{each.probability:.3f}" for each in faults)
    print(f"mix {seed}{' that loses history' if is_lossy else ''}: {told}")  # noqa: T201  (shown where it fails)
    compacted = COMPACTED if is_lossy else None
    scene = asyncio.run(run(faults, seed, loses=is_lossy, streams_lists=seed % 4 < 2, compacted=compacted))
    assert scene.past.count >= CHANGES
    if not is_lossy:
        assert scene.connection.lists == []


@pytest.mark.parametrize("kind", FaultKind)
def test_each_fault_alone_however_frequent(kind: FaultKind) -> None:
    """Where no history is lost there is no second list, and every single change is told."""
    fault, loses = a_fault(kind, ALONE[kind]), kind in LOSES
    scene = asyncio.run(run([fault], 1, loses=loses, streams_lists=kind is not FaultKind.GONE, changes=100))
    assert MET.get(kind, kind) in scene.faults.met
    if not loses:
        assert scene.connection.lists == []


@pytest.mark.parametrize("streams_lists", [False, True])
def test_history_that_is_lost_all_the_time(*, streams_lists: bool) -> None:
    """Watches are told so, and continue tokens, too, are too old."""
    scene = asyncio.run(run([], 1, loses=True, streams_lists=streams_lists, changes=200, compacted=0.002))
    assert sum(isinstance(trouble, Gone) for trouble in scene.troubles) >= 10
