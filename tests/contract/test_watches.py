"""Watches: which events come, in which order, and how one begins and ends."""

import time

import pytest
from tests.builders.objects import a_lease
from tests.contract.api import Api, Object

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def version(api: Api, path: str) -> str:
    listed: str = api.get(path)["metadata"]["resourceVersion"]
    return listed


def number(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


def test_changes_are_seen_as_they_happen(api: Api, namespace: str, leases: str) -> None:
    with api.watch(leases, {"resourceVersion": version(api, leases)}) as watch:
        created = api.create(a_lease("lease", namespace=namespace))
        assert watch.next() == {"type": "ADDED", "object": created}
        changed = api.patch(created, {"spec": {"holderIdentity": "you"}})
        assert watch.next() == {"type": "MODIFIED", "object": changed}
        api.delete(created)
        event = watch.next()
        assert (event["type"], event["object"]["spec"]) == ("DELETED", {"holderIdentity": "you"})
        assert number(event["object"]) > number(changed)


def test_watch_starts_with_the_changes_since_its_version(api: Api, namespace: str, leases: str) -> None:
    start = version(api, leases)
    lease = api.create(a_lease("a", namespace=namespace))
    # What changes nothing is no event.
    api.replace(api.patch(lease, {"spec": {"holderIdentity": "you"}}))
    middle = api.create(a_lease("b", namespace=namespace))["metadata"]["resourceVersion"]
    api.delete(lease)
    for query, events in (
        ({"resourceVersion": start}, [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]),
        ({"resourceVersion": middle}, [("DELETED", "a")]),
        ({"resourceVersion": start, "fieldSelector": "metadata.name=b"}, [("ADDED", "b")]),
    ):
        with api.watch(leases, query) as watch:
            assert watch.take(len(events)) == events


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
def test_watch_without_a_version_starts_with_existing_objects(
    api: Api, namespace: str, leases: str, query: dict[str, str]
) -> None:
    for name in ("b", "a"):
        last = api.create(a_lease(name, namespace=namespace))
    # Version 0 may show an older state: this one waits until there is a newer.
    api.get(leases, resourceVersion=last["metadata"]["resourceVersion"])
    with api.watch(leases, query) as watch:
        assert watch.take(2) == [("ADDED", "a"), ("ADDED", "b")]
        api.create(a_lease("c", namespace=namespace))
        assert watch.take(1) == [("ADDED", "c")]


def test_object_that_starts_or_stops_to_match_is_added_or_deleted(api: Api, namespace: str, leases: str) -> None:
    query = {"labelSelector": "tier=front", "resourceVersion": version(api, leases)}
    with api.watch(leases, query) as watch:
        lease = api.create(a_lease("lease", namespace=namespace))
        matching = api.patch(lease, {"metadata": {"labels": {"tier": "front"}}})
        assert watch.next() == {"type": "ADDED", "object": matching}
        lease_after = api.patch(lease, {"spec": {"holderIdentity": "you"}})
        assert watch.next() == {"type": "MODIFIED", "object": lease_after}
        ended = api.patch(lease, {"metadata": {"labels": {"tier": "back"}}})
        event = watch.next()
        # What matched last, at the version at which it no longer did.
        assert (event["type"], event["object"]["metadata"]["labels"]) == ("DELETED", {"tier": "front"})
        assert number(event["object"]) == number(ended)
        api.delete(lease)
        api.create(a_lease("last", namespace=namespace, labels={"tier": "front"}))
        assert watch.take(1) == [("ADDED", "last")]


def test_a_streamed_list_ends_with_a_marked_bookmark(api: Api, namespace: str, leases: str) -> None:
    created = [api.create(a_lease(name, namespace=namespace)) for name in ("b", "a")]
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with api.watch(leases, query) as watch:
        assert watch.take(2) == [("ADDED", "a"), ("ADDED", "b")]
        bookmark = watch.next()
        assert bookmark["type"] == "BOOKMARK"
        bookmarked = bookmark["object"]
        assert number(bookmarked) >= number(created[-1])
        assert bookmarked["metadata"].pop("annotations") == {"k8s.io/initial-events-end": "true"}
        assert bookmarked["metadata"].keys() <= {"resourceVersion", "creationTimestamp"}
        assert (bookmarked["kind"], bookmarked["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")
        api.create(a_lease("c", namespace=namespace))
        assert watch.take(1) == [("ADDED", "c")]


@pytest.mark.parametrize(
    ("more", "events"),
    [
        ({"labelSelector": "tier=front", "allowWatchBookmarks": "true"}, [("ADDED", "b"), ("BOOKMARK", "")]),
        ({}, [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]),
        ({"sendInitialEvents": "false"}, [("ADDED", "c")]),
    ],
)
def test_a_streamed_list_is_selected_and_marks_its_end_on_request_only(
    api: Api, namespace: str, leases: str, more: dict[str, str], events: list[tuple[str, str]]
) -> None:
    api.create(a_lease("a", namespace=namespace))
    last = api.create(a_lease("b", namespace=namespace, labels={"tier": "front"}))["metadata"]["resourceVersion"]
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": last}
    with api.watch(leases, query | more) as watch:
        api.create(a_lease("c", namespace=namespace))
        assert watch.take(len(events)) == events


def test_a_watch_ends_when_its_time_is_over(api: Api, leases: str) -> None:
    began = time.monotonic()
    with api.watch(leases, {"timeoutSeconds": "1"}) as watch:
        assert watch.rest() == []
    assert time.monotonic() - began > 0.5


def test_tables_can_be_watched(api: Api, namespace: str, leases: str) -> None:
    query = {"resourceVersion": version(api, leases)}
    with api.watch(leases, query, headers={"Accept": TABLE}) as watch:
        lease = api.create(a_lease("lease", namespace=namespace))
        api.patch(lease, {"spec": {"holderIdentity": "you"}})
        first, second = watch.next(), watch.next()
    assert [event["type"] for event in (first, second)] == ["ADDED", "MODIFIED"]
    assert [event["object"]["kind"] for event in (first, second)] == ["Table", "Table"]
    assert [row["cells"][:2] for row in second["object"]["rows"]] == [["lease", "you"]]
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Holder", "Age"]
    # The columns are sent once.
    assert second["object"]["columnDefinitions"] is None
