"""What commands say of an overlay: ``plan -o overlay``, ``--with overlay``, and ``release --overlay``."""

import json
from pathlib import Path

import yaml
from tests.cli.running import SAMPLE, Commands, configuration_file

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
    note = "an overlay of Zoneward is in use: --with overlay shows what it does"
    assert note in result.err
    assert note not in zoneward("check", *cluster, "-f", str(asking), "--with", "overlay").err
    without = zoneward("check", *cluster, "-f", str(slices), "-o", "json")
    assert "ZW608" not in without.out
