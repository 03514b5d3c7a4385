"""JSON patches (RFC 6902) with the habits of upstream's library: negative indices, lenient replacing and copying."""

import re
from collections.abc import Callable
from typing import Any, Final

from zoneward.sandbox.server.refusals import Refusal, bad_request

LIMIT: Final = 10_000
"""Operations of one patch, as upstream."""
_FIELDS: Final = ("op", "from", "path")


class _UnfitError(Exception):
    """An operation cannot be done. Upstream says no more than that."""


def json_patch(thing: Any, operations: Any) -> Any:
    """What the operations make of ``thing``, which stays as it is. Raises Refusal: 400 for what is no patch at all,
    413 for too many operations, else 422.
    """
    made = thing
    for operation in _judged(operations):
        try:
            made = _OPERATIONS[operation.get("op", "")](made, operation)
        except (_UnfitError, KeyError):
            problem = "the server rejected our request due to an error in our request"
            raise Refusal(422, "Invalid", problem, details={}) from None
    return made


def unknown_in(operations: Any) -> list[str]:
    """One ``json patch unknown field "..."`` for each field that no operation has."""
    return [
        f'json patch unknown field "[{index}].{name}"'
        for index, operation in enumerate(operations or ())
        for name in operation or ()
        if name not in {*_FIELDS, "value"}
    ]


def _judged(operations: Any) -> list[dict[str, Any]]:
    if operations is None:
        return []
    if not isinstance(operations, list):
        raise _undecodable(operations, "value of type []handlers.jsonPatchOp")
    if len(operations) > LIMIT:
        problem = f"The allowed maximum operations in a JSON patch is {LIMIT}, got {len(operations)}"
        raise Refusal(413, "RequestEntityTooLarge", f"Request entity too large: {problem}")
    judged = [{} if operation is None else operation for operation in operations]
    for operation in judged:
        if not isinstance(operation, dict):
            raise _undecodable(operation, "value of type handlers.jsonPatchOp")
        for name in _FIELDS:
            if not isinstance(operation.get(name, ""), str | None):
                raise _undecodable(operation[name], f"struct field jsonPatchOp.{name} of type string")
    return judged


def _undecodable(value: Any, target: str) -> Refusal:
    names = {dict: "object", list: "array", str: "string", bool: "bool"}
    name = names.get(type(value), "number")
    return bad_request(f"error decoding patch: json: cannot unmarshal {name} into Go {target}")


# --- operations -------------------------------------------------------------------------------------------------------


def _add(thing: Any, operation: dict[str, Any]) -> Any:
    return _added(thing, _path(operation, "path"), operation.get("value"))


def _remove(thing: Any, operation: dict[str, Any]) -> Any:
    return _removed(thing, _path(operation, "path"))


def _replace(thing: Any, operation: dict[str, Any]) -> Any:
    value = operation.get("value")
    path = _path(operation, "path")
    if path == "":
        if not isinstance(value, dict | list):
            raise _UnfitError
        return value

    def replaced(container: Any, key: str) -> Any:
        if isinstance(container, dict):
            # Upstream's library does not look whether there was something to replace.
            return container | {key: value}
        items = list(container)
        items[_index(key, len(items))] = value
        return items

    return _changed(thing, path, replaced)


def _move(thing: Any, operation: dict[str, Any]) -> Any:
    source = _path(operation, "from")
    value = _got(thing, source)
    return _added(_removed(thing, source), _path(operation, "path"), value)


def _copy(thing: Any, operation: dict[str, Any]) -> Any:
    return _added(thing, _path(operation, "path"), _got(thing, _path(operation, "from")))


def _test(thing: Any, operation: dict[str, Any]) -> Any:
    path = _path(operation, "path")
    found, wanted = thing if path == "" else _got(thing, path), operation.get("value")
    if found != wanted or isinstance(found, bool) is not isinstance(wanted, bool):
        raise _UnfitError
    return thing


_OPERATIONS: Final[dict[str, Callable[[Any, dict[str, Any]], Any]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


# --- paths ------------------------------------------------------------------------------------------------------------


def _path(operation: dict[str, Any], name: str) -> str:
    path = operation.get(name)
    if path is None:
        raise _UnfitError
    return str(path)


def _steps(path: str) -> list[str]:
    """Upstream drops what stands before the first slash, whatever it is."""
    _, slash, rest = path.partition("/")
    if not slash:
        raise _UnfitError
    return [step.replace("~1", "/").replace("~0", "~") for step in rest.split("/")]


def _changed(thing: Any, path: str, change: Callable[[Any, str], Any]) -> Any:
    """``thing`` with the container that holds the last step changed, and those above it copied."""

    def descend(container: Any, steps: list[str]) -> Any:
        if not isinstance(container, dict | list):
            raise _UnfitError
        if len(steps) == 1:
            return change(container, steps[0])
        inner = descend(_item(container, steps[0]), steps[1:])
        if isinstance(container, dict):
            return container | {steps[0]: inner}
        items = list(container)
        items[_index(steps[0], len(items))] = inner
        return items

    return descend(thing, _steps(path))


def _item(container: Any, key: str) -> Any:
    return container.get(key) if isinstance(container, dict) else container[_index(key, len(container))]


def _got(thing: Any, path: str) -> Any:
    """None for a field that the last container lacks."""
    for step in _steps(path):
        if not isinstance(thing, dict | list):
            raise _UnfitError
        thing = _item(thing, step)
    return thing


def _added(thing: Any, path: str, value: Any) -> Any:
    def added(container: Any, key: str) -> Any:
        if isinstance(container, dict):
            return container | {key: value}
        size = len(container) + 1
        at = len(container) if key == "-" else _index(key, size)
        return [*container[:at], value, *container[at:]]

    return _changed(thing, path, added)


def _removed(thing: Any, path: str) -> Any:
    def removed(container: Any, key: str) -> Any:
        if isinstance(container, dict):
            if key not in container:
                raise _UnfitError
            return {name: each for name, each in container.items() if name != key}
        at = _index(key, len(container))
        return container[:at] + container[at + 1 :]

    return _changed(thing, path, removed)


def _index(key: str, size: int) -> int:
    """Negative ones count from the end."""
    if not re.fullmatch("[+-]?[0-9]+", key, re.ASCII) or not -size <= int(key) < size:
        raise _UnfitError
    return int(key) % size
