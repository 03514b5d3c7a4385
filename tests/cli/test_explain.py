import html
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from tests.builders.new_user_clusters import write_list
from tests.builders.objects import a_node, a_pod, a_service, a_volume_with_claim
from tests.cli.live_cluster import Cluster
from tests.cli.running import MEASURED, SAMPLE, Commands, sample_slices

from zoneward.advice.explanation import Explanation


@pytest.fixture(scope="module")
def with_slices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample cluster with slices of the built-in controller, without hints."""
    file = tmp_path_factory.mktemp("slices") / "slices.json"
    file.write_bytes(sample_slices(upstream=True, what_if="none"))
    return file


def test_explain_shows_now_why_and_fixes(zoneward: Commands, with_slices: Path) -> None:
    result = zoneward("explain", "-f", SAMPLE, "-f", with_slices, "shop/checkout")
    assert (result.status, result.err) == (0, "")
    order = [
        "NOW ",
        "PLANNED ",
        "WHY",
        "> no  upstream-allocation",
        "SMALLEST FIXES",
        "  1. ",
        "kubectl",
        "WHAT BYPASSES IT",
    ]
    assert sorted(order, key=result.out.index) == order
    assert "36% of traffic stays in its zone" in result.out
    assert "5 more Pods in whichever zone" in result.out
    assert "kubectl -n shop scale --replicas=N+5 -- deployment/checkout" in result.out


def test_only_commands_are_wider_than_the_screen(zoneward: Commands) -> None:
    for service in ("cart", "checkout", "search", "wishlist", "bank-gateway", "mail", "payments/api"):
        lines = zoneward("explain", "--sample", service).out.splitlines()
        assert all(len(line) <= 100 for line in lines if not line.lstrip().startswith("kubectl"))


def test_json_has_the_fields_that_scripts_rely_on(zoneward: Commands, with_slices: Path) -> None:
    out = zoneward("explain", "-f", SAMPLE, "-f", with_slices, "shop/checkout", "-o", "json").out
    msgspec.json.decode(out, type=Explanation)
    document = json.loads(out)
    (family,) = document["families"]
    assert (document["namespace"], document["service"], family["addressType"]) == ("shop", "checkout", "IPv4")
    assert family["now"]["zones"]["eu-central-1a"]["uses"] == {"eu-central-1a": 1, "eu-central-1b": 1}
    assert [rule["rule"] for rule in family["rules"] if rule["deciding"]] == ["upstream-allocation"]
    fixes = {fix["kind"]: fix for fix in family["fixes"]}
    assert fixes["add-pods"]["pods"] == 5
    assert fixes["add-pods"]["result"]["active"]
    assert fixes["add-pods"]["commands"] == ["kubectl -n shop scale --replicas=N+5 -- deployment/checkout"]
    assert [item["what"] for item in family["bypassedBy"]] == ["ingress-not-seen"]


@pytest.mark.parametrize(
    ("output", "service"),
    [
        *(("html", service) for service in ("checkout", "payments/api", "mail")),
        *(("svg", service) for service in ("cart", "payments/api", "bank-gateway", "log-agent")),
    ],
)
def test_pages_and_pictures_are_well_formed_and_load_nothing(
    zoneward: Commands, with_slices: Path, output: str, service: str
) -> None:
    out = zoneward("explain", "-f", SAMPLE, "-f", with_slices, service, "-o", output).out
    root = ElementTree.fromstring(out.removeprefix("<!DOCTYPE html>\n"))
    assert not [item for item in root.iter() if {"src", "href"} & item.attrib.keys() and item.tag != "link"]
    assert "prefers-color-scheme: dark" in out
    assert "http" not in out.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")


def test_what_if_options_apply_to_explain(zoneward: Commands) -> None:
    result = zoneward("explain", "--sample", "checkout", "--replicas", "shop/checkout=7")
    assert "nothing to fix" not in zoneward("explain", "--sample", "checkout").out
    assert "ProportionalZoneCPU: in force" in result.out
    assert "PreferSameZone: in force" in zoneward("explain", "--sample", "cart", "--what-if", "PreferSameZone").out


def test_a_name_in_several_namespaces_needs_its_namespace(zoneward: Commands, tmp_path: Path) -> None:
    services = [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": namespace}, "spec": {}}
        for namespace in ("a", "b")
    ]
    file = write_list(services, tmp_path / "two.json")
    assert "expected one Service, got 2: a/web, b/web" in zoneward.refused("explain", "-f", file, "web")
    assert zoneward("explain", "-f", file, "a/web").status == 0


def test_changed_cluster_shows_the_load_before_and_after(zoneward: Commands, with_slices: Path) -> None:
    given = ("explain", "-q", "-f", SAMPLE, "-f", with_slices, "shop/cart")
    changed = (*given, "--without-zone", "eu-central-1a")
    (family,) = zoneward.json(*changed)["families"]
    (decision,) = zoneward.json("plan", "-q", *changed[2:])["decisions"]
    assert family["planned"]["load"] == decision["load"]
    assert family["now"]["zones"].keys() == {f"eu-central-1{zone}" for zone in "abc"}, "now is before the change"
    for form in ("text", "html"):
        said = " ".join(zoneward(*changed, "-o", form).out.split())
        assert "its load -87% against the busiest one's before the change" in html.unescape(said)
        assert "before the change" not in zoneward(*given, "-o", form).out
    (family,) = zoneward.json(*given)["families"]
    assert "load" not in family["planned"]


def test_measured_traffic_is_shown_beside_the_prediction(zoneward: Commands, tmp_path: Path) -> None:
    """The node whose proxy ignores hints is named, as text, JSON and page."""
    slices = tmp_path / "slices.yaml"
    slices.write_text(zoneward("plan", "-q", "-f", SAMPLE, "shop/search", "-o", "yaml").out)
    given = ("explain", "-q", "-f", SAMPLE, "-f", slices, "shop/search", "--measured", MEASURED)
    text = zoneward(*given).out
    assert "MEASURED 68% of 696,459 connections from 22 nodes stayed in their zone, 70% predicted; 1 node does" in text
    assert "worker-b2  eu-central-1b       26,749    19%        67%  19% in its zone, predicted 67%" in text
    (family,) = msgspec.json.decode(zoneward(*given, "-o", "json").out, type=Explanation).families
    measured = family.measured
    assert measured
    assert (measured.connections, measured.deviating_nodes, len(measured.nodes)) == (696_459, ("worker-b2",), 22)
    assert measured.predicted_in_zone == pytest.approx(0.7, abs=0.005)
    page = zoneward(*given, "-o", "html").out
    ElementTree.fromstring(page)
    assert "19% in its zone, predicted 67%" in page


def test_what_was_measured_is_what_plan_shows(zoneward: Commands, tmp_path: Path) -> None:
    """Also of nodes that count no bytes, and without a zone."""
    first, second, *others = map(json.loads, MEASURED.read_text().splitlines())
    for service in first["services"]:
        del service["bytes"]
    second["zone"] = None
    file = tmp_path / "measured.jsonl"
    file.write_text("\n".join(map(json.dumps, (first, second, *others))))
    given = ("-q", "--sample", "--measured", file, "shop/search")
    (decision,), (family,) = zoneward.json("plan", *given)["decisions"], zoneward.json("explain", *given)["families"]
    assert len(family["measured"]["nodes"]) == 22
    for field in ("connections", "inZone"):
        assert family["measured"][field] == pytest.approx(decision["measured"][field], abs=2e-6)
    of_zones = decision["measured"]["connections"] - decision["measured"]["zones"][""]["connections"]
    assert f"of {of_zones:,} connections from 21 nodes stayed in their zone" in zoneward("explain", *given).out


def test_nothing_is_compared_without_connections_or_slices(zoneward: Commands) -> None:
    given = ("explain", "-q", "--sample", "--measured", MEASURED)
    assert "MEASURED no connection to it is in the documents" in zoneward(*given, "shop/wishlist").out
    assert zoneward.json(*given, "shop/wishlist")["families"][0]["measured"] is None
    assert "measured" not in zoneward.json("explain", "--sample", "shop/cart")["families"][0]
    search = zoneward.json(*given, "shop/search")["families"][0]["measured"]
    assert (search["predictedInZone"], search["deviatingNodes"]) == (None, [])
    assert "nothing is predicted" in zoneward(*given, "shop/search").out


# --- workloads and volumes --------------------------------------------------------------------------------------------


def a_database() -> list[dict[str, Any]]:
    """Four Pods of a StatefulSet, three of them in zone a, where their volumes are bound; the first one leads."""
    zones = ["a", "a", "a", "b"]
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "1", "controller": True}
    objects: list[dict[str, Any]] = [a_node(f"n-{zone}", zone) for zone in "abc"]
    labels = {"app": "db"}
    objects.append(a_service("db", namespace="shop", selector=labels, distribution="PreferSameZone"))
    for ordinal, zone in enumerate(zones):
        name = f"db-{ordinal}"
        role = {"role": "replica" if ordinal else "master"}
        pod = a_pod(name, node=f"n-{zone}", ips=[f"10.1.0.{ordinal + 1}"], namespace="shop", labels=labels | role)
        pod["metadata"]["ownerReferences"] = [owner]
        objects += [pod, *a_volume_with_claim(f"data-{name}", zone)]
    template = {"metadata": {"labels": labels}, "spec": {}}
    spec = {"replicas": 4, "template": template, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    meta = {"name": "db", "namespace": "shop"}
    return [*objects, {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec}]


def explained(zoneward: Commands, *words: str | Path) -> dict[str, Any]:
    document = zoneward.json("explain", "-q", *words)
    msgspec.convert(document, Explanation)
    (family,) = document["families"]
    return dict(family)


@pytest.mark.parametrize("anonymize", [(), ("--anonymize",)], ids=["as it is", "anonymized"])
def test_snapshot_keeps_the_limits_of_fixes(zoneward: Commands, tmp_path: Path, anonymize: tuple[str, ...]) -> None:
    written = write_list(a_database(), tmp_path / "cluster.json")
    copy = tmp_path / "copy.json"
    assert zoneward("snapshot", "-q", "-f", written, "--file", copy, *anonymize).status == 0
    service = zoneward.json("plan", "-q", "-f", copy)["decisions"][0]["service"]
    family = explained(zoneward, "-f", copy, service)
    (reason,) = family["limits"]
    assert "looks like a database" in reason
    assert "role=master" in reason
    assert not [fix for fix in family["fixes"] if fix["pods"] or fix["kind"] in ("move-pods", "spread")]
    # Without a leader, the volumes still keep the Pods where they are.
    objects = json.loads(copy.read_text())["items"]
    for object_ in objects:
        object_["metadata"].get("labels", {}).pop("role", None)
    family = explained(zoneward, "-f", write_list(objects, tmp_path / "plain.json"), service)
    (reason,) = family["limits"]
    assert reason.endswith("the volumes of 4 Pods are bound to their zones: no fix moves these Pods")
    assert not [fix for fix in family["fixes"] if fix["kind"] == "move-pods"]
    assert family["notChecked"] == [
        {"what": "autoscalers", "reason": "there are no HorizontalPodAutoscalers in the snapshot"}
    ]


def test_unchecked_limits_are_in_every_output(zoneward: Commands, tmp_path: Path) -> None:
    kinds = ("Service", "Node", "Pod")
    objects = [item for item in a_database() if item["kind"] in kinds]
    for object_ in objects:
        object_["metadata"].get("labels", {}).pop("role", None)
    file = write_list(objects, tmp_path / "cluster.json")
    family = explained(zoneward, "-f", file, "db")
    assert [item["what"] for item in family["notChecked"]] == [
        "replicas, node affinity and volumes of the Pods",
        "autoscalers",
    ]
    for form in ("text", "html"):
        out = " ".join(zoneward("explain", "-q", "-f", file, "db", "-o", form).out.split())
        assert "not checked for fixes that change Pods: replicas, node affinity" in out.replace("Not", "not")
        assert "; volumes not checked" in out


def test_workloads_are_read_as_permissions_allow(zoneward: Commands, cluster: Cluster) -> None:
    template = {"metadata": {"labels": {"app": "checkout"}}, "spec": {}}
    spec = {"replicas": 12, "template": template}
    cluster.do(lambda server: server.put("deployments", "checkout", "shop", spec=spec))
    family = explained(zoneward, "shop/checkout")
    commands = {fix["kind"]: fix["commands"] for fix in family["fixes"]}
    assert commands["add-pods"] == ["kubectl -n shop scale --replicas=17 -- deployment/checkout"]
    assert family["notChecked"] == []
    cluster.do(lambda server: server.refusals.update(deployments=403))
    family = explained(zoneward, "shop/checkout")
    commands = {fix["kind"]: fix["commands"] for fix in family["fixes"]}
    assert commands["add-pods"] == ["kubectl -n shop scale --replicas=N+5 -- deployment/checkout"]
    (unchecked,) = family["notChecked"]
    assert unchecked["reason"] == "Deployments cannot be read (no permission)"


def test_fixes_of_zoneward_come_last_where_kubernetes_decides(zoneward: Commands, eks: Path) -> None:
    """The decision is that of the built-in controller, which ignores thresholds."""
    given = ("explain", "-q", "-f", eks, "shop/few-1")
    (family,) = zoneward.json(*given)["families"]
    assert [rule["detail"] for rule in family["rules"] if rule["deciding"]] == [
        "below 20 % the zones need at least 2 + 2 + 1 = 5 of 3 endpoints"
    ]
    needs = [bool(fix["needs"]) for fix in family["fixes"]]
    assert True in needs
    assert needs == sorted(needs)
    (own,) = zoneward.json(*given, "--with", "controller")["families"]
    assert "threshold-in-force" in [rule["rule"] for rule in own["rules"]]
