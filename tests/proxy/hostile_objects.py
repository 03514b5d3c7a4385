"""What a lying API server says: every text and number of a Service, its slices and its Node may be anything."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec
from hypothesis import strategies as st
from tests.builders import objects

from zoneward.kube.names import SERVICE_NAME_LABEL, ZONE_LABEL, ZONE_WEIGHTS_ANNOTATION, ZONES_ANNOTATION
from zoneward.kube.objects import EndpointSlice, Node, Service
from zoneward.netlink.messages import FAMILIES, Family
from zoneward.proxy.model.node_service import NodeService, ProxyNode, node_services, resolve_ownership
from zoneward.proxy.proxy_configuration import ProxyConfiguration, node_port_addresses, ruleset_options
from zoneward.proxy.ruleset.base_rules import RulesetOptions
from zoneward.proxy.ruleset.ruleset import Ruleset
from zoneward.proxy.ruleset.ruleset_state import full_ruleset
from zoneward.routing.configuration import FeatureGates
from zoneward.routing.selection.endpoint_selection import ZONEWARD

T = TypeVar("T")
SETTINGS: Final = ProxyConfiguration(cluster_cidrs=("10.244.0.0/16", "fd00:244::/64"), service_cidrs=("10.96.0.0/12",))
_PORTS: Final = [
    {"name": "web", "protocol": "TCP", "port": 80, "nodePort": 30_080},
    {"name": "dns", "protocol": "UDP", "port": 53, "nodePort": 30_053},
]


def _service(name: str, host: int, **spec: Any) -> dict[str, Any]:
    given = {
        "type": "LoadBalancer",
        "clusterIP": f"10.96.0.{host}",
        "clusterIPs": [f"10.96.0.{host}", f"fd00:96::{host}"],
        "externalIPs": [f"198.51.100.{host}", f"2001:db8::{host}"],
        "loadBalancerSourceRanges": ["203.0.113.0/24", "2001:db8:1::/48"],
        "ports": _PORTS,
        "internalTrafficPolicy": "Cluster",
        "externalTrafficPolicy": "Cluster",
    }
    ingress = [{"ip": f"192.0.2.{host}", "ipMode": "VIP"}, {"ip": "2001:db8:2::1"}]
    document = objects.a_service(name, namespace="shop", **given | spec)
    document["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return document | {"status": {"loadBalancer": {"ingress": ingress}}}


def _slice(service: str, kind: str, *addresses: str) -> dict[str, Any]:
    document = objects.a_slice(
        f"{service}-{kind}",
        service=service,
        addresses=addresses,
        namespace="shop",
        node="n1",
        zone="a",
        labels={ZONE_LABEL: "a"},
    )
    document["metadata"]["annotations"] = {
        ZONES_ANNOTATION: "a=0.75,b=0.25",
        ZONE_WEIGHTS_ANNOTATION: '{"counts":{"a":1},"shares":{"a":{"a":1.0}}}',
    }
    ports = [{"name": port["name"], "protocol": port["protocol"], "port": 8080} for port in _PORTS]
    return document | {"addressType": kind, "ports": ports}


DOCUMENT: Final[Mapping[str, Any]] = {
    "services": [
        _service("cart", 1),
        _service(
            "mail",
            2,
            externalTrafficPolicy="Local",
            healthCheckNodePort=31_000,
            sessionAffinity="ClientIP",
            sessionAffinityConfig={"clientIP": {"timeoutSeconds": 60}},
        ),
    ],
    "slices": [
        _slice("cart", "IPv4", "10.244.0.1", "10.244.0.2"),
        _slice("cart", "IPv6", "fd00:244::1"),
        _slice("mail", "IPv4", "10.244.0.3"),
        _slice("mail", "IPv6", "fd00:244::3"),
    ],
    "node": {
        "metadata": {"name": "n1", "labels": {ZONE_LABEL: "a"}},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": "192.0.2.10"},
                {"type": "InternalIP", "address": "2001:db8::10"},
                {"type": "ExternalIP", "address": "203.0.113.10"},
            ]
        },
    },
}


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    match value:
        case dict() | list():
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                yield from _paths(item, (*path, key))
        case bool():
            return
        case _:
            yield path


PATHS: Final = tuple(_paths(DOCUMENT))
"""Paths of all texts and numbers."""
INJECTED: Final = "add table inet X"
TEXTS: Final = (
    f"10.96.0.1 }}\n{INJECTED}\n",
    f"192.168.77.1 }}\n{INJECTED}",
    f"fe80::1%x }}\n{INJECTED}\n",
    f"10.0.0.0/8 }} drop\n{INJECTED}\n#",
    f"TCP . 1 : goto nobody }}\n{INJECTED}\n",
    f'"\n{INJECTED}\n"',
    f"\r\n{INJECTED};",
    f"\\\n{INJECTED}\\",
    'include "/dev/zero"',
    "10.0.0.1, 10.0.0.2",
    "10.0.0.1-10.0.0.9",
    "10.0.0.1/8",
    "10.0.0.1\n",
    " 10.0.0.1",
    "::ffff:10.96.0.1",
    "0x0a.0.0.1",
    "10.0.0.900",
    "10.0.0.1 . tcp . 80",
    "$variable",
    "@services",
    "garbage",
    "localhost",
    "a\0b",
    "a" * 300,
    "ä\u202eé",
    "",
    "127.0.0.1",
    "169.254.169.254",
    "0.0.0.0/0",
)
NUMBERS: Final = (-1, 0, 65_536, 1 << 31, 1 << 63, 80)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A cluster of which some texts and numbers are hostile."""
    document: dict[str, Any] = copy.deepcopy(dict(DOCUMENT))
    for *path, last in draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=6, unique=True)):
        inner: Any = document
        for key in path:
            inner = inner[key]
        values = NUMBERS if isinstance(inner[last], int) else TEXTS
        inner[last] = draw(
            st.sampled_from(values) if isinstance(inner[last], int) else st.sampled_from(TEXTS) | st.text()
        )
    return document


def rulesets(document: Mapping[str, Any]) -> dict[Family, Ruleset]:
    """What a node would program for this cluster, by family."""
    node = msgspec.convert(document["node"], Node)
    options = ruleset_options(SETTINGS, node)
    asked: dict[Family, list[NodeService]] = {family: [] for family in FAMILIES}
    slices = list(_readable(document["slices"], EndpointSlice))
    for service in _readable(document["services"], Service):
        own = [
            slice_
            for slice_ in slices
            if (slice_.metadata.labels or {}).get(SERVICE_NAME_LABEL) in (service.metadata.name, "cart")
        ]
        for served in node_services(
            service, own, node=ProxyNode(name="n1", zone="a"), consumer=ZONEWARD, gates=FeatureGates()
        ):
            asked[served.family].append(served)
    return {family: _whole(family, services, options, node) for family, services in asked.items()}


def _readable(documents: Iterable[Mapping[str, Any]], kind: type[T]) -> Iterator[T]:
    """The objects that a watch can decode."""
    for document in documents:
        with suppress(msgspec.ValidationError):
            yield msgspec.convert(document, kind)


def _whole(family: Family, services: list[NodeService], options: RulesetOptions, node: Node) -> Ruleset:
    own = node_port_addresses(options, node).get(family, frozenset())
    return full_ruleset(
        family, resolve_ownership(services, node_addresses=own, on_conflict=lambda _what: None), options=options
    )
