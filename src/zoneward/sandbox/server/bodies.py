"""Bodies of requests: JSON or YAML, as dictionaries."""

from collections.abc import Sequence
from typing import Any, Final

from aiohttp import web

from zoneward.kube.input_error import MalformedText
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.refusals import Refusal, bad_request
from zoneward.sandbox.server.schema import Validation, decode, duplicate_fields
from zoneward.sandbox.server.schema.syntax import read_json

Object = dict[str, Any]

DELETE_OPTIONS: Final = "DeleteOptions"
LIMIT: Final = 3 * 1024 * 1024
"""Bytes of a body, as upstream."""
_JSON: Final = frozenset({"", "*/*", "application/json"})
_YAML: Final = frozenset({"application/yaml"})
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_TAKEN: Final = f"application/json, application/yaml, {_PROTOBUF}"
_SHOWN: Final = 30
"""Characters of a body that is none."""


def unsupported(content_type: str = "") -> Refusal:
    """``content_type`` empty: of a patch."""
    message = "415: Unsupported Media Type"
    if content_type:
        message = f"the body of the request was in an unknown format - accepted media types include: {_TAKEN}"
    return Refusal(415, "UnsupportedMediaType", message, details={})


def too_long() -> Refusal:
    return Refusal(413, "RequestEntityTooLarge", f"Request entity too large: limit is {LIMIT}")


async def read_body(request: web.BaseRequest) -> bytes:
    """Raises Refusal where it is too long."""
    if (request.content_length or 0) > LIMIT:
        raise too_long()
    body = bytearray()
    while block := await request.content.readany():
        body += block
        if len(body) > LIMIT:
            raise too_long()
    return bytes(body)


def media_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


def decoded(body: bytes, content_type: str, *, api: str, kind: str) -> Any:
    """Whatever the body holds, of a kind where it does not say its own. Raises Refusal."""
    if content_type == _PROTOBUF:
        return _from_protobuf(body, api, kind)
    if content_type not in _JSON | _YAML:
        raise unsupported(content_type)
    what = None if kind == DELETE_OPTIONS else kind
    of = "" if what is None else f"the object provided is unrecognized (must be of type {what}): "
    try:
        return _yaml(body) if content_type in _YAML else read_json(body)
    except ValueError as error:
        if content_type in _YAML:
            raise bad_request(f"{of}yaml: {error}") from None
        shown = f" ({_shown(body)})" if what is not None else ""
        raise bad_request(f"{of}couldn't get version/kind; json parse error: {error}{shown}") from None


def decoded_object(
    body: bytes, content_type: str, kind: Kind, *, validation: Validation
) -> tuple[Object, Sequence[str]]:
    """An object of a kind, as the schema leaves it, and warnings. Raises Refusal."""
    thing = decoded(body, content_type, api=kind.api, kind=kind.kind)
    is_asked = content_type in _JSON and validation != "Ignore"
    return decode(thing, kind, validation=validation, duplicates=duplicate_fields(body, thing) if is_asked else ())


def applied_object(body: bytes) -> Object:
    """What server-side apply is sent, YAML or JSON, as it is. Raises Refusal."""
    try:
        thing = _yaml(body)
    except ValueError as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    if not isinstance(thing, dict):
        raise bad_request(f"error decoding YAML: expected an object, got {type(thing).__name__}")
    return thing


def _from_protobuf(body: bytes, api: str, kind: str) -> Object:
    # Only who is sent protobuf reads its table.
    from zoneward.sandbox.server import protobuf

    try:
        return protobuf.decoded(body, api=api, kind=kind)
    except protobuf.ProtobufError as error:
        if kind == DELETE_OPTIONS:
            raise bad_request(str(error)) from None
        if error.told:
            raise bad_request(f"{error.told} cannot be handled as a {kind}: {error}") from None
        of = f"the object provided is unrecognized (must be of type {kind})"
        raise bad_request(f"{of}: {error} ({_shown(body)})") from None


def _yaml(body: bytes) -> Any:
    # Only who sends YAML waits for the import.
    from zoneward.kube.yaml_documents import whole_documents

    try:
        documents = whole_documents(body)
    except MalformedText as error:
        # Upstream's parser counts lines from zero here, but for its scanner's mistakes.
        raise ValueError(f"line {max(1, error.line - 1)}: {error.problem.removeprefix('malformed YAML: ')}") from None
    return documents[0] if documents else None


def _shown(body: bytes) -> str:
    """The beginning of a body; in hexadecimal digits where it is no JSON at all."""
    if not body:
        return "<empty>"
    if not body.lstrip().startswith(b"{"):
        return body.hex() if len(body) <= _SHOWN else f"{body[:_SHOWN].hex()} ..."
    text = body.decode(errors="replace")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."
