"""JSON becomes an object of its kind: types are checked, unknown fields dropped, empty ones written or not."""

import math
from typing import Any

import pytest

from zoneward.sandbox.server.catalog import kinds
from zoneward.sandbox.server.schema import decode
from zoneward.sandbox.server.status_errors import StatusError

Object = dict[str, Any]
KINDS = {f"{kind.api} {kind.kind}": kind for kind in kinds()}
SERVICE, LEASE = KINDS["v1 Service"], KINDS["coordination.k8s.io/v1 Lease"]
SLICE, NODE = KINDS["discovery.k8s.io/v1 EndpointSlice"], KINDS["v1 Node"]


@pytest.mark.parametrize("name", KINDS)
def test_decoding_does_not_modify_its_input(name: str) -> None:
    kind = KINDS[name]
    obj, warnings = decode(None, kind)
    assert (obj["kind"], obj["apiVersion"], warnings) == (kind.kind, kind.api, [])
    assert decode(obj, kind) == (obj, [])


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        (SERVICE, [], "expected an object, got a list"),
        (SERVICE, {"kind": "Pod"}, "expected a Service of v1, got 'Pod' of 'v1'"),
        (SERVICE, {"spec": {"ports": {}}}, "spec.ports: expected a list, got a mapping"),
        (SERVICE, {"spec": {"ports": [{"port": "http"}]}}, "spec.ports[0].port: expected int32, got 'http'"),
        (SERVICE, {"spec": {"ports": [{}, {"port": 2**31}]}}, "spec.ports[1].port: expected int32, got 2147483648"),
        (SERVICE, {"spec": {"ports": [{"port": math.inf}]}}, "spec.ports[0].port: expected int32, got inf"),
        (SERVICE, {"spec": {"ports": [{"targetPort": True}]}}, "targetPort: expected int-or-string, got true"),
        (SERVICE, {"metadata": {"labels": {"a": 1}}}, "metadata.labels[a]: expected string, got 1"),
        (SLICE, {"endpoints": [{"conditions": {"ready": "yes"}}]}, "endpoints[0].conditions.ready: expected boolean"),
        (LEASE, {"spec": {"renewTime": "2026-01-01T00:00:00Z"}}, "spec.renewTime: expected an RFC 3339 time with six"),
        (LEASE, {"metadata": {"creationTimestamp": "2026-02-30T00:00:00Z"}}, "expected an RFC 3339 time such as"),
        (NODE, {"status": {"allocatable": {"cpu": "many"}}}, "status.allocatable[cpu]: expected a quantity such as"),
    ],
)
def test_value_of_a_wrong_type_is_refused_with_its_path(kind: Any, value: object, problem: str) -> None:
    with pytest.raises(StatusError) as refused:
        decode(value, kind)
    assert refused.value.code == 400
    assert f"the object cannot be handled as a {kind.kind}: " in refused.value.message
    assert problem in refused.value.message


@pytest.mark.parametrize(
    ("kind", "given", "field", "expected"),
    [
        (SERVICE, {"status": {"loadBalancer": None}}, "status", {"loadBalancer": {}}),
        (SERVICE, {"metadata": {"managedFields": [{}], "name": "a"}}, "metadata", {"name": "a"}),
        (SLICE, {"endpoints": None}, "endpoints", None),
        (SLICE, {"endpoints": [{"addresses": []}]}, "endpoints", [{"addresses": None, "conditions": {}}]),
        (SLICE, {"ports": [{"name": "", "port": None}]}, "ports", [{"name": ""}]),
        (
            LEASE,
            {"spec": {"renewTime": "2026-01-01T02:00:00.500000+02:00"}},
            "spec",
            {"renewTime": "2026-01-01T00:00:00.500000Z"},
        ),
        (NODE, {"spec": {"taints": None, "podCIDRs": []}}, "spec", {}),
        (NODE, {"spec": {"taints": [{"key": "a"}]}}, "spec", {"taints": [{"key": "a", "effect": ""}]}),
    ],
)
def test_empty_fields_are_written_as_go_writes_them(kind: Any, given: Object, field: str, expected: object) -> None:
    assert decode(given, kind)[0][field] == expected
