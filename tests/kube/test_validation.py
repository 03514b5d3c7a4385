"""Rules and wordings of validation beyond the conformance vectors."""

from typing import Any, Final

import msgspec
import pytest

from zoneward.kube.formats import (
    address_problems,
    label_problems,
    label_value_problems,
    qualified_name_problems,
    subdomain_problems,
)
from zoneward.kube.objects import (
    Endpoint,
    EndpointPort,
    EndpointSlice,
    ForNode,
    ForZone,
    Hints,
    ObjectMeta,
    OwnerReference,
    Service,
    ServiceSpec,
)
from zoneward.kube.validation import (
    MAX_ANNOTATION_BYTES,
    MAX_ENDPOINTS,
    MAX_PORTS,
    FieldError,
    validate_endpoint_slice,
    validate_endpoint_slice_update,
    validate_traffic_distribution,
)

METADATA: Final = ObjectMeta(name="hello", namespace="world", resource_version="1", generation=2)
GOOD: Final = EndpointSlice(
    metadata=METADATA,
    address_type="IPv4",
    endpoints=(Endpoint(addresses=("10.1.2.3",), hostname="valid-123", node_name="node-1.example.com"),),
    ports=(EndpointPort(name="http", protocol="TCP"),),
)

(LABEL,) = label_problems("")
(SUBDOMAIN,) = subdomain_problems("")
(LABEL_VALUE,) = label_value_problems("/")
(NAME,) = qualified_name_problems("_")
NO_ADDRESS: Final = next(address_problems("", canonical=True))


def told(errors: tuple[FieldError, ...], *, below: str = "") -> list[str]:
    """The errors as a cluster's user reads them; ``below`` is the part of the path that all have."""
    assert all(error.field.startswith(below) for error in errors), errors
    return [str(error).removeprefix(below) for error in errors]


def with_metadata(**changes: Any) -> EndpointSlice:
    return msgspec.structs.replace(GOOD, metadata=msgspec.structs.replace(METADATA, **changes))


def with_endpoint(endpoint: Endpoint, *, address_type: str = "IPv4") -> EndpointSlice:
    return msgspec.structs.replace(GOOD, address_type=address_type, endpoints=(endpoint,))


def with_ports(*ports: EndpointPort) -> EndpointSlice:
    return msgspec.structs.replace(GOOD, ports=ports)


def test_a_good_slice_has_no_errors() -> None:
    assert validate_endpoint_slice(GOOD) == ()
    assert validate_endpoint_slice_update(GOOD, old=GOOD) == ()


def test_an_error_has_the_three_fields_of_a_cause() -> None:
    (error,) = validate_endpoint_slice(msgspec.structs.replace(GOOD, address_type="IP"))
    message = 'Unsupported value: "IP": supported values: "FQDN", "IPv4", "IPv6"'
    assert error == FieldError("FieldValueNotSupported", "addressType", message)
    assert str(error) == f"addressType: {message}"


def test_errors_come_in_upstreams_order() -> None:
    slice_ = EndpointSlice(endpoints=(Endpoint(),), ports=(EndpointPort(),))
    assert told(validate_endpoint_slice(slice_)) == [
        "metadata.name: Required value: name or generateName is required",
        "metadata.namespace: Required value",
        "addressType: Required value",
        "ports[0].protocol: Required value",
        "endpoints[0].addresses: Required value: must contain at least 1 address",
    ]


def test_a_list_that_is_too_long_is_not_looked_into() -> None:
    slice_ = msgspec.structs.replace(
        GOOD, endpoints=(Endpoint(),) * (MAX_ENDPOINTS + 1), ports=(EndpointPort(),) * (MAX_PORTS + 1)
    )
    assert told(validate_endpoint_slice(slice_)) == [
        "ports: Too many: 20001: must have at most 20000 items",
        "endpoints: Too many: 1001: must have at most 1000 items",
    ]


# --- endpoints --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address_type", "address", "problems"),
    [
        ("IPv4", "224.0.1.1", []),
        ("IPv4", "10.1.2.3\u200b", [f'[0]: Invalid value: "10.1.2.3\\u200b": {NO_ADDRESS}']),
        ("IPv4", "0.0.0.0", ['[0]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)']),
        ("IPv4", "2001:DB8::1", [': Invalid value: "2001:DB8::1": must be an IPv4 address']),
        (
            "IPv4",
            "::1",
            [
                ': Invalid value: "::1": must be an IPv4 address',
                '[0]: Invalid value: "::1": may not be in the loopback range (127.0.0.0/8, ::1/128)',
            ],
        ),
        ("IPv6", "a00:100::4", []),
        ("IPv6", "10.1.2.3", [': Invalid value: "10.1.2.3": must be an IPv6 address']),
        ("IPv6", "1:0::2", ['[0]: Invalid value: "1:0::2": must be in canonical form ("1::2")']),
        ("IPv6", "::", ['[0]: Invalid value: "::": may not be unspecified (::)']),
        ("FQDN", "foo.example.com", []),
        ("FQDN", "example.com.", []),
        ("FQDN", "10.1.2.3", []),
        ("FQDN", "a." * 127, []),
        ("FQDN", "", ["[0]: Required value"]),
        ("FQDN", "FOO.example.com.", [f'[0]: Invalid value: "FOO.example.com": {SUBDOMAIN}']),
        ("FQDN", "*.example.com", [f'[0]: Invalid value: "*.example.com": {SUBDOMAIN}']),
        (
            "FQDN",
            "a" * 64,
            [f'[0]: Invalid value: "{"a" * 64}": should be a domain with at least two segments separated by dots'],
        ),
        ("FQDN", f"{'b' * 64}.{'c' * 64}", [f'[0]: Invalid value: "{"b" * 64}": must be no more than 63 characters']),
        (
            "FQDN",
            f"{'a.' * 127}_",
            [f'[0]: Invalid value: "{"a." * 127}_": must be no more than 253 characters,{SUBDOMAIN}'],
        ),
    ],
)
def test_an_address_is_of_its_type_and_can_be_reached(address_type: str, address: str, problems: list[str]) -> None:
    slice_ = with_endpoint(Endpoint(addresses=(address,)), address_type=address_type)
    assert told(validate_endpoint_slice(slice_), below="endpoints[0].addresses") == problems


def test_addresses_of_an_unknown_type_are_not_judged() -> None:
    slice_ = with_endpoint(Endpoint(addresses=("anything",)), address_type="other")
    assert [error.field for error in validate_endpoint_slice(slice_)] == ["addressType"]


@pytest.mark.parametrize(
    ("endpoint", "problems"),
    [
        (Endpoint(node_name="node-1.example.com"), []),
        (Endpoint(node_name="INVALID foo"), [f'nodeName: Invalid value: "INVALID foo": {SUBDOMAIN}']),
        (Endpoint(node_name=""), [f'nodeName: Invalid value: "": {SUBDOMAIN}']),
        (Endpoint(hostname="--INVALID"), [f'hostname: Invalid value: "--INVALID": {LABEL}']),
        (Endpoint(hostname="a.b"), ['hostname: Invalid value: "a.b": must not contain dots']),
        (Endpoint(zone="not judged!"), []),
    ],
)
def test_where_an_endpoint_is_must_be_well_formed(endpoint: Endpoint, problems: list[str]) -> None:
    slice_ = with_endpoint(msgspec.structs.replace(endpoint, addresses=("10.1.2.3",)))
    assert told(validate_endpoint_slice(slice_), below="endpoints[0].") == problems


@pytest.mark.parametrize(
    ("zones", "nodes", "problems"),
    [
        ([""], ["node-1.example.com"], []),
        (["é"], [], [f'forZones[0].name: Invalid value: "é": {LABEL_VALUE}']),
        (
            ["-" * 64],
            [],
            [
                f'forZones[0].name: Invalid value: "{"-" * 64}": must be no more than 63 bytes',
                f'forZones[0].name: Invalid value: "{"-" * 64}": {LABEL_VALUE}',
            ],
        ),
        (["a", "b", "a"], [], ['forZones[2].name: Duplicate value: "a"']),
        ([], ["node-1", "node-2", "node-1"], ['forNodes[2].name: Duplicate value: "node-1"']),
        (
            [],
            ["!@#$!@", ""],
            [
                f'forNodes[0].name: Invalid value: "!@#$!@": {SUBDOMAIN}',
                f'forNodes[1].name: Invalid value: "": {SUBDOMAIN}',
            ],
        ),
        (
            ["inv@lid"],
            ["Node_1"],
            [
                f'forZones[0].name: Invalid value: "inv@lid": {LABEL_VALUE}',
                f'forNodes[0].name: Invalid value: "Node_1": {SUBDOMAIN}',
            ],
        ),
        (list("abcdefghi"), ["Node_1"], ["forZones: Too many: 9: must have at most 8 items"]),
        (["a"], list("_bcdefghi"), ["forNodes: Too many: 9: must have at most 8 items"]),
    ],
)
def test_hints_are_few_unlike_and_well_formed(zones: list[str], nodes: list[str], problems: list[str]) -> None:
    hints = Hints(
        for_zones=tuple(ForZone(name=name) for name in zones), for_nodes=tuple(ForNode(name=name) for name in nodes)
    )
    slice_ = with_endpoint(Endpoint(addresses=("10.1.2.3",), hints=hints))
    assert told(validate_endpoint_slice(slice_), below="endpoints[0].hints.") == problems


@pytest.mark.parametrize(
    ("topology", "problems"),
    [
        ({f"topology-{index}": "example" for index in range(16)}, []),
        ({f"topology-{index}": "example" for index in range(17)}, [": Too many: 17: must have at most 16 items"]),
        ({"--INVALID": "example"}, [f': Invalid value: "--INVALID": {NAME}']),
        ({"rack": "inv@lid"}, [f': Invalid value: "inv@lid": {LABEL_VALUE}']),
        (
            {"topology.kubernetes.io/zone": "zone-1"},
            ["[topology.kubernetes.io/zone]: Internal error: reserved key was not removed in conversion"],
        ),
    ],
)
def test_deprecated_topology_is_judged_where_it_is_given(topology: dict[str, str], problems: list[str]) -> None:
    slice_ = msgspec.structs.replace(GOOD, endpoints=(Endpoint(addresses=("10.1.2.3",)),) * 2)
    errors = validate_endpoint_slice(slice_, deprecated_topology={1: topology})
    assert told(errors, below="endpoints[1].deprecatedTopology") == problems


# --- ports ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ports", "problems"),
    [
        ([EndpointPort(name=each.lower(), protocol=each) for each in ("TCP", "UDP", "SCTP")], []),
        ([EndpointPort(name="a" * 63, protocol="TCP")], []),
        ([EndpointPort(name="any", protocol="TCP", port=-1)], []),
        (
            [EndpointPort(name="a" * 64, protocol="TCP")],
            [f'ports[0].name: Invalid value: "{"a" * 64}": must be no more than 63 characters'],
        ),
        ([EndpointPort(name="aCapital", protocol="TCP")], [f'ports[0].name: Invalid value: "aCapital": {LABEL}']),
        (
            [EndpointPort(protocol="TCP"), EndpointPort(name="", protocol="TCP")],
            ['ports[1].name: Duplicate value: ""'],
        ),
        (
            [EndpointPort(name="A", protocol="TCP"), EndpointPort(name="A", protocol="TCP")],
            [
                f'ports[0].name: Invalid value: "A": {LABEL}',
                f'ports[1].name: Invalid value: "A": {LABEL}',
                'ports[1].name: Duplicate value: "A"',
            ],
        ),
        ([EndpointPort(name="h2c", protocol="TCP", app_protocol="kubernetes.io/h2c")], []),
        (
            [EndpointPort(name="h2c", protocol="TCP", app_protocol="")],
            [f'ports[0].appProtocol: Invalid value: "": {problem}' for problem in qualified_name_problems("")],
        ),
        ([EndpointPort(name="http")], ["ports[0].protocol: Required value"]),
        (
            [EndpointPort(name="http", protocol="tcp")],
            ['ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"'],
        ),
    ],
)
def test_ports_have_unlike_names_and_a_known_protocol(ports: list[EndpointPort], problems: list[str]) -> None:
    assert told(validate_endpoint_slice(with_ports(*ports))) == problems


# --- metadata ---------------------------------------------------------------------------------------------------------

OWNER: Final = OwnerReference(api_version="v1", kind="Service", name="cart", uid="1", controller=True)
SECOND: Final = OwnerReference(
    api_version="apps/v1", kind="ReplicaSet", name="shop", uid="2", controller=True, block_owner_deletion=False
)
BOTH: Final = (
    '[{"apiVersion":"v1","kind":"Service","name":"cart","uid":"1","controller":true},'
    '{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"shop","uid":"2","controller":true,"blockOwnerDeletion":false}]'
)
TWO_CONTROLLERS: Final = (
    "Only one reference can have Controller set to true. "
    'Found "true" in references for Service/cart and ReplicaSet/shop'
)
TOO_LONG: Final = "Too long: may not be more than 262144 bytes"
EVENT: Final = '{"apiVersion":"v1","kind":"Event","name":"e","uid":"1"}'


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({"name": "*&^"}, [f'name: Invalid value: "*&^": {SUBDOMAIN}']),
        ({"name": "a" * 253}, []),
        ({"name": "a" * 254}, [f'name: Invalid value: "{"a" * 254}": must be no more than 253 characters']),
        ({"generate_name": "cart-"}, []),
        ({"generate_name": "-"}, [f'generateName: Invalid value: "-": {SUBDOMAIN}']),
        ({"namespace": "a.b"}, ['namespace: Invalid value: "a.b": must not contain dots']),
        ({"generation": 0}, []),
        ({"generation": -1}, ["generation: Invalid value: -1: must be greater than or equal to 0"]),
        ({"labels": {"_": "d"}}, [f'labels: Invalid value: "_": {NAME}']),
        ({"labels": {"a": "d/"}}, [f'labels: Invalid value: "d/": {LABEL_VALUE}']),
        ({"annotations": {"Zoneward.dev/Approach": "any text / at all"}}, []),
        ({"annotations": {"_": ""}}, [f'annotations: Invalid value: "_": {NAME}']),
        ({"annotations": {"ab": "é" * (MAX_ANNOTATION_BYTES // 2 - 1)}}, []),
        ({"annotations": {"abc": "é" * (MAX_ANNOTATION_BYTES // 2 - 1)}}, [f"annotations: {TOO_LONG}"]),
        ({"owner_references": (OWNER, msgspec.structs.replace(SECOND, controller=False))}, []),
        ({"owner_references": (OWNER, SECOND)}, [f"ownerReferences: Invalid value: {BOTH}: {TWO_CONTROLLERS}"]),
        (
            {"owner_references": (OwnerReference(api_version="apps/"),)},
            [
                'ownerReferences.apiVersion: Invalid value: "apps/": version must not be empty',
                'ownerReferences.kind: Invalid value: "": must not be empty',
                'ownerReferences.name: Invalid value: "": must not be empty',
                'ownerReferences.uid: Invalid value: "": must not be empty',
            ],
        ),
        (
            {"owner_references": (OwnerReference(api_version="v1", kind="Event", name="e", uid="1"),)},
            [f"ownerReferences: Invalid value: {EVENT}: /v1, Kind=Event is disallowed from being an owner"],
        ),
    ],
)
def test_metadata_is_well_formed(changes: dict[str, Any], problems: list[str]) -> None:
    assert told(validate_endpoint_slice(with_metadata(**changes)), below="metadata.") == problems


# --- updates ----------------------------------------------------------------------------------------------------------

NOW: Final = "2026-11-21T08:40:00Z"


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({"generation": 3, "resource_version": "2", "labels": {"a": "b"}, "annotations": {}}, []),
        ({"resource_version": None}, ['resourceVersion: Invalid value: "": must be specified for an update']),
        ({"generation": 1}, ["generation: Invalid value: 1: must not be decremented"]),
        ({"name": "other"}, ['name: Invalid value: "other": field is immutable']),
        ({"namespace": "other"}, ['namespace: Invalid value: "other": field is immutable']),
        ({"uid": "other"}, ['uid: Invalid value: "other": field is immutable']),
        ({"creation_timestamp": NOW}, [f'creationTimestamp: Invalid value: "{NOW}": field is immutable']),
        ({"deletion_timestamp": NOW}, [f'deletionTimestamp: Invalid value: "{NOW}": field is immutable']),
        ({"labels": {"a": "d/"}}, [f'labels: Invalid value: "d/": {LABEL_VALUE}']),
    ],
)
def test_an_update_leaves_an_objects_identity_alone(changes: dict[str, Any], problems: list[str]) -> None:
    errors = validate_endpoint_slice_update(with_metadata(**changes), old=GOOD)
    assert told(errors, below="metadata.") == problems


def test_what_an_update_takes_away_is_shown_as_null() -> None:
    errors = validate_endpoint_slice_update(GOOD, old=with_metadata(creation_timestamp=NOW))
    assert told(errors) == ["metadata.creationTimestamp: Invalid value: null: field is immutable"]


@pytest.mark.parametrize(
    ("old", "new", "problems"),
    [
        ("other", "IPv4", ['addressType: Invalid value: "IPv4": field is immutable']),
        ("IP", "IP", ['addressType: Unsupported value: "IP": supported values: "FQDN", "IPv4", "IPv6"']),
    ],
)
def test_the_address_type_never_changes_and_is_always_judged(old: str, new: str, problems: list[str]) -> None:
    before = EndpointSlice(metadata=METADATA, address_type=old)
    after = EndpointSlice(metadata=METADATA, address_type=new)
    assert told(validate_endpoint_slice_update(after, old=before)) == problems


def test_endpoints_are_judged_again_only_if_an_update_changes_them() -> None:
    old = with_endpoint(Endpoint(addresses=("10.1.2.04",)))
    ports_changed = msgspec.structs.replace(old, ports=(EndpointPort(protocol="TCP"),))
    endpoints_changed = with_endpoint(Endpoint(addresses=("10.1.2.04",), zone="a"))
    assert validate_endpoint_slice_update(ports_changed, old=old) == ()
    errors = validate_endpoint_slice_update(endpoints_changed, old=old)
    assert told(errors) == ['endpoints[0].addresses[0]: Invalid value: "10.1.2.04": must not have leading 0s']


# --- Services ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gate", "supported"),
    [(False, '"PreferClose"'), (True, '"PreferClose", "PreferSameZone", "PreferSameNode"')],
)
def test_an_unknown_traffic_distribution_is_told_what_is_known(gate: bool, supported: str) -> None:
    service = Service(spec=ServiceSpec(traffic_distribution="example.com/custom"))
    errors = validate_traffic_distribution(service, prefer_same_traffic_distribution=gate)
    rule = f"supported values: {supported}"
    assert told(errors) == [f'spec.trafficDistribution: Unsupported value: "example.com/custom": {rule}']
