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

from zoneward.client.resources import LiveNode, LiveNodeMeta, LivePod, LivePodMeta, LivePodStatus
from zoneward.kube.object_reader import read_objects
from zoneward.snapshots.cluster_snapshot import Snapshot
from zoneward.snapshots.snapshot_writer import iter_documents, write_json, write_snapshot, write_yaml

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


@pytest.mark.parametrize(
    ("quoted", "texts"),
    [
        # Something else where it has no quotes.
        (
            ('"{}"',),
            "true Yes off y N null 1 -1 0x1f 0o17 017 1_000 1e3 -1.5E-3 .5 .inf .nan 1:20 2026-10-20 <<",
        ),
        # Part of YAML's own syntax.
        (("'{}'", '"{}"'), "a: *  &a [x] {} % @ ` | > ! ~"),
        (
            ("{}",),
            "None 10.96.0.1 fd00:10::1 it's http://shop:80/x?y=z#1 --flag containerd://2.1.4 $(POD_IP) 1f3a 3920m",
        ),
    ],
)
def test_text_is_quoted_where_a_reader_needs_it(quoted: tuple[str, ...], texts: str) -> None:
    for text in texts.split():
        assert to_yaml([{"key": text}]).splitlines()[2] in {f"- key: {form.format(text)}" for form in quoted}
        assert yaml.load(to_yaml([{"key": text}]), Loader=LOADER)["items"] == [{"key": text}]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.text("-:#'\"\\ \n\t~yn1e.0x_{}[]?&*!|>%@`,=<"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(st.text(max_size=8), JSON, max_size=4), max_size=3))
def test_any_objects_round_trip(objects: list[dict[str, Any]]) -> None:
    assert yaml.load(to_yaml(objects), Loader=LOADER)["items"] == objects
    assert json.loads(to_json(objects))["items"] == objects


def again(snapshot: Snapshot) -> Snapshot:
    stream = BytesIO()
    write_snapshot(snapshot, stream, form="json")
    return Snapshot.of(read_objects("saved", stream.getvalue(), skipped=Counter()))


def test_objects_are_written_kind_by_kind_with_apiversion_and_kind() -> None:
    things = (a_slice("s", an_endpoint()), a_pod("p"), a_node("n"), a_service())
    heads = [(document["apiVersion"], document["kind"]) for document in iter_documents(Snapshot.of(things))]
    assert heads == [("v1", "Service"), ("v1", "Node"), ("v1", "Pod"), ("discovery.k8s.io/v1", "EndpointSlice")]


def test_fields_of_live_caches_are_not_saved() -> None:
    pod = LivePod(
        metadata=LivePodMeta(name="p", namespace="shop", resource_version="8"),
        status=LivePodStatus(phase="Running", ready_since="2026-11-21T08:00:00Z"),
    )
    live = Snapshot(nodes=(LiveNode(metadata=LiveNodeMeta(name="n", resource_version="7")),), pods=(pod,))
    node, saved = iter_documents(live)
    assert node["metadata"] == {"name": "n"}
    assert (saved["metadata"], saved["status"]) == ({"name": "p", "namespace": "shop"}, {"phase": "Running"})


def test_known_absence_of_pods_is_saved() -> None:
    known, unknown = Snapshot(services=(a_service(),), lists_pods=True), Snapshot(services=(a_service(),))
    for snapshot in (known, unknown):
        read_back = again(snapshot)
        assert read_back.has_pods is snapshot.has_pods
        assert read_back.pods_of(a_service()) == ()
        assert again(read_back) == read_back
