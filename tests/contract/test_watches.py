"""Watches: which events come, in which order, and how one begins and ends."""

import time
from typing import Any

import pytest
from tests.builders.objects import a_lease
from tests.contract.api import Api, Object, collection_of, path_of, told

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


def leases(namespace: str) -> str:
    return collection_of(a_lease("", namespace=namespace))


def version(api: Api, namespace: str) -> str:
    listed: str = api.get(leases(namespace))["metadata"]["resourceVersion"]
    return listed


def number(thing: Object) -> int:
    return int(thing["metadata"]["resourceVersion"])


def test_changes_are_seen_as_they_happen(api: Api, namespace: str) -> None:
    with api.watch(leases(namespace), {"resourceVersion": version(api, namespace)}) as watch:
        created = api.create(a_lease("lease", namespace=namespace))
        assert watch.next() == {"type": "ADDED", "object": created}
        changed = api.patch(created, {"spec": {"holderIdentity": "you"}})
        assert watch.next() == {"type": "MODIFIED", "object": changed}
        api.delete(created)
        event = watch.next()
        assert (event["type"], event["object"]["spec"]) == ("DELETED", {"holderIdentity": "you"})
        assert number(event["object"]) > number(changed)


def test_what_happened_since_a_version_is_sent_later(api: Api, namespace: str) -> None:
    start = version(api, namespace)
    lease = api.create(a_lease("a", namespace=namespace))
    api.patch(lease, {"spec": {"holderIdentity": "you"}})
    api.create(a_lease("b", namespace=namespace))
    api.delete(lease)
    with api.watch(leases(namespace), {"resourceVersion": start}) as watch:
        assert watch.take(4) == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_what_happened_up_to_the_version_is_not_sent_again(api: Api, namespace: str) -> None:
    api.create(a_lease("a", namespace=namespace))
    last = api.create(a_lease("b", namespace=namespace))["metadata"]["resourceVersion"]
    with api.watch(leases(namespace), {"resourceVersion": last}) as watch:
        api.create(a_lease("c", namespace=namespace))
        assert watch.take(1) == [("ADDED", "c")]


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
def test_without_a_version_what_exists_comes_first(api: Api, namespace: str, query: dict[str, str]) -> None:
    for name in ("b", "a"):
        last = api.create(a_lease(name, namespace=namespace))
    # Version 0 may show an older state: this one waits until there is a newer.
    api.get(leases(namespace), resourceVersion=last["metadata"]["resourceVersion"])
    with api.watch(leases(namespace), query) as watch:
        assert watch.take(2) == [("ADDED", "a"), ("ADDED", "b")]
        api.create(a_lease("c", namespace=namespace))
        assert watch.take(1) == [("ADDED", "c")]


def test_events_come_in_the_order_of_their_versions(api: Api, namespace: str) -> None:
    start = version(api, namespace)
    for index in range(3):
        lease = api.create(a_lease(f"lease-{index}", namespace=namespace))
        api.patch(lease, {"spec": {"holderIdentity": "you"}})
        api.delete(lease)
    with api.watch(leases(namespace), {"resourceVersion": start}) as watch:
        versions = [number(watch.next()["object"]) for _ in range(9)]
    assert versions == sorted(set(versions))


def test_what_changes_nothing_is_no_event(api: Api, namespace: str) -> None:
    lease = api.create(a_lease("a", namespace=namespace))
    with api.watch(leases(namespace), {"resourceVersion": lease["metadata"]["resourceVersion"]}) as watch:
        api.patch(lease, {"spec": {"holderIdentity": "me"}})
        api.replace(lease)
        api.create(a_lease("b", namespace=namespace))
        assert watch.take(1) == [("ADDED", "b")]


def test_what_begins_or_ends_to_match_is_added_or_deleted(api: Api, namespace: str) -> None:
    query = {"labelSelector": "tier=front", "resourceVersion": version(api, namespace)}
    with api.watch(leases(namespace), query) as watch:
        lease = api.create(a_lease("lease", namespace=namespace))
        begun = api.patch(lease, {"metadata": {"labels": {"tier": "front"}}})
        assert watch.next() == {"type": "ADDED", "object": begun}
        kept = api.patch(lease, {"spec": {"holderIdentity": "you"}})
        assert watch.next() == {"type": "MODIFIED", "object": kept}
        ended = api.patch(lease, {"metadata": {"labels": {"tier": "back"}}})
        event = watch.next()
        # What matched last, at the version at which it no longer did.
        assert (event["type"], event["object"]["metadata"]["labels"]) == ("DELETED", {"tier": "front"})
        assert number(event["object"]) == number(ended)
        api.delete(lease)
        api.create(a_lease("last", namespace=namespace, labels={"tier": "front"}))
        assert watch.take(1) == [("ADDED", "last")]


def test_one_object_can_be_watched(api: Api, namespace: str) -> None:
    query = {"fieldSelector": "metadata.name=b", "resourceVersion": version(api, namespace)}
    with api.watch(leases(namespace), query) as watch:
        for name in ("a", "b"):
            api.create(a_lease(name, namespace=namespace))
        assert watch.take(1) == [("ADDED", "b")]


def test_the_path_of_one_object_is_not_watched(api: Api, namespace: str) -> None:
    lease = api.create(a_lease("lease", namespace=namespace))
    assert api.get(path_of(lease), watch="true") == lease


# --- bookmarks --------------------------------------------------------------------------------------------------------


def test_a_streamed_list_ends_with_a_marked_bookmark(api: Api, namespace: str) -> None:
    created = [api.create(a_lease(name, namespace=namespace)) for name in ("b", "a")]
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with api.watch(leases(namespace), query) as watch:
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


def test_a_streamed_list_is_selected_and_not_older_than_requested(api: Api, namespace: str) -> None:
    api.create(a_lease("a", namespace=namespace))
    last = api.create(a_lease("b", namespace=namespace, labels={"tier": "front"}))
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "resourceVersion": last["metadata"]["resourceVersion"],
        "allowWatchBookmarks": "true",
        "labelSelector": "tier=front",
    }
    with api.watch(leases(namespace), query) as watch:
        assert watch.take(2) == [("ADDED", "b"), ("BOOKMARK", "")]


def test_what_exists_can_be_left_out(api: Api, namespace: str) -> None:
    api.create(a_lease("a", namespace=namespace))
    query = {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with api.watch(leases(namespace), query) as watch:
        api.create(a_lease("b", namespace=namespace))
        assert [event for event in watch.take(1) if event[0] != "BOOKMARK"] == [("ADDED", "b")]


# --- refusals and ends ------------------------------------------------------------------------------------------------


def test_initial_events_need_bookmarks(api: Api, namespace: str) -> None:
    """Or rather their end does: without them it is not told."""
    api.create(a_lease("a", namespace=namespace))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    with api.watch(leases(namespace), query) as watch:
        assert watch.take(1) == [("ADDED", "a")]
        api.create(a_lease("b", namespace=namespace))
        assert watch.take(1) == [("ADDED", "b")]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"labelSelector": "=front"}, "found '=', expected: !, identifier, or 'end of string'"),
        (
            {"fieldSelector": "spec.x=1"},
            '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
def test_a_watch_that_cannot_be_is_refused_like_a_list(
    api: Api, namespace: str, query: dict[str, str], message: str
) -> None:
    answer = api.send("GET", leases(namespace), query={"watch": "true", **query})
    assert answer.refusal == (400, "BadRequest", message)


def test_a_watch_ends_when_its_time_is_over(api: Api, namespace: str) -> None:
    api.create(a_lease("lease", namespace=namespace))
    began = time.monotonic()
    with api.watch(leases(namespace), {"timeoutSeconds": "1"}) as watch:
        assert list(map(told, watch.rest())) == [("ADDED", "lease")]
    assert time.monotonic() - began > 0.5


@pytest.mark.parametrize("value", ["0", "false", "False"])
def test_a_watch_that_is_not_wanted_is_a_list(api: Api, namespace: str, value: str) -> None:
    assert api.get(leases(namespace), watch=value)["kind"] == "LeaseList"


# --- other forms ------------------------------------------------------------------------------------------------------


def test_tables_can_be_watched(api: Api, namespace: str) -> None:
    query = {"resourceVersion": version(api, namespace)}
    with api.watch(leases(namespace), query, headers={"Accept": TABLE}) as watch:
        lease = api.create(a_lease("lease", namespace=namespace))
        api.patch(lease, {"spec": {"holderIdentity": "you"}})
        first, second = watch.next(), watch.next()
    assert [event["type"] for event in (first, second)] == ["ADDED", "MODIFIED"]
    assert [event["object"]["kind"] for event in (first, second)] == ["Table", "Table"]
    assert [row["cells"][:2] for row in second["object"]["rows"]] == [["lease", "you"]]
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Holder", "Age"]
    # The columns are told once.
    assert second["object"]["columnDefinitions"] is None


def test_metadata_alone_can_be_watched(api: Api, namespace: str) -> None:
    with api.watch(
        leases(namespace), {"resourceVersion": version(api, namespace)}, headers={"Accept": PARTIAL}
    ) as watch:
        lease = api.create(a_lease("lease", namespace=namespace))
        event = watch.next()
    kind: dict[str, Any] = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    assert event == {"type": "ADDED", "object": kind | {"metadata": lease["metadata"]}}
