"""A cluster whose nodes have no zone labels: what stays in its zone is unknown in every command, not 0 %."""

import json
from pathlib import Path

import pytest
from tests.builders.new_user_clusters import write_list
from tests.builders.objects import a_node, a_service, measured_traffic, pods_with_slices, service_traffic
from tests.cli.running import Commands


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Three nodes of one size with a Pod each."""
    nodes = [a_node(f"n{host}", None, address=f"10.0.0.{host + 1}") for host in range(3)]
    service = a_service("cart", namespace="shop", selector={"app": "cart"}, clusterIP="10.96.0.1")
    pods = pods_with_slices("cart", dict.fromkeys(("n0", "n1", "n2")))
    return write_list([*nodes, service, *pods], tmp_path / "cluster.json")


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """100 connections on the first node."""
    path = tmp_path / "measured.json"
    path.write_text(json.dumps(measured_traffic("n0", "", service_traffic("cart", {"": 100}))))
    return path


def test_plan_knows_no_share(zoneward: Commands, file: Path) -> None:
    (decision,) = zoneward.json("plan", "-q", "-f", file)["decisions"]
    assert (decision["inZoneTraffic"], decision["now"]["inZoneTraffic"]) == (None, None)
    assert (decision["maxOverload"], decision["droppedTraffic"]) == (0.0, 0.0)
    text = zoneward("plan", "-q", "-f", file).out
    (line,) = (line for line in text.splitlines() if "shop/cart" in line)
    assert line.split()[1:3] == ["-", "+0%"]
    assert "IN ZONE -: unknown" in text


def test_plan_knows_no_share_of_what_was_measured(zoneward: Commands, file: Path, measured: Path) -> None:
    (decision,) = zoneward.json("plan", "-q", "-f", file, "--measured", measured)["decisions"]
    assert (decision["measured"]["connections"], decision["measured"]["inZone"]) == (100, None)
    (line,) = (
        line for line in zoneward("plan", "-q", "-f", file, "--measured", measured).out.splitlines() if "cart" in line
    )
    assert line.split()[1:4] == ["-", "-", "+0%"]


def test_compare_has_no_score_and_no_best(zoneward: Commands, file: Path) -> None:
    document = zoneward.json("compare", "-q", "-f", file)
    (cart,) = document["services"]
    assert (cart["best"], cart["now"]["inZoneTraffic"], cart["now"]["score"]) == (None, None, None)
    assert {approach["inZoneTraffic"] for approach in cart["approaches"]} == {None}
    assert {row["inZoneTraffic"] for row in document["total"]} == {None}
    text = zoneward("compare", "-q", "-f", file).out
    assert "IN ZONE is unknown" in text
    assert "0%" not in [word for line in text.splitlines() if "cart" in line for word in line.split()[2:3]]


def test_explain_says_that_it_is_unknown(zoneward: Commands, file: Path, measured: Path) -> None:
    text = " ".join(zoneward("explain", "-q", "-f", file, "--measured", measured, "cart").out.split())
    assert "NOW how much stays in its zone is unknown (no node has a zone label)" in text
    assert "100 connections from 1 node: how many stayed in their zone is unknown" in text
    (family,) = zoneward.json("explain", "-q", "-f", file, "cart")["families"]
    for view in (family["now"], family["planned"]):
        assert (view["inZoneTraffic"], view["zones"][""]["inZone"]) == (None, None)


@pytest.mark.parametrize("output", ["html", "svg"])
def test_pages_and_pictures_say_that_it_is_unknown(zoneward: Commands, file: Path, output: str) -> None:
    text = zoneward("explain", "-q", "-f", file, "cart", "-o", output).out
    assert "unknown" in text
    assert ">0% stays" not in text
    assert "IN ZONE -: unknown" in zoneward("plan", "-q", "-f", file, "-o", "html").out
    assert "IN ZONE is unknown" in zoneward("compare", "-q", "-f", file, "-o", "html").out


def test_report_says_why_there_is_no_figure(zoneward: Commands, file: Path, measured: Path) -> None:
    result = zoneward("report", "-f", file, "--measured", measured)
    assert "1 Service left out: no measured traffic starts in a known zone" in result.err
