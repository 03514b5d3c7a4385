"""Rules for Namespaces: every list of words was read from a v1.36.3 server."""

from typing import Final

from tests.sandbox.server.rules.judging import LABEL, NAME_PART, Alone, change_refused, created, refused, told, updated
from zoneward.sandbox.server.rules.namespace import NamespaceRules, fields

from zoneward.sandbox.server.kinds import Object

RULES: Final = NamespaceRules()
METADATA: Final = {
    "name": "ns",
    "uid": "1",
    "resourceVersion": "7",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "labels": {"kubernetes.io/metadata.name": "ns"},
}
ACTIVE: Final[Object] = {"metadata": METADATA, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
ENDING: Final[Object] = {
    "metadata": METADATA | {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"finalizers": ["kubernetes"]},
    "status": {"phase": "Terminating"},
}
UNQUALIFIED: Final = "name is neither a standard finalizer name nor is it fully qualified"


def test_a_new_namespace_has_its_name_as_a_label_a_finalizer_and_is_active() -> None:
    new = {
        "metadata": {"name": "ns", "labels": {"kubernetes.io/metadata.name": "other", "a": "b"}},
        "spec": {"finalizers": ["a.b/c"]},
        "status": {"phase": "Terminating"},
    }
    assert created(RULES, new) == {
        "metadata": {"name": "ns", "labels": {"kubernetes.io/metadata.name": "ns", "a": "b"}},
        "spec": {"finalizers": ["a.b/c", "kubernetes"]},
        "status": {"phase": "Active"},
    }
    assert created(RULES, {"metadata": {"name": "ns"}})["spec"] == {"finalizers": ["kubernetes"]}


def test_a_name_is_a_label() -> None:
    assert refused(RULES, {"metadata": {"name": "A"}}) == [f'metadata.name: Invalid value: "A": {LABEL}']
    name = "a" * 64
    assert refused(RULES, {"metadata": {"name": name}}) == [
        f'metadata.name: Invalid value: "{name}": must be no more than 63 characters',
        f'metadata.labels: Invalid value: "{name}": must be no more than 63 bytes',
    ]


def test_finalizers_are_standard_or_qualified() -> None:
    new = {"metadata": METADATA, "spec": {"finalizers": ["kubernetes", "x", "a b", "a.b/c"]}}
    assert refused(RULES, new) == [
        f'spec.finalizers: Invalid value: "x": {UNQUALIFIED}',
        f'spec.finalizers: Invalid value: "a b": {NAME_PART}',
        f'spec.finalizers: Invalid value: "a b": {UNQUALIFIED}',
    ]


def test_an_update_changes_metadata_only() -> None:
    new = updated(RULES, ACTIVE, spec={"finalizers": ["a.b/c"]}, metadata={"labels": {"a": "b"}})
    assert new == ACTIVE | {
        "metadata": METADATA | {"labels": {"a": "b", "kubernetes.io/metadata.name": "ns"}},
    }
    assert updated(RULES, ACTIVE, spec=None) == ACTIVE


def test_finalizers_of_the_metadata_are_judged_like_those_of_all_kinds() -> None:
    assert change_refused(RULES, ACTIVE, metadata={"finalizers": ["kub"]}) == [
        f'metadata.finalizers[0]: Invalid value: "kub": {UNQUALIFIED}'
    ]
    assert change_refused(RULES, ACTIVE, status=True, metadata={"finalizers": ["kub"]}) == [
        f'metadata.finalizers[0]: Invalid value: "kub": {UNQUALIFIED}'
    ]


def phase_told(old: Object, status: Object) -> list[str]:
    new = old | {"status": status, "spec": {}}
    RULES.default(new)
    RULES.prepare_status(new, old, Alone())
    assert new["spec"] == old["spec"]
    return told(RULES.validate_status(new, old))


def test_the_phase_goes_with_the_deletion() -> None:
    assert phase_told(ACTIVE, {}) == []
    assert phase_told(ACTIVE, {"phase": "Foo"}) == [
        "status.Phase: Invalid value: \"Foo\": may only be 'Active' if `deletionTimestamp` is empty"
    ]
    assert phase_told(ENDING, {"phase": "Terminating"}) == []
    assert phase_told(ENDING, {"phase": "Active"}) == [
        "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"
    ]


def test_finalize_changes_the_finalizers_and_no_status() -> None:
    new = ENDING | {"spec": {"finalizers": []}, "status": {"phase": "Active"}}
    RULES.prepare_finalize(new, ENDING)
    assert (new["spec"], new["status"]) == ({}, ENDING["status"])
    assert list(RULES.validate_finalize(new, ENDING)) == []
    new = ENDING | {"spec": {"finalizers": ["a.b/c", "a"]}}
    RULES.prepare_finalize(new, ENDING)
    assert told(RULES.validate_finalize(new, ENDING)) == [f'spec.finalizers[1]: Invalid value: "a": {UNQUALIFIED}']


def test_a_namespace_goes_when_nothing_holds_it() -> None:
    assert RULES.holds(ACTIVE)
    assert not RULES.is_over(ENDING)
    empty = ENDING | {"spec": {}}
    assert RULES.is_over(empty)
    assert not RULES.is_over(ACTIVE | {"spec": {}}), "nobody has deleted it"
    assert not RULES.is_over(empty | {"metadata": ENDING["metadata"] | {"finalizers": ["a.b/c"]}})


def test_a_namespace_that_begins_to_end_says_so_and_has_no_grace() -> None:
    new = ACTIVE | {"metadata": ENDING["metadata"] | {"deletionGracePeriodSeconds": 0}}
    RULES.begin_to_end(new)
    assert new == ENDING
    assert ACTIVE["status"] == {"phase": "Active"}


def test_field_selectors_tell_the_phase() -> None:
    assert fields(ENDING) == {"status.phase": "Terminating"}
