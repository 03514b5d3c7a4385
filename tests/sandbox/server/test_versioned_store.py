"""The store remembers what was, in what order, and for how long."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoneward.sandbox.server import versioned_store
from zoneward.sandbox.server.kinds import Kind, same_names
from zoneward.sandbox.server.versioned_store import Forgotten, Key, StoredChange, VersionedStore


class ThingKind(Kind):
    kind, plural = "Thing", "things"
    selectable = same_names("spec.color")


class OtherKind(Kind):
    kind, plural = "Other", "others"


KIND, OTHER = ThingKind(), OtherKind()
KEYS: list[Key] = [(namespace, name) for namespace in ("a", "a-b", "b") for name in ("x", "y", "z")]


def a_thing(key: Key, color: str = "red") -> dict[str, Any]:
    metadata = {"namespace": key[0], "name": key[1], "uid": f"{key[0]}-{key[1]}"}
    return {"kind": "Thing", "apiVersion": "v1", "metadata": metadata, "spec": {"color": color}}


def a_store() -> VersionedStore:
    return VersionedStore((KIND, OTHER))


def state_of(store: VersionedStore, **options: Any) -> dict[Key, str]:
    return {key: record.object()["spec"]["color"] for key, record in store.page(KIND, **options)}


steps = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(["red", "green", "gone"])), max_size=30)


@given(steps)
def test_every_remembered_version_can_be_listed_in_order_from_anywhere(steps: list[tuple[Key, str]]) -> None:
    store = a_store()
    states: dict[int, dict[Key, str]] = {store.version: {}}
    now: dict[Key, str] = {}
    for key, color in steps:
        if color == "gone":
            if now.pop(key, None) is None:
                continue
            store.delete(KIND, key)
        else:
            now[key] = color
            store.put(KIND, key, a_thing(key, color))
        states[store.version] = dict(now)
    for version, state in states.items():
        listed = state_of(store, version=version)
        assert listed == state
        assert list(listed) == sorted(state, key="/".join)
        assert state_of(store, version=version, namespace="a") == {k: v for k, v in state.items() if k[0] == "a"}
        assert state_of(store, version=version, after=("a", "y")) == {
            key: color for key, color in state.items() if "/".join(key) > "a/y"
        }


@given(steps)
def test_changes_lead_from_any_version_to_the_present(steps: list[tuple[Key, str]]) -> None:
    store = a_store()
    notified: list[StoredChange] = []
    store.listeners.append(lambda _kind, change: notified.append(change))
    states: dict[int, dict[Key, str]] = {store.version: {}}
    for key, color in steps:
        if color != "gone":
            store.put(KIND, key, a_thing(key, color))
        elif store.get(KIND, key) is not None:
            store.delete(KIND, key)
        states[store.version] = state_of(store, version=store.version)
    assert store.changes(KIND, 1) == notified
    for version, state in states.items():
        reached = copy.copy(state)
        for change in store.changes(KIND, version):
            if change.new is None:
                del reached[change.key]
            else:
                assert (change.type == "ADDED") == (change.key not in reached)
                reached[change.key] = change.new.object()["spec"]["color"]
        assert reached == state_of(store, version=store.version)


def test_history_is_limited_and_objects_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versioned_store, "HISTORY", 1)
    monkeypatch.setattr(versioned_store, "_SPARE", 0)
    store = a_store()
    for key in KEYS[:2]:
        store.put(KIND, key, a_thing(key))
    assert [change.version for change in store.changes(KIND, 2)] == [3]
    with pytest.raises(Forgotten):
        store.changes(KIND, 1)
    assert set(state_of(store, version=store.version)) == set(KEYS[:2])
