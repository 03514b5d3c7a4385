"""The requirements of the cluster, and the kernel settings that it changes."""

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from cluster.cgroups import missing_controllers

CNI: Final = Path("/usr/lib/cni")
"""Where Debian has the plugins."""
BUSYBOX: Final = "busybox"
PACKAGES: Final = "containerd runc containernetworking-plugins busybox-static conntrack mmdebstrap nftables iproute2"
_COMMANDS: Final = (
    "nft", "ip", "containerd", "ctr", "runc", "conntrack", BUSYBOX, "unshare", "nsenter", "mount",
)  # fmt: skip
_CHANGED: Final = (
    "kernel.keys.root_maxbytes",
    "kernel.keys.root_maxkeys",
    "kernel.panic",
    "kernel.panic_on_oops",
    "vm.overcommit_memory",
    "vm.panic_on_oom",
)
"""A kubelet sets these for the whole machine."""
_AUTOGROUP: Final = "kernel.sched_autogroup_enabled"
_SYSTEM: Final = "/usr/local/sbin:/usr/sbin:/sbin"


class MachineError(Exception):
    """One line: what this machine lacks."""


def search_path(environment: Mapping[str, str]) -> str:
    """PATH, with the folders of the system's commands, which Debian's users do not have."""
    return f"{environment.get('PATH', '')}:{_SYSTEM}"


def check_machine(*, environment: Mapping[str, str]) -> None:
    """Raises MachineError with everything that is missing. Changes nothing."""
    check_root()
    if missing := missing_controllers():
        raise MachineError(f"the cluster needs control groups: /sys/fs/cgroup lacks {', '.join(missing)}")
    path = search_path(environment)
    lacking = [command for command in _COMMANDS if shutil.which(command, path=path) is None]
    lacking += [f"{CNI}/{name}" for name in ("ptp", "host-local", "portmap", "loopback") if not (CNI / name).exists()]
    if lacking:
        raise MachineError(f"the cluster needs {', '.join(lacking)} (Debian: apt-get install {PACKAGES})")


def check_root() -> None:
    if os.geteuid():
        raise MachineError(f"the cluster needs root, got the user id {os.geteuid()}")


def read_kernel_settings() -> dict[str, str]:
    """The current values of the settings that the cluster changes."""
    return {name: _setting(name).read_text() for name in (*_CHANGED, _AUTOGROUP) if _setting(name).exists()}


def save_kernel_settings(file: Path) -> None:
    file.write_text(json.dumps(read_kernel_settings()))


def let_niceness_count() -> None:
    """Between all programs that start from now on, until the settings are restored, which have to be saved before.

    Otherwise each session gets as much CPU as any other, and how nice its processes are counts only among themselves.
    """
    if _setting(_AUTOGROUP).exists():
        _setting(_AUTOGROUP).write_text("0")


def restore_kernel_settings(file: Path) -> None:
    """Restore the saved values, if there are any."""
    with suppress(FileNotFoundError):
        for name, value in json.loads(file.read_text()).items():
            if _setting(name).read_text() != value:
                _setting(name).write_text(value)


def _setting(name: str) -> Path:
    return Path("/proc/sys", *name.split("."))
