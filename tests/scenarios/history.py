"""What happened to Pods and slices, in the order in which the server did it: what was written, and what was missing.

Versions of objects come from one counter, on a real server as on a sandbox, so that events of two watches fall into
place. An endpoint is missing where a slice let it go although its Pod was ready ever since it was listed: that is a
move of our own, and not one that a Pod asked for.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from threading import Thread
from typing import Final

from tests.builders.objects import SERVICE_NAME
from tests.contract.api import Api, Object, Watch
from tests.patience import PATIENCE

PODS: Final = "pods"
SLICES: Final = "endpointslices"
APP: Final = "app"
"""The label by which a Service selects its Pods."""
_Happened = tuple[int, str, str, Object]


def path_in(namespace: str, plural: str) -> str:
    root = "/apis/discovery.k8s.io/v1" if plural == SLICES else "/api/v1"
    return f"{root}/namespaces/{namespace}/{plural}"


def versions(things: Iterable[Object]) -> dict[str, str]:
    return {document["metadata"]["name"]: document["metadata"]["resourceVersion"] for document in things}


@dataclass
class History:
    """Both kinds are followed from the beginning. ``own_versions``: of slices that the scenario itself wrote."""

    own_versions: set[str] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)
    writes: Counter[str] = field(default_factory=Counter)
    """Writes of slices that were not the scenario's, by Service."""
    deleted: set[str] = field(default_factory=set)
    """Services that went since the last look: their slices go with them."""
    _now: dict[str, dict[str, Object]] = field(default_factory=lambda: {PODS: {}, SLICES: {}})
    _waiting: list[_Happened] = field(default_factory=list)
    _deleted_uids: set[str] = field(default_factory=set)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _looked_at: dict[str, dict[str, Object]] = field(default_factory=lambda: {PODS: {}, SLICES: {}})
    _excused: set[str] = field(default_factory=set)
    _orphaned: set[str] = field(default_factory=set)
    """Slices, by UID, of Services that went: the garbage collector deletes them at any time."""

    def follow(self, watch: Watch, plural: str, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(EOFError, OSError, ValueError, HTTPException):
            while True:
                loop.call_soon_threadsafe(self._see, plural, watch.next())

    def _see(self, plural: str, event: Object) -> None:
        kind, document = event["type"], event["object"]
        _follow(self._now[plural], kind, document)
        if kind == "DELETED":
            self._deleted_uids.add(document["metadata"]["uid"])
        self._waiting.append((int(document["metadata"]["resourceVersion"]), plural, kind, document))
        self._news.set()

    async def caught_up(self, *, pods: Iterable[Object], slices: Iterable[Object]) -> None:
        """Wait until the watches have reported all that the lists have, or that it was deleted."""
        listed = {PODS: tuple(pods), SLICES: tuple(slices)}

        def is_reported(plural: str) -> bool:
            left = (document for document in listed[plural] if document["metadata"]["uid"] not in self._deleted_uids)
            return versions(self._now[plural].values()) == versions(left)

        async with asyncio.timeout(PATIENCE):
            while not all(map(is_reported, listed)):
                self._news.clear()
                await self._news.wait()
        self._look_through()
        # From here on an address that is ready and listed has no excuse to disappear.
        self._excused -= self._ready()
        orphaned = (slice_ for slice_ in self._looked_at[SLICES].values() if service_of(slice_) in self.deleted)
        self._orphaned.update(slice_["metadata"]["uid"] for slice_ in orphaned)
        self.deleted.clear()

    def excuse(self, addresses: Iterable[str]) -> None:
        """These may go, though their Pods are ready."""
        self._excused.update(addresses)

    def _look_through(self) -> None:
        for version, plural, kind, document in sorted(self._waiting, key=lambda entry: entry[0]):
            service = service_of(document)
            before = self._listed(service)
            _follow(self._looked_at[plural], kind, document)
            if plural == SLICES:
                self._compare(str(version), service, before)
            elif kind == "DELETED" or not is_ready(document):
                self.excuse(addresses_of(document))
        self._waiting.clear()

    def _compare(self, version: str, service: str, before: set[str]) -> None:
        self.writes[service] += version not in self.own_versions
        after = self._listed(service)
        if service not in self.deleted:
            gone = sorted(before - after - self._excused)
            self.missing += [f"{address} of {service} at version {version}" for address in gone]
        self._excused -= (after - before) & self._ready()

    def _listed(self, service: str) -> set[str]:
        slices = self._looked_at[SLICES].items()
        return listed(
            {name: slice_ for name, slice_ in slices if slice_["metadata"]["uid"] not in self._orphaned}, service
        )

    def _ready(self) -> set[str]:
        return {address for pod in self._looked_at[PODS].values() if is_ready(pod) for address in addresses_of(pod)}


@asynccontextmanager
async def following(api: Api, namespace: str) -> AsyncIterator[History]:
    """A history of a namespace in which nothing has happened yet. Its watches are read by threads."""
    history, loop = History(), asyncio.get_running_loop()
    with ExitStack() as watches:
        for plural in (PODS, SLICES):
            path = path_in(namespace, plural)
            version = (await asyncio.to_thread(api.get, path))["metadata"]["resourceVersion"]
            opening = api.watch(path, {"resourceVersion": version}, patience=600)
            watch = await asyncio.to_thread(watches.enter_context, opening)
            thread = Thread(target=history.follow, args=(watch, plural, loop), daemon=True)
            thread.start()
            watches.callback(thread.join, 30)
            watches.callback(watch.stop)
        yield history


def _follow(things: dict[str, Object], kind: str, document: Object) -> None:
    if kind == "DELETED":
        things.pop(document["metadata"]["name"], None)
    else:
        things[document["metadata"]["name"]] = document


def is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return "deletionTimestamp" not in pod["metadata"] and any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def addresses_of(pod: Object) -> list[str]:
    """Of every family."""
    return [pod_ip["ip"] for pod_ip in pod.get("status", {}).get("podIPs") or ()]


def service_of(slice_: Object) -> str:
    return str((slice_["metadata"].get("labels") or {}).get(SERVICE_NAME, ""))


def listed(slices: Mapping[str, Object], service: str) -> set[str]:
    """Ready addresses of a Service."""
    of_service = (slice_ for slice_ in slices.values() if service_of(slice_) == service)
    endpoints = (endpoint for slice_ in of_service for endpoint in slice_.get("endpoints") or ())
    ready = (endpoint for endpoint in endpoints if endpoint["conditions"].get("ready") is not False)
    return {address for endpoint in ready for address in endpoint["addresses"]}
