"""The kubectl commands of a fix, and what the scheduler must do after them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from zoneward.advice.changed_cluster import ServicePods
from zoneward.advice.cluster_abilities import kubernetes_minor
from zoneward.advice.dropped_traffic import CLUSTER_POLICY
from zoneward.advice.fixes import Fix
from zoneward.advice.json_value import JsonValue
from zoneward.advice.pod_limits import runs, unselected_pods
from zoneward.advice.service_input import (
    UNKNOWN_WORKLOAD,
    Change,
    ServiceInput,
    Workload,
    merged,
    template_hash_label,
)
from zoneward.advice.shell_commands import kubectl
from zoneward.kube import names
from zoneward.kube.adoption_marks import effective_selector
from zoneward.kube.objects import Service
from zoneward.kube.workload_objects import StatefulSet, replicas_of
from zoneward.routing.phrases import counted, listed
from zoneward.slices.overlay import is_selected

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
"""A ReplicaSet removes the Pods with the lowest cost first."""
INSTALL_OVERLAY: Final = "install the overlay first, once for the cluster: docs/overlay.md"
_KEDA_PREFIX: Final = "keda-hpa-"
"""KEDA gives an autoscaler the name of its ScaledObject after it, and undoes changes of the autoscaler."""
_MOST_NAMED: Final = 20
"""Pods that a command names; with more, only their number is lowered."""


class ObjectPatch(JsonValue, frozen=True, gc=False):
    """Fields of one object with their new values, as kustomize takes them. Null removes a field."""

    api_version: str
    kind: str
    namespace: str
    name: str
    fields: dict[str, Any]

    def merged(self, other: "ObjectPatch") -> "ObjectPatch":
        """Both patches of the same object; ``other`` wins in the fields that both have."""
        return replace(self, fields=merged(self.fields, other.fields, keeps_null=True))


@dataclass(frozen=True, slots=True)
class FixSteps:
    """``commands`` to type, in order, and ``notes``: what follows from them, and what they cannot force.

    ``patches`` have the same changes as far as a repository of manifests can hold them: of Services and of workloads
    whose names and numbers of replicas are known.
    """

    commands: tuple[str, ...]
    notes: tuple[str, ...] = ()
    patches: tuple[ObjectPatch, ...] = ()


def steps_of(fix: Fix, given: ServiceInput, address_type: str) -> FixSteps:
    """How to apply a fix to the cluster that was given."""
    change, namespace = fix.change, given.service.metadata.namespace
    commands: list[str] = []
    notes: list[str] = []
    patches: list[ObjectPatch] = []
    if change.pods:
        pods = _pod_steps(fix, given, address_type)
        commands += pods.commands
        notes += pods.notes
        patches += pods.patches
    for zone in sorted(set(change.zone_of_node.values())):
        nodes = sorted(node for node, chosen in change.zone_of_node.items() if chosen == zone)
        # An empty label counts as none, except for kubectl.
        labelled = any(
            names.ZONE_LABEL in (node.metadata.labels or {}) for node in given.nodes if node.metadata.name in nodes
        )
        words = ("label", *(["--overwrite"] if labelled else []))
        commands.append(kubectl(*words, names=("node", *nodes, f"{names.ZONE_LABEL}={zone}")))
    if change.zone_of_node:
        notes.append(_label_note(fix))
    if change.service_patch:
        about = ("service", given.service.metadata.name)
        patch = _json(change.service_patch)
        commands.append(kubectl("patch", "--type=merge", "-p", patch, names=about, namespace=namespace))
        patches.append(ObjectPatch("v1", "Service", namespace, about[1], dict(change.service_patch)))
        distribution = (change.service_patch.get("spec") or {}).get("trafficDistribution")
        if distribution == names.PREFER_SAME_ZONE and kubernetes_minor(given.nodes) is None:
            notes.append(f"before Kubernetes 1.34, write {names.PREFER_CLOSE}: it means the same")
        if change.service_patch == CLUSTER_POLICY:
            notes.append("or keep the policy and run a Pod on every node, as a DaemonSet does")
    if "overlay" in fix.needs:
        service, state = fix.family.service, fix.family.cluster_state
        if not state.overlay_in_use:
            notes.append(INSTALL_OVERLAY)
        if not is_selected(service, None, state.configuration):
            marked = ("service", service.metadata.name, f"{names.OVERLAY_MARK}={names.OVERLAY_ENABLED}")
            commands.append(kubectl("annotate", "--overwrite", names=marked, namespace=namespace))
    if not all(commands):
        return FixSteps((), (*notes, "there is no command: the name of an object begins with a dash"))
    return FixSteps(tuple(commands), tuple(notes), tuple(patches))


def describe_fix(fix: Fix) -> str:
    """``2 more Pods in eu-1b``, ``trafficDistribution: PreferSameZone``."""
    change = fix.change
    match fix.kind:
        case "label-node":
            nodes = tuple(sorted(change.zone_of_node))
            where = "in any zone" if fix.among else f"in {', '.join(sorted(set(change.zone_of_node.values())))}"
            return f"zone label for {counted(len(nodes), 'node')} {where}: {listed(nodes)}"
        case "setting":
            return f"{describe_setting(fix)}{f', and {_spread(fix)}' if change.pods else ''}"
        case "threshold":
            return fix.threshold or ""
        case "spread":
            return _spread(fix)
        case "move-pods":
            removed = {zone: -pods for zone, pods in change.pods.items() if pods < 0}
            added = {zone: pods for zone, pods in change.pods.items() if pods > 0}
            return f"move {counted(change.moved_pods, 'Pod')} out of {_by_zone(removed)} to {_by_zone(added)}"
    word = "more" if fix.pods > 0 else "fewer"
    pods = {zone: abs(pods) for zone, pods in change.pods.items()}
    where = "in whichever zone" if fix.wherever else f"in {_by_zone(pods)}"
    return f"{counted(abs(fix.pods), f'{word} Pod')} {where}"


def describe_setting(fix: Fix) -> str:
    """``trafficDistribution: PreferClose``; without the Pods that it needs."""
    spec = fix.change.service_patch.get("spec") or {}
    for field in ("internalTrafficPolicy", "trafficDistribution"):
        if spec.get(field):
            return f"{field}: {spec[field]}"
    annotations = (fix.change.service_patch.get("metadata") or {}).get("annotations") or {}
    return ", ".join(f"{name.rpartition('/')[2]}: {value}" for name, value in annotations.items() if value is not None)


def _spread(fix: Fix) -> str:
    more = f"{counted(fix.pods, 'more Pod')}, " if fix.pods > 0 else ""
    return f"{more}Pods spread evenly over the zones"


def _by_zone(pods: Mapping[str, int]) -> str:
    """The zone, or each zone with its number of Pods."""
    return ", ".join((zone or "no zone") + (f" ({count})" if len(pods) > 1 else "") for zone, count in pods.items())


def located_after(change: Change, given: ServiceInput, address_type: str) -> dict[str, int]:
    """Pods by zone with a change of their numbers."""
    before = given.replicas(address_type).by_zone
    counts = {zone: before.get(zone, 0) + change.pods.get(zone, 0) for zone in sorted({*before, *change.pods})}
    return {zone: count for zone, count in counts.items() if zone or count}


def _pod_steps(fix: Fix, given: ServiceInput, address_type: str) -> FixSteps:
    change, namespace = fix.change, given.service.metadata.namespace
    workload = fix.workload or UNKNOWN_WORKLOAD
    notes = list(_workload_notes(fix, given, address_type))
    scale = _scale_steps(fix, given) if change.more_pods else FixSteps(())
    if fix.wherever or fix.kind == "remove-pods":
        marks: list[str] = []
        gone = [] if fix.wherever else _removed_pods(fix, given)
        where = f"the Pods to remove are those {_in_zones(change.pods)}"
        if fix.wherever:
            where = "in whichever zones the Pods are: only their number counts"
        elif 0 < len(gone) <= _MOST_NAMED:
            marked = ("pod", *gone, f"{DELETION_COST}=-1000")
            marks.append(kubectl("annotate", "--overwrite", names=marked, namespace=namespace))
            where = "the ReplicaSet then removes these Pods first"
        return FixSteps((*marks, *scale.commands), (*notes, *scale.notes, where), scale.patches)
    counts = located_after(change, given, address_type)
    wanted = [counts.get(zone, 0) for zone in given.cluster_state.demand.zones]
    skew = max(1, max(wanted) - min(wanted))
    constraint = _constraint(given.service, workload, skew)
    patch = _spread_patch(constraint)
    typed = patch
    replicas = _new_replicas(fix, given)
    kind = "strategic" if workload.is_built_in else "merge"
    if kind == "merge":
        notes.append(f"this patch replaces all topology spread constraints of {workload.resource}: add those to keep")
    elif _spreads_over_zones(workload):
        # Merging keeps the selector of another such constraint; where there are two, both would become the same.
        typed = _spread_patch({"$patch": "delete", "topologyKey": names.ZONE_LABEL}, constraint)
        notes.append(f"the command replaces the topology spread constraints of {workload.resource} over zones")
    if change.more_pods and isinstance(replicas, int) and workload.autoscaler is None:
        patch, typed = patch | {"replicas": replicas}, typed | {"replicas": replicas}
        scale = FixSteps(())
    words = ("patch", f"--type={kind}", "-p", _json({"spec": typed}))
    command = kubectl(*words, names=(workload.resource,), namespace=namespace)
    placed = ", ".join(f"{count} in {zone or 'no zone'}" for zone, count in counts.items())
    if fix.kind == "spread" or fix.kind == "setting":
        notes.append(f"the scheduler then spreads new Pods evenly, as in {placed}")
    elif skew == 1 and len(set(wanted)) == 1:
        notes.append(f"the scheduler then has to place {placed}")
    else:
        notes.append(f"the scheduler then has to place {placed}: maxSkew {skew} allows that, and does not force it")
    return FixSteps(
        (command, *scale.commands), (*scale.notes, *notes), (*_workload_patch(fix, given, patch), *scale.patches)
    )


def _spread_patch(*constraints: dict[str, Any]) -> dict[str, Any]:
    return {"template": {"spec": {"topologySpreadConstraints": list(constraints)}}}


def _spreads_over_zones(workload: Workload) -> bool:
    if workload.object is None:
        return False
    constraints = workload.object.spec.template.spec.topology_spread_constraints or ()
    return any(constraint.topology_key == names.ZONE_LABEL for constraint in constraints)


def _workload_patch(fix: Fix, given: ServiceInput, fields: dict[str, Any]) -> Iterator[ObjectPatch]:
    workload = fix.workload
    if workload is not None:
        yield ObjectPatch(
            workload.api_version, workload.kind, given.service.metadata.namespace, workload.name, {"spec": fields}
        )


def _removed_pods(fix: Fix, given: ServiceInput) -> list[str]:
    """The names of Pods of the workload; empty where no Pods are known."""
    own = [pod for pod in given.pods if given.is_of_workload(pod)]
    if not own:
        return []
    left = set(map(id, ServicePods(given.service, own, nodes=given.nodes).changed(fix.change.pods)))
    return [pod.metadata.name for pod in own if id(pod) not in left]


def _workload_notes(fix: Fix, given: ServiceInput, address_type: str) -> Iterator[str]:
    workload = fix.workload
    if workload is None:
        yield f"the input does not say what owns the Pods: replace {UNKNOWN_WORKLOAD.resource} by its name"
        return
    total = sum(given.replicas(address_type).by_zone.values())
    own = sum(runs(pod) and given.is_of_workload(pod) for pod in given.pods)
    if own < total:
        yield f"{workload.resource} has {own} of the {total} Pods; others stay as they are"
    if fix.may_be_bound:
        yield "not checked: whether volumes of these Pods can be mounted in other zones"
    template = workload.object
    if isinstance(template, StatefulSet) and template.spec.volume_claim_templates and fix.pods > 0:
        yield "each new Pod gets its own volumes, which start empty"
    unselected = unselected_pods(given)
    if unselected:
        yield (
            f"the Service does not select {counted(unselected, 'Pod')} of {workload.resource}: "
            f"this fix needs a Pod template with the labels that it selects"
        )


def _scale_steps(fix: Fix, given: ServiceInput) -> FixSteps:
    """More or fewer Pods: by the autoscaler where there is one, which would undo a new number of replicas."""
    workload, replicas = fix.workload or UNKNOWN_WORKLOAD, _new_replicas(fix, given)
    namespace, autoscaler = given.service.metadata.namespace, workload.autoscaler
    if autoscaler is None:
        scale = kubectl("scale", f"--replicas={replicas}", names=(workload.resource,), namespace=namespace)
        scaled = () if isinstance(replicas, str) else tuple(_workload_patch(fix, given, {"replicas": replicas}))
        return FixSteps((scale,), tuple(_number_notes(replicas, workload, given)), scaled)
    api_version, kind, own_name = "autoscaling/v2", "HorizontalPodAutoscaler", autoscaler.metadata.name
    name, least, most = f"horizontalpodautoscaler/{own_name}", "minReplicas", "maxReplicas"
    if own_name.startswith(_KEDA_PREFIX):
        api_version, kind, own_name = "keda.sh/v1alpha1", "ScaledObject", own_name.removeprefix(_KEDA_PREFIX)
        name, least, most = f"scaledobject.keda.sh/{own_name}", "minReplicaCount", "maxReplicaCount"
    bounds: dict[str, int | str] = {least: replicas}
    if isinstance(replicas, str) or replicas > (autoscaler.spec.max_replicas or 0):
        bounds[most] = replicas
    patch = kubectl("patch", "--type=merge", "-p", _json({"spec": bounds}), names=(name,), namespace=namespace)
    why = f"{name} would undo kubectl scale: it decides how many replicas {workload.resource} has"
    patched = ObjectPatch(api_version, kind, namespace, own_name, {"spec": bounds})
    patches = (patched,) if isinstance(replicas, int) else ()
    return FixSteps((patch,), (why, *_number_notes(replicas, workload, given)), patches)


def _new_replicas(fix: Fix, given: ServiceInput) -> int | str:
    """All replicas of the workload, or ``N+5`` where the input does not have their present number."""
    workload = fix.workload.object if fix.workload is not None else None
    if workload is None or given.is_changed:
        return f"N{fix.pods:+d}"
    return max(0, replicas_of(workload) + fix.pods)


def _number_notes(replicas: int | str, workload: Workload, given: ServiceInput) -> Iterator[str]:
    if isinstance(replicas, str):
        where = "in the cluster that the options describe" if given.is_changed else "now, which the input does not have"
        yield f"N is the number of replicas of {workload.resource} {where}"


def _constraint(service: Service, workload: Workload, skew: int) -> dict[str, Any]:
    revision = template_hash_label(workload.kind)
    # Argo Rollouts writes the revision into the selector, and with the constraint there is a new one.
    labels = {key: value for key, value in (effective_selector(service) or {}).items() if key != revision}
    constraint: dict[str, Any] = {
        "maxSkew": skew,
        "topologyKey": names.ZONE_LABEL,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }
    if revision is not None:
        # Otherwise Pods of the previous revision count during a rollout, and the Pods end up uneven.
        constraint["matchLabelKeys"] = [revision]
    return constraint


def _label_note(fix: Fix) -> str:
    if fix.among:
        return f"use the real zone of the node: the fix works with each of {', '.join(fix.among)}"
    zones = ", ".join(f"{node} in {zone}" for node, zone in sorted(fix.change.zone_of_node.items()))
    return f"only if these are the real zones: the fix is verified with {zones}, not with every zone"


def _in_zones(pods: Mapping[str, int]) -> str:
    return ", ".join(f"{abs(count)} in {zone or 'no zone'}" for zone, count in sorted(pods.items()))


def _json(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"))
