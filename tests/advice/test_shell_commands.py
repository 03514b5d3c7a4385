import shlex

import pytest

from zoneward.advice.shell_commands import in_cluster, kubectl, shell_command


def test_names_follow_the_options_and_every_word_is_quoted() -> None:
    command = kubectl("scale", "--replicas=3", names=("deployment/cart$(id)",), namespace="shop; id")
    assert shlex.split(command) == [
        *("kubectl", "-n", "shop; id", "scale", "--replicas=3"),
        *("--", "deployment/cart$(id)"),
    ]
    assert kubectl("get", "pods", namespace="shop") == "kubectl -n shop get pods"


def test_name_with_a_dash_gives_no_command() -> None:
    assert kubectl("label", names=("node", "--all", "zone=a")) == ""
    assert kubectl("get", "pods", namespace="--all") == ""
    assert shell_command("zoneward", "release", names=("--force",)) == ""


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("kubectl -n shop get pods", "kubectl --context=eu-1 '--as=a b' -n shop get pods"),
        ("helm install cart", "helm --kube-context=eu-1 '--kube-as-user=a b' install cart"),
        ("zoneward adopt -- shop/cart", "zoneward adopt --context=eu-1 '--as=a b' -- shop/cart"),
        ("Start `zoneward controller`.", "Start `zoneward controller`."),
        ("", ""),
    ],
)
def test_commands_name_the_cluster(command: str, expected: str) -> None:
    assert in_cluster(command, ("--context=eu-1", "--as=a b")) == expected
    assert in_cluster(command, ()) == command
