"""A node: containerd and a kubelet, at their usual paths, in separate namespaces."""

import json
import shlex
from pathlib import Path
from typing import Any, Final

import yaml
from cluster.box import Box, BoxError
from cluster.cgroups import make_group
from cluster.images import PAUSE
from cluster.machine import CNI
from cluster.sites import DNS_IP, Site
from e2e.processes import Process, wait_until

_OWN: Final = ("var/lib", "var/log", "run")
"""Folders that each node has separately, empty at first."""
_SOCKET: Final = "/run/containerd/containerd.sock"
_CONTAINERD: Final = """\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
# It would make a folder in /opt, which nothing removes.
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # runc would fail to give a Pod a lower score without CAP_SYS_RESOURCE.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
"""


def make_node(box: Box, site: Site) -> None:
    """Create its namespaces, folders and files; nothing runs yet."""
    folder = node_folder(box, site)
    (folder / "cni").mkdir(parents=True)
    script = ["hostname " + site.name, "mount --make-rprivate /"]
    for path in _OWN:
        (folder / path).mkdir(parents=True)
        script.append(f"mount --bind {shlex.quote(str(folder / path))} /{path}")
    # Volumes that a kubelet mounts for a Pod have to reach it.
    script.append("mount --make-rshared /")
    (folder / "containerd.toml").write_text(
        _CONTAINERD.format(socket=_SOCKET, pause=PAUSE, cni=CNI, folder=folder),
    )
    (folder / "cni" / "pods.conflist").write_text(json.dumps(_pod_network(site)))
    # Without name servers of the machine's: a Pod asks CoreDNS, or nobody.
    (folder / "resolv.conf").write_text("")
    (folder / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet(folder, make_group(site.name))))
    box.make_node(site.name, "\n".join(script))


def start_containerd(box: Box, site: Site) -> Process:
    return box.start(
        f"containerd-{site.name}",
        ["containerd", "--config", node_folder(box, site) / "containerd.toml"],
        inside=site.name,
    )


def start_containerd_and_wait(box: Box, site: Site) -> None:
    """Until it answers."""

    def answers() -> bool:
        try:
            return bool(box.run("ctr", "version", inside=site.name))
        except BoxError:
            return False

    containerd = start_containerd(box, site)
    wait_until(answers, f"containerd of {site.name}", containerd)


def import_image(box: Box, site: Site, archive: Path) -> None:
    """Import an image for Pods."""
    box.load(archive, "ctr", "--namespace=k8s.io", "images", "import", "-", inside=site.name)


def start_kubelet(box: Box, site: Site, kubeconfig: Path) -> Process:
    folder = node_folder(box, site)
    command: list[str | Path] = [
        box.bin / "kubelet",
        f"--config={folder / 'kubelet.yaml'}",
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={site.name}",
        f"--node-ip={','.join(site.ips)}",
        f"--node-labels=topology.kubernetes.io/zone={site.zone},topology.kubernetes.io/region=here",
        f"--cert-dir={folder / 'certificates'}",
    ]
    return box.start(f"kubelet-{site.name}", command, inside=site.name)


def node_folder(box: Box, site: Site) -> Path:
    """Its files; ``var/lib``, ``var/log`` and ``run`` are mounted at these paths."""
    return box.folder / "nodes" / site.name


def _pod_network(site: Site) -> dict[str, Any]:
    """A link from each Pod to the node, which then routes; and host ports."""
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": subnet}] for subnet in site.pods],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
    }
    plugins = [
        {"type": "ptp", "ipMasq": False, "mtu": 1500, "ipam": addresses},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": plugins}


def _kubelet(folder: Path, group: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        # Only the box can reach it.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": group,
        # A machine with version 1 of control groups will do.
        "failCgroupV1": False,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{_SOCKET}",
        "clusterDNS": [DNS_IP],
        "clusterDomain": "cluster.local",
        "resolvConf": str(folder / "resolv.conf"),
        # A heartbeat every 3 s; the controller manager decides how many may be missed.
        "nodeLeaseDurationSeconds": 12,
        "volumePluginDir": str(folder / "volume-plugins"),
        "maxPods": 80,
        # The disk is the machine's, and shared: a node must neither measure it nor delete images to make room.
        "localStorageCapacityIsolation": False,
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "serializeImagePulls": False,
        "makeIPTablesUtilChains": False,
        "shutdownGracePeriod": "0s",
    }
