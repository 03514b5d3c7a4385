"""containerd's folder with the cluster's images unpacked: made once, kept, and the same files on every node.

A node gets links to the files, which are only read, and copies of the databases. So six nodes start as quickly as one,
and the kernel has each program in memory once.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
from cluster.box import Box
from cluster.cgroups import enter_group
from cluster.node import import_image, node_folder, start_containerd_and_wait
from cluster.sites import Site

_DATABASES: Final = ("io.containerd.metadata.v1.bolt/meta.db", "io.containerd.snapshotter.v1.overlayfs/metadata.db")


def make_store(box: Box, site: Site, archives: Sequence[Path]) -> Path:
    """Beside the archives, by the containerd of a node that runs nothing yet; it does not run afterwards."""
    store = archives[0].parent / "containerd"
    if not store.exists():
        click.echo("unpacking the images ...", err=True)
        start_containerd_and_wait(box, site)
        for archive in archives:
            import_image(box, site, archive)
        box.end(f"containerd-{site.name}")
        part = store.with_name(".containerd.part")
        shutil.rmtree(part, ignore_errors=True)
        _copy(_root(box, site), part)
        part.rename(store)
        shutil.rmtree(_root(box, site))
    return store


def fill_node(box: Box, site: Site, store: Path) -> None:
    """Before its containerd starts."""
    _copy(store, _root(box, site))


def _root(box: Box, site: Site) -> Path:
    return node_folder(box, site) / "var/lib/containerd"


def _copy(source: Path, target: Path) -> None:
    """By links, or as a whole between file systems; as a program of the cluster, which ends with it."""
    copy = [*enter_group("commands"), "cp", "--archive"]
    linked = subprocess.run([*copy, "--link", source, target], capture_output=True, check=False)
    if linked.returncode:
        shutil.rmtree(target, ignore_errors=True)
        subprocess.run([*copy, source, target], check=True)
    for database in _DATABASES:
        (target / database).unlink()
        shutil.copy2(source / database, target / database)
