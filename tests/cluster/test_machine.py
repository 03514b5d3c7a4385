"""A machine that cannot run the cluster gets one line with the reason."""

import os
from pathlib import Path

import pytest
from cluster.cgroups import missing_controllers
from cluster.machine import MachineError, check_machine, restore_kernel_settings


def test_controllers_that_are_missing_are_named(tmp_path: Path) -> None:
    assert "pids" in missing_controllers(tmp_path)
    for name in ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").touch()
    assert missing_controllers(tmp_path) == ["pids"]


def test_controllers_of_version_2_are_read_from_the_root(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory\n")
    assert missing_controllers(tmp_path) == ["pids"]


def test_a_machine_without_root_or_programs_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(MachineError) as caught:
        check_machine(environment={"PATH": str(tmp_path)})
    (line,) = str(caught.value).splitlines()
    assert line.startswith("the cluster needs ")
    if os.geteuid():
        assert line == f"the cluster needs root, got the user id {os.geteuid()}"


def test_settings_that_were_not_saved_are_left_alone(tmp_path: Path) -> None:
    restore_kernel_settings(tmp_path / "kernel.json")
