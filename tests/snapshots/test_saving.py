"""A saved snapshot is one List of what Zoneward reads, which reads back as the same snapshot."""

import json
from collections import Counter
from io import BytesIO

import pytest
from tests.clusters import a_node, a_pod, a_service, a_slice, an_endpoint
from tests.synthetic_cluster import synthetic_cluster

from zoneward.client.resources import LiveNode, LiveNodeMeta, LivePod, LivePodMeta, LivePodStatus
from zoneward.kube.object_reader import read_objects
from zoneward.snapshots.cluster_snapshot import Snapshot
from zoneward.snapshots.snapshot_writer import SnapshotFormat, iter_documents, write_snapshot


def saved(snapshot: Snapshot, form: SnapshotFormat = "json") -> bytes:
    stream = BytesIO()
    write_snapshot(snapshot, stream, form=form)
    return stream.getvalue()


def again(data: bytes) -> Snapshot:
    return Snapshot.of(read_objects("saved", data, skipped=Counter()))


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_synthetic_cluster_reads_back_as_it_was(form: SnapshotFormat) -> None:
    objects = list(synthetic_cluster(seed=3, pods=80, nodes=8, services=16))
    whole = again(json.dumps(objects).encode())
    assert again(saved(whole, form)) == whole
    assert saved(again(saved(whole, form)), form) == saved(whole, form)


def test_objects_come_kind_by_kind_each_with_its_version_and_kind() -> None:
    things = (a_slice("s", an_endpoint()), a_pod("p"), a_node("n"), a_service())
    heads = [(each["apiVersion"], each["kind"]) for each in iter_documents(Snapshot.of(things))]
    assert heads == [("v1", "Service"), ("v1", "Node"), ("v1", "Pod"), ("discovery.k8s.io/v1", "EndpointSlice")]


def test_pods_and_nodes_of_a_live_cluster_are_saved_without_their_version() -> None:
    live = Snapshot(
        nodes=(LiveNode(metadata=LiveNodeMeta(name="n", resource_version="7")),),
        pods=(LivePod(metadata=LivePodMeta(name="p", namespace="shop", resource_version="8")),),
    )
    assert [each["metadata"] for each in iter_documents(live)] == [{"name": "n"}, {"name": "p", "namespace": "shop"}]


def test_what_a_cache_knows_of_a_pod_beside_the_api_s_fields_is_not_saved() -> None:
    metadata = LivePodMeta(name="p", namespace="shop")
    pod = LivePod(metadata=metadata, status=LivePodStatus(phase="Running", ready_since="2026-11-21T08:00:00Z"))
    assert [each["status"] for each in iter_documents(Snapshot(pods=(pod,)))] == [{"phase": "Running"}]


def test_that_there_are_no_pods_is_saved_where_it_is_known() -> None:
    known, unknown = Snapshot(services=(a_service(),), lists_pods=True), Snapshot(services=(a_service(),))
    for snapshot in (known, unknown):
        read_back = again(saved(snapshot))
        assert read_back.has_pods is snapshot.has_pods
        assert read_back.pods_of(a_service()) == ()
    assert again(saved(again(saved(known)))) == again(saved(known))
