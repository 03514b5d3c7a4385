import json
import shlex
from typing import Any

import pytest
from msgspec.structs import replace
from tests.advice.findings.viewing import a_deployment, an_autoscaler
from tests.advice.inputs import input_of, owned
from tests.builders.structs import a_node, a_pod, a_service, nodes_in, pods_in
from tests.clusters import Cluster

from zoneward.advice.fix_commands import FixSteps, steps_of
from zoneward.advice.fixes import find_fixes
from zoneward.advice.pod_limits import pod_limits
from zoneward.kube.workload_objects import WorkloadObject

ALIKE = nodes_in({"a": 4, "b": 4, "c": 4})


def steps(cluster: Cluster, kind: str, *objects: WorkloadObject, **more: Any) -> FixSteps:
    given = input_of(cluster, *objects, **more)
    (fix,) = [fix for fix in find_fixes(given, "IPv4") if fix.kind == kind]
    return steps_of(fix, given, "IPv4")


def test_pods_in_zones_need_a_spread_constraint() -> None:
    cluster = Cluster(
        service=a_service(distribution="PreferSameZone"), nodes=ALIKE, pods=owned(pods_in({"a": 3, "b": 3}))
    )
    (command,), notes = (fix_steps := steps(cluster, "spread")).commands, fix_steps.notes
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


def test_deployment_is_scaled_if_only_the_number_counts() -> None:
    cluster = Cluster(service=a_service("Auto"), nodes=ALIKE, pods=owned(pods_in({"a": 5, "b": 6})))
    fix_steps = steps(cluster, "add-pods", a_deployment(replicas=11))
    assert fix_steps.commands == ("kubectl -n shop scale --replicas=12 -- deployment/cart",)
    assert fix_steps.notes == ("in whichever zones the Pods are: only their number counts",)


def test_pods_to_remove_get_a_deletion_cost() -> None:
    demand = nodes_in({"a": 10, "b": 45, "c": 45})
    pods = owned(pods_in({"a": 4, "b": 2, "c": 2}))
    cluster = Cluster(service=a_service(distribution="PreferSameZone"), nodes=demand, pods=pods)
    mark, scale = steps(cluster, "remove-pods", a_deployment(replicas=8)).commands
    cost = "controller.kubernetes.io/pod-deletion-cost=-1000"
    assert mark == f"kubectl -n shop annotate -- pod a-0001 a-0002 a-0003 {cost}"
    assert scale == "kubectl -n shop scale --replicas=5 -- deployment/cart"


def test_note_says_that_the_owner_is_unknown() -> None:
    fix_steps = steps(Cluster(service=a_service("Auto"), nodes=ALIKE, pods=pods_in({"a": 5, "b": 6})), "add-pods")
    assert fix_steps.commands == ("kubectl -n shop scale --replicas=N+1 -- deployment/NAME",)
    assert fix_steps.notes[0].startswith("the input does not say what owns the Pods")


def test_zone_label_comes_with_a_warning() -> None:
    nodes = (*ALIKE, a_node("node-lost", zone=None))
    fix_steps = steps(
        Cluster(service=a_service("Auto"), nodes=nodes, pods=pods_in({"a": 4, "b": 4, "c": 4})), "label-node"
    )
    assert fix_steps.commands == ("kubectl label -- node node-lost topology.kubernetes.io/zone=a",)
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
    cluster = Cluster(service=a_service("Auto"), nodes=ALIKE, pods=owned(pods_in({"a": 5, "b": 6})))
    fix_steps = steps(cluster, "add-pods", a_deployment(replicas=2), is_changed=True)
    assert fix_steps.commands == ("kubectl -n shop scale --replicas=N+1 -- deployment/cart",)
    assert fix_steps.notes[0].endswith("in the cluster that the options describe")


def test_fix_sets_bounds_of_the_autoscaler() -> None:
    cluster = Cluster(service=a_service("Auto"), nodes=ALIKE, pods=owned(pods_in({"a": 5, "b": 6})))
    given = input_of(cluster, a_deployment(replicas=11), an_autoscaler())
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
    (command,) = steps(cluster, "add-pods", a_deployment(replicas=11), roomy).commands
    assert json.loads(shlex.split(command)[-3]) == {"spec": {"minReplicas": 12}}
    (command,) = steps(cluster, "add-pods", a_deployment(replicas=11), an_autoscaler(name="other")).commands
    assert "scale" in shlex.split(command)


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


def test_no_label_command_for_a_node_named_like_an_option() -> None:
    nodes = (*ALIKE, a_node("--all", zone=None))
    fix_steps = steps(
        Cluster(service=a_service("Auto"), nodes=nodes, pods=pods_in({"a": 4, "b": 4, "c": 4})), "label-node"
    )
    assert fix_steps.commands == ()
