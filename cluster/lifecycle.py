"""From nothing to a cluster that is ready, and back: `start_cluster`, `stop_cluster`, and `open_cluster` in between;
`own_cluster` does both.

There is one cluster on a machine. All that it writes is in one folder; what starts it makes that first, and
`stop_cluster` removes it last.
"""

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from cluster.box import WAIT, Box
from cluster.cgroups import end_all, enter_group, groups_left
from cluster.control_plane import ControlPlane
from cluster.images import make_images
from cluster.machine import (
    MachineError,
    check_machine,
    let_niceness_count,
    restore_kernel_settings,
    save_kernel_settings,
)
from cluster.network import join_nodes, make_wire
from cluster.node import (
    import_image,
    make_node,
    node_folder,
    start_containerd,
    start_containerd_and_wait,
    start_kubelet,
)
from cluster.parts import Mode, Parts
from cluster.programs import build_all, find_all
from cluster.sites import SITES, Site
from e2e.processes import wait_until

FOLDER: Final = Path("/var/tmp/zoneward-cluster")
"""On a disk: containers' file systems are in there, and the nodes have their own folders at /run and /var/lib."""
KUBECTL: Final = FOLDER / "kubectl"
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""They interrupt everything except the end of a cluster."""
_SETTINGS: Final = FOLDER / "kernel.json"
_SNAPSHOTS: Final = "io.containerd.snapshotter.v1.overlayfs/snapshots"
_DATABASES: Final = ("io.containerd.metadata.v1.bolt/meta.db", "io.containerd.snapshotter.v1.overlayfs/metadata.db")
_MANIFESTS: Final = Path(__file__).parent / "manifests"


class Cluster:
    """A running cluster: ``box`` has its programs, ``plane`` its API, ``parts`` its controllers and proxies."""

    def __init__(self, programs: Mapping[str, Path]) -> None:
        self.programs: Final = dict(programs)
        self.box: Final = Box(FOLDER)
        self.plane: Final = ControlPlane(self.box, self.programs)
        self.parts: Final = Parts(self.box, self.plane, self.programs, SITES)
        self.kubectl: Final[Callable[..., str]] = self.plane.kubectl


def start_cluster(mode: Mode, *, more_images: Sequence[Path] = (), niceness_counts: bool = False) -> Cluster:
    """Builds what is missing, and returns once all nodes and CoreDNS are ready.

    An exception before that, KeyboardInterrupt as well, ends what has been started. Raises MachineError and
    ProgramsError before anything is started, and ProcessError and BoxError later.

    ``more_images``: archives of images for all nodes. ``niceness_counts``: control plane, proxies and Pods get CPU
    before kubelets and containerd. Otherwise each program gets as much as any other.
    """
    check_machine(environment=os.environ)
    if is_there():
        raise MachineError("a cluster runs already, or was left behind: `make cluster-down` ends it")
    build_all()
    images = make_images(environment=os.environ)
    try:
        return _start(mode, images, more_images, niceness_counts=niceness_counts)
    except BaseException:
        stop_cluster()
        raise


def stop_cluster() -> None:
    """End all processes, and remove everything that the cluster left, if there is one."""
    before = {signal_number: signal.signal(signal_number, signal.SIG_IGN) for signal_number in SIGNALS}
    try:
        end_all()
        restore_kernel_settings(_SETTINGS)
        if FOLDER.exists():
            shutil.rmtree(FOLDER)
    finally:
        for signal_number, handler in before.items():
            signal.signal(signal_number, handler)


@contextmanager
def own_cluster(*, more_images: Sequence[Path] = (), niceness_counts: bool = False) -> Iterator[Cluster]:
    """A cluster with the built-in parts, which ends with the block."""
    cluster = start_cluster(Mode.BUILT_IN, more_images=more_images, niceness_counts=niceness_counts)
    try:
        yield cluster
    finally:
        stop_cluster()
        cluster.box.reap()


def open_cluster() -> Cluster:
    """The running cluster. Raises MachineError if there is none."""
    if not KUBECTL.exists():
        raise MachineError("no cluster runs: `make cluster` starts one")
    return Cluster(find_all())


def is_there() -> bool:
    """Whether there is a cluster, or leftovers of one."""
    return FOLDER.exists() or bool(groups_left())


def _start(mode: Mode, images: Sequence[Path], more: Sequence[Path], *, niceness_counts: bool) -> Cluster:
    began = time.monotonic()

    def report(what: str) -> None:
        click.echo(f"{time.monotonic() - began:5.0f} s  {what}", err=True)

    FOLDER.mkdir(mode=0o700)
    save_kernel_settings(_SETTINGS)
    if niceness_counts:
        let_niceness_count()
    cluster = Cluster(find_all())
    box, plane = cluster.box, cluster.plane
    box.containers_go_last = niceness_counts
    box.make(cluster.programs)
    make_wire(box)
    for site in SITES:
        make_node(box, site)
    join_nodes(box, SITES)
    report("the nodes' namespaces are made")
    _fill_nodes(box, images, more)
    for site in SITES:
        start_containerd(box, site)
    plane.start(SITES)
    plane.start_controllers()
    report("the control plane is ready")
    kubelets = [start_kubelet(box, site, plane.kubeconfig(f"system:node:{site.name}")) for site in SITES]
    wait_until(lambda: len(_nodes(cluster)) == len(SITES), "all nodes", *kubelets)
    for site in SITES:
        cidrs = f'{{"spec": {{"podCIDR": "{site.pods[0]}", "podCIDRs": ["{site.pods[0]}", "{site.pods[1]}"]}}}}'
        plane.kubectl("patch", "node", site.name, f"--patch={cidrs}")
    cluster.parts.start(mode)
    plane.kubectl("apply", f"--filename={_MANIFESTS}")
    plane.kubectl("wait", "--for=condition=Ready", "nodes", "--all", WAIT)
    report("the nodes are ready")
    plane.kubectl("rollout", "status", "deployment/coredns", "--namespace=kube-system", WAIT)
    _write_kubectl(cluster)
    report("the cluster is ready")
    return cluster


def _nodes(cluster: Cluster) -> list[str]:
    return cluster.kubectl("get", "nodes", "--output=name").split()


def _write_kubectl(cluster: Cluster) -> None:
    """A command for the machine's shell: kubectl in the box's network, with the machine's files and folders."""
    words = ["nsenter", f"--net={cluster.box.network('box')}", "--", *map(str, cluster.plane.kubectl_command)]
    KUBECTL.touch(mode=0o700)
    KUBECTL.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')


# --- images -----------------------------------------------------------------------------------------------------------
# containerd's folder with the cluster's images unpacked is made once. A node links to its blobs and snapshots, which
# are only read: six nodes start and end as quickly as one, and the kernel has each program in memory once.


def _fill_nodes(box: Box, images: Sequence[Path], more: Sequence[Path]) -> None:
    """Before any containerd of the cluster starts. ``images`` are kept beside their archives, ``more`` are not."""
    first, *others = SITES
    store = images[0].parent / "containerd"
    if not store.exists():
        click.echo("unpacking the images ...", err=True)
        _import_images(box, first, images)
        part = store.with_name(".containerd.part")
        shutil.rmtree(part, ignore_errors=True)
        # As a program of the cluster, which ends with it.
        subprocess.run([*enter_group("commands"), "mv", _root(box, first), part], check=True)
        part.rename(store)
    _link_images(store, _root(box, first))
    if more:
        _import_images(box, first, more)
    for site in others:
        _link_images(_root(box, first), _root(box, site))


def _import_images(box: Box, site: Site, archives: Sequence[Path]) -> None:
    start_containerd_and_wait(box, site)
    for archive in archives:
        import_image(box, site, archive)
    box.end(f"containerd-{site.name}")


def _link_images(source: Path, target: Path) -> None:
    snapshots = source / _SNAPSHOTS

    def without_snapshots(folder: str, names: list[str]) -> list[str]:
        return names if folder == str(snapshots) else []

    shutil.copytree(source, target, copy_function=_link_or_copy, ignore=without_snapshots)
    for snapshot in snapshots.iterdir():
        (target / _SNAPSHOTS / snapshot.name).symlink_to(snapshot.resolve())
    for database in _DATABASES:
        (target / database).unlink()
        shutil.copy2(source / database, target / database)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        # On another file system.
        shutil.copy2(source, target)


def _root(box: Box, site: Site) -> Path:
    return node_folder(box, site) / "var/lib/containerd"
