"""What each kind of proxy honors, by its version and its settings."""

from typing import Final

import pytest
from tests.builders.structs import a_service, an_endpoint, hints
from tests.clusters import CLUSTER

from zoneward.advice.proxy_kinds import PROXY_KINDS, cilium, kube_proxy
from zoneward.kube.objects import Endpoint, Service
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import CONSUMERS, honored_hints, select_endpoints

SERVICES: Final = {
    "nothing": a_service(),
    "old": a_service(old="Auto"),
    "auto": a_service("Auto"),
    "other": a_service("ProportionalZoneCPU"),
    "disabled": a_service("Disabled"),
    "close": a_service(distribution="PreferClose"),
    "zone": a_service(distribution="PreferSameZone"),
    "node": a_service(distribution="PreferSameNode"),
}
EVERY: Final = tuple(SERVICES)
BY_ANNOTATION: Final = ("old", "auto", "other")


def honoring(kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The Services whose hints for zones, and for nodes, a kind of proxy honors."""

    def honored(service: Service) -> tuple[bool, bool]:
        hints = honored_hints(service, PROXY_KINDS[kind].consumer, FeatureGates())
        return hints.zones, hints.nodes

    hints = {name: honored(service) for name, service in SERVICES.items()}
    return tuple(name for name in EVERY if hints[name][0]), tuple(name for name in EVERY if hints[name][1])


@pytest.mark.parametrize(
    ("kind", "zones", "nodes"),
    [
        ("kube-proxy-1.23", (), ()),
        ("kube-proxy-1.24", ("old",), ()),
        ("kube-proxy-1.26", ("old",), ()),
        ("kube-proxy-1.27", BY_ANNOTATION, ()),
        ("kube-proxy-1.30", BY_ANNOTATION, ()),
        ("kube-proxy-1.31", EVERY, ()),
        ("kube-proxy-1.33", EVERY, ()),
        ("kube-proxy-1.34", EVERY, EVERY),
        ("kube-proxy-1.37", EVERY, EVERY),
        ("cilium-1.17", (), ()),
        ("cilium-1.13-service-topology", ("old",), ()),
        ("cilium-1.15-service-topology", BY_ANNOTATION, ()),
        ("cilium-1.16-service-topology", (*BY_ANNOTATION, "close"), ()),
        ("cilium-1.20-service-topology", (*BY_ANNOTATION, "close", "zone"), ("node",)),
        ("kube-router", (), ()),
        ("zoneward", EVERY, EVERY),
    ],
)
def test_kind_honors_hints_by_its_version(kind: str, zones: tuple[str, ...], nodes: tuple[str, ...]) -> None:
    assert honoring(kind) == (zones, nodes)


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        ("cilium-1.18-service-topology", "zone-hints"),
        ("cilium-1.19-service-topology", "all"),
        ("cilium-1.20-service-topology", "all"),
        ("kube-proxy-1.33", "zone-hints"),
        ("kube-proxy-1.36", "zone-hints"),
    ],
)
def test_unready_endpoint_without_hint_disables_zones_in_cilium(kind: str, rule: str) -> None:
    """cilium/cilium#47960; a terminating one does not, and neither does one that has a hint."""
    honored = honored_hints(SERVICES["close"], PROXY_KINDS[kind].consumer, FeatureGates())
    ready = [an_endpoint(f"10.0.0.{zone}", hinted=hints(zone)) for zone in "ab"]

    def chosen(*others: Endpoint) -> str:
        selection = select_endpoints([*ready, *others], policies=CLUSTER, honored=honored, node="n", zone="a")
        return selection.rule.value

    assert chosen(an_endpoint("10.0.0.9", ready=False)) == rule
    assert chosen(an_endpoint("10.0.0.9", ready=False, hinted=hints("b"))) == "zone-hints"
    assert chosen(an_endpoint("10.0.0.9", ready=False, terminating=True)) == "zone-hints"


@pytest.mark.parametrize(
    ("minor", "gates", "same_as", "title"),
    [
        (33, {"PreferSameTrafficDistribution": True}, 34, "kube-proxy 1.33 with PreferSameTrafficDistribution"),
        (34, {"PreferSameTrafficDistribution": False}, 33, "kube-proxy 1.34 without PreferSameTrafficDistribution"),
        (35, {"PreferSameTrafficDistribution": False}, 35, "kube-proxy 1.35"),
        (30, {"ServiceTrafficDistribution": True}, 31, "kube-proxy 1.30 with ServiceTrafficDistribution"),
        (32, {"TopologyAwareHints": False}, 23, "kube-proxy 1.32 without TopologyAwareHints"),
        (33, {"TopologyAwareHints": False, "Unknown": True}, 33, "kube-proxy 1.33"),
        (23, {"TopologyAwareHints": True}, 24, "kube-proxy 1.23 with TopologyAwareHints"),
        (20, {"TopologyAwareHints": True}, 20, "kube-proxy 1.20"),
        (99, {}, 36, "kube-proxy 1.99"),
    ],
)
def test_gates_count_unless_unknown_or_locked(minor: int, gates: dict[str, bool], same_as: int, title: str) -> None:
    kind = kube_proxy(minor, gates)
    assert kind.consumer == kube_proxy(same_as).consumer
    assert kind.title == title


def test_names_of_kinds_are_unique_and_consumers_are_aliases() -> None:
    assert set(CONSUMERS) <= set(PROXY_KINDS)
    assert all(PROXY_KINDS[name].consumer == consumer for name, consumer in CONSUMERS.items())
    assert all(kind.name == name and kind.about for name, kind in PROXY_KINDS.items())
    assert cilium(17, service_topology=True).title == "cilium 1.17 service topology"
