"""Builds the documentation site: ``python -m release.documentation [--output FOLDER] [NAME=REVISION ...]``.

Each version is a folder of the site, ``dev`` for the working tree and ``0.1`` for the newest release of 0.1. Pages find
the other versions in ``versions.js``, which lies beside the folders. Without arguments the versions are ``dev`` and
those that have a tag (``v0.1.0``). How pages look is in ``docs/site/``, as it was at each revision.
"""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import click
from e2e.caches import alone, cache_folder

from release import site_check, site_pages
from release.source_date import ROOT

REQUIREMENTS: Final = ROOT / "site-requirements.txt"
WORKING_TREE: Final = "."
DEV: Final = "dev"
_LIST: Final = "versions.js"
_TAG: Final = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.-]*")


class SiteError(Exception):
    """A few lines: what is wrong, and where."""


class Version(NamedTuple):
    """``name`` is its folder on the site, ``revision`` git's name of what is built, or ``WORKING_TREE``."""

    name: str
    revision: str


# --- versions ---------------------------------------------------------------------------------------------------------


def released(tags: Iterable[str]) -> list[Version]:
    """The newest release of each minor, newest first."""
    newest: dict[tuple[int, int], tuple[int, str]] = {}
    for tag in tags:
        if match := _TAG.fullmatch(tag):
            major, minor, patch = (int(part) for part in match.groups())
            newest[major, minor] = max(newest.get((major, minor), (-1, "")), (patch, tag))
    return [Version(f"{major}.{minor}", tag) for (major, minor), (_, tag) in sorted(newest.items(), reverse=True)]


def asked_for(arguments: Sequence[str], tags: Iterable[str]) -> list[Version]:
    """The versions of the arguments; without any, ``dev`` and all that were released. Raises SiteError."""
    if not arguments:
        return [Version(DEV, WORKING_TREE), *released(tags)]
    versions = []
    for argument in arguments:
        name, sign, revision = argument.partition("=")
        if not (sign and revision and _NAME.fullmatch(name)):
            raise SiteError(f"expected NAME=REVISION, such as 0.1=v0.1.0 or dev=., got {argument!r}")
        versions.append(Version(name, revision))
    return versions


def list_of_versions(versions: Sequence[Version], pages: Mapping[str, Sequence[str]]) -> str:
    """The script ``versions.js``: names, what is shown of them, and their pages, as ``switcher.js`` reads them."""
    newest = next((version.name for version in versions if version.name != DEV), None)
    listed = [
        {
            "name": name,
            "title": f"{name} (newest release)"
            if name == newest
            else f"{name} (not released)"
            if name == DEV
            else name,
            "newest": name == newest,
            "pages": sorted(pages[name]),
        }
        for name, _ in versions
    ]
    return f"window.zonewardVersions = {json.dumps(listed, separators=(',', ':'))};\n"


def entrance(name: str) -> str:
    """The page above all versions: it leads to one."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Zoneward</title>'
        f'<meta http-equiv="refresh" content="0; url={name}/index.html"></head>'
        f'<body><p><a href="{name}/index.html">Zoneward {name}</a></p></body></html>\n'
    )


# --- building ---------------------------------------------------------------------------------------------------------


def build(versions: Sequence[Version], output: Path, *, environment: Mapping[str, str], root: Path = ROOT) -> list[str]:
    """Replaces ``output``, and checks it. Gives the addresses outside of the site that its pages link to.

    Raises SiteError with what Sphinx or the check found; then ``output`` is as it was before. What is no site is never
    replaced by one.
    """
    if output.exists() and not (output / _LIST).exists():
        raise SiteError(f"{output}: expected a site or nothing there, got something else")
    python = _tools(environment)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".site-", dir=output.parent) as name:
        site = Path(name, "site")
        with ThreadPoolExecutor() as pool:
            building = [
                pool.submit(_build_version, version, site / version.name, python, environment, root)
                for version in versions
            ]
        for future in building:
            future.result()
        pages = {
            version.name: [str(page.relative_to(site / version.name)) for page in (site / version.name).rglob("*.html")]
            for version in versions
        }
        (site / _LIST).write_text(list_of_versions(versions, pages))
        first = next((version.name for version in versions if version.name != DEV), versions[0].name)
        (site / "index.html").write_text(entrance(first))
        # Else a code host that serves the site would leave out folders that begin with an underscore.
        (site / ".nojekyll").touch()
        checked = site_check.check(site)
        if checked.problems:
            raise SiteError("\n".join(checked.problems))
        shutil.rmtree(output, ignore_errors=True)
        site.rename(output)
    return checked.external


def _build_version(version: Version, folder: Path, python: Path, environment: Mapping[str, str], root: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        tree, doctrees = Path(name, "tree"), Path(name, "doctrees")
        copy_tree(version.revision, tree, root)
        site_pages.prepare(tree)
        shutil.copy(tree / "docs" / "site" / "conf.py", tree / "conf.py")
        sphinx = [str(python), "-m", "sphinx", "--builder", "html", "--fail-on-warning", "--keep-going", "--quiet"]
        done = subprocess.run(
            [*sphinx, "--no-color", "--doctree-dir", str(doctrees), str(tree), str(folder)],
            env={**environment, "ZONEWARD_SITE_VERSION": version.name},
            cwd=tree,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SiteError(f"{version.name}: {done.stderr.replace(f'{tree}/', '').strip()}")
        # What only another run of Sphinx reads.
        for rest in (".buildinfo", "objects.inv"):
            (folder / rest).unlink(missing_ok=True)


# --- trees ------------------------------------------------------------------------------------------------------------


def copy_tree(revision: str, tree: Path, root: Path) -> None:
    """Writes the files of a revision to ``tree``, or those of the working tree that git does not ignore."""
    if revision != WORKING_TREE:
        with tarfile.open(fileobj=io.BytesIO(_git(root, "archive", "--format=tar", revision, "--"))) as archive:
            archive.extractall(tree, filter="data")
        if not (tree / site_pages.FRONT).exists():
            raise SiteError(f"{revision}: expected {site_pages.FRONT} in it, got none")
        return
    for name in _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").decode().split("\0"):
        if name and (root / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, tree / name)


def _git(root: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True)
    except OSError as error:
        raise SiteError(f"expected git, got none ({error.strerror})") from error
    if done.returncode:
        raise SiteError(f"git {arguments[0]}: {done.stderr.decode().strip().splitlines()[-1]}")
    return done.stdout


# --- tools ------------------------------------------------------------------------------------------------------------


def _tools(environment: Mapping[str, str]) -> Path:
    """A Python with exactly the tools of ``site-requirements.txt``, kept outside the tree, for every clone."""
    wanted = REQUIREMENTS.read_bytes() + sys.version.encode() + os.fsencode(sys.base_prefix)
    folder = cache_folder("zoneward-site", environment=environment) / hashlib.sha256(wanted).hexdigest()[:12]
    python, ready = folder / "bin" / "python", folder / "ready"
    if ready.exists() and python.exists():
        return python
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder):
        if not ready.exists():
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
            # The constraints of the project's own environment are not those of this one.
            own = {name: value for name, value in environment.items() if name != "PIP_CONSTRAINT"}
            for command in ([sys.executable, "-m", "venv", str(folder)], [*pip, "--requirement", str(REQUIREMENTS)]):
                done = subprocess.run(command, capture_output=True, text=True, env=own)
                if done.returncode:
                    raise SiteError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
            ready.touch()
    return python


@click.command()
@click.option("--output", type=click.Path(path_type=Path), default=ROOT / "dist" / "site", help="Default: dist/site.")
@click.argument("versions", nargs=-1, metavar="[NAME=REVISION]...")
def main(output: Path, versions: tuple[str, ...]) -> None:
    """Build the documentation site, strictly, and check its links."""
    try:
        tags = () if versions else _git(ROOT, "tag", "--list").decode().split()
        asked = asked_for(versions, tags)
        external = build(asked, output, environment=os.environ)
    except SiteError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    click.echo(f"{output / 'index.html'}: {', '.join(version.name for version in asked)}")
    click.echo(f"links to other hosts, not followed: {len(external)}")
    for address in external:
        click.echo(f"  {address}")


if __name__ == "__main__":
    main()
