"""The project's own image on the nodes, as `make image` writes it."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from cluster.lifecycle import Cluster
from cluster.node import import_image
from cluster.sites import SITES
from release.image import ARCHIVE, REFERENCE
from release.source_date import ROOT


def load_project_image(cluster: Cluster) -> None:
    """Onto every node; built first where it is not there."""
    if not ARCHIVE.exists():
        subprocess.run([sys.executable, "-m", "release.image"], cwd=ROOT, check=True)
    with ThreadPoolExecutor(2) as loading:
        list(loading.map(lambda site: import_image(cluster.box, site, ARCHIVE), SITES))


def tag_project_image(cluster: Cluster, name: str) -> None:
    """Another name for it on every node."""
    for site in SITES:
        cluster.box.run("ctr", "--namespace=k8s.io", "images", "tag", "--force", REFERENCE, name, inside=site.name)
