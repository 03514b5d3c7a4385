"""Records the changes that a store reports to its handlers, and compares them with the history of the server."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Generic

from tests.client.a_server import AServer
from tests.patience import PATIENCE

from zoneward.client.object_store import ObjectStore
from zoneward.client.resources import WatchedResource, WatchedT, object_key_of
from zoneward.kube.objects import ObjectKey, parse_resource_version


class Recording(Generic[WatchedT]):
    """Every change that one store reports. ``changes`` has (what, name, version) in order."""

    def __init__(self, store: ObjectStore[WatchedT], resource: WatchedResource[WatchedT]) -> None:
        self.store, self.resource = store, resource
        self.changes: list[tuple[str, str, str]] = []
        self._states: dict[ObjectKey, list[WatchedT | None]] = defaultdict(list)
        store.subscribe(self._take)

    def _take(self, old: WatchedT | None, new: WatchedT | None) -> None:
        obj = new or old
        assert obj is not None
        key = object_key_of(obj)
        # The store already has the new state, and the old one is the last that it reported.
        assert self.store.get(*key) is new
        states = self._states[key]
        assert old is (states[-1] if states else None)
        states.append(new)
        what = "added" if old is None else "deleted" if new is None else "modified"
        self.changes.append((what, key[1], obj.metadata.resource_version or ""))

    def is_equal_to(self, server: AServer) -> bool:
        """Whether store and server have the same objects in the same versions."""
        held = {object_key_of(obj): obj.metadata.resource_version for obj in self.store}
        stored = server.objects[self.resource.plural]
        return held == {key: obj["metadata"]["resourceVersion"] for key, obj in stored.items()}

    def check_order(self, server: AServer, *, is_complete: bool) -> None:
        """Assert that each object had only states of the server, in their order; all of them if ``is_complete``."""
        server_versions: dict[ObjectKey, list[int | None]] = defaultdict(list)
        for change in server.history:
            if change.plural == self.resource.plural:
                server_versions[change.key].append(None if change.type == "DELETED" else change.version)
        for key, states in self._states.items():
            versions = [
                None if state is None else parse_resource_version(state.metadata.resource_version) for state in states
            ]
            rest = iter(server_versions[key])
            assert all(version in rest for version in versions), key
            assert not is_complete or versions == server_versions[key], key
        assert not is_complete or self._states.keys() == server_versions.keys()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition is true."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.003)
