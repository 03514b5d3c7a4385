"""kubeconfig files come down to one cluster and one user, as they do for kubectl."""

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from zoneward.client.auth.client_config import ClientConfig, ExecPluginConfig, ImpersonationConfig, PemReference
from zoneward.client.auth.kubeconfig import load_client_config
from zoneward.kube.input_error import InputError


def config(**parts: Any) -> dict[str, Any]:
    """A kubeconfig with one context; ``cluster`` and ``user`` are fields of its entries."""
    cluster = parts.pop("cluster", {"server": "https://one"})
    user = parts.pop("user", {"token": "t"})
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    return whole | parts


def write(path: Path, document: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return str(path)


def find(*files: str, **options: Any) -> ClientConfig:
    environment = {"KUBECONFIG": os.pathsep.join(files), **options.pop("environment", {})}
    return load_client_config(environment=environment, **options)


def error_of(**options: Any) -> str:
    with pytest.raises(InputError) as caught:
        load_client_config(**{"environment": {}, **options})
    return str(caught.value)


def test_the_first_file_wins_for_each_name_and_for_the_current_context(tmp_path: Path) -> None:
    first = config(user={"username": "first", "password": "p"})
    del first["clusters"], first["current-context"]
    second = config(user={"token": "second"}, cluster={"server": "https://second", "tls-server-name": "s"})
    third = config(cluster={"server": "https://third"}, **{"current-context": "other"})
    files = [write(tmp_path / name, part) for name, part in (("1", first), ("2", second), ("3", third))]
    access = find(*files)
    assert access.context == "c"
    assert (access.cluster.server, access.cluster.tls_server_name) == ("https://second", "s")
    # The second file's token is not added to the first one's entry of that name: entries are taken whole.
    assert (access.user.basic, access.user.token) == (("first", "p"), None)
    assert access.source == files[0]


def test_listed_files_that_do_not_exist_are_passed_over_and_without_a_list_the_one_at_home_is_read(
    tmp_path: Path,
) -> None:
    empty, file = write(tmp_path / "empty", ""), write(tmp_path / ".kube" / "config", config())
    assert find(str(tmp_path / "none"), "", empty, file, file).cluster.server == "https://one"
    access = load_client_config(environment={"HOME": str(tmp_path)})
    assert (access.cluster.server, access.source, access.context) == ("https://one", file, "c")


def test_a_file_that_is_named_on_the_command_line_is_the_only_one_and_must_exist(tmp_path: Path) -> None:
    named, listed = write(tmp_path / "named", config()), write(tmp_path / "listed", config(cluster={"server": "x:1"}))
    assert find(listed, kubeconfig=named).cluster.server == "https://one"
    gone = str(tmp_path / "gone")
    assert (
        error_of(kubeconfig=gone, environment={"KUBECONFIG": listed}) == f"{gone}: expected a kubeconfig file, got none"
    )


def test_relative_paths_are_relative_to_the_file_that_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = base64.b64encode(b"PEM").decode()
    users = config(
        user={"tokenFile": "secrets/token", "client-certificate": "c", "client-certificate-data": data}
        | {"client-key": "/k"}
    )
    del users["clusters"]
    write(tmp_path / "a" / "users", users)
    write(tmp_path / "b" / "rest", config(cluster={"server": "https://x", "certificate-authority": "../ca.crt"}))
    access = find("a/users", "b/rest")
    assert access.user.token_file == str(tmp_path / "a" / "secrets" / "token")
    # Data go before the file of the same thing.
    assert access.user.certificate == PemReference("users[0].user.client-certificate-data", data=b"PEM")
    assert access.user.key == PemReference("users[0].user.client-key", path="/k")
    assert access.cluster.ca == PemReference(
        "clusters[0].cluster.certificate-authority", path=str(tmp_path / "b" / "../ca.crt")
    )


def test_a_context_is_chosen_by_name_and_has_a_namespace(tmp_path: Path) -> None:
    contexts = [
        {"name": "c", "context": {"cluster": "k", "user": "u"}},
        {"name": "d", "context": {"cluster": "k", "namespace": "shop"}},
    ]
    file = write(tmp_path / "f", config(contexts=contexts))
    assert find(file).namespace == "default"
    other = find(file, context="d")
    assert (other.context, other.namespace, other.user.token) == ("d", "shop", None)


@pytest.mark.parametrize(
    ("cluster", "server"),
    [
        ({"server": "https://h:6443/"}, "https://h:6443"),
        ({"server": "https://h/k8s/clusters/c-1"}, "https://h/k8s/clusters/c-1"),
        ({"server": "HTTPS://h"}, "https://h"),
        ({"server": "h:8080"}, "http://h:8080"),
        ({"server": "h:6443", "insecure-skip-tls-verify": True}, "https://h:6443"),
        ({"server": "https://[::1]:6443"}, "https://[::1]:6443"),
    ],
)
def test_an_address_gets_a_scheme_where_it_has_none(tmp_path: Path, cluster: dict[str, Any], server: str) -> None:
    assert find(write(tmp_path / "f", config(cluster=cluster))).cluster.server == server


def test_an_address_without_a_scheme_is_https_for_a_client_certificate(tmp_path: Path) -> None:
    user = {"client-certificate": "c.pem", "client-key": "k.pem"}
    assert (
        find(write(tmp_path / "f", config(cluster={"server": "h:6443"}, user=user))).cluster.server == "https://h:6443"
    )


def test_all_fields_of_a_cluster_and_a_user_arrive(tmp_path: Path) -> None:
    cluster = {
        "server": "https://h",
        "insecure-skip-tls-verify": True,
        "tls-server-name": "name",
        "proxy-url": "http://user:word@proxy:3128",
        "disable-compression": True,
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}],
    }
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": "bin/login",
            "args": ["--now"],
            "env": [{"name": "A", "value": "1"}],
            "provideClusterInfo": True,
            "installHint": "Install it:\n  apt install login\n",
        },
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["g"],
        "as-user-extra": {"scopes": ["view", "edit"]},
    }
    access = find(write(tmp_path / "f", config(cluster=cluster, user=user)))
    parsed = access.cluster
    assert (parsed.insecure, parsed.tls_server_name, parsed.is_compressed) == (True, "name", False)
    assert (parsed.proxy, parsed.exec_config) == ("http://user:word@proxy:3128", {"audience": "x"})
    assert access.user.exec_plugin == ExecPluginConfig(
        api_version="client.authentication.k8s.io/v1beta1",
        command=str(tmp_path / "bin" / "login"),
        arguments=("--now",),
        environment=(("A", "1"),),
        provides_cluster_info=True,
        interactive="IfAvailable",
        install_hint="Install it: apt install login",
    )
    extra = (("scopes", ("view", "edit")),)
    assert access.user.impersonation == ImpersonationConfig(user="jane", uid="7", groups=("g",), extra=extra)


def test_a_plugin_without_a_slash_is_left_to_be_found_in_the_path(tmp_path: Path) -> None:
    exec_plugin = find(write(tmp_path / "f", json.dumps(exec_(command="aws")))).user.exec_plugin
    assert exec_plugin is not None
    assert (exec_plugin.command, exec_plugin.interactive) == ("aws", "Never")


def test_whom_to_act_as_on_the_command_line_replaces_the_user_and_as_in_kubectl_nothing_else(tmp_path: Path) -> None:
    file = write(tmp_path / "f", config(user={"token": "t", "as": "jane", "as-groups": ["g"]}))
    assert find(file, impersonate="joe").user.impersonation == ImpersonationConfig(user="joe", groups=("g",))
    assert error_of(kubeconfig=file, impersonate="a\r\nX: y").startswith("--as: expected the name of a user, got")


def test_secrets_are_in_no_representation(tmp_path: Path) -> None:
    user = {"token": "s3cret", "client-key-data": base64.b64encode(b"s3cret").decode(), "client-certificate": "x"}
    access = find(write(tmp_path / "f", config(user=user)), environment={"AWS_SECRET": "s3cret"})
    assert "s3cret" not in repr(access)
    assert access.user.token == "s3cret"


NO_CONTEXT = "expected a current-context, or --context NAME, got none"
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def service_account(tmp_path: Path) -> str:
    directory = tmp_path / "serviceaccount"
    for name, text in (("token", "t"), ("ca.crt", "PEM"), ("namespace", "shop\n")):
        write(directory / name, text)
    return str(directory)


def test_without_any_context_the_service_account_of_the_pod_serves(tmp_path: Path, service_account: str) -> None:
    without_context = config()
    del without_context["current-context"]
    for files in ([], [write(tmp_path / "empty", "{}")], [write(tmp_path / "none", without_context)]):
        environment = {**POD, "KUBECONFIG": os.pathsep.join(files), "HOME": str(tmp_path)}
        access = load_client_config(environment=environment, service_account=service_account, impersonate="joe")
        assert access.cluster.server == "https://10.0.0.1:443"
        assert access.cluster.ca == PemReference("ca.crt", path=f"{service_account}/ca.crt")
        assert (access.user.token_file, access.user.token) == (f"{service_account}/token", None)
        assert (access.namespace, access.user.impersonation.user) == ("shop", "joe")
        assert access.environment == environment


def test_pipe_is_no_namespace_and_is_not_waited_for(service_account: str) -> None:
    file = Path(service_account, "namespace")
    file.unlink()
    os.mkfifo(file)
    assert error_of(environment=POD, service_account=service_account) == (
        f"{file}: expected a readable file, got: it is not a regular file"
    )


def test_a_kubeconfig_goes_before_the_service_account(tmp_path: Path, service_account: str) -> None:
    pod: dict[str, Any] = {"environment": POD, "service_account": service_account}
    assert find(write(tmp_path / "f", config()), **pod).cluster.server == "https://one"
    empty = write(tmp_path / "empty", "{}")
    assert error_of(kubeconfig=empty, **pod) == f"{empty}: {NO_CONTEXT}"


def test_an_address_of_ipv6_gets_its_brackets_and_the_environment_can_name_the_namespace(service_account: str) -> None:
    environment = {**POD, "KUBERNETES_SERVICE_HOST": "fd00::1", "POD_NAMESPACE": "other"}
    access = load_client_config(environment=environment, service_account=service_account)
    assert (access.cluster.server, access.namespace) == ("https://[fd00::1]:443", "other")


def test_what_lacks_address_port_or_token_is_no_pod(tmp_path: Path, service_account: str) -> None:
    line, home = f"there is no kubeconfig: looked for {tmp_path}/.kube/config", {**POD, "HOME": str(tmp_path)}
    for missing in POD:
        assert error_of(environment={**home, missing: ""}, service_account=service_account) == line
    assert error_of(environment=home, service_account=str(tmp_path / "none")) == line


def exec_(**fields: Any) -> dict[str, Any]:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "c", "interactiveMode": "Never"}
    return config(user={"exec": plugin | fields})


def cluster(**fields: Any) -> dict[str, Any]:
    return config(cluster={"server": "https://h"} | {name.replace("_", "-"): value for name, value in fields.items()})


def user(**fields: Any) -> dict[str, Any]:
    return config(user={name.replace("_", "-"): value for name, value in fields.items()})


NOT_HTTP = "expected an http:// or https:// address, got"
FIRST_USER, FIRST_CLUSTER = "users[0].user", "clusters[0].cluster"
CONTEXT = "contexts[0].context"
BAD: dict[str, tuple[Any, str]] = {
    "no mapping": ("- a", "expected a mapping, got a list"),
    "no YAML": ("a: [", "line 2, column 1: malformed YAML: "),
    "two documents": ("{}\n---\n{}", "expected one document, got 2"),
    "another kind": ({"kind": "Pod"}, "kind: expected Config, got 'Pod'"),
    "no list": (config(users={}), "users: expected a list, got a mapping"),
    "no name": (config(users=[{}]), "users[0].name: expected a string that is not empty, got none"),
    "a name twice": (config(users=[{"name": "u"}] * 2), "users[1].name: expected a unique name in users, got 'u'"),
    "unknown context": (config(**{"current-context": "x"}), "context: expected one of the contexts (c), got 'x'"),
    "unknown cluster": (
        config(clusters=[]),
        f"{CONTEXT}.cluster: expected one of the clusters (there are none), got 'k'",
    ),
    "unknown user": (
        config(users=[{"name": n} for n in "abcdefg"]),
        f"{CONTEXT}.user: expected one of the users (a, b, c, d, e, ...), got 'u'",
    ),
    "no cluster": (config(contexts=[{"name": "c"}]), f"{CONTEXT}.cluster: expected the name of a cluster, got none"),
    "no server": (config(cluster={}), f"{FIRST_CLUSTER}.server: expected the address of an API server, got none"),
    "number as token": (user(token=12), f"{FIRST_USER}.token: expected a string, got something else, without quotes"),
    "no address": (cluster(server="ftp://h"), f"server: {NOT_HTTP} 'ftp://h'"),
    "password in the address": (
        cluster(server="https://me:hunter2@h"),
        "server: expected an address without a user and a password, got one with them",
    ),
    "password in no address": (cluster(server="ftp://me:hunter2@h"), "got 'ftp://h'"),
    "password in a proxy": (cluster(proxy_url="socks5://me:hunter2@h:1"), f"proxy-url: {NOT_HTTP} 'socks5://h:1'"),
    "password without a scheme": (cluster(proxy_url="me:hunter2@h"), "address, got 'h'"),
    "no flag": (cluster(insecure_skip_tls_verify="yes"), "insecure-skip-tls-verify: expected true or false, got 'yes'"),
    "insecure with authority": (
        cluster(insecure_skip_tls_verify=True, certificate_authority="ca"),
        f"expected false beside {FIRST_CLUSTER}.certificate-authority, got true",
    ),
    "no base64": (cluster(certificate_authority_data="%%%"), "authority-data: expected base64, got something"),
    "no base64 in a key": (user(client_key_data="hunter2%"), "client-key-data: expected base64, got something"),
    "certificate alone": (user(client_certificate="c"), "client-key: expected a value beside client-certificate, got"),
    "key alone": (user(client_key="k"), "client-certificate: expected a value beside client-key, got none"),
    "two ways": (user(token="t", username="u"), "username: expected one way to log in, got a token, too"),
    "auth-provider": (user(auth_provider={"name": "gcp"}), "expected exec, which replaced it in Kubernetes 1.26"),
    "groups of nobody": (
        user(as_groups=["g"]),
        "user.as: expected a user beside as-uid, as-groups or as-user-extra, got none",
    ),
    "group is no text": (user(**{"as": "u", "as_groups": [1]}), "user.as-groups[0]: expected a string, got 1"),
    "extra is no list": (user(**{"as": "u", "as_user_extra": {"a": "b"}}), "as-user-extra.a: expected a list, got 'b'"),
    "extra without text": (user(**{"as": "u", "as_user_extra": {1: []}}), "expected keys that are strings, got 1"),
    "exec v1alpha1": (
        exec_(apiVersion="client.authentication.k8s.io/v1alpha1"),
        "exec.apiVersion: expected client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1, got",
    ),
    "exec without command": (exec_(command=""), "user.exec.command: expected the name of a program, got none"),
    "exec without mode": (exec_(interactiveMode=None), "Mode: expected Never, IfAvailable or Always, got none"),
    "exec env without name": (
        exec_(env=[{"value": "x"}]),
        "exec.env[0].name: expected a string that is not empty, got",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_reported_in_one_line_with_file_field_expected_and_got(tmp_path: Path, name: str) -> None:
    document, expected = BAD[name]
    file = write(tmp_path / "f", document)
    line = error_of(kubeconfig=file)
    assert line.startswith(file)
    assert expected in line
    assert "hunter2" not in line
    assert "\n" not in line


def test_files_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    line = f"there is no kubeconfig: looked for {tmp_path}/.kube/config"
    assert error_of(context="x", environment={"HOME": str(tmp_path)}) == line
    assert error_of(kubeconfig=str(tmp_path)) == f"{tmp_path}: expected a readable file, got: Is a directory"
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate((16 << 20) + 1)
    assert error_of(kubeconfig=str(large)) == f"{large}: expected a kubeconfig, got more than 16 MiB"
