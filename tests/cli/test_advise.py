"""``zoneward advise``: whole screens of four clusters as kubectl prints them, and every form of its output."""

import json
import os
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.builders.new_user_clusters import (
    dev_cluster_in_one_zone,
    eks_with_a_thin_zone,
    gke_dataplane_v2,
    two_thousand_services,
    write_list,
    written,
)
from tests.builders.objects import Object, a_node, a_service, pods_with_slices
from tests.cli.running import MEASURED, SAMPLE, Commands, sample_objects, sample_slices

SCREENS: Final = Path(__file__).parent / "screens"
UPDATE: Final = "ZONEWARD_UPDATE_SCREENS"
"""Set, screens are written instead of compared: read each before you commit it."""
MOST_LINES: Final = 25
WIDTH: Final = 100
TOO_NEW: Final = "PreferSameZone"
"""Kubernetes 1.33, which runs in the cluster of EKS, refuses it."""


def check_screen(name: str, text: str) -> None:
    """The screen fits, and is the one that somebody has read."""
    lines = text.splitlines()
    assert len(lines) <= MOST_LINES
    assert all(len(line) <= WIDTH for line in lines)
    file = SCREENS / f"{name}.txt"
    if UPDATE in os.environ:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize(
    "make",
    [
        eks_with_a_thin_zone,
        gke_dataplane_v2,
        dev_cluster_in_one_zone,
        pytest.param(two_thousand_services, marks=pytest.mark.slow),
    ],
)
def test_the_screen_of_a_cluster(zoneward: Commands, make: Callable[[], Iterator[Object]], tmp_path: Path) -> None:
    result = zoneward("advise", "-q", "-f", written(make, tmp_path))
    assert (result.status, result.err) == (0, "")
    check_screen(f"advise-{make.__name__}", result.out)


@pytest.mark.parametrize(
    ("page", "screen"),
    [
        ("eks", "advise-eks_with_a_thin_zone"),
        ("gke", "advise-gke_dataplane_v2"),
        ("aks", "advise-dev_cluster_in_one_zone"),
    ],
)
def test_pages_about_clouds_show_these_screens(page: str, screen: str) -> None:
    text = (SCREENS.parents[2] / "docs" / f"{page}.md").read_text()
    assert f"```text\n{(SCREENS / f'{screen}.txt').read_text()}```" in text


def test_the_screen_of_the_sample_has_money(zoneward: Commands) -> None:
    result = zoneward("advise", "-q", "--sample")
    assert result.status == 0
    check_screen("advise-sample", result.out)


def test_lines_are_as_wide_as_columns_say(zoneward: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = []
    for columns in ("60", "140"):
        monkeypatch.setenv("COLUMNS", columns)
        lines = zoneward("advise", "-q", "--sample").out.splitlines()
        longest.append(max(map(len, lines)))
        assert longest[-1] <= int(columns)
    assert longest == sorted(set(longest))


def test_an_action_shows_its_services_and_commands(zoneward: Commands, eks: Path) -> None:
    text = zoneward("advise", "-q", "-f", eks, "3").out
    assert TOO_NEW not in text
    assert text.startswith("3  3 Services: trafficDistribution: PreferClose\n")
    commands = [line for line in text.splitlines() if line.startswith("kubectl ")]
    assert len(commands) == 3
    assert "kubectl -n kube-system patch --type=merge" in commands[0]
    assert "an add-on manager of the provider may undo changes" in text


def test_services_limit_the_advice(zoneward: Commands, eks: Path) -> None:
    document = zoneward.json("advise", "-q", "-f", eks, "svc/plain-01", "-n", "shop")
    assert document["summary"]["services"] == 1
    action, meter = document["actions"]
    assert meter["needs"] == "meter"
    assert [service["service"] for service in action["services"]] == ["plain-01"]


def test_the_document_has_version_kind_and_every_service(zoneward: Commands, eks: Path) -> None:
    document = zoneward.json("advise", "-q", "-f", eks)
    assert (document["apiVersion"], document["kind"]) == ("zoneward.dev/v1alpha1", "Advice")
    assert [len(action["services"]) for action in document["actions"]] == [1, 23, 3, 0]
    assert [action["kind"] == "measure" for action in document["actions"]] == [False, False, False, True]
    text = zoneward("advise", "-q", "-f", eks, "-o", "yaml").out
    assert yaml.load(text, yaml.CSafeLoader) == document
    assert TOO_NEW not in text


def test_without_a_cluster_of_36_zoneward_needs_its_controller(zoneward: Commands, tmp_path: Path) -> None:
    """Balanced keeps more traffic in its zone than PreferClose with 20 % more load can."""
    for version, needs in (("v1.33.4", "controller"), ("v1.36.1", "overlay")):
        file = tmp_path / f"{version}.yaml"
        file.write_text(SAMPLE.read_text().replace("kubeletVersion: v1.37.2", f"kubeletVersion: {version}"))
        document = zoneward.json("advise", "-q", "-f", file)
        of_zoneward = [action for action in document["actions"] if action["view"] == "zoneward"]
        assert {action["needs"] for action in of_zoneward} == {needs, "meter"}
        rank = str(of_zoneward[0]["rank"])
        text = zoneward("advise", "-q", "-f", file, rank).out
        assert ("zoneward adopt -- " in text) == (needs == "controller")


def test_patches_are_a_component_of_kustomize(zoneward: Commands, eks: Path, tmp_path: Path) -> None:
    directory = tmp_path / "patches"
    result = zoneward("advise", "-q", "-f", eks, "-o", "patches", "--to", directory)
    assert (result.status, result.out) == (0, f"28 files written to {directory}\n")
    component = yaml.safe_load((directory / "kustomization.yaml").read_text())
    paths = [patch["path"] for patch in component["patches"]]
    assert len(paths) == 27
    patch: dict[str, Any] = yaml.safe_load((directory / "shop/service-few-1.yaml").read_text())
    assert patch == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "namespace": "shop",
            "name": "few-1",
            "annotations": {"service.kubernetes.io/topology-mode": None},
        },
        "spec": {"trafficDistribution": "PreferClose"},
    }
    assert all(yaml.safe_load((directory / path).read_text())["kind"] == "Service" for path in paths)
    assert "expected a new or an empty directory" in zoneward.refused(
        "advise", "-q", "-f", eks, "-o", "patches", "--to", directory
    )


def test_of_two_actions_for_a_service_the_patches_have_the_first(zoneward: Commands, tmp_path: Path) -> None:
    document = zoneward.json("advise", "-q", "--sample")
    kubernetes, overlay = document["actions"][2], document["actions"][4]
    assert overlay["insteadOf"] == [kubernetes["rank"]]
    assert [service["service"] for service in overlay["services"]] == ["checkout"]
    result = zoneward("advise", "-q", "--sample", "-o", "patches", "--to", tmp_path / "all")
    assert result.err == (
        "zoneward: action 5 needs Zoneward's overlay first, and is left out for the Services of action 3: "
        "zoneward advise 5\n"
    )
    first: dict[str, Any] = yaml.safe_load((tmp_path / "all/shop/service-checkout.yaml").read_text())
    assert first["metadata"]["annotations"] == {"service.kubernetes.io/topology-mode": None}
    assert first["spec"] == {"trafficDistribution": "PreferSameZone"}
    zoneward("advise", "-q", "--sample", "5", "-o", "patches", "--to", tmp_path / "one")
    alone: dict[str, Any] = yaml.safe_load((tmp_path / "one/shop/service-checkout.yaml").read_text())
    assert alone["metadata"]["annotations"] == {"service.kubernetes.io/topology-mode": "zoneward.dev/Balanced"}
    assert "spec" not in alone


def test_a_note_says_where_nothing_is_known_of_now(zoneward: Commands, eks: Path) -> None:
    note = "8 Services without EndpointSlices: for them, now is what Kubernetes would decide"
    assert note in zoneward("advise", "--sample").err
    assert "without EndpointSlices" not in zoneward("advise", "-f", eks).err


def test_a_price_needs_bytes(zoneward: Commands, eks: Path) -> None:
    assert "--price-per-gb: expected --measured with it" in zoneward.refused(
        "advise", "-f", eks, "--price-per-gb", "0.01USD"
    )


def test_the_page_names_its_cluster_and_has_a_block_for_each_action(zoneward: Commands, eks: Path) -> None:
    page = zoneward("advise", "-q", "-f", eks, "-o", "html").out
    assert str(eks) in page
    assert TOO_NEW not in page
    assert page.count('<details class="action">') == 4
    assert "http" not in page.replace("http-equiv", "")


def test_the_page_has_all_commands_and_says_what_each_action_needs(zoneward: Commands, tmp_path: Path) -> None:
    """One Service has three Pods in a zone and one in another, and many have a Pod in each zone."""
    objects = [a_node(name, name[0]) for name in ("a1", "a2", "a3", "b", "c")]
    for index in range(60):
        name, nodes = f"s{index}", ("a1", "a2", "a3", "b") if index == 0 else ("a1", "b", "c")
        objects.append(a_service(name, namespace="shop", selector={"app": name}))
        objects += pods_with_slices(name, {node: node[0] for node in nodes})
    file = write_list(objects, tmp_path / "cluster.json")
    actions = zoneward.json("advise", "-q", "-f", file)["actions"]
    assert {action["needs"] for action in actions} == {None, "overlay", "meter"}
    assert max(len(action["commands"]) for action in actions) > 50
    blocks = zoneward("advise", "-q", "-f", file, "-o", "html").out.split('<details class="action">')[1:]
    for action, block in zip(actions, map(unescape, blocks), strict=True):
        assert all(command in block for command in action["commands"])
        assert ("Needs an overlay" in block) == (action["needs"] == "overlay")
        assert ("Needs its meter" in block) == (action["needs"] == "meter")
        assert (f"Takes {action['pods']} more Pod" in block) == bool(action["pods"])


@pytest.mark.parametrize(
    ("zones", "reason"),
    [
        ("a", "All nodes are in zone a: no traffic leaves it."),
        ("ab", "No Service has traffic that could stay in its zone."),
        ("", "No node has a zone label: how much traffic leaves its zone is unknown (zoneward check)."),
    ],
)
def test_text_and_page_say_alike_why_nothing_can_change(
    zoneward: Commands, zones: str, reason: str, tmp_path: Path
) -> None:
    file = write_list([a_node(zone, zone) for zone in zones] or [a_node("n", None)], tmp_path / "nodes.json")
    page = zoneward("advise", "-q", "-f", file, "-o", "html").out
    assert reason in zoneward("advise", "-q", "-f", file).out
    assert reason in page
    assert "Nothing to do" not in page


def test_the_changes_of_manifests_are_shown_instead(zoneward: Commands, eks: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "services.yaml"
    hostile = "x|`@admin` [a](http://a.example)"
    services = [
        {"name": "plain-01", "spec": {"trafficDistribution": "PreferClose"}},
        {"name": "close-01", "spec": {"trafficDistribution": "PreferClose"}},
        {"name": "plain-02", "annotations": {"zoneward.dev/overlay": hostile}, "spec": {}},
        {"name": "new", "spec": {}},
    ]
    manifest.write_text(
        yaml.safe_dump_all(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {
                    "name": service["name"],
                    "namespace": "shop",
                    "annotations": service.get("annotations", {}),
                },
                "spec": service["spec"],
            }
            for service in services
        )
    )
    arguments = ("advise", "-q", "-f", eks, "--diff", manifest)
    text = zoneward(*arguments).out
    assert text.startswith("2 Services change, 1 does not; not in the cluster: shop/new\n")
    assert "shop/plain-01  33% -> 100%   +36%  trafficDistribution: none -> PreferClose" in text
    document = zoneward.json(*arguments)
    assert document["kind"] == "ManifestChanges"
    assert document["services"][0]["effect"]["inZoneAfter"] == 1
    markdown = zoneward(*arguments, "-o", "markdown").out
    assert "`zoneward.dev/overlay: none -> x\\|'@admin' [a](http://a.example)`" in markdown
    measuring = (("--measured", "x.json"), ("--window", "2h"), ("--price-per-gb", "0.01USD"))
    for wrong in (("1",), ("-o", "html"), *measuring):
        assert "--diff: expected no number" in zoneward(*arguments, *wrong).err
    assert "-o markdown: expected --diff" in zoneward("advise", "--sample", "-o", "markdown").err
    # What is not selected is not missing.
    assert zoneward(*arguments, "shop/plain-01").out.startswith("1 Service changes\n")


def test_the_changes_of_manifests_say_what_would_be_dropped(zoneward: Commands, eks: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "service.yaml"
    manifest.write_text(
        "{apiVersion: v1, kind: Service, metadata: {name: plain-01, namespace: shop},"
        " spec: {internalTrafficPolicy: Local}}"
    )
    arguments = ("advise", "-q", "-f", eks, "--diff", manifest)
    (service,) = zoneward.json(*arguments)["services"]
    # 3 of 11 nodes have a Pod.
    assert service["effect"]["droppedAfter"] == pytest.approx(8 / 11, abs=1e-5)
    for form in ("text", "markdown"):
        assert "drops 73%" in zoneward(*arguments, "-o", form).out


def test_the_last_of_two_manifests_of_a_service_wins_with_a_note(zoneward: Commands, eks: Path, tmp_path: Path) -> None:
    for name, policy in (("a", "Local"), ("b", "Cluster")):
        (tmp_path / f"{name}.yaml").write_text(
            "{apiVersion: v1, kind: Service, metadata: {name: plain-01, namespace: shop},"
            f" spec: {{internalTrafficPolicy: {policy}}}}}"
        )
    result = zoneward("advise", "-f", eks, "--diff", tmp_path / "a.yaml", "--diff", tmp_path / "b.yaml")
    assert result.out == "0 Services change, 1 does not\n"
    assert f"the one in {tmp_path / 'b.yaml'} wins" in result.err


def test_manifests_without_a_namespace_are_in_the_one_that_is_given(
    zoneward: Commands, eks: Path, tmp_path: Path
) -> None:
    manifest = tmp_path / "service.yaml"
    manifest.write_text("{apiVersion: v1, kind: Service, metadata: {name: plain-01}, spec: {}}")
    arguments = ("advise", "-q", "-f", eks, "--diff", manifest)
    assert zoneward(*arguments).out == "0 Services change; not in the cluster: default/plain-01\n"
    assert zoneward(*arguments, "-n", "shop").out == "0 Services change, 1 does not\n"


def test_standard_input_has_either_the_cluster_or_the_manifests(zoneward: Commands) -> None:
    expected = "-f and --diff: expected standard input for one of them, got it for both"
    assert expected in zoneward.refused("advise", "-f", "-", "--diff", "-")


def test_annotations_that_zoneward_writes_are_no_change_of_a_manifest(zoneward: Commands, tmp_path: Path) -> None:
    service = next(item for item in sample_objects() if item["metadata"]["name"] == "search")
    live, manifest = tmp_path / "live.json", tmp_path / "manifest.json"
    manifest.write_text(json.dumps(service))
    written = {"zoneward.dev/requested-approach": "", "zoneward.dev/measured-demand": "eu-central-1a=1"}
    annotations = service["metadata"].get("annotations", {}) | written
    live.write_text(json.dumps(service | {"metadata": service["metadata"] | {"annotations": annotations}}))
    text = zoneward("advise", "-q", "-f", SAMPLE, "-f", live, "--diff", manifest).out
    assert text == "0 Services change, 1 does not\n"


def test_nodes_that_do_not_do_what_is_predicted_are_counted(zoneward: Commands, tmp_path: Path) -> None:
    slices = tmp_path / "slices.json"
    slices.write_bytes(sample_slices(upstream=True))
    result = zoneward("advise", "-f", SAMPLE, "-f", slices, "--measured", MEASURED)
    assert "1 node does not do what is predicted: zoneward report shows what was measured\n" in result.err


def test_the_share_in_its_zone_is_that_of_bytes(zoneward: Commands, tmp_path: Path) -> None:
    """Connections from one zone may be larger than those from another."""
    documents = list(map(json.loads, MEASURED.read_text().splitlines()))
    for document in documents:
        for service in document["services"] if document["zone"].endswith("b") else ():
            for sizes in service["bytes"].values():
                sizes["response"] *= 50
    file = tmp_path / "measured.jsonl"
    file.write_text("\n".join(map(json.dumps, documents)))
    summary = zoneward.json("advise", "-q", "-f", SAMPLE, "--measured", file)["summary"]
    total = zoneward.json("report", "-q", "-f", SAMPLE, "--measured", file)["total"]
    assert (summary["weighedBy"], summary["unit"]) == ("bytes", "bytes")
    assert summary["inZone"] == pytest.approx(1 - summary["crossing"] / (total["gb"] * 1e9), abs=1e-5)
    reachable = summary["crossing"] - summary["saved"]
    assert summary["inZoneReachable"] == pytest.approx(1 - reachable / (total["gb"] * 1e9), abs=1e-5)


def test_a_note_says_that_amounts_lack_nodes_and_hours(zoneward: Commands, tmp_path: Path) -> None:
    notes = (
        "measured on 21 of 22 ready nodes: amounts a month are without",
        "some nodes measured for 6 h only: a month",
    )
    whole = zoneward("advise", "-f", SAMPLE, "--measured", MEASURED).err
    assert not any(note in whole for note in notes)
    first, *others = map(json.loads, MEASURED.read_text().splitlines()[1:])
    part = tmp_path / "part.jsonl"
    part.write_text("\n".join(map(json.dumps, (first | {"until": "2026-10-19T15:00:00Z"}, *others))))
    said = zoneward("advise", "-f", SAMPLE, "--measured", part).err
    assert all(f"zoneward: {note}" in said for note in notes)


def test_the_meter_is_offered_only_without_measurements(zoneward: Commands, eks: Path) -> None:
    text = zoneward("advise", "-q", "-f", eks, "4").out
    assert "meter.enabled=true" in text
    assert "% ->" not in text
    measured = zoneward.json("advise", "-q", "--sample")["actions"]
    assert "measure" not in {action["kind"] for action in measured}
