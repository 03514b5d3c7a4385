"""What the server does not remember any more, and how it says so: in the words of a real one (1.36)."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.sandbox.server.local_client import LocalClient
from tests.sandbox.server.running_sandbox import RunningSandbox, run_sandbox

from zoneward.sandbox.server.persistence import new_registry
from zoneward.sandbox.server.resource_registry import Registry

Object = dict[str, Any]

PATH = "/apis/coordination.k8s.io/v1/leases"


@pytest.fixture
def scene() -> Iterator[RunningSandbox]:
    with run_sandbox(new_registry()) as sandbox_:
        yield sandbox_


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


def names(page: Object) -> str:
    return " ".join(item["metadata"]["name"] for item in page["items"])


def test_watch_from_a_forgotten_version_is_an_error_event_and_a_list_is_current(
    scene: RunningSandbox,
) -> None:
    version = change(scene, add="a", forget=True)
    with scene.api.watch(PATH, {"resourceVersion": "1"}) as watch:
        (event,) = watch.rest()
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    details = {"message": f"too old resource version: 1 ({version})", "reason": "Expired", "code": 410}
    assert event == {"type": "ERROR", "object": status | details}
    assert names(scene.api.get(PATH, resourceVersion="1", resourceVersionMatch="NotOlderThan")) == "a"


def test_watch_continues_from_the_oldest_known_version_and_gets_410_before_it(
    scene: RunningSandbox,
) -> None:
    version = change(scene, add="a", forget=True)
    change(scene, add="b")
    with scene.api.watch(PATH, {"resourceVersion": str(version)}) as watch:
        assert watch.take(1) == [("ADDED", "b")]
        change(scene, add="c", forget=True)
        assert [(event["type"], event["object"]["code"]) for event in watch.rest()] == [("ERROR", 410)]


def test_expired_continue_token_is_answered_with_410(scene: RunningSandbox) -> None:
    change(scene, add="a b c d e")
    page = scene.api.get(PATH, limit="2")
    change(scene, remove="c a", add="f aa", forget=True)
    answer = scene.api.send("GET", PATH, query={"limit": "2", "continue": page["metadata"]["continue"]})
    code, reason, message = answer.refusal
    assert (code, reason) == (410, "Expired")
    assert message.startswith("The provided continue parameter is too old to display a consistent list result. ")
