"""Write the hashed requirements of the image: run ``python deploy/make_requirements.py`` after constraints.txt changed.

The versions are those of ``constraints.txt``. pip reports the file that it would install for each Python and processor
that the image may be built for, and its hash. The program installs nothing, and writes no addresses.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PYTHONS: Final = ("3.11", "3.12", "3.13")
PROCESSORS: Final = ("x86_64", "aarch64")
PLATFORMS: Final = ("manylinux_2_17", "manylinux2014", "manylinux_2_24", "manylinux_2_28", "manylinux_2_34")
"""Platforms that pip of the base image accepts: its C library is newer than all of these."""
_HEAD: Final = (
    "# Written by make_requirements.py: names, versions and hashes. The package index depends on the machine."
)


def hashes(requirements: list[str], *, python: str, processor: str) -> dict[str, set[str]]:
    """By ``name==version``, with all that they require."""
    platforms = [f"--platform={each}_{processor}" for each in PLATFORMS]
    with tempfile.TemporaryDirectory() as target:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report=-"),
                *("--disable-pip-version-check", f"--constraint={ROOT / 'constraints.txt'}", f"--target={target}"),
                *(f"--python-version={python}", "--only-binary=:all:", *platforms, *requirements),
            ],
            stdout=subprocess.PIPE,
            check=True,
        )
    found: dict[str, set[str]] = {}
    for each in json.loads(done.stdout)["install"]:
        name, version = each["metadata"]["name"], each["metadata"]["version"]
        found[f"{name}=={version}"] = {each["download_info"]["archive_info"]["hashes"]["sha256"]}
    return found


def write(file: Path, requirements: list[str]) -> None:
    pinned: defaultdict[str, set[str]] = defaultdict(set)
    for python in PYTHONS:
        for processor in PROCESSORS:
            for name, found in hashes(requirements, python=python, processor=processor).items():
                pinned[name] |= found
    lines = (
        " \\\n    ".join((name, *(f"--hash=sha256:{each}" for each in sorted(pinned[name]))))
        for name in sorted(pinned, key=str.lower)
    )
    file.write_text("\n".join((_HEAD, *lines)) + "\n")


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = project["project"]["dependencies"] + project["project"]["optional-dependencies"]["controller"]
    write(ROOT / "deploy" / "requirements.txt", needed)
    write(ROOT / "deploy" / "build-requirements.txt", project["build-system"]["requires"])


if __name__ == "__main__":
    main()
