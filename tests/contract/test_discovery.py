"""What clients learn before they ask for anything: where the kinds are, and what can be done with them."""

import pytest
from tests.contract.api import Api, Object

ALL = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
STATUS = ["get", "patch", "update"]
GROUPS = ("coordination.k8s.io", "discovery.k8s.io", "events.k8s.io")


def resources(api: Api, path: str) -> dict[str, Object]:
    return {each["name"]: each for each in api.get(path)["resources"]}


def test_groups_are_listed_with_their_versions(api: Api) -> None:
    listed = api.get("/apis")
    assert (listed["kind"], listed["apiVersion"]) == ("APIGroupList", "v1")
    groups = {each["name"]: each for each in listed["groups"]}
    for name in GROUPS:
        version = {"groupVersion": f"{name}/v1", "version": "v1"}
        assert groups[name] == {"name": name, "versions": [version], "preferredVersion": version}


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_is_shown_by_itself(api: Api, name: str) -> None:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    assert api.get(f"/apis/{name}") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": [version],
        "preferredVersion": version,
    }


@pytest.mark.parametrize(
    ("path", "plural", "kind", "is_namespaced", "short", "categories"),
    [
        ("/api/v1", "events", "Event", True, ["ev"], None),
        ("/api/v1", "namespaces", "Namespace", False, ["ns"], None),
        ("/api/v1", "nodes", "Node", False, ["no"], None),
        ("/api/v1", "pods", "Pod", True, ["po"], ["all"]),
        ("/api/v1", "services", "Service", True, ["svc"], ["all"]),
        ("/apis/coordination.k8s.io/v1", "leases", "Lease", True, None, None),
        ("/apis/discovery.k8s.io/v1", "endpointslices", "EndpointSlice", True, None, None),
        ("/apis/events.k8s.io/v1", "events", "Event", True, ["ev"], None),
    ],
)
def test_a_kind_has_its_names_and_verbs(
    api: Api,
    path: str,
    plural: str,
    kind: str,
    is_namespaced: bool,
    short: list[str] | None,
    categories: list[str] | None,
) -> None:
    found = resources(api, path)[plural]
    assert (found["kind"], found["singularName"], found["namespaced"]) == (kind, kind.lower(), is_namespaced)
    assert (found.get("shortNames"), found.get("categories")) == (short, categories)
    # Namespaces cannot be deleted many at a time.
    assert found["verbs"] == [verb for verb in ALL if plural != "namespaces" or verb != "deletecollection"]


@pytest.mark.parametrize("plural", ["namespaces", "nodes", "pods", "services"])
def test_a_status_is_a_subresource(api: Api, plural: str) -> None:
    found = resources(api, "/api/v1")
    status = found[f"{plural}/status"]
    assert (status["kind"], status["singularName"], status["verbs"]) == (found[plural]["kind"], "", STATUS)
    assert status["namespaced"] == found[plural]["namespaced"]


@pytest.mark.parametrize("path", ["/api/v2", "/api/v1/nothings", "/apis/discovery.k8s.io/v9"])
def test_versions_and_resources_that_are_not_are_not_found(api: Api, path: str) -> None:
    assert api.send("GET", path).refusal == (404, "NotFound", "the server could not find the requested resource")


def test_a_group_that_is_not_is_not_found(api: Api) -> None:
    answer = api.send("GET", "/apis/nothing.example")
    assert (answer.code, answer.body) == (404, b"404 page not found\n")


def test_the_version_is_one_that_clients_can_compare(api: Api) -> None:
    version = api.get("/version")
    assert (version["major"], version["minor"]) == ("1", "36")
    assert version["gitVersion"].startswith("v1.36.")
    assert {"gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"} <= version.keys()
