"""Whether what is applied fits its type: server-side apply's own judgement, which comes before any decoder's."""

import json
from collections.abc import Iterator
from typing import Any, Final

from zoneward.sandbox.server.field_sets import shown, step_to
from zoneward.sandbox.server.schema import Form, Type

_SCALARS: Final = (str, int, float, bool)


def problems(value: Any, type_: Type, *, path: str = "") -> Iterator[str]:
    """``.spec.ports[0].port: expected numeric (int or float), got string`` for each value that does not fit."""
    found = _problem(value, type_)
    if found:
        yield f"{path}: {found}"
    elif isinstance(value, dict) and type_.form is Form.STRUCT:
        for name, each in value.items():
            if name not in type_.fields:
                yield f"{path}.{name}: field not declared in schema"
                return
            yield from problems(each, type_.fields[name].value, path=f"{path}.{name}")
    elif isinstance(value, dict) and type_.form is Form.MAP and type_.items:
        for name, each in value.items():
            yield from problems(each, type_.items, path=f"{path}.{name}")
    elif isinstance(value, list) and type_.form is Form.LIST:
        yield from _of_items(value, type_, path)


def _of_items(value: list[Any], type_: Type, path: str) -> Iterator[str]:
    assert type_.items is not None
    seen: set[str] = set()
    for index, each in enumerate(value):
        step = f"i:{index}"
        if type_.ownership != "atomic":
            problem = _keyless(each, type_)
            if problem:
                yield f"{path}: element {index}: {problem}"
                return
            step = step_to(each, type_)
            if step in seen:
                yield f"{path}: duplicate entries for key {shown(step)}"
            seen.add(step)
        yield from problems(each, type_.items, path=f"{path}{shown(step)}")


def _keyless(item: Any, type_: Type) -> str:
    """Why an item has no key; empty when it has one."""
    if type_.ownership == "set":
        if isinstance(item, dict):
            return "associative list without keys has an element that's a map type"
        if isinstance(item, list):
            return "not supported: associative list with lists as elements"
        return "associative list without keys has an element that's an explicit null" if item is None else ""
    if item is None:
        return "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    if step_to(item, type_) == "k:{}":
        keys = " ".join(json.dumps(each) for each in type_.keys)
        defaults = "and doesn't have default values for any key fields"
        return f"associative list with keys has an element that omits all key fields [{keys}] ({defaults})"
    return ""


def _problem(value: Any, type_: Type) -> str:
    if value is None:
        return ""
    match type_.form:
        case Form.STRUCT | Form.MAP:
            return "" if isinstance(value, dict) else f"expected map, got &{{{_printed(value)}}}"
        case Form.LIST:
            return "" if isinstance(value, list) else f"expected list, got &{{{_printed(value)}}}"
        case Form.STRING:
            literal = f"&value.valueUnstructured{{Value:{_literal(value)}}}"
            return "" if isinstance(value, str) else f"expected string, got {literal}"
        case Form.BOOLEAN:
            return "" if isinstance(value, bool) else f"expected boolean, got &{{{_printed(value)}}}"
        case Form.INT32 | Form.INT64:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return "" if is_number else f"expected numeric (int or float), got {_go_type(value)}"
        case Form.QUANTITY | Form.TIME | Form.MICRO_TIME:
            return "" if isinstance(value, _SCALARS) else f"expected any scalar, got &{{{_printed(value)}}}"
    return ""


def _go_type(value: Any) -> str:
    names = {str: "string", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}
    return names.get(type(value), "float64")


def _printed(value: Any) -> str:
    match value:
        case dict():
            return f"map[{' '.join(f'{name}:{_printed(value[name])}' for name in sorted(value))}]"
        case list():
            return f"[{' '.join(map(_printed, value))}]"
        case bool():
            return str(value).lower()
        case None:
            return "<nil>"
    return str(value)


def _literal(value: Any) -> str:
    match value:
        case dict():
            inner = ", ".join(f"{json.dumps(name)}:{_literal(value[name])}" for name in sorted(value))
            return f"map[string]interface {{}}{{{inner}}}"
        case list():
            return f"[]interface {{}}{{{', '.join(map(_literal, value))}}}"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case None:
            return "interface {}(nil)"
    return _printed(value)
