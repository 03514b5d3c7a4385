"""``zoneward simulate`` and Ctrl-C: what is known, marked as partial; nothing half done; the second one ends it."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

pytestmark = pytest.mark.slow

ZONEWARD = (sys.executable, "-m", "zoneward")
HUGE = ("simulate", "-d", "uniform:zones=3,inputs=1000000000000", "-a", "random,local")
SLEEPS = """
import pathlib, time

def slow(demand, supply, parameters, previous, composition, weights, scratch, reals):
    if max(supply) == 999:
        pathlib.Path({started!r}).touch()
        time.sleep(600)
    zones = len(demand)
    for zone in range(zones):
        composition[zone * zones + zone] = supply[zone]
        weights[zone * zones + zone] = 1.0
    return zones
"""

TELLS = """
import pathlib

calls = []

def noted(demand, supply, parameters, previous, composition, weights, scratch, reals):
    zones = len(demand)
    if zones == 2 and max(supply) == 999:
        calls.append(1)
        if len(calls) == 70_000:
            pathlib.Path({begun!r}).touch()
    for zone in range(zones):
        composition[zone * zones + zone] = supply[zone]
        weights[zone * zones + zone] = 1.0
    return zones
"""
"""Plain Python. It says when it is asked for an input of the second chunk."""


def wait_for(path: Path, process: "subprocess.Popen[str]") -> None:
    until = time.monotonic() + 120
    top = path.parents[1]
    while not [*top.glob(str(path.relative_to(top)))]:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "it never began"
        time.sleep(0.02)


def interrupted(arguments: Sequence[str | Path], *, begun: Path, again: bool = False) -> tuple[int, str, str]:
    """Run until a file of this name or pattern is there, then press Ctrl-C, perhaps twice.

    Returns exit status, standard output and error.
    """
    command = [*ZONEWARD, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(begun, process)
            process.send_signal(signal.SIGINT)
            if again:
                time.sleep(1)
                assert process.poll() is None, "one Ctrl-C waits for what is being scored"
                process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    return process.returncode, out, err


def test_ctrl_c_gives_what_is_known_marked_as_partial(tmp_path: Path) -> None:
    """Rows are in the files before they are counted, and those of the result are those of the files."""
    out = tmp_path / "out"
    begun = tmp_path / "out.*.making" / "part-00000.parquet"
    status, printed, err = interrupted([*HUGE, "-o", "parquet", "--to", out], begun=begun)
    assert (status, printed) == (130, "")
    message = (out / "PARTIAL.txt").read_text()
    with duckdb.connect() as connection:
        query = f"select count(*), count(distinct input), max(input) + 1 from '{out}/*.parquet'"
        count, distinct, end = connection.execute(query).fetchall()[0]
    assert count == distinct == end > 0
    assert message.startswith(f"PARTIAL, stopped early: the first {count:,} of 1,000,000,000,000 inputs of uniform")
    assert err.splitlines()[-1] == f"zoneward: {message.strip()}"
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_a_document_says_that_it_is_partial(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    (tmp_path / "my.py").write_text(TELLS.format(begun=str(begun)))
    (tmp_path / "run.yaml").write_text("jobs: 1")
    mine = ("--algorithm-file", f"{tmp_path / 'my.py'}:noted", "--run", tmp_path / "run.yaml", "-o", "json", "-q")
    dataset = "uniform:zones=2,endpoints=999,inputs=10000000"
    status, printed, err = interrupted(["simulate", "-d", dataset, *mine], begun=begun)
    assert (status, err) == (130, "")
    output = json.loads(printed)
    assert output["partial"] is True
    assert output["rows"] < output["of"]


def test_a_second_ctrl_c_ends_it_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    """The rule sleeps for ten minutes at an input that is not among those on which it is tried."""
    begun = tmp_path / "begun"
    (tmp_path / "my.py").write_text(SLEEPS.format(started=str(begun)))
    (tmp_path / "run.yaml").write_text(
        f"{{algorithmFile: {tmp_path}/my.py:slow, dataset: 'uniform:endpoints=999,inputs=100000', jobs: 1}}"
    )
    start = time.monotonic()
    status, printed, _ = interrupted(
        ["simulate", "--run", tmp_path / "run.yaml", "--to", tmp_path / "out.txt"], begun=begun, again=True
    )
    assert (status, printed) == (130, "")
    assert time.monotonic() - start < 60
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"begun", "my.py", "run.yaml"}
