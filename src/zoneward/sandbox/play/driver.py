"""Runs a play on a server: performs its actions when they are due, and follows changes of other clients."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from zoneward.kube.input_error import InputError
from zoneward.sandbox.play.play_file import Play
from zoneward.sandbox.play.played_cluster import PlayedCluster
from zoneward.sandbox.play.timeline import Action, Create, Delete, Key, Object, Patch
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.patches import strategic_merge_patch
from zoneward.sandbox.server.resource_registry import LocalClient, Registry
from zoneward.sandbox.server.schema import type_of
from zoneward.sandbox.server.status_errors import StatusError

POLL_SECONDS: Final = 1.0
"""Seconds of real time between two checks for changes of other clients."""
_BATCH: Final = 50
"""Actions or objects between two switches to other tasks: a few milliseconds."""
_SHORTEST: Final = 0.001
"""Shortest sleep in seconds: a clock may not resolve shorter times."""
_OBJECTS_PER_CHECK: Final = 500


async def play(
    play: Play,
    registry: Registry,
    *,
    clock: Callable[[], datetime],
    sleep: Callable[[float], Awaitable[None]],
    on_line: Callable[[str], None] = lambda _line: None,
    until: float | None = None,
    source: str = "play",
) -> None:
    """Play until cancelled, or until a time of the play. Deleted pods are replaced also after the last step.

    ``on_line`` gets a line for each step. Raises InputError if the server refuses an object in the play's file,
    ``source``.
    """
    start = clock()
    cluster = PlayedCluster(play, start=start)
    kinds = {kind.kind: kind for kind in registry.kinds.values() if kind.api == "v1"}
    runner = _ActionRunner(LocalClient(registry), kinds, cluster, on_line, source)
    polled, now = start, 0.0
    while True:
        for index, action in enumerate(cluster.timeline.run(now)):
            runner.run_action(action)
            if index % _BATCH == _BATCH - 1:
                await sleep(0)
        if until is not None and now >= until:
            return
        wait = POLL_SECONDS if (due := cluster.timeline.next) is None else min(POLL_SECONDS, (due - now) / play.speed)
        await sleep(max(_SHORTEST, wait))
        time = clock()
        if (time - polled).total_seconds() >= POLL_SECONDS:
            polled = time
            await runner.check_objects(sleep)
        # If the clock is set back, the play waits.
        now = max(now, (time - start).total_seconds() * play.speed)
        if until is not None:
            now = min(now, until)


@dataclass(slots=True)
class _ActionRunner:
    client: LocalClient
    kinds: Mapping[str, Kind]
    cluster: PlayedCluster
    on_line: Callable[[str], None]
    source: str
    _polled_until: int = 0
    _reported: set[str] = field(default_factory=set)

    def run_action(self, action: Action) -> None:
        if isinstance(action, str):
            self.on_line(action)
            return
        kind, namespace, name = action.key
        try:
            match action:
                case Create(obj=obj):
                    self.client.create(self.kinds[kind], namespace, obj)
                case Patch(patch=patch):
                    write = self.client.patch_status if "status" in patch else self.client.update
                    type_ = type_of(self.kinds[kind])
                    write(self.kinds[kind], namespace, name, lambda old: strategic_merge_patch(old, patch, type_))
                case Delete(grace=grace):
                    self.client.delete(self.kinds[kind], namespace, name, grace=grace)
        except StatusError as refusal:
            self._refused(action, refusal)

    async def check_objects(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Check the next part of the objects for changes of other clients."""
        watched = self.cluster.watched()
        begin = self._polled_until if self._polled_until < len(watched) else 0
        self._polled_until = begin + _OBJECTS_PER_CHECK
        for index, key in enumerate(watched[begin : self._polled_until]):
            self.cluster.observe(key, self._found(key))
            if index % _BATCH == _BATCH - 1:
                await sleep(0)

    def _found(self, key: Key) -> Object | None:
        kind, namespace, name = key
        try:
            return self.client.get(self.kinds[kind], namespace, name)
        except StatusError:
            return None

    def _refused(self, action: Create | Patch | Delete, refusal: StatusError) -> None:
        kind, _, name = action.key
        if refusal.code == 404 and not isinstance(action, Create):
            self.cluster.observe(action.key, None)
            return
        if isinstance(action, Create):
            if refusal.reason == "AlreadyExists" and kind != "Pod":
                return
            if action.path:
                raise InputError(self.source, action.path, refusal.message)
            self.cluster.refused(action.key)
        # Report the same problem of all pods of a workload once.
        problem = refusal.message.partition("\n")[0]
        if problem.replace(name, "") not in self._reported:
            self._reported.add(problem.replace(name, ""))
            self.on_line(f"The server refused {kind} {name}: {problem}")
