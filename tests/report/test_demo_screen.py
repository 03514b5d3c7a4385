"""The screen of a controller at work: it fits, shows what is new, and sums up as a comparison does."""

import re

import pytest
from rich.cells import cell_len
from rich.text import Text
from tests.report.test_screens import REVERSE, plain, planned

from zoneward.report.screens import LogLine, ZoneStatus, demo_screen
from zoneward.report.terminal_text import Terminal
from zoneward.routing.configuration import Configuration

ZONES = (
    ZoneStatus("eu-central-1a", 0.6, nodes=3, ready_nodes=3, pods=9, ready_pods=8),
    ZoneStatus("eu-central-1b", 0.0, nodes=2, ready_nodes=0, pods=5, ready_pods=0),
    ZoneStatus("eu-central-1c", 0.4, nodes=2, ready_nodes=2, pods=4, ready_pods=4),
)
LOG = [
    LogLine(float(index), "shop/cart", f"{index} slices updated: {index} pods ready; " + "so " * (index % 40))
    for index in range(60)
]


def shown(
    *,
    height: int,
    width: int = 100,
    services: int = 6,
    log: list[LogLine] = LOG,
    marked: tuple[tuple[str, str], ...] = (),
    color: bool = False,
) -> list[str]:
    demand, plans = planned()
    return demo_screen(
        plans[:services],
        marked=marked,
        zones=ZONES,
        status=Text("the status"),
        log=log,
        demand=demand,
        configuration=Configuration(),
        terminal=Terminal(width, height, color),
    )


@pytest.mark.parametrize("width", [20, 46, 80, 120])
@pytest.mark.parametrize("services", [0, 6, 16])
def test_demo_screen_fits_the_terminal(width: int, services: int) -> None:
    for height in (1, 2, 5, 9, 12, 19, 20, 24, 40, 200):
        lines = [plain(line) for line in shown(height=height, width=width, services=services)]
        assert len(lines) <= height
        assert all(cell_len(line.rstrip()) <= width for line in lines), max(lines, key=cell_len)
        assert lines[0].rstrip() == "the status"


def test_newest_log_line_is_the_last_line() -> None:
    lines = [plain(line) for line in shown(height=24, width=80)]
    assert len(lines) == 24
    assert "59 slices updated" in "".join(lines[-3:])
    assert sum("slices updated" in line for line in lines) > 2


def test_zone_without_ready_nodes_is_out() -> None:
    lines = [plain(line) for line in shown(height=40)]
    assert [line.rstrip().endswith("out") for line in lines[1:4]] == [False, True, False]
    assert re.search(r"SERVICE +a +b +c", "".join(lines))


@pytest.mark.parametrize("color", [True, False])
def test_written_services_are_marked(color: bool) -> None:
    lines = shown(height=40, marked=(("payments", "api"),), color=color)
    assert {plain(line).split()[0] for line in lines if REVERSE.search(line)} == {"payments/api"}
