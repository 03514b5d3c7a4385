"""What is deployed on nodes holds together, is what the command knows, and has no more power than it needs."""

import re

import pytest
import yaml
from tests.deploy.manifests import DEPLOY, PROXY_MODES, Object, container, invoked, manifests, namespace_of, pod, the

import zoneward
from zoneward.kube.proxy_lease import proxy_lease_name
from zoneward.proxy.proxy_configuration import DEFAULT_PORT, HEALTHZ_PORT, ProxyConfiguration, read_proxy_configuration
from zoneward.routing.configuration import Configuration, configuration_from

LABEL = {"app.kubernetes.io/name": "zoneward-proxy"}
ACCOUNT = {"kind": "ServiceAccount", "name": "zoneward-proxy", "namespace": "zoneward-proxy"}
LEASES = "zoneward-system"
"""Where the controller's Lease is, and the controller looks for those of proxies."""
WIDE = {"ClusterRole", "ClusterRoleBinding"}
WIDE |= {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
BESIDE, INSTEAD = PROXY_MODES


@pytest.mark.parametrize("mode", PROXY_MODES)
def test_whoever_is_named_is_there(mode: str) -> None:
    namespace = namespace_of(mode)["metadata"]["name"]
    assert (the("ServiceAccount", mode)["metadata"]["name"], namespace) == (ACCOUNT["name"], ACCOUNT["namespace"])
    roles = {(each["kind"], each["metadata"]["name"]) for each in manifests(mode) if each["kind"].endswith("Role")}
    bound = set()
    for each in manifests(mode):
        where = None if each["kind"] in WIDE else LEASES if each["kind"].startswith("Role") else namespace
        assert each["metadata"].get("namespace") == where, each["kind"]
        if each["kind"] in ("ClusterRoleBinding", "RoleBinding"):
            bound.add((each["roleRef"]["kind"], each["roleRef"]["name"]))
            assert each["subjects"] == [ACCOUNT]
    assert bound == roles
    template, daemons = pod(mode), the("DaemonSet", mode)["spec"]
    assert template["spec"]["serviceAccountName"] == ACCOUNT["name"]
    assert the("NetworkPolicy", mode)["spec"]["podSelector"] == daemons["selector"]
    assert daemons["selector"] == {"matchLabels": LABEL} == {"matchLabels": template["metadata"]["labels"]}
    assert template["spec"]["volumes"][0]["configMap"]["name"] == the("ConfigMap", mode)["metadata"]["name"]


@pytest.mark.parametrize("mode", PROXY_MODES)
def test_it_may_write_its_own_leases_and_not_the_controllers(mode: str) -> None:
    policy = the("ValidatingAdmissionPolicy", mode)
    assert the("ValidatingAdmissionPolicyBinding", mode)["spec"]["policyName"] == policy["metadata"]["name"]
    (condition,) = policy["spec"]["matchConditions"]
    assert f"'system:serviceaccount:{ACCOUNT['namespace']}:{ACCOUNT['name']}'" in condition["expression"]
    (whole,) = (each["expression"] for each in policy["spec"]["variables"] if each["name"] == "whole")
    (prefix,) = re.findall(r"^'(.+)' \+ variables.node$", whole)
    for name in (proxy_lease_name("n1"), proxy_lease_name("n1", "zoneward"), proxy_lease_name("n" * 253)):
        assert name.startswith(prefix)
    (names,) = (rule["resourceNames"] for rule in the("Role", "take-over")["rules"] if "resourceNames" in rule)
    assert not any(name.startswith(prefix) for name in names)
    assert f"--lease-namespace={namespace_of('take-over')['metadata']['name']}" in container(mode)["args"]
    assert the("Role", mode)["metadata"]["namespace"] == LEASES == namespace_of("take-over")["metadata"]["name"]


@pytest.mark.parametrize("mode", PROXY_MODES)
def test_it_has_one_capability_and_nothing_else_of_root(mode: str) -> None:
    spec, given = pod(mode)["spec"], container(mode)
    assert given["securityContext"] == {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]},
    }
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["hostNetwork"]
    assert not {"hostPID", "hostIPC"} & spec.keys()
    assert [each.keys() - {"name"} for each in spec["volumes"]] == [{"configMap"}]
    assert all(each["readOnly"] for each in given["volumeMounts"])


@pytest.mark.parametrize("mode", PROXY_MODES)
def test_every_node_has_one_before_anything_else_and_keeps_it(mode: str) -> None:
    spec, daemons = pod(mode)["spec"], the("DaemonSet", mode)["spec"]
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["priorityClassName"] == "system-node-critical"
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
    # Ports are the host's: there is no room for two.
    assert daemons["updateStrategy"]["rollingUpdate"].keys() == {"maxUnavailable"}
    # It must not need names, which it serves itself.
    assert spec["dnsPolicy"] == "Default"


@pytest.mark.parametrize("mode", PROXY_MODES)
def test_the_command_knows_the_arguments_and_ports_are_the_same_everywhere(mode: str) -> None:
    given = container(mode)
    assert given["command"] == ["zoneward", "proxy"]
    params = invoked("proxy", given["args"])
    (env,) = given["env"]
    assert env == {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    assert params["node"] == "$(NODE_NAME)"
    ports = {each["name"]: each["containerPort"] for each in given["ports"]}
    assert params["listen"] == f"127.0.0.1:{DEFAULT_PORT}"
    assert params["healthz_listen"].endswith(f":{ports['healthz']}")
    assert ports["status"] == DEFAULT_PORT
    for probe, path, port in (
        ("startupProbe", "/livez", "healthz"),
        ("livenessProbe", "/livez", "healthz"),
        ("readinessProbe", "/readyz", "status"),
    ):
        assert given[probe]["httpGet"] == {"host": "127.0.0.1", "path": path, "port": port}


def test_beside_kube_proxy_it_serves_what_is_labelled_and_takes_no_port_of_it() -> None:
    params = invoked("proxy", container(BESIDE)["args"])
    assert params["proxy_name"] == "zoneward"
    assert params["healthz_listen"] != f":{HEALTHZ_PORT}"


def test_instead_of_kube_proxy_it_is_where_load_balancers_ask_and_needs_no_service_to_reach_the_server() -> None:
    given = container(INSTEAD)
    params = invoked("proxy", given["args"])
    assert (params["proxy_name"], params["healthz_listen"]) == (None, f":{HEALTHZ_PORT}")
    (source,) = given["envFrom"]
    assert not source["configMapRef"].get("optional")
    named: Object = source["configMapRef"]
    # Who deploys makes it: nobody else knows the address.
    assert f"create configmap {named['name']}" in (DEPLOY / "README.md").read_text()


@pytest.mark.parametrize("mode", PROXY_MODES)
def test_the_configuration_is_where_the_argument_says_and_can_be_read(mode: str) -> None:
    (file,) = re.findall(r"--config=(\S+)", "\n".join(container(mode)["args"]))
    folder, _, name = file.rpartition("/")
    assert container(mode)["volumeMounts"][0]["mountPath"] == folder
    document = yaml.safe_load(the("ConfigMap", mode)["data"][name])
    assert configuration_from(document) == Configuration()
    assert read_proxy_configuration(document["proxy"]) == ProxyConfiguration()


@pytest.mark.parametrize("mode", PROXY_MODES)
def test_the_image_is_of_this_version_and_has_the_library(mode: str) -> None:
    assert container(mode)["image"] == f"zoneward:{zoneward.__version__}"
    assert re.search(r"^RUN apt-get .* libnftables1 ", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
