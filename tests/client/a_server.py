"""An API server as far as lists and watches see one, with all that can go wrong on demand.

A versioned store of Services, Nodes, Pods and EndpointSlices with a history; lists in pages whose tokens expire,
watches with bookmarks, streaming lists. `Fault` names what goes wrong; the next request that can have it, has it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple, Self

from aiohttp import web

from zoneward.client.auth.client_config import ClientConfig, ClusterInfo, UserInfo
from zoneward.client.transport import RetryPolicy, Transport

Object = dict[str, Any]
ObjectKey = tuple[str, str]
KINDS = {
    "pods": ("v1", "Pod"),
    "nodes": ("v1", "Node"),
    "services": ("v1", "Service"),
    "endpointslices": ("discovery.k8s.io/v1", "EndpointSlice"),
}


class Fault(Enum):
    """What a request meets; a watch, after a few events or bookmarks."""

    DROP = auto()  # the connection breaks
    CUT = auto()  # the connection breaks in the middle of an event
    END = auto()  # the server ends the watch as if its time were over
    GONE = auto()  # 410 at once
    GONE_EVENT = auto()  # an ERROR event that says 410
    ERROR_EVENT = auto()  # an ERROR event that says 500
    REPEAT = auto()  # events that came before the version asked for come as well
    NONSENSE = auto()  # a line that is no event
    UNAVAILABLE = auto()  # 503 at once
    EXPIRE = auto()  # a list's continue token is not known any more


LIST_FAULTS = frozenset({Fault.EXPIRE, Fault.UNAVAILABLE})
WATCH_FAULTS = frozenset(Fault) - {Fault.EXPIRE}
OPENING_FAULTS = frozenset({Fault.GONE, Fault.UNAVAILABLE, Fault.REPEAT})
"""Of a watch that begins. All others can meet one that goes on as well."""


class Change(NamedTuple):
    version: int
    plural: str
    type: str
    key: ObjectKey
    object: Object


class Planned(NamedTuple):
    fault: Fault
    after: int
    """Events of a watch, or pages of a list."""


@dataclass
class AServer(AbstractAsyncContextManager["AServer"]):
    streams_lists: bool = True
    page: int | None = None
    """Pages are no larger than this, whatever is asked for."""
    bookmark_every: float = 0.03
    history: list[Change] = field(default_factory=list)
    objects: dict[str, dict[ObjectKey, Object]] = field(default_factory=lambda: {plural: {} for plural in KINDS})
    faults: list[Planned] = field(default_factory=list)
    met: list[Fault] = field(default_factory=list)
    version: int = 100
    compacted: int = 0
    """Versions before this one are forgotten."""
    address: str = ""
    refusals: dict[str, int] = field(default_factory=dict)
    """Status with which all requests for a kind are refused."""
    _lists: dict[str, tuple[int, list[Object]]] = field(default_factory=dict)
    _tick: asyncio.Event = field(default_factory=asyncio.Event)
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> "AServer":
        application = web.Application()
        for prefix in ("/api/v1", "/apis/discovery.k8s.io/v1"):
            application.router.add_get(prefix + "/{plural}", self._answer)
            application.router.add_get(prefix + "/namespaces/{namespace}/{plural}", self._answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.address = "http://{}:{}".format(*self._runner.addresses[0][:2])
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        self._note()
        await self._runner.cleanup()

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

    def compact(self) -> None:
        """Forget the history so far, as etcd does every five minutes; tokens of lists go with it."""
        self.compacted = self.version
        self._lists.clear()

    def plan(self, fault: Fault, *, after: int = 0) -> None:
        self.faults.append(Planned(fault, after))

    def _change(self, plural: str, kind: str, key: ObjectKey, thing: Object) -> None:
        self.version += 1
        self.history.append(Change(self.version, plural, kind, key, thing))
        self._note()

    def _note(self) -> None:
        self._tick.set()
        self._tick = asyncio.Event()

    def _fault(self, possible: frozenset[Fault]) -> Planned | None:
        planned = next((each for each in self.faults if each.fault in possible), None)
        if planned:
            self.faults.remove(planned)
            self.met.append(planned.fault)
        return planned

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        plural, namespace = request.match_info["plural"], request.match_info.get("namespace", "")
        if plural in self.refusals:
            return _status(self.refusals[plural], "Forbidden")
        if request.query.get("watch") == "true":
            return await self._watch(request, plural, namespace)
        return self._list(request, plural, namespace)

    def _list(self, request: web.Request, plural: str, namespace: str) -> web.StreamResponse:
        token = request.query.get("continue", "")
        planned = self._fault(LIST_FAULTS if token else frozenset({Fault.UNAVAILABLE}))
        if planned and planned.fault is Fault.UNAVAILABLE:
            return _status(503, "ServiceUnavailable")
        if planned:
            self._lists.clear()
        if token and token not in self._lists:
            return _status(410, "Expired")
        things = [thing for key, thing in sorted(self.objects[plural].items()) if namespace in ("", key[0])]
        version, rest = self._lists.pop(token) if token else (self.version, things)
        limit = int(request.query.get("limit", "0"))
        size = min(limit, self.page or limit) or len(rest)
        metadata = {"resourceVersion": str(version)}
        if rest[size:]:
            metadata["continue"] = f"{version}-{plural}-{len(rest) - size}-{len(self._lists)}"
            self._lists[metadata["continue"]] = (version, rest[size:])
        # An empty list in Go is null.
        return web.json_response({"kind": "List", "metadata": metadata, "items": rest[:size] or None})

    async def _watch(self, request: web.Request, plural: str, namespace: str) -> web.StreamResponse:
        query = request.query
        is_list = query.get("sendInitialEvents") == "true"
        if is_list and not self.streams_lists:
            return _status(422, "Invalid")
        since = int(query.get("resourceVersion", "0"))
        planned = self._fault(WATCH_FAULTS)
        fault, after = planned or (None, 0)
        if fault is Fault.GONE or (since < self.compacted and not is_list):
            return _status(410, "Expired")
        if fault is Fault.UNAVAILABLE:
            return _status(503, "ServiceUnavailable")
        answer = web.StreamResponse()
        await answer.prepare(request)
        sender = _Sender(request, answer, fault, after)
        if is_list:
            since = self.version
            for key, thing in sorted(self.objects[plural].items()):
                if namespace in ("", key[0]):
                    await sender.send("ADDED", thing)
            await sender.bookmark(plural, since, {"k8s.io/initial-events-end": "true"})
        elif fault is Fault.REPEAT:
            since = max(0, since - 20)
        end = asyncio.get_running_loop().time() + float(query["timeoutSeconds"])
        position = next((i for i, change in enumerate(self.history) if change.version > since), len(self.history))
        while not sender.is_over and asyncio.get_running_loop().time() < end:
            if sender.is_sound and (planned := self._fault(WATCH_FAULTS - OPENING_FAULTS)):
                sender.expect(planned)
            for change in self.history[position:]:
                if change.plural == plural and namespace in ("", change.key[0]):
                    await sender.send(change.type, change.object)
                position += 1
            version, tick = self.version, self._tick
            try:
                await asyncio.wait_for(tick.wait(), self.bookmark_every)
            except TimeoutError:
                await sender.bookmark(plural, version, {})
        return answer


class _Sender:
    """Lines of one watch, until its fault."""

    def __init__(self, request: web.Request, answer: web.StreamResponse, fault: Fault | None, after: int) -> None:
        self._request, self._answer, self._fault, self._left = request, answer, fault, after
        self.is_over = False

    @property
    def is_sound(self) -> bool:
        return self._fault in (None, Fault.REPEAT)

    def expect(self, planned: Planned) -> None:
        self._fault, self._left = planned

    async def send(self, kind: str, thing: Object) -> None:
        if self.is_over:
            return
        line = json.dumps({"type": kind, "object": thing}).encode() + b"\n"
        if self.is_sound or self._left > 0:
            self._left -= 1
            await self._write(line)
            return
        match self._fault:
            case Fault.CUT:
                await self._write(line[: len(line) // 2])
            case Fault.GONE_EVENT:
                await self._write(_error_event(410, "Expired"))
            case Fault.ERROR_EVENT:
                await self._write(_error_event(500, "InternalError"))
            case Fault.NONSENSE:
                await self._write(b'{"type": "ADDED", "object": []}\n')
        if self._fault in (Fault.CUT, Fault.DROP) and self._request.transport is not None:
            self._request.transport.abort()
        self.is_over = True

    async def bookmark(self, plural: str, version: int, annotations: dict[str, str]) -> None:
        metadata = {"resourceVersion": str(version), "annotations": annotations}
        await self.send("BOOKMARK", {"kind": KINDS[plural][1], "metadata": metadata})

    async def _write(self, line: bytes) -> None:
        try:
            await self._answer.write(line)
        except ConnectionError:
            self.is_over = True


def _body(code: int, reason: str) -> Object:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason, "metadata": {}}


def _status(code: int, reason: str) -> web.Response:
    return web.json_response(_body(code, reason), status=code)


def _error_event(code: int, reason: str) -> bytes:
    return json.dumps({"type": "ERROR", "object": _body(code, reason)}).encode() + b"\n"


class AClient(Transport):
    """A connection that tries nothing again, and the paths and queries of its requests."""

    def __init__(self, address: str) -> None:
        access = ClientConfig(cluster=ClusterInfo(server=address), user=UserInfo())
        super().__init__(access, retries=RetryPolicy(attempts=1), is_terminal=False)
        self.asked: list[tuple[str, dict[str, str]]] = []

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    async def get(self, path: str, query: Mapping[str, str] = {}, *, timeout: float | None = None) -> bytes:
        self.asked.append((path, dict(query)))
        return await super().get(path, query, timeout=timeout)

    def stream(
        self, path: str, query: Mapping[str, str], *, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        self.asked.append((path, dict(query)))
        return super().stream(path, query, idle=idle)
