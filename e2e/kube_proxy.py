"""A real kube-proxy as a node has it: in a separate network namespace, which ends with it, or in that of a `Node`.

It reaches the API server, which listens on loopback, through a door: a socket on the namespace's own loopback.
"""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Self

import yaml
from e2e.control_plane import ControlPlane
from e2e.door import Door
from e2e.nodes import Namespace
from e2e.processes import Process, ProcessError, wait_until

from zoneward.kube.names import ZONE_LABEL

TABLE: Final = "kube-proxy"
"""What kube-proxy calls its tables."""
LOGS_ITS_ZONE: Final = "--vmodule=proxier=4"
"""The flag that lets kube-proxy log that it has its node's zone."""
_RECEIVES_ITS_NODE: Final = re.compile(r"Caches are synced.*node config")
_HAS_ITS_ZONE: Final = "Updated proxier node topology labels"
_ZONE_SECONDS: Final = 2.0
"""A zone that was not missed is there within milliseconds; a restart too many would do no harm."""
_STARTS: Final = 5


class KubeProxy:
    """Used as a context manager: runs, in nftables mode or another, as the proxy of ``node``, from entering to leaving.

    ``settings`` are merged into its KubeProxyConfiguration. ``network`` is a namespace that is there already, where
    there is one, and stays. ``program`` is one of another minor than the plane's. Needs root and nft, or iptables for
    that mode.
    """

    def __init__(
        self,
        plane: ControlPlane,
        *,
        node: str,
        mode: str = "nftables",
        settings: Mapping[str, Any] | None = None,
        network: Namespace | None = None,
        program: Path | None = None,
    ) -> None:
        self._plane, self._node, self._settings, self._given = plane, node, dict(settings or {}), network
        self._mode, self._program = mode, program or plane.programs["kube-proxy"]
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        folder = self._plane.folder / f"proxy-{self._node}"
        folder.mkdir(exist_ok=True)
        with self._cleanup as cleanup:
            self.network = self._given or Namespace()
            if self._given is None:
                cleanup.callback(self.network.close)
            cleanup.enter_context(Door(self.network.path, self._plane.ports.server))
            config = folder / "config.yaml"
            configuration = kube_proxy_configuration(self._plane, self._node, mode=self._mode)
            config.write_text(yaml.safe_dump(configuration | self._settings))
            command: list[str | Path] = [*self.network.enter, self._program, LOGS_ITS_ZONE, f"--config={config}"]
            log = folder / "kube-proxy.log"

            def start() -> Process:
                return cleanup.enter_context(Process(command, log=log))

            self.process = start()
            if self._has_zone():
                self.process = with_its_zone(self.process, start)
            self._plane.wait_until(self._has_tables, what=f"kube-proxy of {self._node}")
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def run(self, *command: str) -> str:
        """What a command in its namespace prints. Raises CalledProcessError."""
        return self.network.run(*command)

    def rules(self) -> list[dict[str, Any]]:
        """Its table, as ``nft --json`` prints it; empty if there is none yet."""
        with suppress(subprocess.CalledProcessError):
            text = self.run("nft", "--json", "list", "table", "ip", TABLE)
            return list(json.loads(text)["nftables"])
        return []

    def endpoints(self, address: str, port: int, *, rules: list[dict[str, Any]] | None = None) -> set[str]:
        """The endpoints of a Service without affinity, such as ``10.1.0.1:8080``. ``rules``: those of `rules`."""
        return service_endpoints(self.rules() if rules is None else rules, address, port)

    def programmed(self, namespace: str) -> dict[str, frozenset[str]]:
        """`endpoints` of port 80 of each Service in a namespace, by name."""
        services, rules = self._plane.api().get(f"/api/v1/namespaces/{namespace}/services")["items"], self.rules()
        return {
            service["metadata"]["name"]: frozenset(self.endpoints(service["spec"]["clusterIP"], 80, rules=rules))
            for service in services
        }

    def _has_zone(self) -> bool:
        wanted = {"fieldSelector": f"metadata.name={self._node}", "labelSelector": ZONE_LABEL}
        return bool(self._plane.api().get("/api/v1/nodes", **wanted)["items"])

    def _has_tables(self) -> bool:
        self.process.check()
        if self._mode == "nftables":
            return bool(self.rules())
        return "KUBE-SERVICES" in self.run("iptables-save", "-t", "nat")


def service_endpoints(rules: list[dict[str, Any]], address: str, port: int) -> set[str]:
    """The endpoints of a Service without affinity, such as ``10.1.0.1:8080``, in the rules of a kube-proxy's table."""
    chains = {
        verdict["goto"]["target"]
        for rule in rules
        if rule.get("map", {}).get("name") == "service-ips"
        for key, verdict in rule["map"].get("elem", ())
        if key["concat"] == [address, "tcp", port]
    }
    # Up to 1.35 each endpoint has a separate chain.
    chains |= {target for expression in _expressions(rules, chains) for target in _chosen(expression)}
    return {to for expression in _expressions(rules, chains) for to in _destinations(expression)}


def kube_proxy_configuration(
    plane: ControlPlane, node: str, *, mode: str = "nftables", pods: str = "10.0.0.0/8"
) -> dict[str, Any]:
    """A KubeProxyConfiguration; ``pods`` is the range of the cluster's Pods."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": mode,
        "hostnameOverride": node,
        "clientConnection": {"kubeconfig": str(plane.kubeconfig())},
        "clusterCIDR": pods,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        # The proxy must not change limits of the machine.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        # kube-proxy reads zero as one second.
        "nftables": {"minSyncPeriod": "1ms"},
    }


def with_its_zone(process: Process, start: Callable[[], Process]) -> Process:
    """The kube-proxy of a node with a zone that has just started; or another one, where it missed that zone.

    Those of 1.34 to 1.37 ask for their node before they register the part that needs its zone: where the answer is
    faster, they use the endpoints of all zones for as long as they run. Raises ProcessError when each start misses it.
    """
    starts = 1
    while not _got_its_zone(process):
        if starts == _STARTS:
            raise ProcessError(f"kube-proxy missed its zone {starts} times; its log ends:\n{process.last_lines()}")
        process.stop()
        process = start()
        starts += 1
    return process


def _got_its_zone(process: Process) -> bool:
    wait_until(lambda: _RECEIVES_ITS_NODE.search(process.output()), "kube-proxy receives its node", process)
    limit = time.monotonic() + _ZONE_SECONDS
    while not (known := _HAS_ITS_ZONE in process.output()) and time.monotonic() < limit:
        time.sleep(0.02)
    return known


def _expressions(rules: list[dict[str, Any]], chains: set[str]) -> Iterator[dict[str, Any]]:
    for rule in rules:
        if rule.get("rule", {}).get("chain") in chains:
            yield from rule["rule"]["expr"]


def _chosen(expression: dict[str, Any]) -> Iterator[str]:
    """``numgen random mod 2 vmap { 0 : goto endpoint-1, 1 : goto endpoint-2 }``"""
    if "vmap" in expression:
        for _, verdict in expression["vmap"]["data"]["set"]:
            yield verdict["goto"]["target"]


def _destinations(expression: dict[str, Any]) -> Iterator[str]:
    """``dnat ip to numgen random mod 2 map { 0 : 10.1.0.1 . 8080, 1 : ... }``, or ``dnat to 10.1.0.1:8080``"""
    if "dnat" not in expression:
        return
    target = expression["dnat"]
    if "port" in target:
        yield f"{target['addr']}:{target['port']}"
    else:
        for _, to in target["addr"]["map"]["data"]["set"]:
            yield ":".join(map(str, to["concat"]))
