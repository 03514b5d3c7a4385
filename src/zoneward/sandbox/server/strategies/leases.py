"""Leases (upstream's ``pkg/apis/coordination/validation``, v1.36; its gate ``CoordinatedLeaderElection`` is off)."""

from collections.abc import Iterable, Iterator
from typing import Final

from zoneward.kube.validation import FieldError, invalid
from zoneward.sandbox.server.kinds import Object, ObjectReader, Strategy
from zoneward.sandbox.server.strategies import metadata

_GATED: Final = frozenset({"strategy", "preferredHolder"})


class LeaseStrategy(Strategy):
    name_problems = staticmethod(metadata.subdomain_name_problems)

    def prepare_create(self, new: Object, surroundings: ObjectReader) -> None:
        _drop_gated(new)

    def prepare_update(self, new: Object, old: Object, surroundings: ObjectReader) -> None:
        _drop_gated(new)

    def metadata_errors(self, new: Object) -> Iterable[FieldError]:
        return metadata.metadata_errors(new, name_problems=self.name_problems, is_namespaced=True, any_finalizer=True)

    def metadata_update_errors(self, new: Object, old: Object) -> Iterable[FieldError]:
        changed = metadata.changed_metadata_errors(new, old, any_finalizer=True)
        return (*metadata.common_update_errors(new, old), *changed)

    def validate_create(self, new: Object) -> Iterator[FieldError]:
        spec = new.get("spec") or {}
        if (duration := spec.get("leaseDurationSeconds")) is not None and duration <= 0:
            yield from invalid("spec.leaseDurationSeconds", duration, ["must be greater than 0"])
        if (transitions := spec.get("leaseTransitions")) is not None and transitions < 0:
            yield from invalid("spec.leaseTransitions", transitions, ["must be greater than or equal to 0"])

    def validate_update(self, new: Object, old: Object) -> Iterable[FieldError]:
        return self.validate_create(new)


def _drop_gated(new: Object) -> None:
    spec = new.get("spec") or {}
    if not _GATED.isdisjoint(spec):
        new["spec"] = {name: value for name, value in spec.items() if name not in _GATED}
