"""Runs a play on a server: performs its actions when they are due, and follows changes of other clients."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from zoneward.kube.input_error import InputError
from zoneward.sandbox.play.play_file import Play
from zoneward.sandbox.play.played_cluster import PlayedCluster
from zoneward.sandbox.play.timeline import Action, Create, Delete, Key, Patch
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.patches import strategic_merge_patch
from zoneward.sandbox.server.resource_registry import DeleteOptions, Registry, Write
from zoneward.sandbox.server.schema import decode, type_of
from zoneward.sandbox.server.status_errors import StatusError
from zoneward.sandbox.server.versioned_store import StoredChange

_LONGEST: Final = 1.0
"""Longest sleep in seconds of real time: then the play follows what other clients changed."""
_SHORTEST: Final = 0.001
"""Shortest sleep in seconds: a clock may not resolve shorter times."""
_BATCH: Final = 50
"""Actions between two switches to other tasks: a few milliseconds."""


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
    runner = _ActionRunner(registry, cluster, on_line, source)
    registry.store.listeners.append(runner.note)
    now = 0.0
    try:
        while True:
            for index, action in enumerate(cluster.timeline.run(now)):
                runner.run_action(action)
                if index % _BATCH == _BATCH - 1:
                    await sleep(0)
            if until is not None and now >= until:
                return
            wait = _LONGEST if (due := cluster.timeline.next) is None else min(_LONGEST, (due - now) / play.speed)
            await sleep(max(_SHORTEST, wait))
            runner.observe_changes()
            # If the clock is set back, the play waits.
            now = max(now, (clock() - start).total_seconds() * play.speed)
            if until is not None:
                now = min(now, until)
    finally:
        registry.store.listeners.remove(runner.note)


@dataclass(slots=True)
class _ActionRunner:
    registry: Registry
    cluster: PlayedCluster
    on_line: Callable[[str], None]
    source: str
    _changed: dict[Key, None] = field(default_factory=dict)
    """Pods and Nodes that anyone changed since they were last observed, in order."""
    _reported: set[str] = field(default_factory=set)

    def run_action(self, action: Action) -> None:
        if isinstance(action, str):
            self.on_line(action)
            return
        kind_name, namespace, name = action.key
        kind = self.registry.kinds[_resource_of(kind_name)]
        try:
            match action:
                case Create(obj=obj):
                    self.registry.create(kind, namespace, decode(obj, kind)[0])
                case Patch(patch=patch):
                    write = Write(subresource="status" if "status" in patch else "")
                    self.registry.update(
                        kind, namespace, name, lambda old: strategic_merge_patch(old, patch, type_of(kind)), write
                    )
                case Delete(grace=grace):
                    self.registry.delete(kind, namespace, name, DeleteOptions(grace_period_seconds=grace))
        except StatusError as refusal:
            self._refused(action, refusal)

    def note(self, kind: Kind, change: StoredChange) -> None:
        """A listener of the store."""
        if kind.kind in ("Pod", "Node"):
            self._changed[kind.kind, *change.key] = None

    def observe_changes(self) -> None:
        changed, self._changed = self._changed, {}
        for kind, namespace, name in changed:
            self.cluster.observe((kind, namespace, name), self.registry.find(_resource_of(kind), namespace, name))

    def _refused(self, action: Create | Patch | Delete, refusal: StatusError) -> None:
        kind, _, name = action.key
        if not isinstance(action, Create) and refusal.code == 404:
            # Another client deleted it: `observe_changes` comes to that.
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


def _resource_of(kind: str) -> str:
    return f"{kind.lower()}s"
