"""Writes one object at a time to an API server, and reports what is known of a write that failed.

A write whose outcome is unknown is not sent again, except a deletion, which is idempotent. The transport retries writes
that were certainly not done: those that were not sent, and those that an overloaded server refused. `write_outcome`
classifies a failure for the caller, which decides what to do.

EndpointSlices and Leases are replaced whole (PUT) under the resourceVersion that they were made from. Fields of other
writers are not lost: `ObjectMeta` has finalizers, owners, labels and annotations, and an API server keeps managedFields
if an update has none. Measured on Kubernetes v1.36, one endpoint of 100 changed: a PUT costs the server 6.3 ms of CPU
for 28.9 KB; a merge patch, which has to send all endpoints too since they are one list, 12.7 ms for 28.4 KB; a JSON
patch of one index of the list 7.6 ms for 177 bytes. CPU time costs more than bytes.
"""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any, Final, Self, TypeVar

import msgspec

from zoneward.client.api_errors import (
    ApiError,
    CallFailed,
    Conflict,
    Forbidden,
    NotFound,
    ServerFault,
    TimedOut,
    TooManyRequests,
    UnexpectedResponse,
)
from zoneward.client.resources import ApiResource, LiveConfigMap, ObjectT
from zoneward.client.transport_interface import WriteTransport
from zoneward.kube.json_documents import DECODE_ERRORS, decode_json
from zoneward.kube.objects import Endpoints, EndpointSlice, Event, Lease, ObjectMeta, Service

TIME_LIMIT: Final = 5.0
"""Seconds for one write, retries of the transport included."""
_ENCODE: Final = msgspec.json.Encoder().encode
_QUERY: Final = {"fieldManager": "zoneward"}
"""The field manager that an API server records."""
_Got = TypeVar("_Got")
V = TypeVar("V", Service, EndpointSlice, Lease, Event, Endpoints, LiveConfigMap)
"""The kinds that are written."""


class PatchType(StrEnum):
    MERGE = "application/merge-patch+json"
    """RFC 7386: lists are replaced whole, null removes a field."""
    STRATEGIC = "application/strategic-merge-patch+json"
    """Lists with a key, such as conditions by type, are merged: entries of other writers are kept."""
    APPLY = "application/apply-patch+yaml"
    """Server-side apply: creates the object, or replaces the fields that this writer applied before."""


class WriteOutcome(StrEnum):
    """What is known of a write that failed."""

    STALE = "stale"
    """Not done: the object has changed or was replaced. Read it again, and decide again."""
    EXISTS = "exists"
    """Not created: the name is taken, perhaps by an earlier attempt whose answer was lost."""
    MISSING = "missing"
    """Not done: the object or the namespace does not exist."""
    REFUSED = "refused"
    """Not done, and a retry would be refused too: not valid, or not allowed."""
    TERMINATING = "terminating"
    """Not created, and a retry does not help: the namespace is being deleted."""
    NOT_DONE = "not-done"
    """Not done; a retry may succeed: not sent, suspended, or refused by an overloaded server."""
    UNKNOWN = "unknown"
    """Perhaps done, or still in progress: read the object to find out."""


def write_outcome(error: CallFailed) -> WriteOutcome:
    """The outcome of the write that failed with this error; UNKNOWN if in doubt."""
    match error:
        case Conflict():
            return WriteOutcome.EXISTS if error.reason == "AlreadyExists" else WriteOutcome.STALE
        case NotFound():
            return WriteOutcome.MISSING
        case TooManyRequests():
            return WriteOutcome.NOT_DONE
        case ServerFault():
            return WriteOutcome.UNKNOWN
        case Forbidden(is_terminating=True):
            return WriteOutcome.TERMINATING
        case ApiError():
            return WriteOutcome.REFUSED
        case _:
            return WriteOutcome.UNKNOWN if error.sent else WriteOutcome.NOT_DONE


def encode_object(resource: ApiResource[ObjectT], obj: ObjectT) -> bytes:
    """The object as JSON for the API: kind and apiVersion first, and only fields that are set."""
    return b'{"kind":"%b","apiVersion":"%b",%b' % (resource.kind.encode(), resource.api.encode(), _ENCODE(obj)[1:])


class Writer:
    """All methods raise CallFailed; those that write raise WritesSuspended if ``may_write`` returns False.

    ``limit``: seconds that a call may take. ``may_write`` is called with ``limit`` before a write is sent, and returns
    whether a write that takes this long may begin.
    """

    def __init__(
        self,
        transport: WriteTransport,
        *,
        limit: float = TIME_LIMIT,
        may_write: Callable[[float], bool] = lambda _seconds: True,
    ) -> None:
        self._transport, self._limit, self._may_write = transport, limit, may_write
        self._no_retries = False

    def once(self) -> Self:
        """A writer whose writes the transport does not retry, for a caller that decides again after a failure.

        Otherwise the transport would resend a write that an overloaded server refused, even if it is stale by then.
        """
        other = copy.copy(self)
        other._no_retries = True  # noqa: SLF001 -- a copy of self
        return other

    async def read(self, resource: ApiResource[ObjectT], *, namespace: str, name: str) -> ObjectT:
        """The current object, not from a cache. It has a uid and a version, with which it can be written."""
        path = resource.path(namespace=namespace, name=name)
        body = await self._with_limit(self._transport.get(path, timeout=self._limit))
        obj = _decoded(body, resource.struct)
        metadata: ObjectMeta = obj.metadata  # type: ignore[attr-defined]
        if not (metadata.resource_version and metadata.uid):
            raise UnexpectedResponse(f"expected a {resource.kind} with uid and resourceVersion, got one without")
        return obj

    async def create(self, resource: ApiResource[V], obj: V) -> ObjectMeta:
        """The metadata of the new object. Raises Conflict (reason AlreadyExists) if the name is taken.

        Raises ValueError if ``obj`` has a version, so is not new.
        """
        if obj.metadata.resource_version:
            raise ValueError(
                f"expected a new {resource.kind} {obj.metadata.name}, got version {obj.metadata.resource_version}"
            )
        path = resource.path(namespace=obj.metadata.namespace)
        return _metadata(await self._send("POST", path, encode_object(resource, obj)))

    async def update(self, resource: ApiResource[V], obj: V) -> ObjectMeta:
        """Replace the version of the object that ``obj`` was made from. Returns the new metadata.

        Fields that ``obj`` does not have are removed. Raises Conflict if there is a newer version, or if ``obj`` has
        the uid of another object. Raises ValueError if ``obj`` has no version: it would replace any version.
        """
        if not obj.metadata.resource_version:
            raise ValueError(f"expected a version of {resource.kind} {obj.metadata.name} to replace, got none")
        path = resource.path(namespace=obj.metadata.namespace, name=obj.metadata.name)
        return _metadata(await self._send("PUT", path, encode_object(resource, obj)))

    async def dry_run_update(self, resource: ApiResource[V], obj: V) -> V:
        """The object as an API server would store it for `update`, without storing it."""
        path = resource.path(namespace=obj.metadata.namespace, name=obj.metadata.name)
        query = {**_QUERY, "dryRun": "All"}
        body = await self._send("PUT", path, encode_object(resource, obj), query=query, metadata_only=False)
        return _decoded(body, resource.struct)

    async def delete(self, resource: ApiResource[V], obj: V) -> None:
        """Delete the object with this uid and, if ``obj`` has one, version; otherwise raise Conflict.

        Does nothing if the object no longer exists. Raises ValueError if ``obj`` has no uid.
        """
        metadata = obj.metadata
        if not metadata.uid:
            raise ValueError(f"expected a uid of {resource.kind} {metadata.name} to delete, got none")
        preconditions = {"uid": metadata.uid}
        if metadata.resource_version:
            preconditions["resourceVersion"] = metadata.resource_version
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}
        path = resource.path(namespace=metadata.namespace, name=metadata.name)
        try:
            await self._send("DELETE", path, _ENCODE(body), query={}, idempotent=True, metadata_only=False)
        except NotFound:
            return

    async def patch(
        self,
        resource: ApiResource[V],
        change: Mapping[str, Any],
        *,
        namespace: str,
        name: str,
        version: str | None = None,
        form: PatchType = PatchType.MERGE,
        subresource: str = "",
    ) -> ObjectMeta:
        """Change some fields. Returns the new metadata. ``subresource``: ``status``, or empty.

        With a ``version``, raises Conflict if there is a newer one. Without, the change applies to any version.
        """
        if version is not None:
            change = {**change, "metadata": {**change.get("metadata", {}), "resourceVersion": version}}
        path = resource.path(namespace=namespace, name=name) + (f"/{subresource}" if subresource else "")
        return _metadata(await self._send("PATCH", path, _ENCODE(change), content_type=form.value))

    async def apply(self, resource: ApiResource[V], obj: V) -> ObjectMeta:
        """Create an object, or replace the fields that this writer applied before. Returns the new metadata."""
        path = resource.path(namespace=obj.metadata.namespace, name=obj.metadata.name)
        body = encode_object(resource, obj)
        query = {**_QUERY, "force": "true"}
        return _metadata(await self._send("PATCH", path, body, content_type=PatchType.APPLY.value, query=query))

    async def touch(self, resource: ApiResource[V], *, namespace: str, name: str) -> V:
        """Send an empty patch, so that the API server runs its admission policies. Returns the object afterwards.

        If no policy changes the object, the API server stores nothing.
        """
        path = resource.path(namespace=namespace, name=name)
        body = await self._send("PATCH", path, b"{}", content_type=PatchType.MERGE.value, metadata_only=False)
        return _decoded(body, resource.struct)

    async def _send(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
        idempotent: bool = False,
        metadata_only: bool = True,
    ) -> bytes:
        parameters = _QUERY if query is None else query
        return await self._with_limit(
            self._transport.send(
                method,
                path,
                body,
                content_type=content_type,
                query=parameters,
                idempotent=idempotent,
                once=self._no_retries,
                # The rest of the answer equals what was sent, and is not used.
                metadata_only=metadata_only,
                may_send=lambda: self._may_write(self._limit),
                timeout=self._limit,
            )
        )

    async def _with_limit(self, call: Awaitable[_Got]) -> _Got:
        # This limit includes the login, which the time limit of the transport excludes.
        try:
            async with asyncio.timeout(self._limit) as limit:
                return await call
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimedOut(f"no complete answer within {self._limit:.3g} s") from None


class _Answer(msgspec.Struct, frozen=True, gc=False):
    """The part of the answer to a write that is used; the rest equals what was sent."""

    metadata: ObjectMeta


def _metadata(body: bytes) -> ObjectMeta:
    metadata = _decoded(body, _Answer).metadata
    if not metadata.resource_version:
        raise UnexpectedResponse("expected the object that was written, got one without resourceVersion")
    return metadata


def _decoded(body: bytes, struct: type[ObjectT]) -> ObjectT:
    try:
        return decode_json(body, struct)
    except DECODE_ERRORS as error:
        raise UnexpectedResponse(f"expected an object, got something else: {error}") from None
