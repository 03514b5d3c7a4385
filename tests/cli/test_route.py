"""``zoneward route`` as people and scripts use it."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import SAMPLE, Commands

NODE = "worker-a2"


def ports(zoneward: Commands, *arguments: str) -> dict[str, dict[str, Any]]:
    """Ports by ``service:port``; of dual-stack Services those of IPv4."""
    document = zoneward.json("route", "--node", NODE, *arguments)
    assert (document["node"], document["zone"]) == (NODE, "eu-central-1a")
    return {f"{port['service']}:{port['port']}": port for port in document["ports"] if port["addressType"] == "IPv4"}


def test_json_has_the_shape_that_scripts_rely_on(zoneward: Commands) -> None:
    routes = ports(zoneward, "--sample")
    for route in routes.values():
        assert {"namespace", "service", "port", "protocol", "cluster", "local", "allReachable", "rule"} <= set(route)
    assert routes["log-agent:otlp-grpc"]["cluster"] is None, "internalTrafficPolicy: Local makes no use of it"
    assert routes["cart:http"]["local"] is None
    assert routes["cart:http"]["cluster"] == routes["cart:http"]["allReachable"]
    assert len(routes["cart:http"]["cluster"]) == 1


@pytest.mark.parametrize(
    ("consumer", "rules"),
    [
        ("current", ("node-hints", "zone-hints", "zone-hints")),
        ("zone-hints", ("zone-hints", "zone-hints", "zone-hints")),
        ("annotation", ("all", "all", "zone-hints")),
        ("no-hints", ("all", "all", "all")),
    ],
)
def test_older_proxies_honor_less(zoneward: Commands, consumer: str, rules: tuple[str, ...]) -> None:
    routes = ports(zoneward, "--sample", "--consumer", consumer)
    assert tuple(routes[port]["rule"] for port in ("kube-dns:dns", "cart:http", "search:grpc")) == rules


LOCAL_OPT = ("--sample", "--proxy", "zoneward", "--what-if", "local-opt", "shop/inventory")
"""Zone a has four endpoints and shares two with the others, each by a third."""


def test_endpoints_of_a_group_have_weights(zoneward: Commands) -> None:
    """One by one, in the order of the endpoints; where all weigh the same there are none."""
    routes = ports(zoneward, *LOCAL_OPT)["inventory:http"]
    assert routes["rule"] == "zone-slices"
    assert len(routes["cluster"]) == len(routes["weights"]) == 6
    assert sorted(routes["weights"]) == [0.333333, 0.333333, 1.0, 1.0, 1.0, 1.0]
    own, shared = (
        {address for address, route in zip(routes["cluster"], routes["weights"], strict=True) if route == weight}
        for weight in (1.0, 0.333333)
    )
    # Another zone's proxy has none of the own ones, and both of the shared ones.
    elsewhere = zoneward.json("route", "--node", "worker-c1", *LOCAL_OPT)["ports"][0]
    assert own.isdisjoint(elsewhere["cluster"])
    assert shared < {*elsewhere["cluster"]}
    assert ports(zoneward, "--sample", "--what-if", "local", "shop/inventory")["inventory:http"]["weights"] is None


@pytest.mark.parametrize(
    ("consumer", "rule", "used"),
    [("zoneward", "zone-slices", 6), ("zone-slices", "zone-slices", 6), ("current", "all", 12)],
)
def test_proxies_read_slice_groups_by_their_kind(zoneward: Commands, consumer: str, rule: str, used: int) -> None:
    """The group of all is labelled for zone a; weights are for our own proxy alone."""
    routes = ports(zoneward, *LOCAL_OPT, "--consumer", consumer)["inventory:http"]
    assert (routes["rule"], len(routes["cluster"])) == (rule, used)
    assert (routes["weights"] is not None) is (consumer == "zoneward")


def test_as_is_reads_the_slices_of_the_snapshot(zoneward: Commands) -> None:
    routes = ports(zoneward, "-f", str(SAMPLE), "--as-is")
    assert routes["cart:http"]["allReachable"] == [], "the sample holds no slice for it"
    assert len(routes["bank-gateway:https"]["allReachable"]) == 2


def weighted_slices(zoneward: Commands, folder: Path, weights: str) -> Path:
    """The sample, and for ``shop/cart`` the slices that a plan makes, with these weights on the first."""
    document = json.loads(zoneward("plan", "--sample", "shop/cart", "-o", "slices-json").out)
    first = min(document["items"], key=lambda item: item["metadata"]["name"])
    first["metadata"]["annotations"] = {"zoneward.dev/zone-weights": weights}
    path = folder / "slices.json"
    path.write_text(json.dumps(document))
    return path


def test_zone_weights_are_listed_only_for_zonewards_proxy(zoneward: Commands, tmp_path: Path) -> None:
    """All 20 endpoints: those of the node's zone get nine tenths."""
    located = located_in(zoneward)
    zone, other = "eu-central-1a", "eu-central-1b"
    text = json.dumps({"counts": located, "shares": {zone: {zone: 0.9, other: 0.1}}})
    slices = str(weighted_slices(zoneward, tmp_path, text))
    files = ("-f", str(SAMPLE), "-f", slices, "--as-is", "--proxy", "zoneward", "shop/cart")
    routes = ports(zoneward, *files)["cart:http"]
    assert routes["rule"] == "zone-weights"
    assert len(routes["cluster"]) == len(routes["weights"]) == located[zone] + located[other]
    assert sum(routes["weights"]) == pytest.approx(1)
    assert "zone-weights" in zoneward("route", "--node", NODE, *files).out
    older = ports(zoneward, *files, "--consumer", "current")["cart:http"]
    assert (older["rule"], older["weights"]) == ("zone-hints", None)


def located_in(zoneward: Commands) -> dict[str, int]:
    (decision,) = zoneward.json("plan", "--sample", "shop/cart")["decisions"]
    return {zone: route["located"] for zone, route in decision["zones"].items()}


def test_table_has_a_line_for_every_port(zoneward: Commands) -> None:
    lines = zoneward("route", "--sample", "--node", NODE).out.splitlines()
    assert max(map(len, lines)) <= 100
    assert any(line.startswith("shop/cart:http ") for line in lines)
    assert lines[0] == f"Proxy on {NODE} in zone eu-central-1a: kube-proxy 1.37"


def test_changed_cluster_shows_the_change_of_loads(zoneward: Commands) -> None:
    change = ("--without-node", "worker-b1")
    decisions = zoneward.json("plan", "-q", "--sample", *change)["decisions"]
    loads = {decision["service"]: decision["load"] for decision in decisions if decision["addressType"] == "IPv4"}
    routes = ports(zoneward, "--sample", *change)
    assert {port["service"] for port in routes.values() if port["loadChange"]} >= {"cart", "catalog"}
    for port in routes.values():
        load = loads[port["service"]]
        assert port["loadChange"] == (None if load is None else load["change"])
    table = zoneward("route", "-q", "--sample", "--node", "worker-b2", "--without-zone", "eu-central-1a", "shop/cart")
    assert " LOAD " in table.out
    assert " -87% " in table.out


def test_without_a_change_no_load_is_shown(zoneward: Commands) -> None:
    assert not any("loadChange" in port for port in ports(zoneward, "--sample").values())
    assert "LOAD" not in zoneward("route", "-q", "--sample", "--node", NODE).out
