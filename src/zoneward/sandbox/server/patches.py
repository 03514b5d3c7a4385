"""Patches of an object: JSON merge patches (RFC 7396), and the strategic merge patches of Kubernetes.

A strategic merge patch merges lists by key, and has directives for what merging cannot say. The rules, order of lists
included, are those of ``k8s.io/apimachinery/pkg/util/strategicpatch`` (v1.36). Nothing here changes its input; what a
patch leaves alone is shared with it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from zoneward.kube.input_error import show
from zoneward.sandbox.server.kinds import Kind, Object
from zoneward.sandbox.server.requests import decode_json
from zoneward.sandbox.server.schema import MisfitError, Type, Validation, fitted, type_of
from zoneward.sandbox.server.status_errors import StatusError, bad_request

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"
_ABSENT: Final = object()


MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"


def patch_object(
    old: Object, body: bytes, kind: Kind, *, content_type: str, validation: Validation = "Warn"
) -> tuple[Object, list[str]]:
    """The object that a patch makes, and warnings. ``content_type`` is one of the two above. Raises StatusError.

    The object's types are right, and it has no unknown fields; defaults and everything else are the caller's.
    """
    patch = decode_json(body)
    if patch is None and content_type == STRATEGIC_PATCH:
        patch = {}
    if not isinstance(patch, dict):
        raise bad_request(f"expected a JSON object as the patch, got {show(patch)}")
    if content_type == STRATEGIC_PATCH:
        new = strategic_merge_patch(old, patch, type_of(kind))
    else:
        new = merge_patch(old, patch)
    try:
        thing, unknown = fitted(new, kind, old=old)
    except MisfitError as misfit:
        raise _invalid(str(misfit)) from None
    if unknown and validation == "Strict":
        raise _invalid(f"strict decoding error: {', '.join(unknown)}")
    return thing, unknown if validation == "Warn" else []


def _invalid(problem: str) -> StatusError:
    """422 without the name of the object, as kube-apiserver answers."""
    causes = [{"reason": "FieldValueInvalid", "message": problem, "field": "patch"}]
    return StatusError(422, "Invalid", f' "" is invalid: patch: Invalid value: {problem}', details={"causes": causes})


def merge_patch(thing: Any, patch: Any) -> Any:
    """RFC 7396: null removes a field, objects are merged, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(thing, dict):
        return merge_patch({}, patch)
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


def strategic_merge_patch(thing: Object, patch: Object, type_: Type) -> Object:
    """What ``patch`` makes of ``thing``, an object of that type. Raises StatusError."""
    return _merged(thing, patch, type_)


def _merged(thing: Object, patch: Object, type_: Type | None) -> Object:
    if _DIRECTIVE in patch:
        return _directed(patch)
    new = thing
    if _RETAIN in patch:
        new = _retained(new, patch)
    ordered = {name.removeprefix(_ORDER) for name in patch if name.startswith(_ORDER)}
    for name in sorted(ordered):
        new = _with(new, name, _in_given_order(new, patch, name, type_))
    for name, value in patch.items():
        if name.startswith(_ORDER) or name == _RETAIN or name in ordered:
            continue
        if name.startswith(_DELETE_FROM):
            name = name.removeprefix(_DELETE_FROM)
            new = _with(new, name, _deleted_from(new.get(name, _ABSENT), value))
        else:
            new = _with(new, name, _value(new.get(name, _ABSENT), value, _field(type_, name)))
    return new


def _with(thing: Object, name: str, value: Any) -> Object:
    """``thing`` itself where that changes nothing."""
    before = thing.get(name, _ABSENT)
    if before is value or (type(before) is type(value) and type(value) in {str, int, bool} and before == value):
        return thing
    if value is _ABSENT:
        return {each: thing[each] for each in thing if each != name}
    return {**thing, name: value}


def _value(before: Any, value: Any, type_: Type | None) -> Any:
    if value is None:
        return _ABSENT
    if type(before) is not type(value):
        return _without_directives(_without_nulls(value))
    if isinstance(value, dict):
        return _merged(before, value, type_)
    if isinstance(value, list):
        return _merged_list(before, value, type_) if type_ is not None and type_.is_merged else value
    return value


def _field(type_: Type | None, name: str) -> Type | None:
    field = type_.fields.get(name) if type_ is not None else None
    return field.value if field is not None else None


# --- directives -------------------------------------------------------------------------------------------------------


def _directed(patch: Object) -> Object:
    match patch[_DIRECTIVE]:
        case "replace":
            return {name: value for name, value in patch.items() if name != _DIRECTIVE}
        case "delete":
            return {}
    raise _bad_directive(patch)


def _retained(thing: Object, patch: Object) -> Object:
    retained = patch[_RETAIN]
    told = [name for name, value in patch.items() if value is not None and not name.startswith("$")]
    if not isinstance(retained, list) or any(name not in retained for name in told):
        raise bad_request("invalid patch format of retainKeys")
    return thing if all(name in retained for name in thing) else {k: v for k, v in thing.items() if k in retained}


def _deleted_from(before: Any, values: Any) -> Any:
    if not isinstance(values, list) or not isinstance(before, list):
        return before
    return [each for each in before if each not in values]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _without_directives(value: Any) -> Any:
    """``_ABSENT`` for a map that is one itself."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return _ABSENT
        kept = {name: _without_directives(each) for name, each in value.items()}
        return {name: each for name, each in kept.items() if each is not _ABSENT}
    if isinstance(value, list):
        return [each for each in map(_without_directives, value) if each is not _ABSENT]
    return value


# --- lists ------------------------------------------------------------------------------------------------------------


def _in_given_order(thing: Object, patch: Object, name: str, type_: Type | None) -> Any:
    """The list that ``$setElementOrder`` is about, merged and in that order."""
    order, before, value = patch[_ORDER + name], thing.get(name, _ABSENT), patch.get(name, _ABSENT)
    if not isinstance(order, list):
        raise _failed(f"expected a list in {_ORDER}{name}, got {show(order)}")
    for each in (before, value):
        if each is not _ABSENT and not isinstance(each, list):
            raise _failed(f"expected a list in {name}, got {show(each)}")
    found = _field(type_, name)
    if found is None:
        raise _failed(f"there is no field {name} for {_ORDER}{name}")
    key = found.merge_key
    _judge_order(value if isinstance(value, list) else [], order, key)
    if before is _ABSENT and value is _ABSENT:
        return _ABSENT
    if value is _ABSENT:
        merged = before
    elif before is _ABSENT:
        merged = _without_directives(value)
    else:
        merged = _merged_list(before, value, found) if found.is_merged else value
    if value is _ABSENT or before is _ABSENT or not key:
        return _ordered(merged, order, [] if before is _ABSENT else before, key)
    return _ordered(merged, order, _left_behind(before, value, key), key)


def _left_behind(before: list[Any], patch: list[Any], key: str) -> list[Any]:
    """The old list as upstream's merging leaves it, which then asks it for the old order.

    It deletes and adds in place: items move up, the last ones stay twice, and new ones take the freed places.
    """
    slots, size = list(before), len(before)
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return slots
    for item in patch:
        while _DIRECTIVE in item and (at := _find(slots[:size], item, key)) is not None:
            slots[at : size - 1] = slots[at + 1 : size]
            size -= 1
    added = [item for item in patch if _DIRECTIVE not in item and _find(slots[:size], item, key) is None]
    free = added[: len(slots) - size]
    slots[size : size + len(free)] = free
    return slots


def _find(items: list[Any], wanted: Object, key: str) -> int | None:
    """The place of the item that has the same key."""
    return next((index for index, each in enumerate(items) if each.get(key, _ABSENT) == wanted[key]), None)


def _judge_order(items: list[Any], order: list[Any], key: str) -> None:
    """All that the patch has must be in the order, in that order."""
    if not items or not order:
        return
    left = iter(_key_of(each, key) for each in order)
    for item in items:
        if isinstance(item, dict) and _DIRECTIVE in item:
            continue
        if not any(each == _key_of(item, key) for each in left):
            raise _failed(f"the items of the patch are not in the order of {_ORDER.removesuffix('/')}")


def _merged_list(before: list[Any], patch: list[Any], type_: Type) -> list[Any]:
    if not before and not patch:
        return before
    if len({type(each) for each in (*before, *patch)}) > 1:
        raise _failed("expected items of one type in a list that is merged")
    first = (*before, *patch)[0]
    if isinstance(first, list):
        raise _failed("lists of lists are not merged")
    if not isinstance(first, dict):
        merged = list(dict.fromkeys([*before, *patch]))
        return _same(before, _ordered(merged, patch, before, ""))
    key = type_.merge_key
    if not key:
        raise _failed("expected plain items in this list")
    kept, added = _without_special(before, patch, key)
    merged = _merged_maps(kept, added, key, type_.items)
    return _same(before, _ordered(merged, added, kept, key))


def _same(before: list[Any], after: list[Any]) -> list[Any]:
    is_same = len(before) == len(after) and all(old is new for old, new in zip(before, after, strict=True))
    return before if is_same else after


def _without_special(before: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """The old items that directives leave, and the patch's without directives."""
    plain: list[Any] = []
    is_replaced = False
    for item in patch:
        match item.get(_DIRECTIVE, _ABSENT):
            case directive if directive is _ABSENT:
                plain.append(item)
            case "delete":
                if key not in item:
                    raise _without_key(key)
                before = [each for each in before if each.get(key, _ABSENT) != item[key]]
            case "replace":
                is_replaced = True
            case "merge":
                raise _failed("merging lists cannot yet be specified in the patch")
            case _:
                raise _bad_directive(item)
    return (plain, []) if is_replaced else (before, plain)


def _merged_maps(before: list[Any], patch: list[Any], key: str, type_: Type | None) -> list[Any]:
    merged = list(before)
    for item in patch:
        if key not in item:
            raise _without_key(key)
        at = _find(merged, item, key)
        if at is None:
            merged.append(item)
        else:
            merged[at] = _merged(merged[at], item, type_)
    return merged


def _ordered(merged: list[Any], order: Sequence[Any], before: Sequence[Any], key: str) -> list[Any]:
    """Items of the patch in its order, the others in theirs; where both lists know two items, the old order counts.

    What only the patch has comes before the old items that follow: upstream's order, and what clients see.
    """
    for each in order if key else ():
        if not isinstance(each, dict):
            raise _failed("expected objects in a list that is merged by a key")
    for each in (*merged, *order) if key else ():
        if key not in each:
            raise _without_key(key)
    place = _places(order, key)
    old_place = _places(before, key)
    mine = sorted((each for each in merged if _key_of(each, key) in place), key=_by(place, key))
    others = sorted((each for each in merged if _key_of(each, key) not in place), key=_by(old_place, key))
    result: list[Any] = []
    left, right = 0, 0
    while left < len(others) and right < len(mine):
        theirs, ours = old_place.get(_key_of(others[left], key)), old_place.get(_key_of(mine[right], key))
        if theirs is not None and ours is not None and theirs < ours:
            result.append(others[left])
            left += 1
        else:
            result.append(mine[right])
            right += 1
    return [*result, *others[left:], *mine[right:]]


def _places(items: Sequence[Any], key: str) -> Mapping[Any, int]:
    places: dict[Any, int] = {}
    for index, each in enumerate(items):
        places.setdefault(_key_of(each, key), index)
    return places


def _by(places: Mapping[Any, int], key: str) -> Callable[[Any], int]:
    return lambda item: places.get(_key_of(item, key), 0)


def _key_of(item: Any, key: str) -> Any:
    """Something to compare items by; a key that is itself a map or list, which no kind has, by its text."""
    value = item.get(key) if key and isinstance(item, dict) else item
    return repr(value) if isinstance(value, dict | list) else value


# --- errors -----------------------------------------------------------------------------------------------------------


def _failed(problem: str) -> StatusError:
    """kube-apiserver answers such patches with 500, as if the mistake were its own; the sandbox with 400."""
    return bad_request(f"the strategic merge patch cannot be merged: {problem}")


def _bad_directive(patch: Object) -> StatusError:
    return _failed(f"expected $patch to be replace, merge or delete, got {show(patch[_DIRECTIVE])}")


def _without_key(key: str) -> StatusError:
    return _failed(f"expected {key} in each item of a list that is merged by it")
