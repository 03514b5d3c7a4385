"""Where an API server has the kinds, and what becomes of their objects."""

import json

import msgspec
import pytest
import yaml
from tests.deploy.manifests import ROOT

from zoneward.client.resources import NODES, PODS, WORKLOADS, AnyWatchedResource
from zoneward.kube.objects import Node, Pod, parse_resource_version


def test_a_kind_without_namespaces_has_one_path() -> None:
    assert NODES.path(namespace="shop") == NODES.path() == "/api/v1/nodes"


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


def test_the_role_for_checks_lists_every_kind_that_they_read() -> None:
    role = yaml.safe_load((ROOT / "examples" / "cluster-role-check.yaml").read_text())
    rules = [rule for rule in role["rules"] if "list" in rule["verbs"] and "resourceNames" not in rule]
    listed = {(group, plural) for rule in rules for group in rule["apiGroups"] for plural in rule["resources"]}
    assert listed == {(workload.group, workload.plural) for workload in WORKLOADS}
