"""Finds what a cluster has left on the machine."""

from pathlib import Path
from typing import Final

from cluster.cgroups import groups_left, processes
from cluster.lifecycle import FOLDER

_PATHS: Final = (
    "/etc/cni/net.d",
    "/opt/cni",
    "/opt/containerd",
    "/run/containerd",
    "/usr/libexec/kubernetes",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
)
"""Where kubelets, containerd and network plugins write by default."""
_THERE_BEFORE: Final = frozenset(path for path in _PATHS if Path(path).exists())


def find_leftovers() -> list[str]:
    """A line for each leftover; folders that existed when this process started do not count."""
    left = [f"control group {group}" for group in groups_left()]
    left += [f"process {pid}" for pid in processes()]
    left += [f"mount {line}" for line in Path("/proc/mounts").read_text().splitlines() if str(FOLDER) in line]
    left += [path for path in (str(FOLDER), *_PATHS) if path not in _THERE_BEFORE and Path(path).exists()]
    return left
