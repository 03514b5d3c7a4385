"""Rules and wordings of validation beyond the conformance vectors."""

from copy import deepcopy
from typing import Any, Final

import pytest
from msgspec import convert
from msgspec.structs import replace
from tests.builders.objects import with_field

from zoneward.kube.formats import (
    address_problems,
    qualified_name_problems,
    subdomain_problems,
)
from zoneward.kube.objects import Endpoint, EndpointPort, EndpointSlice
from zoneward.kube.validation import (
    MAX_ANNOTATION_BYTES,
    FieldError,
    validate_endpoint_slice,
)

GOOD: Final[dict[str, Any]] = {
    "metadata": {"name": "hello", "namespace": "world", "resourceVersion": "1", "generation": 2},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.1.2.3"], "hostname": "valid-123", "nodeName": "node-1", "zone": "not judged!"}],
    "ports": [{"name": "http", "protocol": "TCP"}],
}

(SUBDOMAIN,) = subdomain_problems("")
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


def test_errors_come_in_upstreams_order() -> None:
    slice_ = EndpointSlice(endpoints=(Endpoint(),), ports=(EndpointPort(),))
    assert messages(validate_endpoint_slice(slice_)) == [
        "metadata.name: Required value: name or generateName is required",
        "metadata.namespace: Required value",
        "addressType: Required value",
        "ports[0].protocol: Required value",
        "endpoints[0].addresses: Required value",
    ]


@pytest.mark.parametrize(
    ("address_type", "address", "problems"),
    [
        ("IPv4", "10.1.2.3\u200b", [invalid("[0]", "10.1.2.3\\u200b", NO_ADDRESS)]),
        ("IPv6", "a00:100::4", []),
        ("IPv6", "1:0::2", [invalid("[0]", "1:0::2", 'must be in canonical form ("1::2")')]),
        ("FQDN", "foo.example.com", []),
        ("FQDN", "example.com.", []),
        ("FQDN", "10.1.2.3", []),
        ("FQDN", "a." * 127, []),
        ("FQDN", "", ["[0]: Required value"]),
        ("FQDN", "FOO.example.com.", [invalid("[0]", "FOO.example.com.", SUBDOMAIN)]),
    ],
)
def test_address_is_a_canonical_one_or_a_domain_name(address_type: str, address: str, problems: list[str]) -> None:
    slice_ = replace(a_slice("endpoints", [{"addresses": [address]}]), address_type=address_type)
    assert messages(validate_endpoint_slice(slice_), below="endpoints[0].addresses") == problems


@pytest.mark.parametrize(
    ("ports", "problems"),
    [
        ([{"name": "a" * 63, "port": -1}], []),
        ([{"appProtocol": "kubernetes.io/h2c"}], []),
        ([{"appProtocol": ""}], [invalid("[0].appProtocol", "", problem) for problem in qualified_name_problems("")]),
    ],
)
def test_ports_have_a_valid_application_protocol_and_any_number(
    ports: list[dict[str, Any]], problems: list[str]
) -> None:
    slice_ = a_slice("ports", [{"protocol": "TCP"} | port for port in ports])
    assert messages(validate_endpoint_slice(slice_), below="ports") == problems


TOO_LONG: Final = "Too long: may not be more than 262144 bytes"


@pytest.mark.parametrize(
    ("field", "value", "problems"),
    [
        ("generateName", "cart-", []),
        ("generateName", "-", [invalid("generateName", "-", SUBDOMAIN)]),
        ("namespace", "a.b", [invalid("namespace", "a.b", "must not contain dots")]),
        ("annotations", {"Zoneward.dev/Approach": "any text / at all"}, []),
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
