"""Every action of ``advise`` is applied to the input: the decision by the rules of the cluster's own version is as
promised.

Nothing of the search is used to apply it: Services and Nodes are changed as commands say, Pods are put on Nodes here.
"""

import dataclasses
import json
import shlex
from collections.abc import Iterable
from itertools import count
from typing import Final

import msgspec
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.advice.inputs import advised_cluster, input_of, with_proxies
from tests.builders.structs import PORT, a_pod
from tests.clusters import Cluster
from tests.properties.random_clusters import ZONE_HINTS, Setting, clusters, examples
from tests.properties.test_fixes import merged

from zoneward.advice.actions import ACCEPTABLE, AdvisedCluster, Option, advise, advise_service
from zoneward.advice.cluster_abilities import kubernetes_gates
from zoneward.advice.node_proxies import PROXY_KINDS, same_proxy_everywhere
from zoneward.advice.service_input import ServiceInput
from zoneward.kube import names
from zoneward.kube.adoption_marks import runs_zoneward
from zoneward.kube.objects import ContainerPort, Node, Pod, Service, node_zone
from zoneward.routing.demand import cpu_demand_of, demands_of
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.overlay import overlay_configuration
from zoneward.slices.plan import FamilyPlan, plan_service

PROXIES: Final = ("kube-proxy-1.{}", "kube-proxy-1.{}", "cilium-1.18", "cilium-1.18-service-topology", "kube-router")
RANDOM: Final = clusters(
    setting=st.one_of(st.just(Setting()), ZONE_HINTS), most_zones=4, most_pods=20, others=False, tidy=True
).map(lambda cluster: cluster.with_(pods=tuple(pod for pod in cluster.pods if pod.status.pod_ips)))
"""Which Pod has no address yet is nothing that an action can depend on."""
VERSIONS: Final = st.sampled_from((30, 31, 33, 34, 35, 36, 37))


@examples(60)
@given(RANDOM, VERSIONS, st.sampled_from(PROXIES))
def test_each_action_leads_to_what_it_promises(cluster: Cluster, version: int, proxy: str) -> None:
    check_promises(cluster, version, proxy.format(version))


@pytest.mark.slow
@examples(300)
@given(RANDOM, VERSIONS, st.sampled_from(PROXIES))
def test_each_action_of_300_clusters_leads_to_what_it_promises(cluster: Cluster, version: int, proxy: str) -> None:
    check_promises(cluster, version, proxy.format(version))


def check_promises(cluster: Cluster, version: int, proxy: str) -> None:
    proxies = same_proxy_everywhere(cluster.nodes, PROXY_KINDS[proxy])
    given_ = input_of(cluster)
    given_ = dataclasses.replace(given_, cluster_state=with_proxies(given_.cluster_state, proxies))
    advised = advised_cluster(cluster, proxies, version)
    service = advise_service(given_, advised)
    if service is None:
        event("no traffic")
        return
    for view, option in (("kubernetes", service.kubernetes), ("zoneward", service.zoneward)):
        if option is None:
            continue
        event(f"{view} {option.kind}")
        after = family_after(given_, option, advised, is_zoneward=view == "zoneward")
        assert after.traffic is not None
        assert after.traffic.in_zone == pytest.approx(option.after.in_zone, abs=1e-9)
        assert after.traffic.max_overload == pytest.approx(option.after.overload, abs=1e-9)
        assert after.traffic.dropped == pytest.approx(option.after.dropped, abs=1e-9)
        assert option.after.dropped <= option.before.dropped
        assert option.after.overload <= max(float(ACCEPTABLE), option.before.overload) + 1e-6
    document = advise([service], advised, zones={})
    assert [action.rank for action in document.actions] == list(range(1, len(document.actions) + 1))


def family_after(given_: ServiceInput, option: Option, advised: AdvisedCluster, *, is_zoneward: bool) -> FamilyPlan:
    """The decision on the changed cluster, by the controller that decides there."""
    nodes, service = given_.nodes, given_.service
    for command in option.steps.commands:
        words = shlex.split(command)
        about = words[words.index("--") + 1 :]
        if "label" in words:
            zone = about[-1].removeprefix(f"{names.ZONE_LABEL}=")
            nodes = tuple(labelled(node, zone) if node.metadata.name in about[1:-1] else node for node in nodes)
        elif about[0] == "service":
            patched = merged(msgspec.to_builtins(service), json.loads(words[words.index("-p") + 1]))
            service = msgspec.convert(patched, Service)
    for patch in option.steps.patches:
        assert patch.kind == "Service", "nothing says what owns the Pods"
        assert msgspec.convert(merged(msgspec.to_builtins(given_.service), patch.fields), Service) == service
    state = given_.cluster_state
    configuration = state.configuration
    if is_zoneward:
        if advised.requirement == "overlay":
            configuration = overlay_configuration(configuration)
    elif not runs_zoneward(given_.service, given_.slices):
        configuration = replace(configuration.as_upstream(), gates=kubernetes_gates(advised.kubernetes))
    demand, _ = demands_of(nodes, configuration)
    state = dataclasses.replace(
        with_proxies(state, advised.switched),
        configuration=configuration,
        demand=demand,
        cpu_demand=cpu_demand_of(nodes, configuration),
        decided_by=None,
        node_zones={node.metadata.name: node_zone(node) for node in nodes},
    ).for_service(service)
    pods = with_pods(given_.pods, option.pods, nodes, state)
    plan = plan_service(service, pods=pods, slices=given_.slices, cluster_state=state, taken=given_.taken)
    return plan.families[0]


def labelled(node: Node, zone: str) -> Node:
    labels = {**(node.metadata.labels or {}), names.ZONE_LABEL: zone}
    return replace(node, metadata=replace(node.metadata, labels=labels))


def with_pods(
    pods: tuple[Pod, ...], changes: dict[str, int], nodes: Iterable[Node], state: ClusterState
) -> tuple[Pod, ...]:
    """More Pods on a ready Node of each zone, or fewer."""
    changed = list(pods)
    ready = {node.name for node in state.demand.nodes}
    numbers = count(1)
    for zone, change in changes.items():
        hosts = [node.metadata.name for node in nodes if node_zone(node) == zone and node.metadata.name in ready]
        for _ in range(change):
            index = next(numbers)
            ports = (ContainerPort(name="web", container_port=PORT),)
            ips = (f"10.9.0.{index}", f"fd09::{index:x}")
            changed.append(a_pod(f"more-{index}", hosts[0], ips=ips, ports=ports))
        running = [pod for pod in changed if is_running(pod) and state.node_zones.get(pod.spec.node_name) == zone]
        running.sort(key=lambda pod: pod.metadata.name, reverse=True)
        # A ReplicaSet also removes those first that are not ready.
        for pod in sorted(running, key=is_ready)[: max(-change, 0)]:
            changed.remove(pod)
    return tuple(changed)


def is_running(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and pod.status.phase == "Running"


def is_ready(pod: Pod) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions or ())
