"""Writes one object at a time to an API server, and reports what is known of a write that failed.

A write whose outcome is unknown is not sent again, but for deletions, which may be done twice. The transport retries
what certainly was not done: what never left, and what the server refused for its load. `write_outcome` tells the caller
what a failure means; the caller decides what to do.

EndpointSlices and Leases are replaced as wholes (PUT) under the resourceVersion that they were made from. Nothing of
others is lost by it: `ObjectMeta` has finalizers, owners, labels and annotations, and an API server keeps managedFields
where an update has none. Measured on Kubernetes v1.36, one endpoint of 100 changed: a PUT costs the server 6.3 ms of
CPU for 28.9 KB; a merge patch, which has to send all endpoints too since they are one list, 12.7 ms for 28.4 KB; a JSON
patch of one place in the list 7.6 ms for 177 bytes. Bytes are cheaper than that.
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
"""Seconds for one write, with what the transport does to get it through."""
_ENCODE: Final = msgspec.json.Encoder().encode
_Got = TypeVar("_Got")
V = TypeVar("V", Service, EndpointSlice, Lease, Event, Endpoints, LiveConfigMap)
"""What is written."""


class PatchType(StrEnum):
    MERGE = "application/merge-patch+json"
    """RFC 7386: lists are replaced as wholes, null takes a field away."""
    STRATEGIC = "application/strategic-merge-patch+json"
    """Lists with a key, such as conditions by their type, are merged: entries of others stay."""
    APPLY = "application/apply-patch+yaml"
    """Server-side apply: the object is created, or the fields that this writer applied before become these."""


class WriteOutcome(StrEnum):
    """What is known of a write that failed."""

    STALE = "stale"
    """Not done: the object is no longer the one that was meant. Read it again, and decide again."""
    EXISTS = "exists"
    """Not created: the name is taken; by ourselves, where an earlier answer was lost."""
    MISSING = "missing"
    """Not done: there is no such object, or no such namespace."""
    REFUSED = "refused"
    """Not done, and the same again will be refused again: not valid, or not allowed."""
    TERMINATING = "terminating"
    """Not created, and it never will be: the namespace is being deleted."""
    NOT_DONE = "not-done"
    """Not done; the same may succeed later: not sent, withheld, or refused for its load."""
    UNKNOWN = "unknown"
    """Done or not, or about to be: only reading the object shows."""


def write_outcome(error: CallFailed) -> WriteOutcome:
    """What an error says about the write; UNKNOWN where in doubt."""
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
    """Encode an object for the API: its kind and version first, and only fields that are set."""
    return b'{"kind":"%b","apiVersion":"%b",%b' % (resource.kind.encode(), resource.api.encode(), _ENCODE(obj)[1:])


class Writer:
    """All methods raise CallFailed; those that write raise WritesSuspended where ``may_write`` says no.

    ``limit``: seconds that a call may take. ``may_write`` is asked when a write is about to leave whether one that
    takes as long as that may still begin. ``manager``: the name under which an API server notes who wrote which field.
    """

    def __init__(
        self,
        transport: WriteTransport,
        *,
        limit: float = TIME_LIMIT,
        may_write: Callable[[float], bool] = lambda _seconds: True,
        manager: str = "zoneward",
    ) -> None:
        self._transport, self._limit, self._may_write = transport, limit, may_write
        self._query: Final = {"fieldManager": manager}
        self._no_retries = False

    def once(self) -> Self:
        """A writer whose writes the transport does not retry, for a caller that decides again after a failure.

        Otherwise a write that was refused for its load would be sent again as it was, whatever happened meanwhile.
        """
        other = copy.copy(self)
        other._no_retries = True  # noqa: SLF001 -- ours
        return other

    async def read(self, resource: ApiResource[ObjectT], *, namespace: str, name: str) -> ObjectT:
        """An object as it is at this moment, past any cache. It has a uid and a version, by which it can be written."""
        path = resource.path(namespace=namespace, name=name)
        body = await self._with_limit(self._transport.get(path, timeout=self._limit))
        obj = _decoded(body, resource.struct)
        metadata: ObjectMeta = obj.metadata  # type: ignore[attr-defined]
        if not (metadata.resource_version and metadata.uid):
            raise UnexpectedResponse(f"expected a {resource.kind} with uid and resourceVersion, got one without")
        return obj

    async def create(self, resource: ApiResource[V], obj: V) -> ObjectMeta:
        """The metadata that the new object has. Conflict (reason AlreadyExists) where the name is taken.

        Raises ValueError for a ``obj`` with a version, which is not new.
        """
        if obj.metadata.resource_version:
            raise ValueError(
                f"expected a new {resource.kind} {obj.metadata.name}, got version {obj.metadata.resource_version}"
            )
        path = resource.path(namespace=obj.metadata.namespace)
        return _metadata(await self._send("POST", path, encode_object(resource, obj)))

    async def update(self, resource: ApiResource[V], obj: V) -> ObjectMeta:
        """Replace the version of the object that ``obj`` was made from; its metadata thereafter.

        All that ``obj`` does not have goes. Conflict where there is a newer version, or where ``obj`` has the uid
        of another object. Raises ValueError for a ``obj`` without version: it would replace any.
        """
        if not obj.metadata.resource_version:
            raise ValueError(f"expected a version of {resource.kind} {obj.metadata.name} to replace, got none")
        path = resource.path(namespace=obj.metadata.namespace, name=obj.metadata.name)
        return _metadata(await self._send("PUT", path, encode_object(resource, obj)))

    async def dry_run_update(self, resource: ApiResource[V], obj: V) -> V:
        """The object as an API server would store it in place of the version that ``obj`` was made from."""
        path = resource.path(namespace=obj.metadata.namespace, name=obj.metadata.name)
        query = {**self._query, "dryRun": "All"}
        body = await self._send("PUT", path, encode_object(resource, obj), query=query, metadata_only=False)
        return _decoded(body, resource.struct)

    async def delete(self, resource: ApiResource[V], obj: V) -> None:
        """Delete exactly this: the same uid and, where it has one, version, or else Conflict. Gone already is well.

        Raises ValueError for a ``obj`` without uid.
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
        """Change some fields; the metadata thereafter. ``subresource``: ``status``, or none.

        With a ``version``, Conflict where there is a newer one. Without, the change is made to whatever is there.
        """
        if version is not None:
            change = {**change, "metadata": {**change.get("metadata", {}), "resourceVersion": version}}
        path = resource.path(namespace=namespace, name=name) + (f"/{subresource}" if subresource else "")
        return _metadata(await self._send("PATCH", path, _ENCODE(change), content_type=form.value))

    async def apply(self, resource: ApiResource[V], obj: V) -> ObjectMeta:
        """Create an object, or replace the fields of it that this writer applied before; the metadata thereafter."""
        path = resource.path(namespace=obj.metadata.namespace, name=obj.metadata.name)
        body = encode_object(resource, obj)
        query = {**self._query, "force": "true"}
        return _metadata(await self._send("PATCH", path, body, content_type=PatchType.APPLY.value, query=query))

    async def touch(self, resource: ApiResource[V], *, namespace: str, name: str) -> V:
        """Send a patch without any change, so that the API server runs its admission policies; the object thereafter.

        Without an effect of a policy, the API server stores nothing.
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
        parameters = self._query if query is None else query
        return await self._with_limit(
            self._transport.send(
                method,
                path,
                body,
                content_type=content_type,
                query=parameters,
                idempotent=idempotent,
                once=self._no_retries,
                # Of the rest, which was sent, nothing is read.
                metadata_only=metadata_only,
                may_send=lambda: self._may_write(self._limit),
                timeout=self._limit,
            )
        )

    async def _with_limit(self, call: Awaitable[_Got]) -> _Got:
        # Around everything, also around logging in, which the transport does not count.
        try:
            async with asyncio.timeout(self._limit) as limit:
                return await call
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimedOut(f"no complete answer within {self._limit:.3g} s") from None


class _Answer(msgspec.Struct, frozen=True, gc=False):
    """The part of the answer to a write that is read; the rest is what was sent."""

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
