"""What is describe_write of a write is what two plans differ in, and nothing else."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

import pytest
from msgspec.structs import replace

from zoneward.kube.object_reader import read_objects
from zoneward.kube.objects import EndpointSlice, Node, NodeCondition, Pod
from zoneward.report.write_log import WrittenPlan, describe_write, record_plan
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import compute_demand
from zoneward.sample import cluster
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import plan_service
from zoneward.snapshots.cluster_snapshot import Snapshot

NOT_READY = (NodeCondition(type="Ready", status="False"),)
Change = Callable[[Pod], Pod | None]


@cache
def snapshot() -> Snapshot:
    return Snapshot.of(read_objects("the sample", cluster().read_bytes(), skipped=Counter()))


class Cluster:
    """One Service of the sample, and the slices that its last plan came to."""

    def __init__(self, name: str) -> None:
        (self.service,) = (service for service in snapshot().services if service.metadata.name == name)
        self.pods: Sequence[Pod] = snapshot().pods_of(self.service)
        self.nodes: Sequence[Node] = snapshot().nodes
        self.slices: tuple[EndpointSlice, ...] = ()

    def plan(self) -> WrittenPlan:
        demand = compute_demand(self.nodes)
        zones = snapshot().node_zones
        cluster_state = ClusterState(demand=demand, node_zones=zones, configuration=Configuration())
        plan = plan_service(self.service, pods=self.pods, slices=self.slices, cluster_state=cluster_state)
        # As an API server would give them back.
        self.slices = tuple(
            replace(slice_, metadata=replace(slice_.metadata, uid=slice_.metadata.name, resource_version="1"))
            for slice_ in plan.families[0].changes.after
        )
        return record_plan(plan)

    def change(self, count: int, change: Change) -> None:
        """Some of the pods."""
        changed = [change(pod) for pod in self.pods[:count]]
        self.pods = [*(pod for pod in changed if pod is not None), *self.pods[count:]]

    def lose(self, zone: str) -> None:
        """No node of a zone is ready."""
        self.nodes = [
            replace(node, status=replace(node.status, conditions=NOT_READY))
            if node.status is not None and (node.metadata.labels or {}).get("topology.kubernetes.io/zone") == zone
            else node
            for node in self.nodes
        ]


def not_ready(pod: Pod) -> Pod:
    return replace(pod, status=replace(pod.status, conditions=NOT_READY))


def ending(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))


def gone(_pod: Pod) -> None:
    return None


def test_first_plan_is_a_new_service() -> None:
    now = Cluster("recommendations").plan()
    assert describe_write(None, now) == (
        "1 slice created: a new Service, 25 pods ready; hints on (TopologyAwareRoutingEnabled)"
    )


@pytest.mark.parametrize(
    ("change", "cause"), [(not_ready, "2 pods not ready"), (ending, "2 pods ending"), (gone, "2 pods gone")]
)
def test_changed_pods_are_the_cause_of_a_write(change: Change, cause: str) -> None:
    cluster = Cluster("inventory")
    before = cluster.plan()
    cluster.change(2, change)
    assert describe_write(before, cluster.plan()).startswith(f"1 slice updated: {cause}")


def test_new_pods_are_starting_until_ready() -> None:
    cluster = Cluster("inventory")
    every = cluster.pods
    cluster.change(3, gone)
    before = cluster.plan()
    cluster.pods = [*map(not_ready, every[:3]), *every[3:]]
    then = cluster.plan()
    assert describe_write(before, then).startswith("1 slice updated: 3 pods starting")
    cluster.pods = every
    assert describe_write(then, cluster.plan()).startswith("1 slice updated: 3 pods ready")


def test_zone_without_ready_nodes_is_a_cause_if_it_matters() -> None:
    cluster = Cluster("recommendations")
    before = cluster.plan()
    cluster.lose("eu-central-1b")
    line = describe_write(before, cluster.plan())
    assert line.startswith("1 slice updated: eu-central-1b has no ready node; ")
    assert "serve other zones" in line


def test_zone_without_ready_nodes_is_no_cause_if_it_does_not_matter() -> None:
    cluster = Cluster("cart")
    before = cluster.plan()
    cluster.lose("eu-central-1b")
    cluster.change(1, gone)
    line = describe_write(before, cluster.plan())
    assert line.startswith("1 slice updated: 1 pod gone")
    assert "node" not in line


def test_changed_traffic_without_a_write_is_shown() -> None:
    cluster = Cluster("inventory")
    before = cluster.plan()
    cluster.lose("eu-central-1b")
    line = describe_write(before, cluster.plan())
    assert line.startswith("nothing to write: eu-central-1b has no ready node; in zone 34% > ")
