"""Requests to an API server as one user, without any of Zoneward's own client: that one is what is tested."""

import asyncio
import json
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

import aiohttp

Object = dict[str, Any]

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_CLUSTER_WIDE: Final = frozenset({"Namespace", "Node", "ClusterRole", "ClusterRoleBinding"})
_STAGES: Final = ("Namespace", "Node")
"""What must exist before all others: pods take over their node's zone."""
_LIMIT: Final = 30.0
"""Seconds a request may take."""


class ApiError(Exception):
    """An answer that is none of success: its code, and the Status that came with it."""

    def __init__(self, request: str, code: int, status: Object) -> None:
        self.code = code
        self.status = status
        self.reason = str(status.get("reason", ""))
        self.message = str(status.get("message", ""))
        super().__init__(f"{request}: {code} {self.reason}: {self.message}")


@dataclass(frozen=True)
class Api:
    """An API server as one user sees it. Every call blocks, except ``create_all_async``."""

    address: str
    token: str
    authority: Path | None = None
    """PEM of the certificates to trust; without it those of the machine, if any are needed."""

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> Object:
        """The object that the answer holds. Raises ApiError with any other answer than success."""
        url = f"{self.address}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {**self.headers, "Content-Type": content_type}
        data = None if body is None else json.dumps(body).encode()
        try:
            with self._opener.open(Request(url, data, headers, method=method), timeout=_LIMIT) as answer:
                text = answer.read()
        except HTTPError as error:
            with error:
                raise ApiError(f"{method} {path}", error.code, _status(error.read())) from None
        return _status(text)

    def get(self, path: str, **query: str) -> Object:
        return self.request("GET", path, query=query)

    def create(self, thing: Object) -> Object:
        """As the server has it afterwards. A Node's and a Pod's status, where there is one, is set as well."""
        created = self.request("POST", collection_of(thing), thing)
        status = _own_status(thing)
        return self.patch(created, {"status": status}, subresource="status") if status else created

    def replace(self, thing: Object, *, subresource: str = "") -> Object:
        return self.request("PUT", _path_of(thing, subresource), thing)

    def patch(
        self, thing: Object, patch: object, *, subresource: str = "", content_type: str = STRATEGIC_PATCH
    ) -> Object:
        """``thing`` names the object; its other fields do not count. Strategic: a list of conditions is merged."""
        return self.request("PATCH", _path_of(thing, subresource), patch, content_type=content_type)

    def delete(self, thing: Object) -> Object:
        """At once: without a kubelet nobody would ever confirm that a pod has ended."""
        return self.request("DELETE", _path_of(thing), query={"gracePeriodSeconds": "0"})

    def create_all(self, things: Iterable[Object], *, in_flight: int = 32) -> None:
        """Namespaces, then nodes, then all others, many at a time. Raises ApiError with the first that fails."""
        asyncio.run(self.create_all_async(things, in_flight=in_flight))

    async def create_all_async(self, things: Iterable[Object], *, in_flight: int = 32) -> None:
        """What ``create_all`` does, for callers that have a loop."""
        ordered = list(things)
        stages: list[list[Object]] = [[thing for thing in ordered if thing["kind"] == kind] for kind in _STAGES]
        stages.append([thing for thing in ordered if thing["kind"] not in _STAGES])
        connector = aiohttp.TCPConnector(limit=in_flight, ssl=self._trust)
        time_limit = aiohttp.ClientTimeout(total=_LIMIT)
        async with aiohttp.ClientSession(headers=self.headers, connector=connector, timeout=time_limit) as session:
            for stage in stages:
                rest = iter(stage)
                try:
                    async with asyncio.TaskGroup() as workers:
                        for _ in range(min(in_flight, len(stage))):
                            workers.create_task(self._create_rest(session, rest))
                except ExceptionGroup as failed:
                    raise failed.exceptions[0] from None

    async def _create_rest(self, session: aiohttp.ClientSession, rest: Iterable[Object]) -> None:
        for thing in rest:
            await self._send(session, "POST", collection_of(thing), thing, JSON)
            if status := _own_status(thing):
                path = _path_of(thing, "status")
                await self._send(session, "PATCH", path, {"status": status}, STRATEGIC_PATCH)

    async def _send(
        self, session: aiohttp.ClientSession, method: str, path: str, body: Object, content_type: str
    ) -> None:
        data = json.dumps(body).encode()
        async with session.request(
            method, self.address + path, data=data, headers={"Content-Type": content_type}
        ) as answer:
            text = await answer.read()
            if answer.status >= 400:
                raise ApiError(f"{method} {path}", answer.status, _status(text))

    @cached_property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Accept": JSON}

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.authority)

    @cached_property
    def _opener(self) -> Any:  # typeshed has no words for what an opener's open() gives
        # A proxy that the machine asks for must not see what stays on it.
        return build_opener(ProxyHandler({}), HTTPSHandler(context=self._trust))


def collection_of(thing: Object) -> str:
    """The path of all objects of its kind in its namespace."""
    version, kind = str(thing["apiVersion"]), str(thing["kind"])
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    scope = "" if kind in _CLUSTER_WIDE else f"/namespaces/{thing['metadata'].get('namespace', 'default')}"
    return f"{root}{scope}/{'endpoints' if kind == 'Endpoints' else kind.lower() + 's'}"


def _path_of(thing: Object, subresource: str = "") -> str:
    parts: Sequence[str] = (collection_of(thing), thing["metadata"]["name"], subresource)
    return "/".join(part for part in parts if part)


def _own_status(thing: Object) -> Object | None:
    """What creating ignores: a new object of these kinds has an empty status, whatever was sent."""
    return thing.get("status") if thing["kind"] in {"Node", "Pod", "Service"} else None


def _status(text: bytes) -> Object:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"message": text.decode(errors="replace")}
