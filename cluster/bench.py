"""Counts connections that fail while a cluster changes, with the built-in parts and with Zoneward's, for the docs.

Both in turns, several runs each, for Pods that exit at once on SIGTERM and for Pods that serve a little
longer. Each run is a line of JSON as soon as it is done, so that an interruption loses one run.
"""

import datetime
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Final

import click
from cluster.conformance import ROOT, describe, write_section
from cluster.disruptions import DETECTION, DISRUPTIONS, Disruption
from cluster.lifecycle import Cluster, own_cluster
from cluster.load import BALANCED, NAMESPACE, Outcome, open_connections, serve, settle
from cluster.parts import Mode
from release.image import current_image

DOCUMENT: Final = ROOT / "docs" / "disruption.md"
RESULTS: Final = ROOT / "build" / "disruption"
"""``runs.jsonl``, and a file for each run with its connections that failed or were slow."""
_AT_ONCE: Final = 0
DELAYS: Final = {_AT_ONCE: "exit at once", 2: "serve 2 s longer"}
"""Seconds for which Pods serve after SIGTERM."""
RUNS: Final = 3
_A_THIRD: Final = frozenset({"rollout", "drain", "scaling"})
"""Where at most a third of the built-in parts' failures is wanted; never more of them is wanted elsewhere."""


@dataclass(frozen=True, slots=True)
class Run:
    """``delay`` of `DELAYS`. ``acted`` is how many seconds the disruption took; the clients run a little longer."""

    disruption: str
    delay: int
    mode: str
    index: int
    sent: int
    failed: int
    slow: int
    reasons: dict[str, int]
    acted: float
    in_zone: float


def run(disruptions: Sequence[str], *, runs: int, resume: bool, mode: Mode) -> list[str]:
    """Run all disruptions, or those named, on a separate cluster, with the built-in parts and in a ``mode`` of
    Zoneward; return `missed_goals`.

    All of them together write the document.

    With ``resume``, runs that an earlier call did are not done again.
    """
    file = RESULTS / "runs.jsonl"
    if not resume:
        file.unlink(missing_ok=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    done = read_runs(file)
    left = [
        run_ for run_ in _plan(disruptions or list(DISRUPTIONS), runs, mode) if not any(_is(run_, one) for one in done)
    ]
    images = [current_image(environment=os.environ)] if any(name == "upgrade" for *_, name in left) else []
    # Otherwise the control plane waits for containers that end: 0.2 to 0.5 s for each write while eight do.
    with own_cluster(more_images=images, niceness_counts=True) as cluster:
        about = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, with {describe(cluster)}"
        for run_ in _runs(cluster, left):
            done.append(run_)
            with file.open("a") as lines:
                lines.write(f"{json.dumps(asdict(run_))}\n")
            click.echo(f"{run_.disruption}, {DELAYS[run_.delay]}, {run_.mode}, run {run_.index}: {_brief(run_)}")
    click.echo(table(done, mode))
    if mode is Mode.BOTH and {run_.disruption for run_ in done} == DISRUPTIONS.keys():
        write_section(DOCUMENT, "disruption", f"`make bench-cluster`, {about}.\n\n{table(done)}")
    return missed_goals(done, mode)


def read_runs(file: Path) -> list[Run]:
    return [Run(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


def table(runs: Sequence[Run], mode: Mode = Mode.BOTH) -> str:
    """Markdown: a row for each disruption and kind of Pods, with each run and the totals, or just 0."""
    lines = ["| | Pods | failed: Zoneward | failed: built-in | slow: Zoneward | slow: built-in |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: |")
    for name, delay in _rows(runs):
        counts = [_counts(runs, name, delay, of, what) for what in ("failed", "slow") for of in (mode, Mode.BUILT_IN)]
        kind = DELAYS[delay] if DISRUPTIONS[name].ends_pods else "stay"
        lines.append(f"| {name} | {kind} | {' | '.join(map(_cell, counts))} |")
    return "\n".join(lines)


def missed_goals(runs: Sequence[Run], mode: Mode = Mode.BOTH) -> list[str]:
    """A line for each total that is above what is wanted. An overlay leaves Pods and proxies to Kubernetes, and so
    nothing more than the same is wanted of it.
    """
    lines = []
    for name, delay in _rows(runs):
        for what in ("failed", "slow"):
            measured, built_in = (sum(_counts(runs, name, delay, of, what)) for of in (mode, Mode.BUILT_IN))
            is_third = what == "failed" and name in _A_THIRD and mode is Mode.BOTH
            most = built_in // 3 if is_third else built_in
            if measured > most:
                lines.append(f"{name}, Pods that {DELAYS[delay]}: at most {most} {what}, got {measured}")
    return lines


def _rows(runs: Sequence[Run]) -> Iterator[tuple[str, int]]:
    measured = {(run_.disruption, run_.delay) for run_ in runs}
    return (row for row in product(DISRUPTIONS, DELAYS) if row in measured)


def _counts(runs: Sequence[Run], name: str, delay: int, mode: Mode, what: str) -> list[int]:
    return [getattr(run_, what) for run_ in runs if (run_.disruption, run_.delay, run_.mode) == (name, delay, mode)]


def _cell(counts: Sequence[int]) -> str:
    if counts and not any(counts):
        return "0"
    return " + ".join(map(str, counts)) + (f" = **{sum(counts)}**" if len(counts) > 1 else "")


_Planned = tuple[int, Mode, int, str]


def _plan(disruptions: Sequence[str], runs: int, mode: Mode) -> list[_Planned]:
    """In turns, with as few changes as that allows. Where no Pod is deleted, one kind of Pod is enough."""
    every = product(
        range(1, runs + 1),
        (Mode.BUILT_IN, mode),
        DELAYS,
        [disruption for disruption in DISRUPTIONS if disruption in disruptions],
    )
    return [run_ for run_ in every if run_[2] == _AT_ONCE or DISRUPTIONS[run_[3]].ends_pods]


def _is(planned: _Planned, done: Run) -> bool:
    return planned == (done.index, done.mode, done.delay, done.disruption)


def _runs(cluster: Cluster, planned: Sequence[_Planned]) -> Iterator[Run]:
    cluster.plane.controller_flags = DETECTION
    before: tuple[Mode, int] | None = None
    for index, mode, delay, name in planned:
        if before is None or before[0] is not mode:
            cluster.parts.start(mode)
        if before is None or before[1] != delay:
            serve(cluster, delay=delay)
        if mode is Mode.OVERLAY:
            cluster.kubectl("annotate", "--overwrite", "service", "web", BALANCED, *NAMESPACE)
        before = mode, delay
        settle(cluster)
        outcome, acted = _disrupt(cluster, mode, DISRUPTIONS[name])
        (RESULTS / f"{name}-{delay}-{mode}-{index}.log").write_text(outcome.lines)
        yield Run(
            name,
            delay,
            mode,
            index,
            outcome.sent,
            outcome.failed,
            outcome.slow,
            outcome.reasons,
            round(acted, 1),
            round(outcome.in_zone, 4),
        )


def _disrupt(cluster: Cluster, mode: Mode, disruption: Disruption) -> tuple[Outcome, float]:
    acted = 0.0

    def act() -> None:
        nonlocal acted
        began = time.monotonic()
        disruption.act(cluster, mode)
        acted = time.monotonic() - began

    try:
        disruption.prepare(cluster, mode)
        return open_connections(cluster, disruption.seconds_with(mode), act), acted
    finally:
        disruption.undo(cluster, mode)


def _brief(run: Run) -> str:
    reasons = ", ".join(f"{count} {reason}" for reason, count in run.reasons.items())
    failed = f"{run.failed} of {run.sent} failed ({reasons or '-'})"
    return f"{failed}, {run.slow} slow, {run.in_zone:.0%} in zone, acted {run.acted:.0f} s"
