"""The table of Events says of each what a real server (1.36.3) said of it, whichever group it is written in."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from zoneward.sandbox.server.columns.events import COLUMNS, cells

Object = dict[str, Any]

NOW = datetime(2026, 11, 21, 17, 54, 42, tzinfo=UTC)
NEWER = {
    "involvedObject": "regarding",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "message": "note",
    "reportingComponent": "reportingController",
}
"""What ``events.k8s.io`` calls them."""


def ago(**duration: float) -> str:
    return (NOW - timedelta(**duration)).strftime("%Y-%m-%dT%H:%M:%SZ")


def ago_precisely(**duration: float) -> str:
    return (NOW - timedelta(**duration)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def event(about: Object | None = None, **fields: object) -> Object:
    involved = {"kind": "Pod", "name": "p", **(about or {})}
    return {"metadata": {"name": "e"}, "involvedObject": involved, **fields}


NORMAL: Object = {"type": "Normal", "reason": "R", "message": "m"}
REPORTED: Object = {"reportingComponent": "example.com/c", "reportingInstance": "c-1"}
EVENTS: dict[str, tuple[Object, list[object]]] = {
    "by an old recorder": (
        event(
            {"fieldPath": "spec.containers{a}"},
            type="Normal",
            reason="R",
            message="  two\nlines \n",
            firstTimestamp=ago(hours=3),
            lastTimestamp=ago(minutes=5),
            count=7,
            source={"component": "kubelet", "host": "n1"},
        ),
        ["5m", "Normal", "R", "pod/p", "spec.containers{a}", "kubelet, n1", "two\nlines", "3h", 7, "e"],
    ),
    "once": (
        event(type="Warning", reason="R", message="m", firstTimestamp=ago(hours=3), source={"component": "kubelet"}),
        ["3h", "Warning", "R", "pod/p", "", "kubelet", "m", "3h", 1, "e"],
    ),
    "bare": (event(), ["<unknown>", "", "", "pod/p", "", "", "", "<unknown>", 1, "e"]),
    "of a kind": (event({"name": ""}), ["<unknown>", "", "", "pod", "", "", "", "<unknown>", 1, "e"]),
    "of a host": (
        event(source={"host": "n1"}, count=0),
        ["<unknown>", "", "", "pod/p", "", ", n1", "", "<unknown>", 1, "e"],
    ),
    "by a new recorder": (
        event(**NORMAL, **REPORTED, eventTime=ago_precisely(minutes=90)),
        ["90m", "Normal", "R", "pod/p", "", "example.com/c, c-1", "m", "90m", 1, "e"],
    ),
    "a series": (
        event(
            **NORMAL,
            **REPORTED,
            eventTime=ago_precisely(hours=9),
            series={"count": 5, "lastObservedTime": ago_precisely(seconds=150)},
        ),
        ["2m30s", "Normal", "R", "pod/p", "", "example.com/c, c-1", "m", "9h", 5, "e"],
    ),
    "all at once": (
        event(
            **NORMAL,
            **REPORTED,
            eventTime=ago_precisely(hours=9),
            firstTimestamp=ago(hours=2),
            lastTimestamp=ago(hours=1),
            count=3,
            series={"count": 5, "lastObservedTime": ago_precisely(seconds=100)},
            source={"component": "own"},
        ),
        ["100s", "Normal", "R", "pod/p", "", "own, c-1", "m", "120m", 5, "e"],
    ),
}


@pytest.mark.parametrize("case", EVENTS)
@pytest.mark.parametrize("is_newer", [False, True])
def test_an_event_has_its_words(case: str, is_newer: bool) -> None:
    thing, expected = EVENTS[case]
    written = {NEWER.get(key, key): value for key, value in thing.items()} if is_newer else thing
    assert cells(written, NOW) == expected


def test_there_is_a_cell_for_each_column() -> None:
    wide = ["Subobject", "Source", "First Seen", "Count", "Name"]
    names = ["Last Seen", "Type", "Reason", "Object", "Subobject", "Source", "Message", "First Seen", "Count", "Name"]
    assert [(column.name, column.priority) for column in COLUMNS] == [(name, name in wide) for name in names]
