"""``make image``: what is in the archive, and that it runs with no more than its manifests give it."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from e2e.nodes import Namespace
from e2e.processes import Process, fetch, wait_until
from e2e.sandbox import a_sandbox
from packaging.utils import canonicalize_name
from release.image import BILL, LABEL, REFERENCE, archive_member, build_image, current_image
from release.source_date import source_date
from tests.deploy.manifests import METER_MODES, MODES, PROXY_MODES, ROOT, container, pod
from tests.patience import PATIENCE

import zoneward

NODE: Final = "worker-a2"
SAMPLE: Final = ROOT / "src" / "zoneward" / "sample" / "cluster.yaml"
# What a container runtime does, except namespaces that make no difference here. The root file system is read-only, and
# so is what is mounted, at the place of a volume. setpriv is the image's own: what follows it has its privileges only.
_CONTAINER: Final = """
mount --make-rprivate /
mount --bind "$1" "$1"
mount --rbind /proc "$1/proc"
mount --bind /dev "$1/dev"
mount --bind -o ro "$2" "$1/mnt"
mount -o remount,bind,ro "$1"
root=$1
shift 2
exec chroot "$root" /usr/bin/setpriv "$@"
"""


@dataclass(frozen=True, slots=True)
class Image:
    """The image of an archive, with its layers in a folder as a root file system."""

    archive: Path
    root: Path
    digest: str = field(init=False)
    config: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.root.mkdir()
        with tarfile.open(self.archive) as archive:
            (manifest,) = json.load(archive_member(archive, "manifest.json"))
            assert manifest["RepoTags"] == [REFERENCE]
            object.__setattr__(self, "digest", f"sha256:{manifest['Config'].removesuffix('.json')}")
            object.__setattr__(self, "config", json.load(archive_member(archive, manifest["Config"])))
            for layer in manifest["Layers"]:
                with tarfile.open(fileobj=archive_member(archive, layer)) as files:
                    names = files.getnames()
                    # A layer that took something away would need more than this to be read.
                    assert not [name for name in names if Path(name).name.startswith(".wh.")]
                    files.extractall(self.root, filter="fully_trusted")

    def command(
        self, *arguments: str, user: int, capabilities: Sequence[str] = (), volume: Path | None = None
    ) -> list[str]:
        """That runs the image's entry point, with ``volume`` at ``/mnt``."""
        bounding = ",".join(("-all", *(f"+{capability.lower()}" for capability in capabilities)))
        privileges = [f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs", "--inh-caps=-all"]
        config = self.config["config"]
        return [
            *("unshare", "--mount", "sh", "-ec", _CONTAINER, "sh", str(self.root), str(volume or self.root / "mnt")),
            *(*privileges, f"--bounding-set={bounding}", "env", "--ignore-environment", *config["Env"]),
            *(*config["Entrypoint"], *arguments),
        ]

    def run(self, *arguments: str, text: str = "", fails: int = 0) -> str:
        """What a command prints, as nobody in particular and with no capability."""
        command = self.command(*arguments, user=_user())
        done = subprocess.run(command, input=text, capture_output=True, text=True, cwd="/")
        assert done.returncode == fails, done.stderr
        return done.stderr if fails else done.stdout


def _user() -> int:
    (user,) = {pod(mode)["spec"]["securityContext"]["runAsUser"] for mode in MODES}
    return int(user)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """As `make image` leaves it; the cluster's tests use it as well."""
    folder = tmp_path_factory.mktemp("image")
    # Another user has to reach the root file system.
    for path_ in (folder, folder.parent):
        path_.chmod(0o755)
    return Image(current_image(environment=os.environ), folder / "root")


@pytest.fixture
def network() -> Iterator[Namespace]:
    namespace = Namespace()
    yield namespace
    namespace.close()


def test_image_has_labels_and_an_unprivileged_user(image: Image) -> None:
    config = image.config["config"]
    assert config["User"] == f"{_user()}:{_user()}"
    assert config["Entrypoint"] == ["zoneward"]
    assert not config.get("Cmd")
    labels = {name.removeprefix(LABEL): value for name, value in config["Labels"].items() if name.startswith(LABEL)}
    created = datetime.fromtimestamp(source_date(environment=os.environ), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert (labels["version"], labels["created"], image.config["created"]) == (zoneward.__version__, created, created)
    assert {"title", "description", "licenses"} <= labels.keys()
    if (ROOT / ".git").exists():
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert labels["revision"].removesuffix("-dirty") == head.strip()


def test_image_has_what_its_commands_need_and_nothing_of_this_machine(image: Image) -> None:
    (packages,) = image.root.glob("opt/zoneward/lib/python3*/site-packages")
    installed = {path.name for path in packages.iterdir()}
    assert {"aiohttp", "msgspec", "prometheus_client", "structlog", "zoneward"} <= installed
    assert not {"numba", "numpy", "polars", "matplotlib", "distributed", "pip", "setuptools"} & installed
    # The settings of this machine's package managers, and what only the build needs.
    for gone in ("etc/pip.conf", "run/secrets", "source", "opt/build", "etc/apt/apt.conf.d/99mmdebstrap"):
        assert not (image.root / gone).exists()
    assert not list(image.root.glob("usr/share/python-wheels/*"))
    assert not list(image.root.glob("var/lib/apt/lists/*Packages*"))
    # With a read-only root nothing could be compiled later: the byte code of each module is there, and counts.
    modules = [path for path in packages.rglob("*.py") if "tests" not in path.parts]
    assert len(modules) > 300
    assert not [path for path in modules if not list(path.parent.glob(f"__pycache__/{path.stem}.cpython-*.pyc"))]


def test_bill_of_materials_lists_the_packages_of_the_image(image: Image) -> None:
    text = (image.root / BILL.relative_to("/")).read_text()
    assert image.archive.with_suffix(".cdx.json").read_text() == text
    said = {
        (component["purl"].split("/")[0], component["name"], component["version"])
        for component in json.loads(text)["components"]
    }
    query = ["chroot", str(image.root), "dpkg-query", "--show", "--showformat=${Package} ${Version}\n"]
    debian = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    folders = image.root.glob("opt/zoneward/lib/python3*/site-packages/*.dist-info")
    python = {tuple(path.stem.replace("_", "-").lower().split("-")) for path in folders}
    assert {(name, version) for kind, name, version in said if kind == "pkg:deb"} == {
        (name, version) for name, version in (line.split() for line in debian)
    }
    of_pypi = {(*canonicalize_name(name).split("-"), version) for kind, name, version in said if kind == "pkg:pypi"}
    assert of_pypi == python
    assert ("zoneward", zoneward.__version__) in python


def test_build_is_reproducible(image: Image, tmp_path: Path) -> None:
    assert build_image(tmp_path / "image.tar", environment=os.environ) == image.digest


def test_entry_point_runs_every_command(image: Image) -> None:
    assert image.run("--version").startswith(f"zoneward {zoneward.__version__} ")
    planned = image.run("plan", "-f", "-", "-o", "json", text=SAMPLE.read_text())
    here = [sys.executable, "-m", "zoneward", "plan", "-f", "-", "-o", "json"]
    assert planned == subprocess.run(here, input=SAMPLE.read_text(), capture_output=True, text=True, check=True).stdout
    assert all(word in image.run("controller", "--help") for word in ("--take-over", "--only-marked"))
    assert "add table ip zoneward" in image.run("proxy", f"--node={NODE}", "--sample", "--print")
    # The lab is not in the image, and its command says so.
    assert len(image.run("simulate", fails=2).splitlines()) == 1


@pytest.mark.parametrize("mode", [MODES[1], PROXY_MODES[0], METER_MODES[0]])
def test_daemon_works_with_the_privileges_of_its_manifests(
    image: Image, network: Namespace, tmp_path: Path, mode: str
) -> None:
    """Its arguments, too, except the paths of the configuration and of the API server."""
    security = container(mode)["securityContext"]
    assert security["readOnlyRootFilesystem"]
    capabilities = security["capabilities"].get("add", ())
    volume = tmp_path / "volume"
    volume.mkdir(mode=0o755)
    given = [arg.replace("$(NODE_NAME)", NODE) for arg in container(mode)["args"] if not arg.startswith("--config")]
    user = pod(mode)["spec"]["securityContext"]["runAsUser"]
    command = image.command(*given, "--kubeconfig=/mnt/kubeconfig", user=user, capabilities=capabilities, volume=volume)
    # Where a Pod learns it from its service account.
    if mode in MODES:
        command += ["--leader-elect-resource-namespace=kube-system"]
    port = container(mode)["ports"][0]["containerPort"]
    with ExitStack() as running:
        kubeconfig = running.enter_context(a_sandbox(volume, "--sample", network=network)).kubeconfig
        kubeconfig.chmod(0o644)
        daemon = running.enter_context(Process([*network.enter, *command], log=tmp_path / "daemon.log"))
        wait_until(partial(_is_ready, network, port), "a daemon that is ready", daemon)
        status = Path(f"/proc/{daemon.pid}/status").read_text().splitlines()
        said = dict(line.split(":\t", 1) for line in status if line.startswith(("Uid", "CapBnd", "NoNewPrivs")))
        assert said["Uid"].split() == [str(user)] * 4
        assert int(said["CapBnd"], 16) == sum(1 << 12 for capability in capabilities if capability == "NET_ADMIN")
        assert said["NoNewPrivs"] == "1"
        if mode in PROXY_MODES:
            assert "zoneward" in network.run("nft", "list", "tables")
        daemon.stop(patience=PATIENCE)
        assert "Traceback" not in daemon.log.read_text()


def _is_ready(network: Namespace, port: int) -> bool:
    return network.call(fetch, f"http://127.0.0.1:{port}/readyz")[0] == 200
