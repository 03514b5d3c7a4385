"""The chart of ``deploy/helm`` renders the objects of the kustomizations, rejects invalid values, and installs."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e.control_plane import ControlPlane
from e2e.programs import find_programs
from release.helm import CHART, HELM
from tests.deploy.manifests import DEPLOY, METER_MODES, MODES, NAMESPACES, PROXY_MODES, Object
from tests.deploy.queries import RULES, dashboards

import zoneward

OF_HELM = {
    "app.kubernetes.io/instance": "edge",
    "app.kubernetes.io/managed-by": "Helm",
    "app.kubernetes.io/version": zoneward.__version__,
    "helm.sh/chart": f"zoneward-{zoneward.__version__}",
}
"""Labels that the chart adds to every object, but not to Pods and selectors."""
NONE = "controller.enabled=false"
VALUES = {
    **{mode: (f"controller.mode={mode}",) for mode in MODES},
    **{mode: (NONE, "proxy.enabled=true", f"proxy.mode={mode.partition('/')[2]}") for mode in PROXY_MODES},
    METER_MODES[0]: (NONE, "meter.enabled=true"),
    METER_MODES[1]: (NONE, "meter.enabled=true", "meter.accounting=true"),
}
"""By the kustomization that is meant."""
ALL = ("proxy.enabled=true", "meter.enabled=true")
PROGRAMS = ("controller", "proxy", "meter")


def helm(*arguments: str, fails: bool = False) -> str:
    """What it prints: its messages, if it has to fail."""
    file = HELM.find(environment=os.environ)["helm"]
    done = subprocess.run([file, *arguments], capture_output=True, text=True)
    assert bool(done.returncode) == fails, done.stderr
    return done.stderr if fails else done.stdout


def rendered(*values: str) -> list[Object]:
    """Without the hooks, which `kubectl apply` would not run."""
    objects = _objects(helm("template", "edge", str(CHART), *_set(values)))
    return [object_ for object_ in objects if "helm.sh/hook" not in (object_["metadata"].get("annotations") or {})]


def kustomized(folder: str) -> list[Object]:
    kubectl = find_programs(environment=os.environ)["kubectl"]
    done = subprocess.run([kubectl, "kustomize", DEPLOY / folder], capture_output=True, text=True, check=True)
    return _objects(done.stdout)


def _set(values: Iterable[str]) -> list[str]:
    return [f"--set={value}" for value in values]


def _objects(text: str) -> list[Object]:
    return [document for document in yaml.safe_load_all(text) if document]


def compared(objects: Iterable[Object], *, of_helm: bool) -> dict[tuple[str, str, str], Object]:
    """By kind, namespace and name. Without what Helm needs, all of which has to be there."""
    by_key = {}
    for object_ in objects:
        metadata = object_["metadata"]
        if object_["kind"] == "ConfigMap":
            # What the program reads of it, not how it is written.
            object_["data"] = {name: yaml.safe_load(text) for name, text in object_["data"].items()}
        if of_helm:
            labels = metadata["labels"]
            assert {name: labels.pop(name) for name in OF_HELM} == OF_HELM
            if object_["kind"] == "Namespace":
                assert metadata.pop("annotations") == {"helm.sh/resource-policy": "keep"}
            if object_["kind"] in ("Deployment", "DaemonSet"):
                assert object_["spec"]["template"]["metadata"]["annotations"].pop("checksum/configuration")
        identity = object_["kind"], metadata.get("namespace", ""), metadata["name"]
        assert identity not in by_key
        by_key[identity] = object_
    return by_key


def pods(objects: Iterable[Object]) -> list[Object]:
    return [object_["spec"]["template"] for object_ in objects if object_["kind"] in ("Deployment", "DaemonSet")]


@pytest.mark.parametrize("folder", VALUES)
def test_chart_equals_the_kustomization(folder: str) -> None:
    assert compared(rendered(*VALUES[folder]), of_helm=True) == compared(kustomized(folder), of_helm=False)


def test_chart_of_all_programs_equals_all_kustomizations() -> None:
    folders = (MODES[0], PROXY_MODES[0], METER_MODES[0], NAMESPACES)
    expected = [object_ for folder in folders for object_ in kustomized(folder)]
    made = rendered(*ALL, "createNamespaces=true")
    assert compared(made, of_helm=True) == compared(expected, of_helm=False)
    assert rendered(NONE, "createNamespaces=true") == []


def test_overlay_is_released_before_it_is_uninstalled() -> None:
    hooks = [
        object_
        for object_ in _objects(helm("template", "edge", str(CHART)))
        if "helm.sh/hook" in (object_["metadata"].get("annotations") or {})
    ]
    assert [object_["kind"] for object_ in hooks] == ["Role", "RoleBinding", "Job"]
    assert {object_["metadata"]["annotations"]["helm.sh/hook"] for object_ in hooks} == {"pre-delete"}
    (container,) = hooks[-1]["spec"]["template"]["spec"]["containers"]
    assert container["args"][:3] == ["release", "--overlay", "--scale-down=zoneward-system/zoneward-controller"]
    placed = _set(("controller.affinity.nodeAffinity.x=y", "controller.podAnnotations.owner=edge"))
    made = _objects(helm("template", "edge", str(CHART), "--set=controller.podLabels.team=edge", *placed))
    (controller,) = pods(made)
    (job,) = [object_["spec"]["template"] for object_ in made if object_["kind"] == "Job"]
    assert job["metadata"]["labels"]["team"] == job["metadata"]["annotations"]["owner"] == "edge"
    for field in ("affinity", "priorityClassName", "tolerations", "securityContext"):
        assert job["spec"][field] == controller["spec"][field]
    other = helm("template", "edge", str(CHART), "--set=controller.mode=only-marked")
    assert "helm.sh/hook" not in other


def test_lint_passes() -> None:
    for values in ((), *VALUES.values(), (*ALL, "createNamespaces=true")):
        said = helm("lint", "--strict", str(CHART), *_set(values))
        assert "0 chart(s) failed" in said
        assert "[WARNING]" not in said


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("controller.mode=both", "'/controller/mode': value must be one of 'overlay', 'only-marked', 'take-over'"),
        ("proxy.mode=beside", "'/proxy/mode': value must be one of 'beside-kube-proxy', 'instead-of-kube-proxy'"),
        ("controler.enabled=true", "additional properties 'controler' not allowed"),
        ("proxy.cidrs={10.0.0.0/8}", "'/proxy': additional properties 'cidrs' not allowed"),
        ("controller.replicas=two", "'/controller/replicas': got string, want integer"),
        ("controller.replicas=-1", "'/controller/replicas': minimum: got -1, want 0"),
        ("meter.enabled=maybe", "'/meter/enabled': got string, want boolean"),
        ("image.digest=sha256:abc", "'/image/digest': 'sha256:abc' does not match pattern"),
        ("meter.namespace=Meter_1", "'/meter/namespace': 'Meter_1' does not match pattern"),
        ("controller.extraArgs={predictions}", "'/controller/extraArgs/0': 'predictions' does not match pattern"),
        ("proxy.apiServer.port=0", "'/proxy/apiServer/port': minimum: got 0, want 1"),
        ("meter.listenAddress=all", "'/meter/listenAddress': 'all' does not match pattern"),
        ("monitoring.podMonitors.interval=often", "'/monitoring/podMonitors/interval': 'often' does not match pattern"),
        ("meter.configuration.kind=Other", "'/meter/configuration/kind': value must be 'ZonewardConfiguration'"),
        ("image.pullSecrets[0].name=Registry", "'/image/pullSecrets/0/name': 'Registry' does not match pattern"),
        ("controller.namespace=null", "'/controller': missing property 'namespace'"),
        ("proxy.listenAddress=null", "'/proxy': missing property 'listenAddress'"),
        ("meter.networkPolicy=null", "'/meter': missing property 'networkPolicy'"),
        ("proxy.apiServer.port=null", "'/proxy/apiServer': missing property 'port'"),
    ],
)
def test_invalid_values_are_refused_with_path_and_expectation(value: str, expected: str) -> None:
    assert expected in helm("template", "edge", str(CHART), f"--set={value}", fails=True)


def test_values_set_the_image_everywhere() -> None:
    digest, secret = f"sha256:{'0' * 64}", [{"name": "registry.example"}]
    image = ("image.repository=registry.example/zoneward", f"image.digest={digest}", "image.pullPolicy=Always")
    objects = rendered(*ALL, "meter.accounting=true", *image, r"image.pullSecrets[0].name=registry\.example")
    containers = [
        spec for pod in pods(objects) for kind in ("containers", "initContainers") for spec in pod["spec"].get(kind, ())
    ]
    assert len(containers) == 4
    for container in containers:
        assert (container["image"], container["imagePullPolicy"]) == (f"registry.example/zoneward@{digest}", "Always")
    assert [pod["spec"]["imagePullSecrets"] for pod in pods(objects)] == [secret] * 3
    (pod,) = pods(rendered("image.tag=edge"))
    assert pod["spec"]["containers"][0]["image"] == "zoneward:edge"


def test_values_that_are_null_are_like_empty_ones() -> None:
    maps = ("configuration", "podLabels", "podAnnotations", "affinity", "serviceAccountAnnotations", "nodeSelector")
    empty = _set(f"{program}.{name}=null" for program in PROGRAMS for name in maps)
    made = _objects(helm("template", "edge", str(CHART), *_set(ALL), *empty))
    assert {pod["spec"].get("nodeSelector") for pod in pods(made)} == {None}
    written = {key: object_ for key, object_ in compared(made, of_helm=True).items() if key[0] == "ConfigMap"}
    whole = {"apiVersion": "zoneward.dev/v1alpha1", "kind": "ZonewardConfiguration"}
    assert [object_["data"]["configuration.yaml"] for object_ in written.values()] == [whole] * len(PROGRAMS)


def test_namespace_of_the_controller_is_not_that_of_pods_on_the_hosts_network() -> None:
    values = ("createNamespaces=true", *(f"{program}.namespace=one" for program in PROGRAMS))
    message = "namespace: expected another one than controller.namespace, got one"
    for program in ("proxy", "meter"):
        refused = helm("template", "edge", str(CHART), *_set(values), f"--set={program}.enabled=true", fails=True)
        assert f"{program}.{message}" in refused
    shared = rendered(*ALL, *values, "controller.namespace=two")
    made = [object_["metadata"] for object_ in shared if object_["kind"] == "Namespace"]
    assert {metadata["name"]: metadata["labels"]["pod-security.kubernetes.io/enforce"] for metadata in made} == {
        "two": "restricted",
        "one": "privileged",
    }
    assert len(made) == 2


def test_values_that_look_like_other_yaml_types_stay_strings() -> None:
    values = {
        "controller.namespace": "1000",
        "proxy.namespace": "1e3",
        "meter.namespace": "true",
        "controller.networkPolicy.monitoringNamespace": "0x10",
        "controller.priorityClassName": "12",
        "proxy.priorityClassName": "yes",
        "meter.priorityClassName": "a: b",
        "image.repository": "registry.example/x # y",
        "image.tag": "1.0",
    }
    text = [f"--set-string={name}={value}" for name, value in values.items()]
    labels = {"1": "2", "null": "3", "off": "4"}
    text += [f"--set-string=commonLabels.{name}={value}" for name, value in labels.items()]
    made = _objects(helm("template", "123", str(CHART), *text, *_set((*ALL, "createNamespaces=true"))))
    assert all(labels.items() <= object_["metadata"]["labels"].items() for object_ in made)
    assert {object_["metadata"].get("namespace") for object_ in made} == {"1000", "1e3", "true", None}
    assert {object_["metadata"]["labels"]["app.kubernetes.io/instance"] for object_ in made} == {"123"}
    assert {object_["metadata"]["name"] for object_ in made if object_["kind"] == "Namespace"} == {
        "1000",
        "1e3",
        "true",
    }
    assert {pod["spec"]["priorityClassName"] for pod in pods(made)} == {"12", "yes", "a: b"}
    images = {container["image"] for pod in pods(made) for container in pod["spec"]["containers"]}
    assert images == {"registry.example/x # y:1.0"}
    assert "0x10" in str([object_ for object_ in made if object_["kind"] == "NetworkPolicy"])


def test_values_set_the_namespaces_everywhere() -> None:
    renamed = ("controller.namespace=one", "proxy.namespace=two", "meter.namespace=three")
    text = helm("template", "edge", str(CHART), *_set((*ALL, "createNamespaces=true", *renamed)))
    for gone in ("zoneward-system", "namespace: zoneward-", "serviceaccount:zoneward-"):
        assert gone not in text
    assert "--lease-namespace=one" in text
    assert "'system:serviceaccount:two:zoneward-proxy'" in text


def test_pods_are_replaced_when_their_configuration_changes_and_extra_args_come_last() -> None:
    (first,), (same,), (other,) = (
        pods(rendered(*values))
        for values in ((), ("controller.replicas=3",), ("controller.configuration.defaultApproach=Balanced",))
    )
    assert first == same
    assert first["metadata"]["annotations"] != other["metadata"]["annotations"]
    assert first["spec"] == other["spec"]
    # A whole file may be given.
    whole = ("apiVersion=zoneward.dev/v1alpha1", "kind=ZonewardConfiguration")
    assert rendered(*(f"controller.configuration.{setting}" for setting in whole)) == rendered()
    (more,) = pods(rendered("controller.extraArgs={--predictions}"))
    (container,) = more["spec"]["containers"]
    assert container["args"] == [*first["spec"]["containers"][0]["args"], "--predictions"]


def test_config_map_with_the_api_servers_address_is_optional() -> None:
    instead = VALUES[PROXY_MODES[1]]
    given = compared(rendered(*instead, "proxy.apiServer.host=192.0.2.10"), of_helm=True)
    plain = compared(rendered(*instead), of_helm=True)
    (added,) = given.keys() - plain.keys()
    assert added == ("ConfigMap", "zoneward-proxy", "zoneward-proxy-api-server")
    assert given[added]["data"] == {"KUBERNETES_SERVICE_HOST": "192.0.2.10", "KUBERNETES_SERVICE_PORT": 6443}


def test_values_add_labels_annotations_and_affinity() -> None:
    added = {"podAnnotations.owner": "edge", "podLabels.team": "edge", "podLabels.app\\.kubernetes\\.io/name": "other"}
    text = [f"--set-string={program}.{name}={value}" for program in PROGRAMS for name, value in added.items()]
    text += [f"--set-string={program}.serviceAccountAnnotations.role=reader" for program in PROGRAMS]
    text += [f"--set-string={program}.podAnnotations.checksum/configuration=none" for program in PROGRAMS]
    text += [f"--set={program}.affinity.nodeAffinity.x=y" for program in PROGRAMS]
    made = _objects(helm("template", "edge", str(CHART), *text, *_set((*ALL, "commonLabels.cost=shared"))))
    plain = {pod["spec"]["serviceAccountName"]: pod for pod in pods(rendered(*ALL))}
    assert len(plain) == len(PROGRAMS)
    for pod in pods(made):
        before = plain[pod["spec"]["serviceAccountName"]]
        assert pod["metadata"]["labels"] == {**before["metadata"]["labels"], "team": "edge"}
        assert pod["metadata"]["annotations"] == {**before["metadata"]["annotations"], "owner": "edge"}
        assert pod["spec"] == {**before["spec"], "affinity": {"nodeAffinity": {"x": "y"}}}
    accounts = [object_["metadata"]["annotations"] for object_ in made if object_["kind"] == "ServiceAccount"]
    assert [account["role"] for account in accounts if "role" in account] == ["reader"] * len(PROGRAMS)
    assert {object_["metadata"]["labels"].get("cost") for object_ in made} == {"shared"}


class StrictLoader(yaml.SafeLoader):
    """Refuses duplicate keys, as kustomize does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key) for key, _ in node.value]
        assert len(set(keys)) == len(keys), node.start_mark
        return super().construct_mapping(node, deep)


def test_labels_of_an_object_win_over_common_ones_and_those_of_the_chart_over_all() -> None:
    parts = ("podMonitors", "prometheusRules", "dashboards")
    labels = ("team=shared", r"app\.kubernetes\.io/part-of=shop", r"app\.kubernetes\.io/name=shop")
    given = [f"commonLabels.{label}" for label in labels]
    given += [f"monitoring.{part}.{label}" for part in parts for label in ("enabled=true", "labels.team=watch")]
    given += [rf"monitoring.{part}.labels.helm\.sh/chart=other" for part in parts]
    text = helm("template", "edge", str(CHART), *_set(given))
    monitoring = 0
    for made in filter(None, yaml.load_all(text, StrictLoader)):
        on_object = made["metadata"]["labels"]
        assert on_object["app.kubernetes.io/part-of"] == "shop"
        assert on_object["app.kubernetes.io/name"].startswith("zoneward-")
        assert on_object["helm.sh/chart"] == OF_HELM["helm.sh/chart"]
        if on_object["team"] == "watch":
            monitoring += 1
    assert monitoring == 1 + len(RULES) + len(dashboards())


def test_monitoring_has_all_rules_dashboards_and_pod_monitors() -> None:
    """The operator's kinds are those of monitoring.coreos.com/v1; their bodies are the files that other tests run."""
    parts = ("podMonitors", "prometheusRules", "dashboards")
    enabled = (*(f"monitoring.{part}.enabled=true" for part in parts), "monitoring.namespace=watch")
    reachable = ("proxy.listenAddress=", "meter.listenAddress=", "monitoring.podMonitors.labels.release=prometheus")
    made = compared(rendered(*ALL, *enabled, *reachable), of_helm=True)
    monitors = {key: object_ for key, object_ in made.items() if key[0] == "PodMonitor"}
    assert {name for _, _, name in monitors} == {f"zoneward-{program}" for program in PROGRAMS}
    for (_, namespace, name), monitor in monitors.items():
        assert monitor["metadata"]["labels"]["release"] == "prometheus"
        selector = monitor["spec"]["selector"]["matchLabels"]
        (pod,) = [
            object_["spec"]["template"]
            for key, object_ in made.items()
            if key[0] in ("Deployment", "DaemonSet") and key[1:] == (namespace, name)
        ]
        assert selector.items() <= pod["metadata"]["labels"].items()
        (container,) = pod["spec"]["containers"]
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint["port"] in {port["name"] for port in container["ports"]}
        assert not [argument for argument in container["args"] if argument.startswith("--listen=127.")]
    groups = [
        group
        for key, object_ in made.items()
        if key[:2] == ("PrometheusRule", "watch")
        for group in object_["spec"]["groups"]
    ]
    assert groups == [group for path in reversed(RULES) for group in yaml.safe_load(path.read_text())["groups"]]
    boards = [object_ for key, object_ in made.items() if key[2].startswith("zoneward-dashboard-")]
    assert {object_["metadata"]["labels"]["grafana_dashboard"] for object_ in boards} == {"1"}
    # `compared` reads JSON as the YAML that it is.
    assert {f"zoneward-{name}.json": board for name, board in dashboards().items()} == {
        name: board for object_ in boards for name, board in object_["data"].items()
    }


@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]"])
def test_pod_monitor_of_an_unreachable_address_is_refused(address: str) -> None:
    values = _set((*ALL, "monitoring.podMonitors.enabled=true", f"proxy.listenAddress={address}"))
    assert f"proxy.listenAddress: Prometheus cannot reach {address}" in helm(
        "template", "edge", str(CHART), *values, fails=True
    )


@pytest.mark.parametrize(
    ("address", "host"),
    [("", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("127.0.0.2", "127.0.0.2"), ("[::]", "::1"), ("[::1]", "::1")],
)
def test_probes_reach_the_address_that_programs_listen_on(address: str, host: str) -> None:
    """A socket of [::] takes no IPv4."""
    made = rendered(NONE, *ALL, *(f"{program}.listenAddress={address}" for program in ("proxy", "meter")))
    for pod in pods(made):
        (container,) = pod["spec"]["containers"]
        probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
        of_status = [probe["host"] for probe in probes if probe["port"] == "status"]
        assert of_status
        assert set(of_status) == {host}


def test_published_chart_names_the_published_image(tmp_path: Path) -> None:
    """By its digest, as the workflow of a release packages it."""
    shutil.copytree(CHART, tmp_path / "deploy" / "helm")
    workflow = yaml.safe_load((DEPLOY.parent / ".github" / "workflows" / "release.yml").read_text())
    (script,) = [step["run"] for step in workflow["jobs"]["chart"]["steps"] if step.get("name") == "Package the chart"]
    directory = Path(HELM.find(environment=os.environ)["helm"]).parent
    digest = f"sha256:{'1' * 64}"
    environment = {"PATH": f"{directory}:{os.environ['PATH']}", "REGISTRY": "registry.example/team", "DIGEST": digest}
    subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=tmp_path, env=environment, check=True)
    package = tmp_path / "dist" / f"zoneward-{zoneward.__version__}.tgz"
    (pod,) = pods(_objects(helm("template", "edge", str(package))))
    assert pod["spec"]["containers"][0]["image"] == f"registry.example/team/zoneward@{digest}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        yield plane


def test_overlay_on_an_older_cluster_is_refused(cluster: ControlPlane, tmp_path: Path) -> None:
    """This cluster is new enough, so a copy of the chart asks for more. Without a cluster, nothing is asked for."""
    copy = tmp_path / "chart"
    shutil.copytree(CHART, copy)
    template = copy / "templates" / "controller" / "deployment.yaml"
    template.write_text(template.read_text().replace('"<1.36.0-0"', '"<1.99.0-0"'))
    access = (f"--kubeconfig={cluster.kubeconfig()}", f"--repository-cache={tmp_path}", "--dry-run=server")
    message = "controller.mode: expected only-marked or take-over, got overlay: it needs MutatingAdmissionPolicy"
    assert message in helm("install", "edge", str(copy), *access, fails=True)
    assert message not in helm("install", "edge", str(copy), *access, "--set=controller.mode=only-marked")
    assert "zoneward-overlay" in helm("template", "edge", str(copy))


def test_install_upgrade_and_uninstall_keep_only_the_namespaces(cluster: ControlPlane, tmp_path: Path) -> None:
    access, api = (f"--kubeconfig={cluster.kubeconfig()}", f"--repository-cache={tmp_path}"), cluster.api()

    def there(path: str) -> set[str]:
        return {item["metadata"]["name"] for item in api.get(path)["items"] if "zoneward" in item["metadata"]["name"]}

    roles, namespaces = "/apis/rbac.authorization.k8s.io/v1/clusterroles", "/api/v1/namespaces"
    policies = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
    said = helm("install", "edge", str(CHART), *access, *_set((*ALL, "createNamespaces=true")))
    assert "The built-in EndpointSlice controller keeps its slices" in said
    assert "beside kube-proxy" in said
    assert there(policies) == {"zoneward-overlay"}
    assert "zoneward-controller-overlay" in there(roles)
    marked = (*ALL, "createNamespaces=true", "controller.mode=only-marked")
    assert "zoneward adopt NAMESPACE/SERVICE" in helm("upgrade", "edge", str(CHART), *access, *_set(marked))
    assert there(policies) == set()
    assert "zoneward-controller-only-marked" in there(roles)
    assert there(namespaces) == {"zoneward-system", "zoneward-proxy", "zoneward-meter"}
    assert there("/apis/apps/v1/daemonsets") == {"zoneward-proxy", "zoneward-meter"}
    helm("upgrade", "edge", str(CHART), *access, *_set((*ALL, "createNamespaces=true", "controller.mode=take-over")))
    assert "zoneward-controller-only-marked" not in there(roles)
    helm("uninstall", "edge", *access)
    assert there(roles) == there("/apis/apps/v1/deployments") == there("/apis/apps/v1/daemonsets") == set()
    assert there(namespaces) == {"zoneward-system", "zoneward-proxy", "zoneward-meter"}
