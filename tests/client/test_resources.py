"""Where an API server has the kinds, and what becomes of their objects."""

import json

import msgspec
import pytest

from zoneward.client.resources import NODES, PODS, SLICES, AnyWatchedResource
from zoneward.kube.objects import Node, Pod, parse_resource_version

SLICES_PATH = "/apis/discovery.k8s.io/v1"


@pytest.mark.parametrize(
    ("resource", "everywhere", "in_shop"),
    [
        (NODES, "/api/v1/nodes", "/api/v1/nodes"),
        (PODS, "/api/v1/pods", "/api/v1/namespaces/shop/pods"),
        (SLICES, f"{SLICES_PATH}/endpointslices", f"{SLICES_PATH}/namespaces/shop/endpointslices"),
    ],
    ids=["Node", "Pod", "EndpointSlice"],
)
def test_paths_are_those_of_the_api(resource: AnyWatchedResource, everywhere: str, in_shop: str) -> None:
    assert resource.path() == everywhere
    assert resource.path(namespace="shop") == in_shop
    assert resource.path(namespace="shop", name="cart") == f"{in_shop}/cart"


@pytest.mark.parametrize(("resource", "kind"), [(PODS, Pod), (NODES, Node)], ids=["Pod", "Node"])
def test_a_live_object_is_the_same_as_one_from_a_file_but_for_its_version(
    resource: AnyWatchedResource, kind: type[Pod | Node]
) -> None:
    document = {"metadata": {"name": "a", "labels": {"b": "c"}, "resourceVersion": "7"}}
    (live,) = resource.lists.decode(json.dumps({"metadata": {}, "items": [document]})).items or ()
    assert msgspec.to_builtins(live) == document
    del document["metadata"]["resourceVersion"]
    assert msgspec.to_builtins(msgspec.convert(document, kind)) == document


def test_only_versions_that_are_numbers_compare() -> None:
    assert [parse_resource_version(text) for text in ("17", "0")] == [17, 0]
    assert {parse_resource_version(text) for text in ("", None, "v3", "-1", "²")} == {None}
