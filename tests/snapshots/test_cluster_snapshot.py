"""A snapshot holds each object once and finds what belongs to a Service."""

import gc
import io
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION
from zoneward.kube.input_error import InputError
from zoneward.kube.object_reader import read_objects
from zoneward.kube.objects import EndpointSlice, Node, NodeMeta, ObjectMeta, Pod, PodMeta, PodSpec, Service, ServiceSpec
from zoneward.snapshots.cluster_snapshot import MAX_WARNINGS, Snapshot, read_snapshot


def pod(name: str, *, namespace: str = "shop", node: str = "") -> Pod:
    return Pod(metadata=PodMeta(name=name, namespace=namespace, labels={"app": name}), spec=PodSpec(node_name=node))


def node(name: str, **labels: str) -> Node:
    labels = {key.replace("_", "/"): value for key, value in labels.items()}
    return Node(metadata=NodeMeta(name=name, labels=labels or None))


def service(name: str, *, namespace: str = "shop", selector: dict[str, str] | None = None) -> Service:
    return Service(metadata=ObjectMeta(name=name, namespace=namespace), spec=ServiceSpec(selector=selector))


def slice_(name: str, *, of: str | None, namespace: str = "shop") -> EndpointSlice:
    labels = None if of is None else {"kubernetes.io/service-name": of}
    return EndpointSlice(metadata=ObjectMeta(name=name, namespace=namespace, labels=labels), address_type="IPv4")


def write(path: Path, *kinds_and_names: str) -> str:
    """A file of objects such as ``Pod cart``, all in the namespace shop."""
    documents = []
    for kind, _, name in (each.partition(" ") for each in kinds_and_names):
        documents.append(
            f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: shop, uid: {path.stem}}}\n"
        )
    path.write_text("---\n".join(documents))
    return str(path)


# --- reading ----------------------------------------------------------------------------------------------------------


def test_objects_are_in_the_order_of_the_sources(tmp_path: Path) -> None:
    first = write(tmp_path / "z.yaml", "Pod b", "Service s", "Secret x")
    second = write(tmp_path / "a.yaml", "Node n", "Pod a", "Secret y")
    snapshot = read_snapshot(
        [first, "-", second], stdin=io.BytesIO(b"apiVersion: v1\nkind: Pod\nmetadata: {name: c}\n")
    )
    assert [thing.metadata.name for thing in snapshot.pods] == ["b", "c", "a"]
    assert [thing.metadata.name for thing in snapshot.services] == ["s"]
    assert [thing.metadata.name for thing in snapshot.nodes] == ["n"]
    assert snapshot.slices == ()
    assert snapshot.skipped == {"v1/Secret": 2}
    assert snapshot.warnings == ()


def test_the_later_of_two_equal_objects_takes_the_place_of_the_first_and_a_warning_names_both(tmp_path: Path) -> None:
    a = write(tmp_path / "a.yaml", "Pod x", "Pod y", "Node x")
    b = write(tmp_path / "b.yaml", "Pod x", "Node x", "Service x", "Service x")
    snapshot = read_snapshot([a, b], stdin=None)
    assert [(thing.metadata.name, thing.metadata.uid) for thing in snapshot.pods] == [("x", "b"), ("y", "a")]
    assert snapshot.warnings == (
        f"Pod shop/x is given twice, in {a} and in {b}: the one in {b} counts",
        f"Node x is given twice, in {a} and in {b}: the one in {b} counts",
        f"Service shop/x is given twice in {b}: the later one counts",
    )


def test_equal_names_in_two_namespaces_or_kinds_are_two_objects() -> None:
    snapshot = Snapshot.of([pod("x"), pod("x", namespace="b"), service("x"), node("x"), slice_("x", of=None)])
    assert len(snapshot.pods) == 2
    assert snapshot.warnings == ()


def test_warnings_beyond_a_few_are_only_counted() -> None:
    pods = [pod(f"p{number}") for number in range(MAX_WARNINGS + 5)]
    warnings = Snapshot.of(pods + pods).warnings
    assert len(warnings) == MAX_WARNINGS + 1
    assert warnings[0] == "Pod shop/p0 is given twice: the later one counts"
    assert warnings[-1] == "5 more objects are given twice: the later ones count"


def test_sources_without_any_object_of_use_are_refused(tmp_path: Path) -> None:
    paths = [write(tmp_path / "a.yaml", "Secret a", "ConfigMap b", "Secret c"), write(tmp_path / "b.yaml")]
    expected = "expected at least one Service, Node, Pod or EndpointSlice, got 2 v1/Secret, 1 v1/ConfigMap"
    with pytest.raises(InputError) as caught:
        read_snapshot(paths, stdin=None)
    assert str(caught.value) == f"{paths[0]}, {paths[1]}: {expected}"
    with pytest.raises(InputError) as caught:
        read_snapshot(["-"], stdin=io.BytesIO(b""))
    assert str(caught.value) == "standard input: expected at least one Service, Node, Pod or EndpointSlice, got none"


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was_found(is_enabled: bool) -> None:
    was_enabled = gc.isenabled()
    try:
        (gc.enable if is_enabled else gc.disable)()
        with pytest.raises(InputError):
            read_snapshot(["-"], stdin=io.BytesIO(b"kind: [\n"))
        assert gc.isenabled() == is_enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_a_snapshot_of_what_a_reader_yields_knows_what_it_skipped() -> None:
    skipped = Counter[str]()
    data = b"[{kind: Node, apiVersion: v1, metadata: {name: n}}, {kind: Secret, apiVersion: v1}]"
    snapshot = Snapshot.of(read_objects("a", data, skipped=skipped), skipped=skipped)
    assert len(snapshot.nodes) == 1
    assert snapshot.skipped == {"v1/Secret": 1}


# --- finding ----------------------------------------------------------------------------------------------------------


def test_the_zone_of_a_node_is_its_label_and_an_empty_label_is_none() -> None:
    zone = "topology.kubernetes.io_zone"
    nodes = [node("a", **{zone: "z1"}), node("b", **{zone: ""}), node("c"), node("d", other="x")]
    assert Snapshot.of(nodes).node_zones == {"a": "z1", "b": None, "c": None, "d": None}


def test_the_slices_of_a_service_are_those_that_name_it_in_its_namespace() -> None:
    slices = [slice_("1", of="cart"), slice_("2", of="web"), slice_("3", of="cart", namespace="b"),
              slice_("4", of=None), slice_("5", of="cart"), slice_("6", of="")]  # fmt: skip
    snapshot = Snapshot.of(slices)
    assert [found.metadata.name for found in snapshot.slices_of(service("cart"))] == ["1", "5"]
    assert [found.metadata.name for found in snapshot.slices_of(service("cart", namespace="b"))] == ["3"]
    assert snapshot.slices_of(service("none")) == ()
    assert snapshot.slices_of(service("")) == ()


def test_the_pods_of_a_service_are_those_it_selects_in_its_namespace() -> None:
    snapshot = Snapshot.of([pod("cart"), pod("web"), pod("cart", namespace="b")])
    assert snapshot.pods_of(service("s", selector={"app": "cart"})) == (snapshot.pods[0],)
    assert snapshot.pods_of(service("s", namespace="b", selector={"app": "cart"})) == (snapshot.pods[2],)
    assert snapshot.pods_of(service("s")) == ()


def test_a_service_that_was_adopted_selects_by_its_mark() -> None:
    mark = {SELECTOR_ANNOTATION: '{"app": "cart"}'}
    adopted = replace(service("s"), metadata=replace(service("s").metadata, annotations=mark))
    snapshot = Snapshot.of([pod("cart"), pod("web"), adopted])
    assert snapshot.pods_of(adopted) == (snapshot.pods[0],)
    assert snapshot.only([adopted]).pods == (snapshot.pods[0],)


def test_it_is_known_whether_there_are_pods() -> None:
    assert Snapshot.of([pod("x")]).has_pods
    assert not Snapshot.of([node("x")]).has_pods
