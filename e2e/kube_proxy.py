"""A real kube-proxy as a node has it: in a network namespace of its own, which goes with it, or in that of a `Node`.

It reaches the API server, which listens on loopback, through a door: a socket on the namespace's own loopback.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Self

import yaml
from e2e.control_plane import ControlPlane
from e2e.door import Door
from e2e.nodes import Namespace
from e2e.processes import Process

TABLE: Final = "kube-proxy"
"""What kube-proxy calls its tables."""


class KubeProxy:
    """Used as a context manager: runs, in nftables mode, as the proxy of ``node``, from entering to leaving.

    ``settings`` are merged into its KubeProxyConfiguration. ``network`` is a namespace that is there already, where
    there is one, and stays. Needs root and nft.
    """

    def __init__(
        self,
        plane: ControlPlane,
        *,
        node: str,
        settings: Mapping[str, Any] | None = None,
        network: Namespace | None = None,
    ) -> None:
        self._plane, self._node, self._settings, self._given = plane, node, dict(settings or {}), network
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
            config.write_text(yaml.safe_dump(self._configuration() | self._settings))
            command: list[str | Path] = [*self.network.enter, self._plane.programs["kube-proxy"], f"--config={config}"]
            self.process = cleanup.enter_context(Process(command, log=folder / "kube-proxy.log"))
            self._plane.wait_until(self._has_tables, what=f"kube-proxy of {self._node}")
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def run(self, *command: str) -> str:
        """What a command in its namespace prints. Raises CalledProcessError."""
        return self.network.run(*command)

    def rules(self, family: str = "ip") -> list[dict[str, Any]]:
        """All that is in its table, as ``nft --json`` has it; nothing where there is none yet."""
        with suppress(subprocess.CalledProcessError):
            text = self.run("nft", "--json", "list", "table", family, TABLE)
            return list(json.loads(text)["nftables"])
        return []

    def endpoints(self, address: str, port: int, *, protocol: str = "tcp", family: str = "ip") -> set[str]:
        """Where connections to a Service's address go: ``10.1.0.1:8080``. Of Services without session affinity."""
        rules = self.rules(family)
        chains = {
            verdict["goto"]["target"]
            for each in rules
            if each.get("map", {}).get("name") == "service-ips"
            for key, verdict in each["map"].get("elem", ())
            if key["concat"] == [address, protocol, port]
        }
        return {
            to
            for each in rules
            if each.get("rule", {}).get("chain") in chains
            for expression in each["rule"]["expr"]
            for to in _destinations(expression)
        }

    def _has_tables(self) -> bool:
        self.process.check()
        return bool(self.rules())

    def _configuration(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "hostnameOverride": self._node,
            "clientConnection": {"kubeconfig": str(self._plane.kubeconfig())},
            "clusterCIDR": "10.0.0.0/8",
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            # Limits of the machine are not the proxy's to change.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            # Zero would be taken as one second.
            "nftables": {"minSyncPeriod": "1ms"},
        }


def _destinations(expression: dict[str, Any]) -> Iterator[str]:
    """``dnat ip to numgen random mod 2 map { 0 : 10.1.0.1 . 8080, 1 : ... }``"""
    if "dnat" in expression:
        for _, to in expression["dnat"]["addr"]["map"]["data"]["set"]:
            yield ":".join(map(str, to["concat"]))
