"""Requests: the object of the path, the form of the answer, the body, the options."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, get_args

import msgspec
from aiohttp import web

from zoneward.sandbox.server.kinds import Kind, Object
from zoneward.sandbox.server.list_watch import parse_number
from zoneward.sandbox.server.resource_registry import DeleteOptions
from zoneward.sandbox.server.schema import Validation, decode
from zoneward.sandbox.server.status_errors import StatusError, bad_request, unsupported

# --- the path ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """A kind; with a name one object, and perhaps a part of it."""

    kind: Kind
    namespace: str = ""
    """Empty: of all namespaces, or of a kind without them."""
    name: str = ""
    subresource: str = ""


class ResourcePaths:
    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds = {(kind.api, kind.plural): kind for kind in kinds}

    def route(self, path: str) -> ResourcePath | None:
        """None for a path that is about no objects of a known kind."""
        parts = path.strip("/").split("/")
        if parts[0] == "api" and len(parts) > 2:
            api, rest = parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            api, rest = f"{parts[1]}/{parts[2]}", parts[3:]
        else:
            return None
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and (api, rest[2]) in self._kinds:
            namespace, rest = rest[1], rest[2:]
        kind = self._kinds.get((api, rest[0]))
        if kind is None or len(rest) > 3 or not all(rest) or (bool(namespace) and not kind.is_namespaced):
            return None
        name, subresource = (*rest[1:], "", "")[:2]
        if name and kind.is_namespaced and not namespace:
            return None
        if subresource and not (subresource == "status" and kind.has_status):
            return None
        return ResourcePath(kind, namespace, name, subresource)


# --- the form of the answer -------------------------------------------------------------------------------------------

JSON: Final = "application/json"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
Shape = Literal["", "Table", "PartialObjectMetadata"]
"""Empty for the object, or a form of ``meta.k8s.io/v1``."""


def answer_shape(accept: str) -> Shape:
    """The first form of an ``Accept`` header that the server has. Raises StatusError."""
    if accept in ("", "*/*", JSON):
        return ""
    for part in accept.split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        values = dict(parameter.partition("=")[::2] for parameter in parameters)
        shape = values.get("as", "")
        is_known = shape in get_args(Shape) and (values.get("g"), values.get("v")) == ("meta.k8s.io", "v1")
        if name in (JSON, "*/*", "application/*") and (is_known or not shape):
            return cast(Shape, shape)
    if _PROTOBUF in accept:
        raise unsupported(406, "NotAcceptable", "answers in protobuf", f"accept {JSON}")
    raise StatusError(406, "NotAcceptable", f"only the following media types are accepted: {JSON}", details={})


# --- the body ---------------------------------------------------------------------------------------------------------

LIMIT: Final = 3 * 1024 * 1024
"""Bytes of a body, as kube-apiserver."""


async def read_body(request: web.BaseRequest) -> bytes:
    """Raises StatusError where it is too long."""
    body = bytearray()
    is_long = (request.content_length or 0) > LIMIT
    while not is_long and (block := await request.content.readany()):
        body += block
        is_long = len(body) > LIMIT
    if is_long:
        raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {LIMIT}")
    return bytes(body)


def content_type_of(request: web.BaseRequest) -> str:
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def decode_object(
    body: bytes, content_type: str, kind: Kind, *, validation: Validation = "Warn"
) -> tuple[Object, list[str]]:
    """An object of a kind, and warnings about it. Raises StatusError."""
    if content_type == _PROTOBUF and kind.kind == "Namespace" and (name := _name_in_protobuf(body)):
        return decode({"metadata": {"name": name}}, kind)
    return decode(_decode_value(body, content_type), kind, validation=validation)


def decode_json(body: bytes) -> Any:
    """Raises StatusError."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"the body is not valid JSON: {error}") from None


def _decode_value(body: bytes, content_type: str) -> Any:
    if content_type in ("", "*/*", JSON):
        return decode_json(body)
    if content_type == _PROTOBUF:
        instead = "send JSON, as kubectl create -f does"
        raise unsupported(415, "UnsupportedMediaType", "bodies in protobuf", instead)
    message = f"the body of the request was in an unknown format - accepted media types include: {JSON}"
    raise StatusError(415, "UnsupportedMediaType", message, details={})


def _name_in_protobuf(body: bytes) -> str:
    """The name of the Namespace that ``kubectl create namespace`` sends, always in protobuf; empty for other bodies.

    The object is field 2 of the envelope, its metadata field 1 of that, the name field 1 of that.
    """
    if not body.startswith(b"k8s\0"):
        return ""
    try:
        raw = dict(_protobuf_fields(body[4:]))[2]
        return str(dict(_protobuf_fields(dict(_protobuf_fields(raw))[1]))[1], "utf-8")
    except (KeyError, IndexError, UnicodeDecodeError):
        return ""


def _protobuf_fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and value of each field that has a length. Stops at any other."""
    at = 0
    while at < len(message):
        tag, length = message[at], message[at + 1]
        at += 2
        if tag & 7 != 2 or tag & 0x80:
            return
        if length & 0x80:
            length, at = length & 0x7F | message[at] << 7, at + 1
        yield tag >> 3, message[at : at + length]
        at += length


# --- options ----------------------------------------------------------------------------------------------------------


def deletion_options(query: Mapping[str, str], body: bytes, content_type: str) -> DeleteOptions:
    """From the body, or from the query without one. Raises StatusError."""
    grace = query.get("gracePeriodSeconds")
    options = DeleteOptions(
        grace_period_seconds=parse_number(grace) if grace else None,
        propagation_policy=query.get("propagationPolicy"),
        dry_run=[query["dryRun"]] if query.get("dryRun") else None,
    )
    if body.strip():
        try:
            options = msgspec.convert(_decode_value(body, content_type) or {}, DeleteOptions)
        except msgspec.ValidationError as error:
            raise bad_request(f"the body is no DeleteOptions: {error}") from None
    if options.orphan_dependents or options.propagation_policy not in (None, "", "Background"):
        raise unsupported(422, "Invalid", "deletion in the foreground and orphans", "delete in the background")
    return options
