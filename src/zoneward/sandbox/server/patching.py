"""Patches: what one makes of an object, with upstream's words where it makes none.

`patched` is all of it for the three kinds of patch that change an object as text (server-side apply is
`zoneward.sandbox.server.applying`). Nothing here changes its input; what a patch leaves alone is shared with it.
"""

from typing import Any, Final

import msgspec

from zoneward.kube.formats import quoted
from zoneward.sandbox.server.json_patch import json_patch, unknown_in
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.refusals import Refusal, bad_request
from zoneward.sandbox.server.schema import (
    MisfitError,
    Validation,
    decoded_as,
    duplicate_fields,
    read_json,
    restored_as,
    type_of,
)
from zoneward.sandbox.server.strategic_merge import left_of, strategic_merge_patch

Object = dict[str, Any]
"""JSON as a dictionary."""

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
_SCALARS: Final = (str, int, float)

__all__ = [
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_PATCH",
    "json_patch",
    "merge_patch",
    "patched",
    "strategic_merge_patch",
]


def patched(
    old: Object, body: bytes, kind: Kind, *, content_type: str, validation: Validation = "Warn"
) -> tuple[Object, list[str]]:
    """The object that a patch makes, and warnings. ``content_type`` is one of the three above. Raises Refusal.

    The object's types are right, and it has no unknown fields; defaults and everything else are the caller's.
    """
    if content_type == STRATEGIC_PATCH:
        return _strategically(old, body, kind, validation)
    patch = _read(body, prefix="error decoding patch: ")
    problems = []
    if content_type == JSON_PATCH:
        new = json_patch(old, patch)
        problems = unknown_in(patch)
    else:
        if patch is None:
            raise bad_request("Invalid JSON Patch")
        new = merge_patch(old, _as_object(patch, prefix="error decoding patch: "))
    problems = duplicate_fields(body, patch) + problems
    try:
        thing, unknown = decoded_as(new, kind, old=old)
    except MisfitError as misfit:
        raise _invalid(_as_text(new), str(misfit)) from None
    problems += sorted(unknown)
    if problems and validation == "Strict":
        raise _invalid(_as_text(new), f"strict decoding error: {', '.join(problems)}")
    return thing, problems if validation == "Warn" else []


def merge_patch(thing: Any, patch: Any) -> Any:
    """RFC 7396: null removes a field, objects are merged, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(thing, dict):
        return _without_nulls(patch)
    merged, is_changed = dict(thing), False
    for name, value in patch.items():
        if value is None:
            is_changed = merged.pop(name, value) is not value or is_changed
            continue
        before = merged.get(name)
        after = merge_patch(before, value)
        if (after is not before and not (after == before and type(after) is type(before))) or name not in merged:
            merged[name], is_changed = after, True
    return merged if is_changed else thing


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return value


def _strategically(old: Object, body: bytes, kind: Kind, validation: Validation) -> tuple[Object, list[str]]:
    read = _read(body)
    patch = {} if read is None else _as_object(read)
    problems = duplicate_fields(body, read)
    new = strategic_merge_patch(old, patch, type_of(kind))
    try:
        thing, unknown = restored_as(new, kind, old=old)
    except MisfitError as misfit:
        raise _invalid(_in_go(left_of(patch, old, type_of(kind))), str(misfit)) from None
    problems += unknown
    if problems and validation == "Strict":
        shown = _in_go(left_of(patch, old, type_of(kind)))
        raise _invalid(shown, f"strict decoding error: {', '.join(problems)}")
    return thing, problems if validation == "Warn" else []


def _read(body: bytes, *, prefix: str = "") -> Any:
    try:
        return read_json(body)
    except ValueError as error:
        raise bad_request(f"{prefix}{error}") from None


def _as_object(patch: Any, *, prefix: str = "") -> Object:
    if isinstance(patch, dict):
        return patch
    name = {str: "string", list: "array", bool: "bool"}.get(type(patch), "number")
    raise bad_request(f"{prefix}json: cannot unmarshal {name} into Go value of type map[string]interface {{}}")


def _invalid(shown: str, problem: str) -> Refusal:
    """422 about no object: upstream has lost it by then."""
    message = f"Invalid value: {quoted(shown)}: {problem}"
    causes = [{"reason": "FieldValueInvalid", "message": message, "field": "patch"}]
    return Refusal(422, "Invalid", f' "" is invalid: patch: {message}', details={"causes": causes})


def _as_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _in_go(value: Any) -> str:
    """As Go prints a map: ``map[spec:map[ports:[map[port:80]]]]``."""
    match value:
        case dict():
            return f"map[{' '.join(f'{name}:{_in_go(value[name])}' for name in sorted(value))}]"
        case list():
            return f"[{' '.join(map(_in_go, value))}]"
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
    return str(value)
