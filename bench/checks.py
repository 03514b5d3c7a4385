"""``check`` on a large, complete cluster: slices with hints, workloads and autoscalers."""

import time
from collections.abc import Iterator
from dataclasses import replace

from tests.advice.findings.viewing import managed_by

from bench.measuring import Figure
from bench.snapshots import large_snapshot
from zoneward.advice.findings.check_cluster import check_cluster
from zoneward.advice.json_value import to_json
from zoneward.cli.check import view_cluster
from zoneward.cli.options import Options
from zoneward.cli.planned_services import SelectedServices, select_services
from zoneward.kube import names
from zoneward.kube.adoption_marks import effective_selector
from zoneward.kube.gc_tuning import without_gc
from zoneward.kube.objects import EndpointSlice, Service
from zoneward.kube.workload_objects import (
    AutoscalerSpec,
    Deployment,
    DeploymentSpec,
    HorizontalPodAutoscaler,
    PodTemplate,
    ScaleTarget,
    TemplateMeta,
    WorkloadMeta,
    WorkloadObject,
)
from zoneward.slices.plan import plan_service
from zoneward.snapshots.cluster_snapshot import Snapshot

_MOST_SECONDS = 5.0


def check() -> Iterator[Figure]:
    """``check -o json`` of 2,000 Services and 50,000 pods: at most 5 s beyond reading."""
    options = Options(files=(str(large_snapshot("json")),), quiet=True)
    selected = select_services(options)
    whole = replace(selected, snapshot=_completed(selected))
    with without_gc():  # as the command
        start = time.perf_counter()
        checked = check_cluster(view_cluster(whole, options))
        to_json(checked)
        took = time.perf_counter() - start
    services, pods = len(whole.services), len(whole.snapshot.pods)
    yield Figure(f"check, {services:,} Services, {pods:,} pods, beyond reading", took, "s", _MOST_SECONDS)
    yield Figure("  findings", len(checked.findings), "")


def _completed(selected: SelectedServices) -> Snapshot:
    """The same cluster with the slices that the built-in controller would write, and a workload for each Service."""
    state = replace(selected.cluster_state, configuration=selected.configuration.as_upstream())
    slices: list[EndpointSlice] = []
    workloads: list[WorkloadObject] = []
    for service in selected.services:
        plan = plan_service(service, pods=selected.snapshot.pods_of(service), slices=(), cluster_state=state)
        slices.extend(
            managed_by(names.BUILT_IN_MANAGER, slice_) for family in plan.families for slice_ in family.slices
        )
        workloads.extend(_workload(service))
    return replace(selected.snapshot, slices=tuple(slices), workload_objects=tuple(workloads))


def _workload(service: Service) -> tuple[WorkloadObject, ...]:
    meta = WorkloadMeta(name=service.metadata.name, namespace=service.metadata.namespace)
    template = PodTemplate(metadata=TemplateMeta(labels=dict(effective_selector(service) or {})))
    target = ScaleTarget(kind="Deployment", name=meta.name)
    return (
        Deployment(metadata=meta, spec=DeploymentSpec(replicas=25, template=template)),
        HorizontalPodAutoscaler(metadata=meta, spec=AutoscalerSpec(scale_target_ref=target)),
    )
