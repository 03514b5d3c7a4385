"""Nodes, Leases and Namespaces: defaults, admission, validation (kube-apiserver v1.36).

Taints, resources and address ranges of Nodes are not validated. The finalizer in the ``spec`` of a Namespace keeps it,
``Terminating``, until it is empty.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from zoneward.kube import formats
from zoneward.kube.validation import FieldError, invalid
from zoneward.sandbox.server.kinds import Object, ObjectReader
from zoneward.sandbox.server.strategies import metadata

_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
"""The taint that every new Node gets; a controller takes it away from one that is ready."""
NODE_SELECTABLE: Final = frozenset({"spec.unschedulable"})


def node_fields(node: Object) -> dict[str, str]:
    """The values that field selectors compare."""
    return {"spec.unschedulable": "true" if (node.get("spec") or {}).get("unschedulable") else "false"}


class NodeStrategy(metadata.MetadataStrategy):
    is_namespaced = False

    def default(self, new: Object, old: Object | None = None) -> None:
        spec, status = new.get("spec") or {}, new.get("status") or {}
        first, every = spec.get("podCIDR"), spec.get("podCIDRs")
        if first and (not every or every[0] != first):
            new["spec"] = spec | {"podCIDRs": [first]}
        elif every and not first:
            new["spec"] = spec | {"podCIDR": every[0]}
        if status.get("capacity") and not status.get("allocatable"):
            new["status"] = status | {"allocatable": dict(status["capacity"])}

    def prepare_create(self, new: Object, objects: ObjectReader) -> None:
        # Unlike that of other kinds, a new Node's status is kept: a kubelet may register with it.
        spec = new.get("spec") or {}
        taints = spec.get("taints") or []
        if all((taint.get("key"), taint.get("effect")) != tuple(_NOT_READY.values()) for taint in taints):
            new["spec"] = spec | {"taints": [*taints, dict(_NOT_READY)]}

    def prepare_update(self, new: Object, old: Object, objects: ObjectReader) -> None:
        new["status"] = old.get("status") or {}

    def prepare_status(self, new: Object, old: Object, objects: ObjectReader) -> None:
        new["spec"] = old.get("spec") or {}


# --- Leases -----------------------------------------------------------------------------------------------------------

_GATED: Final = frozenset({"strategy", "preferredHolder"})


class LeaseStrategy(metadata.MetadataStrategy):
    any_finalizer = True

    def prepare_create(self, new: Object, objects: ObjectReader) -> None:
        _drop_gated(new)

    def prepare_update(self, new: Object, old: Object, objects: ObjectReader) -> None:
        _drop_gated(new)

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


# --- Namespaces -------------------------------------------------------------------------------------------------------

NAME_LABEL: Final = "kubernetes.io/metadata.name"
FINALIZER: Final = "kubernetes"
"""Stands for the content: the garbage collector removes it when the namespace is empty."""
ACTIVE: Final = "Active"
TERMINATING: Final = "Terminating"
PROTECTED: Final = frozenset({"default", "kube-system", "kube-public"})
"""Upstream forbids to delete them: ``this namespace may not be deleted``."""
NAMESPACE_SELECTABLE: Final = frozenset({"status.phase"})


def namespace_fields(namespace: Object) -> dict[str, str]:
    """The values that field selectors compare."""
    return {"status.phase": (namespace.get("status") or {}).get("phase") or ""}


class NamespaceStrategy(metadata.MetadataStrategy):
    is_namespaced = False
    name_problems = staticmethod(metadata.label_name_problems)

    def default(self, new: Object, old: Object | None = None) -> None:
        name, labels = new["metadata"].get("name"), new["metadata"].get("labels") or {}
        if name and labels.get(NAME_LABEL) != name:
            new["metadata"] = new["metadata"] | {"labels": labels | {NAME_LABEL: name}}
        status = new.get("status") or {}
        if not status.get("phase"):
            new["status"] = status | {"phase": ACTIVE}

    def prepare_create(self, new: Object, objects: ObjectReader) -> None:
        finalizers = (new.get("spec") or {}).get("finalizers") or []
        if FINALIZER not in finalizers:
            finalizers = [*finalizers, FINALIZER]
        new["spec"] = (new.get("spec") or {}) | {"finalizers": finalizers}
        new["status"] = {"phase": ACTIVE}

    def prepare_update(self, new: Object, old: Object, objects: ObjectReader) -> None:
        new["spec"], new["status"] = old.get("spec") or {}, old.get("status") or {}

    def prepare_status(self, new: Object, old: Object, objects: ObjectReader) -> None:
        new["spec"] = old.get("spec") or {}

    def prepare_finalize(self, new: Object, old: Object) -> None:
        """For the subresource ``finalize``, that changes ``spec.finalizers``."""
        finalizers = (new.get("spec") or {}).get("finalizers")
        new["spec"] = {"finalizers": finalizers} if finalizers else {}
        new["status"] = old.get("status") or {}

    def metadata_update_errors(self, new: Object, old: Object) -> Iterable[FieldError]:
        return metadata.common_update_errors(new, old)

    def validate_create(self, new: Object) -> Iterator[FieldError]:
        for finalizer in (new.get("spec") or {}).get("finalizers") or ():
            yield from _finalizer(finalizer, "spec.finalizers")

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        yield from metadata.metadata_errors(new, name_problems=self.name_problems, is_namespaced=False, old=old)
        yield from metadata.changed_metadata_errors(new, old)

    def validate_status(self, new: Object, old: Object) -> Iterator[FieldError]:
        yield from metadata.changed_metadata_errors(new, old)
        is_ending = bool(new["metadata"].get("deletionTimestamp"))
        wanted, state = (TERMINATING, "not empty") if is_ending else (ACTIVE, "empty")
        if (phase := new["status"]["phase"]) != wanted:
            problem = f"may only be '{wanted}' if `deletionTimestamp` is {state}"
            yield from invalid("status.Phase", phase, [problem])

    def validate_finalize(self, new: Object, old: Object) -> Iterator[FieldError]:
        yield from metadata.changed_metadata_errors(new, old)
        for index, finalizer in enumerate(new["spec"].get("finalizers") or ()):
            yield from _finalizer(finalizer, f"spec.finalizers[{index}]")

    # --- going --------------------------------------------------------------------------------------------------------

    def protects(self, name: str) -> str | None:
        return "this namespace may not be deleted" if name in PROTECTED else None

    def holds(self, thing: Object) -> bool:
        return bool((thing.get("spec") or {}).get("finalizers"))

    def begin_to_end(self, new: Object) -> None:
        new["status"] = (new.get("status") or {}) | {"phase": TERMINATING}
        new["metadata"].pop("deletionGracePeriodSeconds", None)  # of all kinds only this one gets none


def _finalizer(finalizer: str, field: str) -> Iterator[FieldError]:
    yield from invalid(field, finalizer, formats.qualified_name_problems(finalizer))
    if "/" not in finalizer and finalizer not in metadata.STANDARD_FINALIZERS:
        yield from invalid(field, finalizer, [metadata.UNQUALIFIED])
