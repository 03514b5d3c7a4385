"""However a start ends, nothing of it stays on the machine."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cluster.leftovers import find_leftovers
from cluster.lifecycle import FOLDER, stop_cluster
from cluster.machine import read_kernel_settings

ROOT = Path(__file__).parent.parent
COMMAND = (sys.executable, "-m", "cluster")


def _down() -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*COMMAND, "down"], cwd=ROOT, capture_output=True, text=True, check=True)


@pytest.mark.parametrize(
    ("phase", "signal_number"),
    [
        ("namespaces are made", signal.SIGINT),
        ("nodes are ready", signal.SIGTERM),
        ("control plane is ready", signal.SIGKILL),
    ],
)
def test_interrupted_start_leaves_nothing(phase: str, signal_number: signal.Signals) -> None:
    before = read_kernel_settings()
    with subprocess.Popen([*COMMAND, "up"], cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True) as up:
        try:
            assert up.stderr is not None
            assert any(phase in line for line in up.stderr)
            up.send_signal(signal_number)
            up.stderr.read()
        finally:
            up.wait()
            if signal_number is signal.SIGKILL:
                assert FOLDER.exists()
                _down()
    assert up.returncode == (-signal.SIGKILL if signal_number is signal.SIGKILL else 130)
    assert find_leftovers() == []
    assert read_kernel_settings() == before


def test_ending_no_cluster_does_nothing() -> None:
    assert find_leftovers() == []
    assert _down().stdout == ""
    stop_cluster()


def test_second_cluster_is_refused_in_one_line() -> None:
    FOLDER.mkdir()
    try:
        up = subprocess.run([*COMMAND, "up"], cwd=ROOT, capture_output=True, text=True, check=False)
    finally:
        FOLDER.rmdir()
    assert up.returncode == 2
    assert up.stderr == "a cluster runs already, or was left behind: `make cluster-down` ends it\n"


def test_machine_without_containerd_is_refused_in_one_line(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path)}
    up = subprocess.run([*COMMAND, "up"], cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert up.returncode == 2
    assert up.stderr.startswith("the cluster needs containerd, ")
    assert up.stderr.count("\n") == 1
    assert find_leftovers() == []
