"""A client of an API server for benchmarks: many requests at once, and one watch of the slices."""

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import msgspec

from zoneward.kube.names import MANAGED_BY_LABEL
from zoneward.kube.objects import EndpointConditions, EndpointSlice

Object = dict[str, Any]
IN_FLIGHT: Final = 32
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_ENCODE: Final = msgspec.json.Encoder().encode
_PATIENCE: Final = 60.0
_UNKNOWN: Final = EndpointConditions()


class ApiServer:
    """Used as an async context manager. ``authority``: a file with the certificate to trust, for one with TLS."""

    def __init__(self, address: str, *, token: str | None = None, authority: Path | None = None) -> None:
        self._address = address
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._tls = ssl.create_default_context(cafile=str(authority)) if authority else True

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            headers=self._headers, connector=aiohttp.TCPConnector(limit=0, ssl=self._tls), read_bufsize=1 << 22
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def ask(self, method: str, path: str, body: object = None, *, form: str = "application/json") -> bytes:
        """Return the body of the response, which must be a success."""
        data = None if body is None else _ENCODE(body)
        headers = {} if body is None else {"Content-Type": form}
        async with self._session.request(method, self._address + path, data=data, headers=headers) as answer:
            body = await answer.read()
            if answer.status // 100 != 2:
                raise RuntimeError(f"{method} {path}: {answer.status}: {body[:400].decode(errors='replace')}")
            return body

    async def patch_status(self, path: str, status: Object) -> None:
        await self.ask("PATCH", f"{path}/status", {"status": status}, form=_STRATEGIC)

    async def all(self, works: Iterable[Callable[[], Awaitable[object]]]) -> None:
        """Run all requests, at most `IN_FLIGHT` at a time."""
        rest = iter(works)

        async def worker() -> None:
            for work in rest:
                await work()

        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(worker())

    def watch(self, path: str, version: str) -> Any:
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "3600"}
        timeout = aiohttp.ClientTimeout(total=None)
        return self._session.get(self._address + path, params=query, timeout=timeout)


class _SliceEvent(msgspec.Struct, gc=False):
    type: str
    object: EndpointSlice


_EVENTS: Final = msgspec.json.Decoder(_SliceEvent)


class SliceView:
    """The addresses that slices of ``manager`` in a namespace list over time; times are ``time.perf_counter``'s.

    Pods must have unique addresses.
    """

    def __init__(self, server: ApiServer, namespace: str, *, manager: str) -> None:
        self._server, self._manager = server, manager
        self.path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        self._slices: dict[str, dict[str, bool]] = {}
        self._counts: Counter[tuple[str, bool]] = Counter()
        self._awaited: dict[tuple[str, bool], asyncio.Future[float]] = {}
        self.writes = 0
        self.last = 0.0
        self.first_ready: dict[str, float] = {}
        """When an address was first listed as ready."""

    async def __aenter__(self) -> Self:
        listing = msgspec.json.decode(await self._server.ask("GET", self.path))
        version = listing["metadata"]["resourceVersion"]
        for item in listing["items"]:
            self._take("ADDED", msgspec.convert(item, EndpointSlice), time.perf_counter())
        self.writes = 0
        self._task = asyncio.create_task(self._watch(version))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    def ready(self) -> set[str]:
        return {address for (address, ready), count in self._counts.items() if ready and count}

    def listed(self) -> set[str]:
        return {address for (address, _), count in self._counts.items() if count}

    def awaited(self, address: str, *, ready: bool) -> asyncio.Future[float]:
        """The time at which an address is next listed with this readiness."""
        seen = self._awaited[address, ready] = asyncio.get_running_loop().create_future()
        return seen

    async def until(self, listed: set[str]) -> float:
        """Wait until exactly these addresses are listed as ready, and return the time of the last event."""
        limit = time.perf_counter() + _PATIENCE
        while self.ready() != listed:
            if self._task.done():
                self._task.result()
            if time.perf_counter() > limit:
                missing, more = listed - self.ready(), self.ready() - listed
                raise RuntimeError(f"after {_PATIENCE:g} s {len(missing)} addresses are missing, {len(more)} too many")
            await asyncio.sleep(0.05)
        return self.last

    async def _watch(self, version: str) -> None:
        rest = b""
        async with self._server.watch(self.path, version) as answer:
            async for block in answer.content.iter_any():
                now = time.perf_counter()
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    event = _EVENTS.decode(line)
                    self._take(event.type, event.object, now)
        raise RuntimeError("the watch of slices ended")

    def _take(self, kind: str, slice_: EndpointSlice, now: float) -> None:
        metadata = slice_.metadata
        if (metadata.labels or {}).get(MANAGED_BY_LABEL) != self._manager:
            return
        self.writes += 1
        self.last = now
        for address, ready in self._slices.pop(metadata.name, {}).items():
            self._counts[address, ready] -= 1
        if kind == "DELETED":
            return
        now_listed = {
            endpoint.addresses[0]: (endpoint.conditions or _UNKNOWN).ready is not False
            for endpoint in slice_.endpoints or ()
            if endpoint.addresses
        }
        self._slices[metadata.name] = now_listed
        for address, ready in now_listed.items():
            self._counts[address, ready] += 1
            if ready:
                self.first_ready.setdefault(address, now)
            if seen := self._awaited.pop((address, ready), None):
                seen.set_result(now)
