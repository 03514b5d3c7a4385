"""A new Service is made good and judged as by a kube-apiserver v1.36.3, whose answers stand here word for word."""

# ruff: noqa: E501 -- words of upstream stand whole, to be found

from copy import deepcopy
from typing import Final

import pytest
from tests.sandbox.server.rules.service_desk import (
    BARE,
    CLUSTER_IP,
    DEALT,
    EXTERNAL_NAME,
    HEADLESS,
    IN_EITHER_ORDER,
    LABEL_RULE,
    LOCAL,
    NAME_RULE,
    NO_ADDRESS,
    NO_NETWORK,
    NO_PORT,
    NODE_PORT,
    NODE_PORTS,
    NOT_DUAL,
    PORT,
    PORTS,
    SUBDOMAIN_RULE,
    Spec,
    load_balancer,
    ports,
    refused,
    single,
)

# --- defaults and allocation ------------------------------------------------------------------------------------------

WITH_ADDRESS: Final[Spec] = {
    "type": "ClusterIP",
    "sessionAffinity": "None",
    "internalTrafficPolicy": "Cluster",
    "ports": [PORT],
    "clusterIP": DEALT,
    "clusterIPs": [DEALT],
    "ipFamilies": ["IPv4"],
    "ipFamilyPolicy": "SingleStack",
}
WITH_NODE_PORT: Final[Spec] = WITH_ADDRESS | {
    "type": "NodePort",
    "ports": [PORT | {"nodePort": NODE_PORT}],
    "externalTrafficPolicy": "Cluster",
}
BALANCED: Final[Spec] = WITH_NODE_PORT | {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": True}
NO_HEAD: Final[Spec] = WITH_ADDRESS | {"clusterIP": "None", "clusterIPs": ["None"]}
NO_HEAD_BARE: Final[Spec] = {name: value for name, value in NO_HEAD.items() if name != "ports"} | {
    "ipFamilies": ["IPv4", "IPv6"],
    "ipFamilyPolicy": "RequireDualStack",
}
NAMED: Final[Spec] = {"type": "ExternalName", "externalName": "a.b", "sessionAffinity": "None"}
STICKY: Final[Spec] = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}

CREATED: Final[list[tuple[Spec, Spec]]] = [
    (CLUSTER_IP, WITH_ADDRESS),
    (
        CLUSTER_IP | {"type": "", "sessionAffinity": "", "externalIPs": [], "publishNotReadyAddresses": False},
        WITH_ADDRESS,
    ),
    (
        CLUSTER_IP | {"selector": {}, "externalName": "", "healthCheckNodePort": 0, "internalTrafficPolicy": None},
        WITH_ADDRESS,
    ),
    (
        ports({"port": 80, "name": "", "protocol": "", "targetPort": 0, "nodePort": 0, "appProtocol": None}),
        WITH_ADDRESS,
    ),
    (ports({"port": 80, "targetPort": ""}), WITH_ADDRESS),
    (NODE_PORTS, WITH_NODE_PORT),
    (NODE_PORTS | {"externalTrafficPolicy": ""}, WITH_NODE_PORT),
    (load_balancer(), BALANCED),
    (
        load_balancer(allocateLoadBalancerNodePorts=False),
        BALANCED | {"ports": [PORT], "allocateLoadBalancerNodePorts": False},
    ),
    (LOCAL, BALANCED | {"externalTrafficPolicy": "Local", "healthCheckNodePort": NODE_PORT + 1}),
    (HEADLESS, NO_HEAD | {"selector": {"a": "b"}}),
    (BARE, NO_HEAD_BARE),
    (BARE | {"selector": {}}, NO_HEAD_BARE),
    (BARE | {"ipFamilies": ["IPv6"]}, NO_HEAD_BARE | {"ipFamilies": ["IPv6", "IPv4"]}),
    (BARE | {"ipFamilies": ["IPv4", "IPv6"]}, NO_HEAD_BARE),
    (
        BARE | {"ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"},
        NO_HEAD_BARE | {"ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"},
    ),
    (BARE | {"ipFamilyPolicy": "PreferDualStack"}, NO_HEAD_BARE | {"ipFamilyPolicy": "PreferDualStack"}),
    (EXTERNAL_NAME, NAMED),
    (EXTERNAL_NAME | {"externalName": "a.b.", "ports": PORTS}, NAMED | {"externalName": "a.b.", "ports": [PORT]}),
    (EXTERNAL_NAME | {"externalIPs": ["1.2.3.4"]}, NAMED | {"externalIPs": ["1.2.3.4"]}),
    (EXTERNAL_NAME | {"internalTrafficPolicy": "Local"}, NAMED),
    (EXTERNAL_NAME | {"sessionAffinity": "ClientIP"}, NAMED | STICKY),
    (CLUSTER_IP | {"sessionAffinity": "ClientIP"}, WITH_ADDRESS | STICKY),
    (CLUSTER_IP | {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {}}}, WITH_ADDRESS | STICKY),
    (CLUSTER_IP | {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}}, WITH_ADDRESS),
    (
        CLUSTER_IP | {"externalIPs": ["1.2.3.4"]},
        WITH_ADDRESS | {"externalIPs": ["1.2.3.4"], "externalTrafficPolicy": "Cluster"},
    ),
    (CLUSTER_IP | {"ipFamilyPolicy": "PreferDualStack"}, WITH_ADDRESS | {"ipFamilyPolicy": "PreferDualStack"}),
    (CLUSTER_IP | {"clusterIP": "10.96.0.9"}, WITH_ADDRESS | {"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"]}),
    (
        CLUSTER_IP | {"externalName": "f_oo", "loadBalancerIP": "foo"},
        WITH_ADDRESS | {"externalName": "f_oo", "loadBalancerIP": "foo"},
    ),
    (
        {
            "type": "NodePort",
            "ports": [
                {"port": 80, "name": "a"},
                {"port": 80, "name": "b", "protocol": "UDP"},
                {"port": 80, "name": "c", "protocol": "SCTP"},
                {"port": 81, "name": "d"},
            ],
        },
        WITH_NODE_PORT
        | {
            "ports": [
                PORT | {"name": "a", "nodePort": NODE_PORT},
                PORT | {"name": "b", "nodePort": NODE_PORT, "protocol": "UDP"},
                PORT | {"name": "c", "nodePort": NODE_PORT, "protocol": "SCTP"},
                {"port": 81, "protocol": "TCP", "targetPort": 81, "name": "d", "nodePort": NODE_PORT + 1},
            ]
        },
    ),
    (
        NODE_PORTS | ports({"port": 80, "name": "a"}, {"port": 80, "protocol": "UDP", "name": "b", "nodePort": 31500}),
        WITH_NODE_PORT
        | ports(PORT | {"name": "a", "nodePort": 31500}, PORT | {"name": "b", "nodePort": 31500, "protocol": "UDP"}),
    ),
    (
        load_balancer(allocateLoadBalancerNodePorts=False, ports=[{"port": 80, "nodePort": 30009}]),
        BALANCED | {"ports": [PORT | {"nodePort": 30009}], "allocateLoadBalancerNodePorts": False},
    ),
]


@IN_EITHER_ORDER
@pytest.mark.parametrize(("given", "stored"), CREATED)
def test_a_new_service_gets_what_upstream_gives_it(given: Spec, stored: Spec, *, first: bool) -> None:
    created = single(allocates_first=first).create(given)
    assert (created["spec"], created["status"]) == (stored, {"loadBalancer": {}})


@pytest.mark.parametrize(("given", "stored"), CREATED)
def test_defaults_again_change_nothing(given: Spec, stored: Spec) -> None:
    desk = single()
    created = desk.create(given)
    again = deepcopy(created)
    desk.rules.default(again)
    assert again == created
    assert desk.update(created, {})["spec"] == stored


# --- what is refused of a new one -------------------------------------------------------------------------------------

REFUSED: Final[list[tuple[Spec, list[str]]]] = [
    ({}, ["spec.ports: Required value"]),
    (
        CLUSTER_IP | {"type": "Foo"},
        [
            'spec.type: Unsupported value: "Foo": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"'
        ],
    ),
    # ports
    (
        ports({"port": 0}),
        [f"spec.ports[0].port: Invalid value: 0: {NO_PORT}", f"spec.ports[0].targetPort: Invalid value: 0: {NO_PORT}"],
    ),
    (ports({"port": -1, "targetPort": 5}), [f"spec.ports[0].port: Invalid value: -1: {NO_PORT}"]),
    (ports({"port": 80, "targetPort": 70000}), [f"spec.ports[0].targetPort: Invalid value: 70000: {NO_PORT}"]),
    (ports({"port": 80}, {"port": 81}), ["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"]),
    (ports({"port": 80, "name": "a"}, {"port": 81, "name": "a"}), ['spec.ports[1].name: Duplicate value: "a"']),
    (
        ports({"port": 80, "name": "a"}, {"port": 80, "name": "b"}),
        [
            'spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}'
        ],
    ),
    (ports({"port": 80, "name": "A"}), [f'spec.ports[0].name: Invalid value: "A": {LABEL_RULE}']),
    (ports({"port": 80, "name": "a.b"}), ['spec.ports[0].name: Invalid value: "a.b": must not contain dots']),
    (
        ports({"port": 80, "name": "a" * 64}),
        [f'spec.ports[0].name: Invalid value: "{"a" * 64}": must be no more than 63 characters'],
    ),
    (
        ports({"port": 80, "protocol": "tcp"}),
        ['spec.ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"'],
    ),
    (
        ports({"port": 80, "targetPort": "foo_bar"}),
        [
            'spec.ports[0].targetPort: Invalid value: "foo_bar": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)'
        ],
    ),
    (
        ports({"port": 80, "targetPort": "a-very-long-port"}),
        ['spec.ports[0].targetPort: Invalid value: "a-very-long-port": must be no more than 15 characters'],
    ),
    (
        ports({"port": 80, "targetPort": "123"}),
        ['spec.ports[0].targetPort: Invalid value: "123": must contain at least one letter (a-z)'],
    ),
    (
        ports({"port": 80, "targetPort": "a--b-"}),
        [
            'spec.ports[0].targetPort: Invalid value: "a--b-": must not contain consecutive hyphens',
            'spec.ports[0].targetPort: Invalid value: "a--b-": must not begin or end with a hyphen',
        ],
    ),
    (ports({"port": 80, "appProtocol": "a b"}), [f'spec.ports[0].appProtocol: Invalid value: "a b": {NAME_RULE}']),
    (
        ports({"port": 80, "nodePort": 30000}),
        ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
    ),
    (
        ports({"port": 80, "nodePort": 30001, "name": "a"}, {"port": 81, "nodePort": 30001, "name": "b"}),
        [
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
            "spec.ports[1].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
            "spec.ports[1].nodePort: Duplicate value: 30001",
        ],
    ),
    (
        NODE_PORTS | ports({"port": 80, "nodePort": 29999}),
        [
            "spec.ports[0].nodePort: Invalid value: 29999: provided port is not in the valid range. The range of valid ports is 30000-32767"
        ],
    ),
    (
        NODE_PORTS | ports({"port": 80, "nodePort": 30001, "name": "a"}, {"port": 81, "nodePort": 30001, "name": "b"}),
        ["spec.ports[1].nodePort: Invalid value: 30001: provided port is already allocated"],
    ),
    # affinity, selector
    (
        CLUSTER_IP | {"sessionAffinity": "Foo"},
        ['spec.sessionAffinity: Unsupported value: "Foo": supported values: "ClientIP", "None"'],
    ),
    *(
        (
            CLUSTER_IP
            | {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": seconds}}},
            [
                f"spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: {seconds}: must be greater than 0 and less than 86400"
            ],
        )
        for seconds in (0, 86401)
    ),
    (CLUSTER_IP | {"selector": {"a b": "c"}}, [f'spec.selector: Invalid value: "a b": {NAME_RULE}']),
    # addresses and families
    (
        CLUSTER_IP | {"clusterIP": "1.2.3.4"},
        [
            'spec.clusterIPs: Invalid value: ["1.2.3.4"]: failed to allocate IP 1.2.3.4: the provided network does not match the current range'
        ],
    ),
    (
        CLUSTER_IP | {"clusterIP": "10.96.0.1"},
        [
            'spec.clusterIPs: Invalid value: ["10.96.0.1"]: failed to allocate IP 10.96.0.1: provided IP is already allocated'
        ],
    ),
    (CLUSTER_IP | {"clusterIP": "foo"}, [f'spec.clusterIPs[0]: Invalid value: "foo": {NO_ADDRESS}']),
    (
        CLUSTER_IP | {"clusterIP": "010.96.0.55"},
        ['spec.clusterIPs[0]: Invalid value: "010.96.0.55": must not have leading 0s'],
    ),
    (
        CLUSTER_IP | {"clusterIP": "::ffff:10.96.0.56"},
        ['spec.clusterIPs[0]: Invalid value: "::ffff:10.96.0.56": must not be an IPv4-mapped IPv6 address'],
    ),
    (
        CLUSTER_IP | {"clusterIP": "fd00::1"},
        ['spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster'],
    ),
    (
        CLUSTER_IP | {"clusterIPs": ["10.96.0.9"]},
        ['spec.clusterIPs: Invalid value: ["10.96.0.9"]: must be empty when `clusterIP` is not specified'],
    ),
    (
        CLUSTER_IP | {"clusterIP": "10.96.0.8", "clusterIPs": ["10.96.0.9"]},
        ['spec.clusterIPs: Invalid value: ["10.96.0.9"]: first value must match `clusterIP`'],
    ),
    (
        CLUSTER_IP | {"clusterIP": "10.96.1.1", "clusterIPs": ["10.96.1.1", "foo", "1.2.3.4"]},
        [
            f'spec.clusterIPs[1]: Invalid value: "foo": {NO_ADDRESS}',
            'spec.clusterIPs: Invalid value: ["10.96.1.1","foo","1.2.3.4"]: may only hold up to 2 values',
        ],
    ),
    (
        CLUSTER_IP | {"clusterIP": "10.96.1.1", "clusterIPs": ["10.96.1.1", "10.96.1.2"]},
        [
            'spec.clusterIPs: Invalid value: ["10.96.1.1","10.96.1.2"]: may specify no more than one IP for each IP family'
        ],
    ),
    (
        CLUSTER_IP | {"clusterIP": "10.96.1.1", "clusterIPs": ["10.96.1.1", "fd00::1"]},
        [
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified",
            'spec.clusterIPs[1]: Invalid value: ["10.96.1.1","fd00::1"]: IPv6 is not configured on this cluster',
        ],
    ),
    (
        CLUSTER_IP | {"clusterIP": "None", "clusterIPs": ["None", "None"]},
        [
            'spec.clusterIPs: Invalid value: ["None","None"]: \'None\' must be the first and only value',
            f'spec.clusterIPs[1]: Invalid value: "None": {NO_ADDRESS}',
        ],
    ),
    (
        CLUSTER_IP | {"ipFamilies": ["IPv4"], "clusterIP": "fd00::1"},
        ['spec.clusterIPs[0]: Invalid value: "fd00::1": expected an IPv4 value as indicated by `ipFamilies[0]`'],
    ),
    (
        CLUSTER_IP | {"ipFamilies": ["IPv5"]},
        ['spec.ipFamilies[0]: Unsupported value: "IPv5": supported values: "IPv4", "IPv6"'],
    ),
    (CLUSTER_IP | {"ipFamilies": ["IPv4", "IPv4"]}, ['spec.ipFamilies[1]: Duplicate value: "IPv4"']),
    (
        CLUSTER_IP | {"ipFamilies": ["IPv6"]},
        ['spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster'],
    ),
    (
        CLUSTER_IP | {"ipFamilies": ["IPv4", "IPv6"]},
        [
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"
        ],
    ),
    (
        CLUSTER_IP | {"ipFamilyPolicy": ""},
        [
            'spec.ipFamilyPolicy: Unsupported value: "": supported values: "PreferDualStack", "RequireDualStack", "SingleStack"'
        ],
    ),
    (
        CLUSTER_IP | {"ipFamilyPolicy": "RequireDualStack"},
        [f'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": {NOT_DUAL}'],
    ),
    *(
        (
            CLUSTER_IP | {"type": type_, "clusterIP": "None"},
            [f"spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for {type_} services"],
        )
        for type_ in ("NodePort", "LoadBalancer")
    ),
    # external names
    ({"type": "ExternalName"}, ["spec.externalName: Required value"]),
    (EXTERNAL_NAME | {"externalName": "a_b"}, [f'spec.externalName: Invalid value: "a_b": {SUBDOMAIN_RULE}']),
    (EXTERNAL_NAME | {"clusterIP": "None"}, ["spec.clusterIPs: Forbidden: may not be set for ExternalName services"]),
    (
        EXTERNAL_NAME | {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"},
        [
            "spec.ipFamilies: Forbidden: may not be set for ExternalName services",
            "spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services",
        ],
    ),
    (
        EXTERNAL_NAME | {"internalTrafficPolicy": "Foo"},
        ['spec.internalTrafficPolicy: Unsupported value: "Foo": supported values: "Cluster", "Local"'],
    ),
    # external traffic
    (
        CLUSTER_IP
        | {"externalIPs": ["127.0.0.1", "foo", "0.0.0.0", "224.0.0.1", "1.2.3.4", "1.2.3.4", "01.2.3.4", "fd00:0::1"]},
        [
            'spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)',
            f'spec.externalIPs[1]: Invalid value: "foo": {NO_ADDRESS}',
            'spec.externalIPs[2]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)',
            'spec.externalIPs[3]: Invalid value: "224.0.0.1": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)',
            'spec.externalIPs[6]: Invalid value: "01.2.3.4": must not have leading 0s',
        ],
    ),
    (
        CLUSTER_IP | {"externalTrafficPolicy": "Local"},
        ['spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services'],
    ),
    (
        NODE_PORTS | {"externalTrafficPolicy": "Foo"},
        ['spec.externalTrafficPolicy: Unsupported value: "Foo": supported values: "Cluster", "Local"'],
    ),
    (
        CLUSTER_IP | {"internalTrafficPolicy": ""},
        ['spec.internalTrafficPolicy: Unsupported value: "": supported values: "Cluster", "Local"'],
    ),
    (
        load_balancer(healthCheckNodePort=30500),
        [
            "spec.healthCheckNodePort: Invalid value: 30500: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        ],
    ),
    # load balancers
    (
        CLUSTER_IP | {"loadBalancerSourceRanges": ["1.2.3.0/24"]},
        ["spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'"],
    ),
    (
        load_balancer(
            loadBalancerSourceRanges=[
                "foo",
                "1.2.3.4/24",
                "1.2.3.0/33",
                " 1.2.3.0/24",
                "fd00::/8",
                "01.2.3.0/24",
                "1.2.3.4",
                "::ffff:1.2.3.0/120",
                "1.2.3.0/024",
                "1.2.3.0/255.0.0.0",
            ]
        ),
        [
            f'spec.LoadBalancerSourceRanges[0]: Invalid value: "foo": {NO_NETWORK}',
            'spec.LoadBalancerSourceRanges[1]: Invalid value: "1.2.3.4/24": must not have bits set beyond the prefix length',
            f'spec.LoadBalancerSourceRanges[2]: Invalid value: "1.2.3.0/33": {NO_NETWORK}',
            'spec.LoadBalancerSourceRanges[5]: Invalid value: "01.2.3.0/24": must not have leading 0s in IP or prefix length',
            f'spec.LoadBalancerSourceRanges[6]: Invalid value: "1.2.3.4": {NO_NETWORK}',
            'spec.LoadBalancerSourceRanges[7]: Invalid value: "::ffff:1.2.3.0/120": must not have an IPv4-mapped IPv6 address',
            'spec.LoadBalancerSourceRanges[8]: Invalid value: "1.2.3.0/024": must not have leading 0s in IP or prefix length',
            f'spec.LoadBalancerSourceRanges[9]: Invalid value: "1.2.3.0/255.0.0.0": {NO_NETWORK}',
        ],
    ),
    (
        NODE_PORTS | {"allocateLoadBalancerNodePorts": True},
        ["spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'"],
    ),
    (
        CLUSTER_IP | {"loadBalancerClass": "foo"},
        ["spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"],
    ),
    (
        load_balancer(loadBalancerClass=""),
        [
            'spec.loadBalancerClass: Invalid value: "": name part must be non-empty',
            f'spec.loadBalancerClass: Invalid value: "": {NAME_RULE}',
        ],
    ),
    # distribution
    *(
        (
            CLUSTER_IP | {"trafficDistribution": value},
            [
                f'spec.trafficDistribution: Unsupported value: "{value}": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"'
            ],
        )
        for value in ("Foo", "")
    ),
    # in this order
    (
        {
            "ports": [
                {"port": 80, "nodePort": 30001, "name": "A b", "protocol": "x", "targetPort": "_"},
                {"port": 80, "protocol": "x"},
            ],
            "selector": {"a b": "c"},
            "sessionAffinity": "x",
            "externalIPs": ["a"],
            "loadBalancerSourceRanges": ["1"],
            "externalTrafficPolicy": "x",
            "internalTrafficPolicy": "x",
            "trafficDistribution": "x",
            "healthCheckNodePort": 3,
            "loadBalancerClass": "x y",
            "type": "Foo",
            "allocateLoadBalancerNodePorts": True,
        },
        [
            f'spec.ports[0].name: Invalid value: "A b": {LABEL_RULE}',
            'spec.ports[0].protocol: Unsupported value: "x": supported values: "SCTP", "TCP", "UDP"',
            'spec.ports[0].targetPort: Invalid value: "_": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)',
            'spec.ports[0].targetPort: Invalid value: "_": must contain at least one letter (a-z)',
            "spec.ports[1].name: Required value",
            'spec.ports[1].protocol: Unsupported value: "x": supported values: "SCTP", "TCP", "UDP"',
            f'spec.selector: Invalid value: "a b": {NAME_RULE}',
            'spec.sessionAffinity: Unsupported value: "x": supported values: "ClientIP", "None"',
            f'spec.externalIPs[0]: Invalid value: "a": {NO_ADDRESS}',
            'spec.type: Unsupported value: "Foo": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"',
            'spec.ports[1]: Duplicate value: {"Name":"","Protocol":"x","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}',
            "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
            f'spec.LoadBalancerSourceRanges[0]: Invalid value: "1": {NO_NETWORK}',
            "spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'",
            "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
            'spec.externalTrafficPolicy: Invalid value: "x": may only be set for externally-accessible services',
            "spec.healthCheckNodePort: Invalid value: 3: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
            'spec.internalTrafficPolicy: Unsupported value: "x": supported values: "Cluster", "Local"',
            'spec.trafficDistribution: Unsupported value: "x": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"',
        ],
    ),
]


@IN_EITHER_ORDER
@pytest.mark.parametrize(("given", "told"), REFUSED)
def test_a_new_service_is_refused_in_upstreams_words(given: Spec, told: list[str], *, first: bool) -> None:
    desk = single(allocates_first=first)
    assert refused(desk, given) == told
    # Nothing is kept of what was taken on the way.
    assert desk.create(NODE_PORTS | {"clusterIP": "10.96.1.1"} | ports({"port": 80, "nodePort": 30001}))
