"""The feature gates of the sandbox, written as those of kube-apiserver."""

import pytest

from zoneward.sandbox.server.catalog import ServerGates, parse_gates


@pytest.mark.parametrize(
    ("texts", "gates"),
    [
        ((), ServerGates()),
        (("TopologyAwareHints=false",), ServerGates(topology_aware_hints=False)),
        (
            ("TopologyAwareHints=false,PreferSameTrafficDistribution=false", "ServiceTrafficDistribution=false"),
            ServerGates(
                topology_aware_hints=False, prefer_same_traffic_distribution=False, service_traffic_distribution=False
            ),
        ),
        (("TopologyAwareHints=false", "TopologyAwareHints=true"), ServerGates()),
    ],
)
def test_gates_are_read(texts: tuple[str, ...], gates: ServerGates) -> None:
    assert parse_gates(texts) == gates


KNOWN = "expected one of TopologyAwareHints, PreferSameTrafficDistribution, ServiceTrafficDistribution, got "


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ServiceTopology=true", f"{KNOWN}'ServiceTopology'"),
        ("", f"{KNOWN}''"),
        ("TopologyAwareHints=false,", f"{KNOWN}''"),
        (
            "TopologyAwareHints",
            "expected TopologyAwareHints=true or TopologyAwareHints=false, got 'TopologyAwareHints'",
        ),
        ("TopologyAwareHints=False", "got 'TopologyAwareHints=False'"),
        ("TopologyAwareHints=off", "got 'TopologyAwareHints=off'"),
    ],
)
def test_what_is_no_gate_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match="expected") as refused:
        parse_gates([text])
    assert str(refused.value).endswith(problem)
