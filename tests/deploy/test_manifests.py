"""What is deployed holds together, and is what the program knows."""

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import distribution
from itertools import combinations

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.deploy.manifests import (
    DEPLOY,
    METER_MODES,
    MODES,
    NAMESPACES,
    PROXY_MODES,
    ROOT,
    Object,
    container,
    granted,
    invoked,
    manifests,
    namespace_of,
    pod,
    the,
)

import zoneward
from zoneward.cli.configuration_file import configuration_from
from zoneward.controller.controller_configuration import ControllerConfiguration
from zoneward.controller.controller_program import DRAIN
from zoneward.controller.status.status_writer import OWN_CONDITION_TYPES
from zoneward.daemon.listen_address import parse_listen_address
from zoneward.daemon.unreadable_objects import UNREADABLE
from zoneward.kube.adoption_marks import ADOPTION_MARKS, SELECTOR_ANNOTATION, SKIP_MIRROR_LABEL
from zoneward.kube.leases import proxy_lease_name
from zoneward.meter.conntrack_reader import ACCOUNTING_SYSCTL
from zoneward.meter.meter_configuration import DEFAULT_PORT as METER_PORT
from zoneward.meter.meter_configuration import MeterConfiguration
from zoneward.proxy import proxy_reporter
from zoneward.proxy.proxy_configuration import DEFAULT_PORT, HEALTHZ_PORT, ProxyConfiguration
from zoneward.routing.configuration import Configuration

NODE_MODES = (*PROXY_MODES, *METER_MODES)
ALL = (*MODES, *NODE_MODES)
KINDS = {"ServiceAccount", "ConfigMap", "NetworkPolicy", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
POLICY_KINDS = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
CONTROLLER_KINDS = KINDS | POLICY_KINDS | {"Deployment", "PodDisruptionBudget"}
PROXY_KINDS = KINDS | POLICY_KINDS | {"DaemonSet"}
METER_KINDS = KINDS - {"Role", "RoleBinding"} | {"DaemonSet"}
MUTATING_KINDS = {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}
WIDE = POLICY_KINDS | MUTATING_KINDS | {"ClusterRole", "ClusterRoleBinding"}


def program(mode: str) -> str:
    return "controller" if mode in MODES else mode.partition("/")[0]


def probes(mode: str) -> list[Object]:
    """What the kubelet asks: whether it has started, lives, and is ready."""
    return [container(mode)[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")]


def label(mode: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": f"zoneward-{program(mode)}"}


@pytest.mark.parametrize("mode", ALL)
def test_every_file_is_used_and_every_object_has_the_label_of_zoneward(mode: str) -> None:
    result, kinds = manifests(mode), {"controller": CONTROLLER_KINDS, "proxy": PROXY_KINDS, "meter": METER_KINDS}
    overlay = MUTATING_KINDS if mode == "overlay" else set()
    assert {manifest["kind"] for manifest in result} == kinds[program(mode)] | overlay
    assert len({identity(manifest) for manifest in result}) == len(result)
    for manifest in result:
        assert manifest["metadata"]["labels"].items() >= label(mode).items(), manifest["metadata"]["name"]
    for folder in (DEPLOY / ("base" if mode in MODES else f"{program(mode)}/base"), DEPLOY / mode):
        said = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
        listed = {name for name in said if (folder / name).is_file()}
        assert {path.name for path in folder.iterdir() if path.is_file()} == listed | {"kustomization.yaml"}


@pytest.mark.parametrize("mode", ALL)
def test_every_reference_exists(mode: str) -> None:
    """The namespace, the service account, the roles, the labels and the volume."""
    namespace, account = namespace_of(mode)["metadata"]["name"], the("ServiceAccount", mode)["metadata"]["name"]
    # A proxy's Leases are beside the controller's.
    of_roles = namespace_of("take-over")["metadata"]["name"]
    roles = {
        (manifest["kind"], manifest["metadata"]["name"])
        for manifest in manifests(mode)
        if manifest["kind"].endswith("Role")
    }
    bound = set()
    for manifest in manifests(mode):
        where = None if manifest["kind"] in WIDE else of_roles if manifest["kind"].startswith("Role") else namespace
        assert manifest["metadata"].get("namespace") == where, manifest["kind"]
        if manifest["kind"] in ("ClusterRoleBinding", "RoleBinding"):
            bound.add((manifest["roleRef"]["kind"], manifest["roleRef"]["name"]))
            assert manifest["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]
    assert bound == roles
    template = pod(mode)
    assert template["spec"]["serviceAccountName"] == account
    selectors = [the("NetworkPolicy", mode)["spec"]["podSelector"]]
    if mode in NODE_MODES:
        selectors.append(the("DaemonSet", mode)["spec"]["selector"])
    else:
        selectors += [the(kind, mode)["spec"]["selector"] for kind in ("Deployment", "PodDisruptionBudget")]
        selectors += [constraint["labelSelector"] for constraint in template["spec"]["topologySpreadConstraints"]]
    for selector in selectors:
        assert selector == {"matchLabels": label(mode)} == {"matchLabels": template["metadata"]["labels"]}
    assert template["spec"]["volumes"][0]["configMap"]["name"] == the("ConfigMap", mode)["metadata"]["name"]


@pytest.mark.parametrize("mode", ALL)
def test_a_pod_has_only_the_privileges_that_it_needs(mode: str) -> None:
    spec, security, on_node = pod(mode)["spec"], dict(container(mode)["securityContext"]), mode in NODE_MODES
    assert security.pop("privileged", False) is False
    assert security == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]} | ({"add": ["NET_ADMIN"]} if on_node else {}),
    }
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {"hostNetwork", "hostPID", "hostIPC"} & spec.keys() == ({"hostNetwork"} if on_node else set())
    assert [volume.keys() - {"name"} for volume in spec["volumes"]] == [{"configMap"}]
    assert all(mount["readOnly"] for mount in container(mode)["volumeMounts"])
    if not on_node:
        assert (spec["securityContext"]["runAsNonRoot"], spec["securityContext"]["runAsUser"] > 0) == (True, True)
        assert namespace_of(mode)["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("mode", ALL)
def test_the_network_policy_allows_only_the_named_port(mode: str) -> None:
    policy = the("NetworkPolicy", mode)["spec"]
    # The API server has no label by which it could be let through.
    assert policy["policyTypes"] == ["Ingress"]
    (rule,) = policy["ingress"]
    (port,) = rule["ports"]
    assert port["port"] == ("healthz" if mode in PROXY_MODES else "status")
    assert port["port"] in {port["name"] for port in container(mode)["ports"]}
    assert ("from" in rule) == (mode not in PROXY_MODES)


def test_deleting_one_folder_keeps_the_namespaces_and_the_other_folder() -> None:
    every = {mode: {identity(manifest) for manifest in manifests(mode)} for mode in (*ALL, NAMESPACES)}
    used = {namespace for mode in ALL for _, namespace, _ in every[mode] if namespace}
    assert {name for kind, _, name in every[NAMESPACES]} == used
    assert {kind for kind, _, _ in every[NAMESPACES]} == {"Namespace"}
    for mode, other in combinations((*ALL, NAMESPACES), 2):
        assert program(mode) == program(other) or not every[mode] & every[other]


def identity(object_: Object) -> tuple[str, str, str]:
    metadata = object_["metadata"]
    return object_["kind"], metadata.get("namespace", ""), metadata["name"]


@pytest.mark.parametrize("mode", MODES)
def test_one_replica_always_runs_and_has_time_to_finish_its_writes(mode: str) -> None:
    deployment, budget = the("Deployment", mode)["spec"], the("PodDisruptionBudget", mode)["spec"]
    assert deployment["replicas"] - budget["maxUnavailable"] >= 1
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    keys = [constraint["topologyKey"] for constraint in deployment["template"]["spec"]["topologySpreadConstraints"]]
    assert keys == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    assert pod(mode)["spec"]["terminationGracePeriodSeconds"] >= DRAIN + 5


@pytest.mark.parametrize("mode", MODES)
def test_the_command_accepts_the_arguments_and_ports_agree(mode: str) -> None:
    given = container(mode)
    params = invoked(mode)
    assert f"--{mode}" in given["args"]
    assert sum(f"--{mode_}" in given["args"] for mode_ in MODES) == 1
    (port,) = given["ports"]
    default = parse_listen_address(ControllerConfiguration().listen).port
    assert port == {"name": "status", "containerPort": default}
    assert str(params["listen"]).endswith(f":{default}")
    assert pod(mode)["metadata"]["annotations"]["prometheus.io/port"] == str(default)
    live, ready = ({"path": path, "port": "status"} for path in ("/healthz", "/readyz"))
    assert probes(mode) == [live, live, ready]


@pytest.mark.parametrize("mode", PROXY_MODES)
def test_the_command_accepts_the_arguments_of_a_proxy(mode: str) -> None:
    given = container(mode)
    params = invoked(mode)
    (env,) = given["env"]
    assert env == {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    assert params["node"] == "$(NODE_NAME)"
    ports = {port["name"]: port["containerPort"] for port in given["ports"]}
    assert params["listen"] == f"127.0.0.1:{DEFAULT_PORT}"
    assert params["healthz_listen"].endswith(f":{ports['healthz']}")
    assert ports["status"] == DEFAULT_PORT
    live, ready = (
        {"host": "127.0.0.1", "path": path, "port": port}
        for path, port in (("/livez", "healthz"), ("/readyz", "status"))
    )
    assert probes(mode) == [live, live, ready]


@pytest.mark.parametrize("mode", METER_MODES)
def test_the_command_accepts_the_arguments_of_a_meter(mode: str) -> None:
    given = container(mode)
    params = invoked(mode)
    assert (params["node"], params["listen"]) == ("$(NODE_NAME)", f"127.0.0.1:{METER_PORT}")
    assert given["ports"] == [{"name": "status", "containerPort": METER_PORT}]
    live, ready = ({"host": "127.0.0.1", "path": path, "port": "status"} for path in ("/healthz", "/readyz"))
    assert probes(mode) == [live, live, ready]


def test_only_the_container_that_ends_before_a_meter_starts_may_change_settings_of_the_node() -> None:
    plain, accounting = (pod(mode)["spec"].get("initContainers", []) for mode in METER_MODES)
    assert not plain
    (only,) = accounting
    assert only["command"][-1].endswith(ACCOUNTING_SYSCTL.replace(".", "/"))
    assert only["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True}
    assert only["image"] == container(METER_MODES[0])["image"]


def test_a_meter_writes_nothing_to_the_api() -> None:
    assert {verb for _, _, verb in granted(METER_MODES[0])} == {"list", "watch"}


def test_a_proxy_serves_labelled_services_beside_kube_proxy_or_all_in_its_place() -> None:
    beside, instead = (invoked(mode) for mode in PROXY_MODES)
    assert beside["proxy_name"] == "zoneward"
    assert beside["healthz_listen"] != f":{HEALTHZ_PORT}"
    assert (instead["proxy_name"], instead["healthz_listen"]) == (None, f":{HEALTHZ_PORT}")
    (source,) = container(PROXY_MODES[1])["envFrom"]
    assert not source["configMapRef"].get("optional")
    # Who deploys makes it: nobody else knows the address of the API server.
    assert f"create configmap {source['configMapRef']['name']}" in (DEPLOY / "README.md").read_text()


@pytest.mark.parametrize("mode", MODES)
def test_the_policy_allows_exactly_the_controllers_writes_to_services(mode: str) -> None:
    """`e2e/test_deploy.py` tries it on an API server."""
    name = "zoneward-controller"
    policy = the("ValidatingAdmissionPolicy", mode, name)
    assert the("ValidatingAdmissionPolicyBinding", mode, name)["spec"]["policyName"] == name
    (condition,) = policy["spec"]["matchConditions"]
    account = the("ServiceAccount", mode)["metadata"]
    assert f"'system:serviceaccount:{account['namespace']}:{account['name']}'" in condition["expression"]
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    written = {resource for _, resource, verb in granted(mode) if resource.startswith("services") and verb == "patch"}
    assert written <= set(rule["resources"])
    text = str(policy["spec"])
    assert all(name.startswith("zoneward.dev/") for name in (*ADOPTION_MARKS, *OWN_CONDITION_TYPES))
    assert f"'{SKIP_MIRROR_LABEL}'" in text
    assert f"'{SELECTOR_ANNOTATION}'" in text


@pytest.mark.parametrize("mode", PROXY_MODES)
def test_a_proxy_may_write_its_own_leases_and_not_the_controllers(mode: str) -> None:
    policy = the("ValidatingAdmissionPolicy", mode, "zoneward-proxy")
    assert (
        the("ValidatingAdmissionPolicyBinding", mode, "zoneward-proxy")["spec"]["policyName"]
        == policy["metadata"]["name"]
    )
    (condition,) = policy["spec"]["matchConditions"]
    assert "'system:serviceaccount:zoneward-proxy:zoneward-proxy'" in condition["expression"]
    variables = {variable["name"]: variable["expression"] for variable in policy["spec"]["variables"]}
    whole, hashed = (re.findall(r"^'(.+)' \+ variables.node$", variables[name])[0] for name in ("whole", "hashed"))
    assert proxy_lease_name("n1") == f"{whole}n1"
    for name in (proxy_lease_name("n1", "zoneward"), proxy_lease_name("n" * 253)):
        assert name.startswith(hashed)
    (names,) = (rule["resourceNames"] for rule in the("Role", "take-over")["rules"] if "resourceNames" in rule)
    assert names == [ControllerConfiguration().leader_election.lease_name]
    assert not any(name.startswith((whole, hashed)) for name in names)
    assert f"--lease-namespace={the('Role', mode)['metadata']['namespace']}" in container(mode)["args"]


@pytest.mark.parametrize("mode", PROXY_MODES)
def test_a_proxy_may_record_only_its_own_events(mode: str) -> None:
    policy = the("ValidatingAdmissionPolicy", mode, "zoneward-proxy-events")
    binding = the("ValidatingAdmissionPolicyBinding", mode, "zoneward-proxy-events")
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    leases = the("ValidatingAdmissionPolicy", mode, "zoneward-proxy")
    assert policy["spec"]["matchConditions"] == leases["spec"]["matchConditions"]
    expressions = " ".join(validation["expression"] for validation in policy["spec"]["validations"])
    assert f"object.reportingController == '{proxy_reporter.CONTROLLER}'" in expressions
    reasons = {proxy_reporter.NOT_PROGRAMMED, proxy_reporter.ADDRESS_CONTESTED, proxy_reporter.PARTLY_PROGRAMMED}
    reasons |= {proxy_reporter.NO_HEALTH_PORT, UNREADABLE}
    (listed,) = re.findall(r"object\.reason in \[([^]]+)\]", expressions)
    assert set(re.findall(r"'(\w+)'", listed)) == reasons


@pytest.mark.parametrize("mode", ALL)
def test_the_configuration_is_mounted_at_its_argument_and_valid(mode: str) -> None:
    (file,) = re.findall(r"--config=(\S+)", "\n".join(container(mode)["args"]))
    folder, _, name = file.rpartition("/")
    assert container(mode)["volumeMounts"][0]["mountPath"] == folder
    document = yaml.safe_load(the("ConfigMap", mode)["data"][name])
    file = configuration_from(document)
    assert file.configuration == Configuration()
    assert (file.proxy, file.meter) == (ProxyConfiguration(), MeterConfiguration())


def test_every_value_of_the_chart_is_quoted_or_has_a_type() -> None:
    """A name may look like a number, and text may end its line."""
    templates = (DEPLOY / "helm" / "templates").rglob("*.*")
    lines = (line for file in templates if file.suffix in (".yaml", ".tpl") for line in file.read_text().splitlines())
    alone = [line.strip() for line in lines if re.search(r"^[^#{]*[:-] \{\{ .* \}\}$", line)]
    typed = ("replicas:", "containerPort:", "pod-security.kubernetes.io/enforce:")
    assert [line for line in alone if not line.endswith("quote }}") and not line.startswith(typed)] == []
    assert len(alone) > 40


def test_the_chart_has_this_version_and_the_image_of_the_manifests() -> None:
    """`e2e/test_helm.py` compares what it makes."""
    chart, values = (yaml.safe_load((DEPLOY / "helm" / name).read_text()) for name in ("Chart.yaml", "values.yaml"))
    assert chart["version"] == chart["appVersion"] == zoneward.__version__
    assert {f"{values['image']['repository']}:{chart['appVersion']}"} == {container(mode)["image"] for mode in ALL}


# --- the image --------------------------------------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text())
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


@pytest.mark.parametrize("mode", ALL)
def test_the_image_has_this_version_and_its_extras(mode: str) -> None:
    assert container(mode)["image"] == f"zoneward:{zoneward.__version__}"
    text = (DEPLOY / "Dockerfile").read_text()
    assert f"--tag zoneward:{zoneward.__version__}" in text
    assert any("apt-get install" in rest and " libnftables1 " in rest for word, rest in instructions() if word == "RUN")
    sent = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")}
    copies = (rest for word, rest in instructions() if word == "COPY" and not rest.startswith("--from"))
    copied = {name for rest in copies for name in rest.split()[:-1]}
    assert copied == sent
    assert all((ROOT / name).exists() for name in copied)


def test_every_installation_in_the_image_is_hashed_or_has_no_dependencies() -> None:
    runs = [rest for word, rest in instructions() if word == "RUN" and re.search(r"\bpip .*\b(install|wheel) ", rest)]
    hashed = [run for run in runs if "--require-hashes" in run]
    assert [re.findall(r"--requirement (\S+)", command) for command in hashed] == [
        ["build-requirements.txt"],
        ["requirements.txt"],
    ]
    others = [run for run in runs if run not in hashed]
    assert len(others) == 2
    assert all("--no-deps" in other for other in others)
    # The project comes last, when all that it needs is there.
    assert runs[-2:] == others


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BASE, EXTRAS = PROJECT["project"]["dependencies"], PROJECT["project"]["optional-dependencies"]
NEEDED = {
    "deploy/requirements.txt": BASE + EXTRAS["controller"],
    "deploy/build-requirements.txt": PROJECT["build-system"]["requires"],
    "release/constraints.txt": BASE + [requirement for extra in EXTRAS.values() for requirement in extra],
}


@pytest.mark.parametrize("file", NEEDED)
def test_hashed_requirements_are_exactly_the_pinned_dependencies(file: str) -> None:
    """On every Python that the project is for; ``deploy/make_requirements.py`` writes them."""
    text = re.sub(r"\\\n\s*", "", (ROOT / file).read_text())
    # Some packages are for some versions of Python, and have a marker after a semicolon.
    lines = [re.sub(r" ; [^-]+(?= --hash)", "", line).split() for line in text.splitlines() if not line.startswith("#")]
    versions = dict(line[0].split("==") for line in lines)
    constraints = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in constraints if "==" in line)
    assert {canonicalize_name(name): version for name, version in pinned.items()}.items() >= versions.items()
    for _, *hashes in lines:
        assert hashes
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", hash_) for hash_ in hashes)
    pythons = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    needed = {name for python in pythons for name in closure(NEEDED[file], python=python)}
    assert {canonicalize_name(name) for name in versions} == needed


def closure(requirements: Iterable[str], *, python: str) -> set[str]:
    """The names of all that they require, as what is installed here says."""
    versions = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    environment = {name: str(value) for name, value in default_environment().items()} | versions
    result, left = set[str](), [Requirement(requirement) for requirement in requirements]
    while left:
        requirement = left.pop()
        name = canonicalize_name(requirement.name)
        if name not in result and (requirement.marker is None or requirement.marker.evaluate(environment)):
            result.add(name)
            left += [Requirement(more) for more in distribution(name).requires or ()]
    return result


def test_the_labels_of_the_image_are_those_of_the_project() -> None:
    (labels,) = (rest for word, rest in instructions() if word == "LABEL")
    said = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', labels))
    project = PROJECT["project"]
    assert said == {"title": project["name"], "description": project["description"], "licenses": project["license"]}


def test_the_image_runs_as_in_the_manifests() -> None:
    given = dict(instructions())
    spec = pod("take-over")["spec"]["securityContext"]
    assert given["USER"] == f"{spec['runAsUser']}:{spec['runAsGroup']}"
    assert given["EXPOSE"] == str(parse_listen_address(ControllerConfiguration().listen).port)
    # The manifests and `docker run` alike name a command first.
    assert given["ENTRYPOINT"] == '["zoneward"]'
    assert all("command" not in container(mode) and container(mode)["args"][0] == program(mode) for mode in ALL)
    arguments = dict(rest.split("=", 1) for word, rest in instructions() if word == "ARG" and "=" in rest)
    # One argument names the base of both stages, if nobody says otherwise, so that it can be a digest.
    assert (arguments["BASE"], arguments["BUILD_BASE"]) == ("python:${PYTHON}-slim", "${BASE}")
    assert [rest.split()[0] for word, rest in instructions() if word == "FROM"] == ["${BUILD_BASE}", "${BASE}"]
    version = arguments["PYTHON"]
    assert f'"Programming Language :: Python :: {version}"' in (ROOT / "pyproject.toml").read_text()
