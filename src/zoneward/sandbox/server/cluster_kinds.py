"""Nodes, Pods, Leases and Namespaces: defaults, admission, the way they end, validation (kube-apiserver v1.37).

Containers, volumes, resources and scheduling of Pods, and taints, resources and address ranges of Nodes are stored as
they come: the sandbox does not validate them.
"""

from collections.abc import Iterator
from typing import Final

from zoneward.kube import formats
from zoneward.kube.names import REGION_LABEL, ZONE_LABEL
from zoneward.kube.validation import FieldError, error, invalid
from zoneward.sandbox.server.kinds import FindObject, Kind, Object, same_names

# --- Nodes ------------------------------------------------------------------------------------------------------------

_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class NodeKind(Kind):
    """A new Node keeps the status that was sent, as a kubelet may register with it."""

    kind, plural, short_names = "Node", "nodes", ("no",)
    selectable = same_names("spec.unschedulable")
    has_status = True
    is_namespaced = False

    def default(self, new: Object, old: Object | None = None) -> None:
        status = new.get("status") or {}
        if status.get("capacity") and not status.get("allocatable"):
            new["status"] = status | {"allocatable": dict(status["capacity"])}

    def prepare_create(self, new: Object, find: FindObject) -> None:
        # A controller takes this taint away from a Node that is ready.
        taints = (new.get("spec") or {}).get("taints") or []
        if all(taint.get("key") != _NOT_READY["key"] for taint in taints):
            new["spec"] = (new.get("spec") or {}) | {"taints": [*taints, dict(_NOT_READY)]}


# --- Pods -------------------------------------------------------------------------------------------------------------

_POD_DEFAULTS: Final = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}


class PodKind(Kind):
    kind, plural, short_names, categories = "Pod", "pods", ("po",), ("all",)
    selectable = same_names("spec.nodeName", "status.phase", "status.podIP")
    has_status = True
    has_generation = True
    is_graceful = True

    def default(self, new: Object, old: Object | None = None) -> None:
        spec, before = new.get("spec") or {}, None if old is None else old["spec"]
        new["spec"] = before if before is not None and spec == before else _defaulted_pod(spec)
        status = new.get("status") or {}
        address, first = status.get("podIP"), (status.get("podIPs") or [{}])[0].get("ip")
        # The first address is also in the singular field.
        if address and address != first:
            new["status"] = status | {"podIPs": [{"ip": address}]}
        elif first and not address:
            new["status"] = status | {"podIP": first}

    def prepare_create(self, new: Object, find: FindObject) -> None:
        new["status"] = {"phase": "Pending"}
        _label_by_node(new, find)

    def validate_create(self, new: Object) -> Iterator[FieldError]:
        if not new["spec"].get("containers"):
            yield error("FieldValueRequired", "spec.containers")

    def prepare_update(self, new: Object, old: Object, find: FindObject) -> None:
        super().prepare_update(new, old, find)
        if new["spec"].get("nodeName") and not old["spec"].get("nodeName"):
            _label_by_node(new, find)

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        if old["spec"].get("nodeName") and new["spec"].get("nodeName") != old["spec"]["nodeName"]:
            yield error("FieldValueForbidden", "spec.nodeName", "may not change once it is set")

    def is_new_generation(self, new: Object, old: Object) -> bool:
        return new["spec"] is not old["spec"] and new["spec"] != old["spec"]

    def grace(self, obj: Object, wanted: int | None) -> int:
        spec = obj["spec"]
        if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
            return 0
        period: int = (spec.get("terminationGracePeriodSeconds") or 0) if wanted is None else wanted
        return 1 if period < 0 else period


def _defaulted_pod(spec: Object) -> Object:
    filled = spec | {name: value for name, value in _POD_DEFAULTS.items() if spec.get(name) in (None, "")}
    for field in ("containers", "initContainers"):
        if filled.get(field):
            # The controller of EndpointSlices finds the port of a name by its protocol, too.
            filled[field] = [
                item | {"ports": [{"protocol": "TCP"} | port for port in item["ports"]]} if item.get("ports") else item
                for item in filled[field]
            ]
    return filled


def _label_by_node(pod: Object, find: FindObject) -> None:
    """A pod gets the zone and the region of its node (gate ``PodTopologyLabelsAdmission``)."""
    node = find("nodes", "", pod["spec"].get("nodeName") or "") or {"metadata": {}}
    known = node["metadata"].get("labels") or {}
    if labels := {name: known[name] for name in (REGION_LABEL, ZONE_LABEL) if name in known}:
        pod["metadata"]["labels"] = (pod["metadata"].get("labels") or {}) | labels


# --- Leases -----------------------------------------------------------------------------------------------------------


class LeaseKind(Kind):
    kind, plural, group = "Lease", "leases", "coordination.k8s.io"
    is_created_by_update = True
    needs_version = True

    def validate_create(self, new: Object) -> Iterator[FieldError]:
        spec = new.get("spec") or {}
        if (duration := spec.get("leaseDurationSeconds")) is not None and duration <= 0:
            yield from invalid("spec.leaseDurationSeconds", duration, ["must be greater than 0"])
        if (transitions := spec.get("leaseTransitions")) is not None and transitions < 0:
            yield from invalid("spec.leaseTransitions", transitions, ["must be greater than or equal to 0"])


# --- Namespaces -------------------------------------------------------------------------------------------------------

_NAME_LABEL: Final = "kubernetes.io/metadata.name"


class NamespaceKind(Kind):
    """The garbage collector removes the finalizer in ``spec`` when the namespace is empty."""

    kind, plural, short_names = "Namespace", "namespaces", ("ns",)
    selectable = same_names("status.phase")
    has_status = True
    is_namespaced = False
    name_problems = staticmethod(formats.label_problems)
    protected = frozenset({"default", "kube-system", "kube-public"})

    def default(self, new: Object, old: Object | None = None) -> None:
        name, labels = new["metadata"].get("name"), new["metadata"].get("labels") or {}
        if name and labels.get(_NAME_LABEL) != name:
            new["metadata"] = new["metadata"] | {"labels": labels | {_NAME_LABEL: name}}
        if not (new.get("status") or {}).get("phase"):
            new["status"] = (new.get("status") or {}) | {"phase": "Active"}

    def prepare_create(self, new: Object, find: FindObject) -> None:
        new["spec"], new["status"] = {"finalizers": ["kubernetes"]}, {"phase": "Active"}

    def prepare_update(self, new: Object, old: Object, find: FindObject) -> None:
        new["spec"], new["status"] = old["spec"], old["status"]

    def begin_to_end(self, new: Object) -> None:
        new["status"] = (new.get("status") or {}) | {"phase": "Terminating"}
        new["metadata"].pop("deletionGracePeriodSeconds", None)  # of all kinds only this one gets none

    def holds(self, obj: Object) -> bool:
        return bool((obj.get("spec") or {}).get("finalizers")) or super().holds(obj)
