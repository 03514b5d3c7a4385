"""krew and the checker of its index, built from their Go module once. ``python -m e2e.krew`` builds what is missing."""

import os
from pathlib import Path
from typing import Final

import click
from e2e.programs import Programs, Source, exit_where_missing

MODULE: Final = Path(__file__).parents[1] / "release" / "go" / "krew"
CHECKER: Final = "validate-krew-manifest"
PLUGIN: Final = "kubectl-krew"
"""As kubectl finds it."""
KREW: Final = Programs(
    what="the test of the krew plugin",
    target="e2e",
    cache="zoneward-krew",
    modules=MODULE,
    sources={
        PLUGIN: Source(MODULE, "sigs.k8s.io/krew/cmd/krew"),
        CHECKER: Source(MODULE, f"sigs.k8s.io/krew/cmd/{CHECKER}"),
    },
)

if __name__ == "__main__":
    with exit_where_missing():
        click.echo(KREW.build(environment=os.environ))
