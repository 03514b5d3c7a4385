"""What an update of a Service keeps, drops and may not do: as a kube-apiserver v1.36.3 answers."""

# ruff: noqa: E501 -- words of upstream stand whole, to be found

from typing import Final

import pytest
from tests.sandbox.server.rules.service_desk import (
    BARE,
    CLUSTER_IP,
    DEALT,
    EXTERNAL_NAME,
    HEADLESS,
    IN_EITHER_ORDER,
    LOCAL,
    NAME_RULE,
    NO_ADDRESS,
    NO_PORT,
    NODE_PORT,
    NODE_PORTS,
    NOT_DUAL,
    PORT,
    PORTS,
    InvalidError,
    Spec,
    load_balancer,
    ports,
    refused,
    single,
)

ONCE: Final = "may not change once set"
KEPT: Final[Spec] = {}
"""The spec stays as it was."""
GONE: Final = None

CHANGED: Final[list[tuple[Spec, Spec, Spec]]] = [
    # what is left out
    (CLUSTER_IP, {"clusterIP": "", "clusterIPs": []}, KEPT),
    (CLUSTER_IP, {"clusterIP": None}, KEPT),
    (CLUSTER_IP, {"clusterIPs": None}, KEPT),
    (CLUSTER_IP, {"clusterIP": None, "clusterIPs": None, "ipFamilies": None, "ipFamilyPolicy": None}, KEPT),
    (CLUSTER_IP, {"ipFamilies": []}, KEPT),
    (CLUSTER_IP | {"ipFamilyPolicy": "PreferDualStack"}, {"ipFamilyPolicy": None}, KEPT),
    (HEADLESS, {"clusterIP": "", "clusterIPs": []}, KEPT),
    (HEADLESS, {"selector": None}, {"selector": GONE}),
    (LOCAL, {"healthCheckNodePort": None}, KEPT),
    (load_balancer(), {"allocateLoadBalancerNodePorts": None}, KEPT),
    (
        CLUSTER_IP | {"internalTrafficPolicy": "Local"},
        {"internalTrafficPolicy": None},
        {"internalTrafficPolicy": "Cluster"},
    ),
    (LOCAL, {"externalTrafficPolicy": None}, {"externalTrafficPolicy": "Cluster", "healthCheckNodePort": GONE}),
    # other types
    (
        CLUSTER_IP,
        {"type": "NodePort"},
        {"type": "NodePort", "ports": [PORT | {"nodePort": NODE_PORT}], "externalTrafficPolicy": "Cluster"},
    ),
    (
        CLUSTER_IP,
        {"type": "LoadBalancer"},
        {
            "type": "LoadBalancer",
            "ports": [PORT | {"nodePort": NODE_PORT}],
            "externalTrafficPolicy": "Cluster",
            "allocateLoadBalancerNodePorts": True,
        },
    ),
    *(
        (
            base,
            EXTERNAL_NAME,
            EXTERNAL_NAME
            | dict.fromkeys(
                (
                    "clusterIP",
                    "clusterIPs",
                    "ipFamilies",
                    "ipFamilyPolicy",
                    "internalTrafficPolicy",
                    "externalTrafficPolicy",
                    "allocateLoadBalancerNodePorts",
                )
            )
            | {"ports": [PORT]},
        )
        for base in (CLUSTER_IP, NODE_PORTS, load_balancer())
    ),
    (NODE_PORTS, {"type": "ClusterIP"}, {"type": "ClusterIP", "ports": [PORT], "externalTrafficPolicy": GONE}),
    (NODE_PORTS, {"type": "LoadBalancer"}, {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": True}),
    (
        load_balancer(loadBalancerClass="a/b"),
        {"type": "ClusterIP"},
        {
            "type": "ClusterIP",
            "ports": [PORT],
            "externalTrafficPolicy": GONE,
            "allocateLoadBalancerNodePorts": GONE,
            "loadBalancerClass": GONE,
        },
    ),
    (
        LOCAL,
        {"type": "NodePort"},
        {"type": "NodePort", "healthCheckNodePort": GONE, "allocateLoadBalancerNodePorts": GONE},
    ),
    (LOCAL, {"externalTrafficPolicy": "Cluster"}, {"externalTrafficPolicy": "Cluster", "healthCheckNodePort": GONE}),
    (
        load_balancer(),
        {"externalTrafficPolicy": "Local"},
        {"externalTrafficPolicy": "Local", "healthCheckNodePort": NODE_PORT + 1},
    ),
    (
        EXTERNAL_NAME,
        {"type": "ClusterIP", "ports": PORTS, "clusterIP": "10.96.0.9"},
        {
            "type": "ClusterIP",
            "ports": [PORT],
            "clusterIP": "10.96.0.9",
            "clusterIPs": ["10.96.0.9"],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
    ),
    (
        EXTERNAL_NAME,
        {"type": "ClusterIP", "clusterIP": "None"},
        {
            "type": "ClusterIP",
            "clusterIP": "None",
            "clusterIPs": ["None"],
            "ipFamilies": ["IPv4", "IPv6"],
            "ipFamilyPolicy": "RequireDualStack",
            "internalTrafficPolicy": "Cluster",
        },
    ),
    (
        CLUSTER_IP | {"externalIPs": ["1.2.3.4"], "externalTrafficPolicy": "Local"},
        {"externalIPs": []},
        {"externalIPs": GONE, "externalTrafficPolicy": GONE},
    ),
    (
        BARE,
        EXTERNAL_NAME | {"clusterIPs": None},
        EXTERNAL_NAME
        | dict.fromkeys(("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")),
    ),
    (LOCAL, {"externalIPs": ["1.2.3.4"]}, {"externalIPs": ["1.2.3.4"]}),
    # node ports
    (NODE_PORTS, {"ports": PORTS}, KEPT),
    (
        NODE_PORTS,
        {"ports": [{"port": 81}]},
        {"ports": [{"port": 81, "protocol": "TCP", "targetPort": 81, "nodePort": NODE_PORT}]},
    ),
    (NODE_PORTS, {"ports": [{"port": 80, "name": "a"}]}, {"ports": [PORT | {"name": "a", "nodePort": NODE_PORT + 1}]}),
    (
        NODE_PORTS | ports({"port": 80, "name": "a", "nodePort": 31997}, {"port": 81, "name": "b"}),
        ports({"port": 80, "name": "b", "nodePort": 31997}, {"port": 81, "name": "a"}),
        ports(
            PORT | {"name": "b", "nodePort": 31997},
            {"port": 81, "protocol": "TCP", "targetPort": 81, "name": "a", "nodePort": NODE_PORT + 1},
        ),
    ),
    (
        NODE_PORTS | ports({"port": 80, "name": "a", "nodePort": 31997}),
        ports({"port": 80, "name": "a"}, {"port": 80, "name": "a2", "protocol": "UDP"}),
        ports(PORT | {"name": "a", "nodePort": 31997}, PORT | {"name": "a2", "protocol": "UDP", "nodePort": NODE_PORT}),
    ),
    (
        NODE_PORTS | ports({"port": 80, "nodePort": 31001}),
        {"type": "ClusterIP"} | ports({"port": 80, "name": "a", "nodePort": 31001}, {"port": 81, "name": "b"}),
        {"type": "ClusterIP", "externalTrafficPolicy": GONE}
        | ports(PORT | {"name": "a"}, {"port": 81, "protocol": "TCP", "targetPort": 81, "name": "b"}),
    ),
    (load_balancer(), {"allocateLoadBalancerNodePorts": False}, {"allocateLoadBalancerNodePorts": False}),
    (
        LOCAL,
        {"allocateLoadBalancerNodePorts": False, "externalTrafficPolicy": "Cluster"},
        {"allocateLoadBalancerNodePorts": False, "externalTrafficPolicy": "Cluster", "healthCheckNodePort": GONE},
    ),
    (
        load_balancer(allocateLoadBalancerNodePorts=False, ports=[{"port": 80, "nodePort": 30009}]),
        {"type": "ClusterIP"},
        {"type": "ClusterIP", "ports": [PORT], "externalTrafficPolicy": GONE, "allocateLoadBalancerNodePorts": GONE},
    ),
    (
        HEADLESS,
        EXTERNAL_NAME | {"ports": None},
        EXTERNAL_NAME
        | dict.fromkeys(("ports", "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")),
    ),
    (
        NODE_PORTS,
        EXTERNAL_NAME | {"ports": None},
        EXTERNAL_NAME
        | dict.fromkeys(("ports", "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"))
        | dict.fromkeys(("internalTrafficPolicy", "externalTrafficPolicy")),
    ),
    (
        load_balancer(),
        {"allocateLoadBalancerNodePorts": False, "ports": PORTS},
        {"allocateLoadBalancerNodePorts": False, "ports": [PORT]},
    ),
    (
        load_balancer(allocateLoadBalancerNodePorts=False),
        {"allocateLoadBalancerNodePorts": True},
        {"allocateLoadBalancerNodePorts": True, "ports": [PORT | {"nodePort": NODE_PORT}]},
    ),
    (
        CLUSTER_IP,
        EXTERNAL_NAME | ports({"port": 80, "nodePort": 31001}),
        EXTERNAL_NAME
        | ports(PORT | {"nodePort": 31001})
        | dict.fromkeys(("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")),
    ),
    # families
    (CLUSTER_IP, {"ipFamilyPolicy": "PreferDualStack"}, {"ipFamilyPolicy": "PreferDualStack"}),
    (
        CLUSTER_IP | {"ipFamilyPolicy": "PreferDualStack"},
        {"ipFamilyPolicy": "SingleStack"},
        {"ipFamilyPolicy": "SingleStack"},
    ),
    (BARE, {"ipFamilyPolicy": "SingleStack"}, {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]}),
    (BARE, {"ipFamilies": ["IPv6", "IPv4"]}, {"ipFamilies": ["IPv6", "IPv4"]}),
    (BARE | {"ipFamilies": ["IPv6"]}, {"ipFamilies": None}, {"ipFamilies": ["IPv4", "IPv6"]}),
    # affinity
    (
        CLUSTER_IP | {"sessionAffinity": "ClientIP"},
        {"sessionAffinity": "None"},
        {"sessionAffinity": "None", "sessionAffinityConfig": GONE},
    ),
]


@IN_EITHER_ORDER
@pytest.mark.parametrize(("base", "changes", "difference"), CHANGED)
def test_an_update_keeps_and_drops_what_upstream_does(
    base: Spec, changes: Spec, difference: Spec, *, first: bool
) -> None:
    desk = single(allocates_first=first)
    old = desk.create(base)
    new = desk.update(old, changes)
    wanted = {name: value for name, value in (old["spec"] | difference).items() if value is not None}
    assert new["spec"] == wanted
    assert desk.update(new, {}) == new


FORBIDDEN: Final[list[tuple[Spec, Spec, list[str]]]] = [
    (CLUSTER_IP, {"clusterIP": "10.96.7.7"}, [f'spec.clusterIPs[0]: Invalid value: ["10.96.7.7"]: {ONCE}']),
    (
        CLUSTER_IP,
        {"clusterIP": "10.96.7.7", "clusterIPs": []},
        [f'spec.clusterIPs[0]: Invalid value: ["10.96.7.7"]: {ONCE}'],
    ),
    (
        CLUSTER_IP,
        {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"]},
        [f'spec.clusterIPs[0]: Invalid value: ["10.96.0.1"]: {ONCE}'],
    ),
    (CLUSTER_IP, {"clusterIP": "None"}, [f'spec.clusterIPs[0]: Invalid value: ["None"]: {ONCE}']),
    (CLUSTER_IP, {"clusterIP": "foo"}, [f'spec.clusterIPs[0]: Invalid value: "foo": {NO_ADDRESS}']),
    (
        CLUSTER_IP,
        {"clusterIPs": ["10.96.7.7"]},
        ['spec.clusterIPs: Invalid value: ["10.96.7.7"]: first value must match `clusterIP`'],
    ),
    (HEADLESS, {"clusterIP": "10.96.7.7"}, [f'spec.clusterIPs[0]: Invalid value: ["10.96.7.7"]: {ONCE}']),
    (
        HEADLESS,
        {"type": "NodePort"},
        ["spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"],
    ),
    (
        CLUSTER_IP,
        {"clusterIP": "10.96.7.7", "ports": [{"port": 0}]},
        [
            f'spec.clusterIPs[0]: Invalid value: ["10.96.7.7"]: {ONCE}',
            f"spec.ports[0].port: Invalid value: 0: {NO_PORT}",
            f"spec.ports[0].targetPort: Invalid value: 0: {NO_PORT}",
        ],
    ),
    (
        CLUSTER_IP,
        EXTERNAL_NAME | {"clusterIP": "10.96.7.7"},
        ["spec.clusterIPs: Forbidden: may not be set for ExternalName services"],
    ),
    (
        CLUSTER_IP,
        EXTERNAL_NAME | {"ipFamilyPolicy": "PreferDualStack"},
        ["spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services"],
    ),
    (
        EXTERNAL_NAME,
        {"type": "ClusterIP", "ports": PORTS, "clusterIP": "10.96.0.1"},
        [
            'spec.clusterIPs: Invalid value: ["10.96.0.1"]: failed to allocate IP 10.96.0.1: provided IP is already allocated'
        ],
    ),
    (
        CLUSTER_IP,
        {"ipFamilies": ["IPv6"]},
        [f'spec.clusterIPs[0]: Invalid value: "{DEALT}": expected an IPv6 value as indicated by `ipFamilies[0]`'],
    ),
    (
        CLUSTER_IP,
        {"ipFamilyPolicy": "RequireDualStack"},
        [f'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": {NOT_DUAL}'],
    ),
    (
        CLUSTER_IP,
        {"ipFamilies": ["IPv4", "IPv6"]},
        [
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"
        ],
    ),
    (
        BARE,
        {"ipFamilies": ["IPv4"]},
        [
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary IP family"
        ],
    ),
    (
        BARE,
        {"selector": {"a": "b"}},
        [
            f'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": {NOT_DUAL}',
            'spec.ipFamilies[1]: Invalid value: "IPv6": not configured on this cluster',
        ],
    ),
    (NODE_PORTS, {"ports": []}, ["spec.ports: Required value"]),
    (
        NODE_PORTS,
        {"ports": [{"port": 80, "nodePort": 29000}]},
        [
            "spec.ports[0].nodePort: Invalid value: 29000: provided port is not in the valid range. The range of valid ports is 30000-32767"
        ],
    ),
    (
        NODE_PORTS,
        {"type": "ClusterIP", "ports": [{"port": 80, "nodePort": 31995}]},
        ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
    ),
    (load_balancer(), {"loadBalancerClass": "a/b"}, [f'spec.loadBalancerClass: Invalid value: "a/b": {ONCE}']),
    (
        load_balancer(loadBalancerClass="a/b"),
        {"loadBalancerClass": None},
        [f"spec.loadBalancerClass: Invalid value: null: {ONCE}"],
    ),
    (
        load_balancer(loadBalancerClass="a/b"),
        {"type": "NodePort", "loadBalancerClass": "a/c"},
        ["spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"],
    ),
    (
        LOCAL | {"loadBalancerClass": "a/b"},
        {"healthCheckNodePort": 31000, "loadBalancerClass": "x y", "trafficDistribution": "x"},
        [
            f'spec.loadBalancerClass: Invalid value: "x y": {ONCE}',
            "spec.healthCheckNodePort: Forbidden: field is immutable",
            f'spec.loadBalancerClass: Invalid value: "x y": {NAME_RULE}',
            'spec.trafficDistribution: Unsupported value: "x": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"',
        ],
    ),
    (
        LOCAL | {"healthCheckNodePort": 31998},
        {"healthCheckNodePort": 31999, "externalTrafficPolicy": "Cluster"},
        [
            "spec.healthCheckNodePort: Invalid value: 31999: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        ],
    ),
    (
        load_balancer(allocateLoadBalancerNodePorts=False),
        {"type": "NodePort", "allocateLoadBalancerNodePorts": True},
        ["spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'"],
    ),
    (
        load_balancer(loadBalancerSourceRanges=["1.2.3.0/24"]),
        {"type": "ClusterIP"},
        ["spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'"],
    ),
    (
        CLUSTER_IP | {"externalIPs": ["1.2.3.4"]},
        {"externalIPs": [], "externalTrafficPolicy": "Local"},
        ['spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services'],
    ),
]


@IN_EITHER_ORDER
@pytest.mark.parametrize(("base", "changes", "told"), FORBIDDEN)
def test_an_update_is_refused_in_upstreams_words(base: Spec, changes: Spec, told: list[str], *, first: bool) -> None:
    desk = single(allocates_first=first)
    old = desk.create(base)
    with pytest.raises(InvalidError) as found:
        desk.update(old, changes)
    assert found.value.told == told
    # What the old one has is still its own, and nothing else was taken.
    assert desk.update(old, {}) == old
    assert refused(desk, CLUSTER_IP | {"clusterIP": "10.96.0.1"}, name="other")
    desk.create(NODE_PORTS | {"clusterIP": "10.96.7.7"} | ports({"port": 80, "nodePort": 31995}), name="other")
