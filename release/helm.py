"""Helm, built from its Go module once and kept outside the tree: ``python -m release.helm`` prints its file.

It renders, checks and packages the chart of ``deploy/helm``. Ends with 2 and one line where Go is missing.
"""

import os
from pathlib import Path
from typing import Final

import click
from e2e.programs import Programs, Source, exit_where_missing

from release.source_date import ROOT

CHART: Final = ROOT / "deploy" / "helm"
_MODULE: Final = Path(__file__).parent / "go" / "helm"
HELM: Final = Programs(
    what="the chart", target="e2e", cache="zoneward-helm", modules=_MODULE, sources={"helm": Source(_MODULE)}
)

if __name__ == "__main__":
    with exit_where_missing():
        click.echo(HELM.build(environment=os.environ) / "helm")
