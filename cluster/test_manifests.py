"""Manifests and chart become ready as shipped on real kubelets: probes, permissions, Pod Security, image."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.box import WAIT
from cluster.images import AGNHOST
from cluster.lifecycle import Cluster
from cluster.parts import BUILT_IN_CONTROLLER, DEPLOY, Mode
from cluster.sites import CONTROL_PLANE_IPS
from e2e.processes import wait_until
from release.helm import CHART, HELM

CONTROLLER = ("deployment/zoneward-controller", "zoneward-system")
PROXY = ("daemonset/zoneward-proxy", "zoneward-proxy")
METER = ("daemonset/zoneward-meter", "zoneward-meter")
ASKED = "manifests"
"""The namespace of a Service with two Pods, and of a Pod that asks it."""


@pytest.fixture(scope="module", autouse=True)
def _served(cluster: Cluster) -> Iterator[None]:
    cluster.kubectl("apply", "--kustomize", DEPLOY / "namespaces")
    cluster.kubectl("create", "namespace", ASKED)
    run = ("--namespace", ASKED)
    cluster.kubectl(
        "create", "deployment", "web", f"--image={AGNHOST}", "--replicas=2", *run, "--", "/agnhost", "netexec"
    )
    cluster.kubectl("expose", "deployment", "web", "--port=80", "--target-port=8080", *run)
    cluster.kubectl("run", "client", f"--image={AGNHOST}", *run)
    cluster.kubectl("rollout", "status", "deployment/web", WAIT, *run)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/client", WAIT, *run)
    yield
    for folder in ("meter/base", "proxy/instead-of-kube-proxy", "take-over"):
        cluster.kubectl("delete", "--ignore-not-found", "--kustomize", DEPLOY / folder)
    cluster.parts.start(Mode.BUILT_IN)
    cluster.kubectl("delete", "namespace", ASKED)


def _becomes_ready(cluster: Cluster, folder: str, name: str, namespace: str) -> None:
    cluster.kubectl("apply", "--kustomize", DEPLOY / folder)
    _is_ready(cluster, name, namespace)


def _is_ready(cluster: Cluster, name: str, namespace: str) -> None:
    """And no container was ever started again."""
    cluster.kubectl("rollout", "status", name, f"--namespace={namespace}", WAIT)
    restarts = "--output=jsonpath={.items[*].status.containerStatuses[*].restartCount}"
    label = f"--selector=app.kubernetes.io/name={name.partition('/')[2]}"
    printed = cluster.kubectl("get", "pods", f"--namespace={namespace}", label, restarts).split()
    assert printed
    assert set(printed) == {"0"}, cluster.kubectl("describe", "pods", f"--namespace={namespace}")


def _ask(cluster: Cluster, name: str) -> str:
    """Which Pod answers, by the name of a Service: through DNS, and through the rules of the client's node."""
    command = ("curl", "--silent", "--fail", "--retry", "10", "--retry-all-errors", "--max-time", "5")
    return cluster.kubectl("exec", "client", f"--namespace={ASKED}", "--", *command, f"http://{name}.{ASKED}/hostname")


def _asked_of_zonewards_proxy(cluster: Cluster) -> str:
    """Which Pod answers where kube-proxy leaves the Service to another proxy."""
    cluster.kubectl("label", "service", "web", "service.kubernetes.io/service-proxy-name=zoneward", "-n", ASKED)
    printed = _ask(cluster, "web")
    cluster.kubectl("label", "service", "web", "service.kubernetes.io/service-proxy-name-", "-n", ASKED)
    return printed


def _slices_of_web(cluster: Cluster) -> str:
    label = "--selector=kubernetes.io/service-name=web"
    return cluster.kubectl("get", "endpointslices", label, "--output=yaml", "-n", ASKED)


def test_chart_installs_all_programs_and_removes_them(cluster: Cluster, tmp_path: Path) -> None:
    access = (f"--kubeconfig={cluster.plane.kubeconfig()}", f"--repository-cache={tmp_path}")
    helm = HELM.find(environment=os.environ)["helm"]
    enabled = ("--set=proxy.enabled=true", "--set=meter.enabled=true")
    cluster.box.run(helm, "install", "zoneward", CHART, *enabled, "--wait", WAIT, *access)
    for name, namespace in (CONTROLLER, PROXY, METER):
        _is_ready(cluster, name, namespace)
    assert _asked_of_zonewards_proxy(cluster).startswith("web-")
    asking = "service.kubernetes.io/topology-mode"
    cluster.kubectl("annotate", "service", "web", f"{asking}=zoneward.dev/Balanced", "-n", ASKED)
    wait_until(lambda: "forZones" in _slices_of_web(cluster), "hints of the overlay")
    cluster.box.run(helm, "uninstall", "zoneward", "--wait", *access)
    for name, namespace in (CONTROLLER, PROXY, METER):
        assert cluster.kubectl("get", "--ignore-not-found", name, f"--namespace={namespace}") == ""
    cluster.kubectl("annotate", "service", "web", f"{asking}-", "-n", ASKED)
    assert "forZones" not in _slices_of_web(cluster)
    left = ("configmaps,jobs", "--all-namespaces"), ("mutatingadmissionpolicies,validatingadmissionpolicies",)
    assert not any("zoneward" in cluster.kubectl("get", *what, "--output=name") for what in left)


def test_controller_becomes_ready_beside_the_built_in_one(cluster: Cluster) -> None:
    namespace = cluster.kubectl("get", "namespace", CONTROLLER[1], "--output=yaml")
    assert "pod-security.kubernetes.io/enforce: restricted" in namespace
    _becomes_ready(cluster, "only-marked", *CONTROLLER)


def test_controller_takes_over_and_writes_slices_of_new_services(cluster: Cluster) -> None:
    cluster.plane.start_controllers(without=[BUILT_IN_CONTROLLER])
    _becomes_ready(cluster, "take-over", *CONTROLLER)
    name = "taken-over"
    cluster.kubectl("expose", "deployment", "web", f"--name={name}", "--port=80", "--target-port=8080", "-n", ASKED)
    assert _ask(cluster, name).startswith("web-")
    label = f"--selector=kubernetes.io/service-name={name},endpointslice.kubernetes.io/managed-by"
    printed = cluster.kubectl("get", "endpointslices", "-n", ASKED, label, "--output=jsonpath={..metadata.labels}")
    assert "zoneward" in printed


def test_proxy_beside_kube_proxy_serves_labelled_services(cluster: Cluster) -> None:
    _becomes_ready(cluster, "proxy/beside-kube-proxy", *PROXY)
    assert _asked_of_zonewards_proxy(cluster).startswith("web-")


def test_proxy_instead_of_kube_proxy_serves_all_services(cluster: Cluster) -> None:
    address = (
        f"--from-literal=KUBERNETES_SERVICE_HOST={CONTROL_PLANE_IPS[0]}",
        "--from-literal=KUBERNETES_SERVICE_PORT=6443",
    )
    cluster.kubectl("create", "configmap", "zoneward-proxy-api-server", f"--namespace={PROXY[1]}", *address)
    cluster.parts.stop_kube_proxies()
    _becomes_ready(cluster, "proxy/instead-of-kube-proxy", *PROXY)
    cluster.parts.remove_kube_proxy_rules()
    assert _ask(cluster, "web").startswith("web-")


@pytest.mark.parametrize("folder", ["meter/base", "meter/with-accounting"])
def test_meter_becomes_ready(cluster: Cluster, folder: str) -> None:
    _becomes_ready(cluster, folder, *METER)


def test_server_accepts_the_network_policies(cluster: Cluster) -> None:
    """This network does not enforce them."""
    policies = [DEPLOY / folder / "network-policy.yaml" for folder in ("base", "proxy/base", "meter/base")]
    strict = ("--dry-run=server", "--validate=strict")
    printed = cluster.kubectl("apply", *strict, *(f"--filename={file}" for file in policies))
    assert printed.count("networkpolicy") == 3
