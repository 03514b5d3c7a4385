"""Events have two groups: an object of one is an object of the other, under other names."""

import pytest
from tests.builders.objects import a_core_event, an_event, with_field
from tests.contract.api import Api, collection_of, path_of

SAME = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
    **{name: name for name in ("reportingInstance", "action", "reason", "type", "eventTime", "series", "related")},
}
"""What a field of the core group is called in the other."""


@pytest.mark.parametrize("group", ["core", "events.k8s.io"])
def test_an_event_is_in_both_groups_under_other_names(api: Api, namespace: str, group: str) -> None:
    newer = an_event("event", namespace=namespace) | {
        "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"},
        "related": {"kind": "Pod", "name": "pod", "namespace": namespace},
    }
    api.create(a_core_event("event", namespace=namespace) if group == "core" else newer)
    old = api.get(f"/api/v1/namespaces/{namespace}/events/event")
    new = api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events/event")
    assert (old["apiVersion"], new["apiVersion"]) == ("v1", "events.k8s.io/v1")
    for name in ("uid", "resourceVersion"):
        assert old["metadata"][name] == new["metadata"][name]
    # The newer group does not show an empty text.
    shown = {SAME[name]: value for name, value in old.items() if name in SAME and value != ""}
    assert shown == {name: value for name, value in new.items() if name in SAME.values()}


def test_events_of_both_groups_are_watched_and_deleted_together(api: Api, namespace: str) -> None:
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    with api.watch(path, {"resourceVersion": api.get(path)["metadata"]["resourceVersion"]}) as watch:
        api.create(a_core_event("old", namespace=namespace))
        event = watch.next()
        assert event["type"] == "ADDED"
        assert (event["object"]["apiVersion"], event["object"]["note"]) == ("events.k8s.io/v1", "it was tested")
        answer = api.send("DELETE", path_of(an_event("old", namespace=namespace)))
        assert answer.object["details"]["group"] == "events.k8s.io"
        assert watch.take(1) == [("DELETED", "old")]
    assert api.send("GET", path_of(a_core_event("old", namespace=namespace))).code == 404


def test_an_event_about_an_object_without_a_namespace_is_in_the_default_one(api: Api, namespace: str) -> None:
    event = an_event(namespace, namespace=namespace) | {"regarding": {"kind": "Node", "name": "somewhere"}}
    answer = api.send("POST", collection_of(event), event)
    assert answer.refusal[:2] == (422, "Invalid")
    assert answer.causes == [("involvedObject.namespace", 'Invalid value: "": does not match event.namespace')]
    event = with_field(event, "metadata.namespace", "default")
    assert api.send("POST", collection_of(event), event).code == 201
    api.delete(event)
