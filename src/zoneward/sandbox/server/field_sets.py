"""Sets of fields, in the form that ``fieldsV1`` has: no other is needed.

A node's keys are the steps below it: ``f:name`` to a field, ``k:{"port":80}`` to the item of a list with that key,
``v:"x"`` to an item that is a plain value. The node of a field that is in the set is ``{}``, or has ``.`` where fields
below it are in the set too. The root stands for the object, which is never in the set itself: ``{}`` there is none.

As upstream's ``structured-merge-diff`` (v6.3), whose operations have these names. Nodes are shared, never changed.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from zoneward.sandbox.server.schema import Form, Type

Fields = dict[str, Any]
"""A set of fields, or a node of one."""

_MEMBER: Final = "."
_STRUCT, _MAP, _LIST = Form.STRUCT, Form.MAP, Form.LIST


def union(one: Fields, other: Fields) -> Fields:
    if not one or not other:
        return one or other
    return _union(one, other)


def _union(one: Fields, other: Fields) -> Fields:
    if not one or not other:
        more = one or other
        return more if not more or _MEMBER in more else {_MEMBER: {}, **more}
    merged = dict(one)
    for step, node in other.items():
        if step not in merged:
            merged[step] = node
        elif step != _MEMBER:
            merged[step] = _union(merged[step], node)
    return in_order(merged) if len(merged) > len(one) else merged


def difference(one: Fields, other: Fields) -> Fields:
    """Without what is in ``other``; what is below that stays."""
    return one if not one or not other else _difference(one, other) or {}


def _difference(one: Fields, other: Fields) -> Fields | None:
    is_member = not other or _MEMBER in other
    if not one:
        return None if is_member else one
    kept: Fields = {}
    is_same = True
    for step, node in one.items():
        if step == _MEMBER:
            left = None if is_member else node
        else:
            left = _difference(node, other[step]) if step in other else node
        is_same = is_same and left is node
        if left is not None:
            kept[step] = left
    if is_same:
        return one
    return {} if list(kept) == [_MEMBER] else kept or None


def without(one: Fields, other: Fields) -> Fields:
    """Without what is in ``other``, and all that is below that (upstream's ``RecursiveDifference``)."""
    return one if not one or not other else _without(one, other) or {}


def _without(one: Fields, other: Fields) -> Fields | None:
    """``other`` has fields below this node, and not the node itself."""
    if not one:
        return one
    kept: Fields = {}
    for step, node in one.items():
        found = other.get(step) if step != _MEMBER else None
        if found is None:
            kept[step] = node
        elif not has(found) and (left := _without(node, found)) is not None:
            kept[step] = left
    return {} if list(kept) == [_MEMBER] else kept or None


def intersection(one: Fields, other: Fields) -> Fields:
    return (_intersection(one, other) or {}) if one and other else {}


def _intersection(one: Fields, other: Fields) -> Fields | None:
    is_member = (not one or _MEMBER in one) and (not other or _MEMBER in other)
    common: Fields = {_MEMBER: {}} if is_member else {}
    for step, node in one.items():
        if step != _MEMBER and step in other:
            shared = _intersection(node, other[step])
            if shared is not None:
                common[step] = shared
    return {} if list(common) == [_MEMBER] else common or None


def has(node: Fields | None) -> bool:
    """Whether the field that a node stands for is in the set itself; False where there is no node."""
    return node is not None and (not node or _MEMBER in node)


def paths(fields: Fields, *, above: str = "") -> Iterator[str]:
    """``.spec.ports[port=80,protocol="TCP"].name`` for each field, in upstream's order: a node's own fields first."""
    steps = [step for step in fields if step != _MEMBER]
    yield from (f"{above}{shown(step)}" for step in steps if has(fields[step]))
    for step in steps:
        yield from paths(fields[step], above=f"{above}{shown(step)}")


def shown(step: str) -> str:
    text = step[2:]
    if step.startswith("f:"):
        return f".{text}"
    if step.startswith("k:"):
        keys = msgspec.json.decode(text)
        return f"[{','.join(f'{name}={msgspec.json.encode(value).decode()}' for name, value in keys.items())}]"
    return f"[={text}]" if step.startswith("v:") else f"[{text}]"


def in_order(node: Fields) -> Fields:
    """Fields by name, then keys and values as upstream compares them: numbers as numbers."""
    return {step: node[step] for step in sorted(node, key=_place)}


@lru_cache(maxsize=4096)
def _place(step: str) -> tuple[Any, ...]:
    if step.startswith("k:"):
        return ("k", tuple((name, _rank(value)) for name, value in msgspec.json.decode(step[2:]).items()))
    if step.startswith("v:"):
        return ("v", _rank(msgspec.json.decode(step[2:])))
    return (step[:1], step[2:])


def _rank(value: Any) -> tuple[int, Any]:
    if isinstance(value, str):
        return (1, value)
    return (0, value) if isinstance(value, int | float) and not isinstance(value, bool) else (2, str(value))


# --- from objects -----------------------------------------------------------------------------------------------------


def step_to(item: Any, type_: Type) -> str:
    """The step to an item of a list that managers share."""
    if type_.ownership == "set" or type_.items is None:
        return f"v:{msgspec.json.encode(item).decode()}"
    keys = []
    for name in type_.keys:
        value = item.get(name)
        if value is None:
            field = type_.items.fields.get(name)
            value = field.default if field is not None else None
        if value is not None:
            keys.append((name, value))
    return _key_step(tuple(keys))


@lru_cache(maxsize=4096, typed=True)
def _key_step(keys: tuple[tuple[str, Any], ...]) -> str:
    return f"k:{msgspec.json.encode(dict(keys)).decode()}"


def is_shared(type_: Type) -> bool:
    """Whether managers own a value's parts, and not all of it at once."""
    return type_.form in {_STRUCT, _MAP, _LIST} and type_.ownership != "atomic"


def whole(value: Any, type_: Type) -> Fields:
    """The node of a value that has just come, or gone: it and all below it."""
    form = type_.form
    if not value or type_.ownership == "atomic" or not (form is _STRUCT or form is _MAP or form is _LIST):
        return {}
    made: Fields = {_MEMBER: {}}
    items = type_.items
    if form is _LIST:
        assert items is not None
        return made | in_order({step_to(each, type_): whole(each, items) for each in value})
    fields = type_.fields
    for name in sorted(value):
        # All leaves look the same: most of them need no look at their type.
        each = value[name]
        is_leaf = type(each) is str or type(each) is bool or not each
        if items is not None or name in fields:
            made[f"f:{name}"] = {} if is_leaf else whole(each, items or fields[name].value)
    return made


def parts(value: Mapping[str, Any], type_: Type) -> Iterator[tuple[str, Any, Type]]:
    """Fields of a struct, or entries of a map: name, value and type. Fields that the struct has not are left out."""
    for name, each in value.items():
        if type_.items is not None:
            yield name, each, type_.items
        elif name in type_.fields:
            yield name, each, type_.fields[name].value
