"""``python -m release.packages``: what a package index gets, in ``dist/``: the wheel, the sdist, hashed constraints for
the people who install them, and a bill of materials.

Two builds of one commit give the same bytes, wherever and whenever they run: hatchling leaves out owners, modes and
times, and everything bears the date of the source.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Final, Literal

import click

from release.sbom import bill_of_materials, pinned_packages
from release.source_date import ROOT, VARIABLE, SourceDateError, source_date
from zoneward import __version__

DIST: Final = ROOT / "dist"
WHEEL: Final = f"zoneward-{__version__}-py3-none-any.whl"
SDIST: Final = f"zoneward-{__version__}.tar.gz"
CONSTRAINTS: Final = f"zoneward-{__version__}-constraints.txt"
BILL: Final = f"zoneward-{__version__}.cdx.json"


def build(target: Path, *, date: int, root: Path = ROOT, kind: Literal["wheel", "both"] = "both") -> None:
    """Writes the wheel, or it and the sdist, of the tree at ``root`` into ``target``. Takes some seconds."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(target)]
    command += ["--target", "wheel"] if kind == "wheel" else []
    subprocess.run(command, cwd=root, env={**os.environ, VARIABLE: str(date)}, stderr=subprocess.PIPE, check=True)


def constraints(pinned: str, *files: Path) -> str:
    """What ``pip install --constraint`` checks: ``pinned``, and the version and hashes of the wheel and the sdist."""
    hashes = sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in files)
    own = " \\\n".join((f"zoneward=={__version__}", *(f"    --hash=sha256:{hash_}" for hash_ in hashes)))
    head, _, lines = pinned.partition("\n")
    return f"{head}\n{lines.rstrip()}\n{own}\n"


@click.command()
@click.option("--to", type=click.Path(file_okay=False, path_type=Path), default=DIST, show_default="dist")
def main(to: Path) -> None:
    """Build everything for a package index into a folder."""
    try:
        date = source_date(environment=os.environ)
    except SourceDateError as error:
        click.echo(error, err=True)
        sys.exit(2)
    to.mkdir(parents=True, exist_ok=True)
    try:
        build(to.resolve(), date=date)
    except subprocess.CalledProcessError as error:
        click.echo(error.stderr, err=True, nl=False)
        sys.exit(1)
    pinned = (ROOT / "release" / "constraints.txt").read_text()
    (to / CONSTRAINTS).write_text(constraints(pinned, to / WHEEL, to / SDIST))
    needed = pinned_packages((ROOT / "deploy" / "requirements.txt").read_text())
    (to / BILL).write_text(bill_of_materials("zoneward", __version__, needed, source_date=date))
    for name in (WHEEL, SDIST, CONSTRAINTS, BILL):
        click.echo(to / name)


if __name__ == "__main__":
    main()
