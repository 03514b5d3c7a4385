"""``zoneward plan`` as people and scripts use it."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from tests.builders.new_user_clusters import write_list
from tests.builders.objects import a_node, a_pod, a_service, pods_with_slices, with_field
from tests.cli.running import SAMPLE, Commands, configuration_file, sample_objects, sample_slices

from zoneward.kube import names
from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION
from zoneward.routing.what_if import WHAT_IF_VALUES

# The design's shape, which scripts rely on: fields may be added, these keep their names and meaning.
SHAPE: dict[str, tuple[type, ...]] = {
    "namespace": (str,),
    "service": (str,),
    "addressType": (str,),
    "approach": (str,),
    "heuristic": (str, type(None)),
    "active": (bool,),
    "reason": (str,),
    "endpoints": (int,),
    "zones": (dict,),
    "allocation": (dict, type(None)),
    "inZoneTraffic": (float, int, type(None)),
    "maxOverload": (float, int, type(None)),
    "meanOverload": (float, int, type(None)),
    "slices": (dict,),
    "rules": (list,),
    "events": (list,),
    "conditions": (list,),
}


def decisions(zoneward: Commands, *arguments: str | Path) -> dict[str, dict[str, Any]]:
    """Decisions by Service (``name`` or ``name IPv6``)."""
    return {
        decision["service"] + (" IPv6" if decision["addressType"] == "IPv6" else ""): decision
        for decision in zoneward.json("plan", "-q", *arguments)["decisions"]
    }


def test_json_has_the_shape_that_scripts_rely_on(zoneward: Commands) -> None:
    by_name = decisions(zoneward, "--sample")
    for decision in by_name.values():
        for field, types in SHAPE.items():
            assert isinstance(decision[field], types), (decision["service"], field)
        assert set(decision["slices"]) == {"create", "update", "delete", "unchanged"}
        for rule in decision["rules"]:
            assert set(rule) == {"rule", "passed", "detail"}
        for zone in decision["zones"].values():
            assert set(zone) == {"demand", "located", "consumed", "expected", "overload"}
        assert decision["active"] is (decision["allocation"] is not None)
    assert by_name["search"]["allocation"]["eu-central-1a"]["eu-central-1a"] == 4
    assert by_name["cart"]["conditions"][0] == {
        "type": "zoneward.dev/TrafficDistributionAccepted",
        "status": "True",
        "reason": "Accepted",
        "message": "spec.trafficDistribution: PreferSameZone",
    }


@pytest.mark.parametrize("output", ["table", "wide"])
def test_table_has_a_line_for_every_service(zoneward: Commands, output: str) -> None:
    result = zoneward("plan", "--sample", "-o", output)
    for service in ("shop/search", "shop/cart", "payments/bank-gateway", "kube-system/kube-dns", "shop/mail"):
        assert re.search(rf"^{service} ", result.out, re.MULTILINE), service
    assert "zoneward explain SERVICE (why, fixes)" in result.out


def test_color_option_is_honored(zoneward: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = zoneward("plan", "--sample").out
    assert "\x1b" not in plain
    coloured = zoneward("plan", "--sample", "--color=always").out
    assert "\x1b[31m+701%" in coloured, "an overload above the threshold is red"
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in bare.splitlines() if not line.startswith("Colours:")] == plain.splitlines()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in zoneward("plan", "--sample").out
    assert zoneward("plan", "--sample", "--color=always").out == coloured, "what is asked for wins"


def test_yaml_is_a_list_for_kubectl_apply(zoneward: Commands) -> None:
    result = zoneward("plan", "--sample", "-n", "payments", "-o", "yaml")
    document = yaml.load(result.out, yaml.CSafeLoader)
    assert (document["apiVersion"], document["kind"]) == ("v1", "List")
    for item in document["items"]:
        assert (item["apiVersion"], item["kind"]) == ("discovery.k8s.io/v1", "EndpointSlice")
        assert item["metadata"]["labels"][names.MANAGED_BY_LABEL] == names.MANAGER
        assert set(item["metadata"]) <= {"name", "namespace", "labels", "annotations", "ownerReferences"}
        assert re.fullmatch(
            rf"{item['metadata']['labels'][names.SERVICE_NAME_LABEL]}-[0-9a-f]{{10}}", item["metadata"]["name"]
        )
    assert json.loads(zoneward("plan", "--sample", "-n", "payments", "-o", "slices-json").out) == document


@pytest.fixture(scope="module")
def built_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Slices of the built-in controller for every Service of the sample."""
    path = tmp_path_factory.mktemp("built-in") / "built-in.json"
    path.write_bytes(sample_slices(upstream=True))
    return path


def test_yaml_lists_the_slices_to_delete(zoneward: Commands, built_in: Path) -> None:
    names_of = {item["metadata"]["name"] for item in json.loads(built_in.read_text())["items"]}
    result = zoneward("plan", "-f", SAMPLE, "-f", built_in, "-o", "yaml")
    header = [line for line in result.out.splitlines() if line.startswith("#")]
    assert "every endpoint would be listed" in header[0]
    named = {line.rpartition("/")[2] for line in header if line.startswith("#   ")}
    assert named == names_of
    for line in header:
        assert line[2:] in result.err
    by_name = decisions(zoneward, "-f", SAMPLE, "-f", built_in, "--with", "controller")
    assert sum(decision["slices"]["delete"] for decision in by_name.values()) == len(names_of)
    assert {name for decision in by_name.values() for name in decision["replacedSlices"]} == names_of


def test_compat_upstream_keeps_upstream_slices(zoneward: Commands, built_in: Path) -> None:
    by_name = decisions(zoneward, "-f", SAMPLE, "-f", built_in, "--compat=upstream")
    assert not any(
        decision["slices"][change] for decision in by_name.values() for change in ("create", "update", "delete")
    )


def test_planning_the_planned_cluster_is_a_no_op(zoneward: Commands, tmp_path: Path) -> None:
    first = tmp_path / "slices.json"
    first.write_text(zoneward("plan", "--sample", "-o", "slices-json").out)
    assert zoneward("plan", "-f", SAMPLE, "-f", first, "-o", "slices-json").out == first.read_text()
    by_name = decisions(zoneward, "-f", SAMPLE, "-f", first)
    for decision in by_name.values():
        assert not any(decision["slices"][change] for change in ("create", "update", "delete")), decision["service"]


@pytest.mark.parametrize("value", WHAT_IF_VALUES)
def test_what_if_asks_for_every_selected_service(zoneward: Commands, value: str) -> None:
    heuristics = {"Auto": "ProportionalZoneCPU", "none": None}
    by_name = decisions(zoneward, "--sample", "--what-if", value)
    for decision in by_name.values():
        if decision["service"] != "bank-gateway":
            assert decision["heuristic"] == heuristics.get(value, value), decision["service"]


def test_no_selected_service_is_a_note(zoneward: Commands) -> None:
    result = zoneward("plan", "--sample", "-l", "app=nobody", "-o", "json")
    assert (result.status, json.loads(result.out)["decisions"]) == (0, [])
    assert result.err == (
        "zoneward: no Service with the labels app=nobody; "
        "there are Services in the namespaces: kube-system, payments, shop\n"
    )
    assert zoneward("plan", "--sample", "-l", "app=nobody", "-o", "json", "-q").err == ""


def test_configuration_is_read_and_flags_win(zoneward: Commands, tmp_path: Path) -> None:
    config = configuration_file(
        tmp_path, "hints: {startThreshold: 0.01, keepThreshold: 0.01}\nmaxEndpointsPerSlice: 50"
    )
    by_name = decisions(zoneward, "--sample", "--config", config)
    assert not by_name["search"]["active"]
    assert by_name["catalog"]["slices"]["create"] == 5
    assert decisions(zoneward, "--sample", "--config", config, "--compat=upstream")["search"]["active"]


def test_json_has_groups_weights_and_moves(zoneward: Commands, tmp_path: Path) -> None:
    """Five, four and three endpoints, with 4.8, 3.84 and 3.36 expected: local has them at home, and local-opt takes one
    from each of the first two zones for the group of all."""
    a, b, c = (f"eu-central-1{letter}" for letter in "abc")
    first = decisions(zoneward, "--sample", "--what-if", "local", "inventory")["inventory"]
    assert first["groups"] == [
        {"zones": [zone], "weights": [1.0], "endpoints": count, "located": {zone: count}}
        for zone, count in ((a, 5), (b, 4), (c, 3))
    ]
    assert first["moved"] == 0
    local = tmp_path / "local.yaml"
    local.write_text(zoneward("plan", "-q", "--sample", "--what-if", "local", "inventory", "-o", "yaml").out)
    arguments = ("-f", SAMPLE, "-f", local, "--proxy", "zoneward", "--what-if", "local-opt", "inventory")
    then = decisions(zoneward, *arguments)["inventory"]
    assert then["groups"] == [
        *(
            {"zones": [zone], "weights": [1.0], "endpoints": count, "located": {zone: count}}
            for zone, count in ((a, 4), (b, 3), (c, 3))
        ),
        {"zones": [a, b, c], "weights": [0.333333] * 3, "endpoints": 2, "located": {a: 1, b: 1}},
    ]
    assert then["moved"] == 2
    # Every slice says what is in force, so all three are written, and one more.
    assert then["slices"] == {"create": 1, "update": 3, "delete": 0, "unchanged": 0}
    wide = zoneward("plan", "-q", *arguments, "-o", "wide").out
    assert "groups: a 4, b 3, c 3, a=0.33+b=0.33+c=0.33 2" in " ".join(wide.split())
    header, line = (
        next(line for line in wide.splitlines() if line.startswith(word)) for word in ("SERVICE", "shop/inventory")
    )
    at = header.index("MOVED")
    assert line[at : at + len("MOVED")].strip() == "2"


def test_endpoints_come_from_slices_without_pods(zoneward: Commands, tmp_path: Path, built_in: Path) -> None:
    documents = [object_ for object_ in sample_objects() if object_["kind"] not in ("Pod", "EndpointSlice")]
    bare = write_list(documents, tmp_path / "bare.json")
    by_name = decisions(zoneward, "-f", bare, "-f", built_in)
    with_pods = decisions(zoneward, "-f", SAMPLE, "-f", built_in)
    for name in ("search", "cart", "catalog"):
        assert by_name[name]["allocation"] == with_pods[name]["allocation"]
    result = zoneward("plan", "-f", bare, "-f", built_in)
    assert "no Pods in the snapshot: endpoints are taken from its EndpointSlices" in result.err


def test_yaml_lists_obsolete_slices_of_zoneward(zoneward: Commands, tmp_path: Path) -> None:
    """Applying a list deletes nothing."""
    document = yaml.safe_load(zoneward("plan", "-q", "--sample", "-o", "yaml", "shop/cart").out)
    stale = document["items"][0]
    stale["metadata"]["name"] = "cart-of-old"
    stale["ports"][0]["port"] = 9999
    path = tmp_path / "stale.yaml"
    path.write_text(yaml.safe_dump(document))
    current = tmp_path / "current.yaml"
    current.write_text(zoneward("plan", "-q", "--sample", "-o", "yaml", "shop/cart").out)
    result = zoneward("plan", "-f", SAMPLE, "-f", path, "-f", current, "-o", "yaml", "shop/cart")
    assert "# 1 slice of Zoneward, no longer needed, must be deleted, too:\n#   shop/cart-of-old\n" in result.out


# --- now, and the nodes' proxies --------------------------------------------------------------------------------------


@pytest.fixture
def hintless(tmp_path: Path) -> Path:
    """The slices of the sample cluster as they are where nothing is asked for."""
    path = tmp_path / "slices.json"
    path.write_bytes(sample_slices(what_if="none"))
    return path


def test_now_is_the_traffic_by_slices_in_force(zoneward: Commands, hintless: Path) -> None:
    search = decisions(zoneward, "-f", SAMPLE, "-f", hintless, "shop/search")["search"]
    assert search["now"]["inZoneTraffic"] == pytest.approx(0.372136)
    assert search["now"]["maxOverload"] == 0.0
    assert search["now"]["proxies"] == {"kube-proxy 1.37": 22}
    assert search["now"]["zones"]["eu-central-1a"] == {"consumed": 10, "load": 1.0}
    assert search["inZoneTraffic"] > 0.7
    assert decisions(zoneward, "--sample", "shop/search")["search"]["now"] is None
    table = zoneward("plan", "-f", SAMPLE, "-f", hintless, "shop/search").out
    assert "37%>71%" in table
    assert "+0%>+7%" in table
    assert "34%>97%" not in zoneward("plan", "--sample").out


def test_row_shows_that_proxies_ignore_the_plan(zoneward: Commands) -> None:
    arguments = ("plan", "--sample", "--what-if", "PreferSameZone", "shop/search")
    assert "Proxies: kube-proxy 1.37" in zoneward(*arguments).out
    old = zoneward(*arguments, "--proxy", "kube-proxy-1.30").out
    assert "all zones: kube-proxy 1.30 ignores it" in old
    assert "its own zone" not in old
    assert "all zones: kube-proxy 1.24 to 1.30 ignores it" in zoneward(*arguments, "--consumer", "annotation").out
    wide = zoneward(*arguments, "--proxy", "cilium-1.17", "-o", "wide").out
    assert "cilium 1.17 ignores hints, as enable-service-topology is off" in wide


def test_mixed_cluster_is_planned_node_by_node(zoneward: Commands, tmp_path: Path) -> None:
    """The DaemonSet is on one node alone; of the others only the older kubelets are known."""
    old = tmp_path / "old.yaml"
    text = SAMPLE.read_text()
    zone = text.replace("nodeSelector: {kubernetes.io/os: linux}", "nodeSelector: {kubernetes.io/hostname: worker-a1}")
    old.write_text(zone.replace("kubeletVersion: v1.37.2", "kubeletVersion: v1.30.2"))
    result = zoneward("plan", "-f", old, "shop/cart")
    assert "Proxies: kube-proxy 1.30 on 21, kube-proxy 1.37 on 1" in result.out
    assert "its own zone; 21 nodes ignore it" in result.out
    assert "cannot detect the proxy on 23 of 24 nodes; assuming kube-proxy (override with --proxy)" in result.err


def test_verbose_notes_have_one_line_for_each_kind_of_proxy(zoneward: Commands, tmp_path: Path) -> None:
    """Static Pods differ by their names, and kubelets by their patch versions."""
    nodes = [
        with_field(a_node(f"n{index}", "abc"[index % 3]), "status.nodeInfo.kubeletVersion", f"v1.33.{index % 5}")
        for index in range(60)
    ]
    container = {"name": "kube-proxy", "image": "kube-proxy:v1.33.1"}
    pods = [
        with_field(
            a_pod(f"kube-proxy-n{index}", node=f"n{index}", ips=[], namespace="kube-system"),
            "spec.containers[0]",
            container,
        )
        for index in range(40)
    ]
    service = a_service("cart", namespace="shop")
    file = write_list([*nodes, *pods, service], tmp_path / "cluster.json")
    lines = [line for line in zoneward("plan", "-v", "-f", file).err.splitlines() if "which honors" in line]
    about = "kube-proxy 1.33, which honors forZones, ignores forNodes"
    first = "Pod kube-system/kube-proxy-n0, image kube-proxy:v1.33.1"
    assert lines == [f"zoneward: 60 nodes with {about}: {first} and 44 more"]


def test_page_has_every_row_and_loads_nothing(zoneward: Commands) -> None:
    page, wide = (zoneward("plan", "-q", "--sample", "-o", name) for name in ("html", "wide"))
    assert page.status == 0
    _, _, rest = page.out.partition("\n")
    rows = [list(row) for row in next(ElementTree.fromstring(rest).iter("table")).iter("tr")]
    services = {"".join(row[0].itertext()).split()[0] for row in rows[1:] if len(row) > 1}
    assert services == {line.split()[0] for line in wide.out.splitlines() if re.match(r"[a-z-]+/[a-z]", line)}
    assert not re.search(r"https?:|src=|@import|url\(", page.out)


def test_left_over_annotation_of_one_service_does_not_change_what_is_shown_of_others(
    zoneward: Commands, tmp_path: Path
) -> None:
    nodes = {"node-a": "a", "node-b": "b"}
    items = [
        *(a_node(name, zone=zone) for name, zone in nodes.items()),
        *pods_with_slices("cart", nodes),
        a_service(
            "cart", namespace="shop", selector={"app": "cart"}, annotations={names.TOPOLOGY_MODE_ANNOTATION: "Auto"}
        ),
    ]
    alone = zoneward("plan", "-q", "-f", write_list(items, tmp_path / "alone.json"), "shop/cart").out
    items.append(
        a_service("other", namespace="shop", selector={"app": "other"}, annotations={SELECTOR_ANNOTATION: "x"})
    )
    assert zoneward("plan", "-q", "-f", write_list(items, tmp_path / "both.json"), "shop/cart").out == alone
