"""Validation of ``metadata`` of every kind (upstream's ``k8s.io/apimachinery``, v1.36).

Upstream validates an update twice, by the rules of all kinds and by those of the kind, and so reports most causes
twice. Metadata that an update leaves alone is not validated again: that would cost more than all other rules of a Pod.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from zoneward.kube import formats
from zoneward.kube.objects import ObjectMeta
from zoneward.kube.validation import (
    FieldError,
    error,
    fixed_metadata_errors,
    free_metadata_errors,
    immutable,
    invalid,
    new_metadata_errors,
)
from zoneward.sandbox.server.kinds import Object, Strategy

Problems = Callable[[str], Iterable[str]]
"""Problems of a name."""

STANDARD_FINALIZERS: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
"""The ones that need no domain."""
UNQUALIFIED: Final = "name is neither a standard finalizer name nor is it fully qualified"

_FREE: Final = ("labels", "annotations", "ownerReferences", "finalizers")
_NAMES: Final = ("name", "generateName", "namespace")
_FIXED: Final = (
    "generation",
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)

# --- names ------------------------------------------------------------------------------------------------------------


def subdomain_name_problems(text: str, *, is_prefix: bool = False) -> Iterator[str]:
    """The name of a Pod, a Node, a Lease, an EndpointSlice."""
    return formats.subdomain_problems(_stem(text) if is_prefix else text)


def label_name_problems(text: str, *, is_prefix: bool = False) -> Iterator[str]:
    """The name of a Namespace."""
    return formats.label_problems(_stem(text) if is_prefix else text)


def path_segment_problems(text: str, *, is_prefix: bool = False) -> Iterator[str]:
    """A name that can be part of a URL, and is free otherwise: that of an Event of ``v1``."""
    if not is_prefix and text in {".", ".."}:
        yield f"may not be '{text}'"
        return
    for character in "/%":
        if character in text:
            yield f"may not contain '{character}'"


def _stem(prefix: str) -> str:
    """A prefix without the dash at its end; upstream drops two characters for the one it adds."""
    return f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


# --- whole metadata ---------------------------------------------------------------------------------------------------


def metadata_errors(
    new: Object,
    *,
    name_problems: Problems,
    is_namespaced: bool,
    old: Object | None = None,
    any_finalizer: bool = False,
) -> tuple[FieldError, ...]:
    """Errors in the metadata of a new object.

    ``old`` is the stored object, in an update: equal metadata is not validated again. ``any_finalizer``: this
    kind's may be without a domain.
    """
    metadata = new["metadata"]
    if old is not None and _are_same(metadata, old["metadata"], _NAMES + _FREE):
        return ()
    finalizers = metadata.get("finalizers") or ()
    read = msgspec.convert(metadata, ObjectMeta)
    return (
        *new_metadata_errors(read, name_problems=name_problems, is_namespaced=is_namespaced),
        *_finalizers(finalizers),
        *(() if any_finalizer else _unqualified(finalizers)),
    )


def metadata_update_errors(new: Object, old: Object) -> tuple[FieldError, ...]:
    """Errors in the metadata of an update, by the rules of all kinds and of most kinds (Pod, Node, Service)."""
    return (*common_update_errors(new, old), *changed_metadata_errors(new, old))


def common_update_errors(new: Object, old: Object) -> tuple[FieldError, ...]:
    """Errors that upstream's registry finds for every kind; `Registry` has filled in uid, times and grace before."""
    metadata, before = new["metadata"], old["metadata"]
    errors: list[FieldError] = []
    if not _are_same(metadata, before, _FREE):
        errors += free_metadata_errors(msgspec.convert(metadata, ObjectMeta))
        errors += _finalizers(metadata.get("finalizers") or ())
    prefix = metadata.get("generateName")
    if prefix and prefix != before.get("generateName"):
        errors += invalid("metadata.generateName", prefix, path_segment_problems(prefix, is_prefix=True))
    return (*errors, *changed_metadata_errors(new, old, any_finalizer=True))


def changed_metadata_errors(new: Object, old: Object, *, any_finalizer: bool = False) -> tuple[FieldError, ...]:
    """``ValidateObjectMetaUpdate``."""
    metadata, before = new["metadata"], old["metadata"]
    is_fixed = _are_same(metadata, before, _FIXED) and metadata.get("resourceVersion")
    is_free = _are_same(metadata, before, _FREE)
    if is_fixed and is_free:
        return ()
    errors: list[FieldError] = []
    finalizers = metadata.get("finalizers") or ()
    if before.get("deletionTimestamp"):
        errors += _late_finalizers(finalizers, before.get("finalizers") or ())
    read = msgspec.convert(metadata, ObjectMeta)
    if not is_fixed:
        errors += fixed_metadata_errors(read, msgspec.convert(before, ObjectMeta))
        errors += immutable("metadata.deletionGracePeriodSeconds", *map(_grace, (metadata, before)))
    if not is_free:
        errors += free_metadata_errors(read)
        errors += () if any_finalizer else _unqualified(finalizers)
    return tuple(errors)


def _are_same(new: Mapping[str, Any], old: Mapping[str, Any], fields: tuple[str, ...]) -> bool:
    return tuple(map(new.get, fields)) == tuple(map(old.get, fields))


def _grace(metadata: Mapping[str, Any]) -> int | None:
    seconds: int | None = metadata.get("deletionGracePeriodSeconds")
    return seconds


# --- finalizers -------------------------------------------------------------------------------------------------------


def _finalizers(finalizers: Iterable[str]) -> Iterator[FieldError]:
    for finalizer in finalizers:
        yield from invalid("metadata.finalizers", finalizer, formats.qualified_name_problems(finalizer))
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        problem = "finalizer orphan and foregroundDeletion cannot be both set"
        yield from invalid("metadata.finalizers", finalizers, [problem])


def _unqualified(finalizers: Iterable[str]) -> Iterator[FieldError]:
    return (
        each
        for index, finalizer in enumerate(finalizers)
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS
        for each in invalid(f"metadata.finalizers[{index}]", finalizer, [UNQUALIFIED])
    )


def _late_finalizers(new: Iterable[str], old: Iterable[str]) -> Iterator[FieldError]:
    if late := sorted(set(new) - set(old)):
        listed = ", ".join(map(formats.quoted, late))
        rule = "no new finalizers can be added if the object is being deleted"
        detail = f"{rule}, found new finalizers []string{{{listed}}}"
        yield error("FieldValueForbidden", "metadata.finalizers", detail)


# --- strategies -------------------------------------------------------------------------------------------------------


class MetadataStrategy(Strategy):
    """Validates metadata as most kinds do. ``name_problems`` is the rule for names of the kind."""

    name_problems: Callable[..., Iterable[str]] = staticmethod(subdomain_name_problems)
    is_namespaced: bool = True
    any_finalizer: bool = False

    def metadata_errors(self, new: Object) -> Iterable[FieldError]:
        return metadata_errors(
            new,
            name_problems=self.name_problems,
            is_namespaced=self.is_namespaced,
            any_finalizer=self.any_finalizer,
        )

    def metadata_update_errors(self, new: Object, old: Object) -> Iterable[FieldError]:
        return metadata_update_errors(new, old)
