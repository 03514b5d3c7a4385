"""Runs a selection of Kubernetes' own end-to-end suite on the cluster."""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

import yaml
from cluster.lifecycle import Cluster
from cluster.sites import SITES
from e2e.processes import wait_until

_SELECTIONS: Final = Path(__file__).parent / "selections.yaml"
_PROGRAM: Final = "e2e-suite"
_REPORT: Final = "report.json"
_PROCESSES: Final = 5
"""Most tests wait most of the time."""
_ATTEMPTS: Final = 2
"""A test that fails is tried once more: with two cores, six kubelets are sometimes late."""
_LIMIT_MINUTES: Final = 90

State = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Result:
    """Of one test. ``message`` says why it failed or skipped itself; ``attempts`` are 0 where it skipped itself."""

    state: State
    seconds: float
    attempts: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class Selection:
    """``focus`` and ``skip`` are regular expressions over the tests' names: any of them."""

    name: str
    focus: tuple[str, ...]
    skip: tuple[str, ...]


def read_selection(name: str) -> Selection:
    content = yaml.safe_load(_SELECTIONS.read_text())[name]
    return Selection(name, tuple(content["focus"]), tuple(content["skip"]))


def run_suite(cluster: Cluster, tests: Mapping[str, Path], selection: Selection, folder: Path) -> dict[str, Result]:
    """The result of each test by its name. ``folder`` gets log and report. Raises ProcessError if it cannot run."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kubeconfig = cluster.plane.kubeconfig()
    command: list[str | Path] = [
        tests["ginkgo"],
        f"--procs={_PROCESSES}",
        *(f"--focus={expression}" for expression in selection.focus),
        *(f"--skip={expression}" for expression in selection.skip),
        f"--flake-attempts={_ATTEMPTS}",
        f"--timeout={_LIMIT_MINUTES}m",
        f"--output-dir={folder}",
        f"--json-report={_REPORT}",
        # The same order each time.
        "--seed=1",
        "--keep-going",
        "--no-color",
        "--silence-skips",
        tests["e2e.test"],
        "--",
        f"--kubeconfig={kubeconfig}",
        f"--kubectl-path={cluster.programs['kubectl']}",
        "--provider=skeleton",
        f"--num-nodes={len(SITES)}",
        "--disable-log-dump",
        "--allowed-not-ready-nodes=0",
    ]
    cluster.box.end(_PROGRAM)
    process = cluster.box.start(_PROGRAM, command)
    wait_until(lambda: not process.runs, "the end of the suite", patience=(_LIMIT_MINUTES + 5) * 60.0)
    shutil.copy(cluster.box.log(_PROGRAM), folder / "log")
    report = folder / _REPORT
    if not report.exists():
        # Tests that failed are in the report; without one there were none.
        process.check()
    return parse_report(json.loads(report.read_text()))


def parse_report(report: Sequence[Mapping[str, Any]]) -> dict[str, Result]:
    """The tests of Ginkgo's JSON report that were selected."""
    results = {}
    for suite in report:
        for spec in suite["SpecReports"] or ():
            if spec["LeafNodeType"] != "It" or _was_left_out(spec):
                continue
            name = " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])
            state = spec["State"] if spec["State"] in ("passed", "skipped") else "failed"
            results[name] = Result(
                state=cast(State, state),
                seconds=spec["RunTime"] / 1e9,
                attempts=spec["NumAttempts"],
                message=_first_line(spec.get("Failure", {}).get("Message", "")),
            )
    return results


def _was_left_out(spec: Mapping[str, Any]) -> bool:
    """By focus and skip; a test that skips itself says why."""
    return spec["State"] == "pending" or (spec["State"] == "skipped" and not spec.get("Failure", {}).get("Message"))


def _first_line(message: str) -> str:
    lines = [re.sub(r"\s+", " ", line).strip() for line in message.splitlines()]
    return next((line for line in lines if line), "")[:200]
