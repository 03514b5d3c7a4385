"""The writers of slices and the proxies: the built-in parts, or Zoneward's instead.

They run as processes beside the containers, with the permissions of the service accounts in ``deploy/``.
"""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from cluster.box import BOX, Box, BoxError
from cluster.control_plane import KUBE_PROXY, ControlPlane
from cluster.sites import PODS, Site
from e2e.kube_proxy import LOGS_ITS_ZONE, with_its_zone
from e2e.processes import Process, wait_until

DEPLOY: Final = Path(__file__).parent.parent / "deploy"
BUILT_IN_CONTROLLER: Final = "endpointslice-controller"
_CONTROLLER: Final = "zoneward-controller"
_OVERLAY: Final = "zoneward-overlay"
_PROXY: Final = "zoneward-proxy"
_TABLE: Final = "kube-proxy"
_ZONEWARD: Final = (sys.executable, "-m", "zoneward")
_NAMESPACES: Final = {_CONTROLLER: "zoneward-system", _PROXY: "zoneward-proxy"}
_RIGHTS: Final = ("service-account.yaml", "cluster-role.yaml", "role.yaml")
_FOLDERS: Final = {_CONTROLLER: DEPLOY / "base", _PROXY: DEPLOY / "proxy" / "base"}
_METRICS: Final = "http://127.0.0.1:10271/metrics"
_READY: Final = "http://127.0.0.1:10272/readyz"


class Mode(StrEnum):
    """Which parts are Zoneward's."""

    BUILT_IN = "built-in"
    OVERLAY = "overlay"
    """The built-in parts write slices and program nodes; Zoneward sets hints."""
    CONTROLLER = "controller"
    BOTH = "both"


class Parts:
    def __init__(self, box: Box, plane: ControlPlane, programs: dict[str, Path], sites: Sequence[Site]) -> None:
        self._box, self._plane, self._programs, self._sites = box, plane, programs, sites

    def start(self, mode: Mode) -> None:
        """Replace the running parts, without a moment in which a Service has no rules."""
        if mode is not Mode.OVERLAY and self._box.runs(_OVERLAY):
            self._remove_overlay()
        if mode in (Mode.BUILT_IN, Mode.OVERLAY):
            self._box.end(_CONTROLLER)
            self._plane.start_controllers()
            if mode is Mode.OVERLAY:
                self._start_overlay()
        else:
            self._allow_zoneward()
            self._plane.start_controllers(without=[BUILT_IN_CONTROLLER])
            self._start_zoneward_controller()
        self.start_proxies(mode)

    def start_proxies(self, mode: Mode) -> None:
        """Start a proxy on each node that has none, instead of the other kind."""
        if mode is Mode.BOTH:
            self._start_zoneward_proxies()
        else:
            self._start_kube_proxies()

    def _on_all_nodes(self, act: Callable[[Site], object]) -> None:
        """At the same time: each of them mostly waits."""
        with ThreadPoolExecutor(len(self._sites)) as pool:
            list(pool.map(act, self._sites))

    # --- the built-in proxy -------------------------------------------------------------------------------------------

    def stop_kube_proxies(self) -> None:
        """Their rules stay in the kernels."""
        self._on_all_nodes(lambda site: self._box.end(f"kube-proxy-{site.name}"))

    def remove_kube_proxy_rules(self) -> None:
        self._on_all_nodes(self._remove_kube_proxys)

    def _start_kube_proxies(self) -> None:
        self._on_all_nodes(lambda site: self._box.end(f"{_PROXY}-{site.name}"))
        idle = [site for site in self._sites if not self._box.runs(f"kube-proxy-{site.name}")]
        started = {site: self._start_kube_proxy(site) for site in idle}
        for site, process in started.items():
            process = with_its_zone(process, partial(self._start_kube_proxy, site))
            wait_until(partial(self._serves, site), f"kube-proxy of {site.name}", process)
        if started:
            self._on_all_nodes(self._remove_zonewards)

    def _start_kube_proxy(self, site: Site) -> Process:
        command: list[str | Path] = [
            self._programs["kube-proxy"],
            LOGS_ITS_ZONE,
            "--proxy-mode=nftables",
            f"--kubeconfig={self._plane.kubeconfig(KUBE_PROXY)}",
            f"--cluster-cidr={PODS}",
            f"--hostname-override={site.name}",
            # Limits of the machine are not the proxy's to change.
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        ]
        return self._box.start(f"kube-proxy-{site.name}", command, inside=site.name, goes_first=True)

    def _serves(self, site: Site) -> bool:
        """Whether it serves at least the Service of the API server."""
        with suppress(BoxError):
            return "elements" in self._box.run("nft", "list", "map", "ip", _TABLE, "service-ips", inside=site.name)
        return False

    def _remove_kube_proxys(self, site: Site) -> None:
        for family in ("ip", "ip6"):
            with suppress(BoxError):
                self._box.run("nft", "delete", "table", family, _TABLE, inside=site.name)

    # --- Zoneward's parts ---------------------------------------------------------------------------------------------

    def stop_zoneward(self) -> None:
        """Controller and proxies. Their slices and rules stay."""
        self._box.end(_CONTROLLER)
        self._on_all_nodes(lambda site: self._box.end(f"{_PROXY}-{site.name}"))

    def _start_zoneward_controller(self) -> None:
        if self._box.runs(_CONTROLLER):
            return
        # The slices of the built-in controller stay, and a test of Kubernetes wants its label on new ones.
        self._run_controller(_CONTROLLER, "--take-over", "--keep-built-in-label")

    def _run_controller(self, name: str, *flags: str) -> None:
        """Start a process of this name, and wait until it leads."""
        command: list[str | Path] = [
            *_ZONEWARD,
            "controller",
            *flags,
            f"--kubeconfig={self._account(_CONTROLLER)}",
            f"--leader-elect-resource-namespace={_NAMESPACES[_CONTROLLER]}",
            "--log-format=json",
        ]
        process = self._box.start(name, command, goes_first=True)
        wait_until(self._leads, "zoneward controller leads", process)

    def _start_overlay(self) -> None:
        if self._box.runs(_OVERLAY):
            return
        self._plane.kubectl("apply", "--kustomize", DEPLOY / "namespaces")
        self._plane.kubectl("apply", "--kustomize", DEPLOY / "overlay")
        # A process is in its place.
        self._plane.kubectl("delete", "deployment", _CONTROLLER, f"--namespace={_NAMESPACES[_CONTROLLER]}")
        self._run_controller(_OVERLAY, "--overlay")

    def _remove_overlay(self) -> None:
        """As `deploy/README.md` says."""
        self._box.end(_OVERLAY)
        self._box.run(
            *_ZONEWARD,
            "release",
            "--overlay",
            f"--kubeconfig={self._plane.kubeconfig()}",
            inside=BOX,
        )
        self._plane.kubectl("delete", "--ignore-not-found", "--kustomize", DEPLOY / "overlay")

    def _leads(self) -> bool:
        """Nobody writes slices before: for 15 s if an earlier controller could not release the Lease."""
        return "zoneward_controller_leader 1.0" in self._box.ask(_METRICS, inside=BOX)

    def _start_zoneward_proxies(self) -> None:
        kubeconfig = self._account(_PROXY)
        started = {}
        self.stop_kube_proxies()
        for site in self._sites:
            command: list[str | Path] = [
                *_ZONEWARD,
                "proxy",
                f"--node={site.name}",
                f"--kubeconfig={kubeconfig}",
                f"--cluster-cidr={PODS}",
                f"--lease-namespace={_NAMESPACES[_CONTROLLER]}",
                "--log-format=json",
            ]
            if not self._box.runs(f"{_PROXY}-{site.name}"):
                started[site] = self._box.start(f"{_PROXY}-{site.name}", command, inside=site.name, goes_first=True)
        for site, process in started.items():
            ready = partial(self._box.ask, _READY, inside=site.name)
            wait_until(ready, f"zoneward proxy of {site.name}", process)
            self._remove_kube_proxys(site)

    def _remove_zonewards(self, site: Site) -> None:
        self._box.run(*_ZONEWARD, "proxy", "--cleanup", inside=site.name)

    def _allow_zoneward(self) -> None:
        """Apply the service accounts and roles of the manifests."""
        self._plane.kubectl("apply", "--kustomize", DEPLOY / "namespaces")
        files = [f"--filename={folder / name}" for folder in _FOLDERS.values() for name in _RIGHTS]
        self._plane.kubectl("apply", *files)

    def _account(self, name: str) -> Path:
        """The kubeconfig of a service account."""
        token = self._plane.kubectl("create", "token", name, f"--namespace={_NAMESPACES[name]}", "--duration=24h")
        return self._plane.write_kubeconfig(name, token.strip())
