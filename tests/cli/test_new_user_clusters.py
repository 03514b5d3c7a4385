"""What a new user of four clusters sees first, against numbers that follow from `tests.builders.new_user_clusters`
by hand. They are facts about the clusters and no screens: a command that says something else is wrong.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from tests.builders.new_user_clusters import (
    dev_cluster_in_one_zone,
    gke_dataplane_v2,
    many_services,
    write_list,
    written,
)
from tests.builders.objects import ZONE, measured_traffic, service_traffic
from tests.cli.running import Commands

GB: Final = 10**9


@pytest.fixture(scope="module")
def gke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(gke_dataplane_v2, tmp_path_factory.mktemp("gke"))


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(dev_cluster_in_one_zone, tmp_path_factory.mktemp("dev"))


def document(zoneward: Commands, command: str, file: Path, *arguments: str | Path) -> Any:
    return zoneward.json(command, "-q", "-f", file, *arguments)


def decisions(zoneward: Commands, file: Path) -> dict[str, Any]:
    by_service = document(zoneward, "plan", file)["decisions"]
    return {f"{item['namespace']}/{item['service']}": item for item in by_service}


def plain(zoneward: Commands, file: Path) -> str:
    """The table of ``plan`` without options."""
    return zoneward("plan", "-q", "-f", file).out


def test_where_kubernetes_writes_slices_plan_shows_what_kubernetes_does(zoneward: Commands, eks: Path) -> None:
    text = plain(zoneward, eks)
    assert "SLICES" not in text
    assert "As Kubernetes decides. With Zoneward: --with overlay, --with controller, --with proxy." in text
    for mode in ("overlay", "controller", "proxy"):
        assert "SLICES" in zoneward("plan", "-q", "-f", eks, "--with", mode).out
    # Settings of Zoneward ask for its view.
    assert "SLICES" in zoneward("plan", "-q", "-f", eks, "--what-if", "Balanced").out
    assert "SLICES" not in zoneward("plan", "-q", "-f", eks, "--what-if", "PreferClose").out


def found_codes(zoneward: Commands, file: Path) -> Counter[tuple[str, str]]:
    return Counter((finding["code"], finding["severity"]) for finding in document(zoneward, "check", file)["findings"])


def explained(zoneward: Commands, file: Path, service: str) -> Any:
    (family,) = document(zoneward, "explain", file, service)["families"]
    return family


def compared(zoneward: Commands, file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The Services, and the totals with that of now."""
    by_service = document(zoneward, "compare", file)
    services = {f"{service['namespace']}/{service['service']}": service for service in by_service["services"]}
    return services, {item["approach"]: item for item in (by_service["now"], *by_service["total"])}


def approach(compared_service: Any, name: str) -> Any:
    return next(item for item in compared_service["approaches"] if item["approach"] == name)


# --- EKS: 5, 5 and 1 nodes of one size, so that 5/11, 5/11 and 1/11 of all traffic start in the zones -----------------


def test_eks_plan_shows_proxies_and_now(zoneward: Commands, eks: Path) -> None:
    by_service = decisions(zoneward, eks)
    assert len(by_service) == 46
    assert {frozenset(item["now"]["proxies"].items()) for item in by_service.values()} == {
        frozenset({("kube-proxy 1.33", 11)})
    }
    demand = {zone: item["demand"] for zone, item in by_service["shop/plain-01"]["zones"].items()}
    assert demand == {"us-east-1a": 0.454545, "us-east-1b": 0.454545, "us-east-1c": 0.090909}

    def now(name: str) -> tuple[float | None, float | None, float | None]:
        return tuple(by_service[name]["now"][key] for key in ("inZoneTraffic", "maxOverload", "droppedTraffic"))

    # One of three endpoints is in each zone: 5/11 x 1/3 + 5/11 x 1/3 + 1/11 x 1/3.
    assert {now(f"shop/plain-{index:02}") for index in range(1, 21)} == {(0.333333, 0.0, 0.0)}
    # Each zone has its own endpoint, and those in a and b get 5/11 of all instead of 1/3: 5/11 x 3 - 1 = 4/11.
    assert {now(f"shop/close-{index:02}") for index in range(1, 11)} == {(1.0, 0.363636, 0.0)}
    # 5 of 11 endpoints for 5/11 of the traffic.
    assert {now(f"shop/fitting-{index}") for index in range(1, 6)} == {(1.0, 0.0, 0.0)}
    assert {now(f"shop/few-{index}") for index in range(1, 4)} == {(0.333333, 0.0, 0.0)}
    # Two endpoints in a and b for all: 5/11 x 1/2 + 5/11 x 1/2.
    assert now("kube-system/kube-dns") == (0.454545, 0.0, 0.0)
    # A Pod on each node; and on 3 of 11 nodes: 8/11 is dropped, and what is served stays on its node.
    assert now("logging/log-agent") == (1.0, 0.0, 0.0)
    assert now("logging/log-buffer") == (0.272727, 0.0, 0.727273)
    assert now("shop/pay-old")[2] == 1.0
    # Nobody knows where the API servers are; DNS and not a proxy serves what is headless.
    assert now("default/kubernetes") == (None, 0.0, 0.0)
    assert now("monitoring/node-exporter") == (None, None, None)


def test_eks_plan_decides_for_each_service(zoneward: Commands, eks: Path) -> None:
    by_service = decisions(zoneward, eks)
    active = {name for name, item in by_service.items() if item["active"]}
    # With three endpoints, a and b need two each (5/11 x 3 = 1.36, above 1.2): five in all.
    assert active == {
        *(f"shop/close-{index:02}" for index in range(1, 11)),
        *(f"shop/fitting-{index}" for index in range(1, 6)),
    }
    assert {by_service[f"shop/few-{index}"]["reasonCode"] for index in range(1, 4)} == {"Overload"}


def test_eks_check_has_exactly_the_expected_findings(zoneward: Commands, eks: Path) -> None:
    assert found_codes(zoneward, eks) == {
        ("ZW406", "error"): 1,  # log-buffer
        ("ZW103", "warning"): 1,  # Pods spread evenly would be 36 % above fair
        ("ZW402", "warning"): 3,  # few-1 to few-3
        ("ZW407", "warning"): 1,  # pay-old
        ("ZW603", "warning"): 10,  # close-01 to close-10: 36 % is above 30 %
    }


def test_eks_compare_matches_scores_computed_by_hand(zoneward: Commands, eks: Path) -> None:
    services, totals = compared(zoneward, eks)
    plain = services["shop/plain-01"]
    # 45 x 1/3 + 20 + 20 + 15.
    assert approach(plain, "none")["score"] == 70.0
    # Worst 4/11; mean (4/11 + 4/11 + 8/11) / 3 = 16/33: 45 + 20 x 7/11 + 20 x 17/33 + 15.
    assert approach(plain, "PreferSameZone")["score"] == 83.030303
    assert not approach(plain, "ProportionalZoneCPU")["active"]
    assert approach(plain, "PreferSameNode")["needs"] == "1.34"
    # Everything in its zone, fair, in one slice.
    assert services["shop/fitting-1"]["best"] == "ProportionalZoneCPU"
    assert approach(services["shop/fitting-1"], "ProportionalZoneCPU")["score"] == 100.0
    # 10/11 stays, and each of two endpoints gets half: 45 x 10/11 + 20 + 20 + 15.
    assert approach(services["kube-system/kube-dns"], "PreferSameZone")["score"] == 95.909091
    # What drops traffic, and what no proxy serves or nobody knows, has no best.
    for name in ("logging/log-buffer", "shop/pay-old", "default/kubernetes", "monitoring/node-exporter"):
        assert services[name]["best"] is None
    # Endpoints: 6 of kube-system at 5/11, 11 of log-agent at 1, 60 of plain and 9 of few at 1/3, 30 of close and 55 of
    # fitting at 1.
    mean = (6 * 5 / 11 + 11 + 69 / 3 + 30 + 55) / (6 + 11 + 69 + 30 + 55)
    assert totals["now"]["inZoneTraffic"] == totals["today"]["inZoneTraffic"] == pytest.approx(mean, abs=1e-6)
    assert {total["drops"] for total in totals.values()} == {2}


def test_eks_explain_starts_with_dropped_traffic(zoneward: Commands, eks: Path) -> None:
    family = explained(zoneward, eks, "logging/log-buffer")
    assert family["now"]["dropped"]["share"] == 0.727273
    (fix,) = family["fixes"]
    # Three endpoints for all, one in each zone.
    assert (fix["changes"], fix["result"]["inZoneTraffic"]) == (
        [{"patch": {"spec": {"internalTrafficPolicy": "Cluster"}}}],
        0.333333,
    )


def test_eks_explain_finds_the_pods_that_auto_needs(zoneward: Commands, eks: Path) -> None:
    """Five endpoints are the fewest that keep below 20 %: 5/11 x 5 = 2.27 for two is 14 % above fair."""
    family = explained(zoneward, eks, "shop/few-1")
    assert (family["now"]["inZoneTraffic"], family["planned"]["active"]) == (0.333333, False)
    more = {fix["pods"] for fix in family["fixes"] if fix["kind"] in ("add-pods", "spread")}
    assert more == {2}
    assert {fix["result"]["maxOverload"] for fix in family["fixes"] if fix["pods"] == 2} == {0.136364}


def test_eks_report_calls_no_overloading_setting_best(zoneward: Commands, eks: Path, tmp_path: Path) -> None:
    """Each node sends 300 connections of 10 MB, a third to each zone, in a day."""
    nodes = [item for item in json.loads(eks.read_text())["items"] if item["kind"] == "Node"]
    zones = ("us-east-1a", "us-east-1b", "us-east-1c")
    bytes_by_zone = {zone: {"request": GB, "response": 0} for zone in zones}
    traffic = service_traffic("plain-01", dict.fromkeys(zones, 100), bytes=bytes_by_zone)
    measured = tmp_path / "measured.jsonl"
    measured.write_text(
        "\n".join(
            json.dumps(measured_traffic(node["metadata"]["name"], node["metadata"]["labels"][ZONE], traffic))
            for node in nodes
        )
    )
    (service,) = document(zoneward, "report", eks, "--measured", measured)["services"]
    # 2 GB of each of 11 nodes leave their zone in a day; a month has 730 hours.
    assert service["now"]["crossing"]["gb"] == pytest.approx(22 * 730 / 24, abs=1e-3)
    assert service["now"]["inZone"] == 0.333333
    same = next(setting for setting in service["settings"] if setting["approach"] == "PreferSameZone")
    assert (same["crossing"]["gb"], same["maxOverload"], same["overloads"]) == (0.0, 0.363636, True)
    assert same["saved"]["gb"] == pytest.approx(22 * 730 / 24, abs=1e-3)
    assert service["best"] is None


def test_with_a_node_without_cpu_all_commands_predict_the_same(zoneward: Commands, eks: Path, tmp_path: Path) -> None:
    """Nodes are counted then, also where Kubernetes decides: 5, 5 and 1."""
    objects = json.loads(eks.read_text())["items"]
    node = next(item for item in objects if item["kind"] == "Node")
    del node["status"]["allocatable"]
    file = write_list(objects, tmp_path / "nodes.json")
    planned = decisions(zoneward, file)["shop/close-01"]
    assert planned["zones"]["us-east-1c"]["demand"] == pytest.approx(1 / 11, abs=1e-6)
    services, _ = compared(zoneward, file)
    for figure in ("inZoneTraffic", "maxOverload"):
        assert planned["now"][figure] == services["shop/close-01"]["now"][figure]
    # Auto is void: Kubernetes decides by CPU.
    assert not decisions(zoneward, file)["shop/fitting-1"]["active"]


# --- GKE: 7, 6 and 6 nodes of one size, and Cilium 1.16, which ignores hints ------------------------------------------


def test_gke_commands_detect_cilium(zoneward: Commands, gke: Path) -> None:
    by_service = decisions(zoneward, gke)
    assert len(by_service) == 8
    assert {frozenset(item["now"]["proxies"].items()) for item in by_service.values()} == {
        frozenset({("cilium 1.16", 19)})
    }
    # A third of the endpoints is in each zone, and hints change nothing: 7/19 x 1/3 + 6/19 x 1/3 + 6/19 x 1/3.
    proxied = [item for name, item in by_service.items() if name != "default/kubernetes"]
    assert {item["now"]["inZoneTraffic"] for item in proxied} == {0.333333}
    assert {item["inZoneTraffic"] for item in proxied} == {0.333333}
    assert by_service["default/kubernetes"]["now"]["inZoneTraffic"] is None


def test_gke_check_has_an_error_for_each_node(zoneward: Commands, gke: Path) -> None:
    assert found_codes(zoneward, gke) == {("ZW201", "error"): 19}


def test_gke_compare_shows_no_gain(zoneward: Commands, gke: Path) -> None:
    services, totals = compared(zoneward, gke)
    # 45 x 1/3 + 20 + 20 + 15, with every setting of Kubernetes.
    for name in ("now", "today", "none", "ProportionalZoneCPU", "PreferSameZone"):
        assert (totals[name]["inZoneTraffic"], totals[name]["score"]) == (0.333333, 70.0)
    assert services["shop/cart"]["best"] == "none"


def test_gke_explain_predicts_through_cilium(zoneward: Commands, gke: Path) -> None:
    family = explained(zoneward, gke, "shop/frontend")
    assert family["now"]["proxies"] == {"cilium 1.16": 19}
    assert (family["now"]["inZoneTraffic"], family["planned"]["inZoneTraffic"]) == (0.333333, 0.333333)
    uses = {zone: item["consumed"] for zone, item in family["now"]["zones"].items()}
    assert uses == {"europe-west4-a": 6, "europe-west4-b": 6, "europe-west4-c": 6}
    # No number of Pods and no setting helps where no proxy reads hints.
    assert family["fixes"] == []
    (ignoring,) = family["planned"]["ignoredBy"]
    assert (ignoring["proxy"], ignoring["nodes"]) == ("cilium 1.16", 19)
    text = zoneward("explain", "-q", "-f", gke, "shop/frontend").out
    assert text.startswith("shop/frontend  PreferClose: ignored by the proxies of all nodes\n")
    assert "\n      cilium 1.16 on 19 nodes " in text
    assert "none in the Service: run proxies that honor its hints" in text


@pytest.mark.parametrize("minor", [18, 20])
def test_gke_compare_asks_for_the_own_zone_by_the_name_that_cilium_knows(
    zoneward: Commands, gke: Path, minor: int
) -> None:
    """To 1.19 it knows no PreferSameZone."""
    services = document(zoneward, "compare", gke, "--proxy", f"cilium-1.{minor}-service-topology")["services"]
    cart = next(service for service in services if service["service"] == "cart")
    assert approach(cart, "PreferSameZone")["inZoneTraffic"] == 1.0


def test_gke_what_if_tells_the_names_of_the_own_zone_apart(zoneward: Commands, gke: Path) -> None:
    cluster = json.loads(gke.read_bytes())
    upgraded = gke.with_name("upgraded.json")
    upgraded.write_text(json.dumps(cluster).replace('"v1.33.', '"v1.35.'))
    for value, in_zone in (("PreferClose", 1.0), ("PreferSameZone", 0.333333)):
        arguments = ("--proxy", "cilium-1.18-service-topology", "--what-if", value, "shop/cart")
        (cart,) = document(zoneward, "plan", upgraded, *arguments)["decisions"]
        assert cart["inZoneTraffic"] == in_zone


def test_gke_advise_restarts_the_daemon_set_that_runs_cilium(zoneward: Commands, gke: Path) -> None:
    (switch,) = (
        action for action in document(zoneward, "advise", gke)["actions"] if action["kind"] == "switch-proxies"
    )
    assert switch["commands"][1:] == ["kubectl -n kube-system rollout restart -- daemonset/anetd"]


def with_a_node_without_zone(file: Path, directory: Path) -> Path:
    """The same cluster, in another file."""
    cluster = json.loads(file.read_bytes())
    node = next(item for item in cluster["items"] if item["kind"] == "Node")
    del node["metadata"]["labels"][ZONE]
    changed = directory / "changed.json"
    changed.write_text(json.dumps(cluster))
    return changed


def gke_with_local_cart(directory: Path) -> Path:
    """The traffic of shop/cart reaches only Pods on the node of the client: most of it is dropped."""
    file = written(gke_dataplane_v2, directory)
    cluster = json.loads(file.read_bytes())
    for item in cluster["items"]:
        if (item["kind"], item["metadata"]["name"]) == ("Service", "cart"):
            item["spec"]["internalTrafficPolicy"] = "Local"
    file.write_text(json.dumps(cluster))
    return file


def test_gke_dropped_traffic_does_not_wait_for_a_switch_of_cilium(zoneward: Commands, tmp_path: Path) -> None:
    first, second, third, *_ = document(zoneward, "advise", gke_with_local_cart(tmp_path))["actions"]
    assert (first["title"], first["after"], first["limitedBy"]) == ("internalTrafficPolicy: Cluster", [], [])
    assert (second["kind"], second["rank"]) == ("switch-proxies", 2)
    assert third["after"] == [2]


def test_gke_in_one_zone_has_no_use_for_hints(zoneward: Commands, tmp_path: Path) -> None:
    file = gke_with_local_cart(tmp_path)
    file.write_text(
        file.read_text().replace("europe-west4-b", "europe-west4-a").replace("europe-west4-c", "europe-west4-a")
    )
    assert [action["kind"] for action in document(zoneward, "advise", file)["actions"]] == ["setting"]


def test_a_node_without_a_zone_limits_only_what_needs_hints(zoneward: Commands, eks: Path, tmp_path: Path) -> None:
    file = with_a_node_without_zone(eks, tmp_path)
    dropped, hinted, *_ = document(zoneward, "advise", file)["actions"]
    assert (dropped["title"], dropped["limitedBy"]) == ("internalTrafficPolicy: Cluster", [])
    assert hinted["limitedBy"] == ["ZW101"]


# --- one zone ---------------------------------------------------------------------------------------------------------


def test_one_zone_keeps_all_traffic(zoneward: Commands, dev: Path) -> None:
    by_service = decisions(zoneward, dev)
    assert {frozenset(item["now"]["proxies"].items()) for item in by_service.values()} == {
        frozenset({("kube-proxy 1.33", 3)})
    }
    own = [item for name, item in by_service.items() if name != "default/kubernetes"]
    assert [item["now"]["inZoneTraffic"] for item in own] == [1.0] * 4
    assert [item["maxOverload"] for item in own] == [0.0] * 4
    assert (by_service["dev/auto"]["active"], by_service["dev/auto"]["reasonCode"]) == (False, "OneZone")
    with_controller = zoneward.json("plan", "-q", "-f", dev, "--with", "controller")
    assert "OneZone" in {item["reasonCode"] for item in with_controller["decisions"]}
    assert "dev/auto                        2>2     100%    +0%  all zones: nodes in one zone" in plain(zoneward, dev)
    assert found_codes(zoneward, dev) == {("ZW102", "warning"): 1}


def test_a_zone_beside_nodes_without_a_zone_is_not_all_nodes(zoneward: Commands, dev: Path, tmp_path: Path) -> None:
    """Such as hybrid nodes of EKS: their traffic leaves the zone."""
    file = with_a_node_without_zone(dev, tmp_path)
    summary = document(zoneward, "advise", file)["summary"]
    assert (summary["zones"], summary["nodesWithoutZone"]) == ({"eu-central-1a": 2}, 1)
    text = zoneward("advise", "-q", "-f", file).out
    assert "zones eu-central-1a (2); 1 node without a zone." in text
    assert "All nodes" not in text
    assert "All nodes" not in zoneward("compare", "-q", "-f", file).out
    assert "ZW102" not in {code for code, _ in found_codes(zoneward, file)}


def test_a_fault_domain_of_azure_is_no_zone(zoneward: Commands, dev: Path, tmp_path: Path) -> None:
    """AKS without availability zones."""
    cluster = json.loads(dev.read_bytes())
    for index, node in enumerate(item for item in cluster["items"] if item["kind"] == "Node"):
        node["metadata"]["labels"] |= {ZONE: str(index % 2), "kubernetes.azure.com/cluster": "MC_shop"}
    file = tmp_path / "aks.json"
    file.write_text(json.dumps(cluster))
    assert "zones 0, 1 are fault domains of Azure" in zoneward("advise", "-f", file).err


def test_one_zone_has_nothing_to_gain(zoneward: Commands, dev: Path) -> None:
    services, totals = compared(zoneward, dev)
    assert {totals[name]["score"] for name in ("now", "none", "today", "PreferSameZone")} == {100.0}
    assert services["dev/plain"]["best"] == services["dev/auto"]["best"] == "none"
    for name in ("dev/plain", "dev/close", "dev/auto"):
        assert explained(zoneward, dev, name)["fixes"] == []


# --- many Services ----------------------------------------------------------------------------------------------------


def test_many_services_give_the_same_answers_as_one(zoneward: Commands, tmp_path: Path) -> None:
    """Three zones of one size with five Pods of each Service: half of the Services keep all traffic in its zone."""
    file = write_list(many_services(100), tmp_path / "services.json")
    by_service = decisions(zoneward, file)
    assert Counter((item["now"]["inZoneTraffic"], item["now"]["maxOverload"]) for item in by_service.values()) == {
        (0.333333, 0.0): 50,
        (1.0, 0.0): 50,
    }
    assert {item["endpoints"] for item in by_service.values()} == {15}
    assert found_codes(zoneward, file) == {}
    services, totals = compared(zoneward, file)
    assert (totals["now"]["inZoneTraffic"], totals["now"]["score"]) == (0.666667, 85.0)
    assert (totals["PreferSameZone"]["inZoneTraffic"], totals["PreferSameZone"]["score"]) == (1.0, 100.0)
    assert {service["best"] for service in services.values()} == {"PreferSameZone"}
    assert explained(zoneward, file, "team-00/service-0001")["now"]["inZoneTraffic"] == 1.0


def services_in(text: str) -> list[str]:
    """Those that a table has a row for."""
    return [line.split()[0] for line in text.splitlines() if line.startswith(("shop/", "logging/", "kube-system/"))]


@pytest.mark.parametrize("command", ["plan", "compare"])
def test_rows_are_chosen_and_ordered_alike(zoneward: Commands, eks: Path, command: str) -> None:
    def shown(*options: str) -> list[str]:
        return services_in(zoneward(command, "-q", "-f", eks, *options).out)

    # Of the Service without slices for most nodes the least traffic stays; those of three Pods follow.
    by_share = shown("--sort", "in-zone")
    least = [name for name in by_share if name != "shop/pay-old"]
    assert least[0] == "logging/log-buffer"
    assert {name.partition("-")[0] for name in least[1:5]} <= {"shop/few", "shop/plain"}
    assert shown("--sort", "in-zone", "--top", "3") == by_share[:3]
    hottest = [name for name in shown("--sort", "overload") if name != "shop/pay-old"][:10]
    assert all(name.startswith("shop/close-") for name in hottest)
    assert shown("--sort", "name") == sorted(by_share)


def test_only_services_that_change_are_shown(zoneward: Commands, eks: Path) -> None:
    """The slices are what Kubernetes writes, so that its plan changes nothing; another setting changes some."""
    nothing = zoneward("plan", "-q", "-f", eks, "--changed").out
    assert services_in(nothing) == []
    assert "0 of 46 Services are shown." in nothing
    assert "Total: 70% in its zone" in nothing
    asked = ("plan", "-q", "-f", eks, "--what-if", "none")
    changed = services_in(zoneward(*asked, "--changed").out)
    assert "shop/close-01" in changed
    assert not [name for name in changed if name.startswith("shop/plain-")]


def test_compare_shows_slices_only_where_somebody_else_than_kubernetes_writes_them(
    zoneward: Commands, eks: Path
) -> None:
    details = ("compare", "-q", "-f", eks, "--details")
    assert not {"SLICES", "CHANGES"} & set(zoneward(*details).out.split())
    assert {"SLICES", "CHANGES"} <= set(zoneward(*details, "--with", "controller").out.split())


@pytest.mark.parametrize("command", ["plan", "compare"])
def test_a_pipe_gets_whole_names_and_a_line_for_each_service(
    zoneward: Commands, eks: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    name = "kube-system/aws-load-balancer-webhook-service"
    lines = zoneward(command, "-q", "-f", eks).out.splitlines()
    rows = [line for line in lines if line.split()[:1] and "/" in line.split()[0]]
    assert len(rows) == 46
    assert name in {row.split()[0] for row in rows}
    monkeypatch.setenv("COLUMNS", "80")
    narrow = zoneward(command, "-q", "-f", eks).out
    assert max(map(len, narrow.splitlines())) <= 80
    assert name not in narrow


def test_what_kubernetes_does_has_no_condition_and_no_event_of_zoneward(zoneward: Commands, eks: Path) -> None:
    by_service = decisions(zoneward, eks)
    assert not [name for name, decision in by_service.items() if decision["conditions"] or decision["events"]]
    own = document(zoneward, "plan", eks, "--with", "controller")["decisions"]
    assert [decision for decision in own if decision["conditions"]]
