"""Server-side apply: objects, entries and words were read from a v1.36.3 server."""

import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from zoneward.sandbox.server.applying import LAST_APPLIED, apply
from zoneward.sandbox.server.managed_fields import is_same, track
from zoneward.sandbox.server.merging import merged

from zoneward.sandbox.server.catalog import kinds
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.schema import decode, type_of
from zoneward.sandbox.server.status_errors import StatusError

Object = dict[str, Any]
KINDS: Final[dict[str, Kind]] = {each.qualified: each for each in kinds()}
POD, SERVICE = KINDS["Pod"], KINDS["Service"]
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
TCP_80: Final = 'k:{"port":80,"protocol":"TCP"}'
PORT: Final[Object] = {"port": 80, "name": "x"}


def applied(
    live: Object | None,
    manager: str,
    *,
    of: Kind = SERVICE,
    force: bool = False,
    way: str = "",
    after: int = 0,
    **parts: Any,
) -> Object:
    """What the object is after somebody has applied these parts."""
    thing = {"apiVersion": of.api, "kind": of.kind, **parts}
    told, before = copy.deepcopy(thing), copy.deepcopy(live)
    now = NOW + timedelta(seconds=after)
    new = apply(live, thing, kind=of, manager=manager, now=now, force=force, subresource=way)
    assert (thing, live) == (told, before)
    return new


def refusal(live: Object | None, manager: str = "m", **options: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        applied(live, manager, **options)
    return caught.value


def owned(thing: Object) -> dict[str, Object]:
    return {each["manager"]: each["fieldsV1"] for each in thing["metadata"].get("managedFields", ())}


def first() -> Object:
    """As m1 has applied it, with a default that nobody owns."""
    spec = {"ports": [PORT], "selector": {"a": "b"}}
    new = applied(None, "m1", metadata={"name": "s", "labels": {"l": "1"}}, spec=spec)
    ports = [{**PORT, "protocol": "TCP"}]
    return {**new, "metadata": {**new["metadata"], "uid": "1"}, "spec": {**new["spec"], "ports": ports}}


SPEC: Final[Object] = {"f:ports": {TCP_80: {".": {}, "f:name": {}, "f:port": {}}}, "f:selector": {}}


def test_who_applies_owns_what_it_said() -> None:
    live = first()
    entry = {"manager": "m1", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z"}
    fields = {"f:metadata": {"f:labels": {"f:l": {}}}, "f:spec": SPEC}
    assert live["metadata"]["managedFields"] == [entry | {"fieldsType": "FieldsV1", "fieldsV1": fields}]
    assert live["status"] == {"loadBalancer": {}}


def test_applying_the_same_again_changes_nothing() -> None:
    live = first()
    parts: Object = {"metadata": {"name": "s", "labels": {"l": "1"}}, "spec": {"ports": [PORT], "selector": {"a": "b"}}}
    again = applied(live, "m1", after=60, **parts)
    assert is_same(again, live)
    assert again["metadata"]["managedFields"] == live["metadata"]["managedFields"]


def test_a_second_owner_that_agrees_has_an_entry_without_time() -> None:
    live = applied(first(), "m2", after=1, metadata={"labels": {"l": "1"}}, spec={"ports": [PORT]})
    assert [(each["manager"], "time" in each) for each in live["metadata"]["managedFields"]] == [
        ("m2", False),
        ("m1", True),
    ]


def test_conflicts_are_told_by_manager() -> None:
    live = applied(first(), "m2", metadata={"labels": {"l": "1"}})
    spec = {"ports": [{"port": 80, "name": "y"}], "selector": {"a": "c"}}
    found = refusal(live, "m3", metadata={"labels": {"l": "2"}}, spec=spec)
    assert (found.code, found.reason) == (409, "Conflict")
    assert found.message == (
        'Apply failed with 4 conflicts: conflicts with "m1":\n- .metadata.labels.l\n- .spec.selector\n'
        '- .spec.ports[port=80,protocol="TCP"].name\nconflicts with "m2":\n- .metadata.labels.l'
    )
    assert found.details is not None
    assert found.details["causes"][-1] == {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "m2"',
        "field": ".metadata.labels.l",
    }


@pytest.mark.parametrize(
    ("way", "who"), [("", '"ctl" using v1'), ("status", '"ctl" with subresource "status" using v1')]
)
def test_one_conflict_with_an_update_is_one_line(way: str, who: str) -> None:
    old = first()
    new = {**old, "metadata": {**old["metadata"], "labels": {"l": "1", "u": "1"}}}
    live = track(new, old, SERVICE, manager="ctl", now=NOW, subresource=way)
    found = refusal(live, metadata={"labels": {"u": "2"}})
    assert found.message == f"Apply failed with 1 conflict: conflict with {who}: .metadata.labels.u"


def test_force_takes_what_others_own() -> None:
    live = applied(first(), "m3", force=True, spec={"ports": [{"port": 80, "name": "y"}]})
    assert live["spec"]["ports"] == [{"port": 80, "name": "y", "protocol": "TCP"}]
    assert owned(live)["m1"]["f:spec"]["f:ports"] == {TCP_80: {".": {}, "f:port": {}}}
    assert owned(live)["m3"] == {"f:spec": {"f:ports": SPEC["f:ports"]}}


def test_what_is_said_no_more_goes_unless_somebody_else_owns_it() -> None:
    live = applied(first(), "m2", spec={"ports": [PORT]})
    live = applied(live, "m1", metadata={"name": "s"}, spec={"selector": {"a": "b"}})
    assert "labels" not in live["metadata"]
    assert live["spec"]["ports"] == [{**PORT, "protocol": "TCP"}]
    live = applied(live, "m2", metadata={"name": "s"})
    assert "ports" not in live["spec"]
    assert list(owned(live)) == ["m1"]


def test_parts_that_others_added_keep_an_item() -> None:
    old = first()
    port = {**PORT, "protocol": "TCP", "targetPort": 8080}
    live = track({**old, "spec": {**old["spec"], "ports": [port]}}, old, SERVICE, manager="bob", now=NOW)
    live = applied(live, "m1", metadata={"name": "s"}, spec={"selector": {"a": "b"}})
    # Nobody else owns the item, and with it goes what was added to it.
    assert "ports" not in live["spec"]


def test_nothing_applied_owns_nothing() -> None:
    live = applied(first(), "m9", spec={})
    assert owned(live)["m9"] == {"f:spec": {}}
    assert "m9" not in owned(applied(live, "m9", metadata={"name": "s"}))


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"externalIPs": [], "ports": []}, {"f:externalIPs": {}}),
        ({"ports": None}, {"f:ports": {}}),
        ({"selector": None}, {"f:selector": {}}),
    ],
)
def test_empty_lists_and_nulls_are_owned_where_they_mean_something(spec: Object, fields: Object) -> None:
    live = applied(None, "m1", metadata={"name": "s"}, spec={"type": "ClusterIP"})
    assert owned(applied(live, "m5", spec=spec))["m5"] == {"f:spec": fields}


def test_null_removes_an_atomic_map() -> None:
    assert "selector" not in applied(first(), "m5", force=True, spec={"selector": None})["spec"]


@pytest.mark.parametrize(
    ("live", "told", "order"),
    [
        ("ab", "ba", "ba"),
        ("abc", "ca", "bca"),
        ("abc", "d", "abcd"),
        ("abc", "da", "dabc"),
        ("abcd", "dxb", "acdxb"),
        ("abc", "xcay", "bxcay"),
        ("", "ab", "ab"),
    ],
)
def test_lists_that_are_sets_keep_the_applied_order(live: str, told: str, order: str) -> None:
    finalizers = type_of(POD).fields["metadata"].value.fields["finalizers"].value
    assert "".join(merged(list(live), list(told), finalizers)) == order


def test_the_status_is_applied_in_its_own_way() -> None:
    conditions = [{"type": "A", "status": "True"}]
    live = applied(first(), "m7", way="status", status={"conditions": conditions}, spec={"type": "NodePort"})
    entry = live["metadata"]["managedFields"][-1]
    assert (entry["manager"], entry["subresource"]) == ("m7", "status")
    assert entry["fieldsV1"] == {
        "f:status": {"f:conditions": {'k:{"type":"A"}': {".": {}, "f:status": {}, "f:type": {}}}}
    }
    found = refusal(live, "m8", way="status", status={"conditions": [{"type": "A", "status": "False"}]})
    assert found.message == (
        'Apply failed with 1 conflict: conflict with "m7" with subresource "status": '
        '.status.conditions[type="A"].status'
    )


def test_what_nobody_tracked_belongs_to_before_the_first_apply() -> None:
    live, _ = decode({"metadata": {"name": "s", "uid": "1", "labels": {"b": "2"}}, "spec": {"ports": [PORT]}}, SERVICE)
    found = refusal(live, metadata={"labels": {"b": "3"}})
    assert found.message == (
        'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .metadata.labels.b'
    )
    assert set(owned(applied(live, "mm", metadata={"labels": {"zz": "3"}}))) == {"before-first-apply", "mm"}


# --- kubectl ----------------------------------------------------------------------------------------------------------


def client_applied() -> Object:
    last = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "labels": {"a": "1"}}}
    metadata = {"name": "s", "labels": {"a": "1", "b": "2"}, "annotations": {LAST_APPLIED: json.dumps(last)}}
    live, _ = decode({"metadata": metadata, "spec": {"ports": [PORT]}}, SERVICE)
    return track(live, None, SERVICE, manager="kubectl-client-side-apply", now=NOW)


def test_kubectl_takes_over_what_it_applied_as_a_client() -> None:
    live = applied(client_applied(), "kubectl", metadata={"name": "s", "labels": {"a": "5"}})
    assert live["metadata"]["labels"] == {"a": "5", "b": "2"}
    assert live["metadata"]["annotations"] == {
        LAST_APPLIED: '{"apiVersion":"v1","kind":"Service","metadata":{"labels":{"a":"5"},"name":"s"}}\n'
    }


def test_kubectl_does_not_take_what_others_own() -> None:
    found = refusal(client_applied(), "kubectl", metadata={"labels": {"a": "5", "b": "6"}})
    assert found.message == (
        'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .metadata.labels.b'
    )
    assert refusal(client_applied(), "another", metadata={"labels": {"a": "5"}}).code == 409


# --- what is no apply -------------------------------------------------------------------------------------------------

UNFIT: Final[list[tuple[Object, str]]] = [
    ({"foo": 1}, ".spec.foo: field not declared in schema"),
    (
        {"ports": [{"port": "x"}]},
        '.spec.ports[port="x",protocol="TCP"].port: expected numeric (int or float), got string',
    ),
    ({"ports": {}}, ".spec.ports: expected list, got &{map[]}"),
    ({"type": 5}, ".spec.type: expected string, got &value.valueUnstructured{Value:5}"),
    ({"ports": [PORT, PORT]}, '.spec.ports: duplicate entries for key [port=80,protocol="TCP"]'),
    ({"ports": [None]}, ".spec.ports: element 0: associative list with keys may not have a null element"),
    ({"publishNotReadyAddresses": "x"}, ".spec.publishNotReadyAddresses: expected boolean, got &{x}"),
    ({"externalIPs": [1]}, ".spec.externalIPs[0]: expected string, got &value.valueUnstructured{Value:1}"),
    ({"type": {"a": "x"}}, (".spec.type: expected string, got &value.valueUnstructured{Value:"
     'map[string]interface {}{"a":"x"}}')),
    (
        {"type": 5, "publishNotReadyAddresses": 5},
        ("errors:\n  .spec.type: expected string, got &value.valueUnstructured{Value:5}\n"
        "  .spec.publishNotReadyAddresses: expected boolean, got &{5}"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "words"), UNFIT, ids=[words for _, words in UNFIT])
def test_what_does_not_fit_is_an_error_as_upstream(spec: Object, words: str) -> None:
    found = refusal(first(), metadata={"name": "s"}, spec=spec)
    prefix = "failed to create typed patch object (/s; /v1, Kind=Service): "
    assert (found.code, found.message) == (500, prefix + words)
    assert "reason" not in found.status()


def test_what_the_decoder_refuses_is_an_error_as_upstream() -> None:
    container = {"name": "a", "resources": {"requests": {"cpu": "abc"}}}
    found = refusal(None, of=POD, metadata={"name": "p"}, spec={"containers": [container]})
    assert found.message == (
        "failed to convert new object (/p; /v1, Kind=Pod) to proper version: unable to convert unstructured object to "
        "/v1, Kind=Pod: quantities must match the regular expression "
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"kind": "Pod"}, "invalid object type: /v1, Kind=Pod"),
        ({"kind": None}, "invalid object type: /v1, Kind="),
        ({"apiVersion": None}, "invalid object type: /, Kind=Service"),
        ({"apiVersion": "apps/v1"}, "invalid object type: apps/v1, Kind=Service"),
        ({"metadata": {"managedFields": []}}, "metadata.managedFields must be nil"),
    ],
)
def test_another_kind_and_entries_are_refused(parts: Object, words: str) -> None:
    found = refusal(first(), **parts)
    assert (found.code, found.message) == (400, words)
