"""Events in both versions, as a v1.36.3 server gives the same ones."""

from typing import Final

import pytest
from zoneward.sandbox.server.event_versions import NEWER_NAMES, to_newer, to_stored

from zoneward.sandbox.server.kinds import Object

TIME: Final = "2026-01-01T00:00:00.000000Z"
METADATA: Final = {"name": "e", "managedFields": [{"apiVersion": "v1", "fieldsV1": {"f:message": {}}}]}

OLD_SORT: Final[Object] = {
    "kind": "Event",
    "apiVersion": "v1",
    "metadata": METADATA,
    "involvedObject": {"kind": "Pod", "name": "x"},
    "reason": "r",
    "message": "m",
    "source": {"component": "c", "host": "h"},
    "firstTimestamp": "2026-01-01T00:00:00Z",
    "lastTimestamp": "2026-01-01T00:00:00Z",
    "count": 3,
    "type": "Odd",
    "eventTime": None,
    "related": {"kind": "Pod", "name": "q"},
    "reportingComponent": "",
    "reportingInstance": "",
}
OLD_SORT_NEWER: Final[Object] = {
    "kind": "Event",
    "apiVersion": "events.k8s.io/v1",
    "metadata": METADATA,
    "eventTime": None,
    "reason": "r",
    "regarding": {"kind": "Pod", "name": "x"},
    "related": {"kind": "Pod", "name": "q"},
    "note": "m",
    "type": "Odd",
    "deprecatedSource": {"component": "c", "host": "h"},
    "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
    "deprecatedLastTimestamp": "2026-01-01T00:00:00Z",
    "deprecatedCount": 3,
}
NEW_SORT: Final[Object] = {
    "kind": "Event",
    "apiVersion": "v1",
    "metadata": METADATA,
    "involvedObject": {},
    "reason": "r",
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "type": "Normal",
    "eventTime": TIME,
    "series": {"count": 2, "lastObservedTime": TIME},
    "action": "a",
    "reportingComponent": "c.d/e",
    "reportingInstance": "i",
}
NEW_SORT_NEWER: Final[Object] = {
    "kind": "Event",
    "apiVersion": "events.k8s.io/v1",
    "metadata": METADATA,
    "eventTime": TIME,
    "series": {"count": 2, "lastObservedTime": TIME},
    "reportingController": "c.d/e",
    "reportingInstance": "i",
    "action": "a",
    "reason": "r",
    "regarding": {},
    "type": "Normal",
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
}


@pytest.mark.parametrize(("stored", "newer"), [(OLD_SORT, OLD_SORT_NEWER), (NEW_SORT, NEW_SORT_NEWER)])
def test_an_event_is_the_same_in_both_versions(stored: Object, newer: Object) -> None:
    assert to_newer(stored) == newer
    assert to_stored(newer) == stored


def test_the_pairs_tell_every_name_that_differs() -> None:
    both = OLD_SORT | NEW_SORT
    newer = OLD_SORT_NEWER | NEW_SORT_NEWER
    assert set(NEWER_NAMES) == both.keys() - newer.keys()
    assert set(NEWER_NAMES.values()) == newer.keys() - both.keys()


def test_what_an_event_need_not_say_is_filled_in() -> None:
    assert to_stored({"metadata": {}, "note": "m"}) == {
        "apiVersion": "v1",
        "metadata": {},
        "involvedObject": {},
        "message": "m",
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }


def test_events_that_were_filled_in_share_nothing() -> None:
    one, other = to_stored({"metadata": {}}), to_stored({"metadata": {}})
    one["source"]["component"] = "c"
    assert other["source"] == {}
