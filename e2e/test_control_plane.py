import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from e2e.control_plane import SLICE_CONTROLLERS, ControlPlane
from e2e.processes import ProcessError
from e2e.programs import VERSION
from tests.builders.objects import ZONE, a_namespace, a_node, a_pod, a_service, a_slice
from tests.contract.api import MERGE_PATCH, Api, ApiError

_KILLED_LATER = """
import time
from e2e.control_plane import ControlPlane
with ControlPlane() as plane:
    print(*(process.pid for process in plane.processes), flush=True)
    time.sleep(600)
"""


def test_starts_within_seconds_and_leaves_nothing() -> None:
    began = time.monotonic()
    with ControlPlane(controllers=SLICE_CONTROLLERS) as plane:
        # 3 s on an idle machine of two cores; tests share theirs.
        assert time.monotonic() - began < 30
        pids = [process.pid for process in plane.processes]
        assert len(pids) == 3
        assert plane.folder.exists()
    assert not any(map(_exists, pids))
    assert not any(map(_listens, (plane.ports.etcd, plane.ports.etcd_peers, plane.ports.server)))
    assert not plane.folder.exists()


def test_leaves_nothing_when_a_test_fails() -> None:
    pids: list[int] = []
    with pytest.raises(ZeroDivisionError), ControlPlane() as plane:  # noqa: PT012  (what is left after it counts)
        pids.extend(process.pid for process in plane.processes)
        raise ZeroDivisionError
    assert len(pids) == 2
    assert not any(map(_exists, pids))


def test_leaves_no_process_when_it_is_killed(tmp_path: Path) -> None:
    # Its data is left then: in a folder of this test's.
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", _KILLED_LATER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as owner:
        assert owner.stdout is not None
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        owner.send_signal(signal.SIGKILL)
    assert len(pids) == 2
    limit = time.monotonic() + 10
    while any(map(_exists, pids)):
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_shows_the_log_of_a_program_that_ends() -> None:
    with (
        pytest.raises(ProcessError, match=r"kube-apiserver ended by itself[^$]*unknown flag: --nonsense"),
        ControlPlane(server_flags=["--nonsense"]),
    ):
        pytest.fail("started")


def test_is_the_version_it_says(control_plane: ControlPlane) -> None:
    version = control_plane.api().get("/version")
    assert (version["gitVersion"], version["major"], version["minor"]) == (VERSION, "1", "36")


def test_kubectl_reads_it(control_plane: ControlPlane) -> None:
    api = control_plane.api()
    api.create_all([a_namespace("kubectl"), a_service("cart", namespace="kubectl", selector={"app": "cart"})])
    program, kubeconfig = control_plane.programs["kubectl"], control_plane.kubeconfig()
    command = [str(program), "--kubeconfig", str(kubeconfig), "-n", "kubectl"]
    version, services = (
        subprocess.run([*command, *words], capture_output=True, text=True, check=True).stdout
        for words in (["version", "-o", "json"], ["get", "services", "-o", "name"])
    )
    assert json.loads(version)["clientVersion"]["gitVersion"] == VERSION
    assert json.loads(version)["serverVersion"]["gitVersion"] == VERSION
    assert services == "service/cart\n"


def test_objects_can_be_created(control_plane: ControlPlane) -> None:
    api = control_plane.api()
    api.create_all(
        [
            a_pod("pod", node="objects-b", ips=["10.1.0.1"], namespace="objects"),
            slice_ := a_slice(
                "slice", service="cart", addresses=["10.1.0.1"], namespace="objects", zone="b", hints=["a", "b"]
            ),
            a_node("objects-b", zone="b", cpu="8", address="10.0.0.2"),
            a_namespace("objects"),
        ]
    )
    node = api.get("/api/v1/nodes/objects-b")
    assert node["status"]["allocatable"]["cpu"] == "8"
    assert [each["type"] for each in node["status"]["conditions"]] == ["Ready"]
    pod = api.get("/api/v1/namespaces/objects/pods/pod")
    assert pod["metadata"]["labels"][ZONE] == "b"
    assert (pod["status"]["phase"], pod["status"]["podIP"]) == ("Running", "10.1.0.1")
    slices = api.get("/apis/discovery.k8s.io/v1/namespaces/objects/endpointslices")["items"]
    assert [each["endpoints"] for each in slices] == [slice_["endpoints"]]


def test_objects_can_be_changed_and_deleted(control_plane: ControlPlane) -> None:
    api = control_plane.api()
    api.create(a_namespace("changes"))
    service = api.create(a_service("cart", namespace="changes"))
    patched = api.patch(service, {"metadata": {"labels": {"tier": "front"}}}, content_type=MERGE_PATCH)
    assert patched["metadata"]["labels"] == {"tier": "front"}
    with pytest.raises(ApiError, match=r"409 Conflict: .*the object has been modified"):
        api.replace(service)
    api.create_all([a_node("changes"), a_pod("pod", node="changes", ips=["10.1.0.2"], namespace="changes")])
    for thing in (service, a_pod("pod", node="changes", ips=["10.1.0.2"], namespace="changes")):
        api.delete(thing)
        with pytest.raises(ApiError, match="404 NotFound"):
            api.delete(thing)


def test_many_pods_are_created_quickly(control_plane: ControlPlane) -> None:
    pods = [a_pod(f"pod-{i}", node="many", ips=[f"10.2.{i >> 8}.{i & 255}"], namespace="many") for i in range(500)]
    began = time.monotonic()
    control_plane.api().create_all([*pods, a_node("many"), a_namespace("many")])
    # 650 a second on an idle machine of two cores.
    assert time.monotonic() - began < 20
    assert len(control_plane.api().get("/api/v1/namespaces/many/pods")["items"]) == 500


def test_a_failure_among_many_is_told(control_plane: ControlPlane) -> None:
    with pytest.raises(ApiError, match='404 NotFound: namespaces "no-such" not found'):
        control_plane.api().create_all([a_service(f"cart-{i}", namespace="no-such") for i in range(3)])


def test_a_stranger_is_denied_everything(control_plane: ControlPlane) -> None:
    stranger = control_plane.api("stranger")
    with pytest.raises(ApiError, match='403 Forbidden: pods is forbidden: User "stranger" cannot list resource "pods"'):
        stranger.get("/api/v1/pods")
    with pytest.raises(ApiError, match=r'403 Forbidden: .* cannot create resource "namespaces"'):
        stranger.create(a_namespace("denied"))


def test_a_reader_reads_what_it_is_allowed_to(control_plane: ControlPlane) -> None:
    reader = control_plane.api("reader")
    control_plane.allow("reader", [{"apiGroups": [""], "resources": ["services"], "verbs": ["list"]}])
    control_plane.wait_until(lambda: _is_allowed(reader, "/api/v1/services"), what="rights of the reader")
    with pytest.raises(ApiError, match=r'403 Forbidden: .* cannot list resource "pods"'):
        reader.get("/api/v1/pods")
    with pytest.raises(ApiError, match=r'403 Forbidden: .* cannot delete resource "services"'):
        reader.delete(a_service("kubernetes"))


def test_a_service_account_is_a_user_as_well(control_plane: ControlPlane) -> None:
    user = control_plane.service_account("walker")
    walker = control_plane.api(user)
    with pytest.raises(ApiError, match=r'403 Forbidden: .* User "system:serviceaccount:default:walker" cannot list'):
        walker.get("/api/v1/nodes")
    control_plane.allow(user, [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}])
    control_plane.wait_until(lambda: _is_allowed(walker, "/api/v1/nodes"), what="rights of the service account")


def test_an_unknown_token_is_refused(control_plane: ControlPlane) -> None:
    with pytest.raises(ApiError, match="401 Unauthorized"):
        Api(control_plane.address, "unknown", control_plane.authority).get("/api/v1/pods")


def test_controllers_write_slices_and_the_server_comes_back_with_its_data() -> None:
    with ControlPlane(controllers=SLICE_CONTROLLERS) as plane:
        api = plane.api()
        labels = {"app": "cart"}
        api.create_all(
            [
                a_node("node"),
                a_service("cart", selector=labels),
                a_pod("p", node="node", ips=["10.1.0.1"], labels=labels),
            ]
        )
        path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"

        def addresses() -> list[str]:
            slices = api.get(path, labelSelector="kubernetes.io/service-name=cart")["items"]
            return [address for each in slices for one in each["endpoints"] or [] for address in one["addresses"]]

        plane.wait_until(lambda: addresses() == ["10.1.0.1"], what="slice of the Service")
        plane.stop_server(gracefully=True)
        with pytest.raises(ConnectionError, match="refused"):
            addresses()
        plane.start_server()
        assert addresses() == ["10.1.0.1"]


def test_keeps_logs_and_data_in_a_folder_that_is_given(tmp_path: Path) -> None:
    folder = tmp_path / "plane"
    with ControlPlane(folder=folder) as plane:
        assert plane.kubeconfig().stat().st_mode & 0o077 == 0
    assert {"etcd.log", "kube-apiserver.log", "admin.kubeconfig"} <= {file.name for file in folder.iterdir()}


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _is_allowed(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except ApiError as error:
        if error.code != 403:
            raise
        return False
    return True
