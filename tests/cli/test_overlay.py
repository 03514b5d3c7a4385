"""What commands say of an overlay: ``plan -o overlay``, ``--with overlay``, and ``release --overlay``."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.builders.new_user_clusters import eks_with_a_thin_zone, eks_with_an_overlay, write_list
from tests.cli.live_cluster import Cluster
from tests.cli.running import SAMPLE, Commands, configuration_file

from zoneward.controller.controller_program import ControllerProgram
from zoneward.kube import names
from zoneward.kube.overlay_objects import overlay_policy
from zoneward.slices.overlay import OverlayHints, read_entries


def test_the_objects_of_an_overlay_are_printed_for_kubectl_apply(zoneward: Commands) -> None:
    result = zoneward("plan", "--sample", "shop/search", "--what-if", "Balanced", "-o", "overlay")
    items = yaml.safe_load(result.out)["items"]
    assert items[:2] == overlay_policy()
    (config_map,) = items[2:]
    assert (config_map["kind"], config_map["metadata"]["name"]) == ("ConfigMap", names.OVERLAY_CONFIG_MAP)
    assert config_map["metadata"]["namespace"] == "shop"
    overlay = read_entries(config_map["data"])["search", "IPv4"]
    assert overlay.hints is OverlayHints.ZONES
    assert overlay.approach == "Hints/Balanced"
    assert overlay.exceptions
    assert "1 Service of 1 is in the overlay" in result.err


def test_without_a_service_that_asks_there_is_only_the_policy(zoneward: Commands) -> None:
    result = zoneward("plan", "--sample", "-o", "overlay")
    assert yaml.safe_load(result.out)["items"] == overlay_policy()
    assert "0 Services of 16 are in the overlay" in result.err


def test_with_overlay_plans_hints_and_no_slice_groups(zoneward: Commands) -> None:
    arguments = ("plan", "--sample", "shop/catalog", "--what-if", "local", "--proxy", "zoneward", "-o", "slices-json")
    assert "hints" not in zoneward(*arguments).out
    assert "hints" in zoneward(*arguments, "--with", "overlay").out


def with_selector(folder: Path, selector: str) -> Path:
    return configuration_file(folder, f"overlay: {{serviceSelector: '{selector}'}}")


def test_the_selector_of_the_configuration_takes_services_in(zoneward: Commands, tmp_path: Path) -> None:
    result = zoneward("plan", "--sample", "--config", with_selector(tmp_path, "!nobody"), "-o", "overlay")
    data = {key: value for item in yaml.safe_load(result.out)["items"][2:] for key, value in item["data"].items()}
    # Those that ask for nothing are not among them.
    assert {"search", "recommendations", "catalog"} <= {service for service, _ in read_entries(data)}
    assert ("inventory", "IPv4") not in read_entries(data)


def test_a_wrong_selector_is_named_with_its_field(zoneward: Commands, tmp_path: Path) -> None:
    assert "overlay.serviceSelector: expected key=value" in zoneward.refused(
        "plan", "--sample", "--config", with_selector(tmp_path, "a in (b")
    )


def test_check_finds_slices_without_the_hints_of_the_overlay(zoneward: Commands, tmp_path: Path) -> None:
    cluster = ("-f", str(SAMPLE))
    asking = tmp_path / "asking.yaml"
    asking.write_text(zoneward("plan", "--sample", "shop/search", "--what-if", "Balanced", "-o", "overlay").out)
    slices = tmp_path / "slices.json"
    slices.write_text(zoneward("plan", *cluster, "--compat", "upstream", "-o", "slices-json").out)
    result = zoneward("check", *cluster, "-f", str(slices), "-f", str(asking), "-o", "json")
    (finding,) = [finding for finding in json.loads(result.out)["findings"] if finding["code"] == "ZW608"]
    assert finding["object"] == {"kind": "Service", "namespace": "shop", "name": "search"}
    assert "with other hints than the ConfigMap zoneward-overlay says (hints: zones)" in finding["message"]
    assert "zoneward plan -A -o overlay" in finding["fix"]
    without = zoneward("check", *cluster, "-f", str(slices), "-o", "json")
    assert "ZW608" not in without.out


@pytest.fixture
def overlaid(cluster: Cluster) -> Cluster:
    """A cluster with one Service in the overlay."""
    cluster.do(lambda server: server.put("configmaps", names.OVERLAY_CONFIG_MAP, "shop", data={"cart.IPv4": "zones"}))
    return cluster


@pytest.mark.usefixtures("overlaid")
def test_a_release_counts_the_services_that_left(zoneward: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(*_: Any) -> None:
        return None

    monkeypatch.setattr(ControllerProgram, "run", run)
    assert zoneward("release", "--overlay").out == "1 Service left the overlay\n"


@pytest.mark.usefixtures("overlaid")
def test_a_release_beside_a_running_controller_says_how_to_stop_it(
    zoneward: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(*_: Any) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(ControllerProgram, "run", run)
    result = zoneward("release", "--overlay", "--timeout", "1")
    assert (result.status, result.out) == (2, "")
    assert "use --scale-down NAMESPACE/DEPLOYMENT" in result.err


# --- a cluster with an overlay ----------------------------------------------------------------------------------------


def test_each_service_is_shown_as_what_decides_about_it(zoneward: Commands, tmp_path: Path) -> None:
    file = write_list(eks_with_an_overlay({"few-1.IPv4": "none"}), tmp_path / "cluster.json")
    decisions = {item["service"]: item for item in zoneward.json("plan", "-f", file)["decisions"]}
    # Kubernetes has no conditions of Zoneward.
    assert [name for name in ("few-1", "few-2", "few-3") if decisions[name]["conditions"]] == ["few-1", "few-2"]
    result = zoneward("plan", "-f", file)
    assert "Without SLICES: as Kubernetes decides." in result.out
    assert "an overlay of Zoneward is in use" not in result.err
    slices = {line.split()[0]: "=1" in line or "~1" in line for line in result.out.splitlines() if "shop/few" in line}
    assert slices == {"shop/few-1": True, "shop/few-2": True, "shop/few-3": False}


def test_slices_of_an_earlier_controller_do_not_hide_an_overlay(zoneward: Commands, tmp_path: Path) -> None:
    """One that took over under the label of the built-in controller leaves its annotation."""
    objects = eks_with_an_overlay({"few-1.IPv4": "none"})
    expected = zoneward.json("plan", "-f", write_list(objects, tmp_path / "cluster.json"))["decisions"]
    for object_ in objects:
        if object_["kind"] == "EndpointSlice" and object_["metadata"]["namespace"] == "shop":
            object_["metadata"]["annotations"] = {names.APPROACH_ANNOTATION: "Hints/ProportionalZoneCPU"}
    decisions = zoneward.json("plan", "-f", write_list(objects, tmp_path / "left.json"))["decisions"]
    for name in ("few-1", "few-3", "fitting-1"):
        (before,), (after,) = ([item for item in every if item["service"] == name] for every in (expected, decisions))
        # Kubernetes leaves the annotation.
        assert after | {"slices": None} == before | {"slices": None}


def test_the_best_setting_is_one_that_an_overlay_in_use_can_apply(zoneward: Commands, tmp_path: Path) -> None:
    file = write_list(eks_with_an_overlay({"few-1.IPv4": "none"}), tmp_path / "cluster.json")
    needs = {
        service["service"]: {item["approach"]: item["needs"] for item in service["approaches"]}
        for service in zoneward.json("compare", "-f", file)["services"]
    }
    assert [needs[name]["PreferZone"] for name in ("few-1", "few-2", "few-3")] == [None, None, None]
    # The overlay has no weights; the adopted Service has a controller, and no proxy that reads slice groups.
    weighted = [needs[name]["local-weighted"] for name in ("few-1", "few-2", "few-3")]
    assert weighted == ["controller", "proxy", "controller"]


@pytest.mark.parametrize("change", [(), ("--without-zone", "us-east-1b")], ids=["as it is", "without a zone"])
def test_what_is_asked_for_does_the_same_in_plan_and_compare(
    zoneward: Commands, tmp_path: Path, change: tuple[str, ...]
) -> None:
    file = write_list(eks_with_an_overlay({"few-1.IPv4": "zones Hints/ProportionalZoneCPU"}), tmp_path / "cluster.json")
    planned, compared = (zoneward.json(command, "-f", file, "-n", "shop", *change) for command in ("plan", "compare"))
    figures = ("active", "inZoneTraffic", "maxOverload", "meanOverload")
    assert {item["service"]: [item[name] for name in figures] for item in planned["decisions"]} == {
        item["service"]: [item["today"][name] for name in figures] for item in compared["services"]
    }


@pytest.mark.parametrize(("entry", "is_active"), [("zones Hints/ProportionalZoneCPU", True), ("none", False)])
def test_what_an_overlay_has_in_force_counts(zoneward: Commands, tmp_path: Path, entry: str, is_active: bool) -> None:
    file = write_list(eks_with_an_overlay({"few-1.IPv4": entry}), tmp_path / "cluster.json")
    # Three Pods and 5, 5 and 1 nodes: 36 % more than fair, above the threshold to start and below that to keep.
    configuration = configuration_file(tmp_path, "hints: {keepThreshold: 0.5}")
    document = zoneward.json("plan", "-f", file, "shop/few-1", "--config", configuration)
    assert [item["active"] for item in document["decisions"]] == [is_active]
    explained = zoneward.json("explain", "-f", file, "shop/few-1", "--config", configuration)
    assert [family["planned"]["active"] for family in explained["families"]] == [is_active]


def test_fixes_of_a_service_in_the_overlay_need_no_other(zoneward: Commands, tmp_path: Path) -> None:
    file = write_list(eks_with_an_overlay({"few-1.IPv4": "none"}), tmp_path / "cluster.json")
    (family,) = zoneward.json("explain", "-f", file, "shop/few-1")["families"]
    assert family["fixes"]
    assert [fix["needs"] for fix in family["fixes"]] == [[] for _ in family["fixes"]]
    assert "install the overlay" not in zoneward("explain", "-f", file, "shop/few-1").out
    explained = ("explain", "shop/few-3", "--with", "overlay", "-f")
    assert "install the overlay" not in zoneward(*explained, file).out
    without = write_list(eks_with_a_thin_zone(), tmp_path / "without.json")
    assert "install the overlay" in zoneward(*explained, without).out


def test_an_action_asks_only_for_what_is_not_there(zoneward: Commands, tmp_path: Path) -> None:
    objects = eks_with_an_overlay({"few-1.IPv4": "none"})
    for object_ in objects:
        if object_["kind"] == "Node":
            object_["status"]["nodeInfo"] |= {"kubeletVersion": "v1.36.1", "kubeProxyVersion": "v1.36.1"}
        if object_["kind"] == "Service" and object_["metadata"]["name"] == "fitting-1":
            object_["metadata"]["annotations"][names.OVERLAY_MARK] = names.OVERLAY_DISABLED
        if object_["kind"] == "EndpointSlice" and object_["metadata"]["name"].startswith("fitting-1-"):
            object_["endpoints"] = [endpoint | {"hints": None} for endpoint in object_["endpoints"]]

    def overlay_action(objects: list[Any]) -> dict[str, Any]:
        document = zoneward.json("advise", "-f", write_list(objects, tmp_path / "cluster.json"))
        (action,) = (
            action
            for action in document["actions"]
            if action["needs"] == "overlay" and "fitting-1" in {service["service"] for service in action["services"]}
        )
        return dict(action)

    action = overlay_action(objects)
    assert not [note for note in action["notes"] if "install the overlay" in note]
    # An annotation keeps the Service out.
    assert any(command.endswith("service fitting-1 zoneward.dev/overlay=enabled") for command in action["commands"])
    without = overlay_action([object_ for object_ in objects if object_["kind"] != "ConfigMap"])
    assert [note for note in without["notes"] if "install the overlay" in note]


def test_the_objects_of_an_overlay_in_use_go_on_from_what_is_in_force(zoneward: Commands, tmp_path: Path) -> None:
    file = write_list(eks_with_an_overlay({"few-1.IPv4": "zones Hints/ProportionalZoneCPU"}), tmp_path / "cluster.json")
    configuration = configuration_file(tmp_path, "hints: {keepThreshold: 0.5}")
    arguments = ("plan", "-f", file, "shop/few-1", "--config", configuration)
    (config_map,) = yaml.safe_load(zoneward(*arguments, "-o", "overlay").out)["items"][2:]
    assert config_map["data"] == {"few-1.IPv4": "zones Hints/ProportionalZoneCPU"}
    (decision,) = zoneward.json(*arguments, "--with", "overlay")["decisions"]
    assert decision["active"]
    # The built-in controller's slices have no annotation of Zoneward.
    result = zoneward(*arguments, "--with", "overlay", "-o", "slices-json")
    assert names.APPROACH_ANNOTATION not in result.out
    assert "holds no slice of the built-in controller" not in result.err


def test_a_service_in_the_overlay_has_the_endpoints_of_its_pods(zoneward: Commands, tmp_path: Path) -> None:
    """However its Pods change, as one that is decided by Kubernetes has."""
    file = write_list(eks_with_an_overlay({"few-1.IPv4": "none"}), tmp_path / "cluster.json")
    for change in (("--without-zone", "us-east-1b"), ("--replicas", "few-1=9", "--replicas", "few-3=9")):
        for setting in ("cluster-wide", "PreferSameZone"):
            arguments = ("plan", "-f", file, "few-1", "few-3", "--what-if", setting, *change)
            overlaid, kubernetes = zoneward.json(*arguments)["decisions"]
            assert (overlaid["service"], kubernetes["service"]) == ("few-1", "few-3")
            for figure in ("endpoints", "inZoneTraffic", "maxOverload", "meanOverload", "load"):
                assert overlaid[figure] == kubernetes[figure]


def test_hints_that_an_overlay_lacks_are_one_finding(zoneward: Commands, tmp_path: Path) -> None:
    file = write_list(eks_with_an_overlay({"few-1.IPv4": "zones Hints/ProportionalZoneCPU"}), tmp_path / "cluster.json")
    configuration = configuration_file(tmp_path, "hints: {keepThreshold: 0.5}")
    findings = zoneward.json("check", "-f", file, "shop/few-1", "--config", configuration)["findings"]
    codes = {finding["code"] for finding in findings if finding["object"]["kind"] == "Service"}
    assert "ZW608" in codes
    assert "ZW606" not in codes
