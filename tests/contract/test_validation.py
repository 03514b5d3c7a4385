"""What the server refuses to store, and what it says then. All causes are those of kube-apiserver v1.37.2."""

from typing import Final

import pytest
from tests.builders.objects import ABSENT, a_lease, a_service, with_field
from tests.contract.api import MERGE_PATCH, STRATEGIC_PATCH, Api, Object, collection_of, path_of
from tests.contract.kinds import new

LONG: Final = "a" * 64
LABEL: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
NAME: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
NO_IP: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
LOOPBACK: Final = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
PORT: Final = "Invalid value: 0: must be between 1 and 65535, inclusive"
PROTOCOL: Final = 'Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"'
NO_TEXT: Final = 'Invalid value: ""'
EMPTY: Final = "Required value: must not be empty"
IMMUTABLE: Final = "field is immutable"
TIME: Final = "2026-01-01T00:00:00.000000Z"

Cause = tuple[str, str]
Case = tuple[str, str, object, list[Cause]]


def case(kind: str, field: str, value: object, message: str, *others: Cause, at: str = "") -> Case:
    """``message`` is about the field, or what ``at`` says is in it; ``others`` name their own."""
    return kind, field, value, [(field + at, message), *others]


EARLIER: Final[dict[Cause, Cause]] = {
    ("metadata.ownerReferences[0].name", EMPTY): ("metadata.ownerReferences.name", f"{NO_TEXT}: must not be empty"),
    ("metadata.ownerReferences[0].uid", EMPTY): ("metadata.ownerReferences.uid", f"{NO_TEXT}: must not be empty"),
    ("endpoints[0].addresses", "Required value"): (
        "endpoints[0].addresses",
        "Required value: must contain at least 1 address",
    ),
    ("addressType", f"Invalid value: null: {IMMUTABLE}"): ("addressType", f'Invalid value: "IPv6": {IMMUTABLE}'),
}
"""What servers before 1.37 say in place of a cause."""


def of_minor(api: Api, causes: list[Cause]) -> list[Cause]:
    return causes if api.minor >= 37 else [EARLIER.get(cause, cause) for cause in causes]


WRONG: Final[list[Case]] = [
    # Metadata, of all kinds alike.
    case("Lease", "metadata.name", "Lease", f'Invalid value: "Lease": {SUBDOMAIN}'),
    case("Lease", "metadata.name", "", "Required value: name or generateName is required"),
    case("Lease", "metadata.labels", {"a b": "c"}, f'Invalid value: "a b": {NAME}'),
    case("Lease", "metadata.labels", {"a": "b c"}, f'Invalid value: "b c": {VALUE}'),
    case("Lease", "metadata.annotations", {"a b": "c"}, f'Invalid value: "a b": {NAME}'),
    case(
        "Lease",
        "metadata.ownerReferences",
        [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": ""}],
        EMPTY,
        ("metadata.ownerReferences[0].uid", EMPTY),
        at="[0].name",
    ),
    # EndpointSlices.
    case("EndpointSlice", "metadata.name", "Slice", f'Invalid value: "Slice": {SUBDOMAIN}'),
    case("EndpointSlice", "addressType", "IPv5", 'Unsupported value: "IPv5": supported values: "FQDN", "IPv4", "IPv6"'),
    case("EndpointSlice", "addressType", ABSENT, "Required value"),
    case("EndpointSlice", "endpoints[0].addresses", [], "Required value"),
    case("EndpointSlice", "endpoints[0].addresses", ["10.0.0.256"], f'Invalid value: "10.0.0.256": {NO_IP}', at="[0]"),
    case("EndpointSlice", "endpoints[0].addresses", ["127.0.0.1"], f'Invalid value: "127.0.0.1": {LOOPBACK}', at="[0]"),
    case(
        "EndpointSlice",
        "endpoints[0].addresses",
        ["::1"],
        'Invalid value: "::1": must be an IPv4 address',
        ("endpoints[0].addresses[0]", f'Invalid value: "::1": {LOOPBACK}'),
    ),
    case(
        "EndpointSlice",
        "endpoints[0].hints",
        {"forZones": [{"name": "a b"}]},
        f'Invalid value: "a b": {VALUE}',
        at=".forZones[0].name",
    ),
    case(
        "EndpointSlice",
        "endpoints[0].hints",
        {"forZones": [{"name": "a"}, {"name": "a"}]},
        'Duplicate value: "a"',
        at=".forZones[1].name",
    ),
    case(
        "EndpointSlice",
        "endpoints[0].hints",
        {"forNodes": [{"name": "A_b"}]},
        f'Invalid value: "A_b": {SUBDOMAIN}',
        at=".forNodes[0].name",
    ),
    case("EndpointSlice", "endpoints[0].hostname", "A_b", f'Invalid value: "A_b": {LABEL}'),
    case("EndpointSlice", "endpoints[0].nodeName", "A_b", f'Invalid value: "A_b": {SUBDOMAIN}'),
    case("EndpointSlice", "ports[0].protocol", "X", PROTOCOL),
    case("EndpointSlice", "ports[0].name", "A_b", f'Invalid value: "A_b": {LABEL}'),
    case("EndpointSlice", "ports[1]", {"name": "http", "port": 1}, 'Duplicate value: "http"', at=".name"),
    # Endpoints.
    case("Endpoints", "metadata.name", "Cart", f'Invalid value: "Cart": {SUBDOMAIN}'),
    (
        "Endpoints",
        "subsets[0].addresses",
        [],
        [("subsets[0]", "Required value: must specify `addresses` or `notReadyAddresses`")],
    ),
    case(
        "Endpoints",
        "subsets[0].addresses[0].ip",
        "x",
        f'Invalid value: "x": {NO_IP}',
        ("subsets[0].addresses[0].ip", 'Invalid value: "x": must be a valid IP address'),
    ),
    case("Endpoints", "subsets[0].addresses[0].ip", "127.0.0.1", f'Invalid value: "127.0.0.1": {LOOPBACK}'),
    case("Endpoints", "subsets[0].addresses[0].hostname", "A_b", f'Invalid value: "A_b": {LABEL}'),
    case("Endpoints", "subsets[0].addresses[0].nodeName", "A", f'Invalid value: "A": {SUBDOMAIN}'),
    case("Endpoints", "subsets[0].ports[0].port", 0, PORT),
    case("Endpoints", "subsets[0].ports[0].protocol", "X", PROTOCOL),
    case("Endpoints", "subsets[0].ports[0].name", "A", f'Invalid value: "A": {LABEL}'),
    case("Endpoints", "subsets[0].ports[0].appProtocol", "a b", f'Invalid value: "a b": {NAME}'),
    case("Endpoints", "subsets[0].ports[1]", {"port": 81}, "Required value", at=".name"),
    # Leases.
    case("Lease", "spec.leaseDurationSeconds", 0, "Invalid value: 0: must be greater than 0"),
    case("Lease", "spec.leaseTransitions", -1, "Invalid value: -1: must be greater than or equal to 0"),
    # Events.
    case("Event.events.k8s.io", "eventTime", ABSENT, "Required value"),
    case(
        "Event.events.k8s.io",
        "reportingController",
        ABSENT,
        "Required value",
        ("reportingController", f"{NO_TEXT}: name part must be non-empty"),
        ("reportingController", f"{NO_TEXT}: {NAME}"),
    ),
    case("Event.events.k8s.io", "reportingController", "a b", f'Invalid value: "a b": {NAME}'),
    *(
        problem
        for field in ("reportingInstance", "action", "reason")
        for problem in (
            case("Event.events.k8s.io", field, ABSENT, "Required value"),
            case("Event.events.k8s.io", field, "x" * 129, f"{NO_TEXT}: can have at most 128 characters"),
        )
    ),
    case("Event.events.k8s.io", "type", "Odd", f"{NO_TEXT}: has invalid value: Odd"),
    (
        "Event.events.k8s.io",
        "note",
        "x" * 1025,
        [("message", f"{NO_TEXT}: can have at most 1024 characters")],
    ),
    case(
        "Event.events.k8s.io",
        "series",
        {"count": 0, "lastObservedTime": TIME},
        f"{NO_TEXT}: should be at least 2",
        at=".count",
    ),
    case("Event.events.k8s.io", "series", {"count": 2}, "Required value", at=".lastObservedTime"),
    ("Event.events.k8s.io", "deprecatedCount", 2, [("count", f"{NO_TEXT}: needs to be unset")]),
    # Only what keeps a demo's Services and namespaces usable.
    case("Service", "spec.ports", [], "Required value"),
    case("Service", "spec.ports[0].port", 0, PORT),
    case("Service", "spec.selector", {"a": "b c"}, f'Invalid value: "b c": {VALUE}'),
    case(
        "Service",
        "spec.trafficDistribution",
        "PreferFar",
        'Unsupported value: "PreferFar": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"',
    ),
]


@pytest.mark.parametrize(
    ("kind", "field", "value", "causes"), WRONG, ids=[f"{kind}-{field}" for kind, field, *_ in WRONG]
)
def test_a_new_object_with_a_wrong_field_is_refused(
    api: Api, kind: str, field: str, value: object, causes: list[Cause]
) -> None:
    obj = new(kind, "default")
    collection = collection_of(obj)
    answer = api.send("POST", collection, with_field(obj, field, value))
    assert answer.refusal[:2] == (422, "Invalid"), answer.object
    assert answer.causes == of_minor(api, causes)


def test_message_is_one_error_or_a_list(api: Api) -> None:
    lease = with_field(a_lease("lease", namespace="default"), "spec.leaseDurationSeconds", 0)
    problem = "Invalid value: 0: must be greater than 0"
    kind = 'Lease.coordination.k8s.io "lease" is invalid: '
    assert api.send("POST", collection_of(lease), lease).object == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"{kind}spec.leaseDurationSeconds: {problem}",
        "reason": "Invalid",
        "details": {
            "name": "lease",
            "group": "coordination.k8s.io",
            "kind": "Lease",
            "causes": [{"reason": "FieldValueInvalid", "message": problem, "field": "spec.leaseDurationSeconds"}],
        },
        "code": 422,
    }
    answer = api.send("POST", collection_of(lease), with_field(lease, "spec.leaseTransitions", -1))
    second = "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"
    assert answer.refusal == (422, "Invalid", f"{kind}[spec.leaseDurationSeconds: {problem}, {second}]")


@pytest.mark.parametrize(
    ("kind", "field", "value", "causes"),
    [
        case("EndpointSlice", "addressType", "IPv6", f"Invalid value: null: {IMMUTABLE}"),
        case(
            "EndpointSlice",
            "endpoints",
            [{"addresses": ["x"]}],
            f'Invalid value: "x": {NO_IP}',
            at="[0].addresses[0]",
        ),
        case("Lease", "spec.leaseDurationSeconds", 0, "Invalid value: 0: must be greater than 0"),
        case("Lease", "metadata.uid", "x", f'Invalid value: "x": {IMMUTABLE}'),
        case("Service", "metadata.labels", {"a": "b c"}, f'Invalid value: "b c": {VALUE}'),
        case("Event.events.k8s.io", "reason", "x", f'Invalid value: "x": {IMMUTABLE}'),
        case("Event.events.k8s.io", "action", "x", f'Invalid value: "x": {IMMUTABLE}'),
        case("Event.events.k8s.io", "type", "Warning", f'Invalid value: "Warning": {IMMUTABLE}'),
        ("Event.events.k8s.io", "note", "x", [("message", f'Invalid value: "x": {IMMUTABLE}')]),
    ],
)
def test_a_wrong_change_is_refused(
    api: Api, namespace: str, kind: str, field: str, value: object, causes: list[Cause]
) -> None:
    before = api.create(new(kind, namespace))
    answer = api.send("PATCH", path_of(before), with_field({}, field, value), content_type=MERGE_PATCH)
    assert answer.refusal[:2] == (422, "Invalid"), answer.object
    # A real server may name a cause more than once.
    assert list(dict.fromkeys((field, message.split("\n")[0]) for field, message in answer.causes)) == of_minor(
        api, causes
    )
    assert api.read(before) == before


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("EndpointSlice", {"ports": [{"port": 1}]}),
        ("Lease", {"metadata": {"finalizers": ["zoneward.example/x"]}}),
        ("Event", {"reason": "Other", "involvedObject": {"name": "other"}}),
        ("Event", {"count": 4, "lastTimestamp": "2026-01-03T00:00:00Z", "message": "again"}),
        ("Event.events.k8s.io", {"series": {"count": 2, "lastObservedTime": "2027-01-01T00:00:00.000000Z"}}),
    ],
)
def test_an_allowed_change_is_written(api: Api, namespace: str, kind: str, change: Object) -> None:
    before = api.create(new(kind, namespace))
    after = api.patch(before, change, content_type=MERGE_PATCH)
    assert int(after["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])
    assert api.read(before) == after


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("Service", "spec.ports[0].port", "http"),
        ("Service", "spec.ports[0].port", 80.5),
        ("Service", "metadata.labels", {"a": 1}),
        ("Service", "kind", "Pod"),
        ("Service", "apiVersion", "v2"),
        ("Lease", "spec.renewTime", 5),
        ("Lease", "spec.renewTime", "yesterday"),
        ("Lease", "spec.renewTime", "2026-01-01T00:00:00Z"),
        ("Lease", "spec.renewTime", "2026-13-01T00:00:00.000000Z"),
        ("Endpoints", "subsets[0].addresses", "10.0.0.1"),
        ("EndpointSlice", "endpoints[0].addresses", "10.0.0.1"),
        ("EndpointSlice", "endpoints[0].conditions.ready", "yes"),
    ],
)
def test_a_field_of_the_wrong_type_is_a_bad_request(api: Api, kind: str, field: str, value: object) -> None:
    obj = new(kind, "default")
    collection = collection_of(obj)
    answer = api.send("POST", collection, with_field(obj, field, value))
    assert answer.refusal[:2] == (400, "BadRequest")


def test_null_counts_as_absent(api: Api, namespace: str) -> None:
    service = a_service("cart", namespace=namespace)
    service["metadata"] |= {"labels": {"a": None}, "annotations": None, "ownerReferences": None}
    service["spec"] |= {"selector": {"a": None}, "clusterIP": None, "ports": [{"port": 80, "name": None}]}
    created = api.create(service)
    assert created["metadata"]["labels"] == created["spec"]["selector"] == {"a": ""}
    assert "name" not in created["spec"]["ports"][0]


# --- unknown fields: kubectl asks for strict validation ---------------------------------------------------------------

UNKNOWN = ('unknown field "spec.ports[0].Port"', 'unknown field "spec.size"', 'unknown field "more"')


@pytest.mark.parametrize(("validation", "warnings"), [("", UNKNOWN), ("Warn", UNKNOWN), ("Ignore", ()), ("Strict", ())])
def test_unknown_fields_are_dropped_or_refused(
    api: Api, namespace: str, validation: str, warnings: tuple[str, ...]
) -> None:
    service = with_field(a_service("cart", namespace=namespace), "spec.size", 1)
    service = with_field(with_field(service, "spec.ports[0].Port", 3), "more", "x")
    query = {"fieldValidation": validation} if validation else {}
    answer = api.send("POST", collection_of(service), service, query=query)
    assert sorted(answer.warnings) == sorted(warnings)
    if validation == "Strict":
        assert answer.refusal[:2] == (400, "BadRequest")
        start = 'Service in version "v1" cannot be handled as a Service: strict decoding error: '
        assert answer.refusal[2].startswith(start)
        assert sorted(answer.refusal[2].removeprefix(start).split(", ")) == sorted(UNKNOWN)
    else:
        assert answer.code == 201
        assert "more" not in answer.object
        assert "size" not in answer.object["spec"]
        assert answer.object["spec"]["ports"][0]["port"] == 80


@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_PATCH])
def test_unknown_fields_in_a_patch_are_reported(api: Api, namespace: str, content_type: str) -> None:
    service, patch = api.create(a_service("cart", namespace=namespace)), {"spec": {"size": 1}}
    for query, warnings in (({}, ('unknown field "spec.size"',)), ({"fieldValidation": "Ignore"}, ())):
        answer = api.send("PATCH", path_of(service), patch, content_type=content_type, query=query)
        assert (answer.code, answer.warnings) == (200, warnings)
        assert answer.object == service
    answer = api.send("PATCH", path_of(service), patch, content_type=content_type, query={"fieldValidation": "Strict"})
    assert answer.refusal[:2] == (422, "Invalid")
    assert answer.refusal[2].endswith('strict decoding error: unknown field "spec.size"')
