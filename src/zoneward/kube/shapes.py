"""Which fields a type reads, so that values can be walked without building the objects they are for."""

from typing import get_args

import msgspec
from msgspec.structs import fields

FieldTree = dict[str, "FieldTree | None"]
"""The fields that are read of a mapping, or of each mapping in a list, and what is read of them; None: all of it."""


def field_tree(annotation: object) -> FieldTree | None:
    """The fields of the struct that a type is or holds, by their names on the wire."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return {field.encode_name: field_tree(field.type) for field in fields(annotation)}
    return next((shape for part in get_args(annotation) if (shape := field_tree(part)) is not None), None)


def merge_trees(one: FieldTree | None, other: FieldTree | None) -> FieldTree | None:
    """What is read where a mapping may be of either shape."""
    if one is None or other is None:
        return None
    return one | {name: merge_trees(one[name], shape) if name in one else shape for name, shape in other.items()}
