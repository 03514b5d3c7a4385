import shlex

from zoneward.advice.shell_commands import kubectl, shell_command


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
