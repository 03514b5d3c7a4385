"""A patch changes what it names and leaves the rest, also in lists that others write to."""

from typing import Any

from zoneward.sandbox.play.actions import patched

Object = dict[str, Any]


def condition(kind: str, status: str, time: str) -> Object:
    return {"type": kind, "status": status, "lastTransitionTime": time}


def test_fields_are_merged_and_none_removes_them() -> None:
    old = {"spec": {"a": 1, "b": 2}, "kept": 3}
    assert patched(old, {"spec": {"a": None, "c": 4}}) == {"spec": {"b": 2, "c": 4}, "kept": 3}
    assert old == {"spec": {"a": 1, "b": 2}, "kept": 3}


def test_conditions_of_others_stay_and_the_time_is_that_of_the_last_change() -> None:
    old = {"conditions": [condition("Ready", "True", "1"), condition("Gate", "True", "1")]}
    new = patched(old, {"conditions": [condition("Ready", "True", "2"), condition("New", "False", "2")]})
    assert new["conditions"] == [
        condition("Ready", "True", "1"),
        condition("Gate", "True", "1"),
        condition("New", "False", "2"),
    ]
    new = patched(old, {"conditions": [condition("Ready", "False", "2")]})
    assert new["conditions"][0] == condition("Ready", "False", "2")


def test_taints_come_and_go_by_key_and_effect() -> None:
    mine = {"key": "k", "effect": "NoSchedule"}
    other = {"key": "k", "effect": "NoExecute", "value": "v"}
    old = {"spec": {"taints": [other]}}
    new = patched(old, {"spec": {"taints": [mine]}})
    assert new["spec"]["taints"] == [other, mine]
    gone = {"spec": {"taints": [mine | {"$patch": "delete"}]}}
    assert patched(new, gone) == old
    assert patched({"spec": {"taints": [mine]}}, gone) == {"spec": {}}
