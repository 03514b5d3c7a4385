"""Traffic that proxies drop, in every command: 6 Pods on 60 nodes, and ``internalTrafficPolicy: Local``."""

from itertools import islice
from pathlib import Path
from typing import Final

import pytest
from tests.builders.new_user_clusters import write_list
from tests.builders.objects import a_node, a_service, pods_with_slices
from tests.cli.running import Commands

ZONES: Final = "abc"
NODES: Final = 60
RED: Final = "\x1b[31m"
GREEN: Final = "\x1b[32m"
WHY: Final = "90% of its traffic is dropped: internalTrafficPolicy is Local, and 54 of 60 nodes have no ready endpoint"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Nodes of one size, and two Pods in each of three zones."""
    zones = {f"n{index}": ZONES[index % 3] for index in range(NODES)}
    nodes = (a_node(node, zone, address=f"10.0.0.{index}") for index, (node, zone) in enumerate(zones.items(), 1))
    service = a_service(
        "agent", namespace="shop", selector={"app": "agent"}, clusterIP="10.96.0.1", internalTrafficPolicy="Local"
    )
    pods = pods_with_slices("agent", dict(islice(zones.items(), 6)))
    return write_list([*nodes, service, *pods], tmp_path / "cluster.json")


def test_explain_starts_with_dropped_traffic_and_its_fix(zoneward: Commands, file: Path) -> None:
    text = zoneward("explain", "-q", "-f", file, "agent").out
    assert " ".join(text.split()).startswith(f"shop/agent {WHY}")
    assert "nothing to fix" not in text
    assert '--type=merge -p \'{"spec":{"internalTrafficPolicy":"Cluster"}}\'' in text


def test_page_and_picture_show_dropped_traffic(zoneward: Commands, file: Path) -> None:
    page = zoneward("explain", "-q", "-f", file, "agent", "-o", "html").out
    assert '<strong class="red">90% of its traffic is dropped</strong>' in page
    picture = zoneward("explain", "-q", "-f", file, "agent", "-o", "svg").out
    assert picture.count(">90% is dropped<") == 1


def test_plan_shows_dropped_traffic_in_red(zoneward: Commands, file: Path) -> None:
    (line,) = (
        line
        for line in zoneward("plan", "-q", "-f", file, "--with", "controller", "--color=always").out.splitlines()
        if "agent" in line
    )
    assert f"{RED}drops" in line
    assert f"{RED}, 90% dropped" in line
    assert "+0%" not in line
    # The green +1 is a new slice, and nothing else is green.
    assert [part.partition("\x1b")[0] for part in line.split(GREEN)[1:]] == ["+1"]


def test_compare_calls_no_setting_best_that_drops_traffic(zoneward: Commands, file: Path) -> None:
    (agent,) = zoneward.json("compare", "-q", "-f", file)["services"]
    assert agent["now"]["score"] is None
    assert {approach["score"] for approach in agent["approaches"]} == {None}
    table = zoneward("compare", "-q", "-f", file).out
    assert "drops 90%" in table
    assert "1 Service drops traffic: it has no score and is in no mean" in table
    assert not any(line.split()[-1:] == ["best"] for line in table.splitlines())
