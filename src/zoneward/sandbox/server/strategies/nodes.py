"""Nodes: defaults, and what admission adds. Taints, resources and address ranges are stored as they come."""

from collections.abc import Iterable
from typing import Final

from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.kinds import Object, ObjectReader, Strategy
from zoneward.sandbox.server.strategies import metadata

_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
"""The taint that every new Node gets; a controller takes it away from one that is ready."""
SELECTABLE: Final = frozenset({"spec.unschedulable"})


def node_fields(node: Object) -> dict[str, str]:
    """What field selectors may ask for."""
    return {"spec.unschedulable": "true" if (node.get("spec") or {}).get("unschedulable") else "false"}


class NodeStrategy(Strategy):
    def default(self, new: Object, old: Object | None = None) -> None:
        spec, status = new.get("spec") or {}, new.get("status") or {}
        first, every = spec.get("podCIDR"), spec.get("podCIDRs")
        if first and (not every or every[0] != first):
            new["spec"] = spec | {"podCIDRs": [first]}
        elif every and not first:
            new["spec"] = spec | {"podCIDR": every[0]}
        if status.get("capacity") and not status.get("allocatable"):
            new["status"] = status | {"allocatable": dict(status["capacity"])}

    def prepare_create(self, new: Object, surroundings: ObjectReader) -> None:
        # Unlike that of other kinds, a new Node's status is kept: a kubelet may register with it.
        spec = new.get("spec") or {}
        taints = spec.get("taints") or []
        if all((taint.get("key"), taint.get("effect")) != tuple(_NOT_READY.values()) for taint in taints):
            new["spec"] = spec | {"taints": [*taints, dict(_NOT_READY)]}

    def prepare_update(self, new: Object, old: Object, surroundings: ObjectReader) -> None:
        new["status"] = old.get("status") or {}

    def prepare_status(self, new: Object, old: Object, surroundings: ObjectReader) -> None:
        new["spec"] = old.get("spec") or {}

    def metadata_errors(self, new: Object) -> Iterable[FieldError]:
        return metadata.metadata_errors(new, name_problems=metadata.subdomain_name_problems, is_namespaced=False)

    def metadata_update_errors(self, new: Object, old: Object) -> Iterable[FieldError]:
        return metadata.metadata_update_errors(new, old)
