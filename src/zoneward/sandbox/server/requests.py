"""Requests: the object of the path, the form of the answer, the body, the options."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, get_args

import msgspec
from aiohttp import web
from multidict import MultiMapping

from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.kinds import Kind, Object
from zoneward.sandbox.server.list_pages import is_true, parse_whole
from zoneward.sandbox.server.resource_registry import Deletion, Write
from zoneward.sandbox.server.schema import Validation, decode
from zoneward.sandbox.server.status_errors import StatusError, bad_request, options_invalid

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
        if subresource and subresource not in kind.subresources:
            return None
        return ResourcePath(kind, namespace, name, subresource)


# --- what the sandbox does not support --------------------------------------------------------------------------------


def unsupported(code: int, reason: str, what: str, instead: str) -> StatusError:
    message = f"the sandbox does not support {what}: {instead}, or use a real cluster, KWOK or kind"
    return StatusError(code, reason, message, details={})


def unsupported_body(what: str, instead: str) -> StatusError:
    return unsupported(415, "UnsupportedMediaType", what, instead)


# --- the form of the answer -------------------------------------------------------------------------------------------

JSON: Final = "application/json"
YAML: Final = "application/yaml"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

Shape = Literal["", "Table", "PartialObjectMetadata"]
_SHAPES: Final = get_args(Shape)


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """``shape``: empty for the object itself, or what ``meta.k8s.io/v1`` makes of it."""

    shape: Shape = ""
    is_aggregated: bool = False
    """Discovery: all groups in one document."""


_PLAIN: Final = AnswerForm()


def answer_form(accept: str) -> AnswerForm:
    """The first form of an ``Accept`` header that the server has. Raises StatusError."""
    if accept in ("", "*/*", JSON):
        return _PLAIN
    for part in accept.split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        values = dict(parameter.partition("=")[::2] for parameter in parameters)
        if name not in (JSON, "*/*", "application/*"):
            continue
        shape = values.get("as", "")
        if shape == "APIGroupDiscoveryList" and values.get("v") == "v2":
            return AnswerForm(is_aggregated=True)
        if not shape or (shape in _SHAPES and (values.get("g"), values.get("v")) == ("meta.k8s.io", "v1")):
            return AnswerForm(cast(Shape, shape))
    for form, media_type in (("protobuf", _PROTOBUF), ("YAML", YAML)):
        if media_type in accept:
            raise unsupported(406, "NotAcceptable", f"answers in {form}", f"accept {JSON}")
    raise not_acceptable(f"only the following media types are accepted: {JSON}")


def not_acceptable(message: str) -> StatusError:
    return StatusError(406, "NotAcceptable", message, details={})


# --- the body ---------------------------------------------------------------------------------------------------------

LIMIT: Final = 3 * 1024 * 1024
"""Bytes of a body, as kube-apiserver."""
_JSON_TYPES: Final = frozenset({"", "*/*", JSON})


async def read_body(request: web.BaseRequest) -> bytes:
    """Raises StatusError where it is too long."""
    too_long = StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {LIMIT}")
    if (request.content_length or 0) > LIMIT:
        raise too_long
    body = bytearray()
    while block := await request.content.readany():
        body += block
        if len(body) > LIMIT:
            raise too_long
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
    if content_type in _JSON_TYPES:
        return decode_json(body)
    for form, media_type in (("protobuf", _PROTOBUF), ("YAML", YAML)):
        if content_type == media_type:
            raise unsupported_body(f"bodies in {form}", "send JSON, as kubectl create -f does")
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

_POLICIES: Final = ("Foreground", "Background", "Orphan")


class _Preconditions(msgspec.Struct):
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815


class _DeleteOptions(msgspec.Struct):
    kind: str | None = None
    gracePeriodSeconds: int | None = None  # noqa: N815
    preconditions: _Preconditions | None = None
    orphanDependents: bool | None = None  # noqa: N815
    propagationPolicy: str | None = None  # noqa: N815
    dryRun: list[str] | None = None  # noqa: N815


def validation_of(query: Mapping[str, str]) -> Validation:
    """How to treat unknown fields; `write_options` validates the value."""
    return cast(Validation, query.get("fieldValidation") or "Warn")


def write_options(query: MultiMapping[str], *, subresource: str, options: str) -> Write:
    """``options``: the API's name of these, such as ``CreateOptions``. Raises StatusError."""
    dry_run = query.getall("dryRun", [])
    errors = _dry_run_errors(dry_run)
    validation = validation_of(query)
    if validation not in get_args(Validation):
        problem = f'Unsupported value: "{validation}": supported values: "", "Ignore", "Strict", "Warn"'
        errors.append(FieldError("FieldValueNotSupported", "fieldValidation", problem))
    if errors:
        raise options_invalid(options, errors)
    return Write(subresource=subresource, is_dry_run=bool(dry_run))


def deletion_options(query: MultiMapping[str], body: bytes, content_type: str) -> Deletion:
    """From the body, or from the query without one. Raises StatusError."""
    if body.strip():
        try:
            options = msgspec.convert(_decode_value(body, content_type) or {}, _DeleteOptions)
        except msgspec.ValidationError as error:
            raise bad_request(f"the body is no DeleteOptions: {error}") from None
        if (options.kind or "DeleteOptions") != "DeleteOptions":
            raise bad_request(f"expected DeleteOptions, got {options.kind}")
    else:
        options = _DeleteOptions(
            gracePeriodSeconds=parse_whole(query["gracePeriodSeconds"]) if query.get("gracePeriodSeconds") else None,
            orphanDependents=is_true(query["orphanDependents"]) if query.get("orphanDependents") else None,
            propagationPolicy=query.get("propagationPolicy") or None,
            dryRun=query.getall("dryRun", []),
        )
    errors = _dry_run_errors(options.dryRun or [])
    policy = options.propagationPolicy
    if policy is not None and options.orphanDependents is not None:
        problem = f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set'
        errors.append(FieldError("FieldValueInvalid", "propagationPolicy", problem))
    if policy is not None and policy not in _POLICIES:
        known = ", ".join(f'"{each}"' for each in (*_POLICIES, "nil"))
        problem = f'Unsupported value: "{policy}": supported values: {known}'
        errors.append(FieldError("FieldValueNotSupported", "propagationPolicy", problem))
    if errors:
        raise options_invalid("DeleteOptions", errors)
    if options.orphanDependents or policy in ("Foreground", "Orphan"):
        raise unsupported(422, "Invalid", "deletion in the foreground and orphans", "delete in the background")
    preconditions = options.preconditions or _Preconditions()
    return Deletion(
        grace=options.gracePeriodSeconds,
        uid=preconditions.uid,
        version=preconditions.resourceVersion,
        is_dry_run=bool(options.dryRun),
    )


def _dry_run_errors(values: list[str]) -> list[FieldError]:
    if not values or values == ["All"]:
        return []
    listed = " ".join(f'"{each}"' for each in values)
    return [FieldError("FieldValueNotSupported", "dryRun", f'Unsupported value: [{listed}]: supported values: "All"')]
