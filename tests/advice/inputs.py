"""The input of ``explain`` for the small clusters of tests."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace
from tests.clusters import Cluster

from zoneward.advice.actions import AdvisedCluster
from zoneward.advice.cluster_abilities import kubernetes_configuration
from zoneward.advice.deciders import ClusterStates
from zoneward.advice.node_proxies import NodeProxies
from zoneward.advice.service_input import POD_TEMPLATE_HASH, ServiceInput, WorkloadObjects
from zoneward.kube.objects import OwnerReference, Pod
from zoneward.kube.workload_objects import WorkloadObject
from zoneward.slices.cluster_state import ClusterState


def input_of(cluster: Cluster, *objects: WorkloadObject, others: Iterable[Pod] = (), **more: Any) -> ServiceInput:
    """``objects`` are workloads, autoscalers and volumes of the input; ``others`` Pods that the Service does not
    select."""
    return ServiceInput(
        cluster.service,
        cluster.nodes,
        cluster.pods,
        cluster.slices,
        cluster.cluster_state.for_service(cluster.service),
        namespace_pods=(*cluster.pods, *others),
        objects=WorkloadObjects.of(objects, lacking=more.pop("lacking", None)),
        **more,
    )


def advised_cluster(cluster: Cluster, proxies: NodeProxies, version: int = 37) -> AdvisedCluster:
    """A cluster with this version of Kubernetes, which decides about what Zoneward's controller does not."""
    state = with_proxies(cluster.cluster_state, proxies)
    of_kubernetes = kubernetes_configuration(state.configuration, version)
    return AdvisedCluster(ClusterStates.of(state, cluster.nodes, of_kubernetes), proxies, version)


def with_proxies(state: ClusterState, proxies: NodeProxies) -> ClusterState:
    return dataclasses.replace(
        state,
        consumer=proxies.default.consumer,
        consumer_by_node=proxies.consumer_by_node,
        labelled_consumer=proxies.labelled.consumer,
    )


def owned(pods: Iterable[Pod], kind: str = "ReplicaSet", name: str = "cart-77f", **more: str) -> tuple[Pod, ...]:
    """The same Pods with an owner and its labels, and with ``more`` labels."""
    owner = (OwnerReference(api_version="apps/v1", kind=kind, name=name, uid="1", controller=True),)
    labels = {"app": "cart", **({POD_TEMPLATE_HASH: "77f"} if kind == "ReplicaSet" else {}), **more}
    return tuple(replace(pod, metadata=replace(pod.metadata, owner_references=owner, labels=labels)) for pod in pods)
