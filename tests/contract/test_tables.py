"""What ``kubectl get`` asks for: tables with cells to print, and metadata without the rest."""

import re

import pytest
from tests.builders.objects import a_bare_node, a_lease, a_node, a_pod, a_service, a_slice, with_field
from tests.contract.api import Api, Object, path_of
from tests.contract.kinds import new

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
ONE = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
AGE = re.compile(r"\d+[smhd]|\d+m\d+s")


def table(api: Api, path: str, **query: str) -> Object:
    answer = api.send("GET", path, query=query, headers={"Accept": TABLE})
    assert answer.code == 200
    return answer.object


def row(api: Api, obj: Object) -> list[object]:
    """Its cells without those of ``-o wide``; an age becomes the word."""
    shown = table(api, path_of(obj))
    [row_] = shown["rows"]
    columns = zip(shown["columnDefinitions"], row_["cells"], strict=True)
    return ["age" if AGE.fullmatch(str(cell)) else cell for column, cell in columns if not column["priority"]]


EVENT = "Last Seen,Type,Reason,Object,Message"
COLUMNS = {
    "Service": "Name,Type,Cluster-IP,External-IP,Port(s),Age",
    "Pod": "Name,Ready,Status,Restarts,Age",
    "Node": "Name,Status,Roles,Age,Version",
    "EndpointSlice": "Name,AddressType,Ports,Endpoints,Age",
    "Endpoints": "Name,Endpoints,Age",
    "Lease": "Name,Holder,Age",
    "Event": EVENT,
    "Event.events.k8s.io": EVENT,
    "Namespace": "Name,Status,Age",
}
"""Without those of ``-o wide``."""


@pytest.mark.parametrize("kind", COLUMNS)
def test_each_kind_has_its_columns(api: Api, namespace: str, kind: str) -> None:
    shown = table(api, path_of(api.create(new(kind, namespace))))
    columns = shown["columnDefinitions"]
    assert ",".join(column["name"] for column in columns if not column["priority"]) == COLUMNS[kind]
    assert {column["type"] for column in columns} == {"string"}
    assert [column["name"] for column in columns if column["format"] == "name"] == ["Name"]
    [row_] = shown["rows"]
    assert len(row_["cells"]) == len(columns)


@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        ("Pod", ["it", "0/1", "Pending", "0", "age"]),
        ("EndpointSlice", ["it", "IPv4", "8080", "10.0.0.1", "age"]),
        ("Endpoints", ["it", "10.0.0.1:8080", "age"]),
        ("Lease", ["it", "me", "age"]),
        ("Event", ["age", "Normal", "Tested", "service/cart", "it was tested"]),
    ],
)
def test_a_new_object_is_one_row(api: Api, namespace: str, kind: str, cells: list[object]) -> None:
    assert row(api, api.create(new(kind, namespace))) == cells


def test_tables_come_in_pages_and_selections(api: Api, namespace: str, leases: str) -> None:
    created = [api.create(a_lease(name, namespace=namespace, labels={"tier": name})) for name in ("a", "b", "c")]
    first = table(api, leases, limit="2")
    assert (first["kind"], first["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [row_["cells"][0] for row_ in first["rows"]] == ["a", "b"]
    rest = table(api, leases, **{"continue": first["metadata"]["continue"]})
    assert [row_["cells"][0] for row_ in rest["rows"]] == ["c"]
    assert [row_["cells"][0] for row_ in table(api, leases, labelSelector="tier=b")["rows"]] == ["b"]
    one = table(api, path_of(created[0]))
    assert one["columnDefinitions"] == first["columnDefinitions"]
    assert one["metadata"] == {"resourceVersion": created[0]["metadata"]["resourceVersion"]}


@pytest.mark.parametrize(
    ("include", "kind"), [("", "PartialObjectMetadata"), ("Metadata", "PartialObjectMetadata"), ("Object", "Lease")]
)
def test_row_includes_its_object(api: Api, namespace: str, include: str, kind: str) -> None:
    lease = api.create(a_lease("it", namespace=namespace))
    [row_] = table(api, path_of(lease), **({"includeObject": include} if include else {}))["rows"]
    assert (row_["object"]["kind"], row_["object"]["metadata"]) == (kind, lease["metadata"])
    assert ("spec" in row_["object"]) == (kind == "Lease")


def test_metadata_alone_can_be_requested(api: Api, namespace: str) -> None:
    lease = api.create(a_lease("it", namespace=namespace, labels={"a": "1"}))
    kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": lease["metadata"]}
    assert api.send("GET", path_of(lease), headers={"Accept": ONE}).object == kind


def test_a_service_shows_its_ports_and_addresses(api: Api, namespace: str) -> None:
    service = a_service("it", namespace=namespace)
    service = api.create(with_field(service, "spec.ports[1]", {"name": "more", "port": 81, "protocol": "UDP"}))
    assert row(api, service) == ["it", "ClusterIP", service["spec"]["clusterIP"], "<none>", "80/TCP,81/UDP", "age"]
    balanced = api.create(a_service("balanced", namespace=namespace, type="LoadBalancer"))
    port = balanced["spec"]["ports"][0]["nodePort"]
    assert row(api, balanced)[3:5] == ["<pending>", f"80:{port}/TCP"]
    status = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"hostname": "a.example"}]}}
    api.patch(balanced, {"status": status}, subresource="status")
    assert row(api, balanced)[3] == "192.0.2.1,a.example"
    headless = api.create(a_service("headless", namespace=namespace, clusterIP="None"))
    assert row(api, headless)[1:4] == ["ClusterIP", "None", "<none>"]


@pytest.mark.parametrize(
    ("phase", "container", "cells"),
    [
        ("Running", {"ready": True, "restartCount": 3, "state": {"running": {}}}, ["1/1", "Running", "3"]),
        ("Pending", {"state": {"waiting": {"reason": "ImagePullBackOff"}}}, ["0/1", "ImagePullBackOff", "0"]),
        (
            "Running",
            {"restartCount": 2, "state": {"terminated": {"reason": "Error", "exitCode": 1}}},
            ["0/1", "Error", "2"],
        ),
    ],
)
def test_table_shows_the_status_of_a_pod(
    api: Api, namespace: str, phase: str, container: Object, cells: list[str]
) -> None:
    api.create(a_node(node := f"{namespace}-node"))
    pod = api.create(a_pod("it", node=node, ips=["10.1.0.1"], namespace=namespace))
    assert row(api, pod) == ["it", "0/1", "Running", "0", "age"]
    whole = {"name": "main", "ready": False, "restartCount": 0, "image": "main", "imageID": ""} | container
    api.patch(pod, {"status": {"phase": phase, "containerStatuses": [whole]}}, subresource="status")
    assert row(api, pod)[1:4] == cells


def test_node_status_is_shown(api: Api, namespace: str) -> None:
    node = a_node(name := f"{namespace}-it")
    node["metadata"]["labels"] |= {"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": ""}
    api.create(node | {"spec": {"unschedulable": True}})
    assert row(api, node) == [name, "Ready,SchedulingDisabled", "a,b", "age", ""]
    api.patch(node, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, subresource="status")
    assert row(api, node)[1] == "NotReady,SchedulingDisabled"
    unknown = api.create(a_bare_node(f"{namespace}-unknown"))
    assert row(api, unknown)[1:3] == ["Unknown", "<none>"]


FIVE = [f"10.0.0.{index}" for index in range(1, 6)]


@pytest.mark.parametrize(
    ("addresses", "ports", "cells"),
    [
        (FIVE[:3], [{"port": 80}, {"name": "b", "port": 81}], ["80,81", "10.0.0.1,10.0.0.2,10.0.0.3"]),
        (
            FIVE,
            [{"name": f"p{index}", "port": index} for index in range(1, 6)],
            ["1,2,3 + 2 more...", "10.0.0.1,10.0.0.2,10.0.0.3 + 2 more..."],
        ),
        ([], [], ["<unset>", "<unset>"]),
        ([], [{"name": "all"}], ["all", "<unset>"]),
    ],
)
def test_a_slice_shows_three_ports_and_endpoints(
    api: Api, namespace: str, addresses: list[str], ports: list[Object], cells: list[str]
) -> None:
    slice_ = a_slice("it", service="cart", addresses=addresses, namespace=namespace) | {"ports": ports}
    assert row(api, api.create(slice_))[2:4] == cells
