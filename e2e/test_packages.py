"""What a release has, built as a release builds it, and installed as people install it."""

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from e2e.file_server import served
from e2e.krew import CHECKER, KREW, PLUGIN
from e2e.programs import find_programs
from readme_renderer import markdown
from release.archive import archive_name, platform_name
from release.krew import MANIFEST
from release.packages import BILL, CONSTRAINTS, SDIST, WHEEL, build
from release.source_date import ROOT, source_date

from zoneward import __version__

ARCHIVE = archive_name(*platform_name())
SYSTEM = re.compile(r"/\S*/(?:libc|libm|libdl|libpthread|librt|libutil|libz|ld-linux-[\w-]+)\.so\.\d+")
"""What the archive needs of a system: the C library, and zlib, which PyInstaller's own program unpacks with."""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``make dist`` builds, except the manifest: the address in it is a test's own."""
    folder = tmp_path_factory.mktemp("dist")
    for part in ("packages", "archive"):
        run(sys.executable, "-m", f"release.{part}", "--to", folder)
    return folder


def run(*command: str | Path, **environment: str) -> str:
    """Standard output. What make says about versions holds for its own environment, not for a user's."""
    inherited = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    done = subprocess.run(
        [str(argument) for argument in command], env=inherited | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_build_from_the_sdist_gives_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    with tarfile.open(dist / SDIST) as packed:
        packed.extractall(tmp_path, filter="data")
    source, again = tmp_path / SDIST.removesuffix(".tar.gz"), tmp_path / "again"
    for path in source.rglob("*"):
        path.chmod(path.stat().st_mode & ~0o077)
        os.utime(path, (1, 1))
    build(again, date=source_date(environment=os.environ), root=source)
    for name in (WHEEL, SDIST):
        assert (again / name).read_bytes() == (dist / name).read_bytes(), name


def test_description_renders_and_links_to_files_of_this_version(dist: Path) -> None:
    with zipfile.ZipFile(dist / WHEEL) as wheel:
        metadata = email.message_from_bytes(wheel.read(f"zoneward-{__version__}.dist-info/METADATA"))
    assert metadata["Description-Content-Type"] == "text/markdown"
    # What PyPI itself renders a description with.
    text = metadata.get_payload()
    assert isinstance(text, str)
    page = markdown.render(text)
    assert page is not None
    links = re.findall(r'(?:href|src)="([^"#]+)', page)
    assert len(links) > 30
    home = metadata["Project-URL"].partition(", ")[2]
    files = [re.fullmatch(rf"{home}/(?:blob|raw)/v{re.escape(__version__)}/(.+)", link) for link in links]
    assert [link for link, file in zip(links, files, strict=True) if not (file and (ROOT / file[1]).exists())] == []
    assert '.svg"' in page


def test_bills_of_materials_match_the_schema(dist: Path) -> None:
    for name in (BILL, ARCHIVE.replace(".tar.gz", ".cdx.json")):
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str((dist / name).read_text()) is None


def test_pipx_installs_the_wheel_with_man_pages_and_completions(dist: Path, tmp_path: Path) -> None:
    home, programs, pages = (tmp_path / name for name in ("home", "bin", "man"))
    checked = f"--find-links={dist} --constraint={dist / CONSTRAINTS}"
    run(
        *(sys.executable, "-m", "pipx", "install", f"--pip-args={checked}", f"zoneward=={__version__}"),
        PIPX_HOME=str(home), PIPX_BIN_DIR=str(programs), PIPX_MAN_DIR=str(pages), HOME=str(tmp_path),
        XDG_CACHE_HOME=os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
    )  # fmt: skip
    path = f"{programs}:{find_programs(environment=os.environ)['kubectl'].parent}:{os.environ['PATH']}"
    assert "shop/catalog" in run("zoneward", "plan", "--sample", PATH=path)
    assert run("kubectl", "zoneward", "--version", PATH=path).startswith(f"zoneward {__version__} ")
    assert "plan\tShow which" in run("kubectl", "__complete", "zoneward", "pl", PATH=path)
    for page in ("zoneward", "zoneward-plan", "kubectl-zoneward"):
        assert (pages / "man1" / f"{page}.1").read_text().startswith(".TH ")
    if shutil.which("man"):
        shown = run("man", f"--manpath={pages}", "--warnings", "zoneward-plan", MANPAGER="cat", MANWIDTH="100")
        assert "--what-if VALUE" in shown
    share = home / "venvs" / "zoneward" / "share"
    script = share / "bash-completion" / "completions" / "zoneward"
    line = (
        f"source {script}; COMP_LINE='zoneward sn' COMP_POINT=11; _zoneward_completion zoneward; echo ${{COMPREPLY[*]}}"
    )
    assert run("bash", "--norc", "-c", line, PATH=path) == "snapshot\n"
    assert (share / "zsh" / "site-functions" / "_zoneward").exists()
    assert (share / "fish" / "vendor_completions.d" / "zoneward.fish").exists()


def test_archive_needs_only_the_c_library_and_zlib(dist: Path, tmp_path: Path) -> None:
    with tarfile.open(dist / ARCHIVE) as packed:
        packed.extractall(tmp_path, filter="data")
    (library,) = tmp_path.glob("zoneward/_internal/libpython*")
    for name in SYSTEM.findall(run("ldd", library, tmp_path / "zoneward" / "zoneward")):
        (tmp_path / name[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, tmp_path / name[1:])
    (tmp_path / "proc").mkdir()
    inside = f"""
        mount --bind /proc {tmp_path}/proc
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot {tmp_path} /zoneward/zoneward "$@"
    """
    alone = partial(run, "unshare", "--mount", "sh", "-ec", inside, "sh")
    assert alone("--version").startswith(f"zoneward {__version__} ")
    assert "shop/catalog" in alone("plan", "--sample")
    assert "add table ip zoneward" in alone("proxy", "--node=worker-a2", "--sample", "--print")
    # As the node proxy starts the process that talks to the kernel.
    assert alone("-m", "zoneward.kube.names") == ""
    assert {"LICENSE", "licenses", "share"} <= {path.name for path in tmp_path.iterdir()}
    assert {"aiohttp", "python", "pyinstaller"} <= {path.name.partition("-")[0] for path in tmp_path.glob("licenses/*")}


@pytest.fixture
def address(dist: Path) -> Iterator[str]:
    """Where the files of the release are served."""
    with served(dist) as index:
        yield index


def test_krew_installs_a_working_plugin(dist: Path, address: str, tmp_path: Path) -> None:
    krew = KREW.find(environment=os.environ)
    kubectl = find_programs(environment=os.environ)["kubectl"]
    run(sys.executable, "-m", "release.krew", "--to", dist, "--url", address)
    root = tmp_path / "krew"
    environment = {
        "PATH": f"{root / 'bin'}:{krew[PLUGIN].parent}:{kubectl.parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "KREW_ROOT": str(root),
        "NO_PROXY": "127.0.0.1",
    }
    # It also installs every platform, and looks for a licence.
    run(krew[CHECKER], "-manifest", dist / MANIFEST, **environment)
    run(kubectl, "krew", "install", "--manifest", dist / MANIFEST, **environment)
    assert run(kubectl, "zoneward", "--version", **environment).startswith(f"zoneward {__version__} ")
    sample = ROOT / "src" / "zoneward" / "sample" / "cluster.yaml"
    assert "shop/catalog" in run(kubectl, "zoneward", "plan", "-f", sample, **environment)
    # As the caveats of the manifest say.
    (root / "bin" / "kubectl_complete-zoneward").symlink_to(root / "bin" / "kubectl-zoneward")
    assert "plan\tShow which" in run(kubectl, "__complete", "zoneward", "pl", **environment)
    # Its own name, so that it also says what to type.
    assert "Usage: kubectl zoneward plan" in run(kubectl, "zoneward", "plan", "--help", **environment)
