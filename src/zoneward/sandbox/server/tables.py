"""Objects as a ``Table``, or their metadata alone, if clients ask for ``as=Table``, ``as=PartialObjectMetadata``
or ``as=PartialObjectMetadataList``.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, cast, get_args

from zoneward.kube.formats import quoted
from zoneward.sandbox.server.columns import pods
from zoneward.sandbox.server.kinds import Column, Kind, Object
from zoneward.sandbox.server.refusals import bad_request

Inclusion = Literal["None", "Metadata", "Object"]
"""How much of an object comes with its row."""
Version = Literal["v1", "v1beta1"]
"""Of ``meta.k8s.io``."""


def inclusion(text: str) -> Inclusion:
    """What the parameter ``includeObject`` says. Raises Refusal."""
    if not text:
        return "Metadata"
    if text not in get_args(Inclusion):
        problem = f"includeObject: Invalid value: {quoted(text)}: must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(f"Unable to convert to Table as requested: {problem}")
    return cast(Inclusion, text)


def table(
    kind: Kind,
    things: Iterable[Object],
    *,
    metadata: Object,
    include: Inclusion = "Metadata",
    with_columns: bool = True,
    now: datetime,
    version: Version = "v1",
) -> Object:
    """A row for each of ``things``, which are not copied.

    ``metadata`` is that of the list: resourceVersion, continue, remainingItemCount. ``table_of_one`` is for anything
    but a list.
    """
    has_conditions = kind.kind == "Pod"
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": list(map(_definition, kind.columns)) if with_columns else None,
        "rows": [
            {"cells": kind.cells(thing, now)}
            | ({"conditions": told} if has_conditions and (told := pods.conditions(thing)) else {})
            | {"object": _included(thing, include, version)}
            for thing in things
        ],
    }


def table_of_one(
    kind: Kind,
    thing: Object,
    *,
    include: Inclusion = "Metadata",
    with_columns: bool = True,
    now: datetime,
    version: Version = "v1",
) -> Object:
    """Of a single object, or of a watch event's: in a stream only the first event's table has columns. A bookmark's
    object may have nothing but its metadata.
    """
    metadata = {"resourceVersion": thing["metadata"].get("resourceVersion", "")}
    return table(kind, [thing], metadata=metadata, include=include, with_columns=with_columns, now=now, version=version)


def partial(thing: Object, *, version: Version = "v1") -> Object:
    """A ``PartialObjectMetadata``. The metadata is not copied."""
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": thing["metadata"]}


def partial_list(things: Iterable[Object], *, metadata: Object, version: Version = "v1") -> Object:
    """A ``PartialObjectMetadataList``; ``metadata`` is that of the list."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "items": [partial(thing, version=version) for thing in things],
    }


def _included(thing: Object, include: Inclusion, version: Version) -> Object | None:
    match include:
        case "None":
            return None
        case "Metadata":
            return partial(thing, version=version)
        case "Object":
            return thing


def _definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }
