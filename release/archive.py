"""``python -m release.archive``: all that ``zoneward`` needs in one archive, for this machine's platform, in ``dist/``.

Its users need no Python: PyInstaller puts the interpreter and the libraries beside the program. It is run in an
separate environment, in which nothing else is installed, and which is kept in the user's cache. The archive has all
commands except ``simulate``, whose libraries are ten times larger than all others.
"""

import gzip
import hashlib
import io
import os
import platform
import ssl
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click
from e2e.caches import cache_folder
from packaging.utils import canonicalize_name

from release.packages import DIST, WHEEL, build
from release.sbom import Package, bill_of_materials, pinned_packages
from release.source_date import ROOT, VARIABLE, SourceDateError, source_date
from zoneward import __version__

_REQUIREMENTS: Final = ROOT / "deploy" / "requirements.txt"
_CONSTRAINTS: Final = ROOT / "constraints.txt"
_START: Final = Path(__file__).with_name("archive_start.py")
_SYSTEMS: Final = {"Linux": "linux", "Darwin": "darwin"}
_PROCESSORS: Final = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
PROGRAM: Final = "zoneward/zoneward"
"""The path of the program in the archive."""


class ArchiveError(Exception):
    """One line: what was expected, and what was found."""


def platform_name(system: str = platform.system(), processor: str = platform.machine()) -> tuple[str, str]:
    """Operating system and processor, as Go and krew call them. Raises ArchiveError for others than they have."""
    if system not in _SYSTEMS or processor not in _PROCESSORS:
        raise ArchiveError(f"expected Linux or macOS on x86_64 or arm64, got {system} on {processor}")
    return _SYSTEMS[system], _PROCESSORS[processor]


def archive_name(system: str, processor: str) -> str:
    """Of the platform that `platform_name` gives."""
    return f"zoneward-{__version__}-{system}-{processor}.tar.gz"


def write_archive(target: Path, files: Mapping[str, Path], *, date: int) -> None:
    """Packs ``files``, by their path in the archive: the same bytes for the same content. ``date`` is in seconds."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, file in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.mtime, entry.size = date, file.stat().st_size
            entry.mode = 0o755 if file.stat().st_mode & 0o100 else 0o644
            with file.open("rb") as content:
                tar.addfile(entry, content)
    with target.open("wb") as whole, gzip.GzipFile("", "wb", 6, whole, mtime=date) as squeezed:
        squeezed.write(packed.getbuffer())


def _environment(environment: Mapping[str, str]) -> Path:
    """The Python of an environment with the libraries of an archive and PyInstaller, made where it is not there yet."""
    wanted = hashlib.sha256(sys.version.encode() + _REQUIREMENTS.read_bytes() + _CONSTRAINTS.read_bytes()).hexdigest()
    folder = cache_folder("zoneward-archive", environment=environment) / wanted[:12]
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            _run(sys.executable, "-m", "venv", made)
            pip = (f"{made}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
            _run(*pip, "--require-hashes", "--only-binary=:all:", f"--requirement={_REQUIREMENTS}")
            _run(*pip, f"--constraint={_CONSTRAINTS}", "pyinstaller")
            # Another build may have been faster; a half environment never gets the name.
            if not folder.exists():
                Path(made).rename(folder)
                Path(made).mkdir()
    return folder / "bin" / "python"


def _program(python: Path, work: Path, *, date: int) -> Path:
    """The folder of the program, made from the wheel of this tree."""
    build(work, date=date, kind="wheel")
    with zipfile.ZipFile(work / WHEEL) as wheel:
        wheel.extractall(work / "wheel")
    _run(
        *(str(python), "-m", "PyInstaller", "--noconfirm", "--log-level=ERROR", "--onedir", "--name=zoneward"),
        # Commands are imported by name when they are called: no analysis would find them.
        *("--collect-submodules=zoneward", "--collect-data=zoneward", f"--paths={work / 'wheel'}"),
        # No command reads lines from a terminal, and GNU readline has a licence of another kind.
        "--exclude-module=readline",
        *(f"--distpath={work}", f"--workpath={work / 'build'}", f"--specpath={work / 'build'}", str(_START)),
        more={VARIABLE: str(date), "PYTHONHASHSEED": "0", "PYTHONPATH": str(work / "wheel")},
    )
    return work / "zoneward"


def _contents(program: Path, work: Path, python: Path) -> Iterator[tuple[str, Path]]:
    """What is in the archive: the program, its man pages and completions, and the licences of all that is in it."""
    yield "LICENSE", ROOT / "LICENSE"
    for path in program.rglob("*"):
        if path.is_file():
            yield f"zoneward/{path.relative_to(program)}", path
    share = work / "wheel" / f"zoneward-{__version__}.data" / "data" / "share"
    for path in share.rglob("*"):
        if path.is_file():
            yield f"share/{path.relative_to(share)}", path
    # Its first program is PyInstaller's; the other tools of the environment leave nothing in the archive.
    inside = {package.purl.name for package in pinned_packages(_REQUIREMENTS.read_text())} | {"pyinstaller"}
    for metadata in python.parents[1].glob("lib/python*/site-packages/*.dist-info"):
        name = metadata.name.removesuffix(".dist-info")
        for path in metadata.rglob("*") if canonicalize_name(name.partition("-")[0]) in inside else ():
            if path.is_file() and path.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE")):
                yield f"licenses/{name}/{path.name}", path
    python_license = Path(os.__file__).with_name("LICENSE.txt")
    if python_license.exists():
        yield "licenses/python/LICENSE.txt", python_license


def _bill(date: int) -> str:
    """Of the archive: the libraries, the interpreter, and what it links to."""
    packages = pinned_packages(_REQUIREMENTS.read_text())
    packages += [
        Package("python", platform.python_version(), ecosystem="generic", license="PSF-2.0"),
        Package("openssl", ssl.OPENSSL_VERSION.split()[1], ecosystem="generic", license="Apache-2.0"),
    ]
    return bill_of_materials("zoneward", __version__, packages, source_date=date)


def _run(*command: str, more: Mapping[str, str] | None = None) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in {"PIP_CONSTRAINT", "PYTHONPATH"}}
    done = subprocess.run(command, env=environment | dict(more or {}), capture_output=True, text=True)
    if done.returncode:
        raise ArchiveError(
            f"{' '.join(command[:4])} ended with {done.returncode}:\n{done.stdout}{done.stderr}".rstrip()
        )


@click.command()
@click.option("--to", type=click.Path(file_okay=False, path_type=Path), default=DIST, show_default="dist")
def main(to: Path) -> None:
    """Build the archive of this machine's platform, and its bill of materials, into a folder."""
    try:
        name, date = archive_name(*platform_name()), source_date(environment=os.environ)
        python = _environment(os.environ)
        to.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            program = _program(python, Path(folder), date=date)
            write_archive(to / name, dict(_contents(program, Path(folder), python)), date=date)
    except (ArchiveError, SourceDateError) as error:
        click.echo(error, err=True)
        sys.exit(2)
    bill = name.replace(".tar.gz", ".cdx.json")
    (to / bill).write_text(_bill(date))
    for file_name in (name, bill):
        click.echo(to / file_name)


if __name__ == "__main__":
    main()
