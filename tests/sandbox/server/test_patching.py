"""Patches: results and words were read from a v1.36.3 server."""

import copy
import json
import random
from typing import Any, Final

import pytest
from zoneward.sandbox.server.patching import JSON_PATCH, json_patch

from zoneward.sandbox.server.catalog import kinds
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.patches import MERGE_PATCH, STRATEGIC_PATCH, merge_patch, patched, strategic_merge_patch
from zoneward.sandbox.server.schema import Validation, decode, type_of
from zoneward.sandbox.server.status_errors import StatusError

Object = dict[str, Any]
KINDS: Final[dict[str, Kind]] = {each.qualified: each for each in kinds()}
POD, SERVICE = KINDS["Pod"], KINDS["Service"]
UNDECODABLE: Final = "error decoding patch: json: cannot unmarshal"
UNFIT: Final = "the server rejected our request due to an error in our request"

OLD: Final = decode(
    {
        "metadata": {"name": "p", "labels": {"a": "1"}},
        "spec": {"ports": [{"port": 80, "name": "x"}, {"port": 81, "name": "y"}], "type": "ClusterIP"},
    },
    SERVICE,
)[0]
PORTS: Final = OLD["spec"]["ports"]


def made(patch: object, content_type: str, *, validation: Validation = "Warn") -> tuple[Object, list[str]]:
    body = patch if isinstance(patch, bytes) else json.dumps(patch).encode()
    before = copy.deepcopy(OLD)
    try:
        return patched(OLD, body, SERVICE, content_type=content_type, validation=validation)
    finally:
        assert before == OLD, "the patched object itself was changed"


def refusal(patch: object, content_type: str, *, validation: Validation = "Warn") -> tuple[int, str]:
    with pytest.raises(StatusError) as caught:
        made(patch, content_type, validation=validation)
    return caught.value.code, caught.value.message


# --- JSON patches -----------------------------------------------------------------------------------------------------

Q: Final = {"port": 1, "name": "q"}


@pytest.mark.parametrize(
    ("operation", "ports"),
    [
        ({"op": "add", "path": "/spec/ports/-", "value": Q}, [*PORTS, Q]),
        ({"op": "add", "path": "/spec/ports/2", "value": Q}, [*PORTS, Q]),
        ({"op": "add", "path": "/spec/ports/0", "value": Q}, [Q, *PORTS]),
        ({"op": "add", "path": "/spec/ports/-1", "value": Q}, [*PORTS, Q]),
        ({"op": "remove", "path": "/spec/ports/-1"}, PORTS[:1]),
        ({"op": "replace", "path": "/spec/ports/1", "value": Q}, [PORTS[0], Q]),
        ({"op": "move", "from": "/spec/ports/0", "path": "/spec/ports/1"}, [PORTS[1], PORTS[0]]),
        ({"op": "copy", "from": "/spec/ports/0", "path": "/spec/ports/-"}, [*PORTS, PORTS[0]]),
        ({"op": "test", "path": "/spec/ports/0/port", "value": 80}, PORTS),
        ({"op": "test", "path": "/spec/foo", "value": None}, PORTS),
    ],
)
def test_operations_on_lists(operation: Object, ports: list[Object]) -> None:
    assert made([operation], JSON_PATCH)[0]["spec"]["ports"] == ports


@pytest.mark.parametrize(
    ("operation", "labels"),
    [
        ({"op": "add", "path": "/metadata/labels/a~1b", "value": "2"}, {"a": "1", "a/b": "2"}),
        ({"op": "replace", "path": "/metadata/labels/b", "value": "2"}, {"a": "1", "b": "2"}),
        ({"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/b"}, {"b": "1"}),
        ({"op": "copy", "from": "/metadata/labels/zz", "path": "/metadata/labels/b"}, {"a": "1", "b": ""}),
        ({"op": "replace", "path": "/metadata/labels/a"}, {"a": ""}),
    ],
)
def test_operations_on_labels(operation: Object, labels: Object) -> None:
    assert made([operation], JSON_PATCH)[0]["metadata"]["labels"] == labels


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/spec/type", "value": "X"},
        {"op": "test", "path": "/spec/foo/bar", "value": "X"},
        {"op": "remove", "path": "/spec/foo"},
        {"op": "add", "path": "/metadata/annotations/zz", "value": "1"},
        {"op": "add", "path": "/spec/ports/7", "value": Q},
        {"op": "add", "path": "/spec/ports/-9", "value": Q},
        {"op": "add", "path": "/spec/ports/a", "value": Q},
        {"op": "remove", "path": "/spec/ports/-"},
        {"op": "replace", "path": "/spec/ports/9/port", "value": 1},
        {"op": "replace", "path": "/spec/type/port", "value": 1},
        {"op": "move", "from": "/metadata/labels/zz", "path": "/metadata/labels/b"},
        {"op": "add", "path": "", "value": {}},
        {"op": "remove", "path": ""},
        {"op": "foo", "path": "/spec/type"},
        {"op": "Add", "path": "/metadata/labels/b", "value": "x"},
        {"path": "/spec/type"},
        {"op": "remove"},
    ],
    ids=str,
)
def test_operations_that_cannot_be_done_are_refused_without_a_reason(operation: Object) -> None:
    with pytest.raises(StatusError) as caught:
        made([operation], JSON_PATCH)
    status = caught.value.status()
    assert (status["code"], status["reason"], status["message"]) == (422, "Invalid", UNFIT)
    assert status["details"] == {}


@pytest.mark.parametrize(
    ("patch", "code", "words"),
    [
        ({"op": "add"}, 400, f"{UNDECODABLE} object into Go value of type []handlers.jsonPatchOp"),
        (["x"], 400, f"{UNDECODABLE} string into Go value of type handlers.jsonPatchOp"),
        ([{"op": 5}], 400, f"{UNDECODABLE} number into Go struct field jsonPatchOp.op of type string"),
        (b"[{", 400, "error decoding patch: unexpected end of JSON input"),
        (
            [{"op": "add", "path": "/metadata/labels/b", "value": "x"}] * 10_001,
            413,
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
        ),
    ],
    ids=["an object", "text", "a number", "half", "many"],
)  # fmt: skip
def test_what_is_no_json_patch_is_refused(patch: object, code: int, words: str) -> None:
    assert refusal(patch, JSON_PATCH) == (code, words)


def test_an_empty_json_patch_changes_nothing() -> None:
    assert made([], JSON_PATCH) == (OLD, [])
    assert made(None, JSON_PATCH)[0] is OLD


def test_unknown_fields_of_operations_are_told_when_strict() -> None:
    operation = {"op": "add", "path": "/metadata/labels/b", "value": "x", "foo": 1}
    code, words = refusal([operation], JSON_PATCH, validation="Strict")
    assert (code, words.rpartition('": ')[2]) == (422, 'strict decoding error: json patch unknown field "[0].foo"')


# --- merge patches ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("thing", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merging_follows_rfc_7396(thing: Object, patch: Object, expected: Object) -> None:
    assert merge_patch(thing, patch) == expected


def test_merging_shares_what_it_leaves_alone() -> None:
    new = merge_patch(OLD, {"metadata": {"labels": {"a": "1"}}, "spec": {"type": "NodePort"}})
    assert new["metadata"] is OLD["metadata"]
    assert new["spec"]["ports"] is PORTS
    assert merge_patch(OLD, {"spec": {"type": "ClusterIP"}}) is OLD


def test_a_misfit_after_merging_is_told_with_the_whole_document() -> None:
    code, words = refusal({"spec": {"ports": [{"port": "x"}]}}, MERGE_PATCH)
    assert code == 422
    assert words.startswith(' "" is invalid: patch: Invalid value: "{\\"')
    assert words.endswith(
        '}": json: cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32'
    )


@pytest.mark.parametrize(
    ("patch", "content_type", "words"),
    [
        (None, MERGE_PATCH, "Invalid JSON Patch"),
        (
            [],
            MERGE_PATCH,
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (b"{a", MERGE_PATCH, "error decoding patch: invalid character 'a' looking for beginning of object key string"),
        ("x", STRATEGIC_PATCH, "json: cannot unmarshal string into Go value of type map[string]interface {}"),
        (b"", STRATEGIC_PATCH, "unexpected end of JSON input"),
    ],
)
def test_what_is_no_patch_is_refused(patch: object, content_type: str, words: str) -> None:
    assert refusal(patch, content_type) == (400, words)


@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_PATCH])
def test_unknown_and_duplicate_fields_are_told(content_type: str) -> None:
    body = b'{"a":2,"spec":{"foo":1,"type":"NodePort","type":"ClusterIP","ports":[{"port":80,"name":"x","bar":1}]}}'
    listed = [
        'duplicate field "spec.type"',
        'unknown field "a"',
        'unknown field "spec.foo"',
        'unknown field "spec.ports[0].bar"',
    ]
    thing, warnings = made(body, content_type)
    assert warnings == listed
    assert "foo" not in thing["spec"]
    assert made(body, content_type, validation="Ignore")[1] == []
    code, words = refusal(body, content_type, validation="Strict")
    assert (code, words.rpartition('": strict')[2]) == (422, f" decoding error: {', '.join(listed)}")


# --- strategic merge patches ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"spec": {"ports": [{"port": "x"}]}}, '"map[spec:map[ports:[map[port:x]]]]": unrecognized type: int32'),
        ({"spec": {"type": 5}}, '"map[spec:map[type:5]]": cannot convert int64 to v1.ServiceType'),
        ({"spec": []}, '"map[spec:[]]": cannot restore struct from: slice'),
    ],
)
def test_a_misfit_after_a_strategic_merge_is_told_with_the_patch(patch: Object, words: str) -> None:
    with pytest.raises(StatusError) as caught:
        made(patch, STRATEGIC_PATCH)
    message = f"Invalid value: {words}"
    assert caught.value.message == f' "" is invalid: patch: {message}'
    causes = [{"reason": "FieldValueInvalid", "message": message, "field": "patch"}]
    assert caught.value.details == {"causes": causes}


def test_a_strategic_merge_ignores_the_kind() -> None:
    assert made({"kind": "Pod", "apiVersion": "v2"}, STRATEGIC_PATCH)[0] == OLD


@pytest.mark.parametrize(
    ("patch", "ports"),
    [
        ([{"port": 81, "name": "z"}], [PORTS[0], {"port": 81, "name": "z"}]),
        ([{"port": 9}], [{"port": 9}, *PORTS]),
        ([{"port": 80, "$patch": "delete"}], PORTS[1:]),
        ([{"$patch": "replace"}, {"port": 9}], [{"port": 9}]),
        ([{"port": 81, "name": None}], [PORTS[0], {"port": 81}]),
    ],
)
def test_lists_are_merged_by_key(patch: list[Object], ports: list[Object]) -> None:
    assert made({"spec": {"ports": patch}}, STRATEGIC_PATCH)[0]["spec"]["ports"] == ports


CONDITIONS: Final = [{"type": each, "status": "True"} for each in "ABCD"]


@pytest.mark.parametrize(
    ("patch", "order"),
    [
        ({"conditions": [{"type": "E"}, {"type": "B"}]}, "EABCD"),
        ({"conditions": [{"type": "D"}], "$setElementOrder/conditions": [{"type": "D"}, {"type": "A"}]}, "BCDA"),
        ({"$setElementOrder/conditions": [{"type": "C"}, {"type": "A"}]}, "BCAD"),
        # Upstream merges in place, and then takes the result for the old order.
        (
            {
                "conditions": [{"type": "D", "$patch": "delete"}, {"type": "F"}],
                "$setElementOrder/conditions": [{"type": "F"}, {"type": "A"}],
            },
            "BCFA",
        ),
        (
            {
                "conditions": [{"type": "A", "$patch": "delete"}, {"type": "F"}, {"type": "E"}, {"type": "C"}],
                "$setElementOrder/conditions": [{"type": "F"}, {"type": "E"}, {"type": "C"}],
            },
            "BDFEC",
        ),
    ],
)
def test_merged_lists_have_upstream_order(patch: Object, order: str) -> None:
    status = type_of(POD).fields["status"].value
    merged = strategic_merge_patch({"conditions": CONDITIONS}, patch, status)
    assert "".join(each["type"] for each in merged["conditions"]) == order


@pytest.mark.parametrize(
    ("patch", "finalizers"),
    [
        ({"finalizers": ["d", "a"]}, ["d", "a", "b", "c"]),
        ({"$deleteFromPrimitiveList/finalizers": ["b"]}, ["a", "c"]),
        ({"$deleteFromPrimitiveList/finalizers": "b"}, ["a", "b", "c"]),
        ({"$setElementOrder/finalizers": ["c", "n", "a"], "finalizers": ["n"]}, ["b", "c", "n", "a"]),
        ({"labels": {"$patch": "replace", "z": "9"}}, ["a", "b", "c"]),
    ],
)
def test_lists_of_plain_values_are_merged(patch: Object, finalizers: list[str]) -> None:
    metadata = type_of(POD).fields["metadata"].value
    merged = strategic_merge_patch({"finalizers": ["a", "b", "c"], "labels": {"x": "y"}}, patch, metadata)
    assert merged["finalizers"] == finalizers
    assert merged["labels"] == ({"z": "9"} if "labels" in patch else {"x": "y"})


def test_retained_keys_are_all_that_stays() -> None:
    spec = type_of(POD).fields["spec"].value
    old = {"volumes": [{"name": "w", "hostPath": {"path": "/x"}}]}
    volume = {"name": "w", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}
    assert strategic_merge_patch(old, {"volumes": [volume]}, spec) == {"volumes": [{"name": "w", "emptyDir": {}}]}


@pytest.mark.parametrize(
    ("patch", "code", "words"),
    [
        ({"metadata": {"labels": {"$patch": "foo"}}}, 500, "unknown patch type: foo in map: map[$patch:foo]"),
        ({"spec": {"ports": [{"name": "x"}]}}, 500, "map: map[name:x] does not contain declared merge key: port"),
        (
            {"spec": {"ports": [None]}},
            500,
            "list element types are not identical: [[map[name:x port:80] map[name:y port:81]] [<nil>]]",
        ),
        ({"spec": {"ports": [{"$patch": "merge"}]}}, 500, "merging lists cannot yet be specified in the patch"),
        (
            {"spec": {"$setElementOrder/ports": [{"port": 81}, {"port": 80}], "ports": [{"port": 80}, {"port": 81}]}},
            500,
            ("The order in patch list:\n[map[port:80] map[port:81]]\n"
            " doesn't match $setElementOrder list:\n[map[port:81] map[port:80]]\n"),
        ),
        ({"spec": {"$retainKeys": ["ports"], "type": "x"}}, 400, "invalid patch format of retainKeys"),
    ],
)  # fmt: skip
def test_directives_that_make_no_sense_are_refused(patch: Object, code: int, words: str) -> None:
    assert refusal(patch, STRATEGIC_PATCH) == (code, words)


def test_a_strategic_merge_shares_what_it_leaves_alone() -> None:
    new, _ = made({"spec": {"ports": [{"port": 81, "name": "z"}]}}, STRATEGIC_PATCH)
    assert new["metadata"] is OLD["metadata"]
    assert new["spec"]["ports"][0] is PORTS[0]
    assert made({"spec": {"ports": [{"port": 81, "name": "y"}]}}, STRATEGIC_PATCH)[0] is OLD


# --- properties -------------------------------------------------------------------------------------------------------


def some_value(chance: random.Random, depth: int) -> Any:
    if depth == 0 or chance.random() < 0.3:
        return chance.choice([0, 1, "x", "y", True, "~/"])
    if chance.random() < 0.5:
        return {chance.choice(["a", "b~", "c/d", "e"]): some_value(chance, depth - 1) for _ in range(3)}
    return [some_value(chance, depth - 1) for _ in range(chance.randrange(4))]


def difference(old: Any, new: Any, path: str = "") -> list[Object]:
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for name in sorted({*old, *new}):
            step = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
            if name not in new:
                found.append({"op": "remove", "path": step})
            elif name not in old:
                found.append({"op": "add", "path": step, "value": new[name]})
            else:
                found += difference(old[name], new[name], step)
        return found
    return [] if old == new and type(old) is type(new) else [{"op": "replace", "path": path, "value": new}]


@pytest.mark.parametrize("seed", range(40))
def test_a_json_patch_of_the_difference_makes_the_other(seed: int) -> None:
    chance = random.Random(seed)
    old, new = ({name: some_value(chance, 3) for name in "xyz"} for _ in range(2))
    before = copy.deepcopy(old)
    assert json_patch(old, difference(old, new)) == new
    assert old == before


@pytest.mark.parametrize("seed", range(40))
def test_a_strategic_merge_of_the_difference_makes_the_other(seed: int) -> None:
    chance = random.Random(seed)

    def some_conditions() -> list[Object]:
        types = chance.sample("ABCDE", chance.randrange(5))
        return [{"type": each, "status": chance.choice(["True", "False"])} for each in types]

    old, new = some_conditions(), some_conditions()
    gone = [{"type": each["type"], "$patch": "delete"} for each in old if each["type"] not in {e["type"] for e in new}]
    order = [{"type": each["type"]} for each in new]
    patch = {"$setElementOrder/conditions": order, "conditions": [*new, *gone]}
    merged = strategic_merge_patch({"conditions": old}, patch, type_of(POD).fields["status"].value)
    assert merged["conditions"] == new
