"""A play on a server: its actions are done as they are due, and what others change is taken as it is."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from itertools import islice
from random import Random
from typing import Any, Final, Protocol

from zoneward.kube.input_error import InputError
from zoneward.sandbox.play.actions import Action, Bind, Create, Delete, Message, Patch, patched
from zoneward.sandbox.play.play_model import Play
from zoneward.sandbox.play.played_cluster import PlayedCluster, Watched
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.status_errors import StatusError

Object = dict[str, Any]

POLL_SECONDS: Final = 1.0
"""Seconds (of the day, not of the play) between looks at what others did."""
_BATCH: Final = 50
"""Actions, or objects looked at, until others may go on: a few milliseconds."""
_SHORTEST: Final = 0.001
"""Seconds. Actions due within them are done at once: a clock may not resolve shorter times."""
_OBJECTS_A_LOOK: Final = 500
_ATTEMPTS: Final = 3


class PlayClient(Protocol):
    """The server, as a play sees it. All raise StatusError."""

    def create(self, kind: Kind, namespace: str, thing: Object) -> Object: ...

    def patch_status(self, kind: Kind, namespace: str, name: str, change: Callable[[Object], Object]) -> Object: ...

    def update(self, kind: Kind, namespace: str, name: str, change: Callable[[Object], Object]) -> Object: ...

    def bind(self, kind: Kind, namespace: str, name: str, *, node: str) -> None: ...

    def delete(self, kind: Kind, namespace: str, name: str, *, grace: int | None = None) -> None: ...

    def get(self, kind: Kind, namespace: str, name: str) -> Object: ...


async def play(
    play: Play,
    registry: PlayClient,
    *,
    kinds: Mapping[tuple[str, str], Kind],
    clock: Callable[[], datetime],
    sleep: Callable[[float], Awaitable[None]],
    on_line: Callable[[str], None] = lambda _line: None,
    until: float | None = None,
) -> None:
    """Play until cancelled, or until a time of the play: also after the last step, pods that go are replaced.

    ``kinds`` by apiVersion and kind; ``on_line`` gets a line for each step. Raises InputError where the server refuses
    what stands in the play's file.
    """
    start = clock()
    cluster = PlayedCluster(play, Random(play.seed), start=start)
    runner = _ActionRunner(registry, kinds, cluster, on_line)
    was_over = False
    polled, now = start, 0.0
    while True:
        for number, action in enumerate(cluster.advance(now)):
            runner.run_action(action)
            if number % _BATCH == _BATCH - 1:
                await sleep(0)
        if cluster.is_over and not was_over and play.steps:
            was_over = True
            on_line("The play is over; pods that are deleted are still replaced.")
        if until is not None and now >= until:
            return
        wait = POLL_SECONDS if cluster.next is None else min(POLL_SECONDS, (cluster.next - now) / play.speed)
        await sleep(max(_SHORTEST, wait))
        time = clock()
        if (time - polled).total_seconds() >= POLL_SECONDS:
            polled = time
            await runner.look(sleep)
        # A clock that is set back makes the play wait.
        now = max(now, (time - start).total_seconds() * play.speed)
        if until is not None:
            now = min(now, until)


class _ActionRunner:
    def __init__(
        self,
        registry: PlayClient,
        kinds: Mapping[tuple[str, str], Kind],
        cluster: PlayedCluster,
        on_line: Callable[[str], None],
    ) -> None:
        self._registry, self._kinds, self._cluster, self._on_line = registry, kinds, cluster, on_line
        self._polled_until = 0
        self._reported: set[str] = set()

    def run_action(self, action: Action) -> None:
        if isinstance(action, Message):
            self._on_line(action.line)
            return
        for attempt in range(_ATTEMPTS):
            try:
                self._try(action)
                return
            except StatusError as refusal:
                if refusal.reason != "Conflict" or attempt == _ATTEMPTS - 1:
                    self._refused(action, refusal)
                    return

    async def look(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """At a part of the objects, where they are many: the next part the next time."""
        watched = list(self._cluster.watched())
        begin = self._polled_until if self._polled_until < len(watched) else 0
        self._polled_until = begin + _OBJECTS_A_LOOK
        for number, (kind, namespace, name) in enumerate(islice(watched, begin, self._polled_until)):
            self._poll_object(kind, namespace, name)
            if number % _BATCH == _BATCH - 1:
                await sleep(0)

    def _poll_object(self, kind: Watched, namespace: str, name: str) -> None:
        try:
            thing = self._registry.get(self._kinds["v1", kind], namespace, name)
        except StatusError as refusal:
            if refusal.code == 404:
                self._cluster.observe(kind, namespace, name, None)
            return
        self._cluster.observe(kind, namespace, name, thing)

    def _try(self, action: Create | Patch | Bind | Delete) -> None:
        match action:
            case Create(thing=thing):
                kind = self._kinds[thing["apiVersion"], thing["kind"]]
                created = self._registry.create(kind, action.namespace, self._complete(thing))
                if kind.has_status and "status" in thing and created.get("status") != thing["status"]:
                    # Of some kinds what is created has no status yet.
                    status = {"status": thing["status"]}
                    self._registry.patch_status(kind, action.namespace, action.name, lambda old: patched(old, status))
            case Patch(kind=name, patch=patch, is_status=is_status):
                write = self._registry.patch_status if is_status else self._registry.update
                write(
                    self._kinds["v1", name],
                    action.namespace,
                    action.name,
                    lambda old: patched(old, patch),
                )
            case Bind(namespace=namespace, name=name, node=node):
                self._registry.bind(self._kinds["v1", "Pod"], namespace, name, node=node)
            case Delete(kind=name, grace=grace):
                self._registry.delete(self._kinds["v1", name], action.namespace, action.name, grace=grace)

    def _complete(self, thing: Object) -> Object:
        """An Event with the UID of what it is about, which only the server knows."""
        about = thing.get("involvedObject")
        if thing["kind"] != "Event" or not about or "uid" in about:
            return thing
        kind = self._kinds.get((about["apiVersion"], about["kind"]))
        if kind is None:
            return thing
        try:
            found = self._registry.get(kind, about.get("namespace", ""), about["name"])
        except StatusError:
            return thing
        return thing | {"involvedObject": about | {"uid": found["metadata"]["uid"]}}

    def _refused(self, action: Create | Patch | Bind | Delete, refusal: StatusError) -> None:
        if isinstance(action, Create):
            if action.kind == "Event":
                return
            if refusal.reason == "AlreadyExists" and (action.place or action.kind != "Pod"):
                return
            if action.place:
                raise InputError(self._cluster.play.source, action.place, refusal.message)
        elif refusal.code == 404:
            if isinstance(action, Patch | Bind):
                self._cluster.observe(action.kind, action.namespace, action.name, None)
            return
        self._cluster.refused(action)
        # The same problem of every pod of a workload is reported once.
        problem = refusal.message.partition("\n")[0]
        if problem.replace(action.name, "") not in self._reported:
            self._reported.add(problem.replace(action.name, ""))
            self._on_line(f"The server refused {action.kind} {action.name}: {problem}")
