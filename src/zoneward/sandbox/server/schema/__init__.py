"""The fields of the sandbox's kinds, and how JSON becomes an object that has them, as Kubernetes' decoder does it.

The data, ``sandbox/openapi``, is read when the first object is: importing this costs nothing.
"""

from zoneward.sandbox.server.schema.decoding import (
    MisfitError,
    Validation,
    decode,
    decoded_as,
    empty_of,
    restored_as,
)
from zoneward.sandbox.server.schema.syntax import duplicate_fields, read_json
from zoneward.sandbox.server.schema.types import Field, Form, Type, type_of

__all__ = [
    "Field",
    "Form",
    "MisfitError",
    "Type",
    "Validation",
    "decode",
    "decoded_as",
    "duplicate_fields",
    "empty_of",
    "read_json",
    "restored_as",
    "type_of",
]
