"""The programs of a real control plane: built from their Go modules once, and kept outside the tree.

``python -m e2e.programs`` builds what is missing and prints the folder. It ends with 2 and one line
where Go is missing.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

VERSION: Final = "v1.36.3"
"""Of Kubernetes, as in go.mod: the programs tell it to clients, and kubectl and feature gates read it."""
MODULES: Final = Path(__file__).parent / "control-plane"
PROGRAMS: Final = {
    name: MODULES / name for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kubectl")
}
_GO: Final = (1, 26)
_MAJOR, _MINOR = VERSION.removeprefix("v").split(".")[:2]
_SETTINGS: Final = {"gitVersion": VERSION, "gitMajor": _MAJOR, "gitMinor": _MINOR, "gitTreeState": "clean"}
_FLAGS: Final = (
    "-trimpath",
    # The tree they are built in is not theirs, and may be no checkout at all.
    "-buildvcs=false",
    "-ldflags=-s -w "
    + " ".join(
        f"-X {package}.{name}={value}"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for name, value in _SETTINGS.items()
    ),
)


class ProgramsError(Exception):
    """One line: what is missing, and what gives it."""


def find_programs(*, environment: Mapping[str, str]) -> dict[str, Path]:
    """Each program's file by its name. Raises ProgramsError where one has not been built: tests never build."""
    folder = programs_folder(environment=environment)
    found = {name: folder / name for name in PROGRAMS}
    missing = [name for name, file in found.items() if not file.exists()]
    if missing:
        raise ProgramsError(f"{folder} lacks {', '.join(missing)}: `make e2e` builds them with {_needed()}")
    return found


def programs_folder(*, environment: Mapping[str, str]) -> Path:
    """Where programs built from exactly these module files and flags are kept."""
    digest = hashlib.sha256("\0".join(_FLAGS).encode())
    for file in sorted(MODULES.rglob("*")):
        if file.name in {"go.mod", "go.sum"} or file.suffix == ".go":
            digest.update(f"\0{file.relative_to(MODULES)}\0".encode() + file.read_bytes())
    caches = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME", "/"), ".cache"))
    return Path(caches, "zoneward-control-plane", f"{VERSION}-{digest.hexdigest()[:12]}")


def build_programs(*, environment: Mapping[str, str]) -> Path:
    """Builds what is missing, one program after the other, with the patience of a background job."""
    folder = programs_folder(environment=environment)
    if any(not (folder / name).exists() for name in PROGRAMS):
        go = _find_go(environment)
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            for name, package in PROGRAMS.items():
                if not (folder / name).exists():
                    _build(go, package, folder / name, environment=environment)
    return folder


def _build(go: str, package: Path, file: Path, *, environment: Mapping[str, str]) -> None:
    click.echo(f"building {file.name} ...", err=True)
    began = time.monotonic()
    part = file.with_name(f".{file.name}.part")
    took = subprocess.run(
        ["nice", "-n", "19", go, "build", *_FLAGS, "-o", str(part), "."], cwd=package, env=_go_environment(environment)
    )
    if took.returncode:
        raise ProgramsError(f"go build of {file.name} ended with {took.returncode}: its messages are above")
    # A build that is interrupted leaves no half program: only whole ones get the name.
    part.replace(file)
    seconds, size = time.monotonic() - began, file.stat().st_size >> 20
    click.echo(f"built {file.name}: {seconds:.0f} s, {size} MiB", err=True)


def _find_go(environment: Mapping[str, str]) -> str:
    go = shutil.which("go", path=environment.get("PATH", ""))
    if go is None:
        raise ProgramsError(f"the control plane of the end-to-end tests needs {_needed()}, got none on PATH")
    told = subprocess.run(
        [go, "env", "GOVERSION"], capture_output=True, text=True, cwd=MODULES.parent, env=_go_environment(environment)
    ).stdout.strip()
    version = re.match(r"go(\d+)\.(\d+)", told)
    if version is None or (int(version[1]), int(version[2])) < _GO:
        raise ProgramsError(
            f"the control plane of the end-to-end tests needs {_needed()}, got {told or 'no version'} in {go}"
        )
    return go


def _needed() -> str:
    return f"Go {_GO[0]}.{_GO[1]} or newer"


def _go_environment(environment: Mapping[str, str]) -> dict[str, str]:
    # An older Go would else fetch a newer one by itself, and a workspace or flags of the user's would change the build.
    # Without cgo no C compiler is needed, and the programs run wherever the kernel does.
    return {**environment, "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "", "CGO_ENABLED": "0"}


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two builds at a time would take twice the memory, and build everything twice."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        click.echo(build_programs(environment=os.environ))
    except ProgramsError as error:
        click.echo(error, err=True)
        sys.exit(2)
