"""Runs Kubernetes' own tests with Zoneward's parts, and compares them with the built-in parts."""

import csv
import datetime
import io
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import yaml
from cluster.lifecycle import Cluster, own_cluster
from cluster.parts import Mode
from cluster.programs import TESTS
from cluster.suite import Result, read_selection, run_suite
from e2e.programs import VERSION

ROOT: Final = Path(__file__).parent.parent
DOCUMENT: Final = ROOT / "docs" / "conformance.md"
RESULTS: Final = ROOT / "build" / "conformance"
"""A folder for each selection, and in it one for each mode: the suite's log and report."""
RESULT_OF_EACH_TEST: Final = Path(__file__).parent / "conformance_results.csv"
_KNOWN: Final = Path(__file__).with_name("known_failures.yaml")
Results = dict[Mode, dict[str, Result]]


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A test that does not pass, in which modes, and why. One that fails in every mode excuses nothing."""

    test: str
    modes: tuple[Mode, ...]
    reason: str


def read_known() -> list[KnownFailure]:
    content = yaml.safe_load(_KNOWN.read_text()) or []
    return [KnownFailure(entry["test"], tuple(map(Mode, entry["modes"])), entry["reason"]) for entry in content]


def regressions(results: Results, known: Sequence[KnownFailure]) -> list[str]:
    """A line for each test that passes with the built-in parts and does not with Zoneward's, unless that is known."""
    excused = {
        (mode, failure.test) for failure in known if Mode.BUILT_IN not in failure.modes for mode in failure.modes
    }
    lines = []
    for mode, tests in results.items():
        if mode is Mode.BUILT_IN:
            continue
        for name, built_in in sorted(results[Mode.BUILT_IN].items()):
            result = tests.get(name)
            if built_in.state != "passed" or (mode, name) in excused or (result and result.state == "passed"):
                continue
            lines.append(f"{mode}: {name}: {_problem(result)}")
    return lines


def failures(mode: Mode, tests: Mapping[str, Result], known: Sequence[KnownFailure]) -> list[str]:
    """A line for each test that does not pass in ``mode``, unless that is known; also where no test ran."""
    excused = {failure.test for failure in known if mode in failure.modes}
    lines = [
        f"{mode}: {name}: {_problem(result)}"
        for name, result in sorted(tests.items())
        if result.state != "passed" and name not in excused
    ]
    return lines if tests else [f"{mode}: no test ran"]


def compare_modes() -> list[str]:
    """Run the whole selection in every mode, write both documents, and return `regressions`."""
    started = time.monotonic()
    TESTS.build(environment=os.environ)
    with own_cluster() as cluster:
        results, versions = _run(cluster, "full", tuple(Mode)), describe(cluster)
    known = read_known()
    minutes = round((time.monotonic() - started) / 60)
    heading = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {minutes} minutes, with {versions}"
    write_section(DOCUMENT, "table", summary(heading, results, known))
    RESULT_OF_EACH_TEST.write_text(result_of_each_test(results))
    return regressions(results, known)


def check_mode(cluster: Cluster, mode: Mode) -> list[str]:
    """Run the short selection in one mode, and return `failures`."""
    return failures(mode, _run(cluster, "short", (mode,))[mode], read_known())


def _run(cluster: Cluster, selection: str, modes: Sequence[Mode]) -> Results:
    tests = TESTS.find(environment=os.environ)
    chosen, results = read_selection(selection), Results()
    for mode in modes:
        cluster.parts.start(mode)
        since = time.monotonic()
        results[mode] = run_suite(cluster, tests, chosen, RESULTS / selection / mode)
        click.echo(f"{mode}: {_counts(results[mode])} in {time.monotonic() - since:.0f} s", err=True)
    return results


def summary(heading: str, results: Results, known: Sequence[KnownFailure]) -> str:
    """Markdown: what ran, the counts, and the tests that are known not to pass."""
    modes = list(results)
    lines = [f"`make conformance`, {heading}.", ""]
    lines += ["| | " + " | ".join(modes) + " |", "| --- |" + " ---: |" * len(modes)]
    for state in ("passed", "failed", "skipped"):
        counts = [sum(result.state == state for result in results[mode].values()) for mode in modes]
        lines.append(f"| {state} | " + " | ".join(map(str, counts)) + " |")
    repeated = [
        sum(result.attempts > 1 and result.state == "passed" for result in results[mode].values()) for mode in modes
    ]
    lines.append("| passed at the second attempt | " + " | ".join(map(str, repeated)) + " |")
    reasons = [failure for failure in known if any(failure.test in tests for tests in results.values())]
    lines += [""] if reasons else []
    lines += [f"- {_escaped(failure.test)} ({', '.join(failure.modes)}): {failure.reason}" for failure in reasons]
    return "\n".join(lines)


def result_of_each_test(results: Results) -> str:
    """CSV: a row for each test, with its state and seconds in each mode."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["test", *results])
    for name in sorted({name for tests in results.values() for name in tests}):
        rows.writerow([name, *(_cell(results[mode].get(name)) for mode in results)])
    return text.getvalue()


def write_section(document: Path, name: str, text: str) -> None:
    """Replace the text between the two marks of that name; the rest of the document stays."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = document.read_text().partition(begin)
    _, _, after = rest.partition(end)
    document.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def _counts(results: Mapping[str, Result]) -> str:
    states = [result.state for result in results.values()]
    return ", ".join(f"{states.count(state)} {state}" for state in ("passed", "failed", "skipped"))


def _problem(result: Result | None) -> str:
    return "did not run" if result is None else f"{result.state}: {result.message}"


def _cell(result: Result | None) -> str:
    if result is None:
        return "-"
    return f"{result.state} {result.seconds:.0f} s" if result.state != "skipped" else result.state


def _escaped(name: str) -> str:
    return name.replace("|", "\\|").replace("[", "\\[").replace("<", "\\<")


def describe(cluster: Cluster) -> str:
    """The versions of what runs."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    node = cluster.kubectl("get", "node", "n1", "--output=jsonpath={.status.nodeInfo.containerRuntimeVersion}")
    kernel = os.uname().release.partition("-")[0]
    return f"Kubernetes {VERSION}, {node.replace('://', ' ')}, Linux {kernel}, Zoneward at {commit or 'no commit'}"
