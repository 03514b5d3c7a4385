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


def change(scene: RunningSandbox, *, add: str = "", remove: str = "", forget: bool = False) -> int:
    """Between two requests, which see all or nothing of it. The version of now."""

    def work(registry: Registry) -> int:
        inside, kind = LocalClient(registry), registry.kinds["leases.coordination.k8s.io"]
        for name in remove.split():
            inside.delete(kind, "default", name)
        for name in add.split():
            inside.create(kind, "default", {"metadata": {"name": name}})
        if forget:
            registry.store.compact()
        return registry.store.version

    return scene.inside(work)


def names(found: Object) -> str:
    return " ".join(each["metadata"]["name"] for each in found["items"])


def test_a_watch_from_a_forgotten_version_is_one_error_event_and_a_list_not_older_is_that_of_now(
    scene: RunningSandbox,
) -> None:
    version = change(scene, add="a", forget=True)
    with scene.api.watch(PATH, {"resourceVersion": "1"}) as watch:
        (event,) = watch.rest()
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    told = {"message": f"too old resource version: 1 ({version})", "reason": "Expired", "code": 410}
    assert event == {"type": "ERROR", "object": status | told}
    assert names(scene.api.get(PATH, resourceVersion="1", resourceVersionMatch="NotOlderThan")) == "a"


def test_a_watch_goes_on_from_the_oldest_version_that_is_known_and_gets_410_where_it_missed_something(
    scene: RunningSandbox,
) -> None:
    version = change(scene, add="a", forget=True)
    change(scene, add="b")
    with scene.api.watch(PATH, {"resourceVersion": str(version)}) as watch:
        assert watch.take(1) == [("ADDED", "b")]
        change(scene, add="c", forget=True)
        assert [(event["type"], event["object"]["code"]) for event in watch.rest()] == [("ERROR", 410)]


def test_a_forgotten_continue_token_comes_with_one_that_goes_on_as_it_is_now(scene: RunningSandbox) -> None:
    change(scene, add="a b c d e")
    page = scene.api.get(PATH, limit="2")
    version = change(scene, remove="c a", add="f aa", forget=True)
    answer = scene.api.send("GET", PATH, query={"limit": "2", "continue": page["metadata"]["continue"]})
    code, reason, message = answer.refusal
    assert (code, reason) == (410, "Expired")
    assert message.startswith("The provided continue parameter is too old to display a consistent list result. You")
    again = scene.api.get(PATH, limit="2", **{"continue": answer.object["metadata"]["continue"]})
    assert (names(again), again["metadata"]["resourceVersion"]) == ("d e", str(version))
    # From here on it is a list like any other, of the version at which it went on.
    change(scene, add="g")
    rest = scene.api.get(PATH, limit="2", **{"continue": again["metadata"]["continue"]})
    assert (names(rest), rest["metadata"]) == ("f", {"resourceVersion": str(version)})
