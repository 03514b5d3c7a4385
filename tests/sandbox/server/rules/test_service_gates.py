"""Annotations of Services that mean something, gates, names and metadata, as a kube-apiserver v1.36.3 has them."""

# ruff: noqa: E501 -- words of upstream stand whole, to be found

from copy import deepcopy
from typing import Final

import pytest
from tests.sandbox.server.rules.service_desk import (
    CLUSTER_IP,
    NAME_RULE,
    NO_NETWORK,
    NO_PORT,
    Spec,
    load_balancer,
    ports,
    refused,
    single,
)

from zoneward.sandbox.server.rules.service import ServiceRules

SOURCES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
MODES: Final = ("service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode")
ONLY_BALANCED: Final = "Forbidden: may only be used when `type` is 'LoadBalancer'"


@pytest.mark.parametrize(
    ("spec", "annotations", "told"),
    [
        (
            load_balancer(),
            {SOURCES: "foo, 1.2.3.0/24"},
            [f'metadata.annotations[{SOURCES}]: Invalid value: "foo": {NO_NETWORK}'],
        ),
        (
            load_balancer(),
            {SOURCES: "1.2.3.1/24"},
            [
                f'metadata.annotations[{SOURCES}]: Invalid value: "1.2.3.1/24": must not have bits set beyond the prefix length'
            ],
        ),
        (
            load_balancer(loadBalancerSourceRanges=["x"]),
            {SOURCES: "y"},
            [f'spec.LoadBalancerSourceRanges[0]: Invalid value: "x": {NO_NETWORK}'],
        ),
        (CLUSTER_IP, {SOURCES: " "}, [f"metadata.annotations[{SOURCES}]: {ONLY_BALANCED}"]),
        (
            CLUSTER_IP,
            {SOURCES: "x,y"},
            [
                f"metadata.annotations[{SOURCES}]: {ONLY_BALANCED}",
                f'metadata.annotations[{SOURCES}]: Invalid value: "x": {NO_NETWORK}',
                f'metadata.annotations[{SOURCES}]: Invalid value: "y": {NO_NETWORK}',
            ],
        ),
        (
            ports({"port": 80, "targetPort": -1}),
            dict(zip(MODES, ("Auto", "Foo"), strict=True)),
            [
                f'metadata.annotations[{MODES[1]}]: Invalid value: "Foo": must match annotations[{MODES[0]}] when both are specified',
                f"spec.ports[0].targetPort: Invalid value: -1: {NO_PORT}",
            ],
        ),
    ],
)
def test_annotations_that_mean_something_are_judged(spec: Spec, annotations: dict[str, str], told: list[str]) -> None:
    assert refused(single(), spec, annotations=annotations) == told


def test_annotations_that_say_the_same_or_nothing_are_good() -> None:
    desk = single()
    desk.create(load_balancer(), annotations={SOURCES: ""})
    desk.create(CLUSTER_IP, annotations=dict.fromkeys(MODES, "Auto"), name="other")


def test_without_its_gate_only_one_distribution_is_known() -> None:
    desk = single(prefer_same_traffic_distribution=False)
    assert (
        desk.create(CLUSTER_IP | {"trafficDistribution": "PreferClose"})["spec"]["trafficDistribution"] == "PreferClose"
    )
    told = ['spec.trafficDistribution: Unsupported value: "PreferSameZone": supported values: "PreferClose"']
    assert refused(desk, CLUSTER_IP | {"trafficDistribution": "PreferSameZone"}, name="other") == told


def test_without_its_gate_the_distribution_is_dropped_unless_it_was_there() -> None:
    desk = single(service_traffic_distribution=False)
    created = desk.create(CLUSTER_IP | {"trafficDistribution": "PreferClose"})
    assert "trafficDistribution" not in created["spec"]
    assert "trafficDistribution" not in desk.update(created, {"trafficDistribution": "PreferClose"})["spec"]
    stored = deepcopy(created)
    stored["spec"]["trafficDistribution"] = "PreferClose"
    assert desk.update(stored, {"selector": {"a": "b"}})["spec"]["trafficDistribution"] == "PreferClose"


@pytest.mark.parametrize(
    ("text", "is_prefix", "is_good"),
    [
        ("1a", False, True),
        ("a-", False, False),
        ("a-", True, True),
        ("A", True, False),
        ("a.b", False, False),
        ("a" * 64, False, False),
    ],
)
def test_a_name_is_a_label_and_may_begin_with_a_digit(text: str, *, is_prefix: bool, is_good: bool) -> None:
    assert (not list(ServiceRules.name_problems(text, is_prefix=is_prefix))) == is_good


def test_metadata_is_judged() -> None:
    desk = single()
    old = desk.create(CLUSTER_IP)
    old["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    assert not list(desk.rules.metadata_update_errors(old, old))
    new = deepcopy(old)
    new["metadata"]["labels"] = {"a b": "c"}
    said = f'metadata.labels: Invalid value: "a b": {NAME_RULE}'
    assert [str(each) for each in desk.rules.metadata_errors(new)] == [said]
    # Upstream's causes have it thrice.
    assert [str(each) for each in desk.rules.metadata_update_errors(new, old)] == [said] * 3
