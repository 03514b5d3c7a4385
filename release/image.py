"""The container image without a container engine or a registry: ``python -m release.image`` (``make image``).

Debian's mmdebstrap makes a base of Debian's packages, and buildah runs ``deploy/Dockerfile`` on it. The image is an
archive for ``docker load`` or a container runtime's import. The base is kept outside the tree, by its recipe.
Needs Linux and root. pip and apt reach their servers through the machine's own settings; none of them is in the image.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Final

import click
from e2e.caches import alone, cache_folder

import zoneward
from release.sbom import bill_of_materials, debian_packages, installed_packages
from release.source_date import ROOT, VARIABLE, SourceDateError, source_date

REFERENCE: Final = f"docker.io/library/zoneward:{zoneward.__version__}"
"""What the manifests call ``zoneward:VERSION``, in full: container runtimes complete it to this."""
ARCHIVE: Final = ROOT / "dist" / "zoneward-image.tar"
BILL: Final = PurePosixPath("/opt/zoneward/share/zoneward/image.cdx.json")
"""The bill of materials in the image, of the packages of Debian and of Python that are in it."""
SUITE: Final = "bookworm"
RUNTIME: Final = ("python3", "libnftables1", "ca-certificates", "netbase", "tzdata")
"""Debian packages of the base, with what they depend on."""
BUILD: Final = ("python3-venv", "python3.11-venv", "python3-pip-whl", "python3-setuptools-whl")
"""What only the build needs besides: purged from the base of the image."""
RUN_ROOT: Final = Path("/run/zoneward-image")
"""What buildah knows about mounts: it must not outlive the machine's start."""
_SETTINGS: Final = "containers.conf"
LABEL: Final = "org.opencontainers.image."
_CHANGED: Final = "-dirty"
_BASES: Final = "localhost/zoneward-base-"
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BASE: Final = f"FROM scratch\nADD root.tar /\nENV PATH={_PATH}\n"
_TREE: Final = (
    "tar --create --one-file-system --numeric-owner --directory=\"$1\" --exclude='./dev/*' --exclude='./proc/*'"
    " --exclude='./sys/*' ."
)
_HOOKS: Final = (
    # Settings of this machine's apt: its servers are not the image's.
    'rm -f "$1"/etc/apt/apt.conf.d/99mmdebstrap',
    f"{_TREE} >&3",
    f'chroot "$1" apt-get purge --yes --autoremove {" ".join(BUILD)}',
)
_OF_APT: Final = ("Acquire::Check-", "Acquire::http", "Acquire::https", "Acquire::Retries")
"""Settings that decide how apt reaches and checks its servers."""
_OF_PIP: Final = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries")
"""Settings that decide how pip reaches its index."""


class ImageError(Exception):
    """One line: what is missing, and what gives it."""


@dataclass(frozen=True, slots=True)
class Buildah:
    """The command with separate storage below ``folder``: it works beside other engines and their settings.

    What an interrupted command leaves is in ``scratch``.
    """

    folder: Path
    scratch: Path
    driver: str

    def run(self, *arguments: str, output: bool = True) -> str:
        """Raises ImageError with the last line of its messages, if it fails. Without ``output`` they are shown."""
        storage = ("--storage-driver", self.driver, "--root", str(self.folder / "storage"))
        command = ["buildah", *storage, "--runroot", str(RUN_ROOT), *arguments]
        environment = {**os.environ, "TMPDIR": str(self.scratch), "CONTAINERS_CONF": str(self.scratch / _SETTINGS)}
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE if output else None, text=True
        )
        if done.returncode:
            last = (done.stderr or "its messages are above").strip().splitlines()[-1]
            raise ImageError(f"buildah {arguments[0]} ended with {done.returncode}: {last}")
        return done.stdout.strip()

    def images(self) -> set[str]:
        """Names of all images."""
        return {name for image in json.loads(self.run("images", "--json") or "[]") for name in image["names"] or ()}


def build_image(archive: Path, *, environment: Mapping[str, str], fresh: bool = False) -> str:
    """Writes the image to ``archive`` and its bill of materials beside it.

    Returns the digest of the image's configuration, which is the identity of what is in it.
    With ``fresh`` the base is made again, of Debian's packages of today. Raises ImageError and SourceDateError.
    """
    _check_machine(environment)
    folder = cache_folder("zoneward-image", environment=environment)
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder), tempfile.TemporaryDirectory(dir=folder) as scratch, _storage(folder, Path(scratch)) as buildah:
        bases = _bases(buildah, environment, fresh=fresh)
        secrets = _secrets(buildah.scratch, environment)
        epoch = source_date(environment=environment)
        labels = (f"--label={LABEL}{name}={value}" for name, value in _labels(epoch).items())
        click.echo(f"building {REFERENCE} ...", err=True)
        buildah.run(
            *("bud", "--isolation=chroot", "--network=host", "--pull-never", "--layers=false", "--force-rm", "--quiet"),
            *("--file", str(ROOT / "deploy" / "Dockerfile"), "--tag", REFERENCE, f"--timestamp={epoch}"),
            *("--ignorefile", str(ROOT / "deploy" / "Dockerfile.dockerignore")),
            *(f"--build-arg={name}={value}" for name, value in {**bases, VARIABLE: str(epoch)}.items()),
            *(f"--secret=id={name},src={file}" for name, file in secrets.items()),
            *labels,
            str(ROOT),
            output=False,
        )
        bill = _add_bill(buildah, epoch)
        archive.parent.mkdir(parents=True, exist_ok=True)
        part = archive.with_name(f".{archive.name}.part")
        part.unlink(missing_ok=True)
        try:
            buildah.run("push", "--quiet", REFERENCE, f"docker-archive:{part}:{REFERENCE}")
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        archive.with_suffix(".cdx.json").write_text(bill)
        part.replace(archive)
        return "sha256:" + buildah.run("inspect", "--type=image", "--format={{.FromImageID}}", REFERENCE)


def current_image(*, environment: Mapping[str, str]) -> Path:
    """`ARCHIVE`; built first unless it is of this commit, without other changes. Raises as `build_image`."""
    revision = _revision()
    ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    # Another process that needs it waits, and has it then.
    with alone(ARCHIVE.parent):
        if not revision or revision.endswith(_CHANGED) or _revision_in_archive() != revision:
            build_image(ARCHIVE, environment=environment)
    return ARCHIVE


def _revision_in_archive() -> str:
    if not ARCHIVE.exists():
        return ""
    with tarfile.open(ARCHIVE) as archive:
        (manifest,) = json.load(archive_member(archive, "manifest.json"))
        labels = json.load(archive_member(archive, manifest["Config"]))["config"]["Labels"]
    return str(labels.get(f"{LABEL}revision", ""))


def archive_member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    """A file of an image's archive."""
    member = archive.extractfile(name)
    assert member is not None
    return member


def _add_bill(buildah: Buildah, epoch: int) -> str:
    """Of what is installed, not of what was requested."""
    container = buildah.run("from", "--pull-never", REFERENCE)
    root = Path(buildah.run("mount", container))
    (installed,) = root.glob("opt/zoneward/lib/python3*/site-packages")
    packages = [*debian_packages((root / "var/lib/dpkg/status").read_text()), *installed_packages(installed)]
    bill = bill_of_materials("zoneward", zoneward.__version__, packages, source_date=epoch, subject="container")
    file = root / BILL.relative_to("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(bill)
    file.chmod(0o644)
    buildah.run("umount", container)
    buildah.run("commit", "--quiet", f"--timestamp={epoch}", container, REFERENCE)
    return bill


@contextmanager
def _storage(folder: Path, scratch: Path) -> Iterator[Buildah]:
    """With the driver that shares layers where the file system can do it, else with one that copies them.

    Only the bases stay in it, also after an error.
    """
    # By default buildah makes /etc/cni/net.d, where it looks for container networks.
    (scratch / _SETTINGS).write_text(f"[network]\nnetwork_config_dir = {json.dumps(str(scratch / 'networks'))}\n")
    buildah = Buildah(folder, scratch, "overlay")
    try:
        buildah.run("info")
    except ImageError:
        buildah = Buildah(folder, scratch, "vfs")
    try:
        yield buildah
    finally:
        buildah.run("rm", "--all")
        if others := [name for name in buildah.images() if not name.startswith(_BASES)]:
            buildah.run("rmi", "--force", *others)
        buildah.run("rmi", "--prune", "--force")


def _labels(epoch: int) -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    labels = {
        "created": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "revision": _revision(),
        "source": project.get("urls", {}).get("Source", ""),
        "version": zoneward.__version__,
    }
    return {name: value for name, value in labels.items() if value}


def _revision() -> str:
    """The commit, with ``-dirty`` if there are other changes; nothing outside of a clone."""
    commit = _git("rev-parse", "HEAD")
    return commit + _CHANGED if commit and _git("status", "--porcelain") else commit


def _git(*arguments: str) -> str:
    """Its output, or nothing outside of a clone."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        return ""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def _check_machine(environment: Mapping[str, str]) -> None:
    missing = [name for name in ("buildah", "mmdebstrap") if shutil.which(name, path=environment.get("PATH")) is None]
    if missing:
        raise ImageError(
            f"the image needs {' and '.join(missing)} (Debian: apt-get install {' '.join(missing)}),"
            " or another engine for deploy/Dockerfile: deploy/README.md"
        )
    if os.geteuid() != 0:
        raise ImageError("the image needs root: buildah runs the steps of the Dockerfile in a chroot")


# --- the base ---------------------------------------------------------------------------------------------------------


def _bases(buildah: Buildah, environment: Mapping[str, str], *, fresh: bool) -> dict[str, str]:
    """The build arguments of the Dockerfile: the base of the image, and the one of its build."""
    recipe = hashlib.sha256("\0".join((SUITE, *RUNTIME, *BUILD, *_HOOKS, _BASE)).encode()).hexdigest()[:12]
    names = {"BASE": f"{_BASES}image:{recipe}", "BUILD_BASE": f"{_BASES}build:{recipe}"}
    known = buildah.images()
    if fresh or not known >= set(names.values()):
        if known:
            buildah.run("rmi", "--force", *known)
        trees = {"BASE": buildah.scratch / "base", "BUILD_BASE": buildah.scratch / "build"}
        for folder in trees.values():
            folder.mkdir()
        click.echo(f"making a base of Debian {SUITE} ...", err=True)
        _bootstrap({name: folder / "root.tar" for name, folder in trees.items()}, environment)
        for name, folder in trees.items():
            (folder / "Dockerfile").write_text(_BASE)
            buildah.run("bud", "--layers=false", "--quiet", "--timestamp=0", "--tag", names[name], str(folder))
    return names


def _bootstrap(trees: Mapping[str, Path], environment: Mapping[str, str]) -> None:
    """Both trees of one bootstrap: that of the build before what only it needs is purged."""
    hooks = (hook.replace(">&3", f"> {trees['BUILD_BASE']}") for hook in _HOOKS)
    command = [
        *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join((*RUNTIME, *BUILD))}"),
        *(f"--aptopt={setting}" for setting in _apt_settings()),
        *(f"--customize-hook={hook}" for hook in hooks),
        *(SUITE, str(trees["BASE"])),
    ]
    # Times of files in the tree; the packages are those of today.
    done = subprocess.run(["nice", *command], env={**environment, VARIABLE: "0"}, stdout=sys.stderr)
    if done.returncode:
        raise ImageError(f"mmdebstrap ended with {done.returncode}: its messages are above")


def _apt_settings() -> list[str]:
    done = subprocess.run(["apt-config", "dump"], capture_output=True, text=True)
    return [line for line in done.stdout.splitlines() if line.startswith(_OF_APT) and not line.endswith(' "";')]


# --- pip's way to its index -------------------------------------------------------------------------------------------


def _secrets(scratch: Path, environment: Mapping[str, str]) -> dict[str, Path]:
    """Files that the build sees while pip runs: settings, and the certificates that they name."""
    done = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True)
    settings = pip_settings(done.stdout.splitlines())
    certificates = settings.pop("cert", None) or environment.get("REQUESTS_CA_BUNDLE")
    secrets = {"pip": scratch / "pip.conf"}
    if certificates:
        secrets["certificates"] = Path(certificates)
        settings["cert"] = "/run/secrets/certificates"
    lines = (f"{name} = {value}" for name, value in settings.items())
    secrets["pip"].write_text("\n".join(("[global]", *lines, "")))
    secrets["pip"].chmod(0o600)
    return secrets


def pip_settings(lines: Sequence[str]) -> dict[str, str]:
    """What ``pip config list`` says about its index, by option. The environment overrides files, as in pip itself."""
    options: dict[str, str] = {}
    for prefix in ("global.", "install.", ":env:."):
        for line in lines:
            name, _, value = line.partition("=")
            option = name.removeprefix(prefix).removeprefix("default-")
            if name.startswith(prefix) and option in {*_OF_PIP, "cert"}:
                # A list is one line for each of its items.
                options[option] = literal_eval(value).strip().replace("\n", "\n    ")
    return options


@click.command()
@click.option("--output", type=click.Path(path_type=Path), default=ARCHIVE, help="The archive to write.")
@click.option("--fresh-base", is_flag=True, help="Make the base again, of Debian's packages of today.")
def main(output: Path, fresh_base: bool) -> None:
    """Build the container image, and print its archive and its digest."""
    try:
        digest = build_image(output, environment=os.environ, fresh=fresh_base)
    except (ImageError, SourceDateError) as error:
        click.echo(error, err=True)
        sys.exit(2)
    click.echo(f"{output}\n{REFERENCE} {digest}")


if __name__ == "__main__":
    main()
