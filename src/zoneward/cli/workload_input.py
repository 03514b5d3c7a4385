"""Objects of a snapshot that only `check` and `explain` read, such as workloads, and why some are not known."""

from collections.abc import Iterator
from typing import Final

from zoneward.advice.findings.codes import Need
from zoneward.advice.workloads import WorkloadObjects
from zoneward.kube.workload_objects import plural
from zoneward.snapshots.cluster_snapshot import Snapshot

_KINDS: Final[tuple[tuple[Need, tuple[str, ...]], ...]] = (
    ("workloads", ("Deployment", "StatefulSet")),
    ("autoscalers", ("HorizontalPodAutoscaler",)),
    ("volumes", ("PersistentVolumeClaim", "PersistentVolume")),
    ("Leases", ("Lease",)),
    ("policies", ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")),
)


def read_workload_objects(snapshot: Snapshot) -> WorkloadObjects:
    """The workload objects of a snapshot, without Leases."""
    return WorkloadObjects.of(snapshot.workload_objects, lacking=dict(_lacking(snapshot)))


def _lacking(snapshot: Snapshot) -> Iterator[tuple[Need, str]]:
    present = {type(workload).__name__ for workload in snapshot.workload_objects}
    for need, kinds in _KINDS:
        unread = next((kind for kind in kinds if kind in snapshot.unread_workloads), None)
        if unread is not None:
            yield need, f"{plural(unread)} cannot be read ({snapshot.unread_workloads[unread]})"
        elif not snapshot.lists_workloads and not present.intersection(kinds):
            yield need, f"there are no {' and no '.join(map(plural, kinds))} in the snapshot"
