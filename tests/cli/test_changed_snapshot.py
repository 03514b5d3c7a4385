"""Options that change the input: what they make of a snapshot, and what the commands show."""

import json
from pathlib import Path
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders.structs import DUAL_STACK, a_pod, a_service, a_slice, an_endpoint, nodes_in, pods_in
from tests.cli.running import SAMPLE, Commands
from tests.clusters import Cluster, slices_after
from tests.properties.random_clusters import ANY_SETTING, clusters, examples

from zoneward.cli.changed_snapshot import change_snapshot
from zoneward.cli.options import AddedPods, InputChanges, ReplicasChange
from zoneward.kube import names
from zoneward.kube.objects import EndpointSlice, Service, node_zone
from zoneward.slices.plan import ServicePlan
from zoneward.snapshots.cluster_snapshot import Snapshot

ZONE_A, ZONE_B = "eu-central-1a", "eu-central-1b"
NODES = nodes_in({"a": 4, "b": 4, "c": 4})
CART = "shop/cart"


def _snapshot(cluster: Cluster) -> Snapshot:
    return Snapshot(
        services=(cluster.service,),
        nodes=cluster.nodes,
        pods=cluster.pods,
        slices=cluster.slices,
        lists_pods=cluster.pods_known,
    )


def _plan(cluster: Cluster, snapshot: Snapshot) -> ServicePlan:
    """The plan of a cluster as a changed snapshot has it."""
    pods = snapshot.pods_of(cluster.service)
    return cluster.with_(nodes=snapshot.nodes, pods=pods, slices=snapshot.slices, pods_known=snapshot.has_pods).plan()


def _changed(snapshot: Snapshot, **changes: Any) -> Snapshot:
    return change_snapshot(snapshot, InputChanges(**changes))[0]


# --- what becomes of a snapshot ---------------------------------------------------------------------------------------


@examples(40)
@given(clusters(setting=ANY_SETTING, most_pods=12, others=False), st.data())
def test_without_zone_equals_deleting_its_objects(cluster: Cluster, data: st.DataObject) -> None:
    zones = sorted({zone for node in cluster.nodes if (zone := node_zone(node))})
    assume(zones)
    zone = data.draw(st.sampled_from(zones))
    nodes_left = tuple(node for node in cluster.nodes if node_zone(node) != zone)
    assume(nodes_left)
    gone = {node.metadata.name for node in cluster.nodes} - {node.metadata.name for node in nodes_left}
    by_hand = cluster.with_(nodes=nodes_left, pods=tuple(pod for pod in cluster.pods if pod.spec.node_name not in gone))
    changed = _changed(_snapshot(cluster), without_zones=(zone,))
    assert _plan(cluster, changed) == _plan(cluster, _snapshot(by_hand))
    assert changed == _changed(_snapshot(cluster), without_nodes=tuple(gone))


@examples(40)
@given(clusters(setting=ANY_SETTING, most_pods=12, history=False))
def test_current_number_of_replicas_is_a_no_op(cluster: Cluster) -> None:
    snapshot = _snapshot(cluster)
    pods = snapshot.pods_of(cluster.service)
    present = sum(
        pod.metadata.deletion_timestamp is None and pod.status.phase not in ("Failed", "Succeeded") for pod in pods
    )
    name = f"{cluster.service.metadata.namespace}/{cluster.service.metadata.name}"
    assert _changed(snapshot, replicas=(ReplicasChange(name, present),)).pods == snapshot.pods


def test_added_pods_count_for_every_selecting_service() -> None:
    other = a_service(name="all", selector={"app": "cart"})
    snapshot = Snapshot(services=(a_service(), other), nodes=NODES, pods=pods_in({"a": 2, "b": 1}))
    changes = InputChanges(
        replicas=(ReplicasChange("cart", 4),),
        added_pods=(AddedPods("cart", "a", 1), AddedPods(CART, "a", 1), AddedPods("shop/all", "b", 1)),
    )
    changed, lines = change_snapshot(snapshot, changes)
    assert lines == [
        "what if: shop/cart has 6 Pods instead of 3: a +2, c +1",
        "what if: shop/all has 7 Pods instead of 6: b +1",
    ]
    assert changed.pods_of(a_service()) == changed.pods_of(other) == changed.pods
    assert len({pod.metadata.name for pod in changed.pods}) == len({pod.status.pod_ip for pod in changed.pods}) == 7


def test_cluster_without_pods_left_ignores_stale_slices() -> None:
    cluster = Cluster(service=a_service(), nodes=NODES, pods=pods_in({"a": 2})).settled()
    changed = _changed(_snapshot(cluster), without_zones=("a",))
    assert changed.has_pods
    assert [family.decision.endpoints for family in _plan(cluster, changed).families] == [0]


def _from_slices(service: Service, slices: tuple[EndpointSlice, ...]) -> Snapshot:
    return Snapshot(services=(service,), nodes=NODES, slices=slices)


def test_endpoints_change_in_both_families_without_pods() -> None:
    service = a_service(families=DUAL_STACK)
    pods = pods_in({"a": 2, "b": 2, "c": 1}, dual_stack=True)
    cluster = Cluster(service=service, nodes=NODES, pods=pods)
    snapshot = _from_slices(service, slices_after(cluster.plan()))
    changes = InputChanges(without_zones=("a",), replicas=(ReplicasChange(CART, 5),))
    changed, lines = change_snapshot(snapshot, changes)
    assert lines == [
        "what if: without zone a: 1 Node and 4 endpoints are gone",
        "what if: shop/cart has 5 endpoints instead of 3: b +1, c +1",
    ]
    endpoints = [
        sorted((endpoint.zone, endpoint.target_ref and endpoint.target_ref.name) for endpoint in slice_.endpoints or ())
        for slice_ in changed.slices
    ]
    assert len(endpoints) == 2
    assert endpoints[0] == endpoints[1]
    assert [zone for zone, _ in endpoints[0]] == ["b", "b", "b", "c", "c"]
    assert [family.decision.endpoints for family in _plan(cluster, changed).families] == [5, 5]


def test_endpoints_of_other_managers_leave_with_their_zone() -> None:
    service = a_service(selects=False)
    endpoints = (
        an_endpoint("10.9.0.1", "a"),
        an_endpoint("10.9.0.2", "b", node="node-b"),
        an_endpoint("10.9.0.3", "c"),
    )
    other = a_slice("other", *endpoints, manager="somebody.example.com")
    own_slice = a_slice("own", an_endpoint("10.0.0.1", "a", pod="x"), service="web")
    snapshot = Snapshot(services=(service,), nodes=NODES, pods=(a_pod("x"),), slices=(other, own_slice))
    changed = _changed(snapshot, without_zones=("a",), without_nodes=("node-b",))
    assert [endpoint.zone for endpoint in changed.slices[0].endpoints or ()] == ["c"]
    assert changed.slices[1] is own_slice, "what a controller finds after the change"
    more = _changed(snapshot, replicas=(ReplicasChange("cart", 5),))
    assert [endpoint.zone for endpoint in more.slices[0].endpoints or ()] == ["a", "b", "c", "a", "b"]
    assert more.pods == snapshot.pods


def test_zone_of_unselected_objects_can_be_removed() -> None:
    labelled = replace(NODES[0], metadata=replace(NODES[0].metadata, name="more", labels={names.ZONE_LABEL: "d"}))
    snapshot = Snapshot(services=(a_service(),), nodes=(*NODES, labelled), pods=pods_in({"a": 1}))
    assert _changed(snapshot, without_zones=("d",)).nodes == NODES


# --- what commands show -----------------------------------------------------------------------------------------------


def _decision(zoneward: Commands, *arguments: str) -> dict[str, Any]:
    (decision,) = zoneward.json("plan", "--sample", CART, *arguments)["decisions"]
    return dict(decision)


def test_json_has_before_and_load(zoneward: Commands) -> None:
    before = _decision(zoneward)
    after = _decision(zoneward, "--without-zone", ZONE_A)
    assert "before" not in before
    assert "load" not in before
    assert after["before"] == {key: before[key] for key in after["before"]}
    # One Pod of twenty had the traffic of zone a alone, 40 %. The ten in zone b have 53 % instead of 32 %.
    assert after["load"] == {"before": 0.400283, "after": 0.053302, "change": -0.866839, "highestRise": 0.667453}


def test_what_if_applies_before_and_after_the_change(zoneward: Commands) -> None:
    arguments = ("--what-if", "none")
    after = _decision(zoneward, *arguments, "--replicas", f"{CART}=10")
    assert after["before"]["endpoints"] == 20
    assert (after["endpoints"], after["approach"]) == (10, "ClusterWide")
    assert after["load"] == {"before": 0.05, "after": 0.1, "change": 1.0, "highestRise": 1.0}
    assert after["before"] == {key: _decision(zoneward, *arguments)[key] for key in after["before"]}


def test_tables_show_loads_only_of_a_changed_cluster(zoneward: Commands) -> None:
    wide = zoneward("plan", "-q", "--sample", CART, "--without-zone", ZONE_A, "-o", "wide")
    assert "+67%" in wide.out
    assert "LOAD" not in zoneward("plan", "--sample", CART).out


def test_compare_shows_the_load_of_each_approach(zoneward: Commands) -> None:
    arguments = ("compare", "--sample", CART, "--only", "none,PreferSameZone", "--without-zone", ZONE_A)
    service = zoneward.json(*arguments)["services"][0]
    assert [approach["loadChange"] for approach in service["approaches"]] == [0.052632, -0.866839]
    assert service["today"]["loadChange"] == -0.866839
    table = zoneward(*arguments).out
    assert "LOAD" in table
    assert "-87%" in table
    csv = zoneward(*arguments, "-o", "csv").out.splitlines()
    assert ",loadChange,best,better,needs," in csv[0]
    assert ",-0.866839," in csv[2]
    unchanged = ("compare", "--sample", CART)
    assert "LOAD" not in zoneward(*unchanged).out
    assert zoneward.json(*unchanged)["services"][0]["today"]["loadChange"] is None


def test_compare_shows_now_of_the_unchanged_cluster(zoneward: Commands, tmp_path: Path) -> None:
    slices = tmp_path / "slices.yaml"
    slices.write_text(zoneward("plan", "-q", "--sample", "-o", "yaml", CART).out)
    arguments = ("compare", "-q", "-f", str(SAMPLE), "-f", str(slices), CART, "--only", "none,local", "-o", "json")
    read, changed = (json.loads(zoneward(*arguments, *more).out) for more in ((), ("--without-zone", ZONE_A)))
    assert changed["services"][0]["now"]["slices"] == 1
    assert changed["services"][0]["now"] == read["services"][0]["now"]
    assert changed["proxies"] == read["proxies"]
    assert changed["services"][0]["approaches"] != read["services"][0]["approaches"]


# --- bad input --------------------------------------------------------------------------------------------------------


def test_service_to_change_must_have_pods_and_be_unique(zoneward: Commands, tmp_path: Path) -> None:
    more = tmp_path / "more.yaml"
    head = "apiVersion: v1\nkind: Service\nmetadata:"
    more.write_text(
        f"{head} {{name: cart, namespace: other}}\nspec: {{selector: {{app: nothing}}}}\n---\n"
        f"{head} {{name: bare, namespace: other}}\n"
    )
    files = ("-f", SAMPLE, "-f", more)
    for name in ("other/cart", "other/bare"):
        assert (
            zoneward.refused("plan", *files, "--replicas", f"{name}=2")
            == f"zoneward: --replicas: Service {name}: expected a Pod to copy, found none\n"
        )
        assert zoneward("plan", *files, name, "--replicas", f"{name}=0").status == 0
    result = zoneward("plan", *files, "--replicas", "cart=2")
    assert "expected a Service with its namespace (other/cart, shop/cart), got 'cart'" in result.err
