"""Small clusters as checks see them. Without changes they have no findings."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace
from tests.builders.structs import NAMESPACE, SERVICE, a_service, nodes_in, pods_in
from tests.clusters import cluster_state, slices_after

from zoneward.advice.findings.cluster_view import ClusterView, ServiceView
from zoneward.advice.findings.codes import Need
from zoneward.advice.node_proxies import PROXY_KINDS, NodeProxies
from zoneward.advice.service_input import ServiceInput
from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice, Node, Pod, Service
from zoneward.kube.workload_objects import (
    AutoscalerSpec,
    Deployment,
    DeploymentSpec,
    HorizontalPodAutoscaler,
    PodTemplate,
    ScaleTarget,
    StatefulSet,
    StatefulSetSpec,
    TemplateMeta,
    TemplateSpec,
    TopologySpreadConstraint,
    WorkloadMeta,
)
from zoneward.routing.configuration import Configuration
from zoneward.slices.plan import plan_service

ZONES: Final = ("a", "b", "c")
CURRENT: Final = "kube-proxy-1.35"
SPREAD: Final = (TopologySpreadConstraint(topology_key=names.ZONE_LABEL),)


def a_view(
    service: Service | None = None,
    *,
    asking: Service | None = None,
    nodes: Sequence[Node] | None = None,
    pods: Sequence[Pod] | None = None,
    slices: Sequence[EndpointSlice] | None = None,
    proxies: str | Mapping[str, str] = CURRENT,
    configuration: Configuration | None = None,
    lacking: Mapping[Need, str] | None = None,
    **objects: Any,
) -> ClusterView:
    """Three nodes of one size in three zones, nine pods, and a Service whose slices are as the built-in controller
    leaves them. ``proxies`` is a kind for all nodes, or by node for some. ``objects`` are other fields of the view.
    """
    nodes = nodes_in(dict.fromkeys(ZONES, 4)) if nodes is None else tuple(nodes)
    pods = pods_in(dict.fromkeys(ZONES, 3)) if pods is None else tuple(pods)
    service = a_service(distribution=names.PREFER_SAME_ZONE) if service is None else service
    by_node = {} if isinstance(proxies, str) else {node: PROXY_KINDS[name] for node, name in proxies.items()}
    default = PROXY_KINDS[proxies if isinstance(proxies, str) else CURRENT]
    node_proxies = NodeProxies({node.metadata.name: default for node in nodes} | by_node, {}, default)
    state = dataclasses.replace(
        cluster_state(nodes, configuration),
        consumer=default.consumer,
        consumer_by_node=node_proxies.consumer_by_node,
    )
    if slices is None:
        slices = built_in(service, nodes, pods)
    given = ServiceInput(service, tuple(nodes), tuple(pods), tuple(slices), state)
    view = ServiceView(given, given.traffic_now(node_proxies), asking)
    objects = {"workloads": (a_deployment(),)} | objects
    return ClusterView(
        nodes=nodes, cluster_state=state, services=(view,), node_proxies=node_proxies, lacking=lacking or {}, **objects
    )


def built_in(service: Service, nodes: Iterable[Node], pods: Iterable[Pod]) -> tuple[EndpointSlice, ...]:
    """The slices of the built-in controller, which has acted on what the Service asks for."""
    state = cluster_state(nodes, Configuration().as_upstream())
    return tuple(
        managed_by(names.BUILT_IN_MANAGER, slice_)
        for slice_ in slices_after(plan_service(service, pods=pods, slices=(), cluster_state=state))
    )


def managed_by(manager: str, slice_: EndpointSlice, *, name: str | None = None) -> EndpointSlice:
    """The same slice of another manager."""
    meta = slice_.metadata
    labels = {**(meta.labels or {}), names.MANAGED_BY_LABEL: manager}
    return replace(slice_, metadata=replace(meta, labels=labels, name=name or meta.name))


def without_hints(slice_: EndpointSlice, *, first: int | None = None) -> EndpointSlice:
    """The same slice without hints of its endpoints, or of the first ones."""
    endpoints = slice_.endpoints or ()
    bare = endpoints if first is None else endpoints[:first]
    return replace(slice_, endpoints=(*(replace(endpoint, hints=None) for endpoint in bare), *endpoints[len(bare) :]))


def a_deployment(name: str = SERVICE, *, replicas: int | None = 9, labels: Mapping[str, str] | None = None,
                 **spec: Any) -> Deployment:  # fmt: skip
    """Of the Service's pods, spread over zones. ``spec`` are fields of its pod template."""
    return Deployment(
        metadata=WorkloadMeta(name=name, namespace=NAMESPACE),
        spec=DeploymentSpec(replicas=replicas, template=_template(labels, spec)),
    )


def a_stateful_set(name: str = SERVICE, *, replicas: int = 3, claims: Any = (), **spec: Any) -> StatefulSet:
    return StatefulSet(
        metadata=WorkloadMeta(name=name, namespace=NAMESPACE),
        spec=StatefulSetSpec(replicas=replicas, template=_template(None, spec), volume_claim_templates=claims),
    )


def _template(labels: Mapping[str, str] | None, spec: Mapping[str, Any]) -> PodTemplate:
    labels = {"app": SERVICE} if labels is None else dict(labels)
    return PodTemplate(
        metadata=TemplateMeta(labels=labels), spec=TemplateSpec(**{"topology_spread_constraints": SPREAD, **spec})
    )


def an_autoscaler(kind: str = "Deployment", name: str = SERVICE) -> HorizontalPodAutoscaler:
    return HorizontalPodAutoscaler(
        metadata=WorkloadMeta(name="scaler", namespace=NAMESPACE),
        spec=AutoscalerSpec(scale_target_ref=ScaleTarget(kind=kind, name=name)),
    )
