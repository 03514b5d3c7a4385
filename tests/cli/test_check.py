"""`zoneward check` as a person or a pipeline runs it."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.builders.new_user_clusters import write_list
from tests.builders.objects import ZONE, a_node, a_service, a_volume_with_claim, pods_with_slices
from tests.cli.live_cluster import Cluster
from tests.cli.running import SAMPLE, Commands

from zoneward.kube import names
from zoneward.kube.adoption_marks import SELECTOR_ANNOTATION

APP: Final = {"app": "cart"}


def a_workload(kind: str = "Deployment", **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": APP}, "spec": {"containers": [{"name": "main"}], **spec}}
    meta = {"name": "cart", "namespace": "shop"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": {"replicas": 3, "template": template}}


def cluster_objects() -> list[dict[str, Any]]:
    """Three zones with a pod each."""
    zones = {"n-a": "a", "n-b": "b", "n-c": "c"}
    return [
        *(a_node(node, zone) for node, zone in zones.items()),
        a_service("cart", namespace="shop", selector=APP, distribution="PreferSameZone", clusterIP="10.96.0.1"),
        *pods_with_slices("cart", zones, hinted=True),
    ]


def objects() -> list[dict[str, Any]]:
    """And a Deployment whose only claim is bound in zone a, with an autoscaler."""
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    return [
        *cluster_objects(),
        a_workload(volumes=[claim], nodeSelector={ZONE: "b"}),
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"namespace": "shop", "name": "cart"},
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "cart"}, "maxReplicas": 9},
        },
        *a_volume_with_claim("data", "a"),
    ]


@pytest.fixture(params=["json", "yaml"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"cluster.{request.param}"
    document = {"apiVersion": "v1", "kind": "List", "items": objects()}
    path.write_text(json.dumps(document) if request.param == "json" else yaml.safe_dump(document))
    return path


def codes_of(out: str) -> list[str]:
    return [finding["code"] for finding in json.loads(out)["findings"]]


def test_workloads_autoscalers_and_volumes_are_read_from_a_file(zoneward: Commands, file: Path) -> None:
    result = zoneward("check", "-f", file, "-o", "json")
    document = json.loads(result.out)
    assert (result.status, document["notChecked"]) == (0, [])
    assert {"ZW501", "ZW502", "ZW503"} <= set(codes_of(result.out))
    messages = {finding["code"]: finding["message"] for finding in document["findings"]}
    assert (
        messages["ZW503"] == "all of its pods use claim data, and volume pv-data can not be mounted in the zones b, c"
    )


@pytest.mark.parametrize("anonymize", [(), ("--anonymize",)], ids=["as it is", "anonymized"])
def test_snapshot_has_the_same_findings(
    zoneward: Commands, file: Path, tmp_path: Path, anonymize: tuple[str, ...]
) -> None:
    before = zoneward("check", "-q", "-f", file, "-o", "json").out
    saved = tmp_path / f"saved{file.suffix}.gz"
    assert zoneward("snapshot", "-q", "-f", file, "--file", saved, *anonymize).status == 0
    assert codes_of(zoneward("check", "-q", "-f", saved, "-o", "json").out) == codes_of(before)


def test_unreadable_workload_is_skipped(zoneward: Commands, tmp_path: Path) -> None:
    broken = a_workload() | {"spec": {"replicas": "many"}}
    path = write_list([*cluster_objects(), broken], tmp_path / "cluster.json")
    result = zoneward("check", "-v", "-f", path)
    assert result.status == 0
    assert "apps/v1/Deployment" in result.err
    assert "ZW501, ZW502, ZW503, ZW504: there are no Deployments and no StatefulSets" in " ".join(result.out.split())


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ((), 0),
        (("--fail-on", "error"), 1),
        (("--fail-on", "warning"), 1),
        (("--fail-on", "error", "--ignore", "ZW301"), 0),
        (("--fail-on", "error", "--ignore", "ZW301:shop/wishlist"), 0),
        (("--fail-on", "error", "--ignore", "ZW301:shop/cart"), 1),
        (("--fail-on", "warning", "--ignore", "ZW301"), 1),
    ],
    ids=lambda name: " ".join(name) if isinstance(name, tuple) else "",
)
def test_fail_on_sets_the_exit_status(zoneward: Commands, arguments: tuple[str, ...], status: int) -> None:
    result = zoneward("check", "-q", "-f", SAMPLE, *arguments)
    assert (result.status, result.err) == (status, "")


def test_what_if_adds_findings(zoneward: Commands) -> None:
    before = codes_of(zoneward("check", "-q", "--sample", "-o", "json").out)
    after = codes_of(zoneward("check", "-q", "--sample", "-o", "json", "--what-if", "PreferSameNode").out)
    assert after.count("ZW402") > before.count("ZW402")
    assert after.count("ZW301") == before.count("ZW301") == 1


def test_cluster_without_workload_kinds_is_checked(zoneward: Commands, cluster: Cluster) -> None:
    live = zoneward.json("check", "-q", "-A")
    assert live["notChecked"] == [
        {
            "codes": ["ZW306", "ZW603", "ZW604", "ZW605", "ZW606", "ZW608"],
            "reason": "there are no EndpointSlices of a controller in the snapshot",
        }
    ]
    sample = codes_of(zoneward("check", "-q", "--sample", "-o", "json").out)
    assert [finding["code"] for finding in live["findings"]] == sample
    assert cluster


def test_missing_permission_disables_the_checks_that_need_it(zoneward: Commands, cluster: Cluster) -> None:
    cluster.do(lambda server: server.refusals.update(deployments=403, horizontalpodautoscalers=403))
    live = zoneward.json("check", "-q", "-A")
    assert [missing["reason"] for missing in live["notChecked"][1:]] == ["Deployments cannot be read (no permission)"]
    assert live["notChecked"][1]["codes"] == ["ZW501", "ZW502", "ZW503", "ZW504"]


@pytest.mark.parametrize("anonymize", [(), ("--anonymize",)], ids=["as it is", "anonymized"])
@pytest.mark.parametrize(("renewed", "is_orphaned"), [("11:59:50", False), ("11:50:00", True)])
def test_orphaned_services_are_found_by_leases(
    zoneward: Commands, tmp_path: Path, renewed: str, is_orphaned: bool, anonymize: tuple[str, ...]
) -> None:
    def a_lease(name: str, time: str) -> dict[str, Any]:
        spec = {"holderIdentity": name, "leaseDurationSeconds": 15, "renewTime": f"2026-01-01T{time}.000000Z"}
        metadata = {"name": name, "namespace": "kube-system"}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}

    items = objects()
    for item in items:
        if item["kind"] == "Service":
            item["metadata"]["annotations"] = {SELECTOR_ANNOTATION: json.dumps(item["spec"].pop("selector"))}
    path, saved = write_list(items, tmp_path / "cluster.json"), tmp_path / "saved.json"
    unknown = zoneward.json("check", "-q", "-f", path)["notChecked"]
    assert unknown == [{"codes": ["ZW607"], "reason": "there are no Leases in the snapshot"}]
    leases = [a_lease("zoneward-controller", renewed), a_lease("node-a", "12:00:00")]
    write_list(items + leases, path)
    assert zoneward("snapshot", "-q", "-f", path, "--file", saved, *anonymize).status == 0
    for file in (path, saved):
        assert ("ZW607" in codes_of(zoneward("check", "-q", "-f", file, "-o", "json").out)) is is_orphaned
    leases[0]["metadata"]["annotations"] = {names.MODE_ANNOTATION: names.OVERLAY_MODE}
    write_list(items + leases, path)
    assert zoneward("snapshot", "-q", "-f", path, "--file", saved, *anonymize).status == 0
    for file in (path, saved):
        assert "ZW607" in codes_of(zoneward("check", "-q", "-f", file, "-o", "json").out), "an overlay updates none"
