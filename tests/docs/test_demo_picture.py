"""The picture of the demonstration shows the play as it is today."""

import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

from zoneward import sample
from zoneward.sandbox.play.play_file import Play, play_from

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
MAKE = runpy.run_path(str(PICTURES / "make_demo.py"))
SVG = "{http://www.w3.org/2000/svg}"
AGAIN = "run: python docs/pictures/make_demo.py"


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """The words of each line, parted by one space."""
    picture = ElementTree.fromstring((PICTURES / "demo.svg").read_text())
    return [" ".join(" ".join(group.itertext()).split()) for group in picture.iter(f"{SVG}g")]


@pytest.fixture(scope="module")
def play() -> Play:
    return play_from("the play", sample.play().read_bytes())


def test_it_shows_the_cluster_of_the_play(lines: list[str], play: Play) -> None:
    assert (lines[0].split()[:2], len(lines)) == (["zoneward", "demo"], MAKE["LINES"]), AGAIN
    services = [line.split()[0] for line in lines if re.match(r"[a-z]+/[a-z]+ ", line)]
    assert services == sorted(workload.path for workload in play.workloads), AGAIN
    for group in play.nodes:
        assert [line for line in lines if line.startswith(f"{group.zone} ") and f"/{group.count} pods" in line], AGAIN


def test_it_was_taken_while_a_zone_is_out(lines: list[str], play: Play) -> None:
    ((at, outage),) = ((step.at, step.outage) for step in play.steps if step.outage is not None)
    assert at + outage.noticed_after < MAKE["MOMENT"] < at + (outage.duration or 0)
    (out,) = (line for line in lines if line.endswith(" out"))
    assert out.startswith(f"{outage.zone} 0%"), AGAIN
    assert any(line.endswith(f"script: zone {outage.zone}: silent for 10s") for line in lines), AGAIN
    assert any(re.search(r"updated: \S+ has no ready node, \d+ pods not ready", line) for line in lines), AGAIN
