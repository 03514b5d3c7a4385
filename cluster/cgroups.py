"""Control groups: everything in the cluster runs below one, which finds and ends it however it was started.

``/zoneward-cluster/programs/NAME`` has the processes of a program that `cluster.box` started, and
``/zoneward-cluster/NODE`` is the root of a kubelet, in which it puts its Pods.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

NAME: Final = "zoneward-cluster"
_ROOT: Final = Path("/sys/fs/cgroup")
_NEEDED: Final = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "pids")
"""Controllers that a kubelet needs; in version 1 each is a separate hierarchy."""
_ENABLED: Final = "+cpu +cpuset +memory +pids +io"
_SHARES: Final = 64 * 1024
"""Of version 1, where the programs are outside of the group of all Pods. It would get as much as one program does, and
requests would wait for all of these: 18 and 22 of 2,300 took over 0.8 s in a rollout, and none since."""
_PATIENCE: Final = 60.0
"""Seconds until processes that were killed have ended."""
_TERM_PATIENCE: Final = 20.0


def missing_controllers(root: Path = _ROOT) -> list[str]:
    """The controllers that a kubelet needs and that are missing."""
    if _is_unified(root):
        available = set((root / "cgroup.controllers").read_text().split())
        return [name for name in ("cpu", "cpuset", "memory", "pids") if name not in available]
    return [controller for controller in _NEEDED if not (root / controller / "cgroup.procs").exists()]


def make_group(name: str) -> str:
    """A kubelet's root in every hierarchy, as its configuration names it."""
    for hierarchy in _hierarchies():
        group = hierarchy
        for child in (NAME, name):
            if _is_unified():
                (group / "cgroup.subtree_control").write_text(_ENABLED)
            parent, group = group, group / child
            group.mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):
                # Of version 1: a group without CPUs takes no process.
                if hierarchy.name == "cpuset":
                    (group / file).write_text((parent / file).read_text())
            if (group / "cpu.shares").exists():
                (group / "cpu.shares").write_text(str(_SHARES))
        if _is_unified():
            (group / "cgroup.subtree_control").write_text(_ENABLED)
    return f"/{NAME}/{name}"


def enter_group(name: str) -> list[str]:
    """The beginning of a command line that runs in the group of a program, with everything that it starts."""
    group = _program(name)
    group.mkdir(parents=True, exist_ok=True)
    return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]


def processes(name: str | None = None) -> list[int]:
    """The processes of a program, or all of the cluster's."""
    if name is not None:
        return _processes_below(_program(name))
    return sorted({pid for hierarchy in _hierarchies() for pid in _processes_below(hierarchy / NAME)})


def end_program(name: str) -> None:
    """Send SIGTERM to its processes, and SIGKILL after 20 s. Raises TimeoutError."""
    limit = time.monotonic() + _TERM_PATIENCE
    _signal(processes(name), signal.SIGTERM)
    while processes(name) and time.monotonic() < limit:
        time.sleep(0.05)
    kill_programs(name)
    with suppress(OSError):
        _program(name).rmdir()


def kill_programs(*names: str) -> None:
    """Send SIGKILL to the processes of programs until all have ended. Raises TimeoutError."""
    _kill(lambda: [pid for name in names for pid in processes(name)])


def kill_pods(node: str) -> None:
    """Send SIGKILL to the processes of a node's Pods until all have ended. Raises TimeoutError."""
    _kill(lambda: _processes_below(_tracking() / NAME / node))


def end_all() -> None:
    """Kill every process of the cluster and remove its groups. Raises TimeoutError if the kernel keeps some."""
    limit = time.monotonic() + _PATIENCE
    while groups := groups_left():
        # One that was being started when the start was interrupted may enter its group only now.
        _kill(processes)
        for group in groups:
            # The kernel may hold one for a moment after its last process has gone.
            with suppress(OSError):
                group.rmdir()
        if time.monotonic() > limit:
            raise TimeoutError(f"control groups that cannot be removed: {', '.join(map(str, groups_left()))}")
        time.sleep(0.02)


def groups_left() -> list[Path]:
    """All groups of the cluster, children first."""
    groups = []
    for hierarchy in _hierarchies():
        for folder, _, _ in os.walk(hierarchy / NAME, topdown=False):
            groups.append(Path(folder))
    return groups


def _processes_below(group: Path) -> list[int]:
    pids: set[int] = set()
    for folder, _, _ in os.walk(group):
        with suppress(OSError):
            # Zero is a process outside of our process namespace.
            pids.update(int(line) for line in Path(folder, "cgroup.procs").read_text().split() if line != "0")
    return sorted(pids)


def _kill(find: Callable[[], list[int]]) -> None:
    limit = time.monotonic() + _PATIENCE
    while left := find():
        _signal(left, signal.SIGKILL)
        if time.monotonic() > limit:
            raise TimeoutError(f"processes that do not end: {', '.join(map(str, left))}")
        time.sleep(0.05)


def _signal(pids: list[int], signal_number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal_number)


def _is_unified(root: Path = _ROOT) -> bool:
    """Version 2: one hierarchy for all controllers."""
    return (root / "cgroup.controllers").exists()


def _hierarchies() -> list[Path]:
    if _is_unified():
        return [_ROOT]
    # A program may be in every one, also in those that no kubelet asks for.
    return sorted(file.parent for file in _ROOT.glob("*/cgroup.procs"))


def _tracking() -> Path:
    return _ROOT if _is_unified() else _ROOT / "pids"


def _program(name: str) -> Path:
    return _tracking() / NAME / "programs" / name
