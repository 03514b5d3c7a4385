"""Commands on a running cluster: without a snapshot they read the API server that a kubeconfig names."""

import json
from pathlib import Path

import pytest
import yaml
from tests.cli.live_cluster import Cluster, configuration
from tests.cli.running import Commands
from tests.client.a_server import AServer

from zoneward.client.transport import RetryPolicy


@pytest.mark.usefixtures("cluster")
def test_cluster_and_its_snapshot_give_the_same_output(zoneward: Commands) -> None:
    for command in (
        ("plan", "-o", "json"),
        ("plan", "--what-if", "local-shared", "-o", "wide"),
        ("compare", "--only", "none,Balanced", "-o", "json"),
        ("route", "--node", "worker-a2", "-o", "json"),
    ):
        live = zoneward(*command, "-A")
        assert live.status == 0, live.err
        assert live.out == zoneward(*command, "--sample").out


@pytest.mark.usefixtures("cluster")
def test_cluster_is_found_as_kubectl_finds_it(zoneward: Commands) -> None:
    """In the namespace of the context, where no other is asked for."""
    for arguments, read in (
        ((), ["shop"]),
        (("--context", "there"), ["payments"]),
        (("-n", "kube-system"), ["kube-system"]),
        (("-n", "kube-system", "-n", "payments", "-n", "payments"), ["kube-system", "payments"]),
        (("-A",), ["kube-system", "payments", "shop"]),
        (("payments/api",), ["payments"]),
        (("payments/api", "cart"), ["payments", "shop"]),
    ):
        decisions = zoneward.json("plan", *arguments)["decisions"]
        assert sorted({decision["namespace"] for decision in decisions}) == read, arguments


def test_commands_to_copy_name_the_cluster_as_the_options_do(zoneward: Commands, cluster: Cluster) -> None:
    """The current context may be of another cluster."""
    chosen = ("--kubeconfig", str(cluster.kubeconfig), "--context", "there", "--as", "me")
    start = f"kubectl --kubeconfig={cluster.kubeconfig} --context=there --as=me -n shop "
    advice = zoneward.json("advise", "-q", "-n", "shop", *chosen)
    advised = [command for action in advice["actions"] for command in action["commands"]]
    assert [command for command in advised if command.startswith(start)]
    assert not [command for command in advised if command.startswith("kubectl -n")]
    checked = zoneward("check", "-q", "-A", *chosen).out.splitlines()
    fixes = [line.strip() for line in checked if "fix: kubectl" in line]
    assert fixes
    assert all(fix.startswith(f"fix: {start.removesuffix('shop ')}") for fix in fixes)
    (family,) = zoneward.json("explain", "-q", "shop/checkout", *chosen)["families"]
    explained = [command for fix in family["fixes"] for command in fix["commands"]]
    assert explained
    assert all(command.startswith(start) for command in explained)
    assert zoneward.json("explain", "-q", "shop/checkout")["families"][0]["fixes"][0]["commands"][0].startswith(
        "kubectl -n shop "
    )


def test_cluster_without_pods_has_no_endpoints(zoneward: Commands, cluster: Cluster) -> None:
    """In a file that could mean that nobody asked for Pods, and endpoints would be taken from slices."""
    for namespace, name in list(cluster.server.objects["pods"]):
        cluster.server.delete("pods", name, namespace)
    result = zoneward("plan", "-o", "json", "cart")
    assert "no Pods" not in result.err
    assert [decision["endpoints"] for decision in json.loads(result.out)["decisions"]] == [0]


def test_missing_permission_is_shown_with_its_rule(zoneward: Commands, cluster: Cluster) -> None:
    cluster.server.refusals["pods"] = 403
    err = zoneward.refused("plan")
    assert "list" in err
    assert "pods" in err


def test_unreachable_cluster_is_one_line(zoneward: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RetryPolicy, "pause", lambda *_arguments, **_options: None)
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(yaml.safe_dump(configuration("http://127.0.0.1:1")))
    assert zoneward.refused("plan", "--kubeconfig", kubeconfig).startswith(
        "zoneward: http://127.0.0.1:1: context here: "
    )


def test_error_without_kubeconfig_lists_the_options(
    zoneward: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert zoneward.refused("plan") == (
        f"zoneward: there is no kubeconfig: looked for {tmp_path}/.kube/config;"
        " or use --kubeconfig FILE, files of a cluster with -f PATH, or --sample\n"
    )
    monkeypatch.setenv("KUBECONFIG", "/missing/a:/missing/b")
    assert "looked for /missing/a, /missing/b (from $KUBECONFIG); or use " in zoneward("plan").err


@pytest.mark.usefixtures("cluster")
def test_unknown_context_gets_suggestions(zoneward: Commands) -> None:
    assert zoneward.refused("plan", "--context", "her").endswith(
        "expected one of the contexts (here, there), got 'her' (did you mean 'here'?)\n"
    )


def test_unchecked_certificate_gets_a_warning(cluster: Cluster, zoneward: Commands) -> None:
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    document["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    assert "insecure-skip-tls-verify" not in zoneward("plan", "-A").err
    cluster.kubeconfig.write_text(yaml.safe_dump(document))
    result = zoneward("plan", "-A")
    assert result.status == 0
    assert "the server's certificate is not checked (insecure-skip-tls-verify)" in result.err


def test_unreadable_objects_are_skipped_with_a_note(cluster: Cluster, zoneward: Commands, tmp_path: Path) -> None:
    before = zoneward("plan", "-A", "-o", "json")
    cluster.server.put("services", "bad", "shop", spec={"ports": [{"port": "http"}]})
    after = zoneward("plan", "-A", "-o", "json")
    assert (after.status, after.out) == (0, before.out)
    note = "left out, as it cannot be read: Service shop/bad: spec.ports[0].port: expected an integer, got a string"
    assert note in after.err
    saved = zoneward("snapshot", "-A", "--file", tmp_path / "cluster.json")
    assert saved.status == 0
    assert note in saved.err


def test_proxies_are_guessed_without_permission_for_daemon_sets(zoneward: Commands, cluster: Cluster) -> None:
    seen = zoneward("plan", "cart")
    assert seen.err == ""
    cluster.server.refusals["daemonsets"] = 403
    blind = zoneward("plan", "cart")
    assert blind.out == seen.out
    assert blind.err == (
        "zoneward: DaemonSets cannot be read (no permission)\n"
        "zoneward: cannot detect the proxy on the nodes; assuming kube-proxy (override with --proxy)\n"
    )
    assert zoneward("plan", "cart", "--proxy", "zoneward").err == ""


def test_static_kube_proxy_is_read_for_any_namespace(zoneward: Commands, cluster: Cluster) -> None:
    containers = [{"name": "kube-proxy", "image": "kube-proxy:v1.30.4", "command": ["kube-proxy"]}]
    name, spec = "kube-proxy-worker-b1", {"nodeName": "worker-b1", "containers": containers}
    cluster.do(lambda server: server.put("pods", name, "kube-system", spec=spec, status={"phase": "Running"}))
    assert "Proxies: kube-proxy 1.37 on 21, kube-proxy 1.30 on 1" in zoneward("plan", "-n", "shop", "cart").out
    saved = json.loads(zoneward("snapshot").out)["items"]
    (pod,) = (object_ for object_ in saved if object_["metadata"]["name"] == name)
    assert pod["spec"]["containers"] == [{"image": "kube-proxy:v1.30.4", "command": ["kube-proxy"]}]


@pytest.mark.parametrize("namespace", ["kube-system", "cilium"])
def test_proxy_pods_are_read_in_any_namespace(zoneward: Commands, cluster: Cluster, namespace: str) -> None:
    container = {"name": "cilium-agent", "image": "quay.io/cilium/cilium:v1.18.2"}
    spec = {"hostNetwork": True, "containers": [container]}
    labels = {"k8s-app": "cilium"}

    def put(server: AServer) -> None:
        template = {"metadata": {"labels": labels}, "spec": spec}
        body = {"selector": {"matchLabels": labels}, "template": template}
        server.put("daemonsets", "cilium", namespace, spec=body, status={"numberReady": 1})
        meta = {"labels": labels, "ownerReferences": [{"kind": "DaemonSet", "name": "cilium", "controller": True}]}
        on_node = spec | {"nodeName": "worker-b1"}
        server.put("pods", "cilium-x7k2p", namespace, metadata=meta, spec=on_node, status={"phase": "Running"})

    cluster.do(put)
    result = zoneward("plan", "-n", "shop", "cart")
    assert "zoneward: two proxies on node worker-b1: " in result.err
    first = "cilium 1.18" if namespace == "kube-system" else "kube-proxy 1.37"
    assert f"assuming {first.split()[0]} (override with --proxy)" in result.err
    assert (f"{first} on 1" in result.out) == (namespace == "kube-system")
