"""``zoneward demo`` from beginning to end, with and without a terminal."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import Commands
from tests.cli.test_watch import Terminal
from tests.patience import PATIENCE

pytestmark = pytest.mark.slow

WAITS = "demo_run._LONGEST_WAIT = demo_run._LONGEST_WAIT_IN_ALL = demo_run._LAST = 600.0"
COMMAND = (sys.executable, "-c", f"from zoneward.cli import demo_run, main; {WAITS}; main.main()", "demo")
"""The play waits until the controller has done everything: a busy machine may need longer than viewers wait."""
FAST = ("--speed", "60")
SLOWER = ("--speed", "20")
"""What lasts for ten seconds of the play is there for several pictures, also on a busy machine."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A whole demonstration without a terminal, and the cluster that it left."""

    status: int
    lines: list[str]
    err: str
    saved: Path

    def position(self, pattern: str, *, after: int = -1) -> int:
        """The first line behind another one that is like that."""
        for index, line in enumerate(self.lines[after + 1 :], start=after + 1):
            if re.search(pattern, line):
                return index
        raise AssertionError("\n".join((f"no {pattern!r} behind line {after}:", *self.lines)))

    def in_order(self, *patterns: str) -> None:
        position = -1
        for pattern in patterns:
            position = self.position(pattern, after=position)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    saved = tmp_path_factory.mktemp("demo") / "cluster.json"
    done = subprocess.run(
        [*COMMAND, *FAST, "--save", str(saved)], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    return Shown(done.returncode, done.stdout.splitlines(), done.stderr, saved)


def test_demo_ends_by_itself_without_errors(shown: Shown) -> None:
    assert (shown.status, shown.err) == (0, "")


def test_scaling_turns_hints_on_and_off(shown: Shown) -> None:
    shown.in_order(
        r"shop/checkout +1 slice (created|updated): .*no hints \(TopologyAwareRoutingDisabled\): 4 endpoints for",
        r"script: shop/checkout is scaled to 12",
        r"shop/checkout +1 slice updated: .*pods? ready.*; hints on \(TopologyAwareRoutingEnabled\)",
        r"script: shop/checkout is scaled to 5",
        r"shop/checkout .*hints off \(TopologyAwareRoutingDisabled\): 5 endpoints for 3 zones",
    )


def test_log_shows_a_rollout_pod_by_pod(shown: Shown) -> None:
    begin = shown.position(r"script: shop/cart is rolled out")
    end = shown.position(r"script: zone eu-central-1b: silent", after=begin)
    updates = [line for line in shown.lines[begin + 1 : end] if re.search(r"shop/cart +\d slices? updated", line)]
    assert updates
    ready = sum(int(index) for line in updates for index in re.findall(r"(\d+) pods? ready", line))
    assert ready == 6, "each pod has one that takes its place"
    assert not [line for line in shown.lines[begin + 1 : end] if re.search(r"shop/(catalog|search)", line)]


def test_log_shows_an_outage_and_its_effects(shown: Shown) -> None:
    shown.in_order(
        r"script: zone eu-central-1b: silent for 10s",
        r"script: 4 nodes and 26 pods no longer ready",
        r"shop/catalog +1 slice updated: eu-central-1b has no ready node, 8 pods not ready",
        r"script: 26 pods of silent nodes replaced",
        r"shop/catalog +1 slice updated: .*8 pods ready|shop/catalog +1 slice updated: .*8 pods ending",
        r"script: 4 nodes back",
        r"shop/catalog +1 slice updated: .*eu-central-1b has ready nodes.* serve other zones, in zone \d+% > 68%",
        r"script: shop/catalog is rolled out",
        r"shop/catalog +1 slice updated: .*pods? ready",
    )
    # Its decision does not depend on nodes: its traffic does.
    shown.in_order(
        r"script: 4 nodes back",
        r"shop/cart +.*in zone 100% > 68%",
        r"script: shop/cart is rolled out",
        r"shop/cart +1 slice updated: .*in zone 68% > 100%",
    )


def test_final_figures_match_other_commands(shown: Shown, zoneward: Commands) -> None:
    """On the cluster as it was left: nothing is left to write, either."""
    table = zoneward("plan", "-f", shown.saved, "--proxy", "zoneward").out.splitlines()
    start = shown.position("^SERVICE")
    end = shown.position("^4>3", after=start)
    rows = [line.split() for line in shown.lines[start + 2 : end]]
    assert len(rows) == 6
    planned = {line.split()[0]: line.split() for line in table if "/" in line}
    assert [planned[row[0]] for row in rows] == rows
    assert all(re.fullmatch(r"=\d", row[6]) for row in rows)
    (summary,) = (line for line in shown.lines if "of the traffic stays in its zone" in line)
    flags = ("--only", "none", "--proxy", "zoneward", "-o", "json")
    total: Any = json.loads(zoneward("compare", "-f", shown.saved, *flags).out)["total"]
    assert re.findall(r"(\d+%)", summary) == [f"{row['inZoneTraffic']:.0%}" for row in total]


def test_legend_is_whole_in_a_narrow_pipe() -> None:
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(
        [*COMMAND, *FAST], capture_output=True, text=True, timeout=PATIENCE, env=environment, check=True
    )
    _, _, legend = done.stdout.partition("\n4>3: ")
    assert "SLICES: +new ~changed -deleted =kept." in " ".join(legend.split())
    assert "kube-proxy uses all endpoints (--proxy current)." in " ".join(legend.split())


def test_ctrl_c_ends_the_demo_silently(tmp_path: Path) -> None:
    saved = tmp_path / "cluster.json"
    with subprocess.Popen([*COMMAND, "--save", str(saved)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert b"script: 16 nodes" in process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
            assert process.stderr is not None
            assert process.stderr.read() == b""
        finally:
            process.kill()
    assert not list(tmp_path.iterdir())


def test_terminal_shows_the_demo_and_is_restored() -> None:
    terminal = Terminal(*SLOWER, command=COMMAND, lines=40, columns=110)

    def of_outage() -> list[str]:
        pictures = (picture for picture in terminal.pictures() if "eu-central-1b has no ready node" in picture)
        return [picture for picture in pictures if re.search(r"eu-central-1b.*out", picture)]

    terminal.until(of_outage)
    assert all("zoneward demo" in picture and "written, and why" in picture for picture in of_outage())
    assert terminal.end() == 0
    live, _, after = terminal.seen.rpartition(b"\x1b[?25h\x1b[?1049l")
    assert live.count(b"\x1b[?1049h") == 1
    assert b"of the traffic stays in its zone" in after
    assert b"shop/checkout is scaled to 5" in after
    assert b"Traceback" not in terminal.seen


def test_ctrl_c_restores_the_terminal() -> None:
    terminal = Terminal(command=COMMAND, lines=24, columns=80)
    terminal.until(lambda: b"written, and why" in terminal.seen)
    assert len(terminal.picture()) <= 24
    terminal.type(b"\x03")
    assert terminal.end() == 130
    assert terminal.seen.rstrip().endswith(b"\x1b[?25h\x1b[?1049l")
