"""Whether tests of Kubernetes that pass with the built-in parts pass with Zoneward's, as a table in the docs."""

import datetime
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
"""A folder for each selection, and in it for each mode: the suite's log and report."""
KNOWN: Final = Path(__file__).parent / "known_failures.yaml"
COMMANDS: Final = {"short": "make e2e-cluster", "full": "make conformance"}
"""What runs each selection, and where in the document its table is."""
Results = dict[Mode, dict[str, Result]]


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A test that does not pass, in which modes, and why. One that fails in every mode excuses nothing."""

    test: str
    modes: tuple[Mode, ...]
    reason: str


def read_known(file: Path = KNOWN) -> list[KnownFailure]:
    content = yaml.safe_load(file.read_text()) or []
    return [KnownFailure(each["test"], tuple(map(Mode, each["modes"])), each["reason"]) for each in content]


def regressions(results: Results, known: Sequence[KnownFailure]) -> list[str]:
    """A line for each test that passes with the built-in parts and does not with ours, unless that is known."""
    excused = {(mode, each.test) for each in known if Mode.BUILT_IN not in each.modes for mode in each.modes}
    lines = []
    for mode, found in results.items():
        if mode is Mode.BUILT_IN:
            continue
        for name, built_in in sorted(results[Mode.BUILT_IN].items()):
            ours = found.get(name)
            if built_in.state == "passed" and (mode, name) not in excused and (ours is None or ours.state != "passed"):
                lines.append(f"{mode}: {name}: {'did not run' if ours is None else f'{ours.state}: {ours.message}'}")
    return lines


def run(selection: str, *, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Starts a cluster, runs the suite in each mode, ends the cluster, writes the document; `regressions`."""
    TESTS.build(environment=environment)
    tests = TESTS.find(environment=environment)
    chosen, results = read_selection(selection), Results()
    began = time.monotonic()
    with own_cluster(environment=environment) as cluster:
        for mode in Mode:
            cluster.parts.start(mode)
            since = time.monotonic()
            results[mode] = run_suite(cluster, tests, chosen, RESULTS / selection / mode)
            click.echo(f"{mode}: {_counted(results[mode])} in {time.monotonic() - since:.0f} s", err=True)
        versions = describe(cluster)
    known = read_known()
    took = round((time.monotonic() - began) / 60)
    about = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {took} minutes, with {versions}"
    write_section(DOCUMENT, selection, section(COMMANDS[selection], about, results, known))
    return regressions(results, known)


def section(command: str, about: str, results: Results, known: Sequence[KnownFailure]) -> str:
    """Markdown: what ran, counts, and a row for each test."""
    modes = list(results)
    lines = [f"`{command}`, {about}.", ""]
    lines += ["| | " + " | ".join(modes) + " |", "| --- |" + " ---: |" * len(modes)]
    for state in ("passed", "failed", "skipped"):
        counts = [sum(each.state == state for each in results[mode].values()) for mode in modes]
        lines.append(f"| {state} | " + " | ".join(map(str, counts)) + " |")
    again = [sum(each.attempts > 1 and each.state == "passed" for each in results[mode].values()) for mode in modes]
    lines.append("| passed at the second attempt | " + " | ".join(map(str, again)) + " |")
    lines += ["", "| test | " + " | ".join(modes) + " |", "| --- |" + " --- |" * len(modes)]
    for name in sorted({name for found in results.values() for name in found}):
        cells = [_cell(results[mode].get(name)) for mode in modes]
        lines.append(f"| {_escaped(name)} | " + " | ".join(cells) + " |")
    reasons = [each for each in known if any(each.test in found for found in results.values())]
    lines += [""] if reasons else []
    lines += [f"- {_escaped(each.test)} ({', '.join(each.modes)}): {each.reason}" for each in reasons]
    return "\n".join(lines)


def write_section(document: Path, selection: str, text: str) -> None:
    """Between the marks of that selection; the rest of the document stays."""
    begin, end = f"<!-- {selection}: begin -->", f"<!-- {selection}: end -->"
    before, _, rest = document.read_text().partition(begin)
    _, _, after = rest.partition(end)
    document.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def _counted(results: Mapping[str, Result]) -> str:
    states = [each.state for each in results.values()]
    return ", ".join(f"{states.count(state)} {state}" for state in ("passed", "failed", "skipped"))


def _cell(result: Result | None) -> str:
    if result is None:
        return "-"
    return f"{result.state}, {result.seconds:.0f} s" if result.state != "skipped" else result.state


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
