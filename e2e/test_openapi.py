"""The API description that the sandbox ships is the one that a real server publishes."""

import json
import os
from typing import Any

import pytest
from e2e.control_plane import ControlPlane
from e2e.openapi import FOLDER, GO_FIELDS, GROUPS, as_text, asked, file_of, go_fields

from zoneward.sandbox.server.catalog import kinds
from zoneward.sandbox.server.schema import decode

Object = dict[str, Any]


def shipped(name: str) -> Object:
    document: Object = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return document


@pytest.fixture(scope="module")
def published(control_plane: ControlPlane) -> dict[str, Object]:
    return asked(control_plane.api())


@pytest.mark.parametrize("path", GROUPS)
def test_the_shipped_description_is_the_published_one(published: dict[str, Object], path: str) -> None:
    name = file_of(path)
    assert (FOLDER / name).read_text(encoding="utf-8") == as_text(published[name]), "run: python -m e2e.openapi"


def test_fields_are_declared_in_go_as_shipped(published: dict[str, Object]) -> None:
    schemas = [name for document in published.values() for name in document["components"]["schemas"]]
    assert shipped(GO_FIELDS) == go_fields(schemas, environment=os.environ), "run: python -m e2e.openapi"


@pytest.mark.parametrize("path", GROUPS)
def test_the_description_has_what_kubectl_looks_for(path: str) -> None:
    patches = [item["patch"] for item in shipped(file_of(path))["paths"].values() if "patch" in item]
    assert patches
    for operation in patches:
        assert operation["x-kubernetes-action"] == "patch"
        assert operation["x-kubernetes-group-version-kind"]["kind"] in GROUPS[path]
        assert "fieldValidation" in {each["name"] for each in operation["parameters"]}


@pytest.mark.parametrize("group", [path.removeprefix("apis/").removeprefix("api/") for path in GROUPS])
def test_what_a_server_answers_is_left_as_it_is(control_plane: ControlPlane, group: str) -> None:
    """Decoding is the identity on what Go has written."""
    api = control_plane.api()
    found = 0
    for kind in (each for each in kinds() if each.api == group):
        root = f"/apis/{kind.api}" if kind.group else f"/api/{kind.api}"
        for item in api.get(f"{root}/{kind.plural}").get("items") or ():
            thing = {**item, "apiVersion": kind.api, "kind": kind.kind}
            assert decode(thing, kind) == (thing, [])
            found += 1
    assert found or group not in {"v1", "coordination.k8s.io/v1"}
