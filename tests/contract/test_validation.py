"""What the server refuses to store, and what it says then: people read it, programs read the causes."""

from collections.abc import Callable

import pytest
from tests.builders.objects import (
    a_bare_node,
    a_bare_pod,
    a_core_event,
    a_lease,
    a_namespace,
    a_service,
    a_slice,
    an_event,
    some_endpoints,
    with_field,
)
from tests.contract import refused
from tests.contract.api import (
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Api,
    Object,
    collection_of,
    path_of,
)

# Nothing is stored here, so one namespace does for all; where anything is, the test has its own.
NEW: dict[str, tuple[Callable[[str], Object], refused.Cases]] = {
    "Service": (lambda namespace: a_service("cart", namespace=namespace), refused.SERVICES),
    "Pod": (lambda namespace: a_bare_pod("cart", namespace=namespace), refused.PODS),
    "Node": (lambda namespace: a_bare_node(f"{namespace}-node"), refused.NODES),
    "EndpointSlice": (
        lambda namespace: a_slice("cart", service="cart", addresses=["10.0.0.1"], namespace=namespace),
        refused.SLICES,
    ),
    "Endpoints": (lambda namespace: some_endpoints("cart", namespace=namespace), refused.ENDPOINTS),
    "Lease": (lambda namespace: a_lease("cart", namespace=namespace), refused.LEASES),
    "Event": (lambda namespace: a_core_event("cart", namespace=namespace), refused.CORE_EVENTS),
    "Event.events.k8s.io": (lambda namespace: an_event("cart", namespace=namespace), refused.EVENTS),
    "Namespace": (lambda namespace: a_namespace(f"{namespace}-more"), refused.NAMESPACES),
}


@pytest.mark.parametrize(
    ("kind", "index"), [(kind, index) for kind, (_, cases) in NEW.items() for index in range(len(cases))]
)
def test_a_new_object_with_a_wrong_field_is_refused(api: Api, kind: str, index: int) -> None:
    new, cases = NEW[kind]
    field, value, causes = cases[index]
    thing = new("default")
    collection = collection_of(thing)
    answer = api.send("POST", collection, with_field(thing, field, value), query={"dryRun": "All"})
    assert answer.refusal[:2] == (422, "Invalid"), answer.object
    assert answer.causes == causes


def test_each_kind_is_judged() -> None:
    assert all(cases for _, cases in NEW.values())


def test_one_thing_that_is_wrong_is_the_message(api: Api) -> None:
    thing = with_field(a_service("cart"), "spec.ports[0].port", 0)
    problem = "Invalid value: 0: must be between 1 and 65535, inclusive"
    assert api.send("POST", collection_of(thing), thing).object == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'Service "cart" is invalid: spec.ports[0].port: {problem}',
        "reason": "Invalid",
        "details": {
            "name": "cart",
            "kind": "Service",
            "causes": [{"reason": "FieldValueInvalid", "message": problem, "field": "spec.ports[0].port"}],
        },
        "code": 422,
    }


def test_several_things_that_are_wrong_are_reported_together(api: Api) -> None:
    thing = with_field(a_lease("lease", namespace="default"), "spec.leaseDurationSeconds", 0)
    thing = with_field(thing, "spec.leaseTransitions", -1)
    answer = api.send("POST", collection_of(thing), thing)
    assert answer.refusal == (
        422,
        "Invalid",
        (
            'Lease.coordination.k8s.io "lease" is invalid: ['
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0, "
            "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0]"
        ),
    )
    details = answer.object["details"]
    assert (details["group"], details["kind"], len(details["causes"])) == ("coordination.k8s.io", "Lease", 2)


@pytest.mark.parametrize(
    ("kind", "change", "causes"),
    [
        (
            "Service",
            {"spec": {"clusterIP": "10.96.77.77", "clusterIPs": ["10.96.77.77"]}},
            [("spec.clusterIPs[0]", 'Invalid value: ["10.96.77.77"]: may not change once set')],
        ),
        (
            "Service",
            {"spec": {"clusterIP": "None"}},
            [("spec.clusterIPs[0]", 'Invalid value: ["None"]: may not change once set')],
        ),
        ("Service", {"spec": {"ports": []}}, [("spec.ports", "Required value")]),
        ("Service", {"spec": {"type": "ExternalName"}}, [("spec.externalName", "Required value")]),
        (
            "Service",
            {"spec": {"trafficDistribution": "Far"}},
            [
                (
                    "spec.trafficDistribution",
                    'Unsupported value: "Far": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"',
                )
            ],
        ),
        (
            "Service",
            {"metadata": {"labels": {"a": "b c"}}},
            [("metadata.labels", f'Invalid value: "b c": {refused.VALUE}')],
        ),
        (
            "EndpointSlice",
            {"addressType": "IPv6"},
            [("addressType", 'Invalid value: "IPv6": field is immutable')],
        ),
        (
            "EndpointSlice",
            {"endpoints": [{"addresses": ["x"]}]},
            [
                (
                    "endpoints[0].addresses[0]",
                    'Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
                )
            ],
        ),
        (
            "Lease",
            {"spec": {"leaseDurationSeconds": 0}},
            [("spec.leaseDurationSeconds", "Invalid value: 0: must be greater than 0")],
        ),
        ("Lease", {"metadata": {"uid": "x"}}, [("metadata.uid", 'Invalid value: "x": field is immutable')]),
        (
            "Lease",
            {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}},
            [("metadata.deletionTimestamp", 'Invalid value: "2001-01-01T00:00:00Z": field is immutable')],
        ),
        ("Event.events.k8s.io", {"reason": "x"}, [("reason", 'Invalid value: "x": field is immutable')]),
        ("Event.events.k8s.io", {"note": "x"}, [("message", 'Invalid value: "x": field is immutable')]),
        ("Event.events.k8s.io", {"action": "x"}, [("action", 'Invalid value: "x": field is immutable')]),
        ("Event.events.k8s.io", {"type": "Warning"}, [("type", 'Invalid value: "Warning": field is immutable')]),
    ],
)
def test_a_change_that_may_not_be_is_refused(
    api: Api, namespace: str, kind: str, change: Object, causes: list[tuple[str, str]]
) -> None:
    before = api.create(NEW[kind][0](namespace))
    answer = api.send("PATCH", path_of(before), change, content_type=MERGE_PATCH)
    assert answer.refusal[:2] == (422, "Invalid"), answer.object
    # A cause may be told more than once: that is not promised.
    assert list(dict.fromkeys((field, message.split("\n")[0]) for field, message in answer.causes)) == causes
    assert api.read(before) == before


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("Pod", {"spec": {"activeDeadlineSeconds": 5}}),
        ("Pod", {"spec": {"containers": [{"name": "main", "image": "newer"}]}}),
        ("Node", {"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}}),
        ("Node", {"spec": {"providerID": "somewhere"}}),
        ("EndpointSlice", {"ports": [{"port": 1}]}),
        ("Lease", {"metadata": {"finalizers": ["zoneward.example/x"]}}),
        ("Event", {"reason": "Other", "involvedObject": {"name": "other"}}),
        ("Event.events.k8s.io", {"series": {"count": 2, "lastObservedTime": "2027-01-01T00:00:00.000000Z"}}),
    ],
)
def test_a_change_that_may_be_is_done(api: Api, namespace: str, kind: str, change: Object) -> None:
    before = api.create(NEW[kind][0](namespace))
    after = api.patch(before, change, content_type=MERGE_PATCH)
    assert int(after["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])


# --- wrong types ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("Service", "spec.ports[0].port", "http"),
        ("Service", "spec.ports[0].port", 80.5),
        ("Service", "spec.ports", {"a": 1}),
        ("Service", "spec", "x"),
        ("Service", "metadata.labels", {"a": 1}),
        ("Service", "metadata.labels", ["a"]),
        ("Service", "spec.publishNotReadyAddresses", "yes"),
        ("Service", "kind", "Pod"),
        ("Service", "kind", "Nothing"),
        ("Service", "kind", 7),
        ("Service", "apiVersion", "v2"),
        ("Lease", "spec.renewTime", 5),
        ("Pod", "spec.containers", "x"),
        ("Endpoints", "subsets[0].addresses", "10.0.0.1"),
        ("EndpointSlice", "endpoints[0].addresses", "10.0.0.1"),
        ("EndpointSlice", "endpoints[0].conditions.ready", "yes"),
    ],
)
def test_a_field_of_the_wrong_type_is_a_bad_request(api: Api, kind: str, field: str, value: object) -> None:
    thing = NEW[kind][0]("default")
    collection = collection_of(thing)
    answer = api.send("POST", collection, with_field(thing, field, value))
    assert answer.refusal[:2] == (400, "BadRequest")


def test_null_is_as_good_as_nothing(api: Api) -> None:
    service = a_service("cart")
    service["metadata"] |= {"labels": {"a": None}, "annotations": None, "ownerReferences": None}
    service["spec"] |= {"selector": {"a": None}, "clusterIP": None, "ports": [{"port": 80, "name": None}]}
    answer = api.send("POST", collection_of(service), service, query={"dryRun": "All"})
    assert answer.code == 201
    assert answer.object["metadata"]["labels"] == answer.object["spec"]["selector"] == {"a": ""}
    assert "name" not in answer.object["spec"]["ports"][0]


# --- unknown fields ---------------------------------------------------------------------------------------------------

UNKNOWN = ('unknown field "spec.ports[0].Port"', 'unknown field "spec.size"', 'unknown field "more"')


def with_unknown_fields() -> Object:
    thing = with_field(a_service("cart"), "spec.size", 1)
    return with_field(with_field(thing, "spec.ports[0].Port", 3), "more", "x")


@pytest.mark.parametrize(
    ("query", "warnings"), [({}, UNKNOWN), ({"fieldValidation": "Warn"}, UNKNOWN), ({"fieldValidation": "Ignore"}, ())]
)
def test_unknown_fields_are_dropped(api: Api, query: dict[str, str], warnings: tuple[str, ...]) -> None:
    thing = with_unknown_fields()
    answer = api.send("POST", collection_of(thing), thing, query={"dryRun": "All", **query})
    assert (answer.code, sorted(answer.warnings)) == (201, sorted(warnings))
    assert "more" not in answer.object
    assert "size" not in answer.object["spec"]
    assert answer.object["spec"]["ports"][0]["port"] == 80


def test_unknown_fields_are_refused_in_strict_validation(api: Api) -> None:
    thing = with_unknown_fields()
    answer = api.send("POST", collection_of(thing), thing, query={"fieldValidation": "Strict"})
    assert answer.refusal[:2] == (400, "BadRequest")
    start = 'Service in version "v1" cannot be handled as a Service: strict decoding error: '
    assert answer.refusal[2].startswith(start)
    assert sorted(answer.refusal[2].removeprefix(start).split(", ")) == sorted(UNKNOWN)


@pytest.mark.parametrize(
    ("content_type", "patch"),
    [
        (MERGE_PATCH, {"spec": {"size": 1}}),
        (STRATEGIC_PATCH, {"spec": {"size": 1}}),
    ],
)
def test_unknown_fields_in_a_patch_are_reported(api: Api, namespace: str, content_type: str, patch: object) -> None:
    service = api.create(a_service("cart", namespace=namespace))
    for query, warnings in (({}, ('unknown field "spec.size"',)), ({"fieldValidation": "Ignore"}, ())):
        answer = api.send("PATCH", path_of(service), patch, content_type=content_type, query=query)
        assert (answer.code, answer.warnings) == (200, warnings)
        assert answer.object == service
    answer = api.send("PATCH", path_of(service), patch, content_type=content_type, query={"fieldValidation": "Strict"})
    assert answer.refusal[:2] == (422, "Invalid")
    assert answer.refusal[2].endswith('strict decoding error: unknown field "spec.size"')
