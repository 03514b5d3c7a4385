"""The order of an object's fields: that in which upstream writes them, for people read them."""

from typing import Any, Final

Object = dict[str, Any]

_ORDER: Final = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


def in_order(thing: Object) -> Object:
    """The same, with its metadata in order."""
    metadata = thing["metadata"]
    ordered = {name: metadata[name] for name in _ORDER if name in metadata}
    return {
        "kind": thing["kind"],
        "apiVersion": thing["apiVersion"],
        "metadata": ordered | metadata,
        **{name: value for name, value in thing.items() if name not in ("kind", "apiVersion", "metadata")},
    }
