"""Write the hashed requirements: run ``python deploy/make_requirements.py`` after constraints.txt changed.

The versions are those of ``constraints.txt``, and ``uv`` asks the package index for the hash of each file of such a
version: for every platform and version of Python. The program installs nothing, and writes no addresses.
"""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
IMAGE: Final = ROOT / "deploy" / "requirements.txt"
BUILD: Final = ROOT / "deploy" / "build-requirements.txt"
EVERY_EXTRA: Final = ROOT / "release" / "constraints.txt"
"""For people who install the wheel, whatever the machine and the extras: ``release/packages.py`` adds the wheel."""
_HEAD: Final = (
    "# Written by make_requirements.py: names, versions and hashes. The package index depends on the machine.\n"
)


def hashed(requirements: list[str]) -> str:
    """Every line ``name==version`` with all hashes, of ``requirements`` and of all that they require."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-config", "--universal"),
            *("--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate"),
            *("--constraint", str(ROOT / "constraints.txt"), "-"),
        ],
        input="\n".join(requirements),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed, extras = project["project"]["dependencies"], project["project"]["optional-dependencies"]
    for file, requirements in {
        IMAGE: needed + extras["controller"],
        BUILD: project["build-system"]["requires"],
        EVERY_EXTRA: needed + [requirement for extra in extras.values() for requirement in extra],
    }.items():
        file.write_text(_HEAD + hashed(requirements))


if __name__ == "__main__":
    main()
