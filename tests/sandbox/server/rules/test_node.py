"""Rules for Nodes: every list of words was read from a v1.36.3 server."""

from typing import Any, Final

import pytest
from tests.sandbox.server.rules.judging import NAME_PART, VALUE, change_refused, created, refused, updated
from zoneward.sandbox.server.rules.node import NOT_READY, NodeRules, cidr_problems, fields

from zoneward.sandbox.server.kinds import Object

RULES: Final = NodeRules()
METADATA: Final = {"name": "n", "uid": "1", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"}
KNOWN: Final[Object] = {
    "metadata": METADATA,
    "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": "a://b", "taints": [NOT_READY]},
    "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}},
}
NO_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def a_node(*, spec: Object | None = None, status: Object | None = None) -> Object:
    return {"metadata": METADATA, "spec": spec or {}, "status": status or {}}


# --- new --------------------------------------------------------------------------------------------------------------


def test_a_new_node_is_not_ready_and_keeps_its_status() -> None:
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    new = created(RULES, a_node(spec={"taints": [{"key": "a", "effect": "NoExecute"}]}, status=status))
    assert new["spec"]["taints"] == [{"key": "a", "effect": "NoExecute"}, NOT_READY]
    assert new["status"] == status


@pytest.mark.parametrize(
    ("taint", "is_added"),
    [
        ({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule", "value": "x"}, False),
        ({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}, True),
    ],
)
def test_the_taint_is_there_once(taint: Object, is_added: bool) -> None:
    assert created(RULES, a_node(spec={"taints": [taint]}))["spec"]["taints"] == [taint] + [NOT_READY] * is_added


@pytest.mark.parametrize(
    ("spec", "first", "every"),
    [
        ({"podCIDR": "10.0.0.0/24"}, "10.0.0.0/24", ["10.0.0.0/24"]),
        ({"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}, "10.0.0.0/24", ["10.0.0.0/24", "fd00::/64"]),
        ({"podCIDR": "fd00::/64", "podCIDRs": ["10.0.0.0/24", "fd00::/64"]}, "fd00::/64", ["fd00::/64"]),
    ],
)
def test_pod_cidr_is_the_first_of_all(spec: Object, first: str, every: list[str]) -> None:
    new = created(RULES, a_node(spec=spec))["spec"]
    assert (new["podCIDR"], new["podCIDRs"]) == (first, every)


def test_what_is_allocatable_is_the_capacity_unless_told() -> None:
    assert created(RULES, a_node(status={"capacity": {"cpu": "4"}}))["status"]["allocatable"] == {"cpu": "4"}
    told = {"capacity": {"cpu": "4"}, "allocatable": {"memory": "1Gi"}}
    assert created(RULES, a_node(status=told))["status"] == told


def test_a_source_of_configuration_is_dropped() -> None:
    assert created(RULES, a_node(spec={"configSource": {}, "externalID": "x"}))["spec"] == {
        "externalID": "x",
        "taints": [NOT_READY],
    }


def test_defaults_change_nothing_the_second_time() -> None:
    new = created(RULES, a_node(spec={"podCIDR": "10.0.0.0/24"}, status={"capacity": {"cpu": "4"}}))
    again = dict(new)
    RULES.default(again)
    assert again == new


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {
                "taints": [
                    {"key": "_", "effect": "X"},
                    {"key": "a", "value": "b c"},
                    {"key": "", "effect": "NoSchedule"},
                    {"key": "b", "effect": "NoSchedule"},
                    {"key": "b", "effect": "NoSchedule", "value": "z"},
                    {"key": "b", "effect": "NoExecute"},
                ]
            },
            [
                f'metadata.taints[0].key: Invalid value: "_": {NAME_PART}',
                (
                    'metadata.taints[0].effect: Unsupported value: "X": supported values: "NoSchedule", '
                    '"PreferNoSchedule", "NoExecute"'
                ),
                f'metadata.taints[1].value: Invalid value: "b c": {VALUE}',
                "metadata.taints[1].effect: Required value",
                'metadata.taints[2].key: Invalid value: "": name part must be non-empty',
                f'metadata.taints[2].key: Invalid value: "": {NAME_PART}',
                (
                    'metadata.taints[4]: Duplicate value: {"Key":"b","Value":"z","Effect":"NoSchedule",'
                    '"TimeAdded":null}: taints must be unique by key and effect pair'
                ),
            ],
        ),
        (
            {"podCIDRs": ["10.0.0.0/24", "10.1.0.0/24"]},
            [
                (
                    'spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.1.0.0/24"]: may specify no more than one CIDR '
                    "for each IP family"
                )
            ],
        ),
        (
            {"podCIDRs": ["10.0.0.0/24", "x"]},
            [
                f'spec.podCIDRs[1]: Invalid value: "x": {NO_CIDR}',
                (
                    "spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with "
                    "error:invalid CIDR[1]: <nil> (invalid CIDR address: x)"
                ),
                (
                    'spec.podCIDRs: Invalid value: ["10.0.0.0/24","x"]: may specify no more than one CIDR for each IP '
                    "family"
                ),
            ],
        ),
    ],
)
def test_a_spec_is_refused_in_upstreams_words(spec: Object, expected: list[str]) -> None:
    assert refused(RULES, a_node(spec=spec)) == expected


@pytest.mark.parametrize(
    ("cidr", "problems"),
    [
        ("10.0.0.0/24", []),
        ("0.0.0.0/0", []),
        ("FD00:0::/64", []),
        ("", [NO_CIDR]),
        ("10.0.0.0", [NO_CIDR]),
        ("10.0.0/24", [NO_CIDR]),
        ("10.0.0.0/33", [NO_CIDR]),
        ("10.0.0.0/+8", [NO_CIDR]),
        ("10.0.0.0/8 ", [NO_CIDR]),
        ("fe80::%1/64", [NO_CIDR]),
        ("010.0.0.0/24", ["must not have leading 0s in IP or prefix length"]),
        ("10.0.0.0/08", ["must not have leading 0s in IP or prefix length"]),
        ("010.0.0.1/24", ["must not have leading 0s in IP or prefix length"]),
        ("::ffff:1.2.3.0/120", ["must not have an IPv4-mapped IPv6 address"]),
        ("fd00::1/64", ["must not have bits set beyond the prefix length"]),
        ("1.2.3.4/0", ["must not have bits set beyond the prefix length"]),
    ],
)
def test_a_range_of_addresses_is_judged_as_upstream_does(cidr: str, problems: list[str]) -> None:
    assert list(cidr_problems(cidr)) == problems


def test_resources_are_counted_or_measured() -> None:
    capacity = {"cpu": "-1", "example.com/x": "1500m", "pods": "1500m", "a/b/c": "500m", "memory": "1500m"}
    assert refused(RULES, a_node(status={"capacity": capacity, "allocatable": {"cpu": "1"}})) == [
        'status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0',
        'status.capacity.example.com/x: Invalid value: "1500m": must be an integer',
        'status.capacity.pods: Invalid value: "1500m": must be an integer',
    ]


# --- updates ----------------------------------------------------------------------------------------------------------


def with_spec(**changes: Any) -> Object:
    spec: Object = KNOWN["spec"]
    return spec | changes


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (with_spec(), []),
        (with_spec(unschedulable=True, taints=[]), []),
        (with_spec(podCIDRs=["10.9.0.0/24"]), []),
        (
            with_spec(podCIDR="", podCIDRs=[]),
            ['spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid'],
        ),
        (
            with_spec(podCIDRs=["10.0.0.0/24", "fd00::/64"]),
            ['spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid'],
        ),
        (
            with_spec(providerID=""),
            ['spec.providerID: Forbidden: node updates may not change providerID except from "" to valid'],
        ),
        (
            with_spec(
                providerID="x",
                podCIDR="x",
                podCIDRs=["x"],
                taints=[{"key": "_", "effect": "NoSchedule"}],
                externalID="u",
            ),
            [
                f'metadata.taints[0].key: Invalid value: "_": {NAME_PART}',
                f'spec.podCIDRs[0]: Invalid value: "x": {NO_CIDR}',
                'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid',
                'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid',
                "spec.externalID: Forbidden: may not be updated",
            ],
        ),
    ],
)
def test_what_a_node_was_given_stays(spec: Object, expected: list[str]) -> None:
    assert change_refused(RULES, KNOWN, spec=spec) == expected


def test_a_node_that_has_none_may_get_addresses_and_a_provider() -> None:
    bare = KNOWN | {"spec": {}}
    assert change_refused(RULES, bare, spec={"podCIDR": "10.0.0.0/24", "providerID": "a://b"}) == []


def test_an_update_leaves_the_status_and_a_status_update_the_spec() -> None:
    changed: Any = {"spec": {"unschedulable": True}, "metadata": {"labels": {"a": "b"}}}
    new = updated(RULES, KNOWN, **changed)
    assert (new["spec"], new["status"]) == ({"unschedulable": True}, KNOWN["status"])
    new = updated(RULES, KNOWN, status=True, **changed)
    assert new["spec"] == KNOWN["spec"]
    assert new["metadata"]["labels"] == {"a": "b"}, "metadata can be changed with the status"


def test_a_status_is_refused_in_upstreams_words() -> None:
    old = KNOWN | {"status": {}}
    status = {"capacity": {"pods": "500m"}, "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}] * 2}
    new = KNOWN | {"status": status}
    RULES.default(new)
    assert [str(error) for error in RULES.validate_status(new, old)] == [
        'status.capacity.pods: Invalid value: "500m": must be an integer',
        'status.allocatable.pods: Invalid value: "500m": must be an integer',
        'status.addresses[1]: Duplicate value: {"Type":"InternalIP","Address":"1.2.3.4"}',
    ]
    assert list(RULES.validate_status(new, new)) == [], "what was there is not judged again"


def test_labels_are_judged_with_every_update() -> None:
    expected = [f'metadata.labels: Invalid value: "_": {NAME_PART}']
    assert change_refused(RULES, KNOWN, metadata={"labels": {"_": "b"}}) == expected
    assert change_refused(RULES, KNOWN, status=True, metadata={"labels": {"_": "b"}}) == expected


def test_field_selectors_tell_nodes_that_take_no_pods() -> None:
    assert fields(a_node(spec={"unschedulable": True})) == {"spec.unschedulable": "true"}
    assert fields({"metadata": METADATA}) == {"spec.unschedulable": "false"}
