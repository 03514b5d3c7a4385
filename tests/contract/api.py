"""Requests to an API server as one user, without any of Zoneward's own client: that one is what is tested."""

import json
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlencode, urlsplit

import yaml

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
"""Seconds a request may take, and a watch may be silent."""


class ApiError(Exception):
    """An answer that is none of success: its code, and the Status that came with it."""

    def __init__(self, request: str, code: int, status: Object) -> None:
        self.code = code
        self.status = status
        self.reason = str(status.get("reason", ""))
        self.message = str(status.get("message", ""))
        super().__init__(f"{request}: {code} {self.reason}: {self.message}")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with any code."""

    code: int
    headers: Mapping[str, str]
    """By their names in lower case."""
    warnings: tuple[str, ...]
    """The text of each header ``Warning``."""
    body: bytes

    @property
    def object(self) -> Object:
        """Text that is no object becomes the ``message`` of one."""
        try:
            value = json.loads(self.body)
        except ValueError:
            value = None
        return value if isinstance(value, dict) else {"message": self.body.decode(errors="replace")}

    @property
    def refusal(self) -> tuple[int, str, str]:
        """Code, reason and message."""
        status = self.object
        return self.code, str(status.get("reason", "")), str(status.get("message", ""))

    @property
    def causes(self) -> list[tuple[str, str]]:
        """Field and message of each thing that is wrong."""
        return [(cause["field"], cause["message"]) for cause in self.object["details"]["causes"]]


class Watch:
    """The events of one watch, each as the server sent it. Reading raises TimeoutError when nothing comes for long."""

    def __init__(self, answer: HTTPResponse, connection: HTTPConnection) -> None:
        self._answer, self._connection = answer, connection
        self.headers: Mapping[str, str] = _headers(answer)

    def next(self) -> Object:
        """Raises EOFError when the server has ended it."""
        line = self._answer.readline()
        if not line:
            raise EOFError("the watch has ended")
        event: Object = json.loads(line)
        return event

    def take(self, count: int) -> list[tuple[str, str]]:
        """Type and name of the next ones."""
        return [type_and_name(self.next()) for _ in range(count)]

    def stop(self) -> None:
        """Wakes a thread that waits for the next one."""
        with suppress(OSError):
            self._connection.sock.shutdown(socket.SHUT_RDWR)

    def rest(self) -> list[Object]:
        """All until the server ends it."""
        return [json.loads(line) for line in iter(self._answer.readline, b"")]


def type_and_name(event: Object) -> tuple[str, str]:
    """Type and name; the name of a bookmark is empty."""
    return event["type"], event["object"]["metadata"].get("name", "")


@dataclass(frozen=True)
class Api:
    """An API server as one user sees it. Every call blocks; threads may share it."""

    address: str
    """May end with a path, which then begins all others."""
    token: str
    authority: Path | None = None
    """PEM of the certificates to trust; without it those of the machine, if any are needed."""

    @classmethod
    def of(cls, kubeconfig: Path) -> Self:
        """As the first user of a file."""
        content = yaml.safe_load(kubeconfig.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        authority = cluster.get("certificate-authority")
        return cls(cluster["server"], user["token"], Path(authority) if authority else None)

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = JSON,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """``body`` is sent as JSON, bytes as they are. Raises OSError when there is no answer."""
        url = f"{path}?{urlencode(query)}" if query else path
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = self.headers | ({} if data is None else {"Content-Type": content_type}) | dict(headers or {})
        answer, text = self._exchange(method, url, data, {name: value for name, value in sent.items() if value})
        warnings = tuple(map(_text, answer.headers.get_all("Warning", ())))
        return Answer(answer.status, _headers(answer), warnings, text)

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
        answer = self.send(method, path, body, content_type=content_type, query=query)
        if answer.code >= 400:
            raise ApiError(f"{method} {path}", answer.code, answer.object)
        return answer.object

    def get(self, path: str, **query: str) -> Object:
        return self.request("GET", path, query=query)

    @cached_property
    def minor(self) -> int:
        """Of the server's Kubernetes 1.x; some providers write it with a plus."""
        return int(str(self.get("/version")["minor"]).rstrip("+"))

    def read(self, obj: Object) -> Object:
        """As the server has it now."""
        return self.get(path_of(obj))

    def create(self, obj: Object) -> Object:
        """As the server has it afterwards. A Pod's and a Service's status, where there is one, is set as well."""
        created = self.request("POST", collection_of(obj), obj)
        status = _own_status(obj)
        return self.patch(created, {"status": status}, subresource="status") if status else created

    def replace(self, obj: Object, *, subresource: str = "", **query: str) -> Object:
        return self.request("PUT", path_of(obj, subresource), obj, query=query)

    def patch(
        self,
        obj: Object,
        patch: object,
        *,
        subresource: str = "",
        content_type: str = STRATEGIC_PATCH,
        **query: str,
    ) -> Object:
        """``thing`` names the object; its other fields do not count. Strategic: a list of conditions is merged."""
        path = path_of(obj, subresource)
        return self.request("PATCH", path, patch, content_type=content_type, query=query)

    def delete(self, obj: Object) -> Object:
        """At once: without a kubelet nobody would ever confirm that a pod has ended."""
        return self.request("DELETE", path_of(obj), query={"gracePeriodSeconds": "0"})

    @contextmanager
    def watch(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        patience: float = _LIMIT,
    ) -> Iterator[Watch]:
        """On a separate connection, closed at the end. Raises ApiError if it is refused."""
        connection = self._connection(patience)
        try:
            url = f"{path}?{urlencode({'watch': 'true', **(query or {})})}"
            connection.request("GET", self._prefix + url, headers=self.headers | dict(headers or {}))
            with connection.getresponse() as answer:
                if answer.status != 200:
                    raise ApiError(f"WATCH {path}", answer.status, json.loads(answer.read()))
                yield Watch(answer, connection)
        finally:
            connection.close()

    def create_all(self, things: Iterable[Object], *, in_flight: int = 16) -> None:
        """Namespaces, then nodes, then all others, many at a time. Raises ApiError with the first that fails."""
        ordered = list(things)
        stages: list[list[Object]] = [[obj for obj in ordered if obj["kind"] == kind] for kind in _STAGES]
        stages.append([obj for obj in ordered if obj["kind"] not in _STAGES])
        for stage in stages:
            in_threads(self.create, stage, in_flight=in_flight)

    @cached_property
    def headers(self) -> dict[str, str]:
        return ({"Authorization": f"Bearer {self.token}"} if self.token else {}) | {"Accept": JSON}

    def close(self) -> None:
        """The connection that this thread has kept."""
        self._kept.__dict__.clear()

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.authority)

    @cached_property
    def _prefix(self) -> str:
        return urlsplit(self.address).path.rstrip("/")

    @cached_property
    def _kept(self) -> threading.local:
        """One connection for each thread."""
        return threading.local()

    def _connection(self, patience: float = _LIMIT) -> HTTPConnection:
        # http.client asks no proxy: one that the machine has must not see what stays on it.
        parts = urlsplit(self.address)
        assert parts.hostname is not None
        if parts.scheme == "https":
            return HTTPSConnection(parts.hostname, parts.port, context=self._trust, timeout=patience)
        return HTTPConnection(parts.hostname, parts.port, timeout=patience)

    def _exchange(
        self, method: str, url: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[HTTPResponse, bytes]:
        is_kept = hasattr(self._kept, "it")
        if not is_kept:
            self._kept.it = _Kept(self._connection())
        connection: HTTPConnection = self._kept.it.connection
        try:
            connection.request(method, self._prefix + url, data, headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, HTTPException) as error:
            self.close()
            if is_kept and isinstance(error, ConnectionError | ssl.SSLEOFError):
                # The server has closed it meanwhile, as it may: without an answer nothing was done.
                return self._exchange(method, url, data, headers)
            raise error if isinstance(error, OSError) else ConnectionError(repr(error)) from error
        if answer.will_close:
            self.close()
        return answer, text


class _Kept:
    """A connection that is closed when nobody has it any more."""

    def __init__(self, connection: HTTPConnection) -> None:
        self.connection = connection

    def __del__(self) -> None:
        self.connection.close()


def in_threads(work: Callable[[Object], object], things: Iterable[Object], *, in_flight: int = 16) -> None:
    """Does the work for all of them, many at a time. Raises what the first that fails raises."""
    with ThreadPoolExecutor(in_flight) as threads:
        try:
            deque(threads.map(work, things), maxlen=0)
        finally:
            threads.shutdown(cancel_futures=True)


def collection_of(obj: Object) -> str:
    """The path of all objects of its kind in its namespace."""
    version, kind = str(obj["apiVersion"]), str(obj["kind"])
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    scope = "" if kind in _CLUSTER_WIDE else f"/namespaces/{obj['metadata'].get('namespace', 'default')}"
    return f"{root}{scope}/{'endpoints' if kind == 'Endpoints' else kind.lower() + 's'}"


def path_of(obj: Object, subresource: str = "") -> str:
    """The path of one object, or of a subresource of it."""
    parts = (collection_of(obj), obj["metadata"]["name"], subresource)
    return "/".join(part for part in parts if part)


def _own_status(obj: Object) -> Object | None:
    """The status that creating ignores: new objects of these kinds have an empty status."""
    return obj.get("status") if obj["kind"] in {"Pod", "Service"} else None


def _headers(answer: HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}


def _text(warning: str) -> str:
    """``299 - "unknown field \\"spec.size\\""``"""
    quoted = warning.split(" ", 2)[2]
    return quoted[1:-1].replace('\\"', '"')
