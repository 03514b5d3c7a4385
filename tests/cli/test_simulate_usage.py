"""``zoneward simulate`` asked for what can't be, or without what it needs: one line, exit status 2."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.running import Commands

from zoneward.extras import how_to_install

KNOWN = (
    "all, random, local, local-kep-tool, local-shared, local-weighted, local-opt, ProportionalZoneCPU, Balanced, "
    "PreferSameZone, cluster-wide"
)
ENCODINGS = "slice-groups, hints, weights, both, all"
DATASETS = "kep, kep-permuted, representative, small, medium, few, uniform, cluster, or a CSV file"
WRONG: dict[tuple[str, ...], str] = {
    ("-d", "nope"): f"--dataset: expected one of {DATASETS}, got 'nope'",
    ("-d", "nope.csv"): "nope.csv: no such file or directory",
    ("-d", "small:3"): "--dataset: small: expected nothing after it, got '3'",
    ("-d", "uniform:zones=1"): (
        "--dataset: uniform: zones: expected a number from 2 to 30, or two with - between, got '1'"
    ),
    ("-d", "uniform:pods=1"): "--dataset: uniform: expected zones=, nodes=, endpoints= and inputs=, got 'pods=1'",
    ("-d", "kep", "--sample"): "-f and --sample: expected --dataset cluster with them, got kep",
    ("--sample", "--sample-size", "3"): "--sample-size: expected another dataset than cluster with it",
    ("-f", "none.yaml"): "none.yaml: no such file or directory",
    ("-a", "nope"): f"--algorithm: expected one of {KNOWN}, got 'nope'",
    ("--sample-size", "0"): "Invalid value for '--sample-size': 0 is not in the range x>=1.",
    ("-o", "parquet"): "-o parquet: expected --to DIRECTORY",
    ("--encoding", "hint"): f"--encoding: expected one of {ENCODINGS}, got 'hint' (did you mean 'hints'?)",
    ("--encoding", "hints,"): f"--encoding: expected one of {ENCODINGS}, got ''",
    ("--encoding", "hints,slice-groups,hints"): "--encoding: expected hints once, got it twice",
    ("--encoding", "weights", "--encoding", "all"): "--encoding: expected weights once, got it twice",
    ("--encoding", "hints,weights"): "--encoding: weights: expected Balanced among the algorithms, no other has them",
    ("-o", "parquet", "--to", "x", "--encoding", "hints"): (
        "-o parquet: expected --encoding slice-groups, got hints"
    ),
    ("-o", "parquet", "--to", "x", "--by", "zones"): (
        "--by: expected an output that shows it, such as table, got -o parquet"
    ),
    ("-o", "topology-simulator"): "-o: topology-simulator: expected one algorithm, got 6",
    ("-o", "topology-simulator", "--bounds"): (
        "--bounds: expected an output that shows it, such as table, got -o topology-simulator"
    ),
    ("--run", "none.yaml"): "none.yaml: expected a readable file, got: No such file or directory",
    ("--algorithm-file", "my.py"): "--algorithm-file: expected my.py:function, got 'my.py'",
    ("--to", "none/out.txt"): "--to: none/out.txt: expected a file that can be written: No such file or directory",
    ("--to", "."): "--to: .: expected a file that can be written: Is a directory",
    ("-o", "parquet", "--to", "."): "--to: .: expected a directory that does not exist yet",
    ("-o", "parquet", "--to", "none/out"): (
        "--to: none/out: expected a directory that can be created: No such file or directory"
    ),
    ("more",): "Got unexpected extra argument (more)",
}  # fmt: skip


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_wrong_usage_is_told_in_one_line_before_anything_is_compiled(
    zoneward: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    result = zoneward("simulate", *arguments)
    assert (result.status, result.out, result.err) == (2, "", f"zoneward: {WRONG[arguments]}\n")
    assert list(tmp_path.iterdir()) == [], "no machine code, and no file that was begun"


WRONG_RUNS = {
    "jbos: 1": "run.yaml: jbos: expected one of dataset, algorithms, algorithmFile, encodings, by, bounds, sampleSize,"
    " sweep, quantiles, worst, differences, seed, skipInvalid, jobs, scheduler, config, got an unknown key (did you"
    " mean 'jobs'?)",
    "seed: -1": "run.yaml: seed: expected a whole number of at least 0, got -1",
    "quantiles: 5": "run.yaml: quantiles: expected a list of percentages, got 5",
    "quantiles: [0]": "run.yaml: quantiles[0]: expected a percentage above 0 and below 100, got 0",
    "by: pods": "run.yaml: by: expected endpoints or zones, got 'pods'",
    "sweep: {padding: 3}": "run.yaml: sweep[padding]: expected a list of values, got 3",
    "by: [": "run.yaml: line 2, column 1: malformed YAML: did not find expected node content",
    "scheduler: host:1": "scheduler: expected tcp://HOST:PORT, got 'host:1'",
    "{scheduler: 'tcp://host:1', jobs: 2}": "jobs and scheduler: expected one of them, got both",
    "config: zoneward.yaml": "config: expected --dataset cluster with it, got kep",
}


@pytest.mark.parametrize("text", WRONG_RUNS)
def test_wrong_run_file_is_refused_with_the_field(
    zoneward: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(text)
    result = zoneward("simulate", "--run", "run.yaml")
    assert (result.status, result.out, result.err) == (2, "", f"zoneward: {WRONG_RUNS[text]}\n")


@pytest.mark.parametrize("field", ["worst: 3", "differences: true", "quantiles: [1]"])
def test_csv_refuses_the_tables_that_it_can_t_show(zoneward: Commands, tmp_path: Path, field: str) -> None:
    (tmp_path / "run.yaml").write_text(field)
    assert zoneward.refused("simulate", "--run", tmp_path / "run.yaml", "-o", "csv").startswith(
        f"zoneward: {field.partition(':')[0]}: expected an output that shows it"
    )


def test_every_option_is_in_the_table_of_wrong_usage_or_a_flag_that_can_t_be_wrong() -> None:
    from zoneward.cli.simulate import command

    options = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
    used = {word for arguments in WRONG for word in arguments}
    short = {"-d": "--dataset", "-a": "--algorithm", "-o": "--output", "-f": "--filename"}
    wrong = used | {short[word] for word in used & short.keys()}
    assert options - wrong == {"--quiet", "--color"}


def without(module: str, folder: Path) -> dict[str, str]:
    """An environment with everything that is installed here, except a module."""
    import numpy as np

    folder.mkdir()
    for entry in Path(np.__file__).parents[1].iterdir():
        if not entry.name.startswith((module, f"_{module}", "__editable__", "_zoneward")):
            (folder / entry.name).symlink_to(entry)
    source = Path(__file__).parents[2] / "src"
    return {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{folder}"}


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("numba", ()),
        ("numpy", ()),
        ("matplotlib", ("-o", "html")),
        ("polars", ("-o", "parquet", "--to", "out")),
        ("polars", ("-o", "topology-simulator", "-a", "local")),
        ("polars", ("-d", "inputs.csv")),
    ],
)
def test_without_the_extra_one_line_says_how_to_install_it(
    tmp_path: Path, module: str, arguments: tuple[str, ...]
) -> None:
    environment = without(module, tmp_path / "packages")
    run = [sys.executable, "-S", "-m", "zoneward", "simulate", *arguments]
    done = subprocess.run(run, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    wanted = f"expected the extra lab to be installed, {module} is missing: {how_to_install('lab')}"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"zoneward: simulate: {wanted}\n")


def test_a_table_needs_neither_polars_nor_matplotlib(tmp_path: Path) -> None:
    environment = without("polars", tmp_path / "packages")
    (tmp_path / "packages" / "matplotlib").unlink()
    arguments = "simulate -q -d small --sample-size 3000 -a random"
    run = [sys.executable, "-S", "-m", "zoneward", *arguments.split()]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("small: 3,000 inputs, a sample of 389,400\n")
