"""What to type for a fix: kubectl commands, and what the scheduler then has to do.

Names come from objects that anybody may have written, so every word is quoted for a shell.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from zoneward.advice.fixes import Fix
from zoneward.advice.service_input import Change, ServiceInput
from zoneward.advice.workloads import POD_TEMPLATE_HASH, Workload
from zoneward.kube import names
from zoneward.kube.adoption_marks import effective_selector
from zoneward.kube.objects import Service
from zoneward.kube.safe_text import printable

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
"""A ReplicaSet removes the Pods with the lowest cost first."""
UNKNOWN_WORKLOAD: Final = Workload("Deployment", "NAME", "apps/v1", 0)
"""Stands for the owner of the Pods where the input does not say who that is."""
_MOST_NAMED: Final = 20
"""Pods that a command names; with more, only their number is lowered."""


@dataclass(frozen=True, slots=True)
class FixSteps:
    """``commands`` to type, in order, and what to know: what follows, and what they cannot force."""

    commands: tuple[str, ...]
    notes: tuple[str, ...] = ()


def steps_of(fix: Fix, given: ServiceInput, address_type: str) -> FixSteps:
    """How to apply a fix to the cluster that was given."""
    change, namespace = fix.change, given.service.metadata.namespace
    commands: list[str] = []
    notes: list[str] = []
    if change.pods:
        pods = _pod_steps(fix, given, address_type)
        commands += pods.commands
        notes += pods.notes
    for zone in sorted(set(change.zone_of_node.values())):
        nodes = sorted(node for node, chosen in change.zone_of_node.items() if chosen == zone)
        commands.append(_kubectl("label", "node", *nodes, f"{names.ZONE_LABEL}={zone}"))
    if change.zone_of_node:
        notes.append(_label_note(fix))
    if change.service_patch:
        words = ("patch", "service", given.service.metadata.name, "--type=merge", "-p", _json(change.service_patch))
        commands.append(_kubectl("-n", namespace, *words))
        if (change.service_patch.get("spec") or {}).get("trafficDistribution") == names.PREFER_SAME_ZONE:
            notes.append(f"before Kubernetes 1.34, write {names.PREFER_CLOSE}: it means the same")
    return FixSteps(tuple(commands), tuple(notes))


def located_after(change: Change, given: ServiceInput, address_type: str) -> dict[str, int]:
    """Pods by zone with a change of their numbers."""
    before = given.replicas(address_type).by_zone
    counts = {zone: before.get(zone, 0) + change.pods.get(zone, 0) for zone in sorted({*before, *change.pods})}
    return {zone: number for zone, number in counts.items() if zone or number}


def _pod_steps(fix: Fix, given: ServiceInput, address_type: str) -> FixSteps:
    change, namespace = fix.change, given.service.metadata.namespace
    workload = fix.workload or UNKNOWN_WORKLOAD
    notes = []
    if fix.workload is None:
        notes.append("the input does not say what owns the Pods: put its name in place of deployment/NAME")
    # Other workloads may have Pods of the same Service.
    total = sum(given.replicas(address_type).by_zone.values())
    replicas = max(0, (fix.workload.pods if fix.workload else total) + change.more_pods)
    if fix.workload is not None and fix.workload.pods < total:
        notes.append(f"{fix.workload.resource} has {fix.workload.pods} of the {total} Pods; others stay as they are")
    scale = _kubectl("-n", namespace, "scale", workload.resource, f"--replicas={replicas}")
    if fix.wherever:
        return FixSteps((scale,), (*notes, "in whichever zones the Pods are: only their number counts"))
    if fix.kind == "remove-pods":
        kept = {id(pod) for pod in given.changed(change, address_type=address_type).pods}
        gone = [pod.metadata.name for pod in given.pods if id(pod) not in kept]
        if not gone or len(gone) > _MOST_NAMED:
            return FixSteps((scale,), (*notes, f"the Pods that go have to be those {_in_zones(change.pods)}"))
        mark = _kubectl("-n", namespace, "annotate", "pod", *gone, f"{DELETION_COST}=-1000")
        return FixSteps((mark, scale), (*notes, "the ReplicaSet then removes these Pods first"))
    counts = located_after(change, given, address_type)
    wanted = [counts.get(zone, 0) for zone in given.cluster_state.demand.zones]
    skew = max(1, max(wanted) - min(wanted))
    patch: dict[str, Any] = {
        "template": {"spec": {"topologySpreadConstraints": [_constraint(given.service, workload, skew)]}}
    }
    if change.more_pods:
        patch["replicas"] = replicas
    kind = "strategic" if workload.is_built_in else "merge"
    command = _kubectl("-n", namespace, "patch", workload.resource, f"--type={kind}", "-p", _json({"spec": patch}))
    placed = ", ".join(f"{number} in {zone or 'no zone'}" for zone, number in counts.items())
    if fix.kind == "spread" or fix.kind == "setting":
        notes.append(f"the scheduler then spreads new Pods evenly, as in {placed}")
    elif skew == 1 and len(set(wanted)) == 1:
        notes.append(f"the scheduler then has to place {placed}")
    else:
        notes.append(f"the scheduler then has to place {placed}: maxSkew {skew} allows that, and does not force it")
    return FixSteps((command,), tuple(notes))


def _constraint(service: Service, workload: Workload, skew: int) -> dict[str, Any]:
    constraint: dict[str, Any] = {
        "maxSkew": skew,
        "topologyKey": names.ZONE_LABEL,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": dict(effective_selector(service) or {})},
    }
    if workload.kind == "Deployment":
        # Else the Pods of the revision before count during a rollout, and what is left in the end is not even.
        constraint["matchLabelKeys"] = [POD_TEMPLATE_HASH]
    return constraint


def _label_note(fix: Fix) -> str:
    if fix.among:
        return f"write the zone in which the node really is: it works with each of {', '.join(fix.among)}"
    zones = ", ".join(f"{node} in {zone}" for node, zone in sorted(fix.change.zone_of_node.items()))
    return f"only if it is true: it works with {zones}, and not with every zone"


def _in_zones(pods: Mapping[str, int]) -> str:
    return ", ".join(f"{abs(number)} in {zone or 'no zone'}" for zone, number in sorted(pods.items()))


def _kubectl(*words: str) -> str:
    return shlex.join(("kubectl", *map(printable, words)))


def _json(document: Any) -> str:
    return json.dumps(_plain(document), separators=(",", ":"))


def _plain(document: Any) -> Any:
    return {key: _plain(value) for key, value in document.items()} if isinstance(document, Mapping) else document
