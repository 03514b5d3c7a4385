"""What the server does not remember any more, and how it says so: in the words of a real one (1.36)."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.sandbox.server.running_sandbox import RunningSandbox, run_sandbox

from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import LocalClient, Registry

Object = dict[str, Any]

PATH = "/apis/coordination.k8s.io/v1/leases"


@pytest.fixture
def scene() -> Iterator[RunningSandbox]:
    with run_sandbox(new_registry()) as found:
        yield found


def add(scene: RunningSandbox, *names: str) -> None:
    def work(registry: Registry) -> None:
        kind = registry.kinds["leases.coordination.k8s.io"]
        for name in names:
            thing = {"kind": kind.kind, "apiVersion": kind.api, "metadata": {"name": name}}
            LocalClient(registry).create(kind, "default", thing)

    scene.inside(work)


def remove(scene: RunningSandbox, name: str) -> None:
    scene.inside(
        lambda registry: LocalClient(registry).delete(registry.kinds["leases.coordination.k8s.io"], "default", name)
    )


def compact(scene: RunningSandbox) -> int:
    """All that was is forgotten; the version of now."""

    def work(registry: Registry) -> int:
        registry.store.compact()
        return registry.store.version

    return scene.inside(work)


def names(found: Object) -> list[str]:
    return [each["metadata"]["name"] for each in found["items"]]


def test_a_watch_from_a_forgotten_version_is_one_error_event(scene: RunningSandbox) -> None:
    add(scene, "a")
    version = compact(scene)
    with scene.api.watch(PATH, {"resourceVersion": "1"}) as watch:
        assert watch.rest() == [
            {
                "type": "ERROR",
                "object": {
                    "kind": "Status",
                    "apiVersion": "v1",
                    "metadata": {},
                    "status": "Failure",
                    "message": f"too old resource version: 1 ({version})",
                    "reason": "Expired",
                    "code": 410,
                },
            }
        ]


def test_a_watch_from_the_oldest_version_that_is_known_goes_on(scene: RunningSandbox) -> None:
    add(scene, "a")
    version = compact(scene)
    add(scene, "b")
    with scene.api.watch(PATH, {"resourceVersion": str(version)}) as watch:
        assert watch.take(1) == [("ADDED", "b")]


def test_a_watch_that_has_missed_something_gets_410_while_it_is_open(scene: RunningSandbox) -> None:
    add(scene, "a")
    with scene.api.watch(PATH) as watch:
        assert watch.take(1) == [("ADDED", "a")]
        # Between two requests: the watch has no time to see it.
        kind = scene.serving.registry.kinds["leases.coordination.k8s.io"]

        def work(registry: Registry) -> None:
            thing = {"kind": kind.kind, "apiVersion": kind.api, "metadata": {"name": "b"}}
            LocalClient(registry).create(kind, "default", thing)
            registry.store.compact()

        scene.inside(work)
        last = watch.rest()
    assert [(event["type"], event["object"]["code"]) for event in last] == [("ERROR", 410)]


def test_a_list_not_older_than_a_forgotten_version_is_that_of_now(scene: RunningSandbox) -> None:
    add(scene, "a")
    compact(scene)
    found = scene.api.get(PATH, resourceVersion="1", resourceVersionMatch="NotOlderThan")
    assert names(found) == ["a"]


def test_a_forgotten_continue_token_comes_with_one_that_goes_on_as_it_is_now(scene: RunningSandbox) -> None:
    add(scene, *"abcde")
    page = scene.api.get(PATH, limit="2")
    remove(scene, "c")
    remove(scene, "a")
    add(scene, "f", "aa")
    version = compact(scene)
    answer = scene.api.send("GET", PATH, query={"limit": "2", "continue": page["metadata"]["continue"]})
    code, reason, message = answer.refusal
    assert (code, reason) == (410, "Expired")
    assert message.startswith("The provided continue parameter is too old to display a consistent list result. You")
    again = scene.api.get(PATH, limit="2", **{"continue": answer.object["metadata"]["continue"]})
    assert names(again) == ["d", "e"]
    assert again["metadata"]["resourceVersion"] == str(version)
    # From here on it is a list like any other, of the version at which it went on.
    add(scene, "g")
    rest = scene.api.get(PATH, limit="2", **{"continue": again["metadata"]["continue"]})
    assert names(rest) == ["f"]
    assert rest["metadata"] == {"resourceVersion": str(version)}


def test_a_continue_token_stays_good_while_its_version_is_known(scene: RunningSandbox) -> None:
    add(scene, *"abcd")
    compact(scene)
    page = scene.api.get(PATH, limit="2")
    remove(scene, "c")
    add(scene, "e")
    rest = scene.api.get(PATH, limit="9", **{"continue": page["metadata"]["continue"]})
    assert names(page) + names(rest) == list("abcd")
