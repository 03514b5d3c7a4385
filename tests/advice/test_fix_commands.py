import json
import shlex

from msgspec.structs import replace
from tests.advice.inputs import input_of
from tests.builders.structs import a_node, a_service, nodes_in, pods_in
from tests.clusters import Cluster

from zoneward.advice.fix_commands import FixSteps, steps_of
from zoneward.advice.fixes import find_fixes
from zoneward.advice.workloads import POD_TEMPLATE_HASH
from zoneward.kube.objects import OwnerReference, Pod

ALIKE = nodes_in({"a": 4, "b": 4, "c": 4})


def owned(pods: tuple[Pod, ...], kind: str = "ReplicaSet", name: str = "cart-77f") -> tuple[Pod, ...]:
    owner = (OwnerReference(api_version="apps/v1", kind=kind, name=name, uid="1", controller=True),)
    labels = {"app": "cart", POD_TEMPLATE_HASH: "77f"}
    return tuple(replace(pod, metadata=replace(pod.metadata, owner_references=owner, labels=labels)) for pod in pods)


def steps(cluster: Cluster, kind: str) -> FixSteps:
    given = input_of(cluster)
    (fix,) = [each for each in find_fixes(given, "IPv4") if each.kind == kind]
    return steps_of(fix, given, "IPv4")


def test_pods_in_zones_are_a_spread_constraint_of_the_deployment() -> None:
    cluster = Cluster(
        service=a_service(distribution="PreferSameZone"), nodes=ALIKE, pods=owned(pods_in({"a": 3, "b": 3}))
    )
    (command,), notes = (found := steps(cluster, "spread")).commands, found.notes
    *words, patch = shlex.split(command)
    assert words == ["kubectl", "-n", "shop", "patch", "deployment/cart", "--type=strategic", "-p"]
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


def test_a_placement_that_the_scheduler_may_also_refuse_to_make_is_said_to_be_one() -> None:
    demand = nodes_in({"a": 60, "b": 20, "c": 20})
    pods = owned(pods_in({"a": 4, "b": 3, "c": 3}))
    found = steps(Cluster(service=a_service(distribution="PreferSameZone"), nodes=demand, pods=pods), "move-pods")
    assert (
        json.loads(shlex.split(found.commands[0])[-1])["spec"]["template"]["spec"]["topologySpreadConstraints"][0][
            "maxSkew"
        ]
        == 4
    )
    assert found.notes[-1].endswith("place 6 in a, 2 in b, 2 in c: maxSkew 4 allows that, and does not force it")


def test_where_only_the_number_counts_the_deployment_is_scaled() -> None:
    found = steps(Cluster(service=a_service("Auto"), nodes=ALIKE, pods=owned(pods_in({"a": 5, "b": 6}))), "add-pods")
    assert found.commands == ("kubectl -n shop scale deployment/cart --replicas=12",)


def test_pods_that_have_to_go_are_marked_before_the_deployment_is_scaled_down() -> None:
    demand = nodes_in({"a": 10, "b": 45, "c": 45})
    pods = owned(pods_in({"a": 4, "b": 2, "c": 2}))
    mark, scale = steps(
        Cluster(service=a_service(distribution="PreferSameZone"), nodes=demand, pods=pods), "remove-pods"
    ).commands
    cost = "controller.kubernetes.io/pod-deletion-cost=-1000"
    assert mark == f"kubectl -n shop annotate pod a-0001 a-0002 a-0003 {cost}"
    assert scale == "kubectl -n shop scale deployment/cart --replicas=5"


def test_an_unknown_owner_is_said_to_be_unknown() -> None:
    found = steps(Cluster(service=a_service("Auto"), nodes=ALIKE, pods=pods_in({"a": 5, "b": 6})), "add-pods")
    assert found.commands == ("kubectl -n shop scale deployment/NAME --replicas=12",)
    assert found.notes[0].startswith("the input does not say what owns the Pods")


def test_a_label_is_one_command_and_a_warning_to_write_what_is_true() -> None:
    nodes = (*ALIKE, a_node("node-lost", zone=None))
    found = steps(Cluster(service=a_service("Auto"), nodes=nodes, pods=pods_in({"a": 4, "b": 4, "c": 4})), "label-node")
    assert found.commands == ("kubectl label node node-lost topology.kubernetes.io/zone=a",)
    assert "really is" in found.notes[0] or "only if it is true" in found.notes[0]


def test_what_people_named_cannot_leave_its_quotes() -> None:
    service = replace(a_service("Auto"), metadata=replace(a_service("Auto").metadata, namespace="shop; rm -rf '"))
    pods = tuple(
        replace(pod, metadata=replace(pod.metadata, namespace=service.metadata.namespace))
        for pod in owned(pods_in({"a": 5, "b": 6}), name="cart$(id)-77f")
    )
    (command,) = steps(Cluster(service=service, nodes=ALIKE, pods=pods), "add-pods").commands
    assert shlex.split(command)[2] == "shop; rm -rf '"
    assert shlex.split(command)[4] == "deployment/cart$(id)"
