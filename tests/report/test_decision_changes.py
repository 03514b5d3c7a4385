"""Changes of decisions as lines, for scripts and for a log; what is said of a write is what two plans differ in."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from functools import cache

import pytest
from msgspec.structs import replace

from zoneward.advice.decisions import DecidedZone, DecisionDocument, SliceCounts
from zoneward.kube.object_reader import read_objects
from zoneward.kube.objects import EndpointSlice, Node, NodeCondition, Pod
from zoneward.report.decision_changes import (
    DecisionChange,
    change_json,
    change_text,
    describe_write,
)
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import compute_demand
from zoneward.routing.rules import Rule
from zoneward.sample import cluster
from zoneward.slices.cluster_state import ClusterState
from zoneward.slices.plan import ServicePlan, plan_service
from zoneward.snapshots.cluster_snapshot import Snapshot

NOW = datetime(2026, 6, 1, 12, 0, 0, 123_456, tzinfo=UTC)
CART = DecisionDocument(
    namespace="shop",
    service="cart",
    address_type="IPv4",
    approach="Hints",
    heuristic="ProportionalZoneCPU",
    active=True,
    reason="no zone is more than 5 % above",
    reason_code="Enabled",
    endpoints=6,
    zones={"a": DecidedZone(demand=1.0, located=6, consumed=6, expected=6.0, overload=0.0)},
    allocation={"a": {"a": 6}},
    groups=None,
    weights=None,
    in_zone_traffic=0.97,
    dropped_traffic=0.0,
    max_overload=0.05,
    mean_overload=0.01,
    moved=0,
    now=None,
    slices=SliceCounts(create=0, update=0, delete=0, unchanged=2),
    replaced_slices=(),
    other_slices=(),
    rules=(),
    events=(),
    conditions=(),
)


def test_json_line_has_type_time_and_decision() -> None:
    later = NOW.astimezone(timezone(timedelta(hours=2)))
    line = change_json(DecisionChange(None, CART), now=later)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    document = json.loads(line)
    assert [*document] == ["type", "time", "decision"]
    assert (document["type"], document["time"]) == ("ADDED", "2026-06-01T12:00:00.123Z")
    assert document["decision"]["inZoneTraffic"] == 0.97


REASON = "no zone is more than 5 % above"
ZONES = {"b": DecidedZone(demand=1.0, located=6, consumed=6, expected=6.0, overload=0.0)}


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (CART, None, "gone shop/cart"),
        (replace(CART, address_type="IPv6"), None, "gone shop/cart IPv6"),
        (
            None,
            CART,
            f"new shop/cart: endpoints 6, in zone 97%, worst +5%, slices =2, active: {REASON}",
        ),
        (
            CART,
            replace(CART, endpoints=7, in_zone_traffic=0.855, max_overload=0.1),
            "changed shop/cart: endpoints 6 > 7, in zone 97% > 86%, worst +5% > +10%",
        ),
        (CART, replace(CART, dropped_traffic=0.25), "changed shop/cart: dropped 0% > 25%"),
        (CART, replace(CART, in_zone_traffic=None), "changed shop/cart: in zone 97% > -"),
        (
            CART,
            replace(CART, slices=SliceCounts(create=1, update=2, delete=3, unchanged=0)),
            "changed shop/cart: slices =2 > +1 ~2 -3",
        ),
        (CART, replace(CART, active=False, reason="too few"), "changed shop/cart: not active: too few"),
        (CART, replace(CART, zones=ZONES), "changed shop/cart: endpoints in other zones"),
        (CART, replace(CART, moved=2, rules=(Rule("a", True, "b"),)), "changed shop/cart: other moved, other rules"),
    ],
    ids=["gone", "gone IPv6", "new", "numbers", "dropped", "unknown", "slices", "reason", "zones", "the rest"],
)
def test_log_line_names_the_differences(old: DecisionDocument | None, new: DecisionDocument | None, text: str) -> None:
    assert change_text(DecisionChange(old, new), now=NOW) == f"2026-06-01 12:00:00 {text}"


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

    def plan(self) -> ServicePlan:
        demand = compute_demand(self.nodes)
        zones = snapshot().node_zones
        cluster_state = ClusterState(demand=demand, node_zones=zones, configuration=Configuration())
        plan = plan_service(self.service, pods=self.pods, slices=self.slices, cluster_state=cluster_state)
        # As an API server would give them back.
        self.slices = tuple(
            replace(slice_, metadata=replace(slice_.metadata, uid=slice_.metadata.name, resource_version="1"))
            for slice_ in plan.families[0].changes.after
        )
        return plan

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
