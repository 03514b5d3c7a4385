"""A fake API server for lists and watches, with faults on demand: in memory, and over HTTP.

A versioned store of Services, Nodes, Pods and EndpointSlices with a history; lists in pages whose tokens expire,
watches with bookmarks, streaming lists. `Fault` names a fault; the next request to which it can apply fails with it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple, NoReturn

from aiohttp import web
from tests.client.serving import start, stop

from zoneward.client.api_errors import ApiError, Unreachable, api_error

Object = dict[str, Any]
ObjectKey = tuple[str, str]
KINDS = {
    "pods": ("v1", "Pod"),
    "nodes": ("v1", "Node"),
    "services": ("v1", "Service"),
    "endpointslices": ("discovery.k8s.io/v1", "EndpointSlice"),
    "daemonsets": ("apps/v1", "DaemonSet"),
    "deployments": ("apps/v1", "Deployment"),
    "configmaps": ("v1", "ConfigMap"),
}


class Fault(Enum):
    """A fault of a request; of a watch, after a few events or bookmarks."""

    DROP = auto()  # the connection breaks
    END = auto()  # the server ends the watch, as after its timeout
    GONE = auto()  # 410 at once
    UNAVAILABLE = auto()  # 503 at once
    EXPIRE = auto()  # a list's continue token has expired


WATCH_FAULTS = frozenset(Fault) - {Fault.EXPIRE}
OPENING_FAULTS = frozenset({Fault.GONE, Fault.UNAVAILABLE})
"""Faults at the start of a watch. All others can also occur later."""


class Change(NamedTuple):
    version: int
    plural: str
    type: str
    key: ObjectKey
    object: Object


@dataclass
class AServer:
    """A transport to itself; within ``async with``, also a server at an address."""

    streams_lists: bool = True
    page: int | None = None
    """Largest size of a page, even if the request asks for more."""
    bookmark_every: float = 0.03
    history: list[Change] = field(default_factory=list)
    objects: dict[str, dict[ObjectKey, Object]] = field(default_factory=lambda: {plural: {} for plural in KINDS})
    faults: list[tuple[Fault, int, str]] = field(default_factory=list)
    """Each with the number of events of a watch before it, and the kind that it applies to; empty for any."""
    met: list[Fault] = field(default_factory=list)
    version: int = 100
    compacted: int = 0
    """Versions before this one are no longer in the history."""
    address: str = ""
    refusals: dict[str, int] = field(default_factory=dict)
    """By kind, the status with which all requests are refused."""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Paths and queries, in the order of the requests."""
    _lists: dict[str, tuple[int, list[Object]]] = field(default_factory=dict)
    _tick: asyncio.Event = field(default_factory=asyncio.Event)
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> "AServer":
        application = web.Application()
        application.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0.01)
        self._listener = await start(self._runner)
        self.address = "http://{}:{}".format(*self._listener.getsockname())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await stop(self._runner, self._listener)

    def put(self, plural: str, name: str, namespace: str = "", **fields: Any) -> Object:
        """Create an object, or replace it."""
        key = (namespace, name)
        metadata = {"name": name, **fields.pop("metadata", {}), "resourceVersion": str(self.version + 1)}
        if namespace:
            metadata["namespace"] = namespace
        made = {"apiVersion": KINDS[plural][0], "kind": KINDS[plural][1], "metadata": metadata, **fields}
        self._change(plural, "MODIFIED" if key in self.objects[plural] else "ADDED", key, made)
        self.objects[plural][key] = made
        return made

    def delete(self, plural: str, name: str, namespace: str = "") -> None:
        key = (namespace, name)
        last = self.objects[plural].pop(key)
        metadata = last["metadata"] | {"resourceVersion": str(self.version + 1)}
        self._change(plural, "DELETED", key, last | {"metadata": metadata})

    def _change(self, plural: str, kind: str, key: ObjectKey, obj: Object) -> None:
        self.version += 1
        self.history.append(Change(self.version, plural, kind, key, obj))
        self._tick.set()
        self._tick = asyncio.Event()

    def compact(self) -> None:
        """Drop the history so far and the tokens of lists, as etcd does every five minutes."""
        self.compacted = self.version
        self._lists.clear()

    def plan(self, fault: Fault, *, after: int = 0, plural: str = "") -> None:
        self.faults.append((fault, after, plural))

    def _fault(self, possible: frozenset[Fault], plural: str) -> tuple[Fault | None, int]:
        planned = next((fault for fault in self.faults if fault[0] in possible and fault[2] in ("", plural)), None)
        if planned is None:
            return None, 0
        self.faults.remove(planned)
        self.met.append(planned[0])
        return planned[:2]

    async def get(self, path: str, query: Mapping[str, str] = {}, *, timeout: float | None = None) -> bytes:  # noqa: ARG002
        plural, namespace = self._begin(path, query)
        token = query.get("continue", "")
        fault, _ = self._fault(frozenset({Fault.EXPIRE, Fault.UNAVAILABLE} if token else {Fault.UNAVAILABLE}), plural)
        if fault is Fault.UNAVAILABLE:
            _refuse(503, path)
        if fault is Fault.EXPIRE:
            self._lists.clear()
        if token and token not in self._lists:
            _refuse(410, path)
        version, rest = self._lists.pop(token) if token else (self.version, self._listed(plural, namespace))
        limit = int(query.get("limit", "0"))
        size = min(limit, self.page or limit) or len(rest)
        metadata = {"resourceVersion": str(version)}
        if rest[size:]:
            metadata["continue"] = f"{version}-{plural}-{len(rest) - size}-{len(self._lists)}"
            self._lists[metadata["continue"]] = (version, rest[size:])
        await asyncio.sleep(0)
        # An empty list in Go is null.
        return json.dumps({"kind": "List", "metadata": metadata, "items": rest[:size] or None}).encode()

    def stream(
        self,
        path: str,
        query: Mapping[str, str],
        *,
        idle: float,  # noqa: ARG002
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._stream(path, query)

    @asynccontextmanager
    async def _stream(self, path: str, query: Mapping[str, str]) -> AsyncIterator[AsyncIterator[bytes]]:
        plural, namespace = self._begin(path, query)
        is_list = query.get("sendInitialEvents") == "true"
        if is_list and not self.streams_lists:
            _refuse(422, path)
        since = int(query.get("resourceVersion", "0"))
        fault, after = self._fault(WATCH_FAULTS, plural)
        if fault is Fault.GONE or (since < self.compacted and not is_list):
            _refuse(410, path)
        if fault is Fault.UNAVAILABLE:
            _refuse(503, path)
        first: list[bytes] = []
        if is_list:
            since = self.version
            first = [_line("ADDED", obj) for obj in self._listed(plural, namespace)]
            first.append(_bookmark(plural, since, {"k8s.io/initial-events-end": "true"}))
        yield self._lines(plural, namespace, first, since, fault, after)

    async def _lines(
        self, plural: str, namespace: str, lines: list[bytes], since: int, fault: Fault | None, after: int
    ) -> AsyncIterator[bytes]:
        position = next((i for i, change in enumerate(self.history) if change.version > since), len(self.history))
        while True:
            for line in lines:
                if fault is not None and after <= 0:
                    if fault is Fault.DROP:
                        raise Unreachable("dropped")
                    return
                after -= 1
                yield line
                await asyncio.sleep(0)
            if fault is None:
                fault, after = self._fault(WATCH_FAULTS - OPENING_FAULTS, plural)
            version, tick = self.version, self._tick
            if position == len(self.history):
                with suppress(TimeoutError):
                    await asyncio.wait_for(tick.wait(), self.bookmark_every)
            changes, position = self.history[position:], len(self.history)
            lines = [
                _line(change.type, change.object)
                for change in changes
                if change.plural == plural and namespace in ("", change.key[0])
            ]
            lines = lines if changes else [_bookmark(plural, version, {})]

    def _begin(self, path: str, query: Mapping[str, str]) -> tuple[str, str]:
        self.asked.append((path, dict(query)))
        parts = path.split("/")
        if status := self.refusals.get(parts[-1]):
            _refuse(status, path)
        if parts[-1] not in KINDS:
            _refuse(404, path)
        return parts[-1], parts[-2] if parts[-3] == "namespaces" else ""

    def _listed(self, plural: str, namespace: str) -> list[Object]:
        return [obj for key, obj in sorted(self.objects[plural].items()) if namespace in ("", key[0])]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        try:
            if request.query.get("watch") != "true":
                return web.Response(body=await self.get(request.path, request.query))
            async with self.stream(request.path, request.query, idle=0.0) as lines:
                await answer.prepare(request)
                async for line in lines:
                    await answer.write(line + b"\n")
        except ApiError as error:
            status = {"kind": "Status", "code": error.status, "reason": error.reason, "message": error.message}
            return web.json_response(status, status=error.status)
        except Unreachable:
            assert request.transport is not None
            request.transport.abort()
        return answer


def _refuse(status: int, path: str) -> NoReturn:
    reason = {403: "Forbidden", 404: "NotFound", 410: "Expired", 422: "Invalid", 503: "ServiceUnavailable"}[status]
    body = {"kind": "Status", "code": status, "reason": reason, "message": reason}
    raise api_error(status, json.dumps(body).encode(), path=path)


def _line(kind: str, obj: Object) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


def _bookmark(plural: str, version: int, annotations: dict[str, str]) -> bytes:
    metadata = {"resourceVersion": str(version), "annotations": annotations}
    return _line("BOOKMARK", {"kind": KINDS[plural][1], "metadata": metadata})
