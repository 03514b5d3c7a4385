"""Pods: the defaults and the status that others read, binding, graceful deletion. Their containers, volumes, resources
and scheduling are stored as they come: the sandbox does not validate them.
"""

from collections.abc import Iterable
from typing import Final

from zoneward.kube.names import ZONE_LABEL
from zoneward.kube.validation import FieldError, error
from zoneward.sandbox.server.kinds import Object, ObjectReader
from zoneward.sandbox.server.schema import as_time
from zoneward.sandbox.server.strategies import metadata

SELECTABLE: Final = frozenset({"spec.nodeName", "status.phase", "status.podIP"})
_REGION_LABEL: Final = "topology.kubernetes.io/region"
_OF_DELETION: Final = ("ownerReferences", "deletionTimestamp", "deletionGracePeriodSeconds")
_DEFAULTS: Final = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}


class PodStrategy(metadata.MetadataStrategy):
    has_generation = True
    is_graceful = True

    def default(self, new: Object, old: Object | None = None) -> None:
        spec, before = new.get("spec") or {}, None if old is None else old["spec"]
        new["spec"] = before if before is not None and spec == before else _defaulted(spec)
        status = new.get("status")
        if status and (old is None or status is not old.get("status")):
            new["status"] = _with_address(status)

    def prepare_create(self, new: Object, objects: ObjectReader) -> None:
        new["status"] = {"phase": "Pending"}
        if labels := _node_labels(new["spec"].get("nodeName") or "", objects):
            new["metadata"]["labels"] = (new["metadata"].get("labels") or {}) | labels

    def validate_create(self, new: Object) -> Iterable[FieldError]:
        if not new["spec"].get("containers"):
            yield error("FieldValueRequired", "spec.containers")

    def prepare_update(self, new: Object, old: Object, objects: ObjectReader) -> None:
        new["status"] = old.get("status") or {}
        if (node := new["spec"].get("nodeName")) and not old["spec"].get("nodeName"):
            # What a scheduler's binding does.
            if labels := _node_labels(node, objects):
                new["metadata"]["labels"] = (new["metadata"].get("labels") or {}) | labels
            scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": as_time(objects.now)}
            others = [each for each in new["status"].get("conditions") or () if each.get("type") != "PodScheduled"]
            new["status"] = new["status"] | {"conditions": [*others, scheduled]}

    def validate_update(self, new: Object, old: Object) -> Iterable[FieldError]:
        if old["spec"].get("nodeName") and new["spec"].get("nodeName") != old["spec"]["nodeName"]:
            yield error("FieldValueForbidden", "spec.nodeName", "may not change once it is set")

    def prepare_status(self, new: Object, old: Object, objects: ObjectReader) -> None:
        new["spec"] = old["spec"]
        new["status"] = new.get("status") or {}
        before = old["metadata"]
        if new["metadata"] is not before:
            for field in _OF_DELETION:
                new["metadata"].pop(field, None)
                if field in before:
                    new["metadata"][field] = before[field]

    def is_new_generation(self, new: Object, old: Object) -> bool:
        return new["spec"] is not old["spec"] and new["spec"] != old["spec"]

    def grace(self, thing: Object, wanted: int | None) -> int:
        spec = thing["spec"]
        if not spec.get("nodeName") or (thing.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
            return 0
        period: int = (spec.get("terminationGracePeriodSeconds") or 0) if wanted is None else wanted
        return 1 if period < 0 else period


def pod_fields(thing: Object) -> dict[str, str]:
    """The values that field selectors compare."""
    spec, status = thing.get("spec") or {}, thing.get("status") or {}
    return {
        "spec.nodeName": spec.get("nodeName") or "",
        "status.phase": status.get("phase") or "",
        "status.podIP": status.get("podIP") or "",
    }


def _defaulted(spec: Object) -> Object:
    filled = spec | {name: value for name, value in _DEFAULTS.items() if spec.get(name) in (None, "")}
    for field in ("containers", "initContainers"):
        if filled.get(field):
            filled[field] = [_with_protocols(container) for container in filled[field]]
    return filled


def _with_protocols(container: Object) -> Object:
    """The controller of EndpointSlices finds the port of a name by its protocol, too."""
    ports = container.get("ports") or ()
    if all(port.get("protocol") for port in ports):
        return container
    return container | {"ports": [port | {"protocol": port.get("protocol") or "TCP"} for port in ports]}


def _with_address(status: Object) -> Object:
    """The first of several addresses is also the one that stands alone."""
    addresses, address = status.get("podIPs"), status.get("podIP")
    if address and (not addresses or addresses[0].get("ip") != address):
        return status | {"podIPs": [{"ip": address}]}
    if not address and addresses and addresses[0].get("ip"):
        return status | {"podIP": addresses[0]["ip"]}
    return status


def _node_labels(node: str, objects: ObjectReader) -> dict[str, str]:
    """The labels of its node that a pod gets: zone and region (gate ``PodTopologyLabelsAdmission``)."""
    found = objects.find("nodes", "", node) if node else None
    labels = ((found or {}).get("metadata") or {}).get("labels") or {}
    return {label: labels[label] for label in (_REGION_LABEL, ZONE_LABEL) if label in labels}
