"""What ``kubectl get`` asks for: tables with cells to print, and metadata without the rest."""

import re

import pytest
from tests.builders.objects import (
    a_bare_node,
    a_bare_pod,
    a_core_event,
    a_lease,
    a_namespace,
    a_node,
    a_pod,
    a_service,
    a_slice,
    an_event,
    with_field,
)
from tests.contract.api import Api, Object, collection_of, path_of

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
ONE = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
AGE = re.compile(r"\d+[smhd]|\d+m\d+s")


def table(api: Api, path: str, **query: str) -> Object:
    answer = api.send("GET", path, query=query, headers={"Accept": TABLE})
    assert answer.code == 200
    return answer.object


def row(api: Api, thing: Object) -> list[object]:
    """Its cells, without the wide ones; an age becomes the word."""
    shown = table(api, path_of(thing))
    narrow = [index for index, column in enumerate(shown["columnDefinitions"]) if not column["priority"]]
    [found] = shown["rows"]
    named = ((shown["columnDefinitions"][index]["name"], found["cells"][index]) for index in narrow)
    return ["age" if name == "Age" and AGE.fullmatch(cell) else cell for name, cell in named]


def everything(namespace: str) -> dict[str, Object]:
    return {
        "Service": a_service("it", namespace=namespace),
        "Pod": a_bare_pod("it", namespace=namespace),
        "Node": a_bare_node(f"{namespace}-it"),
        "EndpointSlice": a_slice("it", service="cart", addresses=["10.0.0.1"], namespace=namespace),
        "Lease": a_lease("it", namespace=namespace),
        "Event": a_core_event("it", namespace=namespace),
        "Event.events.k8s.io": an_event("it", namespace=namespace),
        "Namespace": a_namespace(f"{namespace}-it"),
    }


EVENT = ["Last Seen", "Type", "Reason", "Object", "Message", "-Name"]
COLUMNS = {
    "Service": ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "-Selector"],
    "Pod": ["Name", "Ready", "Status", "Restarts", "Age", "-IP", "-Node"],
    "Node": ["Name", "Status", "Roles", "Age", "Version", "-Internal-IP"],
    "EndpointSlice": ["Name", "AddressType", "Ports", "Endpoints", "Age"],
    "Lease": ["Name", "Holder", "Age"],
    "Event": EVENT,
    "Event.events.k8s.io": EVENT,
    "Namespace": ["Name", "Status", "Age"],
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_each_kind_has_its_columns(api: Api, namespace: str, kind: str) -> None:
    """Those with a dash are for ``-o wide``, of which a real server has more."""
    thing = everything(namespace)[kind]
    api.create(thing)
    shown = table(api, path_of(thing))
    names = [("-" if each["priority"] else "") + each["name"] for each in shown["columnDefinitions"]]
    assert [each for each in names if each[0] != "-"] == [each for each in COLUMNS[kind] if each[0] != "-"]
    assert set(COLUMNS[kind]) <= set(names)
    assert all(each["description"] for each in shown["columnDefinitions"])
    assert {each["type"] for each in shown["columnDefinitions"]} == {"string"}
    assert [each["name"] for each in shown["columnDefinitions"] if each["format"] == "name"] == ["Name"]
    [found] = shown["rows"]
    assert len(found["cells"]) == len(names)


@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        ("Pod", ["it", "0/1", "Pending", "0", "age"]),
        ("EndpointSlice", ["it", "IPv4", "8080", "10.0.0.1", "age"]),
        ("Lease", ["it", "me", "age"]),
    ],
)
def test_a_new_object_is_one_row(api: Api, namespace: str, kind: str, cells: list[object]) -> None:
    thing = everything(namespace)[kind]
    api.create(thing)
    assert row(api, thing) == cells


def test_a_table_of_one_and_of_many_hold_the_same(api: Api, namespace: str) -> None:
    lease = api.create(a_lease("it", namespace=namespace))
    one, many = table(api, path_of(lease)), table(api, collection_of(lease))
    assert (one["kind"], one["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert one["columnDefinitions"] == many["columnDefinitions"]
    assert [each["cells"][:2] for each in (*one["rows"], *many["rows"])] == [["it", "me"], ["it", "me"]]
    assert one["metadata"] == {"resourceVersion": lease["metadata"]["resourceVersion"]}


def test_tables_come_in_pages_and_selections(api: Api, namespace: str) -> None:
    for name in ("a", "b", "c"):
        api.create(a_lease(name, namespace=namespace, labels={"tier": name}))
    path = collection_of(a_lease("", namespace=namespace))
    first = table(api, path, limit="2")
    assert [each["cells"][0] for each in first["rows"]] == ["a", "b"]
    rest = table(api, path, **{"continue": first["metadata"]["continue"]})
    assert [each["cells"][0] for each in rest["rows"]] == ["c"]
    assert [each["cells"][0] for each in table(api, path, labelSelector="tier=b")["rows"]] == ["b"]


@pytest.mark.parametrize(
    ("include", "kind"), [("", "PartialObjectMetadata"), ("Metadata", "PartialObjectMetadata"), ("Object", "Lease")]
)
def test_a_row_brings_its_object(api: Api, namespace: str, include: str, kind: str) -> None:
    lease = api.create(a_lease("it", namespace=namespace))
    [found] = table(api, path_of(lease), **({"includeObject": include} if include else {}))["rows"]
    assert found["object"]["kind"] == kind
    assert found["object"]["metadata"] == lease["metadata"]
    assert ("spec" in found["object"]) == (kind == "Lease")


# --- cells ------------------------------------------------------------------------------------------------------------


def test_a_service_shows_its_ports_and_addresses(api: Api, namespace: str) -> None:
    service = api.create(
        with_field(
            a_service("it", namespace=namespace), "spec.ports[1]", {"name": "more", "port": 81, "protocol": "UDP"}
        )
    )
    assert row(api, service) == ["it", "ClusterIP", service["spec"]["clusterIP"], "<none>", "80/TCP,81/UDP", "age"]
    balanced = api.create(with_field(a_service("balanced", namespace=namespace), "spec.type", "LoadBalancer"))
    port = balanced["spec"]["ports"][0]["nodePort"]
    assert row(api, balanced)[3:5] == ["<pending>", f"80:{port}/TCP"]
    status = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"hostname": "a.example"}]}}
    api.patch(balanced, {"status": status}, subresource="status")
    assert row(api, balanced)[3] == "192.0.2.1,a.example"
    headless = api.create(with_field(a_service("headless", namespace=namespace), "spec.clusterIP", "None"))
    assert row(api, headless)[1:4] == ["ClusterIP", "None", "<none>"]


def test_a_pod_shows_how_it_is(api: Api, namespace: str) -> None:
    api.create(a_node(node := f"{namespace}-node"))
    pod = api.create(a_pod("it", node=node, ips=["10.1.0.1"], namespace=namespace))
    assert row(api, pod) == ["it", "0/1", "Running", "0", "age"]
    running = {
        "name": "main",
        "ready": True,
        "restartCount": 3,
        "image": "main",
        "imageID": "",
        "state": {"running": {}},
    }
    api.patch(pod, {"status": {"containerStatuses": [running | {"state": {"running": {}}}]}}, subresource="status")
    assert row(api, pod) == ["it", "1/1", "Running", "3", "age"]


@pytest.mark.parametrize(
    ("status", "cells"),
    [
        ({"phase": "Succeeded"}, ["0/1", "Succeeded", "0"]),
        ({"phase": "Failed", "reason": "Evicted"}, ["0/1", "Evicted", "0"]),
        (
            {
                "phase": "Pending",
                "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}],
            },
            ["0/1", "ImagePullBackOff", "0"],
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    {"name": "main", "restartCount": 2, "state": {"terminated": {"reason": "Error", "exitCode": 1}}}
                ],
            },
            ["0/1", "Error", "2"],
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [{"name": "main", "restartCount": 2, "state": {"terminated": {"exitCode": 7}}}],
            },
            ["0/1", "ExitCode:7", "2"],
        ),
    ],
)
def test_a_pod_shows_what_is_wrong(api: Api, namespace: str, status: Object, cells: list[str]) -> None:
    pod = api.create(a_bare_pod("it", namespace=namespace))
    for each in status.get("containerStatuses", ()):
        each |= {"ready": False, "image": "main", "imageID": "", "restartCount": each.get("restartCount", 0)}
    api.patch(pod, {"status": status}, subresource="status")
    assert row(api, pod)[1:4] == cells


def test_a_node_shows_how_it_is(api: Api, namespace: str) -> None:
    name = f"{namespace}-it"
    node = a_node(name)
    node["metadata"]["labels"] |= {"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": ""}
    api.create(node | {"spec": {"unschedulable": True}})
    assert row(api, node) == [name, "Ready,SchedulingDisabled", "a,b", "age", ""]
    [found] = table(api, path_of(node))["rows"]
    assert found["cells"][5] == "10.0.0.1"
    not_ready = {"type": "Ready", "status": "False"}
    api.patch(node, {"status": {"conditions": [not_ready]}}, subresource="status")
    assert row(api, node)[1] == "NotReady,SchedulingDisabled"
    unknown = a_bare_node(f"{namespace}-unknown")
    api.create(unknown)
    assert row(api, unknown)[1:3] == ["Unknown", "<none>"]


@pytest.mark.parametrize(
    ("addresses", "shown"),
    [
        (["10.0.0.1"], "10.0.0.1"),
        (["10.0.0.1", "10.0.0.2", "10.0.0.3"], "10.0.0.1,10.0.0.2,10.0.0.3"),
        ([f"10.0.0.{index}" for index in range(1, 6)], "10.0.0.1,10.0.0.2,10.0.0.3 + 2 more..."),
        ([], "<unset>"),
    ],
)
def test_a_slice_shows_three_endpoints(api: Api, namespace: str, addresses: list[str], shown: str) -> None:
    slice_ = api.create(a_slice("it", service="cart", addresses=addresses, namespace=namespace))
    assert row(api, slice_)[3] == shown


@pytest.mark.parametrize(
    ("ports", "shown"),
    [
        ([], "<unset>"),
        ([{"port": 80}, {"name": "b", "port": 81}], "80,81"),
        ([{"name": f"p{index}", "port": index} for index in range(1, 6)], "1,2,3 + 2 more..."),
        ([{"name": "all"}], "all"),
        ([{}], "<unset>"),
    ],
)
def test_a_slice_shows_three_ports(api: Api, namespace: str, ports: list[Object], shown: str) -> None:
    slice_ = a_slice("it", service="cart", addresses=["10.0.0.1"], namespace=namespace) | {"ports": ports}
    api.create(slice_)
    assert row(api, slice_)[2] == shown


def test_an_event_shows_what_happened_to_what(api: Api, namespace: str) -> None:
    event = api.create(a_core_event("it", namespace=namespace))
    seen, *cells = row(api, event)
    assert AGE.fullmatch(str(seen))
    assert cells == ["Normal", "Tested", "service/cart", "it was tested"]


# --- metadata alone ---------------------------------------------------------------------------------------------------


def test_metadata_can_be_had_alone(api: Api, namespace: str) -> None:
    lease = api.create(a_lease("it", namespace=namespace, labels={"a": "1"}))
    kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": lease["metadata"]}
    assert api.send("GET", path_of(lease), headers={"Accept": ONE}).object == kind
