"""Validation of ``metadata`` of every kind (upstream's ``k8s.io/apimachinery``, v1.36), but for finalizers.

Upstream validates an update twice, by the rules of all kinds and by those of the kind, and so reports most causes
twice. Metadata that an update leaves alone is not validated again: that would cost more than all other rules of a Pod.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from zoneward.kube import formats
from zoneward.kube.objects import ObjectMeta
from zoneward.kube.validation import (
    FieldError,
    fixed_metadata_errors,
    free_metadata_errors,
    immutable,
    new_metadata_errors,
)
from zoneward.sandbox.server.kinds import Object, Strategy

_FREE: Final = ("labels", "annotations", "ownerReferences")
_NAMES: Final = ("name", "generateName", "namespace")
_GRACE: Final = "deletionGracePeriodSeconds"
_FIXED: Final = ("generation", "name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", _GRACE)


class MetadataStrategy(Strategy):
    """Validates metadata as most kinds do. ``name_problems`` is the rule for names of the kind."""

    name_problems: Callable[[str], Iterable[str]] = staticmethod(formats.subdomain_problems)
    is_namespaced: bool = True

    def metadata_errors(self, new: Object, *, old: Object | None = None) -> Iterable[FieldError]:
        """``old``: the stored object, in an update; equal metadata is not validated again."""
        metadata = new["metadata"]
        if old is not None and _are_same(metadata, old["metadata"], _NAMES + _FREE):
            return ()
        read = msgspec.convert(metadata, ObjectMeta)
        return new_metadata_errors(read, name_problems=self.name_problems, is_namespaced=self.is_namespaced)

    def metadata_update_errors(self, new: Object, old: Object) -> Iterable[FieldError]:
        return (*common_update_errors(new, old), *changed_metadata_errors(new, old))


def common_update_errors(new: Object, old: Object) -> list[FieldError]:
    """Errors that upstream's registry finds for every kind; `Registry` has filled in uid, times and grace before."""
    errors = changed_metadata_errors(new, old)
    if errors and not _are_same(new["metadata"], old["metadata"], _FREE):
        errors = [*free_metadata_errors(msgspec.convert(new["metadata"], ObjectMeta)), *errors]
    return errors


def changed_metadata_errors(new: Object, old: Object) -> list[FieldError]:
    """``ValidateObjectMetaUpdate``."""
    metadata, before = new["metadata"], old["metadata"]
    errors: list[FieldError] = []
    if not (_are_same(metadata, before, _FIXED) and metadata.get("resourceVersion")):
        errors += fixed_metadata_errors(msgspec.convert(metadata, ObjectMeta), msgspec.convert(before, ObjectMeta))
        errors += immutable(f"metadata.{_GRACE}", metadata.get(_GRACE), before.get(_GRACE))
    if not _are_same(metadata, before, _FREE):
        errors += free_metadata_errors(msgspec.convert(metadata, ObjectMeta))
    return errors


def _are_same(new: Mapping[str, Any], old: Mapping[str, Any], fields: tuple[str, ...]) -> bool:
    return all(new.get(field) == old.get(field) for field in fields)
