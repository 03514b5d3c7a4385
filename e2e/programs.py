"""The programs of a real control plane: built from their Go modules once, and kept outside the tree.

``python -m e2e.programs`` builds what is missing and prints the folder; ``python -m e2e.programs 1.35 1.36`` does so
for earlier minors of Kubernetes. It ends with 2 and one line where Go is missing.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from e2e.caches import alone, cache_folder

VERSION: Final = "v1.37.2"
"""Of Kubernetes, as in go.mod: the programs report it to clients, and kubectl and feature gates read it."""
NEWEST: Final = "1.37"
VERSIONS: Final = {"1.35": "v1.35.8", "1.36": "v1.36.3", NEWEST: VERSION}
"""By minor, the oldest first."""
MINOR: Final = "KUBERNETES"
"""The variable with the minor that tests run on; the newest without it."""
MINORS: Final = "KUBERNETES_MINORS"
"""The variable with the minors of which tests try skews, with spaces between them."""
MODULES: Final = Path(__file__).parent / "control-plane"
EARLIER: Final = Path(__file__).parent / "earlier-minors"
"""Module files of the earlier minors: the mains are the same."""
_OF_A_MINOR: Final = ("kube-apiserver", "kube-controller-manager", "kube-proxy")
_GO: Final = (1, 26)


class ProgramsError(Exception):
    """One line: what is missing, and what gives it."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a program is built from: a package, as seen from a folder of a module; ``is_test`` for one of tests."""

    folder: Path
    package: str = "."
    is_test: bool = False


@dataclass(frozen=True, slots=True)
class Programs:
    """Programs of the modules below a folder, by their names.

    ``what`` they are, ``target`` of make that builds them, and ``cache``, the folder among the user's caches that keeps
    them. ``version`` is Kubernetes', and ``module_file`` is used in place of the go.mod of its modules.
    """

    what: str
    target: str
    cache: str
    modules: Path
    sources: Mapping[str, Source]
    version: str = VERSION
    module_file: Path | None = None

    def find(self, *, environment: Mapping[str, str]) -> dict[str, Path]:
        """Each program's file by its name. Raises ProgramsError where one has not been built: tests never build."""
        folder = self.folder(environment=environment)
        paths = {name: folder / name for name in self.sources}
        missing = [name for name, file in paths.items() if not file.exists()]
        if missing:
            raise ProgramsError(
                f"{folder} lacks {', '.join(missing)}: `make {self.target}` builds them with {_needed()}"
            )
        return paths

    def folder(self, *, environment: Mapping[str, str]) -> Path:
        """Where programs built from exactly these module files and flags are kept."""
        digest = hashlib.sha256("\0".join(_flags(self.version)).encode())
        for file in sorted(self.modules.rglob("*")):
            if file.name in {"go.mod", "go.sum"} or file.suffix == ".go":
                digest.update(f"\0{file.relative_to(self.modules)}\0".encode() + file.read_bytes())
        if self.module_file is not None:
            digest.update(self.module_file.read_bytes())
        return cache_folder(self.cache, environment=environment) / f"{self.version}-{digest.hexdigest()[:12]}"

    def build(self, *, environment: Mapping[str, str]) -> Path:
        """Builds what is missing, one program after the other, with the patience of a background job."""
        folder = self.folder(environment=environment)
        if any(not (folder / name).exists() for name in self.sources):
            go = _find_go(self.what, self.modules, environment)
            folder.mkdir(parents=True, exist_ok=True)
            with alone(folder):
                for name, source in self.sources.items():
                    if not (folder / name).exists():
                        self._build(go, source, folder / name, environment=environment)
        return folder

    def _build(self, go: str, source: Source, file: Path, *, environment: Mapping[str, str]) -> None:
        click.echo(f"building {file.name} for {self.what} ...", err=True)
        began = time.monotonic()
        part = file.with_name(f".{file.name}.part")
        verb = ["test", "-c"] if source.is_test else ["build"]
        flags = [*_flags(self.version), *(() if self.module_file is None else (f"-modfile={self.module_file}",))]
        command = ["nice", "-n", "19", go, *verb, *flags, "-o", str(part), source.package]
        took = subprocess.run(command, cwd=source.folder, env=_go_environment(environment))
        if took.returncode:
            raise ProgramsError(f"go build of {file.name} ended with {took.returncode}: its messages are above")
        # A build that is interrupted leaves no half program: only whole ones get the name.
        part.replace(file)
        seconds, size = time.monotonic() - began, file.stat().st_size >> 20
        click.echo(f"built {file.name}: {seconds:.0f} s, {size} MiB", err=True)


CONTROL_PLANE: Final = Programs(
    what="the control plane of the end-to-end tests",
    target="e2e",
    cache="zoneward-control-plane",
    modules=MODULES,
    sources={
        name: Source(MODULES / name)
        for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kubectl")
    },
)


def find_programs(*, environment: Mapping[str, str], minor: str | None = None) -> dict[str, Path]:
    """The control plane's of a minor, or of the one that the environment names, as `Programs.find` has them."""
    paths = CONTROL_PLANE.find(environment=environment)
    minor = minor or chosen_minor(environment)
    return paths if minor == NEWEST else paths | _of_earlier(minor).find(environment=environment)


def build_programs(*, environment: Mapping[str, str], minor: str | None = None) -> Path:
    """The control plane's, as `Programs.build` does it."""
    folder = CONTROL_PLANE.build(environment=environment)
    minor = minor or chosen_minor(environment)
    return folder if minor == NEWEST else _of_earlier(minor).build(environment=environment)


def chosen_minor(environment: Mapping[str, str]) -> str:
    """Raises ProgramsError."""
    return _known(environment.get(MINOR) or NEWEST)


def tried_minors(environment: Mapping[str, str]) -> list[str]:
    """The minors of which skews are tried, oldest first. Raises ProgramsError."""
    named = environment.get(MINORS, "").split() or [chosen_minor(environment)]
    return [minor for minor in VERSIONS if minor in map(_known, named)]


def _of_earlier(minor: str) -> Programs:
    """What is of the minor itself; etcd and kubectl are always the newest's."""
    return Programs(
        what=f"the control plane of Kubernetes {minor}",
        target="e2e-minors",
        cache=CONTROL_PLANE.cache,
        modules=MODULES,
        sources={name: CONTROL_PLANE.sources[name] for name in _OF_A_MINOR},
        version=VERSIONS[minor],
        module_file=EARLIER / f"v{minor}.mod",
    )


def _known(minor: str) -> str:
    if minor not in VERSIONS:
        raise ProgramsError(f"expected a minor of Kubernetes ({', '.join(VERSIONS)}), got {minor}")
    return minor


def _flags(version: str) -> tuple[str, ...]:
    major, minor = version.removeprefix("v").split(".")[:2]
    settings = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return (
        "-trimpath",
        # They are built in another project's tree, which may be no checkout at all.
        "-buildvcs=false",
        "-ldflags=-s -w "
        + " ".join(
            f"-X {package}.{name}={value}"
            for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
            for name, value in settings.items()
        ),
    )


def _find_go(what: str, modules: Path, environment: Mapping[str, str]) -> str:
    go = shutil.which("go", path=environment.get("PATH", ""))
    if go is None:
        raise ProgramsError(f"{what} needs {_needed()}, got none on PATH")
    printed = subprocess.run(
        [go, "env", "GOVERSION"], capture_output=True, text=True, cwd=modules.parent, env=_go_environment(environment)
    ).stdout.strip()
    version = re.match(r"go(\d+)\.(\d+)", printed)
    if version is None or (int(version[1]), int(version[2])) < _GO:
        raise ProgramsError(f"{what} needs {_needed()}, got {printed or 'no version'} in {go}")
    return go


def _needed() -> str:
    return f"Go {_GO[0]}.{_GO[1]} or newer"


def _go_environment(environment: Mapping[str, str]) -> dict[str, str]:
    # An older Go would else fetch a newer one by itself, and a workspace or flags of the user's would change the build.
    # Without cgo no C compiler is needed, and the programs run wherever the kernel does.
    return {**environment, "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "", "CGO_ENABLED": "0"}


@contextmanager
def exit_where_missing() -> Iterator[None]:
    """Of a command: status 2 and one line where something is missing."""
    try:
        yield
    except ProgramsError as error:
        click.echo(error, err=True)
        sys.exit(2)


if __name__ == "__main__":
    with exit_where_missing():
        for version in sys.argv[1:] or [chosen_minor(os.environ)]:
            click.echo(build_programs(environment=os.environ, minor=_known(version)))
