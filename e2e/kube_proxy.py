"""A real kube-proxy as a node has it: in a network namespace of its own, which goes with it.

It reaches the API server, which listens on loopback, through a door: a socket on the namespace's own loopback.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import yaml
from e2e.control_plane import ControlPlane
from e2e.door import Door
from e2e.processes import Process

TABLE: Final = "kube-proxy"
"""What kube-proxy calls its tables."""


class KubeProxy:
    """Used as a context manager: runs, in nftables mode, as the proxy of ``node``, from entering to leaving.

    ``settings`` are merged into its KubeProxyConfiguration. Needs root and nft.
    """

    def __init__(self, plane: ControlPlane, *, node: str, settings: Mapping[str, Any] | None = None) -> None:
        self._plane, self._node, self._settings = plane, node, dict(settings or {})
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        folder = self._plane.folder / f"proxy-{self._node}"
        folder.mkdir(exist_ok=True)
        with self._cleanup as cleanup:
            held = ["unshare", "--net", "--", "sh", "-c", "ip link set lo up && exec sleep infinity"]
            self._holder = cleanup.enter_context(Process(held, log=folder / "namespace.log"))
            self._plane.wait_until(self._is_up, what="a network namespace")
            cleanup.enter_context(Door(self.namespace, self._plane.ports.server))
            config = folder / "config.yaml"
            config.write_text(yaml.safe_dump(self._configuration() | self._settings))
            command: list[str | Path] = [*self._inside(), self._plane.programs["kube-proxy"], f"--config={config}"]
            self.process = cleanup.enter_context(Process(command, log=folder / "kube-proxy.log"))
            self._plane.wait_until(self._has_tables, what=f"kube-proxy of {self._node}")
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    @property
    def namespace(self) -> Path:
        """Of its network, as a file."""
        return Path(f"/proc/{self._holder.pid}/ns/net")

    def run(self, *command: str) -> str:
        """What a command in its namespace prints. Raises CalledProcessError."""
        return subprocess.run([*self._inside(), *command], capture_output=True, text=True, check=True).stdout

    def rules(self, family: str = "ip") -> list[dict[str, Any]]:
        """All that is in its table, as ``nft --json`` has it; nothing where there is none yet."""
        with suppress(subprocess.CalledProcessError):
            listed: list[dict[str, Any]] = json.loads(self.run("nft", "--json", "list", "table", family, TABLE))[
                "nftables"
            ]
            return listed
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

    # --- within -------------------------------------------------------------------------------------------------------

    def _inside(self) -> list[str]:
        return ["nsenter", f"--net={self.namespace}", "--"]

    def _is_up(self) -> bool:
        self._holder.check()
        if self.namespace.readlink() == Path("/proc/self/ns/net").readlink():
            return False
        return "UP" in self.run("ip", "-oneline", "link", "show", "lo").split("<")[-1].split(">")[0].split(",")

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
