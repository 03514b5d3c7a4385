import subprocess
import sys
from pathlib import Path

import pytest
from e2e.programs import MODULES, PROGRAMS, VERSION, ProgramsError, build_programs, find_programs, programs_folder


def test_one_line_says_that_go_is_missing(tmp_path: Path) -> None:
    took = subprocess.run(
        [sys.executable, "-m", "e2e.programs"],
        env={"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
        cwd=MODULES.parent.parent,
        capture_output=True,
        text=True,
    )
    assert took.returncode == 2
    assert took.stderr == ("the control plane of the end-to-end tests needs Go 1.26 or newer, got none on PATH\n")


def test_one_line_says_that_go_is_too_old(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go1.25.9\n")
    go.chmod(0o755)
    with pytest.raises(ProgramsError, match=f"needs Go 1.26 or newer, got go1.25.9 in {go}$"):
        build_programs(environment={"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)})


def test_tests_say_what_has_not_been_built(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    with pytest.raises(ProgramsError, match=r"lacks etcd, kube-apiserver, .*: `make e2e` builds them with Go 1.26"):
        find_programs(environment=environment)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_built_twice(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path), "PATH": ""}
    folder = programs_folder(environment=environment)
    folder.mkdir(parents=True)
    for name in PROGRAMS:
        (folder / name).touch()
    assert build_programs(environment=environment) == folder
    assert find_programs(environment=environment) == {name: folder / name for name in PROGRAMS}


def test_the_version_is_that_of_the_modules() -> None:
    required = (MODULES / "go.mod").read_text()
    staged = VERSION.replace("v1.", "v0.")
    assert f"\tk8s.io/kubernetes {VERSION}\n" in required
    replaced = [line.split()[-1] for line in required.splitlines() if " => " in line]
    assert set(replaced) == {staged}
