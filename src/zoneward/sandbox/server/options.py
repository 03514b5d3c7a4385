"""What a request asks for beside its object: ``CreateOptions``, ``PatchOptions``, ``DeleteOptions`` and their like."""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast, get_args

from multidict import MultiMapping

from zoneward.kube.formats import quoted
from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.bodies import DELETE_OPTIONS, decoded
from zoneward.sandbox.server.listing import is_true, whole
from zoneward.sandbox.server.managed_fields import manager_of
from zoneward.sandbox.server.refusals import bad_request, options_invalid
from zoneward.sandbox.server.registry import Deletion, Write
from zoneward.sandbox.server.schema import Validation

_LONGEST_MANAGER: Final = 128
_POLICIES: Final = ("Foreground", "Background", "Orphan")
_DELETE_OPTIONS: Final[Mapping[str, tuple[type, str]]] = {
    "kind": (str, "string"),
    "apiVersion": (str, "string"),
    "gracePeriodSeconds": (int, "int64"),
    "preconditions": (dict, "v1.Preconditions"),
    "orphanDependents": (bool, "bool"),
    "propagationPolicy": (str, "v1.DeletionPropagation"),
    "dryRun": (list, "[]string"),
}
"""Fields, their types here and in Go."""


def validation_of(query: Mapping[str, str]) -> Validation:
    """What is to be done about unknown fields; `write_options` has judged it."""
    return cast(Validation, query.get("fieldValidation") or "Warn")


def write_options(query: MultiMapping[str], *, user_agent: str, subresource: str, what: str) -> Write:
    """``what``: the API's name of these options. Raises Refusal."""
    errors: list[FieldError] = []
    dry_run = query.getall("dryRun", [])
    errors += _dry_run_errors(dry_run)
    asked = query.get("fieldManager", "")
    if len(asked) > _LONGEST_MANAGER:
        problem = f"Too long: may not be more than {_LONGEST_MANAGER} bytes"
        errors.append(FieldError("FieldValueTooLong", "fieldManager", problem))
    for index, character in enumerate(asked):
        if not character.isprintable():
            problem = f"invalid character U+{ord(character):04X} (at position {index})"
            errors.append(FieldError("FieldValueInvalid", "fieldManager", f"Invalid value: {quoted(asked)}: {problem}"))
    validation = validation_of(query)
    if validation not in get_args(Validation):
        problem = f'Unsupported value: "{validation}": supported values: "", "Ignore", "Strict", "Warn"'
        errors.append(FieldError("FieldValueNotSupported", "fieldValidation", problem))
    if errors:
        raise options_invalid(what, errors)
    manager = manager_of(field_manager=asked, user_agent=user_agent)
    return Write(manager=manager, subresource=subresource, is_dry_run=bool(dry_run))


def deletion_options(query: MultiMapping[str], body: bytes, content_type: str) -> Deletion:
    """Of the body, or of the query where there is none. Raises Refusal."""
    asked: dict[str, Any] = (
        _checked(decoded(body, content_type, api="v1", kind=DELETE_OPTIONS)) if body else _of_query(query)
    )
    errors = _dry_run_errors(asked.get("dryRun") or [])
    policy, orphan = asked.get("propagationPolicy"), asked.get("orphanDependents")
    if policy is not None and orphan is not None:
        problem = f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set'
        errors.append(FieldError("FieldValueInvalid", "propagationPolicy", problem))
    if policy is not None and policy not in _POLICIES:
        known = ", ".join(f'"{each}"' for each in (*_POLICIES, "nil"))
        problem = f'Unsupported value: "{policy}": supported values: {known}'
        errors.append(FieldError("FieldValueNotSupported", "propagationPolicy", problem))
    if errors:
        raise options_invalid("DeleteOptions", errors)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    preconditions = asked.get("preconditions") or {}
    return Deletion(
        grace=asked.get("gracePeriodSeconds"),
        propagation=policy,
        uid=preconditions.get("uid"),
        version=preconditions.get("resourceVersion"),
        is_dry_run=bool(asked.get("dryRun")),
    )


def _dry_run_errors(asked: list[str]) -> list[FieldError]:
    if not asked or asked == ["All"]:
        return []
    listed = " ".join(f'"{each}"' for each in asked)
    return [FieldError("FieldValueNotSupported", "dryRun", f'Unsupported value: [{listed}]: supported values: "All"')]


def _checked(asked: Any) -> dict[str, Any]:
    if not isinstance(asked, dict):
        raise bad_request(f"expected DeleteOptions, got {type(asked).__name__}")
    if (kind := asked.get("kind") or DELETE_OPTIONS) != DELETE_OPTIONS:
        version = asked.get("apiVersion") or "v1"
        raise bad_request(f'no kind "{kind}" is registered for version "{version}" in scheme "sandbox"')
    known = {name: asked[name] for name in _DELETE_OPTIONS if asked.get(name) is not None}
    for name, value in known.items():
        type_, told = _DELETE_OPTIONS[name]
        if not isinstance(value, type_) or (type_ is int and isinstance(value, bool)):
            got = {str: "string", dict: "object", list: "array", bool: "bool"}.get(type(value), "number")
            raise bad_request(f"json: cannot unmarshal {got} into Go struct field DeleteOptions.{name} of type {told}")
    return known


def _of_query(query: MultiMapping[str]) -> dict[str, Any]:
    read: dict[str, Callable[[str], Any]] = {
        "gracePeriodSeconds": whole,
        "orphanDependents": is_true,
        "propagationPolicy": str,
    }
    asked = {name: each(query[name]) for name, each in read.items() if query.get(name)}
    return asked | {"dryRun": query.getall("dryRun", [])}
