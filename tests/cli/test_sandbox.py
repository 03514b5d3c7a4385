"""``zoneward sandbox`` as a user runs it: begun, used by other commands, saved, ended."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest
import yaml
from tests.patience import PATIENCE

pytestmark = pytest.mark.slow

ZONEWARD = (sys.executable, "-m", "zoneward")


@dataclass
class Running:
    """A sandbox that is ready."""

    process: "subprocess.Popen[str]"
    kubeconfig: Path
    address: str

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        return subprocess.run(
            (*ZONEWARD, *arguments), capture_output=True, text=True, env=environment, timeout=PATIENCE
        )

    def ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        with build_opener(ProxyHandler({})).open(request, timeout=PATIENCE) as answer:
            return json.loads(answer.read())

    def end(self, signal_number: int = signal.SIGTERM) -> None:
        self.process.send_signal(signal_number)
        self.process.wait(timeout=PATIENCE)


@contextmanager
def a_sandbox(folder: Path, *options: str) -> Iterator[Running]:
    kubeconfig = folder / "kubeconfig.yaml"
    command = (*ZONEWARD, "sandbox", *options, "--write-kubeconfig", str(kubeconfig))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            limit = time.monotonic() + PATIENCE
            while not kubeconfig.exists():
                assert process.poll() is None, process.stderr and process.stderr.read()
                assert time.monotonic() < limit
                time.sleep(0.01)
            content = yaml.safe_load(kubeconfig.read_text())
            yield Running(process, kubeconfig, content["clusters"][0]["cluster"]["server"])
        finally:
            process.kill()


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with a_sandbox(tmp_path_factory.mktemp("sample"), "--sample") as running:
        yield running


def refused(*options: str) -> str:
    """The one line on standard error of a sandbox that does not begin."""
    done = subprocess.run((*ZONEWARD, "sandbox", *options), capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    return done.stderr


def a_service(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], "selector": {"app": name}}}


@pytest.mark.parametrize("command", ["plan", "compare", "route --node worker-a1"])
def test_a_command_sees_in_it_what_it_sees_in_the_file(sample: Running, command: str) -> None:
    live = sample.run(*command.split(), "-n", "shop", "-o", "json")
    file = subprocess.run(
        (*ZONEWARD, *command.split(), "--sample", "-n", "shop", "-o", "json"),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert live.returncode == 0, live.stderr
    assert json.loads(live.stdout) == json.loads(file.stdout)


def test_the_kubeconfig_is_for_its_owner_only(sample: Running) -> None:
    assert stat.S_IMODE(sample.kubeconfig.stat().st_mode) == 0o600
    assert yaml.safe_load(sample.kubeconfig.read_text())["current-context"] == "zoneward-sandbox"


def test_it_listens_on_loopback_only(sample: Running) -> None:
    assert sample.address.startswith("http://127.0.0.1:")
    with socket.socket() as other:
        # Its port is free on every other address of this machine.
        other.bind(("127.0.0.2", int(sample.address.split(":")[2].split("/")[0])))


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_it_ends_at_once_and_takes_its_kubeconfig_along(tmp_path: Path, signal_number: int) -> None:
    with a_sandbox(tmp_path) as running:
        watch = build_opener(ProxyHandler({})).open(f"{running.address}/api/v1/services?watch=1", timeout=PATIENCE)
        with watch:
            assert json.loads(watch.readline())["type"] == "ADDED"
            running.end(signal_number)
        assert running.process.returncode == 0
        assert not running.kubeconfig.exists()
        assert running.process.stdout is not None
        line = running.process.stdout.read()
        assert line == f"The sandbox is ready: kubectl --kubeconfig={running.kubeconfig} get services -A\n"


@pytest.mark.parametrize("name", ["kept.json", "kept.json.gz"])
def test_what_is_saved_is_there_again(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    with a_sandbox(tmp_path, "--save", str(file)) as running:
        made = running.ask("POST", "/api/v1/namespaces/default/services", a_service("cart"))
        running.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
        running.end()
    with a_sandbox(tmp_path, "-f", str(file)) as running:
        again = running.ask("GET", "/api/v1/namespaces/default/services/cart")
        assert again["metadata"].pop("resourceVersion")
        del made["metadata"]["resourceVersion"]
        assert again == made
        assert running.ask("GET", "/api/v1/namespaces/shop")["status"] == {"phase": "Active"}
        # Its address is still its own.
        other = running.ask("POST", "/api/v1/namespaces/default/services", a_service("other"))
        assert other["spec"]["clusterIP"] != made["spec"]["clusterIP"]


def test_somebody_elses_kubeconfig_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("contexts: [{name: production, context: {}}]\n")
    line = refused("--write-kubeconfig", str(file))
    assert "expected a new file, or one that a sandbox wrote" in line
    assert file.read_text().startswith("contexts: [{name: production")


def test_a_kubeconfig_that_cannot_be_written_is_named_by_its_option(tmp_path: Path) -> None:
    line = refused("--write-kubeconfig", str(tmp_path / "none" / "config"))
    assert line.startswith("zoneward: --write-kubeconfig: ")


def test_a_kubeconfig_that_a_sandbox_left_is_replaced(tmp_path: Path) -> None:
    left = tmp_path / "kubeconfig.yaml"
    left.write_text("contexts: [{name: zoneward-sandbox, context: {}}]\n")
    old = left.read_text()
    with subprocess.Popen((*ZONEWARD, "sandbox", "--write-kubeconfig", str(left)), stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert left.read_text() != old
        finally:
            process.kill()


def test_kubeconfig_of_a_running_sandbox_is_left_alone_until_another_one_is_ready(tmp_path: Path) -> None:
    with a_sandbox(tmp_path) as first:
        own = first.kubeconfig.read_text()
        refused("--write-kubeconfig", str(first.kubeconfig), "-f", str(tmp_path / "none.yaml"))
        assert first.kubeconfig.read_text() == own
        command = (*ZONEWARD, "sandbox", "--write-kubeconfig", str(first.kubeconfig))
        with subprocess.Popen(command, stdout=subprocess.PIPE) as second:
            try:
                assert second.stdout is not None
                second.stdout.readline()
                replaced = first.kubeconfig.read_text()
                assert replaced != own
                first.end()
                assert first.kubeconfig.read_text() == replaced
            finally:
                second.kill()


def test_with_a_gate_off_it_drops_hints_that_a_slice_has_none_of(tmp_path: Path) -> None:
    """As a server does whose gates went off after a slice was stored (upstream's ``dropDisabledFields``)."""
    file, path = tmp_path / "objects.json", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    hints = {"forZones": [{"name": "a"}], "forNodes": [{"name": "n1"}]}

    def a_slice(name: str, **more: Any) -> dict[str, Any]:
        head = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "ports": []}
        metadata = {"name": name, "namespace": "default"}
        return head | {"metadata": metadata, "endpoints": [{"addresses": ["10.0.0.1"], **more}]}

    items = [a_slice("hinted", hints=hints), a_slice("plain")]
    file.write_text(json.dumps({"kind": "List", "items": items}))
    gate = "PreferSameTrafficDistribution=false"
    with a_sandbox(tmp_path, "-f", str(file), "--feature-gates", gate, "-q") as running:
        for name, expected in (("plain", {"forZones": hints["forZones"]}), ("hinted", hints)):
            stored = running.ask("GET", f"{path}/{name}")
            stored["endpoints"][0]["hints"] = hints
            assert running.ask("PUT", f"{path}/{name}", stored)["endpoints"][0]["hints"] == expected


def test_kinds_that_it_has_not_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text("\n---\n".join("{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}" for _ in range(2)))
    with a_sandbox(tmp_path, "-f", str(file)) as running:
        running.end()
        assert running.process.stderr is not None
        assert running.process.stderr.read() == "zoneward: 2 apps/v1/Deployment skipped: the sandbox has no such kind\n"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--sample", "-f", "x.yaml"), "-f and --sample: expected one of them, got both"),
        (("--feature-gates", "Hints=false"), "--feature-gates: expected one of TopologyAwareHints, "),
        (("--feature-gates", "TopologyAwareHints=no"), "--feature-gates: expected TopologyAwareHints=true or"),
        (("-f", "is-not-there.yaml"), "is-not-there.yaml"),
        (("--play", "is-not-there.yaml"), "is-not-there.yaml"),
        (("--listen", "192.0.2.1"), "--listen, --port: expected an address that is free"),
        (("--save", "no/folder.json"), "--save: no/folder.json: expected a file that can be written"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_served(options: tuple[str, ...], problem: str) -> None:
    assert problem in refused(*options)
