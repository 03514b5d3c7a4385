"""Figures of ``zoneward report`` for a small cluster with a node and a Pod of a Service in each of three zones."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from tests.builders.new_user_clusters import write_list
from tests.builders.objects import Object, a_node, a_pod, a_service, measured_traffic, pods_with_slices, service_traffic
from tests.cli.running import Commands

ZONES: Final = "abc"
Report = Callable[..., dict[str, Any]]


@pytest.fixture
def report(zoneward: Commands, tmp_path: Path) -> Report:
    """The report of a Service that was measured like this on each node."""
    nodes = [a_node(f"n-{zone}", zone) for zone in ZONES]
    service = a_service("cart", namespace="shop", selector={"app": "cart"}, clusterIP="10.96.0.1")
    file = write_list(
        [*nodes, service, *pods_with_slices("cart", {f"n-{zone}": zone for zone in ZONES})], tmp_path / "cluster.json"
    )

    def run(*arguments: str, zones: dict[str, int], others: Sequence[Object] = (), **more: Any) -> dict[str, Any]:
        measured = tmp_path / "measured.jsonl"
        documents = [measured_traffic(f"n-{zone}", zone, service_traffic("cart", zones, **more)) for zone in ZONES]
        measured.write_text("\n".join(map(json.dumps, [*documents, *others])))
        return dict(zoneward.json("report", "-f", file, "--measured", measured, *arguments))

    return run


def test_what_saves_as_much_as_rounding_leaves_is_not_the_best(report: Report) -> None:
    """Connections go to all zones alike, as without a setting."""
    sizes = {zone: {"request": 10_000_000, "response": 100_000_000} for zone in ZONES}
    (cart,) = report("--only", "none", zones=dict.fromkeys(ZONES, 1000), bytes=sizes)["services"]
    (setting,) = cart["settings"]
    assert setting["saved"]["gb"] == pytest.approx(0)
    assert (cart["best"], cart["better"]) == (None, None)


def test_a_node_that_was_replaced_does_not_count(report: Report) -> None:
    zones, sizes = {"a": 10, "b": 5}, {"b": {"request": 1, "response": 10**9}}
    gone = [measured_traffic("gone", "a", service_traffic("cart", zones, bytes=sizes))]
    assert report(zones=zones, bytes=sizes, others=gone) == report(zones=zones, bytes=sizes)


def test_totals_have_what_came_from_outside_to_a_service_without_other_traffic(report: Report) -> None:
    """A third of it stays in the zone of the node that took it in."""
    sizes = {zone: {"request": 0, "response": 10**9} for zone in ZONES}
    external = {"external": dict.fromkeys(ZONES, 1000), "externalBytes": sizes}
    document = report("--price-per-gb", "0.02USD", zones={}, bytes={}, **external)
    assert (document["services"], document["total"]["services"]) == ([], 0)
    gb = 6 * 730 / 24
    assert document["total"]["external"]["gb"] == pytest.approx(gb)
    assert document["total"]["external"]["money"] == pytest.approx(0.02 * gb)


def test_advise_counts_both_families(zoneward: Commands, tmp_path: Path) -> None:
    """Each zone sends as much to each zone. There are three times as many bytes by IPv6."""
    app = {"app": "cart"}
    families: Object = {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"}
    addresses: Object = {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1", "fd00::1"]}
    service = a_service("cart", namespace="shop", selector=app, **families, **addresses)
    pods = [
        a_pod(f"cart-{zone}", node=f"n-{zone}", ips=[f"10.1.0.{index}", f"fd01::{index}"], namespace="shop", labels=app)
        for index, zone in enumerate(ZONES, start=1)
    ]
    file = write_list([*(a_node(f"n-{zone}", zone) for zone in ZONES), service, *pods], tmp_path / "cluster.json")

    def sent(family: str, response: int) -> Object:
        sizes = {zone: {"request": 0, "response": response} for zone in ZONES}
        return service_traffic("cart", dict.fromkeys(ZONES, 1000), bytes=sizes, addressType=family)

    measured = tmp_path / "measured.jsonl"
    both = (sent("IPv4", 10**9), sent("IPv6", 3 * 10**9))
    measured.write_text("\n".join(json.dumps(measured_traffic(f"n-{zone}", zone, *both)) for zone in ZONES))
    arguments = ("-q", "-f", file, "--measured", measured, "--price-per-gb", "0.01USD")
    total = zoneward.json("report", *arguments)["total"]
    summary = zoneward.json("advise", *arguments)["summary"]
    assert total["now"]["money"] == pytest.approx(0.01 * 24 * 730 / 24)
    assert summary["crossing"] == pytest.approx(total["now"]["money"])
    assert summary["saved"] == pytest.approx(total["best"]["saved"]["money"])
