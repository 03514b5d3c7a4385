"""Container images made here, of programs that were built here: archives as ``docker save`` writes them.

An archive is kept beside the programs. agnhost, from which Kubernetes' tests ask and answer, wants curl, dig and other
commands beside it: a small Debian, which is made once and kept for every version.
"""

import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click
from cluster.machine import BUSYBOX, search_path
from cluster.programs import MODULES, NODE
from e2e.caches import cache_folder
from e2e.programs import ProgramsError

PAUSE: Final = "registry.k8s.io/pause:3.10.2"
AGNHOST: Final = "registry.k8s.io/e2e-test-images/agnhost:2.66.1"
COREDNS: Final = "registry.k8s.io/coredns/coredns:v1.14.7"
OPENING: Final = "docker.io/library/opening:1"
_TESTS: Final = "registry.k8s.io/e2e-test-images"
_DEBIAN: Final = "bookworm"
_PACKAGES: Final = (
    "bind9-dnsutils", "ca-certificates", "conntrack", "curl", "iproute2", "iputils-ping", "netcat-openbsd", "procps",
    # BusyBox has one that does not know the options that tests use.
    "wget",
)  # fmt: skip
_LEFT_OUT: Final = ("doc", "locale", "man", "info")
"""Folders of /usr/share: six nodes unpack the image."""
_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NAMES: Final = ("pause", "coredns", "opening", "regression-issue-74839", BUSYBOX, "agnhost")
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Image:
    """``files`` of the machine by their path in there, ``links`` to what they lead to, ``texts`` with their content."""

    tags: tuple[str, ...]
    config: Mapping[str, object]
    files: Mapping[str, Path] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    base: Path | None = None
    """An archive of a file system below all that."""


def make_images(*, environment: Mapping[str, str]) -> list[Path]:
    """An archive of each image, made where it is not there. Raises ProgramsError."""
    # This file and the programs decide the content.
    version = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    folder = NODE.folder(environment=environment) / f"images-{version}"
    archives = [folder / f"{name}.tar" for name in _NAMES]
    if not all(archive.exists() for archive in archives):
        folder.mkdir(parents=True, exist_ok=True)
        for name, image in _images(NODE.find(environment=environment), environment).items():
            if not (folder / f"{name}.tar").exists():
                click.echo(f"making the image of {name} ...", err=True)
                write_image(image, folder / f"{name}.tar")
    return archives


def _images(programs: Mapping[str, Path], environment: Mapping[str, str]) -> dict[str, Image]:
    busybox = Path(shutil.which(BUSYBOX, path=search_path(environment)) or BUSYBOX)
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    porter = _module("k8s.io/kubernetes", environment) / "test/images/agnhost/porter"
    return {
        "pause": _one_program("pause", programs, PAUSE, user="65535:65535"),
        "coredns": _one_program("coredns", programs, COREDNS),
        "opening": _one_program("opening", programs, OPENING),
        "regression-issue-74839": _one_program(
            "regression-issue-74839", programs, f"{_TESTS}/regression-issue-74839:1.5"
        ),
        BUSYBOX: Image(
            (f"{_TESTS}/busybox:1.37.0-2",),
            {"Cmd": ["sh"]},
            files={"bin/busybox": busybox},
            links={f"bin/{applet}": "busybox" for applet in applets if applet != BUSYBOX},
            texts={
                "tmp/.keep": "",
                "etc/passwd": "root:x:0:0::/root:/bin/sh\n",
                "etc/group": "root:x:0:\n",
            },
        ),
        "agnhost": Image(
            # A test changes an image to the version before.
            (AGNHOST, f"{_TESTS}/agnhost:2.55", f"{_TESTS}/glibc-dns-testing:2.1.1"),
            {"Entrypoint": ["/agnhost"], "Cmd": ["pause"], "WorkingDir": "/"},
            files={
                "agnhost": programs["agnhost"],
                "localhost.crt": porter / "localhost.crt",
                "localhost.key": porter / "localhost.key",
                "usr/local/bin/busybox": busybox,
            },
            links={"agnhost-2": "agnhost"},
            texts={"uploads/.keep": ""},
            base=_debian(environment),
        ),
    }


def _one_program(name: str, programs: Mapping[str, Path], tag: str, *, user: str = "") -> Image:
    return Image((tag,), {"Entrypoint": [f"/{name}"], "User": user}, files={name: programs[name]})


def write_image(image: Image, file: Path) -> None:
    """An archive of it. The same files give the same bytes."""
    own = file.with_name(f".{file.name}.layer")
    try:
        _write_layer(image, own)
        with _whole(file) as part:
            _write_archive(image, [own] if image.base is None else [image.base, own], part)
    finally:
        own.unlink(missing_ok=True)


def _write_layer(image: Image, file: Path) -> None:
    """The same bytes each time: nobody's, of no date."""
    with tarfile.open(file, "w") as layer:
        for path, source in image.files.items():
            about = layer.gettarinfo(source.resolve(), path)
            about.uid = about.gid = about.mtime = 0
            about.uname = about.gname = ""
            about.mode = 0o755 if os.access(source, os.X_OK) else 0o644
            with source.open("rb") as content:
                layer.addfile(about, content)
        for path, target in image.links.items():
            about = tarfile.TarInfo(path)
            about.type, about.linkname = tarfile.SYMTYPE, target
            layer.addfile(about)
        for path, text in image.texts.items():
            _add(layer, path, text.encode())


def _write_archive(image: Image, layers: Sequence[Path], file: Path) -> None:
    names = [f"layer-{index}.tar" for index, _ in enumerate(layers)]
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Env": [_PATH], **image.config},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}" for layer in layers]},
    }
    content = json.dumps(config).encode()
    about = f"{hashlib.sha256(content).hexdigest()}.json"
    manifest = [{"Config": about, "RepoTags": list(image.tags), "Layers": names}]
    with tarfile.open(file, "w") as archive:
        for name, layer in zip(names, layers, strict=True):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = layer.stat().st_size, 0o644
            with layer.open("rb") as whole:
                archive.addfile(entry, whole)
        _add(archive, about, content)
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    about = tarfile.TarInfo(name)
    about.size, about.mode = len(content), 0o644
    archive.addfile(about, io.BytesIO(content))


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _debian(environment: Mapping[str, str]) -> Path:
    """A file system with the packages, as an archive."""
    what = hashlib.sha256(" ".join((_DEBIAN, *_PACKAGES, *_LEFT_OUT)).encode()).hexdigest()[:12]
    file = cache_folder(NODE.cache, environment=environment) / f"debian-{what}.tar"
    if not file.exists():
        path = search_path(environment)
        if shutil.which("mmdebstrap", path=path) is None:
            raise ProgramsError("the image of agnhost needs mmdebstrap (Debian: apt-get install mmdebstrap)")
        click.echo(f"making a file system of Debian {_DEBIAN} with {', '.join(_PACKAGES)} ...", err=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        options = [f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in _LEFT_OUT]
        with _whole(file) as part:
            command = ["mmdebstrap", "--quiet", "--format=tar", "--variant=minbase", f"--include={','.join(_PACKAGES)}"]
            done = subprocess.run(["nice", *command, *options, _DEBIAN, part], env={**environment, "PATH": path})
            if done.returncode:
                raise ProgramsError(f"mmdebstrap ended with {done.returncode}: its messages are above")
    return file


def _module(name: str, environment: Mapping[str, str]) -> Path:
    """The folder of a module that the programs were built from."""
    printed = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", name],
        cwd=MODULES, capture_output=True, text=True, check=True, env={**environment, "GOFLAGS": "", "GOWORK": "off"},
    ).stdout  # fmt: skip
    return Path(printed.strip())


@contextmanager
def _whole(file: Path) -> Iterator[Path]:
    """Written under another name first: what is interrupted leaves no half file under this one."""
    part = file.with_name(f".{file.name}.part")
    try:
        yield part
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
