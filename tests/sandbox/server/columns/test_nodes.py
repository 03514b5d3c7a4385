"""The table of nodes says of each state what a real server (1.36.3) said of it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from zoneward.sandbox.server.columns.nodes import COLUMNS, cells

Object = dict[str, Any]

NOW = datetime(2026, 11, 21, 17, 57, 12, tzinfo=UTC)
ROLE = "node-role.kubernetes.io/"


def node(status: Object | None = None, labels: Object | None = None, **spec: object) -> Object:
    metadata = {"name": "n", "creationTimestamp": "2026-11-21T17:54:39Z", "labels": labels or {}}
    return {"metadata": metadata, "spec": spec, "status": status or {}}


def readiness(status: str) -> Object:
    return {"conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": status}]}


@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        (node(), "Unknown"),
        (node(readiness("True")), "Ready"),
        (node(readiness("False")), "NotReady"),
        (node(readiness("Unknown")), "NotReady"),
        (node(readiness("True"), unschedulable=True), "Ready,SchedulingDisabled"),
        (node(unschedulable=True), "Unknown,SchedulingDisabled"),
    ],
)
def test_its_status_is_whether_it_is_ready_and_can_be_used(thing: Object, expected: str) -> None:
    assert cells(thing, NOW)[1] == expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, "<none>"),
        ({"kubernetes.io/role": ""}, "<none>"),
        (
            {f"{ROLE}worker": "", f"{ROLE}control-plane": "true", "kubernetes.io/role": "edge"},
            "control-plane,edge,worker",
        ),
    ],
)
def test_its_roles_are_in_labels(labels: Object, expected: str) -> None:
    assert cells(node(labels=labels), NOW)[2] == expected


def test_a_new_node_has_hardly_anything() -> None:
    nothing = ["<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"]
    assert cells(node(), NOW) == ["n", "Unknown", "<none>", "2m33s", "", *nothing]


def test_wide_columns_have_the_first_address_of_each_type_and_its_software() -> None:
    types = ("Hostname", "h"), ("InternalIP", "10.0.0.1"), ("InternalIP", "10.0.0.2"), ("ExternalIP", "192.0.2.1")
    info = {"kubeletVersion": "v1.36.3", "osImage": "Debian", "kernelVersion": "6.1.0", "architecture": "amd64"}
    status = {
        "addresses": [{"type": address_type, "address": address} for address_type, address in types],
        "nodeInfo": {**info, "containerRuntimeVersion": "containerd://2.0.0"},
    }
    expected = ["v1.36.3", "10.0.0.1", "192.0.2.1", "Debian", "6.1.0 (amd64)", "containerd://2.0.0"]
    assert cells(node(status), NOW)[4:] == expected


@pytest.mark.parametrize(
    ("info", "expected"), [({"architecture": "arm64"}, "<unknown> (arm64)"), ({"kernelVersion": "6.1"}, "6.1")]
)
def test_the_kernel_goes_with_the_architecture(info: Object, expected: str) -> None:
    assert cells(node({"nodeInfo": info}), NOW)[8] == expected


def test_there_is_a_cell_for_each_column() -> None:
    assert [column.name for column in COLUMNS if not column.priority] == ["Name", "Status", "Roles", "Age", "Version"]
    assert [column.name for column in COLUMNS[5:] if column.priority] == [
        "Internal-IP",
        "External-IP",
        "OS-Image",
        "Kernel-Version",
        "Container-Runtime",
    ]
    assert len(COLUMNS) == len(cells(node(), NOW))
