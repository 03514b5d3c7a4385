"""``.github/workflows/release.yml``: scripts that need neither GitHub nor a registry run here; of the others the syntax
is checked, and everything that they name.
"""

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from zoneward import __version__

ROOT: Final = Path(__file__).parents[2]
TEXT: Final = (ROOT / ".github" / "workflows" / "release.yml").read_text()
JOBS: Final[dict[str, Any]] = yaml.safe_load(TEXT)["jobs"]
SCRIPTS: Final = {
    f"{name}: {step.get('name', step['run'])}": step["run"]
    for name, job in JOBS.items()
    for step in job["steps"]
    if "run" in step
}


def run(script: str, directory: Path, *, tag: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "GITHUB_REF_NAME": tag}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_is_one_that_bash_reads(name: str) -> None:
    # GitHub fills in its expressions before bash reads them.
    script = re.sub(r"\$\{\{.*?\}\}", "x", SCRIPTS[name])
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_module_and_every_target_that_it_runs_exists() -> None:
    scripts = "\n".join(SCRIPTS.values())
    modules = re.findall(r"python -m ([\w.]+)", scripts)
    assert {"release.packages", "release.archive", "release.krew"} == set(modules)
    assert all(find_spec(module) for module in modules)
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^make ([\w./-]+)$", scripts, re.MULTILINE)
    assert targets
    for target in targets:
        assert f"\n{target}:" in makefile


def test_a_job_waits_for_jobs_that_exist_and_only_reads_unless_it_publishes() -> None:
    for job in JOBS.values():
        needs = job.get("needs", [])
        assert {needs} if isinstance(needs, str) else set(needs) <= JOBS.keys()
        writes = {name for name, value in job.get("permissions", {}).items() if value == "write"}
        assert not writes or job["environment"] == "release"
    assert yaml.safe_load(TEXT)["permissions"] == {"contents": "read"}
    assert JOBS["pypi"]["needs"] == "release"


def test_what_a_maintainer_has_to_set_is_in_the_page_about_releases() -> None:
    page = (ROOT / "docs" / "releasing.md").read_text()
    names = set(re.findall(r"\b(?:vars|secrets)\.(\w+)", TEXT))
    assert names == {"REGISTRY", "REGISTRY_USER", "REGISTRY_TOKEN"}
    assert all(f"`{name}`" in page for name in names)
    assert ".github/workflows/release.yml" in page


@pytest.mark.parametrize(("tag", "status"), [(f"v{__version__}", 0), ("v99.0.0", 1), (__version__, 1)])
def test_a_tag_that_is_not_the_version_ends_the_release(tag: str, status: int) -> None:
    done = run(SCRIPTS["test: Compare the tag with the version"], ROOT, tag=tag)
    assert done.returncode == status
    assert (f"expected the tag v{__version__}, got {tag}" in done.stdout) == bool(status)


def test_the_notes_are_the_section_of_the_version(tmp_path: Path) -> None:
    shutil.copy(ROOT / "CHANGELOG.md", tmp_path)
    assert run(SCRIPTS["release: Take the notes from the changelog"], tmp_path, tag=f"v{__version__}").returncode == 0
    notes = (tmp_path / "notes.txt").read_text()
    assert re.findall(r"^## (\S+?),", notes, re.MULTILINE) == [__version__]
    assert len(notes.splitlines()) > 10


def test_pypi_gets_the_wheel_and_the_source_and_nothing_else(tmp_path: Path) -> None:
    names = [
        f"zoneward-{__version__}{end}" for end in ("-py3-none-any.whl", ".tar.gz", "-constraints.txt", ".cdx.json")
    ]
    (tmp_path / "packages").mkdir()
    for name in names:
        (tmp_path / "packages" / name).touch()
    assert run(SCRIPTS["pypi: Keep the wheel and the source"], tmp_path, tag=f"v{__version__}").returncode == 0
    assert {path.name for path in (tmp_path / "dist").iterdir()} == set(names[:2])
