"""Rules for Events in both versions: every list of words was read from a v1.36.3 server."""

from typing import Any, Final

import pytest
from tests.sandbox.server.rules.judging import NAME_PART, SUBDOMAIN, change_refused, refused
from zoneward.sandbox.server.rules.event import (
    NEWER_SELECTABLE,
    SELECTABLE,
    EventRules,
    NewerEventRules,
    fields,
    newer_fields,
)

from zoneward.sandbox.server.kinds import Object

RULES: Final = EventRules()
NEWER: Final = NewerEventRules()
TIME: Final = "2026-01-01T00:00:00.000000Z"
METADATA: Final = {"name": "e", "namespace": "ns", "uid": "1", "resourceVersion": "7"}
OLD_SORT: Final[Object] = {
    "metadata": METADATA,
    "involvedObject": {"kind": "Pod", "namespace": "ns", "name": "x", "fieldPath": "spec"},
    "reason": "R",
    "message": "m",
    "source": {"component": "c", "host": "h"},
    "firstTimestamp": "2026-01-01T00:00:00Z",
    "lastTimestamp": "2026-01-01T00:00:00Z",
    "count": 3,
    "type": "Odd",
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
NEW_SORT: Final[Object] = {
    "metadata": METADATA,
    "involvedObject": {"kind": "Pod", "namespace": "ns", "name": "x"},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": TIME,
    "type": "Normal",
    "reason": "r",
    "action": "a",
    "reportingComponent": "c.d/e",
    "reportingInstance": "i",
}
AMISS: Final = "does not match event.namespace"


@pytest.mark.parametrize(
    ("namespace", "involved", "is_old_sort_good", "is_new_sort_good"),
    [
        ("ns", "ns", True, True),
        ("ns", "", False, False),
        ("ns", "other", False, True),
        ("default", "", True, True),
        ("default", "other", False, True),
        ("kube-system", "", False, True),
    ],
)
def test_an_event_is_where_its_object_is(
    namespace: str, involved: str, is_old_sort_good: bool, is_new_sort_good: bool
) -> None:
    expected = [f'involvedObject.namespace: Invalid value: "{involved}": {AMISS}']
    where = {"metadata": METADATA | {"namespace": namespace}, "involvedObject": {"namespace": involved}}
    assert refused(RULES, OLD_SORT | where) == ([] if is_old_sort_good else expected)
    assert refused(RULES, NEW_SORT | where) == ([] if is_new_sort_good else expected)
    assert refused(NEWER, NEW_SORT | where) == ([] if is_new_sort_good else expected)


def test_an_event_of_the_old_sort_may_say_anything() -> None:
    free = {"reason": "r" * 2000, "message": "m" * 2000, "series": {}, "reportingComponent": "a b!", "action": "x"}
    assert refused(RULES, OLD_SORT | free) == []
    assert refused(RULES, OLD_SORT | {"metadata": METADATA | {"name": "A b", "finalizers": ["kub"]}}) == []


def test_a_name_has_to_fit_into_a_path() -> None:
    assert refused(RULES, OLD_SORT | {"metadata": METADATA | {"name": "A/b%"}}) == [
        "metadata.name: Invalid value: \"A/b%\": may not contain '/'",
        "metadata.name: Invalid value: \"A/b%\": may not contain '%'",
    ]
    assert refused(RULES, OLD_SORT | {"metadata": METADATA | {"name": ".."}}) == [
        "metadata.name: Invalid value: \"..\": may not be '..'"
    ]


def test_what_is_wrong_with_the_event_hides_what_is_wrong_with_its_metadata() -> None:
    wrong = {"metadata": METADATA | {"labels": {"_": "a"}}, "involvedObject": {"namespace": "zz"}}
    assert refused(RULES, OLD_SORT | wrong) == [f'involvedObject.namespace: Invalid value: "zz": {AMISS}']


@pytest.mark.parametrize(("rules", "name"), [(RULES, "reportingComponent"), (NEWER, "reportingController")])
def test_an_event_of_the_new_sort_says_who_did_what_and_why(rules: EventRules, name: str) -> None:
    nothing = {"reportingComponent": "", "reportingInstance": "", "action": None, "reason": None}
    assert refused(rules, NEW_SORT | nothing) == [
        f"{name}: Required value",
        f'{name}: Invalid value: "": name part must be non-empty',
        f'{name}: Invalid value: "": {NAME_PART}',
        "reportingInstance: Required value",
        "action: Required value",
        "reason: Required value",
    ]


def test_texts_have_limits_in_bytes() -> None:
    long = dict.fromkeys(("reportingInstance", "action", "reason"), "\u00fc" * 65) | {"message": "m" * 1025}
    assert refused(RULES, NEW_SORT | long | {"reportingComponent": "x" * 64}) == [
        f'reportingComponent: Invalid value: "{"x" * 64}": name part must be no more than 63 bytes',
        'reportingInstance: Invalid value: "": can have at most 128 characters',
        'action: Invalid value: "": can have at most 128 characters',
        'reason: Invalid value: "": can have at most 128 characters',
        'message: Invalid value: "": can have at most 1024 characters',
    ]
    fitting = dict.fromkeys(("reportingInstance", "action", "reason"), "x" * 128) | {"message": "m" * 1024}
    assert refused(RULES, NEW_SORT | fitting) == []


# --- events.k8s.io ----------------------------------------------------------------------------------------------------


def test_a_new_event_of_the_newer_version_is_of_the_new_sort() -> None:
    assert refused(NEWER, NEW_SORT) == []
    old = {"source": {"host": "h"}, "count": 2, "firstTimestamp": TIME, "lastTimestamp": TIME, "eventTime": None}
    assert refused(NEWER, NEW_SORT | old | {"type": "X", "series": {"count": 1}}) == [
        'series.count: Invalid value: "": should be at least 2',
        "series.lastObservedTime: Required value",
        "eventTime: Required value",
        'type: Invalid value: "": has invalid value: X',
        'firstTimestamp: Invalid value: "": needs to be unset',
        'lastTimestamp: Invalid value: "": needs to be unset',
        'count: Invalid value: "": needs to be unset',
        'source: Invalid value: "": needs to be unset',
    ]


def test_metadata_stands_between_the_rules_of_both_versions_and_those_of_the_newer() -> None:
    wrong = {"metadata": METADATA | {"name": "A_", "finalizers": ["kub"]}, "reason": "", "type": None}
    assert refused(NEWER, NEW_SORT | wrong) == [
        "reason: Required value",
        f'metadata.name: Invalid value: "A_": {SUBDOMAIN}',
        (
            'metadata.finalizers[0]: Invalid value: "kub": name is neither a standard finalizer name nor is it fully '
            "qualified"
        ),
        'type: Invalid value: "": has invalid value: ',
    ]


CHANGES: Final[Object] = {
    "involvedObject": {"namespace": "ns", "name": "other"},
    "reason": "z",
    "message": "z",
    "source": {"component": "z"},
    "firstTimestamp": "2026-03-01T00:00:00Z",
    "lastTimestamp": "2026-03-01T00:00:00Z",
    "count": 9,
    "type": "Warning",
    "eventTime": "2026-01-02T00:00:00.000000Z",
    "action": "z",
    "related": {"kind": "z"},
    "reportingComponent": "z",
    "reportingInstance": "z",
}


def test_nothing_but_the_series_changes_in_the_newer_version() -> None:
    series = {"count": 5, "lastObservedTime": TIME}
    assert change_refused(NEWER, NEW_SORT, series=series, metadata={"labels": {"a": "b"}}) == []
    assert change_refused(NEWER, NEW_SORT, series={"count": 1}) == [
        'series.count: Invalid value: "": should be at least 2',
        "series.lastObservedTime: Required value",
    ]
    for old in (OLD_SORT, NEW_SORT):
        assert change_refused(NEWER, old, **CHANGES) == [
            (
                'involvedObject: Invalid value: {"Kind":"","Namespace":"ns","Name":"other","UID":"","APIVersion":"",'
                '"ResourceVersion":"","FieldPath":""}: field is immutable'
            ),
            'reason: Invalid value: "z": field is immutable',
            'message: Invalid value: "z": field is immutable',
            'source: Invalid value: {"Component":"z","Host":""}: field is immutable',
            'firstTimestamp: Invalid value: "2026-03-01T00:00:00Z": field is immutable',
            'lastTimestamp: Invalid value: "2026-03-01T00:00:00Z": field is immutable',
            "count: Invalid value: 9: field is immutable",
            'type: Invalid value: "Warning": field is immutable',
            'eventTime: Invalid value: "2026-01-02T00:00:00.000000Z": field is immutable',
            'action: Invalid value: "z": field is immutable',
            (
                'related: Invalid value: {"Kind":"z","Namespace":"","Name":"","UID":"","APIVersion":"",'
                '"ResourceVersion":"","FieldPath":""}: field is immutable'
            ),
            'reportingController: Invalid value: "z": field is immutable',
            'reportingInstance: Invalid value: "z": field is immutable',
        ]


@pytest.mark.parametrize("name", CHANGES)
def test_each_field_is_immutable_by_itself(name: str) -> None:
    change: Any = {name: CHANGES[name]}
    assert [told.partition(":")[0] for told in change_refused(NEWER, NEW_SORT, **change)] == [
        {"reportingComponent": "reportingController"}.get(name, name)
    ]


def test_what_goes_is_a_change_too() -> None:
    old = NEW_SORT | {"related": {"kind": "Pod"}}
    assert change_refused(NEWER, old, related=None, eventTime=None) == [
        "eventTime: Invalid value: null: field is immutable",
        "related: Invalid value: null: field is immutable",
    ]


def test_everything_changes_in_v1() -> None:
    for old in (OLD_SORT, NEW_SORT):
        assert change_refused(RULES, old, **CHANGES) == []
    moved = {"namespace": "zz"}
    assert change_refused(RULES, OLD_SORT, involvedObject=moved, metadata={"labels": {"_": "a"}}) == [
        f'metadata.labels: Invalid value: "_": {NAME_PART}',
        f'involvedObject.namespace: Invalid value: "zz": {AMISS}',
    ]


# --- field selectors --------------------------------------------------------------------------------------------------


def test_field_selectors_ask_for_the_object_the_reason_the_type_and_the_source() -> None:
    told = fields(OLD_SORT)
    assert told.keys() == SELECTABLE
    assert {name: value for name, value in told.items() if value} == {
        "involvedObject.kind": "Pod",
        "involvedObject.namespace": "ns",
        "involvedObject.name": "x",
        "involvedObject.fieldPath": "spec",
        "reason": "R",
        "source": "c",
        "type": "Odd",
    }
    assert fields(NEW_SORT)["source"] == "c.d/e", "who reports stands in for the source"


def test_the_newer_version_has_selectors_of_its_own() -> None:
    told = newer_fields(NEW_SORT)
    assert told.keys() == NEWER_SELECTABLE
    assert {name: value for name, value in told.items() if value} == {
        "regarding.kind": "Pod",
        "regarding.namespace": "ns",
        "regarding.name": "x",
        "reason": "r",
        "reportingController": "c.d/e",
        "type": "Normal",
    }
