"""Rules for metadata: every list of words was read from a v1.36.3 server."""

from copy import deepcopy
from typing import Any, Final

import pytest
from tests.sandbox.server.rules.judging import LABEL, NAME_PART, SUBDOMAIN, VALUE, told
from zoneward.sandbox.server.rules import metadata

from zoneward.sandbox.server.kinds import Object

GOOD: Final[Object] = {
    "name": "a",
    "namespace": "ns",
    "uid": "1",
    "resourceVersion": "7",
    "generation": 2,
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "labels": {"app": "x"},
}
UNQUALIFIED: Final = "name is neither a standard finalizer name nor is it fully qualified"
OWNER: Final = {"apiVersion": "v1", "kind": "Pod", "name": "e", "uid": "1", "controller": True}


def new_told(**changes: Any) -> list[str]:
    thing = {"metadata": GOOD | changes}
    return told(metadata.metadata_errors(thing, name_problems=metadata.subdomain_name_problems, is_namespaced=True))


def change_told(old: Object | None = None, **changes: Any) -> list[str]:
    before = {"metadata": GOOD | (old or {})}
    return told(metadata.metadata_update_errors({"metadata": deepcopy(before["metadata"]) | changes}, before))


# --- new objects ------------------------------------------------------------------------------------------------------


def test_good_metadata_has_no_errors() -> None:
    assert new_told() == []
    assert change_told() == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": ""}, ["metadata.name: Required value: name or generateName is required"]),
        ({"name": "A_b"}, [f'metadata.name: Invalid value: "A_b": {SUBDOMAIN}']),
        (
            {"name": "a" * 254},
            [f'metadata.name: Invalid value: "{"a" * 254}": must be no more than 253 characters'],
        ),
        ({"generateName": "a--"}, []),
        ({"generateName": "A-"}, []),
        ({"generateName": "-"}, [f'metadata.generateName: Invalid value: "-": {SUBDOMAIN}']),
        (
            {"generateName": "b" * 260},
            [f'metadata.generateName: Invalid value: "{"b" * 260}": must be no more than 253 characters'],
        ),
        ({"generation": -1}, ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"]),
        (
            {"labels": {"_": "c d", "ok": "x" * 64}},
            [
                f'metadata.labels: Invalid value: "_": {NAME_PART}',
                f'metadata.labels: Invalid value: "c d": {VALUE}',
                f'metadata.labels: Invalid value: "{"x" * 64}": must be no more than 63 bytes',
            ],
        ),
        (
            {"annotations": {"_": "b", "A/b": "c"}},
            [f'metadata.annotations: Invalid value: "_": {NAME_PART}'],
        ),
        (
            {"annotations": {"a": "b" * 262145}},
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
        (
            {
                "ownerReferences": [
                    {"apiVersion": "", "kind": "", "name": "", "uid": ""},
                    {"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "1"},
                ]
            },
            [
                'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty',
                'metadata.ownerReferences.kind: Invalid value: "": must not be empty',
                'metadata.ownerReferences.name: Invalid value: "": must not be empty',
                'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
                (
                    'metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"e","uid":"1"}: '
                    "/v1, Kind=Event is disallowed from being an owner"
                ),
            ],
        ),
        (
            {"ownerReferences": [OWNER, OWNER | {"name": "f", "blockOwnerDeletion": False}]},
            [
                (
                    'metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"Pod","name":"e","uid":"1",'
                    '"controller":true},{"apiVersion":"v1","kind":"Pod","name":"f","uid":"1","controller":true,'
                    '"blockOwnerDeletion":false}]: Only one reference can have Controller set to true. Found "true" in '
                    "references for Pod/e and Pod/f"
                )
            ],
        ),
        (
            {"finalizers": ["_", "x.y/z", "kubernetes", "orphan", "foregroundDeletion", "kub"]},
            [
                f'metadata.finalizers: Invalid value: "_": {NAME_PART}',
                (
                    'metadata.finalizers: Invalid value: ["_","x.y/z","kubernetes","orphan","foregroundDeletion","kub"]'
                    ": finalizer orphan and foregroundDeletion cannot be both set"
                ),
                f'metadata.finalizers[0]: Invalid value: "_": {UNQUALIFIED}',
                f'metadata.finalizers[5]: Invalid value: "kub": {UNQUALIFIED}',
            ],
        ),
    ],
)
def test_new_metadata_is_refused_in_upstreams_words(changes: Object, expected: list[str]) -> None:
    assert new_told(**changes) == expected


def test_what_has_no_namespace_may_not_name_one() -> None:
    def of_cluster(**changes: Any) -> list[str]:
        thing = {"metadata": GOOD | changes}
        return told(metadata.metadata_errors(thing, name_problems=metadata.label_name_problems, is_namespaced=False))

    assert of_cluster(namespace="ns") == ["metadata.namespace: Forbidden: not allowed on this type"]
    assert of_cluster(namespace="") == []
    assert new_told(namespace="") == ["metadata.namespace: Required value"]


def test_some_kinds_take_any_finalizer() -> None:
    thing = {"metadata": GOOD | {"finalizers": ["kub"]}}
    options: Any = {"name_problems": metadata.subdomain_name_problems, "is_namespaced": True}
    assert metadata.metadata_errors(thing, any_finalizer=True, **options) == ()
    assert metadata.metadata_errors(thing, **options) != ()


def test_what_an_update_leaves_as_it_was_is_not_judged_as_new() -> None:
    old = {"metadata": GOOD | {"name": "_"}}
    options: Any = {"name_problems": metadata.subdomain_name_problems, "is_namespaced": True}
    assert metadata.metadata_errors(deepcopy(old), old=old, **options) == ()
    new = {"metadata": old["metadata"] | {"generateName": "_"}}
    assert [error.field for error in metadata.metadata_errors(new, old=old, **options)] == [
        "metadata.generateName",
        "metadata.name",
    ]


# --- updates ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"managedFields": []}, []),
        ({"labels": {"x": "y"}, "annotations": {"x": "y z"}, "finalizers": ["a.b/c"], "generation": 3}, []),
        ({"labels": None}, []),
        ({"labels": {"_": "b"}}, [f'metadata.labels: Invalid value: "_": {NAME_PART}']),
        ({"generation": 1}, ["metadata.generation: Invalid value: 1: must not be decremented"]),
        ({"uid": "xxx"}, ['metadata.uid: Invalid value: "xxx": field is immutable']),
        (
            {"deletionTimestamp": "2020-01-01T00:00:00Z"},
            ['metadata.deletionTimestamp: Invalid value: "2020-01-01T00:00:00Z": field is immutable'],
        ),
        (
            {"deletionGracePeriodSeconds": 3},
            ["metadata.deletionGracePeriodSeconds: Invalid value: 3: field is immutable"],
        ),
        (
            {"generateName": "a/b"},
            ["metadata.generateName: Invalid value: \"a/b\": may not contain '/'"],
        ),
        (
            {"labels": {"_": "b"}, "finalizers": ["_"], "deletionTimestamp": "2020-01-01T00:00:00Z"},
            [
                f'metadata.labels: Invalid value: "_": {NAME_PART}',
                f'metadata.finalizers: Invalid value: "_": {NAME_PART}',
                'metadata.deletionTimestamp: Invalid value: "2020-01-01T00:00:00Z": field is immutable',
                f'metadata.finalizers[0]: Invalid value: "_": {UNQUALIFIED}',
            ],
        ),
    ],
)
def test_an_update_is_refused_in_upstreams_words(changes: Object, expected: list[str]) -> None:
    assert change_told(**changes) == expected


def test_an_update_has_its_causes_twice_and_what_all_new_objects_are_judged_by_once_more() -> None:
    before = {"metadata": GOOD}
    new = {"metadata": GOOD | {"labels": {"_": "b"}, "deletionGracePeriodSeconds": 3}}
    grace = "metadata.deletionGracePeriodSeconds"
    fields = [error.field for error in metadata.metadata_update_errors(new, before)]
    assert fields == ["metadata.labels", grace, "metadata.labels", grace, "metadata.labels"]


def test_an_object_that_is_going_gets_no_new_finalizers() -> None:
    going = {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
        "finalizers": ["x.y/z", "o.p/q"],
    }
    assert change_told(going, finalizers=["x.y/z"]) == []
    assert change_told(going, finalizers=["x.y/z", "n.e/w", "a"]) == [
        (
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
            'found new finalizers []string{"a", "n.e/w"}'
        ),
        f'metadata.finalizers[2]: Invalid value: "a": {UNQUALIFIED}',
    ]


# --- names ------------------------------------------------------------------------------------------------------------


def test_names_are_judged_as_prefixes_or_whole() -> None:
    assert list(metadata.label_name_problems("a.b")) == ["must not contain dots"]
    assert list(metadata.label_name_problems("A")) == [LABEL]
    assert list(metadata.label_name_problems("a" * 64)) == ["must be no more than 63 characters"]
    assert list(metadata.label_name_problems("a-")) == [LABEL]
    assert list(metadata.label_name_problems("a-", is_prefix=True)) == []
    assert list(metadata.subdomain_name_problems("a-", is_prefix=True)) == []


def test_a_name_that_is_free_still_has_to_fit_into_a_path() -> None:
    assert list(metadata.path_segment_problems("A b_")) == []
    assert list(metadata.path_segment_problems("..")) == ["may not be '..'"]
    assert list(metadata.path_segment_problems("..", is_prefix=True)) == []
    assert list(metadata.path_segment_problems("A/b%")) == ["may not contain '/'", "may not contain '%'"]
