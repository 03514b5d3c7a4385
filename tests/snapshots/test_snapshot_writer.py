"""A written List reads back as the same objects, and looks like kubectl's."""

import json
from collections import Counter
from io import BytesIO
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.structs import a_node, a_pod, a_service, a_slice, an_endpoint
from tests.synthetic_cluster import synthetic_cluster

from zoneward.client.resources import LiveNode, LiveNodeMeta, LivePod, LivePodMeta, LivePodStatus
from zoneward.kube.object_reader import read_objects
from zoneward.snapshots.cluster_snapshot import Snapshot
from zoneward.snapshots.snapshot_writer import SnapshotFormat, iter_documents, write_json, write_snapshot, write_yaml

OBJECTS = [
    {"kind": "Service", "apiVersion": "v1", "spec": {"ports": [{"port": 80, "name": "http"}], "clusterIPs": ["None"]}},
    {"kind": "Pod", "apiVersion": "v1", "status": {"ready": "True", "conditions": [], "labels": {}, "probe": None}},
]
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def to_yaml(objects: Any) -> str:
    stream = BytesIO()
    write_yaml(objects, stream)
    return stream.getvalue().decode()


def to_json(objects: Any) -> str:
    stream = BytesIO()
    write_json(objects, stream)
    return stream.getvalue().decode()


def test_yaml_has_items_at_column_0_and_sorted_keys() -> None:
    assert to_yaml(OBJECTS) == (
        "apiVersion: v1\n"
        "items:\n"
        "- apiVersion: v1\n"
        "  kind: Service\n"
        "  spec:\n"
        "    clusterIPs:\n"
        "    - None\n"
        "    ports:\n"
        "    - name: http\n"
        "      port: 80\n"
        "- apiVersion: v1\n"
        "  kind: Pod\n"
        "  status:\n"
        "    conditions: []\n"
        "    labels: {}\n"
        "    probe: null\n"
        '    ready: "True"\n'
        "kind: List\n"
        "metadata:\n"
        '  resourceVersion: ""\n'
    )


def test_json_has_one_object_on_a_line_and_sorted_keys() -> None:
    assert to_json(OBJECTS) == (
        '{"apiVersion":"v1","items":[\n'
        '{"apiVersion":"v1","kind":"Service","spec":{"clusterIPs":["None"],"ports":[{"name":"http","port":80}]}},\n'
        '{"apiVersion":"v1","kind":"Pod","status":{"conditions":[],"labels":{},"probe":null,"ready":"True"}}\n'
        '],"kind":"List","metadata":{"resourceVersion":""}}\n'
    )


def test_a_list_without_objects_reads_back_as_one() -> None:
    empty = {"apiVersion": "v1", "items": [], "kind": "List", "metadata": {"resourceVersion": ""}}
    assert yaml.load(to_yaml([]), Loader=LOADER) == empty
    assert json.loads(to_json([])) == empty


@pytest.mark.parametrize("realistic", [True, False])
def test_a_synthetic_cluster_reads_back_the_same_from_either(realistic: bool) -> None:
    objects = list(synthetic_cluster(seed=9, pods=60, nodes=6, services=12, realistic=realistic))
    assert yaml.load(to_yaml(objects), Loader=LOADER)["items"] == objects
    assert json.loads(to_json(objects))["items"] == objects


@pytest.mark.parametrize(
    "text",
    ["true", "Yes", "off", "y", "N", "null", "1", "-1", "0x1f", "0o17", "017", "1_000", "1e3", "-1.5E-3", ".5", "1.",
     ".inf", "-.Inf", ".nan", "1:20", "2026-10-20", "2026-10-20T09:14:00Z", "<<"],
)  # fmt: skip
def test_text_that_someone_reads_as_something_else_is_in_double_quotes(text: str) -> None:
    assert f'key: "{text}"\n' in to_yaml([{"key": text}])
    assert yaml.load(to_yaml([{"key": text}]), Loader=LOADER)["items"] == [{"key": text}]


@pytest.mark.parametrize(
    "text",
    ["None", "10.96.0.1", "fd00:10::1", "a b", "it's", "http://shop:80/x?y=z#1", "--flag", "containerd://2.1.4",
     "$(POD_IP)", "1f3a", "3920m", "4.12.1"],
)  # fmt: skip
def test_text_that_needs_no_quotes_has_none(text: str) -> None:
    assert f"key: {text}\n" in to_yaml([{"key": text}])


@pytest.mark.parametrize(
    "text", ["", " ", "- a", "a: b", "a:", "a #b", "*", "&a", "[x]", "{}", "%", "@", "`", "|", ">", "!", "~"]
)
def test_text_that_means_something_in_yaml_is_quoted(text: str) -> None:
    line = to_yaml([{"key": text}]).splitlines()[2]
    assert line in {f"- key: '{text}'", f'- key: "{text}"'}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.text("-:#'\"\\ \n\t~yn1e.0x_{}[]?&*!|>%@`,=<"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(st.text(max_size=8), JSON, max_size=4), max_size=3))
def test_any_objects_read_back_the_same(objects: list[dict[str, Any]]) -> None:
    assert yaml.load(to_yaml(objects), Loader=LOADER)["items"] == objects
    assert json.loads(to_json(objects))["items"] == objects


def saved(snapshot: Snapshot, form: SnapshotFormat = "json") -> bytes:
    stream = BytesIO()
    write_snapshot(snapshot, stream, form=form)
    return stream.getvalue()


def again(data: bytes) -> Snapshot:
    return Snapshot.of(read_objects("saved", data, skipped=Counter()))


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
