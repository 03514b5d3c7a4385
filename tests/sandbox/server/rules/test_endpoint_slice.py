"""Rules for EndpointSlices: words and generations were read from a v1.36.3 server.

What is refused in detail is tested with `zoneward.kube.validation`.
"""

from typing import Any, Final

import pytest
from tests.sandbox.server.rules.judging import LABEL, NAME_PART, change_refused, created, refused, updated
from zoneward.sandbox.server.rules.endpoint_slice import EndpointSliceRules

from zoneward.kube.validation import MAX_ENDPOINTS
from zoneward.sandbox.server.kinds import Object

RULES: Final = EndpointSliceRules()
METADATA: Final = {"name": "s", "namespace": "ns", "uid": "1", "resourceVersion": "7", "generation": 1}
ONE: Final = {"addresses": ["10.0.0.1"], "conditions": {}}
TWO: Final = {"addresses": ["10.0.0.2"], "conditions": {}}
KNOWN: Final[Object] = {
    "metadata": METADATA | {"labels": {"a": "b"}},
    "addressType": "IPv4",
    "endpoints": [ONE, TWO],
    "ports": [{"name": "", "protocol": "TCP", "port": 80}],
}


def test_a_port_without_a_name_and_a_protocol_has_an_empty_one_and_tcp() -> None:
    ports = [{"port": 80}, {"name": "b", "protocol": "UDP"}, {"name": "c", "protocol": ""}]
    assert created(RULES, KNOWN | {"ports": ports})["ports"] == [
        {"name": "", "protocol": "TCP", "port": 80},
        *ports[1:],
    ]


def test_topology_of_earlier_versions_is_dropped_unseen() -> None:
    topology = {"deprecatedTopology": {"topology.kubernetes.io/zone": "z", "_": "b c"}}
    new = KNOWN | {"endpoints": [ONE | topology, TWO | {"zone": "y", "nodeName": "n"} | topology]}
    assert created(RULES, new)["endpoints"] == [ONE, TWO | {"zone": "y", "nodeName": "n"}]
    assert refused(RULES, new) == []


# --- gates ------------------------------------------------------------------------------------------------------------

ZONES: Final = {"forZones": [{"name": "a"}]}
BOTH: Final = ZONES | {"forNodes": [{"name": "n"}]}


@pytest.mark.parametrize(
    ("gates", "old", "new", "stored"),
    [
        ({}, None, BOTH, BOTH),
        ({"node_hints": False}, None, BOTH, ZONES),
        ({"node_hints": False}, ZONES, BOTH, ZONES),
        ({"node_hints": False}, BOTH, BOTH, BOTH),
        ({"zone_hints": False}, None, BOTH, None),
        ({"zone_hints": False}, ZONES, ZONES, ZONES),
        ({"zone_hints": False, "node_hints": False}, ZONES, BOTH, ZONES),
    ],
)
def test_hints_whose_gate_is_off_are_dropped_unless_the_slice_has_some(
    gates: dict[str, bool], old: Object | None, new: Object, stored: Object | None
) -> None:
    rules = EndpointSliceRules(**gates)

    def with_hints(hints: Object | None) -> list[Object]:
        return [ONE | ({"hints": hints} if hints else {}), TWO]

    before = KNOWN | {"endpoints": with_hints(old)}
    assert updated(rules, before, endpoints=with_hints(new))["endpoints"] == with_hints(stored)
    if old is None:
        assert created(rules, KNOWN | {"endpoints": with_hints(new)})["endpoints"] == with_hints(stored)


# --- generations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "grows"),
    [
        ({}, False),
        ({"metadata": {"labels": {"x": "y"}}}, True),
        ({"metadata": {"labels": None}}, True),
        ({"metadata": {"annotations": {"x": "y"}}}, False),
        ({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y"}]}}, False),
        ({"metadata": {"finalizers": ["a.b/c"], "generateName": "a-", "managedFields": []}}, False),
        ({"endpoints": [ONE]}, True),
        ({"endpoints": None}, True),
        ({"endpoints": [ONE | {"hints": {}}, TWO]}, True),
        ({"ports": []}, True),
        ({"ports": [{"port": 80}]}, False),
    ],
)
def test_a_generation_is_of_the_content_and_the_labels(changes: Any, grows: bool) -> None:
    assert RULES.has_generation
    assert RULES.is_new_generation(updated(RULES, KNOWN, **changes), KNOWN) == grows


def test_none_and_nothing_are_the_same_generation() -> None:
    old = KNOWN | {"metadata": METADATA, "endpoints": None, "ports": None}
    new = KNOWN | {"metadata": METADATA | {"labels": {}}, "endpoints": [], "ports": []}
    assert not RULES.is_new_generation(new, old)


# --- errors -----------------------------------------------------------------------------------------------------------


def test_a_new_slice_is_refused_in_upstreams_order() -> None:
    assert refused(RULES, KNOWN) == []
    wrong = {
        "metadata": METADATA | {"labels": {"_": "a"}, "finalizers": ["kub"]},
        "addressType": "",
        "ports": [{"name": "_", "protocol": "x"}],
        "endpoints": [ONE, {"addresses": None}],
    }
    assert refused(RULES, wrong) == [
        f'metadata.labels: Invalid value: "_": {NAME_PART}',
        (
            'metadata.finalizers[0]: Invalid value: "kub": name is neither a standard finalizer name nor is it fully '
            "qualified"
        ),
        "addressType: Required value",
        f'ports[0].name: Invalid value: "_": {LABEL}',
        'ports[0].protocol: Unsupported value: "x": supported values: "SCTP", "TCP", "UDP"',
        "endpoints[1].addresses: Required value: must contain at least 1 address",
    ]


def test_too_many_endpoints_are_not_looked_at() -> None:
    expected = ["endpoints: Too many: 1001: must have at most 1000 items"]
    assert refused(RULES, KNOWN | {"endpoints": [{}] * (MAX_ENDPOINTS + 1)}) == expected
    assert change_refused(RULES, KNOWN, endpoints=[{}] * (MAX_ENDPOINTS + 1)) == expected


def test_the_address_type_stays() -> None:
    immutable = 'addressType: Invalid value: "IPv6": field is immutable'
    assert change_refused(RULES, KNOWN, addressType="IPv6") == [immutable]
    assert change_refused(RULES, KNOWN, addressType="IPv6", endpoints=[TWO]) == [
        'endpoints[0].addresses: Invalid value: "10.0.0.2": must be an IPv6 address',
        immutable,
    ]
    assert change_refused(RULES, KNOWN, addressType=None) == [
        "addressType: Required value",
        'addressType: Invalid value: "": field is immutable',
    ]


def test_an_update_is_refused_for_what_it_changes() -> None:
    bad = {"addresses": ["x"]}
    known = KNOWN | {"endpoints": [bad, ONE]}
    assert change_refused(RULES, known, metadata={"labels": {}}) == []
    assert change_refused(RULES, known, endpoints=[ONE, bad]) == []
    words = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
    assert change_refused(RULES, known, endpoints=[ONE, TWO, bad | {"zone": "a"}]) == [
        f'endpoints[2].addresses[0]: Invalid value: "x": {words}'
    ]
    assert change_refused(RULES, KNOWN, endpoints=[ONE | {"hints": {"forZones": [{"name": ""}] * 9}}]) == [
        "endpoints[0].hints.forZones: Too many: 9: must have at most 8 items"
    ]


def test_labels_are_judged_before_the_content() -> None:
    assert change_refused(RULES, KNOWN, metadata={"labels": {"_": "a"}}, ports=[{"protocol": "x"}]) == [
        f'metadata.labels: Invalid value: "_": {NAME_PART}',
        'ports[0].protocol: Unsupported value: "x": supported values: "SCTP", "TCP", "UDP"',
    ]
