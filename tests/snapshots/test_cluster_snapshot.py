"""A snapshot holds each object once and finds what belongs to a Service."""

import io
from pathlib import Path

import pytest
from tests.builders.structs import a_node, a_pod, a_service, a_slice

from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION
from zoneward.kube.input_error import InputError
from zoneward.snapshots.cluster_snapshot import MAX_WARNINGS, Snapshot, read_snapshot


def write(path: Path, *kinds_and_names: str) -> str:
    """A file of objects such as ``Pod cart``, all in the namespace shop."""
    documents = []
    for kind, _, name in (title.partition(" ") for title in kinds_and_names):
        documents.append(
            f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: shop, uid: {path.stem}}}\n"
        )
    path.write_text("---\n".join(documents))
    return str(path)


def test_objects_are_in_the_order_of_the_sources(tmp_path: Path) -> None:
    first = write(tmp_path / "z.yaml", "Pod b", "Service s", "Secret x")
    second = write(tmp_path / "a.yaml", "Node n", "Pod a", "Secret y")
    snapshot = read_snapshot(
        [first, "-", second], stdin=io.BytesIO(b"apiVersion: v1\nkind: Pod\nmetadata: {name: c}\n")
    )
    assert [pod.metadata.name for pod in snapshot.pods] == ["b", "c", "a"]
    assert [service.metadata.name for service in snapshot.services] == ["s"]
    assert [node.metadata.name for node in snapshot.nodes] == ["n"]
    assert snapshot.slices == ()
    assert snapshot.skipped == {"v1/Secret": 2}
    assert snapshot.warnings == ()


def test_last_duplicate_wins_at_the_position_of_the_first_with_a_warning(tmp_path: Path) -> None:
    a = write(tmp_path / "a.yaml", "Pod x", "Pod y", "Node x")
    b = write(tmp_path / "b.yaml", "Pod x", "Node x", "Service x", "Service x")
    snapshot = read_snapshot([a, b], stdin=None)
    assert [(pod.metadata.name, pod.metadata.uid) for pod in snapshot.pods] == [("x", "b"), ("y", "a")]
    assert snapshot.warnings == (
        f"Pod shop/x is a duplicate, in {a} and in {b}: the one in {b} wins",
        f"Node x is a duplicate, in {a} and in {b}: the one in {b} wins",
        f"Service shop/x is a duplicate in {b}: the last one wins",
    )


def test_equal_names_in_two_namespaces_or_kinds_are_two_objects() -> None:
    snapshot = Snapshot.of([a_pod("x"), a_pod("x", namespace="b"), a_service(name="x"), a_node("x"), a_slice("x")])
    assert (len(snapshot.pods), snapshot.warnings) == (2, ())


def test_warnings_beyond_a_few_are_only_counted() -> None:
    pods = [a_pod(f"p{index}") for index in range(MAX_WARNINGS + 5)]
    warnings = Snapshot.of(pods + pods).warnings
    assert len(warnings) == MAX_WARNINGS + 1
    assert warnings[0] == "Pod shop/p0 is a duplicate: the last one wins"
    assert warnings[-1] == "5 more objects are duplicates: the last ones win"


def test_sources_without_useful_objects_are_refused(tmp_path: Path) -> None:
    paths = [write(tmp_path / "a.yaml", "Secret a", "ConfigMap b", "Secret c"), write(tmp_path / "b.yaml")]
    expected = "expected at least one Service, Node, Pod or EndpointSlice, got 2 v1/Secret, 1 v1/ConfigMap"
    with pytest.raises(InputError) as caught:
        read_snapshot(paths, stdin=None)
    assert str(caught.value) == f"{paths[0]}, {paths[1]}: {expected}"
    with pytest.raises(InputError) as caught:
        read_snapshot(["-"], stdin=io.BytesIO(b""))
    assert str(caught.value) == "standard input: expected at least one Service, Node, Pod or EndpointSlice, got none"


def test_the_zone_of_a_node_is_its_label_and_an_empty_label_is_none() -> None:
    nodes = [a_node("a", "z1"), a_node("b", ""), a_node("c", None), a_node("d", None, labels={"other": "x"})]
    assert Snapshot.of(nodes).node_zones == {"a": "z1", "b": None, "c": None, "d": None}


def test_the_slices_of_a_service_are_those_that_name_it_in_its_namespace() -> None:
    others = [
        a_slice("2", service="web"),
        a_slice("3", namespace="b"),
        a_slice("4", service=None),
        a_slice("6", service=""),
    ]
    snapshot = Snapshot.of([a_slice("1"), *others, a_slice("5")])
    for service, slices in (
        (a_service(), ["1", "5"]),
        (a_service(namespace="b"), ["3"]),
        (a_service(name="none"), []),
        (a_service(name=""), []),
    ):
        assert [slice_.metadata.name for slice_ in snapshot.slices_of(service)] == slices


def test_the_pods_of_a_service_are_those_it_selects_in_its_namespace() -> None:
    mark = {SELECTOR_ANNOTATION: '{"app": "cart"}'}
    adopted = a_service(selects=False, annotations=mark)
    snapshot = Snapshot.of([a_pod("cart"), a_pod("web", labels={"app": "web"}), a_pod("cart", namespace="b"), adopted])
    assert snapshot.pods_of(a_service()) == snapshot.pods_of(adopted) == snapshot.only([adopted]).pods
    assert snapshot.pods_of(a_service()) == (snapshot.pods[0],)
    assert snapshot.pods_of(a_service(namespace="b")) == (snapshot.pods[2],)
    assert snapshot.pods_of(a_service(selects=False)) == ()


def test_pods_of_a_service_outside_the_snapshot_are_found() -> None:
    tiers = [a_pod("one", labels={"tier": "front"}), a_pod("two", labels={"tier": "back"})]
    snapshot = Snapshot.of([*tiers, a_pod("one", namespace="b", labels={"tier": "front"}), a_service()])
    assert snapshot.pods_of(a_service(name="other", selector={"tier": "front"})) == (tiers[0],)
