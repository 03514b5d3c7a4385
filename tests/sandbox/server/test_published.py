"""The description of the API is found where its root document says, under a hash of what it is."""

import hashlib
import json
from datetime import datetime

import pytest
from zoneward.sandbox.server.published import VERSION_2, description, root

from zoneward.sandbox.server.kinds import Kind, Object, Rules

GROUPS = ("", "discovery.k8s.io", "events.k8s.io", "coordination.k8s.io")
APIS = ("api/v1", "apis/discovery.k8s.io/v1", "apis/events.k8s.io/v1", "apis/coordination.k8s.io/v1")


def _no_cells(thing: Object, now: datetime) -> list[object]:
    return [thing, now]


def test_the_root_names_each_group_once_and_by_its_hash() -> None:
    kinds = [
        Kind(kind=name, plural=name, group=group, rules=Rules(), cells=_no_cells) for group in GROUPS for name in "ab"
    ]
    addresses = root(kinds)["paths"]
    assert tuple(addresses) == APIS
    for path, address in addresses.items():
        found = description(path)
        assert found is not None
        digest = hashlib.sha512(found.body).hexdigest().upper()
        assert address == {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}


def test_groups_without_a_description_are_left_out() -> None:
    kind = Kind(kind="A", plural="as", group="none.example.com", rules=Rules(), cells=_no_cells)
    assert root([kind]) == {"paths": {}}


@pytest.mark.parametrize("path", APIS)
def test_a_description_is_openapi_with_strict_field_checks(path: str) -> None:
    found = description(path)
    assert found is not None
    document = json.loads(found.body)
    assert document["openapi"].startswith("3.")
    patches = [item["patch"] for item in document["paths"].values() if "patch" in item]
    # kubectl looks for it before it leaves the checks to the server.
    assert patches
    assert all("fieldValidation" in {each["name"] for each in patch["parameters"]} for patch in patches)


@pytest.mark.parametrize(
    "path", ["", "api", "api/v9", "apis/v1", "apis/nope.k8s.io/v1", "apis/go/fields", "apis/../v1"]
)
def test_there_is_nothing_else(path: str) -> None:
    assert description(path) is None


def test_the_old_description_is_a_message_of_a_version_and_a_title() -> None:
    # Fields 1 and 2, and 1 and 2 of the latter: tags, lengths, texts.
    version, info = VERSION_2[2:5], VERSION_2[7:]
    assert (VERSION_2[:2], version) == (b"\x0a\x03", b"2.0")
    assert VERSION_2[5:7] == bytes([0x12, len(info)])
    title, minor = info[2:12], info[14:]
    assert (info[:2], title) == (bytes([0x0A, len(title)]), b"Kubernetes")
    assert (info[12:14], minor) == (bytes([0x12, len(minor)]), b"1.36")
