"""The project's own image for the nodes, as `make image` builds it."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import IO

from cluster.lifecycle import Cluster
from cluster.sites import SITES
from release.image import ARCHIVE, REFERENCE
from release.source_date import ROOT


def project_image() -> Path:
    """Its archive; built first unless that is of this commit, as the tests of the image leave it."""
    if _revision() != _head():
        subprocess.run([sys.executable, "-m", "release.image"], cwd=ROOT, check=True)
    return ARCHIVE


def _revision() -> str:
    """The commit of the archive, with ``-dirty`` if there were other changes."""
    if not ARCHIVE.exists():
        return ""
    with tarfile.open(ARCHIVE) as archive:
        (manifest,) = json.load(_member(archive, "manifest.json"))
        labels = json.load(_member(archive, manifest["Config"]))["config"]["Labels"]
    return str(labels["org.opencontainers.image.revision"])


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    member = archive.extractfile(name)
    assert member is not None
    return member


def _head() -> str | None:
    """The current commit; None if there are other changes."""
    commands = ("status", "--porcelain"), ("rev-parse", "HEAD")
    changes, commit = (
        subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        for command in commands
    )
    return None if changes else commit


def tag_project_image(cluster: Cluster, name: str) -> None:
    """Another name for it on every node."""
    for site in SITES:
        cluster.box.run("ctr", "--namespace=k8s.io", "images", "tag", "--force", REFERENCE, name, inside=site.name)
