"""What server-side apply does with values and sets of fields: merge, find the fields of, remove.

As upstream's ``structured-merge-diff`` (v6.3, ``typed``). Values are JSON of a `Type`; nothing is changed in place.
"""

from typing import Any, Final

from zoneward.sandbox.server.field_sets import Fields, has, in_order, is_shared, parts, step_to
from zoneward.sandbox.server.schema import Form, Type

_ABSENT: Final = object()


def merged(live: Any, applied: Any, type_: Type) -> Any:
    """``live`` with what was applied: maps and lists that managers share are merged, all else is replaced."""
    if not is_shared(type_) or not (live or applied):
        return applied
    if type_.form is Form.LIST:
        return _merged_items(live or [], applied or [], type_)
    live, applied = live or {}, applied or {}
    made = dict(live)
    for name, value, part in parts(applied, type_):
        made[name] = merged(live[name], value, part) if name in live else value
    return made


def _merged_items(live: list[Any], applied: list[Any], type_: Type) -> list[Any]:
    """Items that both have come in the applied order; those that only ``live`` has stay before what they preceded."""
    assert type_.items is not None
    theirs = [step_to(each, type_) for each in live]
    ours = {step_to(each, type_): each for each in applied}
    # Of items with the same key nobody knows which one is meant.
    known = {step: each for step, each in zip(theirs, live, strict=True) if theirs.count(step) == 1}
    shared = [step for step in ours if step in theirs]
    made: list[Any] = []
    done: set[str] = set()

    def take(step: str) -> None:
        item = merged(known[step], ours[step], type_.items) if step in known and type_.items else ours[step]
        made.append(item)
        done.add(step)
        if shared and shared[0] == step:
            shared.pop(0)

    order = list(ours)
    left = right = 0
    while left < len(live) or right < len(order):
        if left < len(live):
            step = theirs[left]
            if right < len(order) and step == order[right]:
                take(step)
                left, right = left + 1, right + 1
                continue
            if right < len(order) and step in ours and shared and shared[0] != step:
                left += 1
                continue
            if step not in ours:
                made.append(live[left])
                left += 1
                continue
            left += step in done
        if right < len(order):
            take(order[right])
            right += 1
    return made


def fields_of(value: Any, type_: Type) -> Fields:
    """The set of fields that an object has: leaves, items and entries, but not the structs that hold them."""
    return _below(value, type_) or {}


def _below(value: Any, type_: Type) -> Fields | None:
    """A value's node; None where the value holds nothing to own, as an empty list."""
    if value is None or not is_shared(type_):
        return {}
    if type_.form is Form.LIST:
        steps = [step_to(each, type_) for each in value]
        assert type_.items is not None
        below = {
            step: _as_member(_below(each, type_.items)) if steps.count(step) == 1 else {}
            for step, each in zip(steps, value, strict=True)
        }
        return in_order(below) if below else None
    if not value:
        return {}
    nodes = {f"f:{name}": _below(each, part) for name, each, part in parts(value, type_)}
    found = {step: node for step, node in nodes.items() if node is not None}
    return in_order(found) if found else None


def _as_member(node: Fields | None) -> Fields:
    return {".": {}, **node} if node else {}


def with_structs(fields: Fields, type_: Type | None) -> Fields:
    """The set, and all fields of structs on the way to what is in it (upstream's ``EnsureNamedFieldsAreMembers``)."""
    made: Fields = {}
    for step, node in fields.items():
        if step == ".":
            made[step] = node
            continue
        is_named = type_ is not None and step.startswith("f:") and step[2:] in type_.fields
        below = with_structs(node, _inner(type_, step))
        made[step] = {".": {}, **below} if is_named and below and "." not in below else below
    return made


def _inner(type_: Type | None, step: str) -> Type | None:
    if type_ is None or type_.items is not None:
        return type_.items if type_ is not None else None
    field = type_.fields.get(step[2:])
    return field.value if field is not None else None


def removed(value: Any, fields: Fields, type_: Type) -> Any:
    """``value`` without these fields; None where nothing is left of it."""
    if not fields or not value or not is_shared(type_):
        return value
    if type_.form is Form.LIST:
        assert type_.items is not None
        items = [_left(each, fields.get(step_to(each, type_)), type_.items) for each in value]
        return [each for each in items if each is not _ABSENT] or None
    left = {name: _left(each, fields.get(f"f:{name}"), part) for name, each, part in parts(value, type_)}
    return {name: each for name, each in left.items() if each is not _ABSENT} or None


def _left(value: Any, node: Fields | None, type_: Type) -> Any:
    if node is None:
        return value
    return _ABSENT if has(node) else removed(value, node, type_)
