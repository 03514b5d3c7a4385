"""``zoneward adopt`` and ``release`` on an API server: what they say, what they show first, what they refuse."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.running import Commands, configuration_file
from tests.controller.a_built_in import Shop, a_shop
from tests.patience import PATIENCE

from zoneward.controller.handover import service_handover
from zoneward.controller.handover.service_handover import ServiceHandover
from zoneward.kube import names
from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION
from zoneward.kube.objects import format_micro_time
from zoneward.kube.validation import FieldError
from zoneward.sandbox.server.service_kind import ServiceKind

pytestmark = pytest.mark.slow
LEASE = ("kube-system", "zoneward-controller")

WARNINGS = (
    "warning: tools that read spec.selector do not work while a Service is adopted, among them",
    "    kubectl port-forward service/cart, kubectl logs service/cart, kubectl exec service/cart",
    "instead of port-forward: kubectl -n default port-forward deployment/NAME PORT, or pod/NAME of one of",
    "    kubectl -n default get pods --selector=app=cart",
    "instead of logs: kubectl -n default logs --selector=app=cart --prefix",
    "from Kubernetes 1.36 on, an overlay needs none of this: zoneward plan -o overlay",
)


@dataclass
class Cluster:
    """A sandbox with a built-in controller, in a separate thread."""

    shop: Shop
    loop: asyncio.AbstractEventLoop

    def do(self, change: Callable[[Shop], Any]) -> Any:
        async def run() -> Any:
            return change(self.shop)

        return self.wait(run())

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    @property
    def version(self) -> int:
        self.wait(self.shop.quiet())
        return self.shop.registry.store.version


def put_lease(shop: Shop, *, renewed: datetime, mode: str = "only-marked") -> None:
    """That of a controller, which runs or has run. It is held for an hour: no test waits for a renewal."""
    spec = {"holderIdentity": "a-replica", "leaseDurationSeconds": 3600, "renewTime": format_micro_time(renewed)}
    metadata = {
        "name": "zoneward-controller",
        "namespace": "kube-system",
        "annotations": {names.MODE_ANNOTATION: mode},
    }
    shop.registry.restore(shop.registry.kinds["leases.coordination.k8s.io"], {"metadata": metadata, "spec": spec})


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        standing = a_shop()
        shop = asyncio.run_coroutine_threadsafe(standing.__aenter__(), loop).result(PATIENCE)
        put_lease(shop, renewed=datetime.now(UTC))
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(shop.kubeconfig))
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        yield Cluster(shop, loop)
        assert shop.missing == []
        asyncio.run_coroutine_threadsafe(standing.__aexit__(None, None, None), loop).result(PATIENCE)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def only_sleep_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the clock of a handover: a busy machine takes as many steps within a time limit as an idle one."""
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        await asyncio.sleep(seconds)
        now += seconds

    timed = partial(ServiceHandover, clock=lambda: now, sleep=sleep)
    monkeypatch.setattr(service_handover, "ServiceHandover", timed)


def test_steps_are_told_as_they_are_done_and_what_came_of_it(zoneward: Commands, cluster: Cluster) -> None:
    before = cluster.do(Shop.words)
    adopted = zoneward("adopt", "default/cart")
    assert (adopted.status, adopted.out) == (
        0,
        "Service default/cart: done: managed by Zoneward, with 1 EndpointSlice\n",
    )
    assert [line.removeprefix("zoneward: Service default/cart: ") for line in adopted.err.splitlines()] == [
        *(f"zoneward: {line}" for line in WARNINGS),
        "label the Service endpointslice.kubernetes.io/skip-mirror: 'true', and record its previous value",
        "move the selector into the annotation zoneward.dev/selector: the built-in controller lets go",
        "write 1 EndpointSlice of Zoneward, with 6 endpoints",
        "delete 1 EndpointSlice of the built-in controller",
        "zoneward: only `zoneward controller` updates its slices from now on",
    ]
    released = zoneward("release", "default/cart", "--quiet")
    assert (released.status, released.out) == (0, "Service default/cart: done: managed by the built-in controller\n")
    assert released.err == ""
    assert cluster.do(Shop.words) == before


def test_a_dry_run_shows_every_step_and_object_and_writes_nothing(zoneward: Commands, cluster: Cluster) -> None:
    version = cluster.version
    shown = zoneward("adopt", "cart", "--dry-run")
    assert (shown.status, shown.err) == (0, "")
    assert cluster.version == version
    assert shown.out.splitlines()[: len(WARNINGS)] == [f"# {line}" for line in WARNINGS]
    steps = [line for line in shown.out.splitlines() if line.startswith("# ") and line[2].isdigit()]
    assert [step.split(". ")[0] for step in steps] == ["# 1", "# 2", "# 3", "# 4", "# 5"]
    assert shown.out.count("kubectl -n default patch --type=merge -- service cart with:") == 2
    label, move, slice_ = (document for document in yaml.safe_load_all(shown.out) if document)
    assert label["metadata"]["labels"] == {"endpointslice.kubernetes.io/skip-mirror": "true"}
    assert move == {"metadata": {"annotations": {SELECTOR_ANNOTATION: '{"app":"cart"}'}}, "spec": {"selector": None}}
    assert slice_["kind"] == "EndpointSlice"
    assert zoneward("adopt", "cart").status == 0
    assert "warning" not in zoneward("adopt", "cart", "--dry-run").out, "it has happened"
    (written,) = cluster.do(lambda shop: shop.slices(names.MANAGER))
    assert slice_["metadata"]["name"] == written["metadata"]["name"]
    assert len(slice_["endpoints"]) == len(written["endpoints"])
    version = cluster.version
    back = zoneward("release", "cart", "--dry-run")
    assert back.status == 0
    assert "# 2. wait for the built-in controller to list every ready endpoint" in back.out
    assert cluster.version == version


@pytest.mark.parametrize("command", ["adopt", "release"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("default/kubernetes",), "Service default/kubernetes: expected a selector, got none: its EndpointSlices are"),
        (("a/b/c",), "expected [NAMESPACE/]SERVICE, got 'a/b/c'"),
        (("shop/",), "expected [NAMESPACE/]SERVICE, got 'shop/'"),
        (("/cart",), "expected [NAMESPACE/]SERVICE, got '/cart'"),
        (("default/cart", "-n", "shop"), "-n: expected default, as in default/cart, got shop"),
        (("cart", "-n", "shop"), 'Service shop/cart: expected a Service, found none: services "cart" not found'),
        (("svc/cart", "-n", "shop"), 'Service shop/cart: expected a Service, found none: services "cart" not found'),
    ],
    ids=str,
)
def test_what_is_refused_is_told_in_one_line(
    zoneward: Commands, cluster: Cluster, command: str, arguments: tuple[str, ...], words: str
) -> None:
    version = cluster.version
    assert zoneward.refused(command, *arguments).startswith(f"zoneward: {words}")
    assert cluster.version == version


def test_adopt_needs_a_controller_that_renews_its_lease(zoneward: Commands, cluster: Cluster) -> None:
    cluster.do(lambda shop: put_lease(shop, renewed=datetime.now(UTC) - timedelta(hours=2)))
    version = cluster.version
    problem = (
        "expected a running zoneward controller, which updates the slices, found none:"
        " nobody has renewed the Lease kube-system/zoneward-controller lately"
    )
    assert (
        zoneward.refused("adopt", "cart")
        == f"zoneward: Service default/cart: {problem}. Nothing was written; --force continues\n"
    )
    shown = zoneward("adopt", "cart", "--dry-run")
    assert shown.status == 0
    assert shown.out.startswith(f"# warning: {problem}\n# {WARNINGS[0]}\n")
    assert cluster.version == version
    assert "ZW607" not in zoneward("check", "-q", "cart").out
    assert zoneward("adopt", "cart", "-q", "--force").status == 0
    orphaned = zoneward("check", "-q", "cart", "--fail-on", "error")
    assert orphaned.status == 1
    assert "fix: Start zoneward controller, or give the Service back: zoneward release -- default/cart" in " ".join(
        orphaned.out.split()
    )
    assert zoneward("release", "cart", "-q").status == 0
    cluster.do(lambda shop: shop.store.delete(shop.registry.kinds["leases.coordination.k8s.io"], *LEASE))
    assert "there is no Lease zoneward-controller in any namespace" in zoneward("adopt", "cart").err


def test_an_overlay_is_no_controller_for_adopted_services(zoneward: Commands, cluster: Cluster) -> None:
    cluster.do(lambda shop: put_lease(shop, renewed=datetime.now(UTC), mode="overlay"))
    version = cluster.version
    assert (
        "found none: the one with the Lease kube-system/zoneward-controller is an overlay, which writes no slices."
        in zoneward.refused("adopt", "cart")
    )
    assert cluster.version == version
    assert zoneward("adopt", "cart", "-q", "--force").status == 0
    assert "ZW607" in zoneward("check", "-q", "cart").out
    cluster.do(lambda shop: put_lease(shop, renewed=datetime.now(UTC)))
    assert "ZW607" not in zoneward("check", "-q", "cart").out


def test_the_lease_of_a_controller_has_the_configured_name(
    zoneward: Commands, cluster: Cluster, tmp_path: Path
) -> None:
    file = configuration_file(tmp_path, "controller: {leaderElection: {resourceName: other}}")
    assert "there is no Lease other in any namespace" in zoneward("adopt", "cart", "--config", file).err
    assert zoneward("adopt", "cart", "-q").status == 0
    assert "ZW607" not in zoneward("check", "-q", "cart").out
    assert "ZW607" in zoneward("check", "-q", "cart", "--config", file).out
    assert cluster


@pytest.mark.usefixtures("only_sleep_takes_time")
def test_a_controller_that_continues_to_write_is_an_error(zoneward: Commands, cluster: Cluster) -> None:
    cluster.do(lambda shop: setattr(shop, "lets_go", False))
    err = zoneward.refused("adopt", "cart", "--timeout", "4", "--quiet")
    assert "timed out after 4 s: the built-in controller still writes cart-" in err
    assert err.endswith("No endpoint is missing; repeat the command to continue\n")
    cluster.do(lambda shop: setattr(shop, "lets_go", True))
    assert zoneward("adopt", "cart", "--quiet").status == 0


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("command", ["adopt", "release"])
def test_refused_first_write_is_not_half_way(zoneward: Commands, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: object) -> list[FieldError]:
        return [FieldError("FieldValueInvalid", "spec.clusterIPs", "wrong")]

    if command == "release":
        assert zoneward("adopt", "cart", "-q").status == 0
    with monkeypatch.context() as patch:
        patch.setattr(ServiceKind, "allocate", refuse)
        refused = zoneward(command, "cart", "-q")
    assert refused.status == 2
    assert "spec.clusterIPs: wrong" in refused.err
    assert "half way" not in refused.err
    assert zoneward(command, "cart", "-q").status == 0


@pytest.mark.usefixtures("cluster", "only_sleep_takes_time")
@pytest.mark.parametrize("names_cluster", [False, True], ids=["plain", "with the cluster and the configuration"])
def test_server_fault_in_a_write_says_how_to_continue(
    zoneward: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names_cluster: bool
) -> None:
    def fail(*_given: object) -> Any:
        raise LookupError

    file = configuration_file(tmp_path, "")
    options = ("--as=me", f"--config={file}") if names_cluster else ()
    with monkeypatch.context() as patch:
        patch.setattr(ServiceKind, "allocate", fail)
        failed = zoneward("adopt", "cart", "-q", "--timeout", "0.5", *options)
    assert failed.status == 2
    command = " ".join(("zoneward adopt", *options, "default/cart"))
    assert failed.err.endswith(f": half way; to continue: {command}\n")
    assert zoneward("adopt", "cart", "-q").status == 0


@pytest.mark.usefixtures("cluster")
def test_ctrl_c_half_way_says_how_to_go_on(zoneward: Commands) -> None:
    command = [sys.executable, "-m", "zoneward", "adopt", "cart"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        while "delete 1 EndpointSlice" not in running.stderr.readline():
            pass
        running.send_signal(signal.SIGINT)
        _, stderr = running.communicate(timeout=PATIENCE)
    assert running.returncode == 130
    assert stderr == "zoneward: interrupted half way; to continue: zoneward adopt default/cart\n"
    assert zoneward("adopt", "cart", "-q").status == 0


def test_the_slices_are_by_the_demand_of_the_configuration(
    zoneward: Commands, cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "d.csv").write_text(
        "namespace,service,zone,amount\ndefault,cart,a,4\ndefault,cart,b,1\ndefault,cart,c,1\n"
    )
    file = configuration_file(tmp_path, "demand: {source: file, file: d.csv}")
    auto = {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}}
    cluster.do(lambda shop: shop.change_service(lambda old: old | {"metadata": old["metadata"] | auto}))
    adopted = zoneward("adopt", "default/cart", "--config", file)
    assert adopted.status == 0, adopted.err
    assert f"zoneward: demand of 1 Service from {tmp_path / 'd.csv'}; by CPU for the others\n" in adopted.err
    (written,) = cluster.do(lambda shop: shop.slices(names.MANAGER))
    zones = [zone["name"] for endpoint in written["endpoints"] for zone in endpoint["hints"]["forZones"]]
    assert sorted(zones) == ["a", "a", "a", "a", "b", "c"]
