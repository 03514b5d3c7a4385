"""JSON merge patches (RFC 7396), and the strategic merge patches of Kubernetes.

A strategic merge patch merges lists by key, and has directives for all else. The rules and the order of lists are those
of ``k8s.io/apimachinery/pkg/util/strategicpatch``, for the patches that ``kubectl`` sends. Inputs are not modified; the
result shares unchanged values with them.
"""

from collections.abc import Sequence
from typing import Any, Final

from zoneward.kube.input_error import show
from zoneward.sandbox.server.kinds import Kind, Object
from zoneward.sandbox.server.requests import decode_json
from zoneward.sandbox.server.schema import MisfitError, Type, Validation, fitted, type_of
from zoneward.sandbox.server.status_errors import StatusError, bad_request

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
_DIRECTIVE: Final = "$patch"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"


def patch_object(
    old: Object, body: bytes, kind: Kind, *, content_type: str, validation: Validation = "Warn"
) -> tuple[Object, list[str]]:
    """The patched object, and warnings. ``content_type`` is one of the two above. Raises StatusError.

    The object matches the schema and has no unknown fields; the caller sets defaults and validates.
    """
    patch = decode_json(body)
    if not isinstance(patch, dict):
        raise bad_request(f"expected a JSON object as the patch, got {show(patch)}")
    is_strategic = content_type == STRATEGIC_PATCH
    new = strategic_merge_patch(old, patch, type_of(kind)) if is_strategic else merge_patch(old, patch)
    try:
        obj, unknown = fitted(new, kind)
        if unknown and validation == "Strict":
            raise MisfitError(f"strict decoding error: {', '.join(unknown)}")
    except MisfitError as misfit:
        # Without the name of the object, as kube-apiserver answers.
        causes = [{"reason": "FieldValueInvalid", "message": str(misfit), "field": "patch"}]
        message = f' "" is invalid: patch: Invalid value: {misfit}'
        raise StatusError(422, "Invalid", message, details={"causes": causes}) from None
    return obj, unknown if validation == "Warn" else []


def merge_patch(obj: Any, patch: Any) -> Any:
    """RFC 7396: null removes a field, objects are merged, all else is replaced."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(obj) if isinstance(obj, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def strategic_merge_patch(obj: Object, patch: Object, type_: Type | None) -> Object:
    """Apply a patch to an object of that type. Raises StatusError."""
    match patch.get(_DIRECTIVE):
        case None:
            pass
        case "replace":
            return {name: value for name, value in patch.items() if name != _DIRECTIVE}
        case "delete":
            return {}
        case other:
            raise _failed(f"expected $patch to be replace or delete, got {show(other)}")
    merged = dict(obj)
    orders = {name.removeprefix(_ORDER): value for name, value in patch.items() if name.startswith(_ORDER)}
    for name, value in patch.items():
        if name.startswith(_DELETE_FROM):
            name, gone = name.removeprefix(_DELETE_FROM), _checked(value, name)
            if isinstance(merged.get(name), list):
                merged[name] = [item for item in merged[name] if item not in gone]
        elif name.startswith(_ORDER) or name == _DIRECTIVE:
            continue
        elif value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged_value(merged.get(name), value, _field_type(type_, name), orders.get(name))
    for name, order in orders.items():
        type_of_list = _field_type(type_, name)
        if name not in patch and type_of_list is not None and isinstance(merged.get(name), list):
            merged[name] = _ordered(merged[name], _checked(order, name), merged[name], type_of_list.merge_key)
    return merged


def _field_type(type_: Type | None, name: str) -> Type | None:
    field = type_.fields.get(name) if type_ is not None else None
    return field.value if field is not None else None


def _merged_value(old: Any, value: Any, type_: Type | None, order: Any) -> Any:
    if isinstance(value, dict):
        return strategic_merge_patch(old if isinstance(old, dict) else {}, value, type_)
    if isinstance(value, list) and type_ is not None and type_.is_merged:
        return _merged_list(old if isinstance(old, list) else [], value, type_, order)
    return value


# --- lists ------------------------------------------------------------------------------------------------------------


def _merged_list(old: list[Any], patch: list[Any], type_: Type, order: Any) -> list[Any]:
    key = type_.merge_key
    order = None if order is None else _checked(order, "$setElementOrder", key)
    if not key:
        if any(isinstance(item, dict | list) for item in patch):
            raise _failed(f"expected a list of plain values, got {show(patch)}")
        return _ordered(list(dict.fromkeys([*old, *patch])), order or patch, old, key)
    if {_DIRECTIVE: "replace"} in patch:
        return [item for item in patch if _DIRECTIVE not in item]
    added = []
    remaining = old
    for item in _checked(patch, "the list", key):
        match item.get(_DIRECTIVE):
            case None:
                added.append(item)
            case "delete":
                remaining = [candidate for candidate in remaining if candidate.get(key) != item[key]]
            case other:
                raise _failed(f"expected $patch to be replace or delete in a list, got {show(other)}")
    merged = list(remaining)
    for item in added:
        position = next((index for index, candidate in enumerate(merged) if candidate.get(key) == item[key]), None)
        if position is None:
            merged.append(strategic_merge_patch({}, item, type_.items))
        else:
            merged[position] = strategic_merge_patch(merged[position], item, type_.items)
    return _ordered(merged, order or added, remaining, key)


def _ordered(items: list[Any], order: Sequence[Any], old: Sequence[Any], key: str) -> list[Any]:
    """Items in ``order`` follow it, all others keep their order; between the two groups the order of ``old`` wins.

    New items come before the old ones that follow: upstream's order, which users see.
    """

    def key_of(item: Any) -> str:
        return repr(item.get(key) if key and isinstance(item, dict) else item)

    position = {key_of(item): index for index, item in enumerate(order)}
    old_position = {key_of(item): index for index, item in enumerate(old)}
    named = sorted((item for item in items if key_of(item) in position), key=lambda item: position[key_of(item)])
    result: list[Any] = []
    for item in (item for item in items if key_of(item) not in position):
        while named and not old_position.get(key_of(item), len(old)) < old_position.get(key_of(named[0]), -1):
            result.append(named.pop(0))
        result.append(item)
    return [*result, *named]


def _checked(items: Any, where: str, key: str = "") -> list[Any]:
    """``items``, if they are a list, of objects that have ``key`` where there is one. Raises StatusError."""
    if not isinstance(items, list):
        raise _failed(f"expected a list in {where}, got {show(items)}")
    if key and not all(isinstance(item, dict) and key in item for item in items):
        raise _failed(f"expected {key} in each item of {where}, which is merged by it")
    return items


def _failed(problem: str) -> StatusError:
    """400; kube-apiserver answers such patches with 500."""
    return bad_request(f"the strategic merge patch cannot be merged: {problem}")
