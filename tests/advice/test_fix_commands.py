import json
import shlex
from typing import Any

import pytest
from msgspec.structs import replace
from tests.advice.findings.viewing import a_deployment, an_autoscaler
from tests.advice.inputs import input_of, owned
from tests.builders.structs import a_node, a_pod, a_service, nodes_in, pods_in
from tests.clusters import Cluster

from zoneward.advice.fix_commands import FixSteps, ObjectPatch, steps_of
from zoneward.advice.fixes import find_fixes
from zoneward.advice.pod_limits import pod_limits
from zoneward.kube.objects import OwnerReference
from zoneward.kube.workload_objects import TopologySpreadConstraint, WorkloadObject

ALIKE = nodes_in({"a": 4, "b": 4, "c": 4})
ELEVEN = Cluster(service=a_service("Auto"), nodes=ALIKE, pods=owned(pods_in({"a": 5, "b": 6})))
"""One Pod more, and every zone has enough for Auto."""
NOBODY_IN_C = Cluster(
    service=a_service(distribution="PreferSameZone"), nodes=ALIKE, pods=owned(pods_in({"a": 3, "b": 3}))
)


def steps(cluster: Cluster, kind: str, *objects: WorkloadObject, **more: Any) -> FixSteps:
    given = input_of(cluster, *objects, **more)
    (fix,) = [fix for fix in find_fixes(given, "IPv4") if fix.kind == kind]
    return steps_of(fix, given, "IPv4")


def test_pods_in_zones_need_a_spread_constraint() -> None:
    (command,), notes = (fix_steps := steps(NOBODY_IN_C, "spread")).commands, fix_steps.notes
    *words, patch = (split := shlex.split(command))[:-2]
    about = split[-2:]
    assert words == ["kubectl", "-n", "shop", "patch", "--type=strategic", "-p"]
    assert about == ["--", "deployment/cart"]
    assert json.loads(patch) == {
        "spec": {
            "template": {
                "spec": {
                    "topologySpreadConstraints": [
                        {
                            "maxSkew": 1,
                            "topologyKey": "topology.kubernetes.io/zone",
                            "whenUnsatisfiable": "DoNotSchedule",
                            "labelSelector": {"matchLabels": {"app": "cart"}},
                            "matchLabelKeys": ["pod-template-hash"],
                        }
                    ]
                }
            }
        }
    }
    assert notes == ("the scheduler then spreads new Pods evenly, as in 2 in a, 2 in b, 2 in c",)


def test_note_says_that_skew_does_not_force_a_placement() -> None:
    demand = nodes_in({"a": 60, "b": 20, "c": 20})
    pods = owned(pods_in({"a": 4, "b": 3, "c": 3}))
    fix_steps = steps(Cluster(service=a_service(distribution="PreferSameZone"), nodes=demand, pods=pods), "move-pods")
    assert (
        json.loads(shlex.split(fix_steps.commands[0])[-3])["spec"]["template"]["spec"]["topologySpreadConstraints"][0][
            "maxSkew"
        ]
        == 4
    )
    assert fix_steps.notes[-1].endswith("place 6 in a, 2 in b, 2 in c: maxSkew 4 allows that, and does not force it")


def test_note_says_that_a_merge_patch_replaces_other_constraints() -> None:
    """API servers merge lists of custom resources as a whole."""
    owner = OwnerReference(api_version="argoproj.io/v1alpha1", kind="Rollout", name="cart", uid="1", controller=True)
    pods = tuple(
        replace(pod, metadata=replace(pod.metadata, owner_references=(owner,)))
        for pod in pods_in({"a": 3, "b": 3, "c": 0})
    )
    cluster = Cluster(
        service=a_service(distribution="PreferSameZone"), nodes=nodes_in({"a": 4, "b": 4, "c": 4}), pods=pods
    )
    fix_steps = steps(cluster, "spread")
    assert "--type=merge" in fix_steps.commands[0]
    assert any(note.startswith("this patch replaces all topology spread constraints") for note in fix_steps.notes)


def test_command_replaces_the_constraints_of_zones_and_a_kustomize_patch_adds_one() -> None:
    """A strategic merge would keep the selector of the other constraint, and make two with the same key alike."""
    other = TopologySpreadConstraint(topology_key="topology.kubernetes.io/zone")
    deployment = a_deployment(replicas=6)
    spec = replace(deployment.spec.template.spec, topology_spread_constraints=(other,))
    template = replace(deployment.spec.template, spec=spec)
    deployment = replace(deployment, spec=replace(deployment.spec, template=template))
    fix_steps = steps(NOBODY_IN_C, "spread", deployment)
    removed, added = constraints_of(json.loads(shlex.split(fix_steps.commands[0])[-3])["spec"])
    assert removed == {"$patch": "delete", "topologyKey": "topology.kubernetes.io/zone"}
    assert fix_steps.notes[0] == "the command replaces the topology spread constraints of deployment/cart over zones"
    # Kustomize has both keys of a constraint, and removes nothing by one of them.
    (patch,) = fix_steps.patches
    assert constraints_of(patch.fields["spec"]) == [added]


def test_constraint_does_not_select_the_revision_that_it_ends() -> None:
    """Argo Rollouts keeps the revision in the selector of the Service."""
    label = "rollouts-pod-template-hash"
    pods = owned(pods_in({"a": 3, "b": 3, "c": 0}), "ReplicaSet", "cart-7f", **{label: "7f"})
    service = a_service(distribution="PreferSameZone", selector={"app": "cart", label: "7f"})
    fix_steps = steps(Cluster(service=service, nodes=ALIKE, pods=pods), "spread")
    assert fix_steps.commands[0].endswith(" -- rollout.argoproj.io/cart")
    (constraint,) = constraints_of(json.loads(shlex.split(fix_steps.commands[0])[-3])["spec"])
    assert constraint["labelSelector"] == {"matchLabels": {"app": "cart"}}
    assert constraint["matchLabelKeys"] == [label]


def constraints_of(spec: Any) -> Any:
    return spec["template"]["spec"]["topologySpreadConstraints"]


def test_deployment_is_scaled_if_only_the_number_counts() -> None:
    fix_steps = steps(ELEVEN, "add-pods", a_deployment(replicas=11))
    assert fix_steps.commands == ("kubectl -n shop scale --replicas=12 -- deployment/cart",)
    assert fix_steps.notes == ("in whichever zones the Pods are: only their number counts",)


def test_pods_to_remove_get_a_deletion_cost() -> None:
    demand = nodes_in({"a": 10, "b": 45, "c": 45})
    pods = owned(pods_in({"a": 4, "b": 2, "c": 2}))
    cluster = Cluster(service=a_service(distribution="PreferSameZone"), nodes=demand, pods=pods)
    mark, scale = steps(cluster, "remove-pods", a_deployment(replicas=8)).commands
    cost = "controller.kubernetes.io/pod-deletion-cost=-1000"
    assert mark == f"kubectl -n shop annotate --overwrite -- pod a-0001 a-0002 a-0003 {cost}"
    assert scale == "kubectl -n shop scale --replicas=5 -- deployment/cart"


def test_note_says_that_the_owner_is_unknown() -> None:
    fix_steps = steps(Cluster(service=a_service("Auto"), nodes=ALIKE, pods=pods_in({"a": 5, "b": 6})), "add-pods")
    assert fix_steps.commands == ("kubectl -n shop scale --replicas=N+1 -- deployment/NAME",)
    assert fix_steps.notes[0].startswith("the input does not say what owns the Pods")


@pytest.mark.parametrize(
    ("node", "label", "commands"),
    [
        ("node-lost", None, ("kubectl label -- node node-lost topology.kubernetes.io/zone=a",)),
        ("node-lost", "", ("kubectl label --overwrite -- node node-lost topology.kubernetes.io/zone=a",)),
        ("--all", None, ()),
    ],
    ids=["no label", "an empty label is overwritten", "a name like an option is in no command"],
)
def test_zone_label_comes_with_a_warning(node: str, label: str | None, commands: tuple[str, ...]) -> None:
    pods = pods_in({"a": 4, "b": 4, "c": 4})
    cluster = Cluster(service=a_service("Auto"), nodes=(*ALIKE, a_node(node, zone=label)), pods=pods)
    fix_steps = steps(cluster, "label-node")
    assert fix_steps.commands == commands
    assert "real zone" in fix_steps.notes[0]


CANARY = owned(pods_in({"a": 1, "b": 1}), track="canary")
"""Two of the twelve Pods of a Deployment: those that the Service selects."""
OTHERS = owned(tuple(a_pod(f"other-{index}", "node-a") for index in range(10)))
CANARY_CLUSTER = Cluster(
    service=a_service("Auto", selector={"app": "cart", "track": "canary"}), nodes=ALIKE, pods=CANARY
)


def test_workload_with_unselected_pods_is_scaled_by_its_replicas() -> None:
    labels = {"app": "cart", "track": "canary"}
    more = steps(CANARY_CLUSTER, "add-pods", a_deployment(replicas=12, labels=labels), others=OTHERS)
    assert more.commands == ("kubectl -n shop scale --replicas=13 -- deployment/cart",)


def test_command_without_workload_has_the_difference() -> None:
    fix_steps = steps(CANARY_CLUSTER, "add-pods", others=OTHERS)
    assert fix_steps.commands == ("kubectl -n shop scale --replicas=N+1 -- deployment/cart",)
    unselected, replicas, _ = fix_steps.notes
    assert unselected.startswith("the Service does not select 10 Pods of deployment/cart: this fix needs")
    assert replicas == "N is the number of replicas of deployment/cart now, which the input does not have"
    spread = steps(CANARY_CLUSTER, "spread", others=OTHERS)
    patch, scale = spread.commands
    assert "replicas" not in json.loads(shlex.split(patch)[-3])["spec"]
    assert scale == fix_steps.commands[0]


def test_no_fix_adds_pods_that_the_service_would_not_select() -> None:
    given = input_of(CANARY_CLUSTER, a_deployment(replicas=12), others=OTHERS)
    assert not [fix for fix in find_fixes(given, "IPv4") if fix.change.pods]
    (reason,) = pod_limits(given, "IPv4").reasons
    assert reason.startswith("the Pod template of deployment/cart does not have the labels that the Service selects")


def test_replicas_come_from_the_spec() -> None:
    (scale,) = steps(Cluster(service=a_service("Auto"), nodes=ALIKE, pods=owned(pods_in({"a": 1, "b": 1}))),
                     "add-pods", a_deployment(replicas=None)).commands  # fmt: skip
    assert "--replicas=2" in scale, "the default of the API is 1"


def test_changed_cluster_has_no_known_total() -> None:
    fix_steps = steps(ELEVEN, "add-pods", a_deployment(replicas=2), is_changed=True)
    assert fix_steps.commands == ("kubectl -n shop scale --replicas=N+1 -- deployment/cart",)
    assert fix_steps.notes[0].endswith("in the cluster that the options describe")


def test_fix_sets_bounds_of_the_autoscaler() -> None:
    given = input_of(ELEVEN, a_deployment(replicas=11), an_autoscaler())
    kinds = {fix.kind: steps_of(fix, given, "IPv4") for fix in find_fixes(given, "IPv4")}
    (command,) = kinds["add-pods"].commands
    *words, patch, _, about = shlex.split(command)
    assert (words[3], about) == ("patch", "horizontalpodautoscaler/scaler")
    assert json.loads(patch) == {"spec": {"minReplicas": 12, "maxReplicas": 12}}
    assert kinds["add-pods"].notes[0].startswith("horizontalpodautoscaler/scaler would undo kubectl scale")
    assert "remove-pods" not in kinds
    (reason,) = pod_limits(given, "IPv4").reasons
    assert reason.endswith("sets the replicas of deployment/cart: no fix removes Pods")
    roomy = an_autoscaler()
    roomy = replace(roomy, spec=replace(roomy.spec, max_replicas=20))
    (command,) = steps(ELEVEN, "add-pods", a_deployment(replicas=11), roomy).commands
    assert json.loads(shlex.split(command)[-3]) == {"spec": {"minReplicas": 12}}
    (command,) = steps(ELEVEN, "add-pods", a_deployment(replicas=11), an_autoscaler(name="other")).commands
    assert "scale" in shlex.split(command)


def test_fix_sets_bounds_of_the_scaled_object_of_keda() -> None:
    """KEDA undoes changes of the autoscaler that it makes."""
    autoscaler = an_autoscaler()
    autoscaler = replace(autoscaler, metadata=replace(autoscaler.metadata, name="keda-hpa-cart"))
    fix_steps = steps(ELEVEN, "add-pods", a_deployment(replicas=11), autoscaler)
    fields = {"spec": {"minReplicaCount": 12, "maxReplicaCount": 12}}
    *words, patch, _, about = shlex.split(fix_steps.commands[0])
    assert (words[3], about, json.loads(patch)) == ("patch", "scaledobject.keda.sh/cart", fields)
    assert fix_steps.notes[0].startswith("scaledobject.keda.sh/cart would undo kubectl scale")
    assert fix_steps.patches == (ObjectPatch("keda.sh/v1alpha1", "ScaledObject", "shop", "cart", fields),)


def test_pods_of_other_workloads_stay() -> None:
    demand = nodes_in({"a": 10, "b": 45, "c": 45})
    own, other = pods_in({"a": 1, "b": 2, "c": 2}), pods_in({"a": 4})[1:]
    pods = (*owned(own), *owned(other, name="old-77f"))
    given = input_of(Cluster(service=a_service(distribution="PreferSameZone"), nodes=demand, pods=pods))
    changes = {fix.kind: dict(fix.change.pods) for fix in find_fixes(given, "IPv4")}
    assert all(change.get("a", 0) >= -1 for change in changes.values()), changes


def test_only_selected_template_owns_pods_without_owner() -> None:
    cluster = Cluster(service=a_service("Auto"), nodes=ALIKE, pods=pods_in({"a": 5, "b": 6}))
    assert steps(cluster, "add-pods", a_deployment(replicas=11), a_deployment("mail", labels={})).commands == (
        "kubectl -n shop scale --replicas=12 -- deployment/cart",
    )
    both = steps(cluster, "add-pods", a_deployment(replicas=11), a_deployment("second"))
    assert both.commands == ("kubectl -n shop scale --replicas=N+1 -- deployment/NAME",)


def test_names_stay_quoted() -> None:
    service = replace(a_service("Auto"), metadata=replace(a_service("Auto").metadata, namespace="shop; rm -rf '"))
    pods = tuple(
        replace(pod, metadata=replace(pod.metadata, namespace=service.metadata.namespace))
        for pod in owned(pods_in({"a": 5, "b": 6}))
    )
    (command,) = steps(Cluster(service=service, nodes=ALIKE, pods=pods), "add-pods").commands
    assert shlex.split(command)[2] == "shop; rm -rf '"


@pytest.mark.parametrize("change", [{"namespace": "--all"}, {"name": "--filename=http://evil.example"}])
def test_no_command_for_a_name_like_an_option(change: dict[str, str]) -> None:
    service = a_service()
    service = replace(service, metadata=replace(service.metadata, **change))
    fix_steps = steps(Cluster(service=service, nodes=ALIKE, pods=pods_in({"a": 2, "b": 2, "c": 2})), "setting")
    assert fix_steps.commands == ()
    assert fix_steps.notes[-1].startswith("there is no command")
