"""The programs of a node, Kubernetes' own tests and what these run: built from their Go modules once, and kept.

``python -m cluster.programs`` builds what is missing. It ends with 2 and one line where Go is missing.
"""

import os
from pathlib import Path
from typing import Final

from e2e.programs import CONTROL_PLANE, Programs, Source, exit_where_missing

MODULES: Final = Path(__file__).parent / "programs"
_KUBERNETES: Final = "k8s.io/kubernetes/test/images"
NODE: Final = Programs(
    what="the cluster",
    target="cluster",
    cache="zoneward-cluster",
    modules=MODULES,
    sources={
        "kubelet": Source(MODULES, "./kubelet"),
        "kube-scheduler": Source(MODULES, "./kube-scheduler"),
        "pause": Source(MODULES, "./pause"),
        "opening": Source(MODULES, "./opening"),
        "agnhost": Source(MODULES, f"{_KUBERNETES}/agnhost"),
        "regression-issue-74839": Source(MODULES, f"{_KUBERNETES}/regression-issue-74839"),
        "coredns": Source(MODULES / "coredns"),
    },
)
TESTS: Final = Programs(
    what="Kubernetes' end-to-end suite",
    target="e2e-cluster",
    cache=NODE.cache,
    modules=MODULES,
    sources={
        "ginkgo": Source(MODULES, "github.com/onsi/ginkgo/v2/ginkgo"),
        "e2e.test": Source(MODULES, "./e2e.test", is_test=True),
    },
)


def find_all() -> dict[str, Path]:
    """Each program of the control plane and of a node. Raises ProgramsError."""
    return CONTROL_PLANE.find(environment=os.environ) | NODE.find(environment=os.environ)


def build_all() -> None:
    """Build the missing ones: about 20 minutes for all of them. Raises ProgramsError."""
    for programs in (CONTROL_PLANE, NODE):
        programs.build(environment=os.environ)


if __name__ == "__main__":
    with exit_where_missing():
        build_all()
        TESTS.build(environment=os.environ)
