"""What the decoder makes of JSON: objects and words were read from a v1.36.3 server."""

import json
import subprocess
import sys
from typing import Any, Final

import pytest

from zoneward.sandbox.server.catalog import kinds
from zoneward.sandbox.server.kinds import Kind
from zoneward.sandbox.server.schema import (
    Form,
    MisfitError,
    decode,
    decoded_as,
    duplicate_fields,
    empty_of,
    read_json,
    restored_as,
    type_of,
)
from zoneward.sandbox.server.status_errors import StatusError

Object = dict[str, Any]
KINDS: Final[dict[str, Kind]] = {each.qualified: each for each in kinds()}
POD, SERVICE = KINDS["Pod"], KINDS["Service"]
SLICE, LEASE = KINDS["EndpointSlice.discovery.k8s.io"], KINDS["Lease.coordination.k8s.io"]


def a_service(**spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec}


def a_pod(**container: Any) -> Object:
    spec = {"containers": [{"name": "a", "image": "b", "resources": {}} | container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec, "status": {}}


def refused(thing: object, kind: Kind) -> str:
    with pytest.raises(StatusError) as caught:
        decode(thing, kind)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    return caught.value.message


def test_importing_reads_no_data() -> None:
    script = "import zoneward.sandbox.server.schema.types as t; print(t._schemas.cache_info().currsize)"
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "0"


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_has_its_type(name: str) -> None:
    type_ = type_of(KINDS[name])
    assert type_.name == KINDS[name].kind
    assert type_.fields["metadata"].value.fields["labels"].value.form is Form.MAP


def test_lists_know_how_they_are_merged_and_owned() -> None:
    ports = type_of(SERVICE).fields["spec"].value.fields["ports"].value
    assert (ports.ownership, ports.keys, ports.merge_key, ports.is_merged) == (
        "map",
        ("port", "protocol"),
        "port",
        True,
    )
    assert ports.items is not None
    assert ports.items.fields["protocol"].default == "TCP"


# --- types ------------------------------------------------------------------------------------------------------------

MISFITS: Final[list[tuple[Object, str]]] = [
    (a_service(ports=[{"port": "x"}]), "string into Go struct field ServicePort.spec.ports.port of type int32"),
    (a_service(ports=[{"port": 80.5}]), "number 80.5 into Go struct field ServicePort.spec.ports.port of type int32"),
    (
        a_service(ports=[{"port": 99999999999}]),
        "number 99999999999 into Go struct field ServicePort.spec.ports.port of type int32",
    ),
    (
        a_service(ports=[{"port": 80, "protocol": 5}]),
        "number into Go struct field ServicePort.spec.ports.protocol of type v1.Protocol",
    ),
    (a_service(ports={}), "object into Go struct field ServiceSpec.spec.ports of type []v1.ServicePort"),
    (a_service() | {"spec": []}, "array into Go struct field Service.spec of type v1.ServiceSpec"),
    (
        a_service() | {"metadata": {"labels": {"a": 1}}},
        "number into Go struct field ObjectMeta.metadata.labels of type string",
    ),
    (
        a_service() | {"metadata": {"labels": ["a"]}},
        "array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
    ),
    (
        a_service() | {"metadata": {"finalizers": [1]}},
        "number into Go struct field ObjectMeta.metadata.finalizers of type string",
    ),
    (
        a_service(publishNotReadyAddresses="x"),
        "string into Go struct field ServiceSpec.spec.publishNotReadyAddresses of type bool",
    ),
    (
        a_service(ports=[{"port": 80, "targetPort": True}]),
        "bool into Go struct field ServicePort.spec.ports.targetPort of type int32",
    ),
    (
        a_service() | {"metadata": {"creationTimestamp": 5}},
        "number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
    ),
    (
        a_service(ipFamilyPolicy=4),
        "number into Go struct field ServiceSpec.spec.ipFamilyPolicy of type v1.IPFamilyPolicy",
    ),
]


@pytest.mark.parametrize(("thing", "words"), MISFITS, ids=[words for _, words in MISFITS])
def test_a_value_of_another_type_is_refused_in_go_words(thing: Object, words: str) -> None:
    prefix = 'Service in version "v1" cannot be handled as a Service: json: cannot unmarshal '
    assert refused(thing, SERVICE) == prefix + words


def test_embedded_structs_are_named_on_the_way() -> None:
    pod = a_pod()
    pod["spec"]["volumes"] = [{"name": "a", "emptyDir": {"medium": 5}}]
    assert refused(pod, POD).endswith(
        "number into Go struct field EmptyDirVolumeSource.spec.volumes.VolumeSource.emptyDir.medium"
        " of type v1.StorageMedium"
    )


STRUCT: Final = (
    'Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            [],
            (
                "the object provided is unrecognized (must be of type Service): couldn't get version/kind; "
                f"json parse error: json: cannot unmarshal array into {STRUCT} (5b5d)"
            ),
        ),
        (
            a_service() | {"kind": "Pod"},
            (
                'Pod in version "v1" cannot be handled as a Service: converting (v1.Pod) to (core.Service): '
                "unknown conversion"
            ),
        ),
        (
            a_service() | {"kind": "Foo"},
            (
                'Foo in version "v1" cannot be handled as a Service: no kind "Foo" is registered for version "v1" '
                'in scheme "pkg/runtime/scheme.go:111"'
            ),
        ),
        (
            a_service() | {"apiVersion": "apps/v1"},
            (
                'Service in version "v1" cannot be handled as a Service: no kind "Service" is registered for version '
                '"apps/v1" in scheme "pkg/runtime/scheme.go:111"'
            ),
        ),
    ],
)
def test_another_kind_is_refused(body: object, words: str) -> None:
    assert refused(body, SERVICE) == words


RESTORED: Final[list[tuple[Object, str]]] = [
    ({"spec": {"ports": [{"port": "x"}]}}, "unrecognized type: int32"),
    ({"spec": {"ports": [{"port": 80.5}]}}, "cannot convert float64 to int32"),
    ({"spec": {"type": 5}}, "cannot convert int64 to v1.ServiceType"),
    ({"spec": []}, "cannot restore struct from: slice"),
    ({"spec": {"ports": {}}}, "cannot restore slice from map"),
    ({"metadata": {"labels": ["x"]}}, "cannot restore map from slice"),
    ({"spec": {"publishNotReadyAddresses": 1}}, "unrecognized type: bool"),
    ({"spec": {"ports": [{"targetPort": True}]}}, "json: cannot unmarshal bool into Go value of type int32"),
    ({"metadata": {"deletionTimestamp": 5}}, "json: cannot unmarshal number into Go value of type string"),
]


@pytest.mark.parametrize(("thing", "words"), RESTORED, ids=[words for _, words in RESTORED])
def test_the_other_decoder_has_other_words(thing: Object, words: str) -> None:
    with pytest.raises(MisfitError) as caught:
        restored_as(thing, SERVICE)
    assert str(caught.value) == words


def test_the_other_decoder_takes_whole_floats() -> None:
    thing, _ = restored_as({"spec": {"ports": [{"port": 80.0}]}}, SERVICE)
    assert repr(thing["spec"]["ports"]) == "[{'port': 80}]"


# --- unknown fields ---------------------------------------------------------------------------------------------------

UNKNOWN: Final = a_service(ports=[{"port": 80, "foo": 1}], bar=1) | {"baz": None}
TOLD: Final = ['unknown field "spec.ports[0].foo"', 'unknown field "spec.bar"', 'unknown field "baz"']


def test_unknown_fields_are_told_and_dropped() -> None:
    thing, warnings = decode(UNKNOWN, SERVICE)
    assert warnings == TOLD
    assert thing["spec"] == {"ports": [{"port": 80}]}
    assert "baz" not in thing


def test_unknown_fields_are_refused_when_strict_and_ignored_when_told_so() -> None:
    with pytest.raises(StatusError) as caught:
        decode(UNKNOWN, SERVICE, validation="Strict", duplicates=['duplicate field "spec"'])
    listed = ", ".join(['duplicate field "spec"', *TOLD])
    prefix = 'Service in version "v1" cannot be handled as a Service: strict decoding error: '
    assert caught.value.message == prefix + listed
    assert decode(UNKNOWN, SERVICE, validation="Ignore")[1] == []


def test_duplicate_fields_are_found() -> None:
    body = b'{"metadata":{"name":"a","name":"b"},"spec":{"ports":[{"port":80,"port":81}],"ports":[{"port":80}]}}'
    assert duplicate_fields(body, json.loads(body)) == [
        'duplicate field "metadata.name"',
        'duplicate field "spec.ports[0].port"',
        'duplicate field "spec.ports"',
    ]
    assert duplicate_fields(b'{"a": "x\\":", "b": [{"a": 1}]}', {"a": 'x":', "b": [{"a": 1}]}) == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "unexpected end of JSON input"),
        (b'{"a":', "unexpected end of JSON input"),
        (b"{a", "invalid character 'a' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"[x]", "invalid character 'x' looking for beginning of value"),
        (b"{} {}", "invalid character '{' after top-level value"),
    ],
)
def test_unreadable_json_is_explained_as_go_does(body: bytes, words: str) -> None:
    with pytest.raises(ValueError, match="^" + words.replace("'{'", "'\\{'") + "$"):
        read_json(body)


# --- what is written back ---------------------------------------------------------------------------------------------


def test_empty_values_are_dropped_unless_go_writes_them() -> None:
    container = {
        "command": [],
        "env": [{"name": "A", "value": ""}],
        "tty": False,
        "securityContext": {"privileged": False, "capabilities": {"add": []}, "runAsUser": 0},
        "resources": {"limits": {}},
        "livenessProbe": None,
    }
    pod = a_pod(**container)
    pod["metadata"] |= {"labels": {}, "creationTimestamp": None, "finalizers": []}
    thing, _ = decode(pod, POD)
    assert thing["metadata"] == {"name": "a"}
    assert thing["spec"]["containers"] == [
        {
            "name": "a",
            "image": "b",
            "resources": {},
            "env": [{"name": "A"}],
            "securityContext": {"privileged": False, "capabilities": {}, "runAsUser": 0},
        }
    ]


def test_what_go_always_writes_is_there() -> None:
    assert empty_of(SLICE) == {"metadata": {}, "addressType": "", "endpoints": None, "ports": None}
    assert decode({}, SERVICE)[0] == {
        "metadata": {},
        "spec": {},
        "status": {"loadBalancer": {}},
        "kind": "Service",
        "apiVersion": "v1",
    }
    thing, _ = decode({"endpoints": [{"addresses": []}], "ports": None}, SLICE)
    assert (thing["endpoints"], thing["ports"]) == ([{"addresses": None, "conditions": {}}], None)


def test_a_list_at_the_top_stays_empty_until_it_is_known_who_sent_it() -> None:
    thing, _ = decode({"endpoints": [], "ports": None}, SLICE)
    assert (thing["endpoints"], thing["ports"]) == ([], None)


def test_null_items_are_empty_ones() -> None:
    assert decode(a_service(ports=[None, {"port": 80}]), SERVICE)[0]["spec"]["ports"] == [{"port": 0}, {"port": 80}]


@pytest.mark.parametrize(
    ("told", "written"),
    [
        ("1000m", "1"),
        (1.5, "1500m"),
        ("1e3", "1e3"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1023Ki", "1023Ki"),
        ("1024", "1024"),
        ("2000k", "2M"),
        ("0m", "0"),
        ("0.1n", "1n"),
        ("8Ei", "9223372036854775807"),
        ("1E3", "1E3"),
        ("5.", "5."),
        ("12000E3", "12e6"),
    ],
)
def test_quantities_get_their_one_form(told: object, written: str) -> None:
    thing, _ = decode(a_pod(resources={"limits": {"x.io/y": told}}), POD)
    assert thing["spec"]["containers"][0]["resources"] == {"limits": {"x.io/y": written}}


@pytest.mark.parametrize("told", ["abc", "", True, {}, "1Z"])
def test_what_is_no_quantity_is_refused(told: object) -> None:
    rule = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    words = refused(a_pod(resources={"limits": {"cpu": told}}), POD)
    assert words == f'Pod in version "v1" cannot be handled as a Pod: {rule}'


@pytest.mark.parametrize(
    ("told", "written"),
    [
        ("2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00.999999999-07:30", "2026-01-01T07:30:00Z"),
        ("0999-01-01T00:00:00Z", "0999-01-01T00:00:00Z"),
    ],
)
def test_times_are_written_in_utc_and_whole_seconds(told: str, written: str) -> None:
    thing, _ = decode({"metadata": {"deletionTimestamp": told}}, SERVICE)
    assert thing["metadata"] == {"deletionTimestamp": written}


SECONDS: Final = '"2006-01-02T15:04:05Z07:00"'


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("x", f'parsing time "x" as {SECONDS}: cannot parse "x" as "2006"'),
        ("", f'parsing time "" as {SECONDS}: cannot parse "" as "2006"'),
        ("2026-01-01", f'parsing time "2026-01-01" as {SECONDS}: cannot parse "" as "T"'),
        ("2026-13-01T00:00:00Z", 'parsing time "2026-13-01T00:00:00Z": month out of range'),
        ("2026-02-30T00:00:00Z", 'parsing time "2026-02-30T00:00:00Z": day out of range'),
        ("2026-01-01T00:00:00Zx", 'parsing time "2026-01-01T00:00:00Zx": extra text: "x"'),
        ("2026-01-01T00:00:00+25:00", 'parsing time "2026-01-01T00:00:00+25:00": time zone offset hour out of range'),
    ],
)
def test_what_is_no_time_is_refused_in_go_words(told: str, words: str) -> None:
    assert refused({"metadata": {"deletionTimestamp": told}}, SERVICE).endswith(f"Service: {words}")


def test_micro_times_have_six_digits() -> None:
    thing, _ = decode({"spec": {"renewTime": "2026-01-01T01:00:00.123456+01:00"}}, LEASE)
    assert thing["spec"] == {"renewTime": "2026-01-01T00:00:00.123456Z"}
    assert refused({"spec": {"renewTime": "2026-01-01T00:00:00Z"}}, LEASE).endswith('cannot parse "Z" as ".000000"')


# --- sharing ----------------------------------------------------------------------------------------------------------


def test_an_object_that_is_right_is_not_copied() -> None:
    pod, _ = decode(a_pod(ports=[{"containerPort": 80}], resources={"limits": {"cpu": "1"}}), POD)
    assert decode(pod, POD)[0] is pod


def test_parts_known_from_the_old_object_are_not_looked_at() -> None:
    old = a_service(ports=[{"port": "wrong, but already known"}])
    new = {**old, "metadata": {"name": "b"}, "status": {"loadBalancer": {}}}
    assert decoded_as(new, SERVICE, old=old)[0] is new
    with pytest.raises(MisfitError):
        decoded_as(new, SERVICE)


def test_the_input_stays_as_it_was() -> None:
    thing = a_pod(command=[], foo=1, resources={"limits": {"cpu": 1}})
    before = json.dumps(thing)
    decode(thing, POD)
    assert json.dumps(thing) == before
