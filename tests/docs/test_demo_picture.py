"""The picture of the demonstration is one of today's: the same play, the same screen, the same words."""

import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.text import Text

from zoneward import sample
from zoneward.report.screens import LogLine, ZoneStatus, demo_screen
from zoneward.report.terminal_text import Terminal
from zoneward.routing.configuration import Configuration
from zoneward.routing.demand import Demand
from zoneward.sandbox.play.play_file import Play, play_from

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
MAKE = runpy.run_path(str(PICTURES / "make_demo.py"))
SVG = "{http://www.w3.org/2000/svg}"
AGAIN = "run: python docs/pictures/make_demo.py"


@pytest.fixture(scope="module")
def picture() -> ElementTree.Element:
    return ElementTree.fromstring((PICTURES / "demo.svg").read_text())


@pytest.fixture(scope="module")
def lines(picture: ElementTree.Element) -> list[str]:
    """The words of each line, parted by one space."""
    return [" ".join(" ".join(each.itertext()).split()) for each in picture.iter(f"{SVG}g")]


@pytest.fixture(scope="module")
def play() -> Play:
    return play_from("the play", sample.play().read_bytes())


def test_it_shows_the_cluster_of_the_play(lines: list[str], play: Play) -> None:
    services = [line.split()[0] for line in lines if re.match(r"[a-z]+/[a-z]+ ", line)]
    assert services == sorted(each.path for each in play.workloads), AGAIN
    for group in play.nodes:
        assert [line for line in lines if line.startswith(f"{group.zone} ") and f"/{group.count} pods" in line], AGAIN


def test_it_was_taken_while_a_zone_is_out(lines: list[str], play: Play) -> None:
    ((at, outage),) = ((each.at, each.outage) for each in play.steps if each.outage is not None)
    assert at + outage.noticed_after < MAKE["MOMENT"] < at + (outage.duration or 0)
    (out,) = (line for line in lines if line.endswith(" out"))
    assert out.startswith(f"{outage.zone} 0%"), AGAIN
    assert any(line.endswith(f"script: zone {outage.zone}: silent for 10s") for line in lines), AGAIN
    assert any(re.search(r"updated: \S+ has no ready node, \d+ pods not ready", line) for line in lines), AGAIN


def test_its_lines_are_those_that_are_drawn_today(lines: list[str]) -> None:
    zones = [ZoneStatus(f"eu-central-1{name}", 0.3, nodes=2, ready_nodes=2, pods=2, ready_pods=2) for name in "abc"]
    drawn = demo_screen(
        (),
        marked=(),
        zones=zones,
        status=Text("zoneward demo"),
        log=[LogLine(1, "", "nothing")],
        demand=Demand(zones=tuple(each.zone for each in zones), weights=(1, 1, 1), unit="nodes"),
        configuration=Configuration(),
        terminal=Terminal(MAKE["COLUMNS"], MAKE["LINES"], color=False),
    )
    heads = [" ".join(re.sub(r"\x1b\[[0-9;]*m", "", line).split()) for line in drawn]
    (columns,) = (line for line in heads if line.startswith("SERVICE"))
    (rule,) = (line for line in heads if "written, and why" in line)
    assert columns in lines, AGAIN
    assert rule in lines, AGAIN
    assert lines[0].startswith("zoneward demo"), AGAIN
    assert len(lines) == MAKE["LINES"], AGAIN


def test_it_can_be_read_by_whoever_does_not_see_it(picture: ElementTree.Element) -> None:
    assert picture.findtext(f"{SVG}title") == "zoneward demo"
    assert "a zone is out" in (picture.findtext(f"{SVG}desc") or "")


def test_everything_is_within_its_borders(picture: ElementTree.Element) -> None:
    width, height = (float(picture.attrib[name]) for name in ("width", "height"))
    for each in picture.iter(f"{SVG}text"):
        assert float(each.attrib["x"]) + float(each.attrib["textLength"]) <= width
        assert float(each.attrib["y"]) < height
