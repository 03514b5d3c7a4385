"""The sandbox reads protobuf as the real server writes it, and what it knows of messages is what the modules say."""

import os
from collections.abc import Iterator
from typing import Final

import click
import pytest
from e2e.control_plane import ControlPlane
from e2e.protobuf_fields import FILE, as_text, module_folder, protobuf_fields
from e2e.protobuf_objects import NAMESPACE, NODE, OBJECTS
from e2e.protobuf_pods import EPHEMERAL, POD_STATUS, TIME
from tests.contract.api import Api, path_of
from tests.contract.objects import a_namespace
from zoneward.sandbox.server.protobuf import decoded

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"


def test_what_is_known_of_messages_is_what_the_modules_say() -> None:
    assert FILE.read_text(encoding="utf-8") == as_text(protobuf_fields(environment=os.environ))


def test_without_go_or_its_modules_one_line_says_so() -> None:
    with pytest.raises(click.ClickException, match="need Go, got none on PATH"):
        module_folder("k8s.io/api", environment={"PATH": "/nowhere"})
    with pytest.raises(click.ClickException, match=r"^Go's cache has no example.com/none, got .*: `go mod download`"):
        module_folder("example.com/none", environment=os.environ)


# --- the real server's bodies -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Iterator[Api]:
    """All objects are there, with their status."""
    api = control_plane.api()
    api.create(a_namespace(NAMESPACE))
    for thing in OBJECTS:
        api.create(thing)
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "whole", "namespace": NAMESPACE}}
    api.patch(whole, {"spec": {"ephemeralContainers": EPHEMERAL}}, subresource="ephemeralcontainers")
    api.patch(whole, {"status": POD_STATUS}, subresource="status")
    api.patch(NODE, {"status": NODE["status"]}, subresource="status")
    address = {"ip": "10.8.8.8", "ipMode": "Proxy", "ports": [{"port": 80, "protocol": "TCP", "error": "No"}]}
    conditions = [{"type": "A", "status": "True", "reason": "R", "message": "", "lastTransitionTime": TIME}]
    status = {"loadBalancer": {"ingress": [address, {"hostname": "lb.example.org"}]}, "conditions": conditions}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "whole", "namespace": NAMESPACE}}
    api.patch(service, {"status": status}, subresource="status")
    # Its finalizer keeps it, with the time of its deletion.
    api.delete(NODE)
    yield api
    api.patch(NODE, {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(
    "path",
    [
        *map(path_of, [*OBJECTS, a_namespace(NAMESPACE)]),
        f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events/whole",
        f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events/plain",
        f"/api/v1/namespaces/{NAMESPACE}/events/series",
        "/api/v1/namespaces/default/services/kubernetes",
    ],
)
def test_protobuf_of_the_real_server_says_what_its_json_says(api: Api, path: str) -> None:
    answer = api.send("GET", path, headers={"Accept": PROTOBUF})
    assert answer.headers["content-type"] == PROTOBUF
    assert decoded(answer.body) == api.get(path)
