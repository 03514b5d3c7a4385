"""A namespace that nobody knows is bad input; one without Services is not."""

import json
from pathlib import Path

import pytest
from tests.builders.new_user_clusters import write_list
from tests.cli.live_cluster import Cluster
from tests.cli.running import Commands, sample_objects

COMMANDS = (("plan",), ("compare",), ("route", "--node", "worker-a2"), ("snapshot",))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_namespace_without_any_object_in_files_is_bad_input(zoneward: Commands, command: tuple[str, ...]) -> None:
    assert zoneward.refused(*command, "--sample", "-n", "shop", "-n", "shpo") == (
        "zoneward: -n: expected one of the 3 namespaces in the snapshot (kube-system, payments, shop), got 'shpo'"
        " (did you mean 'shop'?)\n"
    )


def test_a_namespace_with_pods_alone_is_known_in_files(zoneward: Commands, tmp_path: Path) -> None:
    pod = next(object_ for object_ in sample_objects() if object_["kind"] == "Pod")
    pod = json.loads(json.dumps(pod))
    pod["metadata"]["namespace"] = "jobs"
    file = write_list([*sample_objects(), pod], tmp_path / "cluster.json")
    result = zoneward("plan", "-f", file, "-n", "jobs", "-o", "json")
    assert (result.status, json.loads(result.out)["decisions"]) == (0, [])
    assert "no Service to show" in result.err


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("crat", "'cart'"),
        ("shpo/cart", "'shop/cart'"),
        ("payments/cart", "'shop/cart'"),
        ("Cart", "'cart'"),
    ],
)
def test_an_unknown_service_is_bad_input_with_near_names(zoneward: Commands, name: str, near: str) -> None:
    err = zoneward.refused("plan", "--sample", name)
    assert err.startswith(f"zoneward: Service {name}: expected one of the 16 selected Services (")
    assert f"(did you mean {near}" in err


def test_a_service_of_another_namespace_is_offered(zoneward: Commands) -> None:
    assert zoneward.refused("plan", "--sample", "-n", "payments", "cart").endswith(" (did you mean 'shop/cart'?)\n")


def test_an_unknown_service_with_the_name_of_a_file_may_be_meant_as_one(
    zoneward: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "snapshots").mkdir()
    assert zoneward.refused("plan", "--sample", "snapshots").endswith("; to read the file of this name: -f snapshots\n")


@pytest.mark.parametrize("arguments", [("-n", "shpo"), ("shpo/cart",), ("-n", "shop", "-n", "shpo")], ids=" ".join)
@pytest.mark.parametrize("command", [("plan",), ("plan", "--watch", "-o", "json")], ids=" ".join)
@pytest.mark.usefixtures("cluster")
def test_a_namespace_that_the_server_does_not_know_is_bad_input(
    zoneward: Commands, command: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    assert (
        zoneward.refused(*command, *arguments)
        == "zoneward: -n: the cluster has no namespace 'shpo' (did you mean 'shop'?)\n"
    )


def test_a_namespace_without_objects_that_the_server_knows_is_empty(zoneward: Commands, cluster: Cluster) -> None:
    cluster.server.empty_namespaces = frozenset({"new"})
    result = zoneward("plan", "-n", "new", "-o", "json")
    assert (result.status, json.loads(result.out)["decisions"]) == (0, [])
    assert result.err == "zoneward: no Service to show; -A shows those of all namespaces\n"


def test_without_permission_to_get_namespaces_one_without_objects_is_bad_input(
    zoneward: Commands, cluster: Cluster
) -> None:
    cluster.server.refusals["namespaces"] = 403
    assert zoneward("plan", "-n", "shop").status == 0
    assert zoneward.refused("plan", "-n", "shpo") == (
        "zoneward: -n: there is nothing in namespace 'shpo', and without permission to get namespaces it is not known"
        " whether it exists\n"
    )


@pytest.mark.parametrize("name", ["", "..", "a/b", "Shop", "x" * 64, "a\n"], ids=repr)
@pytest.mark.usefixtures("cluster")
def test_what_cannot_be_a_namespace_is_never_asked_for(zoneward: Commands, cluster: Cluster, name: str) -> None:
    assert "expected the name of a namespace, got" in zoneward.refused("plan", "-n", name)
    assert cluster.server.asked == []


def test_several_namespaces_are_listed_one_by_one_and_nodes_once(zoneward: Commands, cluster: Cluster) -> None:
    assert zoneward("plan", "-n", "shop", "-n", "payments").status == 0
    paths = [path for path, _ in cluster.server.asked]
    assert paths.count("/api/v1/nodes") == 1
    assert {path for path in paths if path.endswith("/pods")} == {
        "/api/v1/namespaces/shop/pods",
        "/api/v1/namespaces/payments/pods",
        # Those of proxies.
        "/api/v1/namespaces/kube-system/pods",
    }
