"""Who owns which field after writes that are no applies: entries were read from a v1.36.3 server."""

import copy
import random
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from zoneward.sandbox.server.comparing import compare
from zoneward.sandbox.server.field_sets import difference, intersection, paths, union, without
from zoneward.sandbox.server.managed_fields import is_same, manager_of, track

from zoneward.sandbox.server.catalog import kinds
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.schema import decode, type_of

Object = dict[str, Any]
KINDS: Final[dict[str, Kind]] = {each.qualified: each for each in kinds()}
POD, SERVICE, NODE = KINDS["Pod"], KINDS["Service"], KINDS["Node"]
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
WHOLE_PORT: Final[Object] = {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}}
TCP_80: Final = 'k:{"port":80,"protocol":"TCP"}'
TCP_443: Final = 'k:{"port":443,"protocol":"TCP"}'
CREATED: Final[Object] = {
    "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
    "f:spec": {
        "f:ports": {".": {}, TCP_80: WHOLE_PORT, TCP_443: WHOLE_PORT},
        "f:selector": {},
        "f:type": {},
    },
}


def a_port(port: int) -> Object:
    return {"port": port, "name": f"p{port}", "protocol": "TCP", "targetPort": port}


def created(thing: Object, kind: Kind) -> Object:
    new = track(decode(thing, kind)[0], None, kind, manager="creator", now=NOW)
    return {**new, "metadata": {**new["metadata"], "uid": "1", "resourceVersion": "5"}}


def a_service() -> Object:
    spec = {"ports": [a_port(443), a_port(80)], "selector": {"k": "v"}, "type": "ClusterIP"}
    return created({"metadata": {"name": "m", "labels": {"a": "1"}}, "spec": spec}, SERVICE)


def written(old: Object, manager: str, *, kind: Kind = SERVICE, after: int = 1, way: str = "", **parts: Any) -> Object:
    """``old`` with parts replaced by somebody."""
    new = {**old, **parts}
    return track(new, old, kind, manager=manager, now=NOW + timedelta(seconds=after), subresource=way)


def with_metadata(old: Object, **fields: Any) -> Object:
    return {**old["metadata"], **fields}


def owned(thing: Object) -> dict[str, Object]:
    return {each["manager"]: each["fieldsV1"] for each in thing["metadata"].get("managedFields", ())}


def test_who_creates_owns_all_that_it_sent() -> None:
    entry = {"manager": "creator", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z"}
    assert a_service()["metadata"]["managedFields"] == [entry | {"fieldsType": "FieldsV1", "fieldsV1": CREATED}]


def test_steps_are_in_upstream_order() -> None:
    ports = owned(a_service())["creator"]["f:spec"]["f:ports"]
    assert list(ports) == [".", TCP_80, TCP_443]
    pod = created({"metadata": {"name": "p", "finalizers": ["z/z", "a/a"]}, "spec": {}}, POD)
    assert list(owned(pod)["creator"]["f:metadata"]["f:finalizers"]) == [".", 'v:"a/a"', 'v:"z/z"']


def test_who_adds_owns_what_it_added() -> None:
    old = a_service()
    new = written(old, "bob", metadata=with_metadata(old, labels={"a": "1", "b": "2"}))
    assert owned(new) == {"creator": CREATED, "bob": {"f:metadata": {"f:labels": {"f:b": {}}}}}
    assert [each["time"][-3:] for each in new["metadata"]["managedFields"]] == ["00Z", "01Z"]


def test_who_changes_takes_it_from_others() -> None:
    old = a_service()
    new = written(old, "eve", metadata=with_metadata(old, labels={"a": "2"}))
    assert owned(new)["eve"] == {"f:metadata": {"f:labels": {"f:a": {}}}}
    assert owned(new)["creator"]["f:metadata"] == {"f:labels": {}}


def test_what_is_gone_belongs_to_nobody() -> None:
    old = a_service()
    metadata = {name: each for name, each in old["metadata"].items() if name != "labels"}
    new = written(old, "eve", metadata=metadata, spec={**old["spec"], "ports": [a_port(80)]})
    ports = {".": {}, TCP_80: WHOLE_PORT}
    assert owned(new) == {"creator": {"f:spec": {"f:ports": ports, "f:selector": {}, "f:type": {}}}}


def test_an_atomic_map_changes_its_owner_as_a_whole() -> None:
    old = a_service()
    new = written(old, "kate", spec={**old["spec"], "selector": {"k": "v", "n": "m"}})
    assert owned(new)["kate"] == {"f:spec": {"f:selector": {}}}
    assert "f:selector" not in owned(new)["creator"]["f:spec"]


def test_the_status_has_an_entry_of_its_own() -> None:
    old = created({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}, POD)
    conditions = [{"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": None}]
    new = written(old, "kubelet", kind=POD, way="status", status={"phase": "Running", "conditions": conditions})
    condition: Object = {".": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}}
    entry = new["metadata"]["managedFields"][1]
    assert list(entry)[-2:] == ["fieldsV1", "subresource"]
    assert entry["subresource"] == "status"
    assert entry["fieldsV1"] == {
        "f:status": {"f:conditions": {".": {}, 'k:{"type":"Ready"}': condition}, "f:phase": {}}
    }


@pytest.mark.parametrize(("way", "manager"), [("", "status-writer"), ("status", "spec-writer")])
def test_nobody_owns_what_its_way_of_writing_resets(way: str, manager: str) -> None:
    old = a_service()
    parts: Object = {"spec": {**old["spec"], "type": "NodePort"}} if way else {"status": {"conditions": []}}
    new = written(old, manager, way=way, **parts)
    assert owned(new) == {"creator": CREATED}


def test_a_write_that_changes_nothing_leaves_the_entries_as_they_were() -> None:
    old = a_service()
    copied = copy.deepcopy(old)
    new = track(copied, old, SERVICE, manager="other", now=NOW + timedelta(hours=1))
    assert new["metadata"]["managedFields"] == old["metadata"]["managedFields"]
    assert is_same(new, old)
    assert not is_same(written(old, "bob", metadata=with_metadata(old, labels={})), old)


def test_resource_versions_and_times_of_entries_are_no_change() -> None:
    old = a_service()
    entries = [{**each, "time": "2027-01-01T00:00:00Z"} for each in old["metadata"]["managedFields"]]
    new = {**old, "metadata": with_metadata(old, resourceVersion="77", managedFields=entries)}
    assert is_same(new, old)
    assert not is_same({**new, "spec": {}}, old)


@pytest.mark.parametrize("reset", [[], [{}]])
def test_entries_can_be_given_up(reset: list[Object]) -> None:
    old = a_service()
    new = written(old, "eve", metadata=with_metadata(old, managedFields=reset))
    assert "managedFields" not in new["metadata"]
    later = written(new, "eve", metadata=with_metadata(new, labels={"q": "2"}))
    assert "managedFields" not in later["metadata"], "only an apply begins again"


def test_entries_can_be_written_but_only_with_the_object_itself() -> None:
    old = a_service()
    both = written(old, "bob", metadata=with_metadata(old, labels={"a": "1", "b": "2"}))
    told = with_metadata(both, managedFields=both["metadata"]["managedFields"][:1])
    assert list(owned(written(both, "eve", metadata=told))) == ["creator"]
    assert list(owned(written(both, "eve", way="status", metadata=told))) == ["creator", "bob"]


def test_broken_entries_count_as_none_told() -> None:
    old = a_service()
    told = with_metadata(old, managedFields=[{"manager": "x", "operation": "Guess", "apiVersion": "v1"}])
    assert list(owned(written(old, "eve", metadata=told))) == ["creator"]


def test_the_oldest_updates_are_put_together() -> None:
    thing = a_service()
    for number in range(12):
        labels = {**thing["metadata"]["labels"], f"n{number}": "1"}
        thing = written(thing, f"m{number:02}", after=number + 1, metadata=with_metadata(thing, labels=labels))
    names = ["ancient-changes", *(f"m{number:02}" for number in range(3, 12))]
    assert list(owned(thing)) == names
    assert owned(thing)["ancient-changes"] == union(
        CREATED, {"f:metadata": {"f:labels": {"f:n0": {}, "f:n1": {}, "f:n2": {}}}}
    )


@pytest.mark.parametrize(
    ("field_manager", "user_agent", "manager"),
    [
        ("me", "kubectl/v1.36", "me"),
        ("", "kubectl/v1.36 (linux)", "kubectl"),
        ("", "no slash", "no slash"),
        ("", "a\x01b/1", "ab"),
        ("", "m" * 200, "m" * 128),
    ],
)
def test_managers_are_named_by_the_request_or_the_user_agent(field_manager: str, user_agent: str, manager: str) -> None:
    assert manager_of(field_manager=field_manager, user_agent=user_agent) == manager


def test_who_has_no_name_is_unknown() -> None:
    old = a_service()
    new = written(old, "", metadata=with_metadata(old, labels={"b": "1"}))
    assert "unknown" in owned(new)


# --- comparing --------------------------------------------------------------------------------------------------------


def test_items_with_the_same_key_are_compared_as_one() -> None:
    def a_pod(*values: str) -> Object:
        env = [{"name": "A", "value": each} for each in values]
        return {"spec": {"containers": [{"name": "c", "env": env}]}}

    def steps(fields: Object) -> list[str]:
        return [path.rpartition(".env")[2] for path in paths(fields)]

    type_ = type_of(POD)
    doubled = compare(a_pod("1"), a_pod("1", "2"), type_)
    assert steps(doubled.added) == ['[name="A"]']
    assert steps(doubled.removed) == ['[name="A"]', '[name="A"].name', '[name="A"].value']
    changed = compare(a_pod("1", "2"), a_pod("2", "1"), type_)
    assert steps(changed.modified) == ['[name="A"]']


def test_null_and_empty_differ() -> None:
    found = compare({"spec": {"containers": None}}, {"spec": {"containers": []}}, type_of(POD))
    assert found.modified == {"f:spec": {"f:containers": {}}}


# --- sets -------------------------------------------------------------------------------------------------------------

Paths = set[tuple[str, ...]]


def members(fields: Object, above: tuple[str, ...] = ()) -> Paths:
    """The same set, as plain as can be."""
    found: Paths = set()
    for step, node in fields.items():
        if step != ".":
            found |= {(*above, step)} if not node or "." in node else set()
            found |= members(node, (*above, step))
    return found


def built(steps: Paths) -> Object:
    root: Object = {}
    for path in sorted(steps):
        node = root
        for step in path:
            node = node.setdefault(step, {"?": {}})
        node["."] = {}

    def clean(node: Object) -> Object:
        kept = {step: clean(each) for step, each in node.items() if step not in ("?", ".")}
        return {".": {}, **kept} if kept and "." in node else kept

    return clean(root)


@pytest.mark.parametrize("seed", range(60))
def test_sets_of_fields_are_sets(seed: int) -> None:
    chance = random.Random(seed)

    def some() -> Paths:
        return {tuple(chance.choice(["f:a", "f:b"]) for _ in range(chance.randint(1, 3))) for _ in range(5)}

    one, other = some(), some()
    left, right = built(one), built(other)
    assert members(left) == one
    assert members(union(left, right)) == one | other
    assert members(intersection(left, right)) == one & other
    assert members(difference(left, right)) == one - other
    below = {path for path in one if any(path[: len(each)] == each for each in other)}
    assert members(without(left, right)) == one - below
