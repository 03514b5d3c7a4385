"""Strategic merge patches: lists are merged by key, and directives say what merging cannot.

The rules, order of lists included, are those of Kubernetes' ``k8s.io/apimachinery/pkg/util/strategicpatch`` (v1.36).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from zoneward.sandbox.server.refusals import Refusal, bad_request
from zoneward.sandbox.server.schema.types import Type

Object = dict[str, Any]
"""JSON as a dictionary."""

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"
_ABSENT: Final = object()


def strategic_merge_patch(thing: Object, patch: Object, type_: Type) -> Object:
    """What ``patch`` makes of ``thing``, an object of that type; shares all that it leaves alone. Raises Refusal."""
    return _merged(thing, patch, type_)


def left_of(patch: Object, thing: Object, type_: Type | None) -> Object:
    """A patch as upstream's merging leaves it: that takes out what it has done with, and messages show the rest."""
    if _DIRECTIVE in patch:
        return {name: value for name, value in patch.items() if name != _DIRECTIVE or value != "replace"}
    done = {name.removeprefix(_ORDER) for name in patch if name.startswith(_ORDER)} | {_RETAIN}
    return {
        name: value if value is None else _left_of_value(value, thing.get(name, _ABSENT), _field(type_, name))
        for name, value in patch.items()
        if name not in done and not name.startswith(_ORDER)
    }


def _left_of_value(value: Any, before: Any, type_: Type | None) -> Any:
    if type(before) is not type(value):
        plain = _without_nulls(value)
        if isinstance(plain, list):
            return [each if _is_directive(each) else _without_directives(each) for each in plain]
        return plain if _is_directive(plain) else _without_directives(plain)
    if isinstance(value, dict):
        return left_of(value, before, type_)
    key = type_.merge_key if type_ is not None and type_.is_merged else ""
    if not isinstance(value, list) or not key or type_ is None:
        return value
    found = [None if _is_directive(item) else _find(before, item, key) for item in value]
    return [
        item if at is None else left_of(item, before[at], type_.items) for item, at in zip(value, found, strict=True)
    ]


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and _DIRECTIVE in value


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
        raise _failed("expected a []interface {}, but received a " + _go_type(order))
    for each in (before, value):
        if each is not _ABSENT and not isinstance(each, list):
            raise _failed("expected a []interface {}, but received a " + _go_type(each))
    found = _field(type_, name)
    if found is None:
        raise _failed(f'unable to find api field in struct {type_.name if type_ else ""} for the json field "{name}"')
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
            raise _failed(
                f"The order in patch list:\n{_go(items)}\n doesn't match $setElementOrder list:\n{_go(order)}\n"
            )


def _merged_list(before: list[Any], patch: list[Any], type_: Type) -> list[Any]:
    if not before and not patch:
        return before
    if len({type(each) for each in (*before, *patch)}) > 1:
        raise _failed(f"list element types are not identical: [{_go(before)} {_go(patch)}]")
    first = (*before, *patch)[0]
    if isinstance(first, list):
        raise Refusal(422, "", "lists of lists are not supported")
    if not isinstance(first, dict):
        merged = list(dict.fromkeys([*before, *patch]))
        return _same(before, _ordered(merged, patch, before, ""))
    key = type_.merge_key
    if not key:
        raise _failed(f"cannot merge lists without merge key for {type_.items.name if type_.items else ''}")
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
                    raise _without_key(item, key)
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
            raise _without_key(item, key)
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
    for index, each in enumerate(order if key else ()):
        if not isinstance(each, dict):
            raise _failed(f"value for key {index} is not a map")
    for each in (*merged, *order) if key else ():
        if key not in each:
            raise _without_key(each, key)
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
    return _go(value) if isinstance(value, dict | list) else value


# --- words ------------------------------------------------------------------------------------------------------------


def _failed(problem: str) -> Refusal:
    """Upstream takes these mistakes for its own: 500, without a reason."""
    return Refusal(500, "", problem)


def _bad_directive(patch: Object) -> Refusal:
    return _failed(f"unknown patch type: {_go(patch[_DIRECTIVE])} in map: {_go(patch)}")


def _without_key(item: Object, key: str) -> Refusal:
    return _failed(f"map: {_go(item)} does not contain declared merge key: {key}")


def _go_type(value: Any) -> str:
    names: Mapping[type, str] = {
        dict: "map[string]interface {}",
        list: "[]interface {}",
        str: "string",
        bool: "bool",
        int: "int64",
        float: "float64",
    }
    return names.get(type(value), "%!s(<nil>)")


def _go(value: Any) -> str:
    """As Go prints a value: ``map[name:x port:80]``."""
    match value:
        case dict():
            return f"map[{' '.join(f'{name}:{_go(value[name])}' for name in sorted(value))}]"
        case list():
            return f"[{' '.join(map(_go, value))}]"
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
    return str(value)
