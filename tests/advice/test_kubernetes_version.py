"""Names of settings follow the version of Kubernetes."""

import pytest
from tests.builders.structs import a_node

from zoneward.advice.kubernetes_version import is_too_new, kubernetes_minor, setting_name


def test_version_is_that_of_the_newest_kubelet() -> None:
    nodes = [a_node("a", kubelet="v1.32.9"), a_node("b", kubelet="v1.33.1-eks-1"), a_node("c")]
    assert kubernetes_minor(nodes) == 33
    assert kubernetes_minor([a_node("c")]) is None


@pytest.mark.parametrize(
    ("kubernetes", "name"), [(33, "PreferClose"), (34, "PreferSameZone"), (None, "PreferSameZone")]
)
def test_prefer_same_zone_is_prefer_close_before_134(kubernetes: int | None, name: str) -> None:
    assert setting_name("PreferSameZone", kubernetes) == name
    assert setting_name("PreferSameNode", kubernetes) == "PreferSameNode"
    assert is_too_new("PreferSameNode", kubernetes) == (kubernetes == 33)
