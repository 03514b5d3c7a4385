"""Events have two groups: an object of one is an object of the other, under other names."""

import pytest
from tests.builders.objects import a_core_event, an_event, with_field
from tests.contract.api import MERGE_PATCH, Api, Object, collection_of, path_of

SAME = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
    "reportingInstance": "reportingInstance",
    "action": "action",
    "reason": "reason",
    "type": "type",
    "eventTime": "eventTime",
    "series": "series",
    "related": "related",
}
"""What a field of the core group is called in the other."""


def both(api: Api, namespace: str, name: str) -> tuple[Object, Object]:
    """As the core group shows it, and as the other does."""
    old = api.get(f"/api/v1/namespaces/{namespace}/events/{name}")
    return old, api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events/{name}")


@pytest.mark.parametrize("group", ["core", "events.k8s.io"])
def test_an_event_is_in_both_groups(api: Api, namespace: str, group: str) -> None:
    api.create((a_core_event if group == "core" else an_event)("event", namespace=namespace))
    old, new = both(api, namespace, "event")
    assert (old["apiVersion"], new["apiVersion"]) == ("v1", "events.k8s.io/v1")
    assert old["metadata"]["uid"] == new["metadata"]["uid"]
    assert old["metadata"]["resourceVersion"] == new["metadata"]["resourceVersion"]
    # An empty text is not shown by the newer group.
    shown = {SAME[name]: value for name, value in old.items() if name in SAME and value != ""}
    assert shown == {name: value for name, value in new.items() if name in SAME.values()}


def test_all_fields_have_two_names(api: Api, namespace: str) -> None:
    event = an_event("event", namespace=namespace) | {
        "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"},
        "related": {"kind": "Pod", "name": "pod", "namespace": namespace},
    }
    api.create(event)
    old, new = both(api, namespace, "event")
    assert {SAME[name]: old[name] for name in ("series", "related", "eventTime", "action", "reportingInstance")} == {
        name: new[name] for name in ("series", "related", "eventTime", "action", "reportingInstance")
    }
    assert new["series"] == event["series"]


def test_events_of_both_sorts_are_watched_together(api: Api, namespace: str) -> None:
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    with api.watch(path, {"resourceVersion": api.get(path)["metadata"]["resourceVersion"]}) as watch:
        api.create(a_core_event("old", namespace=namespace))
        event = watch.next()
        assert event["type"] == "ADDED"
        assert (event["object"]["apiVersion"], event["object"]["note"]) == ("events.k8s.io/v1", "it was tested")
        api.delete(a_core_event("old", namespace=namespace))
        assert watch.take(1) == [("DELETED", "old")]


def test_an_event_of_one_group_is_deleted_through_the_other(api: Api, namespace: str) -> None:
    api.create(a_core_event("event", namespace=namespace))
    answer = api.send("DELETE", path_of(an_event("event", namespace=namespace)))
    assert answer.object["details"]["group"] == "events.k8s.io"
    assert api.send("GET", path_of(a_core_event("event", namespace=namespace))).code == 404


def test_an_older_recorder_counts(api: Api, namespace: str) -> None:
    event = api.create(a_core_event("event", namespace=namespace))
    patch = {"count": 4, "lastTimestamp": "2026-01-03T00:00:00Z", "message": "again"}
    assert api.patch(event, patch)["count"] == 4
    _, new = both(api, namespace, "event")
    assert (new["deprecatedCount"], new["note"]) == (4, "again")


def test_a_newer_recorder_makes_a_series(api: Api, namespace: str) -> None:
    event = api.create(an_event("event", namespace=namespace))
    for count in (2, 3):
        series = {"count": count, "lastObservedTime": f"2026-01-01T00:00:0{count}.000000Z"}
        event = api.patch(event, {"series": series})
        assert event["series"] == series


def test_an_event_of_the_newer_sort_is_judged_strictly_in_the_older_group(api: Api, namespace: str) -> None:
    event = with_field(a_core_event("event", namespace=namespace), "eventTime", "2026-01-01T00:00:00.000000Z")
    answer = api.send("POST", collection_of(event), event)
    assert {field for field, _ in answer.causes} >= {"reportingComponent", "reportingInstance", "action"}


def test_an_event_of_the_older_sort_can_change_in_any_way(api: Api, namespace: str) -> None:
    event = api.create(a_core_event("event", namespace=namespace))
    assert api.patch(event, {"reason": "Other"}, content_type=MERGE_PATCH)["reason"] == "Other"


def test_an_event_about_what_is_in_no_namespace_is_in_the_default_one(api: Api, namespace: str) -> None:
    event = a_core_event("event", namespace=namespace)
    event["involvedObject"] = {"kind": "Node", "name": "somewhere"}
    answer = api.send("POST", collection_of(event), event)
    problem = 'involvedObject.namespace: Invalid value: "": does not match event.namespace'
    assert answer.refusal == (422, "Invalid", f'Event "event" is invalid: {problem}')
    event["metadata"]["namespace"] = "default"
    assert api.send("POST", collection_of(event), event, query={"dryRun": "All"}).code == 201
