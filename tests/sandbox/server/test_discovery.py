"""What the server says it has is what a real one (1.36.3) says, for the kinds that it has."""

from datetime import datetime
from typing import Any

import pytest

from zoneward.sandbox.server.discovery import (
    aggregated,
    core_versions,
    group,
    groups,
    paths,
    resources,
    version,
)
from zoneward.sandbox.server.kinds import Kind, Object, Rules


def _no_cells(thing: Object, now: datetime) -> list[object]:
    return [thing, now]


def kind(name: str, plural: str, **more: Any) -> Kind:
    return Kind(kind=name, plural=plural, rules=Rules(), cells=_no_cells, **more)


KINDS = (
    kind("Service", "services", short_names=("svc",), categories=("all",), has_status=True),
    kind("Namespace", "namespaces", short_names=("ns",), is_namespaced=False, has_status=True),
    kind("Event", "events", short_names=("ev",)),
    kind("Event", "events", group="events.k8s.io", short_names=("ev",)),
    kind("EndpointSlice", "endpointslices", group="discovery.k8s.io"),
)
ALL = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
STATUS = ["get", "patch", "update"]


def test_the_version_is_that_of_the_rules() -> None:
    told = version()
    assert (told["major"], told["minor"], told["gitVersion"]) == ("1", "36", "v1.36.3")
    assert all(isinstance(value, str) for value in told.values())


def test_the_core_group_has_a_document_of_its_own() -> None:
    assert core_versions(address="192.0.2.1:6443") == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "192.0.2.1:6443"}],
    }


def test_groups_have_versions_and_a_preferred_one() -> None:
    told = [{"groupVersion": f"{name}/v1", "version": "v1"} for name in ("events.k8s.io", "discovery.k8s.io")]
    assert groups(KINDS) == {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [
            {"name": "events.k8s.io", "versions": told[:1], "preferredVersion": told[0]},
            {"name": "discovery.k8s.io", "versions": told[1:], "preferredVersion": told[1]},
        ],
    }


def test_the_first_version_of_a_group_is_the_preferred_one() -> None:
    two = (*KINDS, kind("EndpointSlice", "endpointslices", group="discovery.k8s.io", version="v1beta1"))
    told = group(two, "discovery.k8s.io")
    assert told is not None
    assert told["preferredVersion"]["version"] == "v1"
    assert [each["version"] for each in told["versions"]] == ["v1", "v1beta1"]


def test_a_group_is_shown_alone() -> None:
    only = {"groupVersion": "discovery.k8s.io/v1", "version": "v1"}
    assert group(KINDS, "discovery.k8s.io") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "discovery.k8s.io",
        "versions": [only],
        "preferredVersion": only,
    }


@pytest.mark.parametrize("name", ["nope.k8s.io", ""])
def test_there_is_no_other_group(name: str) -> None:
    assert group(KINDS, name) is None


def test_core_resources_come_with_their_subresources() -> None:
    assert resources(KINDS, "v1") == {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            {
                "name": "events",
                "singularName": "event",
                "namespaced": True,
                "kind": "Event",
                "verbs": ALL,
                "shortNames": ["ev"],
                "storageVersionHash": "r2yiGXH7wu8=",
            },
            {
                "name": "namespaces",
                "singularName": "namespace",
                "namespaced": False,
                "kind": "Namespace",
                "verbs": [verb for verb in ALL if verb != "deletecollection"],
                "shortNames": ["ns"],
                "storageVersionHash": "Q3oi5N2YM8M=",
            },
            {
                "name": "namespaces/finalize",
                "singularName": "",
                "namespaced": False,
                "kind": "Namespace",
                "verbs": ["update"],
            },
            {
                "name": "namespaces/status",
                "singularName": "",
                "namespaced": False,
                "kind": "Namespace",
                "verbs": STATUS,
            },
            {
                "name": "services",
                "singularName": "service",
                "namespaced": True,
                "kind": "Service",
                "verbs": ALL,
                "shortNames": ["svc"],
                "categories": ["all"],
                "storageVersionHash": "0/CO1lhkEBI=",
            },
            {"name": "services/status", "singularName": "", "namespaced": True, "kind": "Service", "verbs": STATUS},
        ],
    }


def test_other_groups_have_a_version_in_their_document() -> None:
    assert resources(KINDS, "discovery.k8s.io/v1") == {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "discovery.k8s.io/v1",
        "resources": [
            {
                "name": "endpointslices",
                "singularName": "endpointslice",
                "namespaced": True,
                "kind": "EndpointSlice",
                "verbs": ALL,
                "storageVersionHash": "qgS0xkrxYAI=",
            }
        ],
    }


def test_events_are_kept_once() -> None:
    documents = [resources(KINDS, api) for api in ("v1", "events.k8s.io/v1")]
    found = [
        each["storageVersionHash"]
        for told in documents
        if told
        for each in told["resources"]
        if each["name"] == "events"
    ]
    assert found == ["r2yiGXH7wu8=", "r2yiGXH7wu8="]


@pytest.mark.parametrize("api", ["v2", "discovery.k8s.io/v9", "nope.k8s.io/v1"])
def test_there_is_no_other_version(api: str) -> None:
    assert resources(KINDS, api) is None


def test_all_of_the_core_group_at_once() -> None:
    told = aggregated(KINDS, core=True)
    (item,) = told.pop("items")
    assert told == {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}}
    assert item["metadata"] == {}
    (only,) = item["versions"]
    assert (only["version"], only["freshness"]) == ("v1", "Current")
    assert [each["resource"] for each in only["resources"]] == ["events", "namespaces", "services"]
    response = {"group": "", "version": "", "kind": "Namespace"}
    assert only["resources"][1] == {
        "resource": "namespaces",
        "responseKind": response,
        "scope": "Cluster",
        "singularResource": "namespace",
        "verbs": [verb for verb in ALL if verb != "deletecollection"],
        "shortNames": ["ns"],
        "subresources": [
            {"subresource": "finalize", "responseKind": response, "verbs": ["update"]},
            {"subresource": "status", "responseKind": response, "verbs": STATUS},
        ],
    }


def test_all_other_groups_at_once() -> None:
    told = aggregated(KINDS, core=False)["items"]
    assert [each["metadata"] for each in told] == [{"name": "events.k8s.io"}, {"name": "discovery.k8s.io"}]
    assert told[1]["versions"] == [
        {
            "version": "v1",
            "resources": [
                {
                    "resource": "endpointslices",
                    "responseKind": {"group": "", "version": "", "kind": "EndpointSlice"},
                    "scope": "Namespaced",
                    "singularResource": "endpointslice",
                    "verbs": ALL,
                }
            ],
            "freshness": "Current",
        }
    ]


def test_all_paths_are_listed_in_order() -> None:
    assert paths(KINDS) == {
        "paths": [
            "/api",
            "/api/v1",
            "/apis",
            "/apis/discovery.k8s.io",
            "/apis/discovery.k8s.io/v1",
            "/apis/events.k8s.io",
            "/apis/events.k8s.io/v1",
            "/healthz",
            "/livez",
            "/openapi/v3",
            "/readyz",
            "/version",
        ]
    }
