"""The proxies that are compared, each as it runs on a node: Zoneward's, and kube-proxy."""

import itertools
import json
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

import yaml
from e2e.control_plane import ControlPlane
from e2e.processes import Process

from bench.processes import cpu_with_children, tree, zoneward
from bench.proxy_cluster import NODE
from zoneward.proxy.ruleset.base_rules import TABLE

PODS: Final = "10.0.0.0/12"
_NUMBERS: Final = itertools.count(1)
_LISTEN: Final = "127.0.0.1:10272"
_METRICS: Final = "127.0.0.1:10249"
_PATIENCE: Final = 300.0
_PROGRAMMED: Final = "kubeproxy_sync_proxy_rules_last_timestamp_seconds"


class Ours:
    """A context manager: started on entering, ended on leaving. `until_programmed` waits for the rules in the kernel.

    ``inside`` begins a command that is to run in another network namespace. ``started`` is the moment at which the
    command was, by ``time.perf_counter``.
    """

    name = "zoneward"

    def __init__(self, kubeconfig: Path, folder: Path, *flags: str, inside: Sequence[str] = ()) -> None:
        options = ("--node", NODE, "--kubeconfig", str(kubeconfig), "--cluster-cidr", PODS, "--log-format", "json")
        self._options, self._folder, self._inside = (*options, *flags), folder, inside

    def __enter__(self) -> Self:
        self.started = time.perf_counter()
        self._process = zoneward("proxy", *self._options, folder=self._folder, inside=self._inside)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()

    def until_programmed(self) -> dict[str, Any]:
        """The line of its log about the start. Raises ProcessError, TimeoutError."""
        limit = time.monotonic() + _PATIENCE
        while True:
            for line in self._process.log.read_text().splitlines():
                if '"all is in the kernel"' in line:
                    found: dict[str, Any] = json.loads(line)
                    return found
            self._process.check()
            if time.monotonic() > limit:
                raise TimeoutError(self._process.last_lines())
            time.sleep(0.005)

    def metrics(self) -> dict[str, float]:
        """Metrics by full name with labels."""
        return _metrics(f"http://{_LISTEN}/metrics")

    @property
    def pids(self) -> tuple[int, ...]:
        """Of the proxy and the one that programs the kernel."""
        return tuple(tree(self._process.pid))

    @property
    def cpu(self) -> float:
        """Seconds of both."""
        return sum(map(cpu_with_children, self.pids))

    def clear(self) -> None:
        """Remove its tables."""
        _delete(TABLE)


class KubeProxy:
    """The real one, of Kubernetes; otherwise as `Ours`."""

    name = "kube-proxy"

    def __init__(self, plane: ControlPlane, *, inside: Sequence[str] = ()) -> None:
        self._plane, self._inside = plane, inside

    def __enter__(self) -> Self:
        folder = self._plane.folder / f"kube-proxy-{next(_NUMBERS)}"
        folder.mkdir()
        config = folder / "config.yaml"
        config.write_text(yaml.safe_dump(self._configuration()))
        self.started = time.perf_counter()
        command = [*self._inside, str(self._plane.programs["kube-proxy"]), f"--config={config}"]
        self._process = Process(command, log=folder / "log")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()

    def until_programmed(self) -> None:
        limit = time.monotonic() + _PATIENCE
        while True:
            self._process.check()
            try:
                found = _metrics(f"http://{_METRICS}/metrics")
            except OSError:
                found = {}
            if any(value > 0 for name, value in found.items() if name.startswith(_PROGRAMMED) and '"IPv4"' in name):
                return
            if time.monotonic() > limit:
                raise TimeoutError(self._process.last_lines())
            time.sleep(0.05)

    @property
    def pids(self) -> tuple[int, ...]:
        return (self._process.pid,)

    @property
    def cpu(self) -> float:
        """Seconds, with those of the ``nft`` that it started and that have ended."""
        return cpu_with_children(self._process.pid)

    def clear(self) -> None:
        _delete("kube-proxy")

    def _configuration(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "hostnameOverride": NODE,
            "clientConnection": {"kubeconfig": str(self._plane.kubeconfig())},
            "clusterCIDR": PODS,
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": _METRICS,
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            # kube-proxy reads zero as one second.
            "nftables": {"minSyncPeriod": "1ms"},
        }


def _delete(table: str) -> None:
    """In both families."""
    for family in ("ip", "ip6"):
        subprocess.run(("nft", "delete", "table", family, table), check=True)


def _metrics(address: str) -> dict[str, float]:
    with urllib.request.urlopen(address, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}
