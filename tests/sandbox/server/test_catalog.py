"""The version of the sandbox, and its feature gates, written as those of kube-apiserver."""

import pytest

from zoneward.sandbox.server.catalog import document, parse_gates
from zoneward.sandbox.server.kinds import ServerGates


def test_version_is_that_of_the_implemented_kubernetes() -> None:
    version = document((), "/version", address="127.0.0.1:1")
    assert version is not None
    assert (version["major"], version["minor"], version["gitVersion"]) == ("1", "37", "v1.37.2")


def test_gates_are_parsed_and_the_last_one_wins() -> None:
    texts = ("TopologyAwareHints=false,PreferSameTrafficDistribution=false", "TopologyAwareHints=true")
    assert parse_gates(texts) == ServerGates(prefer_same_traffic_distribution=False)
    assert parse_gates(()) == ServerGates()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ServiceTopology=true", "expected one of TopologyAwareHints, .*, got 'ServiceTopology'"),
        ("TopologyAwareHints=false,", "expected one of TopologyAwareHints, .*, got ''"),
        ("TopologyAwareHints", "expected TopologyAwareHints=true or .*, got 'TopologyAwareHints'"),
        ("TopologyAwareHints=False", "got 'TopologyAwareHints=False'"),
    ],
)
def test_invalid_gate_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_gates([text])
