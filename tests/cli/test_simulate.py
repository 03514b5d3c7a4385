"""``zoneward simulate`` as people and scripts use it; after Ctrl-C, partial results are marked."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.cli.running import SAMPLE, Commands
from tests.lab.test_algorithm_file import HEAD, SAME_ZONE

from zoneward.cli import service_processes, simulate
from zoneward.cli.live_output import Interrupts
from zoneward.cli.options import Options
from zoneward.lab import COMPUTED_DATASETS, scoring
from zoneward.lab.contenders import ALGORITHMS, PARAMETERS, parse_contenders
from zoneward.lab.tally import SimulationSpec

SMALL = ("simulate", "-q", "-d", "small", "--sample-size", "3000")
EVERYTHING = "{quantiles: [50, 5], worst: 3, differences: true, encodings: [both]}"
OWN_ZONE = HEAD.replace("rule", "own_zone") + SAME_ZONE


def document(zoneward: Commands, *arguments: str | Path) -> Any:
    result = zoneward(*SMALL, "-o", "json", *arguments)
    assert (result.status, result.err) == (0, "")
    content = json.loads(result.out)
    assert list(content.items())[:2] == [("apiVersion", "zoneward.dev/v1alpha1"), ("kind", "Simulation")]
    return content


def run_file(directory: Path, text: str) -> tuple[str, str]:
    """The option for a run that a file describes."""
    (directory / "run.yaml").write_text(text)
    return "--run", str(directory / "run.yaml")


def test_spinner_and_note_are_for_code_that_is_compiled_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "source").touch()
    spinners: list[str] = []

    def waiting(_options: Options, text: str) -> AbstractContextManager[None]:
        spinners.append(text)
        return nullcontext()

    def compile_kernels(_contenders: object) -> None:
        (tmp_path / "source_1").mkdir(exist_ok=True)
        (tmp_path / "source_1" / "rule.1.nbc").touch()

    monkeypatch.setattr(simulate, "_NOTE_AFTER", -1.0)
    monkeypatch.setattr(service_processes, "waiting", waiting)
    monkeypatch.setattr(scoring, "machine_code_cache", lambda: str(tmp_path))
    monkeypatch.setattr(scoring, "compile_kernels", compile_kernels)
    spec = SimulationSpec(contenders=parse_contenders(["local"]))
    with Interrupts() as interrupts:
        simulate._compile(Options(), spec, interrupts)
        assert (len(spinners), capsys.readouterr().err.count("compiled in")) == (1, 1)
        simulate._compile(Options(), spec, interrupts)
    assert (len(spinners), capsys.readouterr().err) == (1, "")


def means_of(output: Any) -> dict[str, dict[str, Any]]:
    return {mean["algorithm"]: mean for mean in output["means"]}


# --- what it says -----------------------------------------------------------------------------------------------------


def test_help_names_every_dataset_algorithm_and_parameter(zoneward: Commands) -> None:
    words = set(zoneward("simulate", "--help").out.replace(",", " ").replace(":", " ").replace("=", " ").split())
    assert {*COMPUTED_DATASETS, "cluster", *ALGORITHMS, *PARAMETERS} <= words


def test_the_default_is_the_table_of_the_proposal_with_local_twice(zoneward: Commands) -> None:
    lines = zoneward("simulate", "-q", "--sample-size", "2000").out.splitlines()
    assert lines[0] == "kep: 2,000 inputs, a sample of 39,273,145"
    assert lines[1].split()[:3] == ["ALGORITHM", "TOTAL", "IN-ZONE"]
    names = [line.split()[0] for line in lines[3:9]]
    assert names == ["random", "local", "local-kep-tool", "local-shared", "local-weighted", "local-opt"]


def test_output_has_all_requested_tables(zoneward: Commands, tmp_path: Path) -> None:
    asked = ("--by", "endpoints", "--bounds", *run_file(tmp_path, EVERYTHING))
    output = document(zoneward, "-a", "local,local-opt", *asked)
    assert [(mean["algorithm"], mean["encoding"]) for mean in output["means"]] == [
        (name, encoding) for encoding in ("slice-groups", "hints") for name in ("local", "local-opt", "bound")
    ]
    assert sum(band["rows"] for band in output["bands"]) == output["rows"] == 3000
    assert [list(quantile["below"]) for quantile in output["quantiles"]] == [["0.05", "0.5"]] * 3
    assert [row["algorithm"] for row in output["worst"]] == ["local"] * 3 + ["local-opt"] * 3 + ["local"] * 3
    assert [(difference["algorithm"], difference["other"]) for difference in output["differences"]] == [
        ("local", "local-opt")
    ]
    table = zoneward(*SMALL, "-a", "local,local-opt", *asked).out
    for title in ("As hints", "By band, as hints", "Quantiles, as hints", "Worst inputs, as hints"):
        assert f"\n{title}\n" in table
    assert "\nDifferences of totals, with 95 % confidence, as slice groups\n" in table


def test_a_sweep_has_a_line_for_each_value(zoneward: Commands, tmp_path: Path) -> None:
    sweep = run_file(tmp_path, "sweep: {startingThreshold: [1, 3]}")
    means = means_of(document(zoneward, "-a", "local,random", *sweep))
    assert list(means) == ["local:startingThreshold=1", "local:startingThreshold=3", "random"]
    plain = means_of(document(zoneward, "-a", "local"))["local"]
    assert means["local:startingThreshold=3"]["total"] == plain["total"] != means["local:startingThreshold=1"]["total"]


# --- always the same --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_number_of_jobs_changes_nothing(zoneward: Commands, tmp_path: Path) -> None:
    """Several chunks of inputs with several numbers of zones."""
    many = ("simulate", "-q", "-d", "uniform:zones=2-4,inputs=300000", "--by", "zones", "-o", "json")
    one, two, seven = (zoneward(*many, *run_file(tmp_path, f"{{worst: 5, jobs: {jobs}}}")).out for jobs in (1, 2, 7))
    assert json.loads(one)["rows"] > 290_000
    assert one == two == seven


# --- other inputs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", [("--sample",), ("-f", SAMPLE), ("-d", "cluster", "--sample")])
def test_the_services_of_a_cluster_are_inputs(zoneward: Commands, tmp_path: Path, chosen: Sequence[str | Path]) -> None:
    result = zoneward("simulate", *chosen, "-a", "local", *run_file(tmp_path, "worst: 1"), "-o", "json")
    output = json.loads(result.out)
    assert (result.status, output["dataset"], output["rows"]) == (0, "cluster", 15)
    assert "/" in output["worst"][0]["name"]


def test_a_csv_file_is_a_dataset_and_invalid_rows_may_be_left_out(zoneward: Commands, tmp_path: Path) -> None:
    path = tmp_path / "inputs.csv"
    path.write_text("name,a,b\none,1 10,1 20\ntwo,1 x,1 2\nthree,2 4,2 6\n")
    assert zoneward.refused("simulate", "-d", path).startswith(f"zoneward: {path}: row 3")
    skipped = zoneward("simulate", "-d", path, *run_file(tmp_path, "skipInvalid: true"), "-a", "random")
    assert (skipped.status, skipped.out.splitlines()[0]) == (0, f"{path}: 2 inputs")
    assert f"zoneward: {path}: skipped 1 row that can't be read\n" in skipped.err


# --- custom rules -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_rule_of_one_s_own_stands_beside_the_others_and_can_be_swept(zoneward: Commands, tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text(OWN_ZONE)
    mine = ("--algorithm-file", f"{tmp_path / 'my.py'}:own_zone")
    means = means_of(document(zoneward, *mine, "-a", "PreferSameZone"))
    assert list(means) == ["PreferSameZone", "own-zone"]
    assert {**means["own-zone"], "algorithm": "PreferSameZone"} == means["PreferSameZone"]
    swept = means_of(document(zoneward, *mine, *run_file(tmp_path, "sweep: {startingThreshold: [1, 9]}")))
    assert list(swept) == ["own-zone:startingThreshold=1", "own-zone:startingThreshold=9"]


def test_a_rule_that_can_t_be_compiled_runs_with_a_warning(zoneward: Commands, tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text(OWN_ZONE.replace("    zones =", "    sorted({}, key=str)\n    zones ="))
    result = zoneward(
        "simulate", "-d", "small", "--sample-size", "500", "--algorithm-file", f"{tmp_path}/my.py:own_zone"
    )
    assert result.status == 0
    assert "numba can't compile it" in result.err
    assert result.out.splitlines()[3].startswith("own-zone")


# --- where output is written ------------------------------------------------------------------------------------------


def test_bad_input_leaves_the_file_that_was_there(zoneward: Commands, tmp_path: Path) -> None:
    """The row that is wrong is in the second chunk: work had begun."""
    path = tmp_path / "inputs.csv"
    path.write_text("name,a,b\n" + "one,1 10,1 20\n" * 70_000 + "bad,1 10\n")
    (tmp_path / "out.txt").write_text("old")
    assert "row 70002" in zoneward.refused("simulate", "-q", "-a", "random", "-d", path, "--to", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"inputs.csv", "out.txt"}


def test_parquet_is_read_by_duckdb_and_a_second_run_refuses_the_directory(zoneward: Commands, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert zoneward(*SMALL, "-o", "parquet", "--to", out).status == 0
    with duckdb.connect() as connection:
        query = f"select count(*), avg(local_total), avg(random_total_hints) from '{out}/*.parquet'"
        count, local, hints = connection.execute(query).fetchall()[0]
    assert count == 3000
    assert round(local, 6) == means_of(document(zoneward))["local"]["total"]
    assert round(hints, 6) == means_of(document(zoneward, "--encoding", "hints"))["random"]["total"]
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    again = zoneward(*SMALL, "-o", "parquet", "--to", out)
    assert (again.status, again.err) == (2, f"zoneward: --to: {out}: expected a directory that does not exist yet\n")
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == before


pytestmark = pytest.mark.slow

ZONEWARD = (sys.executable, "-m", "zoneward")
PATIENCE = 400.0
"""Seconds until a simulation has begun, or has ended: where no machine code is cached, it compiles first."""
HUGE = ("simulate", "-d", "uniform:zones=3,inputs=1000000000000", "-a", "random,local")
SLEEPS = f"""
import pathlib, time
from zoneward.cli.live_output import Interrupts

handle = Interrupts._handle

def handle_and_tell(*given):
    try:
        handle(*given)
    finally:
        pathlib.Path({{interrupted!r}}).touch()

Interrupts._handle = handle_and_tell

{HEAD.replace("rule", "slow")}
    if max(supply) == 999:
        pathlib.Path({{started!r}}).touch()
        time.sleep(600)
{SAME_ZONE}"""
"""It says when it has begun, and when a Ctrl-C has been handled."""
TELLS = f"""
import pathlib

calls = []

{HEAD.replace("rule", "noted")}
    if len(demand) == 2 and max(supply) == 999:
        calls.append(1)
        if len(calls) == 70_000:
            pathlib.Path({{marker!r}}).touch()
{SAME_ZONE}"""
"""Plain Python. It says when it is asked for an input of the second chunk."""


def wait_for(path: Path, process: "subprocess.Popen[str]") -> None:
    until = time.monotonic() + PATIENCE
    top = path.parents[1]
    while not [*top.glob(str(path.relative_to(top)))]:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "it never began"
        time.sleep(0.02)


def interrupted(arguments: Sequence[str | Path], *, marker: Path, handled: Path | None = None) -> tuple[int, str, str]:
    """Run until a file of this name or pattern is there, then press Ctrl-C. With ``handled``, press it again once that
    file is there, too.

    Returns exit status, standard output and error.
    """
    command = [*ZONEWARD, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(marker, process)
            process.send_signal(signal.SIGINT)
            if handled is not None:
                # Two signals at once would be one.
                wait_for(handled, process)
                time.sleep(0.5)
                assert process.poll() is None, "one Ctrl-C waits for what is being scored"
                process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    return process.returncode, out, err


def test_ctrl_c_gives_what_is_known_marked_as_partial(tmp_path: Path) -> None:
    """Rows are in the files before they are counted, and those of the result are those of the files."""
    out = tmp_path / "out"
    marker = tmp_path / "out.*.making" / "part-00000.parquet"
    status, printed, err = interrupted([*HUGE, "-o", "parquet", "--to", out], marker=marker)
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
    marker = tmp_path / "begun"
    (tmp_path / "my.py").write_text(TELLS.format(marker=str(marker)))
    (tmp_path / "run.yaml").write_text("jobs: 1")
    mine = ("--algorithm-file", f"{tmp_path / 'my.py'}:noted", "--run", tmp_path / "run.yaml", "-o", "json", "-q")
    dataset = "uniform:zones=2,endpoints=999,inputs=10000000"
    status, printed, err = interrupted(["simulate", "-d", dataset, *mine], marker=marker)
    assert (status, err) == (130, "")
    output = json.loads(printed)
    assert output["partial"] is True
    assert output["rows"] < output["of"]


def test_a_second_ctrl_c_ends_it_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    """The rule sleeps for ten minutes at an input that is not among those on which it is tried."""
    marker, handled = tmp_path / "begun", tmp_path / "handled"
    (tmp_path / "my.py").write_text(SLEEPS.format(started=str(marker), interrupted=str(handled)))
    (tmp_path / "run.yaml").write_text(
        f"{{algorithmFile: {tmp_path}/my.py:slow, dataset: 'uniform:endpoints=999,inputs=100000', jobs: 1}}"
    )
    status, printed, _ = interrupted(
        ["simulate", "--run", tmp_path / "run.yaml", "--to", tmp_path / "out.txt"], marker=marker, handled=handled
    )
    assert (status, printed) == (130, "")
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"begun", "handled", "my.py", "run.yaml"}
