"""A control plane, and what builds its programs, leave nothing behind and say what is missing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.control_plane import SLICE_CONTROLLERS, ControlPlane
from e2e.processes import wait_until
from e2e.programs import MODULES, VERSION, ProgramsError, build_programs, find_programs

_KILLED_LATER = """
import time
from e2e.control_plane import ControlPlane
with ControlPlane() as plane:
    print(*(process.pid for process in plane.processes), flush=True)
    time.sleep(600)
"""


def test_control_plane_leaves_nothing_when_a_test_fails() -> None:
    pids: list[int] = []
    with pytest.raises(ZeroDivisionError), ControlPlane(controllers=SLICE_CONTROLLERS) as plane:  # noqa: PT012
        pids.extend(process.pid for process in plane.processes)
        raise ZeroDivisionError
    assert len(pids) == 3
    assert not any(map(_exists, pids))
    assert not plane.folder.exists()


def test_control_plane_leaves_no_process_when_it_is_killed(tmp_path: Path) -> None:
    # Its data is left then: in a folder of this test's.
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", _KILLED_LATER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as owner:
        assert owner.stdout is not None
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        owner.send_signal(signal.SIGKILL)
    assert len(pids) == 2
    wait_until(lambda: not any(map(_exists, pids)), "their end")


def test_programs_report_the_version_of_the_module(control_plane: ControlPlane) -> None:
    assert control_plane.api().get("/version")["gitVersion"] == VERSION
    assert f"Client Version: {VERSION}" in control_plane.kubectl("version")
    required = (MODULES / "go.mod").read_text()
    assert f"\tk8s.io/kubernetes {VERSION}\n" in required
    replaced = [line.split()[-1] for line in required.splitlines() if " => " in line]
    assert set(replaced) == {VERSION.replace("v1.", "v0.")}


def test_missing_or_old_go_is_reported_in_one_line(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "e2e.programs"],
        env=environment, cwd=MODULES.parent.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "the control plane of the end-to-end tests needs Go 1.26 or newer, got none on PATH\n"
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go1.25.9\n")
    go.chmod(0o755)
    with pytest.raises(ProgramsError, match=f"needs Go 1.26 or newer, got go1.25.9 in {go}$"):
        build_programs(environment=environment)
    with pytest.raises(ProgramsError, match=r"lacks etcd, kube-apiserver, .*: `make e2e` builds them with Go 1.26"):
        find_programs(environment=environment)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
