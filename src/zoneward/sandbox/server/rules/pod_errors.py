"""Causes of a refusal by short names: a pod has hundreds of them. Words are those of `zoneward.kube.validation`."""

from collections.abc import Iterable
from functools import partial
from typing import Final

from zoneward.kube.validation import FieldError, error, not_supported
from zoneward.kube.validation import invalid as all_invalid

__all__ = [
    "all_invalid",
    "duplicate",
    "forbidden",
    "internal",
    "invalid",
    "not_found",
    "required",
    "too_long",
    "unsupported",
]

required: Final = partial(error, "FieldValueRequired")
forbidden: Final = partial(error, "FieldValueForbidden")
internal: Final = partial(error, "InternalError")


def invalid(field: str, value: object, detail: str) -> FieldError:
    return error("FieldValueInvalid", field, detail, value=value)


def duplicate(field: str, value: object) -> FieldError:
    return error("FieldValueDuplicate", field, value=value)


def unsupported(field: str, value: str, supported: Iterable[str]) -> FieldError:
    return not_supported(field, value, supported)


def not_found(field: str, value: object) -> FieldError:
    return error("FieldValueNotFound", field, value=value)


def too_long(field: str, limit: int) -> FieldError:
    return error("FieldValueTooLong", field, f"may not be more than {limit} bytes")
