"""Protobuf becomes what JSON would have been: bodies as clients of v1.36.3 sent them, all fields, and what is wrong."""

import json
import random
from base64 import b64decode
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

import pytest
from tests.sandbox.server.protobuf_bodies import RECORDED
from zoneward.sandbox.server.protobuf import ProtobufError, decoded

Object = dict[str, Any]


@pytest.mark.parametrize("who", RECORDED)
def test_a_body_that_a_client_sent_is_read(who: str) -> None:
    body, thing = RECORDED[who]
    assert decoded(b64decode(body)) == thing


# --- the data ---------------------------------------------------------------------------------------------------------

_FOLDER: Final = files("zoneward.sandbox.server")
_DATA: Final = json.loads(_FOLDER.joinpath("protobuf_fields.json").read_bytes())
_PREFIX: Final = "io.k8s.apimachinery.pkg."
_SCALARS: Final = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
}


@cache
def _schemas() -> Object:
    """As the server publishes them."""
    texts = [each.read_text() for each in _FOLDER.joinpath("openapi").iterdir() if each.name.endswith("v1.json")]
    return {name: schema for text in texts for name, schema in json.loads(text)["components"]["schemas"].items()}


def _json_fields(message: str) -> dict[str, str]:
    """Types by name, with those of embedded messages."""
    found: dict[str, str] = {}
    for name, type_, form in _DATA["messages"][message].values():
        found |= _json_fields(type_) if form == "inline" else {name: type_}
    return found


_EMBEDDED: Final = {
    type_ for fields in _DATA["messages"].values() for _, type_, form in fields.values() if form == "inline"
}
_PUBLISHED: Final = sorted(set(_DATA["messages"]) - (_EMBEDDED - set(_schemas())))


def test_messages_without_a_schema_of_their_own_are_those_that_go_embeds() -> None:
    assert {name.rpartition(".")[2] for name in set(_DATA["messages"]) - set(_PUBLISHED)} == {
        "EphemeralContainerCommon",
        "ProbeHandler",
        "VolumeSource",
    }


@pytest.mark.parametrize("message", _PUBLISHED)
def test_a_message_has_the_fields_that_are_published(message: str) -> None:
    properties = {
        name: schema
        for name, schema in _schemas()[message]["properties"].items()
        if name not in ("kind", "apiVersion") or name in _json_fields(message)
    }
    fields = _json_fields(message)
    assert fields.keys() == properties.keys()
    for name, type_ in fields.items():
        assert _is_of_type(properties[name], type_), name
    go = json.loads(_FOLDER.joinpath("openapi", "go_fields.json").read_bytes())[message]
    for name, _, form in _DATA["messages"][message].values():
        assert form == "inline" or go[name].startswith("*") == (form in ("pointer", "null")), name


def _is_of_type(schema: Object, type_: str) -> bool:
    if type_.startswith("[]"):
        return schema["type"] == "array" and _is_of_type(schema["items"], type_[2:])
    if type_.startswith("map[string]"):
        return schema["type"] == "object" and _is_of_type(schema["additionalProperties"], type_[11:])
    if type_ in _SCALARS:
        return _SCALARS[type_].items() <= schema.items()
    reference = schema.get("$ref") or schema["allOf"][0]["$ref"]
    return bool(reference == f"#/components/schemas/{type_}")


# --- all fields -------------------------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    number &= 2**64 - 1
    text = b""
    while number > 127:
        text += bytes([number & 127 | 128])
        number >>= 7
    return text + bytes([number])


def _field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _sent(kind: str, raw: bytes, *, api: str = "v1") -> bytes:
    return b"k8s\0" + _field(1, _field(1, api.encode()) + _field(2, kind.encode())) + _field(2, raw)


_TIMESTAMP: Final = _field(1, 1_767_323_045) + _field(2, 6_999)
_EXAMPLES: Final[Mapping[str, tuple[bytes | int, Any]]] = {
    "string": ("größe ".encode() * 30, "größe " * 30),
    "bool": (1, True),
    "int32": (-5, -5),
    "int64": (-(2**40), -(2**40)),
    f"{_PREFIX}api.resource.Quantity": (_field(1, b"1500m"), "1500m"),
    f"{_PREFIX}util.intstr.IntOrString": (_field(1, 1) + _field(2, 0) + _field(3, b"http"), "http"),
    f"{_PREFIX}apis.meta.v1.Time": (_TIMESTAMP, "2026-01-02T03:04:05Z"),
    f"{_PREFIX}apis.meta.v1.MicroTime": (_TIMESTAMP, "2026-01-02T03:04:05.000006Z"),
    f"{_PREFIX}apis.meta.v1.FieldsV1": (_field(1, b'{"f:spec":{}}'), {"f:spec": {}}),
}
"""A value on the wire, and in JSON."""


def _example(type_: str) -> tuple[bytes | int, Any]:
    if type_ in _EXAMPLES:
        return _EXAMPLES[type_]
    pairs = [(number, *_one(int(number), *told)) for number, told in _DATA["messages"][type_].items()]
    thing: Object = {}
    for _, _, fields in pairs:
        thing |= fields
    return b"".join(wire for _, wire, _ in pairs), thing


def _one(number: int, name: str, type_: str, form: str) -> tuple[bytes, Object]:
    if type_.startswith("[]"):
        wire, value = _example(type_[2:])
        return _field(number, wire) * 2, {name: [value, value]}
    if type_.startswith("map[string]"):
        wire, value = _example(type_[11:])
        entries = [_field(1, key) + _field(2, wire) for key in (b"a", b"b" * 200)]
        return b"".join(_field(number, entry) for entry in entries), {name: {"a": value, "b" * 200: value}}
    wire, value = _example(type_)
    return _field(number, wire), value if form == "inline" else {name: value}


@pytest.mark.parametrize("told", _DATA["kinds"])
def test_all_fields_that_a_kind_can_have_are_read(told: str) -> None:
    api, kind = told.split(" ")
    raw, thing = _example(_DATA["kinds"][told])
    assert isinstance(raw, bytes)
    assert decoded(_sent(kind, raw, api=api)) == {"apiVersion": api, "kind": kind} | thing


# --- what is absent, empty or odd -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "api", "thing"),
    [
        ("Service", "v1", {"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}),
        ("Pod", "v1", {"metadata": {}, "spec": {"containers": None}, "status": {}}),
        (
            "EndpointSlice",
            "discovery.k8s.io/v1",
            {"metadata": {}, "addressType": "", "endpoints": None, "ports": None},
        ),
        ("DeleteOptions", "v1", {}),
        ("DeleteOptions", "coordination.k8s.io/v1", {}),
    ],
)
def test_what_go_writes_in_any_case_is_there_where_nothing_was_sent(kind: str, api: str, thing: Object) -> None:
    assert decoded(_sent(kind, b"", api=api)) == {"apiVersion": api, "kind": kind} | thing


def test_a_body_that_does_not_say_what_it_is_is_what_the_request_is_about() -> None:
    body = b"k8s\0" + _field(2, _field(1, _field(1, b"a")))
    assert decoded(body, api="v1", kind="Namespace") == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "a"},
        "spec": {},
        "status": {},
    }


def _metadata(wire: bytes) -> Any:
    return decoded(_sent("Pod", _field(1, wire)))["metadata"]


@pytest.mark.parametrize(
    ("wire", "thing"),
    [
        pytest.param(_field(8, b""), {}, id="no time of creation"),
        pytest.param(_field(8, _field(1, -62_135_596_800)), {}, id="Go's zero time"),
        pytest.param(_field(8, _field(1, 0)), {"creationTimestamp": "1970-01-01T00:00:00Z"}, id="the epoch"),
        pytest.param(_field(8, _field(1, -1)), {"creationTimestamp": "1969-12-31T23:59:59Z"}, id="before it"),
        pytest.param(_field(9, b""), {"deletionTimestamp": None}, id="a pointer to no time"),
        pytest.param(_field(10, 0), {"deletionGracePeriodSeconds": 0}, id="a pointer to 0"),
        pytest.param(_field(7, 0), {}, id="a 0 that JSON leaves out"),
        pytest.param(_field(1, b"a\xffb"), {"name": "a\ufffdb"}, id="not UTF-8"),
        pytest.param(_field(1, b"a") + _field(1, b"b"), {"name": "b"}, id="twice"),
        pytest.param(_field(11, b""), {"labels": {"": ""}}, id="a map's entry without anything"),
        pytest.param(_field(11, _field(2, b"v") + _field(1, b"k")), {"labels": {"k": "v"}}, id="value before key"),
        pytest.param(_field(11, _field(1, b"k")), {"labels": {"k": ""}}, id="key only"),
        pytest.param(_field(11, b"\x0a\x81\x00k\x12\x01v"), {"labels": {"k": "v"}}, id="length in two bytes"),
        pytest.param(b"\x8a\x00\x01a", {"name": "a"}, id="key in two bytes"),
        pytest.param(_field(99, b"?") + _field(98, 300) + _field(1, b"a"), {"name": "a"}, id="unknown fields"),
        pytest.param(b"\xfb\x3f\x08\x01\x0b\x0c\xfc\x3f" + _field(1, b"a"), {"name": "a"}, id="unknown groups"),
        pytest.param(b"\xf9\x3f12345678\xfd\x3f1234" + _field(1, b"a"), {"name": "a"}, id="unknown fixed sizes"),
    ],
)
def test_what_is_rare_is_read_as_kubernetes_reads_it(wire: bytes, thing: Object) -> None:
    assert _metadata(wire) == thing


def test_lists_of_numbers_are_read_packed_or_not() -> None:
    numbers = _field(4, 1) + _field(4, _varint(2) + _varint(300)) + _field(4, 0)
    thing = decoded(_sent("Pod", _field(2, _field(14, numbers))))
    assert thing["spec"]["securityContext"]["supplementalGroups"] == [1, 2, 300, 0]


@pytest.mark.parametrize(
    ("wire", "value"),
    [(b"", 0), (_field(1, 0) + _field(2, 80), 80), (_field(2, -1) + _field(3, b"no"), -1), (_field(1, 1), "")],
)
def test_a_port_is_a_number_or_a_name(wire: bytes, value: int | str) -> None:
    thing = decoded(_sent("Service", _field(2, _field(1, _field(3, 80) + _field(4, wire)))))
    assert thing["spec"]["ports"] == [{"port": 80, "targetPort": value}]


# --- what is wrong ----------------------------------------------------------------------------------------------------

_POD: Final = 'Pod in version "v1"'
_SCHEME: Final = 'in scheme "pkg/runtime/scheme.go:111"'
_NO_PREFIX: Final = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"


@pytest.mark.parametrize(
    ("body", "told", "problem"),
    [
        (b"", "", "empty data"),
        (b'{"kind":"Pod"}', "", _NO_PREFIX),
        (b"k8s\0", "", "empty body"),
        (b"k8s\0\x0a", "", "unexpected EOF"),
        (b"k8s\0\x0b", "", "proto: wrong wireType = 3 for field typeMeta"),
        (_sent("Foo", b""), 'Foo in version "v1"', f'no kind "Foo" is registered for version "v1" {_SCHEME}'),
        (
            _sent("Pod", b"", api="apps/v2"),
            'Pod in version "v2"',
            f'no kind "Pod" is registered for version "apps/v2" {_SCHEME}',
        ),
        (_sent("Pod", b"\x0a"), _POD, "unexpected EOF"),
        (_sent("Pod", b"\x0a\x05"), _POD, "unexpected EOF"),
        (_sent("Pod", _field(1, b"\x0a\x05a") + b"12345"), _POD, "unexpected EOF"),
        (_sent("Pod", _field(1, b"\x38\x80")), _POD, "unexpected EOF"),
        (_sent("Pod", b"\xfb\x3f\x08\x01"), _POD, "unexpected EOF"),
        (_sent("Pod", b"\xfa\x3f\x7f"), _POD, "unexpected EOF"),
        (_sent("Pod", b"\x08\x05"), _POD, "proto: wrong wireType = 0 for field metadata"),
        (_sent("Pod", b"\x00\x05"), _POD, "proto: Pod: illegal tag 0 (wire type 0)"),
        (_sent("Pod", b"\x0c"), _POD, "proto: Pod: wiretype end group for non-group"),
        (_sent("Pod", b"\xfe\x3f"), _POD, "proto: illegal wireType 6"),
        (_sent("Pod", b"\x0a" + b"\xff" * 12), _POD, "proto: integer overflow"),
        (
            _sent("Pod", _field(1, _field(8, _field(1, 2**50)))),
            _POD,
            "years of times are 1 to 9999, got 1125899906842624 seconds since 1970",
        ),
        (
            _sent("Service", _field(2, _field(1, _field(4, _field(1, 2))))),
            'Service in version "v1"',
            "impossible IntOrString.Type",
        ),
    ],
)
def test_a_body_that_is_wrong_is_refused_in_kubernetes_words(body: bytes, told: str, problem: str) -> None:
    with pytest.raises(ProtobufError) as caught:
        decoded(body)
    assert (caught.value.told, str(caught.value)) == (told, problem)


def _damaged(body: bytes, source: random.Random) -> Iterator[bytes]:
    for _ in range(300):
        changed = bytearray(body)
        for _ in range(source.randint(1, 4)):
            changed[source.randrange(len(body))] = source.randrange(256)
        yield bytes(changed)


@pytest.mark.parametrize("who", RECORDED)
def test_no_damage_causes_another_error_than_that_of_wrong_bodies(who: str) -> None:
    body = b64decode(RECORDED[who][0])
    # An envelope can end after each of its fields.
    assert sum(_problem(body[:cut]) is None for cut in range(len(body))) == 3
    problems = [_problem(changed) for changed in _damaged(body, random.Random(who))]
    assert any(problems)
    assert not any("\n" in problem for problem in problems if problem)


def _problem(body: bytes) -> str | None:
    try:
        json.dumps(decoded(body))
    except ProtobufError as error:
        return str(error)
    return None
