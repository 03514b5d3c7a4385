"""The disruptions of ``python -m cluster bench``, during which clients open connections.

No client runs on the affected nodes, which are in different zones.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cluster.box import BOX
from cluster.cgroups import kill_pods, kill_programs
from cluster.lifecycle import Cluster
from cluster.load import NAMESPACE, REPLICAS, WEB, pods, scale, wait_for_rollout
from cluster.network import plug_in, unplug
from cluster.node import start_containerd_and_wait, start_kubelet
from cluster.parts import DEPLOY, Mode
from cluster.sites import CONTROL_PLANE_IPS, SITES
from e2e.processes import wait_until
from release.image import REFERENCE

DETECTION: Final = ("--node-monitor-period=1s", "--node-monitor-grace-period=12s")
"""Flags of kube-controller-manager. By default it considers a node lost after 50 s."""
_LOST: Final = SITES[3]
_DRAINED: Final = [site.name for site in SITES[3:]]
_NEXT_IMAGE: Final = f"{REFERENCE}-next"
_MANIFESTS: Final = ("take-over", "proxy/instead-of-kube-proxy")
_CONTROLLER: Final = ("deployment/zoneward-controller", "--namespace=zoneward-system")
_PROXY: Final = ("daemonset/zoneward-proxy", "--namespace=zoneward-proxy")
_FLIP: Final = """
import sys, time, urllib.request as asked
opener = asked.build_opener(asked.ProxyHandler({}))
for half in (sys.argv[1::2], sys.argv[2::2]) * 2:
    for command in ("rm", "touch"):
        for address in half:
            opener.open(f"http://{address}:8080/shell?cmd={command}%20/ready", timeout=5).read()
        time.sleep(1.5)
"""
Step = Callable[[Cluster, Mode], None]


def _nothing(_cluster: Cluster, _mode: Mode) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruption:
    """``act`` runs while clients run for ``seconds`` (with the built-in parts ``built_in_seconds``); ``prepare`` runs
    before, and ``undo`` afterwards, also after a failure. ``ends_pods``: whether it deletes Pods."""

    seconds: int
    built_in_seconds: int | None = None
    ends_pods: bool = False
    act: Step
    prepare: Step = _nothing
    undo: Step = _nothing

    def seconds_with(self, mode: Mode) -> int:
        return self.built_in_seconds if mode is Mode.BUILT_IN and self.built_in_seconds else self.seconds


# --- Pods -------------------------------------------------------------------------------------------------------------


def roll_out(cluster: Cluster, _mode: Mode | None = None) -> None:
    cluster.kubectl("rollout", "restart", WEB, *NAMESPACE)
    wait_for_rollout(cluster)


def _scale(cluster: Cluster, _mode: Mode) -> None:
    """To a third and back, twice."""
    for replicas in (REPLICAS // 3, REPLICAS) * 2:
        scale(cluster, replicas)
        time.sleep(5)


def _flip(cluster: Cluster, _mode: Mode) -> None:
    """Make half of the Pods unready, then the other half, twice; all keep serving."""
    addresses = sorted(pod["status"]["podIP"] for pod in pods(cluster))
    cluster.box.run_here(sys.executable, "-c", _FLIP, *addresses, network=BOX)


# --- nodes ------------------------------------------------------------------------------------------------------------


def _drain(cluster: Cluster, _mode: Mode) -> None:
    """One after the other, as `kubectl drain` does."""
    cluster.kubectl("drain", *_DRAINED, "--pod-selector=app=web", *NAMESPACE, "--timeout=60s")


def _uncordon(cluster: Cluster, _mode: Mode) -> None:
    cluster.kubectl("uncordon", *_DRAINED)


def _stop_kubelet(cluster: Cluster, mode: Mode) -> None:
    """Stop the kubelet until the node counts as lost; its Pods still run."""
    _wait_for_heartbeat(cluster)
    kill_programs(f"kubelet-{_LOST.name}")
    _wait_until_lost(cluster)
    time.sleep(2)
    _start_kubelet(cluster, mode)
    time.sleep(3)


def _start_kubelet(cluster: Cluster, _mode: Mode) -> None:
    if not cluster.box.runs(f"kubelet-{_LOST.name}"):
        start_kubelet(cluster.box, _LOST, cluster.plane.kubeconfig(f"system:node:{_LOST.name}"))
    cluster.kubectl("wait", "--for=condition=Ready", f"node/{_LOST.name}", "--timeout=90s")


def _cut_power(cluster: Cluster, mode: Mode) -> None:
    """Stop the node until it counts as lost, then start it again."""
    _wait_for_heartbeat(cluster)
    unplug(cluster.box, _LOST)
    kill_programs(*(f"{name}-{_LOST.name}" for name in ("kubelet", "containerd", "kube-proxy", "zoneward-proxy")))
    kill_pods(_LOST.name)
    cluster.box.run("nft", "flush", "ruleset", inside=_LOST.name)
    _wait_until_lost(cluster)
    time.sleep(2)
    _boot(cluster, mode)


def _boot(cluster: Cluster, mode: Mode) -> None:
    box = cluster.box
    plug_in(box, _LOST)
    if not box.runs(f"containerd-{_LOST.name}"):
        start_containerd_and_wait(box, _LOST)
    _start_kubelet(cluster, mode)
    cluster.parts.start_proxies(mode)


def _wait_for_heartbeat(cluster: Cluster) -> None:
    """Start right after a heartbeat, from which the time until a node counts as lost is measured."""
    before = _heartbeat(cluster)
    wait_until(lambda: _heartbeat(cluster) != before, f"a heartbeat of {_LOST.name}")


def _heartbeat(cluster: Cluster) -> str:
    where = ("--namespace=kube-node-lease", "--output=jsonpath={.spec.renewTime}")
    return cluster.kubectl("get", "lease", _LOST.name, *where)


def _wait_until_lost(cluster: Cluster) -> None:
    cluster.kubectl("wait", "--for=condition=Ready=Unknown", f"node/{_LOST.name}", "--timeout=60s")


# --- controllers and proxies ------------------------------------------------------------------------------------------


def _deploy(cluster: Cluster, mode: Mode) -> None:
    """Deploy Zoneward's parts from the manifests, instead of the processes."""
    if mode is Mode.BUILT_IN:
        return
    for site in SITES:
        tag = ("images", "tag", "--force", REFERENCE, _NEXT_IMAGE)
        cluster.box.run("ctr", "--namespace=k8s.io", *tag, inside=site.name)
    cluster.kubectl("apply", "--kustomize", DEPLOY / "namespaces")
    address = {"KUBERNETES_SERVICE_HOST": CONTROL_PLANE_IPS[0], "KUBERNETES_SERVICE_PORT": "6443"}
    about = {"name": "zoneward-proxy-api-server", "namespace": "zoneward-proxy"}
    content = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": address}
    cluster.kubectl("apply", "--filename=-", text=json.dumps(content))
    cluster.parts.stop_zoneward()
    for folder in _MANIFESTS:
        cluster.kubectl("apply", "--kustomize", DEPLOY / folder)
    _wait_for_deployed(cluster)


def _wait_for_deployed(cluster: Cluster) -> None:
    for workload in (_CONTROLLER, _PROXY):
        cluster.kubectl("rollout", "status", *workload, "--timeout=170s")


def _upgrade(cluster: Cluster, mode: Mode) -> None:
    """Replace controller and proxies: by another image, or the built-in ones by themselves."""
    if mode is Mode.BUILT_IN:
        cluster.parts.stop_kube_proxies()
        cluster.parts.start(mode)
        return
    for workload, container in ((_CONTROLLER, "controller"), (_PROXY, "proxy")):
        cluster.kubectl("set", "image", *workload, f"{container}={_NEXT_IMAGE}")
    _wait_for_deployed(cluster)


def _undeploy(cluster: Cluster, mode: Mode) -> None:
    if mode is Mode.BUILT_IN:
        return
    for workload in (_CONTROLLER, _PROXY):
        # While they may still release what they hold.
        cluster.kubectl("delete", *workload, "--ignore-not-found", "--cascade=foreground")
    for folder in reversed(_MANIFESTS):
        cluster.kubectl("delete", "--ignore-not-found", "--kustomize", DEPLOY / folder)
    cluster.parts.start(mode)


def _built_in(cluster: Cluster, _mode: Mode) -> None:
    cluster.parts.start(Mode.BUILT_IN)


def _take_over(cluster: Cluster, mode: Mode) -> None:
    """Change from the built-in parts to Zoneward's and back, or replace the built-in ones by themselves twice."""
    for other in (mode, Mode.BUILT_IN):
        if mode is Mode.BUILT_IN:
            cluster.parts.stop_kube_proxies()
        cluster.parts.start(other)


def _back_to_mode(cluster: Cluster, mode: Mode) -> None:
    if mode is not Mode.BUILT_IN:
        cluster.parts.start(mode)


DISRUPTIONS: Final[dict[str, Disruption]] = {
    "rollout": Disruption(seconds=24, ends_pods=True, act=roll_out),
    "drain": Disruption(seconds=20, ends_pods=True, act=_drain, undo=_uncordon),
    "scaling": Disruption(seconds=24, ends_pods=True, act=_scale),
    "readiness": Disruption(seconds=16, act=_flip),
    "kubelet": Disruption(seconds=24, act=_stop_kubelet, undo=_start_kubelet),
    "power": Disruption(seconds=30, act=_cut_power, undo=_boot),
    "upgrade": Disruption(seconds=48, built_in_seconds=24, prepare=_deploy, act=_upgrade, undo=_undeploy),
    "take-over": Disruption(seconds=62, built_in_seconds=40, prepare=_built_in, act=_take_over, undo=_back_to_mode),
}
