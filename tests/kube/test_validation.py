"""Rules and wordings of validation beyond the conformance vectors."""

from copy import deepcopy
from typing import Any, Final

import pytest
from msgspec import convert
from msgspec.structs import replace
from tests.builders.objects import with_field

from zoneward.kube.formats import (
    address_problems,
    label_problems,
    label_value_problems,
    qualified_name_problems,
    subdomain_problems,
)
from zoneward.kube.objects import Endpoint, EndpointPort, EndpointSlice
from zoneward.kube.validation import (
    MAX_ANNOTATION_BYTES,
    FieldError,
    traffic_distribution_errors,
    validate_endpoint_slice,
)

GOOD: Final[dict[str, Any]] = {
    "metadata": {"name": "hello", "namespace": "world", "resourceVersion": "1", "generation": 2},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.1.2.3"], "hostname": "valid-123", "nodeName": "node-1.example.com"}],
    "ports": [{"name": "http", "protocol": "TCP"}],
}

(LABEL,) = label_problems("")
(SUBDOMAIN,) = subdomain_problems("")
(LABEL_VALUE,) = label_value_problems("/")
(NAME,) = qualified_name_problems("_")
NO_ADDRESS: Final = next(address_problems("", canonical=True))
EMPTY: Final = "must not be empty"


def a_slice(field: str = "metadata.name", value: object = "hello") -> EndpointSlice:
    return convert(with_field(deepcopy(GOOD), field, value), EndpointSlice)


def messages(errors: tuple[FieldError, ...], *, below: str = "") -> list[str]:
    """The errors as a cluster's user reads them; ``below`` is the part of the path that all have."""
    assert all(error.field.startswith(below) for error in errors), errors
    return [str(error).removeprefix(below) for error in errors]


def invalid(below: str, value: str, problem: str) -> str:
    return f'{below}: Invalid value: "{value}": {problem}'


def test_valid_slice_has_no_errors() -> None:
    assert validate_endpoint_slice(a_slice()) == ()


def test_an_error_has_the_three_fields_of_a_cause() -> None:
    (error,) = validate_endpoint_slice(a_slice("addressType", "IP"))
    message = 'Unsupported value: "IP": supported values: "FQDN", "IPv4", "IPv6"'
    assert error == FieldError("FieldValueNotSupported", "addressType", message)
    assert str(error) == f"addressType: {message}"


def test_errors_come_in_upstreams_order() -> None:
    slice_ = EndpointSlice(endpoints=(Endpoint(),), ports=(EndpointPort(),))
    assert messages(validate_endpoint_slice(slice_)) == [
        "metadata.name: Required value: name or generateName is required",
        "metadata.namespace: Required value",
        "addressType: Required value",
        "ports[0].protocol: Required value",
        "endpoints[0].addresses: Required value",
    ]


LOOPBACK: Final = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
LONG: Final = "must be no more than {} characters"


@pytest.mark.parametrize(
    ("address_type", "address", "problems"),
    [
        ("IPv4", "10.1.2.3\u200b", [invalid("[0]", "10.1.2.3\\u200b", NO_ADDRESS)]),
        ("IPv4", "2001:DB8::1", [invalid("", "2001:DB8::1", "must be an IPv4 address")]),
        ("IPv4", "::1", [invalid("", "::1", "must be an IPv4 address"), invalid("[0]", "::1", LOOPBACK)]),
        ("IPv6", "a00:100::4", []),
        ("IPv6", "10.1.2.3", [invalid("", "10.1.2.3", "must be an IPv6 address")]),
        ("IPv6", "1:0::2", [invalid("[0]", "1:0::2", 'must be in canonical form ("1::2")')]),
        ("FQDN", "foo.example.com", []),
        ("FQDN", "example.com.", []),
        ("FQDN", "10.1.2.3", []),
        ("FQDN", "a." * 127, []),
        ("FQDN", "", ["[0]: Required value"]),
        ("FQDN", "FOO.example.com.", [invalid("[0]", "FOO.example.com.", SUBDOMAIN)]),
    ],
)
def test_address_has_the_type_of_the_slice_and_is_reachable(
    address_type: str, address: str, problems: list[str]
) -> None:
    slice_ = replace(a_slice("endpoints", [{"addresses": [address]}]), address_type=address_type)
    assert messages(validate_endpoint_slice(slice_), below="endpoints[0].addresses") == problems


def test_addresses_of_an_unknown_type_are_not_validated() -> None:
    slice_ = replace(a_slice("endpoints", [{"addresses": ["anything"]}]), address_type="other")
    assert [error.field for error in validate_endpoint_slice(slice_)] == ["addressType"]


def hints(kind: str, *names: str) -> dict[str, Any]:
    return {"hints": {kind: [{"name": name} for name in names]}}


@pytest.mark.parametrize(
    ("fields", "problems"),
    [
        ({"nodeName": "INVALID foo"}, [invalid("nodeName", "INVALID foo", SUBDOMAIN)]),
        ({"hostname": "--INVALID"}, [invalid("hostname", "--INVALID", LABEL)]),
        ({"hostname": "a.b"}, [invalid("hostname", "a.b", "must not contain dots")]),
        ({"zone": "not judged!"}, []),
        (
            hints("forZones", "-" * 64),
            [
                invalid("hints.forZones[0].name", "-" * 64, problem)
                for problem in ("must be no more than 63 bytes", LABEL_VALUE)
            ],
        ),
        (hints("forZones", "a", "b", "a"), ['hints.forZones[2].name: Duplicate value: "a"']),
        (hints("forNodes", "n", "m", "n"), ['hints.forNodes[2].name: Duplicate value: "n"']),
        (
            hints("forNodes", "!@#$!@", ""),
            [invalid("hints.forNodes[0].name", "!@#$!@", SUBDOMAIN), invalid("hints.forNodes[1].name", "", SUBDOMAIN)],
        ),
        (hints("forZones", *"abcdefghi"), ["hints.forZones: Too many: 9: must have at most 8 items"]),
        (hints("forNodes", *"_bcdefghi"), ["hints.forNodes: Too many: 9: must have at most 8 items"]),
    ],
)
def test_node_zone_and_hints_of_an_endpoint_are_validated(fields: dict[str, Any], problems: list[str]) -> None:
    slice_ = a_slice("endpoints", [{"addresses": ["10.1.2.3"]} | fields])
    assert messages(validate_endpoint_slice(slice_), below="endpoints[0].") == problems


@pytest.mark.parametrize(
    ("ports", "problems"),
    [
        ([{"name": "tcp"}, {"name": "udp", "protocol": "UDP"}, {"name": "sctp", "protocol": "SCTP"}], []),
        ([{"name": "a" * 63, "port": -1}], []),
        ([{"name": "a" * 64}], [invalid("[0].name", "a" * 64, LONG.format(63))]),
        ([{"name": "aCapital"}], [invalid("[0].name", "aCapital", LABEL)]),
        ([{}, {"name": ""}], ['[1].name: Duplicate value: ""']),
        (
            [{"name": "A"}, {"name": "A"}],
            [invalid("[0].name", "A", LABEL), invalid("[1].name", "A", LABEL), '[1].name: Duplicate value: "A"'],
        ),
        ([{"appProtocol": "kubernetes.io/h2c"}], []),
        ([{"appProtocol": ""}], [invalid("[0].appProtocol", "", problem) for problem in qualified_name_problems("")]),
        ([{"protocol": None}], ["[0].protocol: Required value"]),
        ([{"protocol": "tcp"}], ['[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"']),
    ],
)
def test_ports_have_unique_names_and_a_known_protocol(ports: list[dict[str, Any]], problems: list[str]) -> None:
    slice_ = a_slice("ports", [{"protocol": "TCP"} | port for port in ports])
    assert messages(validate_endpoint_slice(slice_), below="ports") == problems


TOO_LONG: Final = "Too long: may not be more than 262144 bytes"


@pytest.mark.parametrize(
    ("field", "value", "problems"),
    [
        ("name", "*&^", [invalid("name", "*&^", SUBDOMAIN)]),
        ("generateName", "cart-", []),
        ("generateName", "-", [invalid("generateName", "-", SUBDOMAIN)]),
        ("namespace", "a.b", [invalid("namespace", "a.b", "must not contain dots")]),
        ("labels", {"_": "d"}, [invalid("labels", "_", NAME)]),
        ("labels", {"a": "d/"}, [invalid("labels", "d/", LABEL_VALUE)]),
        ("annotations", {"Zoneward.dev/Approach": "any text / at all"}, []),
        ("annotations", {"_": ""}, [invalid("annotations", "_", NAME)]),
        ("annotations", {"ab": "é" * (MAX_ANNOTATION_BYTES // 2 - 1)}, []),
        ("annotations", {"abc": "é" * (MAX_ANNOTATION_BYTES // 2 - 1)}, [f"annotations: {TOO_LONG}"]),
        (
            "ownerReferences",
            [{"apiVersion": "v1"}],
            [f"ownerReferences[0].{field}: Required value: {EMPTY}" for field in ("kind", "name", "uid")],
        ),
    ],
)
def test_metadata_is_well_formed(field: str, value: object, problems: list[str]) -> None:
    assert messages(validate_endpoint_slice(a_slice(f"metadata.{field}", value)), below="metadata.") == problems


def test_error_of_an_unknown_traffic_distribution_lists_the_known_values() -> None:
    unsupported = 'spec.trafficDistribution: Unsupported value: "example.com/custom": supported values: "PreferClose"'
    for gate, more in ((False, ""), (True, ', "PreferSameZone", "PreferSameNode"')):
        errors = traffic_distribution_errors("example.com/custom", has_prefer_same=gate)
        assert messages(tuple(errors)) == [f"{unsupported}{more}"]
