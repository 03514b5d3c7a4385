"""What a cluster would leave on a machine if something went wrong. Of the machine's own, nothing may be different."""

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
"""Where kubelets, containerd and network plugins write if nobody tells them otherwise."""
_THERE_BEFORE: Final = frozenset(each for each in _PATHS if Path(each).exists())


def find_leftovers() -> list[str]:
    """A line for each; folders that this process found when it started are not counted."""
    found = [f"control group {each}" for each in groups_left()]
    found += [f"process {pid}" for pid in processes()]
    found += [f"mount {line}" for line in Path("/proc/mounts").read_text().splitlines() if str(FOLDER) in line]
    found += [each for each in (str(FOLDER), *_PATHS) if each not in _THERE_BEFORE and Path(each).exists()]
    return found
