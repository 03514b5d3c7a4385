"""All forms of the same documents give the same objects."""

import importlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.kube.documents import DOCUMENTS, FORMS, NODES, PODS, SERVICES, SLICES, Document, to_json, to_list, to_yaml
from tests.properties.random_clusters import examples

from zoneward.kube import yaml_documents
from zoneward.kube.object_reader import read_objects
from zoneward.kube.objects import EndpointPort, EndpointSlice, Node, Object, Pod, Service
from zoneward.kube.struct_decoder import object_title

SERVICE: Document = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "cart", "namespace": "shop"}}


def objects(data: bytes) -> list[Object]:
    return [obj for obj in read_objects("a", data, skipped=Counter()) if isinstance(obj, Object)]


def objects_and_skipped(data: bytes) -> tuple[list[Object], Counter[str]]:
    skipped = Counter[str]()
    return [obj for obj in read_objects("a", data, skipped=skipped) if isinstance(obj, Object)], skipped


def one(text: str) -> Object:
    (obj,) = objects(text.encode())
    return obj


def service(text: str) -> Service:
    obj = one(f"apiVersion: v1\nkind: Service\nmetadata:\n  name: cart\n{text}")
    assert isinstance(obj, Service)
    return obj


@pytest.mark.parametrize("form", FORMS)
@examples(15)
@given(documents=DOCUMENTS)
def test_every_form_gives_the_same_objects(form: str, documents: Sequence[Document]) -> None:
    read, skipped = objects_and_skipped(FORMS[form](documents))
    if form == "yaml-with-alias":
        skipped -= Counter({"A/A": 1})
    assert (read, skipped) == objects_and_skipped(to_json(list(documents)))


@pytest.mark.parametrize(
    ("kind", "things"), [("Service", SERVICES), ("Node", NODES), ("Pod", PODS), ("EndpointSlice", SLICES)]
)
@examples(20)
@given(data=st.data())
def test_items_of_a_typed_list_need_not_say_their_kind(
    kind: str, things: st.SearchStrategy[Document], data: st.DataObject
) -> None:
    documents = data.draw(st.lists(things, max_size=3))
    version = "discovery.k8s.io/v1" if kind == "EndpointSlice" else "v1"
    bare = [{field: document[field] for field in document.keys() - {"apiVersion", "kind"}} for document in documents]
    typed = {"apiVersion": version, "items": bare, "kind": f"{kind}List"}
    assert objects(to_json(typed)) == objects(to_yaml(typed)) == objects(to_json(documents))


def test_other_kinds_and_versions_are_counted() -> None:
    documents: list[Document] = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "items": "any"},
        {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": 5}},
        {"apiVersion": "discovery.k8s.io/v1beta1", "kind": "EndpointSlice", "addressType": 7},
        {"apiVersion": "example.com/v1", "kind": "AllowList", "items": {"a": "b"}},
        {"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"data": {}}, {"data": {}}]},
        to_list([{"apiVersion": "apps/v1", "kind": "Deployment"}]),
    ]
    counted = {
        "apps/v1/Deployment": 2, "v1/Endpoints": 1, "discovery.k8s.io/v1beta1/EndpointSlice": 1,
        "example.com/v1/AllowList": 1, "v1/ConfigMap": 2,
    }  # fmt: skip
    for form in FORMS.values():
        read, skipped = objects_and_skipped(form(documents))
        assert read == []
        assert skipped - Counter({"A/A": 1}) == counted


def test_items_of_other_kinds_are_ignored() -> None:
    for data in (b'{"kind":"A","apiVersion":"b","items":[1]}', b"items: [1, {kind: 5}]\nkind: A\napiVersion: b"):
        assert objects_and_skipped(data) == ([], Counter({"b/A": 1}))


def test_text_that_looks_like_a_date_a_time_of_day_or_an_operator_stays_text() -> None:
    labels = service("  labels: {a: 2024-05-01, b: 12:30, c: 2024-05-01T10:00:00Z, d: 1:20.5, e: =}\n").metadata.labels
    assert labels == {"a": "2024-05-01", "b": "12:30", "c": "2024-05-01T10:00:00Z", "d": "1:20.5", "e": "="}


def test_cpu_without_quotes_is_read_exactly() -> None:
    for written, value in (("4", 4), ("3.92", 3.92), ("3920m", "3920m"), ("1e3", "1e3"), ("'4'", "4")):
        node = one(f"apiVersion: v1\nkind: Node\nmetadata: {{name: n}}\nstatus: {{allocatable: {{cpu: {written}}}}}\n")
        assert isinstance(node, Node)
        assert node.status is not None
        assert node.status.allocatable is not None
        assert node.status.allocatable.cpu == value


def test_aliases_merges_and_tags_work_as_in_pyyaml() -> None:
    text = """
x-labels: &labels {app: cart, tier: web}
apiVersion: !!str v1
kind: Service
metadata:
  name: &name cart
  namespace: *name
  labels: {tier: !!str 5, <<: *labels}
spec:
  selector: *labels
  ports:
  - &port {name: a, port: 80}
  - {<<: [*port], name: b}
---
apiVersion: v1
kind: List
items:
- &first {apiVersion: v1, kind: Service, metadata: {name: a}}
- {<<: *first, metadata: {name: b}}
---
- {apiVersion: v1, kind: &n Node, metadata: {name: *n}}
"""
    cart, *others = objects(text.encode())
    assert isinstance(cart, Service)
    assert cart.metadata.labels == {"app": "cart", "tier": "5"}
    assert cart.metadata.namespace == "cart"
    assert cart.spec.selector == {"app": "cart", "tier": "web"}
    assert [(port.name, port.port) for port in cart.spec.ports or ()] == [("a", 80), ("b", 80)]
    assert [object_title(obj) for obj in others] == ["Service default/a", "Service default/b", "Node Node"]


def test_unread_fields_may_have_any_tag_alias_or_duplicate_key() -> None:
    strange = "  managedFields: [{a: b, a: c}]\nother: {? [a] : !Ref b, ? {c: d} : &e 5, f: *e, <<: {g: h}}\nother: d\n"
    assert service(strange) == service("")
    doubled = to_json(SERVICE).replace(b'"metadata"', b'"other": {"a": 1, "a": 2}, "metadata"')
    assert objects(doubled) == objects(to_json(SERVICE))


@pytest.mark.parametrize("text", ["foo", "", "-", "0x", "2001-99-99", "12:30", "9" * 1_000_000])
@pytest.mark.parametrize("tag", ["int", "float", "bool", "timestamp"])
def test_tag_that_does_not_fit_leaves_text(tag: str, text: str) -> None:
    assert service(f'  annotations: {{a: !!{tag} "{text}"}}\n').metadata.annotations == {"a": text}


def test_concatenated_files_may_have_byte_order_marks() -> None:
    for text in (to_json(SERVICE) + b"\n", b"---\napiVersion: v1\nkind: Node\nmetadata: {name: a}\n"):
        assert objects((b"\xef\xbb\xbf" + text) * 2) == objects(text) * 2


@pytest.mark.parametrize("zone", ["", "my zone", "a\nb", "\x1b[2J", "x" * 5000])
@pytest.mark.parametrize("port", [-1, 0, 70_000, 2**31 - 1])
def test_zone_and_port_may_be_anything_that_an_api_server_accepts(zone: str, port: int) -> None:
    slice_ = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "a"}}
    endpoints = [{"addresses": ["10.0.0.1"], "zone": zone}, {"hints": {"forZones": None}}]
    document = slice_ | {"addressType": "IPv4", "endpoints": endpoints, "ports": [{"port": port}, {}]}
    (read_,) = objects(json.dumps(document).encode())
    assert isinstance(read_, EndpointSlice)
    assert (read_.endpoints or ())[0].zone == zone
    assert read_.ports == (EndpointPort(port=port), EndpointPort())


@pytest.fixture
def _slow_parser(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delattr(yaml, "CSafeLoader")
    importlib.reload(yaml_documents)
    assert not hasattr(yaml_documents.Loader, "raw_parse")
    yield
    monkeypatch.undo()
    importlib.reload(yaml_documents)


@pytest.mark.usefixtures("_slow_parser")
@pytest.mark.parametrize("form", [form for form in FORMS if form.startswith("yaml")])
def test_yaml_is_read_without_the_c_parser(form: str) -> None:
    documents = [SERVICE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}, SERVICE]
    titles = [object_title(obj) for obj in objects(FORMS[form](documents))]
    assert titles == ["Service shop/cart", "Node n1", "Service shop/cart"]


def test_object_without_a_namespace_is_in_default() -> None:
    slice_ = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4"}
    documents = [{"apiVersion": "v1", "kind": kind} for kind in ("Service", "Pod", "Node")] + [slice_]
    namespaces: list[dict[str, Any]] = [{}, {"namespace": ""}, {"namespace": None}]
    for namespace in namespaces:
        read = objects(to_json([document | {"metadata": {"name": "x", **namespace}} for document in documents]))
        titles = [object_title(obj) for obj in read]
        assert titles == ["Service default/x", "Pod default/x", "Node x", "EndpointSlice default/x"]


def test_null_field_counts_as_absent() -> None:
    head = {"apiVersion": "v1", "kind": "Pod"}
    empty = head | {"metadata": {"name": "x", "uid": None}, "spec": None, "status": None}
    port = head | {"metadata": {"name": "x"}, "spec": {"containers": [{"ports": [{"name": None}]}]}}
    for form in (to_json, to_yaml):
        assert objects(form(empty)) == objects(b"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n")
        (pod,) = objects(form(port))
        assert isinstance(pod, Pod)
        assert (pod.spec.containers or ())[0].ports


def test_unread_fields_may_nest_as_deep_as_an_api_server_accepts() -> None:
    deep = '{"f:a":' * 9_000 + "{}" + "}" * 9_000
    text = '{"apiVersion":"v1","kind":"Service","metadata":{"name":"%s","managedFields":[{"fieldsV1":%s}]}}'
    one, other = text % ("one", deep), text % ("other", deep)
    listed = f'{{"apiVersion":"v1","kind":"List","items":[{one},{other}]}}'
    for data in (f"{one}\n{other}\n", listed):
        assert [service.metadata.name for service in objects(data.encode())] == ["one", "other"]
