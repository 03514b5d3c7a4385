"""What is wrong with new objects: a field, what it is set to, and which causes the server names for it.

All of it is taken from answers of kube-apiserver v1.36.3.
"""

from typing import Final

from tests.contract.objects import ABSENT

Case = tuple[str, object, list[tuple[str, str]]]
Cases = list[Case]


def case(field: str, value: object, message: str, *others: tuple[str, str]) -> Case:
    """``message`` is said of the field itself, what ``others`` hold of those that they name."""
    return field, value, [(field, message), *others]


LONG: Final = "a" * 64
LABEL: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
NAME: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

SERVICES: Final[Cases] = [
    case("metadata.name", "Cart", f'Invalid value: "Cart": {LABEL}'),
    case("metadata.name", LONG, f'Invalid value: "{LONG}": must be no more than 63 characters'),
    case("metadata.name", "", "Required value: name or generateName is required"),
    case("spec.ports", [], "Required value"),
    case("spec.ports[0].port", 0, "Invalid value: 0: must be between 1 and 65535, inclusive"),
    case("spec.ports[0].port", 65536, "Invalid value: 65536: must be between 1 and 65535, inclusive"),
    case("spec.ports[0].protocol", "HTTP", 'Unsupported value: "HTTP": supported values: "SCTP", "TCP", "UDP"'),
    case(
        "spec.ports[0].targetPort",
        "a name",
        ('Invalid value: "a name": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)'),
    ),
    case("spec.ports[0].name", "Http", f'Invalid value: "Http": {LABEL}'),
    ("spec.ports[1]", {"port": 81}, [("spec.ports[1].name", "Required value")]),
    ("spec.ports[1]", {"name": "http", "port": 81}, [("spec.ports[1].name", 'Duplicate value: "http"')]),
    case(
        "spec.ports[1]",
        {"name": "more", "port": 80},
        ('Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}'),
    ),
    case(
        "spec.type",
        "Internal",
        ('Unsupported value: "Internal": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"'),
    ),
    ("spec.type", "ExternalName", [("spec.externalName", "Required value")]),
    case("spec.selector", {"-a": "b"}, f'Invalid value: "-a": {NAME}'),
    case("spec.selector", {"a": "b c"}, f'Invalid value: "b c": {VALUE}'),
    case("spec.sessionAffinity", "Always", 'Unsupported value: "Always": supported values: "ClientIP", "None"'),
    (
        "spec.clusterIP",
        "10.0.0",
        [
            (
                "spec.clusterIPs[0]",
                'Invalid value: "10.0.0": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
            )
        ],
    ),
    (
        "spec.externalIPs",
        ["127.0.0.1"],
        [
            (
                "spec.externalIPs[0]",
                'Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)',
            )
        ],
    ),
    (
        "spec.externalIPs",
        ["x"],
        [("spec.externalIPs[0]", 'Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)')],
    ),
    case(
        "spec.externalTrafficPolicy",
        "Local",
        'Invalid value: "Local": may only be set for externally-accessible services',
    ),
    case("spec.internalTrafficPolicy", "Nearest", 'Unsupported value: "Nearest": supported values: "Cluster", "Local"'),
    case(
        "spec.trafficDistribution",
        "PreferFar",
        ('Unsupported value: "PreferFar": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"'),
    ),
    case("spec.ports[0].appProtocol", "a b", f'Invalid value: "a b": {NAME}'),
    case("spec.ports[0].nodePort", 30000, "Forbidden: may not be used when `type` is 'ClusterIP'"),
    case("spec.loadBalancerClass", "a/b", "Forbidden: may only be used when `type` is 'LoadBalancer'"),
    (
        "spec.ipFamilies",
        ["IPv5"],
        [("spec.ipFamilies[0]", 'Unsupported value: "IPv5": supported values: "IPv4", "IPv6"')],
    ),
    case(
        "spec.ipFamilyPolicy",
        "Many",
        ('Unsupported value: "Many": supported values: "PreferDualStack", "RequireDualStack", "SingleStack"'),
    ),
    case(
        "spec.healthCheckNodePort",
        30000,
        ("Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"),
    ),
    (
        "spec.loadBalancerSourceRanges",
        ["10.0.0.0/8"],
        [("spec.LoadBalancerSourceRanges", "Forbidden: may only be used when `type` is 'LoadBalancer'")],
    ),
    case("metadata.labels", {"a b": "c"}, f'Invalid value: "a b": {NAME}'),
    case("metadata.labels", {"a": "b c"}, f'Invalid value: "b c": {VALUE}'),
    case("metadata.annotations", {"a b": "c"}, f'Invalid value: "a b": {NAME}'),
    (
        "metadata.finalizers",
        ["mine"],
        [
            (
                "metadata.finalizers[0]",
                ('Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified'),
            )
        ],
    ),
    (
        "metadata.ownerReferences",
        [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": ""}],
        [
            ("metadata.ownerReferences.name", 'Invalid value: "": must not be empty'),
            ("metadata.ownerReferences.uid", 'Invalid value: "": must not be empty'),
        ],
    ),
]
PODS: Final[Cases] = [
    case("metadata.name", "Pod", f'Invalid value: "Pod": {SUBDOMAIN}'),
    case("spec.containers", [], "Required value"),
    case("spec.containers[0].name", "", "Required value"),
    case("spec.containers[0].name", "a.b", 'Invalid value: "a.b": must not contain dots'),
    case("spec.containers[0].image", "", "Required value"),
    case("spec.containers[0].image", " a", 'Invalid value: " a": must not have leading or trailing whitespace'),
    ("spec.containers[1]", {"name": "main", "image": "b"}, [("spec.containers[1].name", 'Duplicate value: "main"')]),
    (
        "spec.containers[0].ports",
        [{"containerPort": 0}],
        [("spec.containers[0].ports[0].containerPort", "Required value")],
    ),
    (
        "spec.containers[0].ports",
        [{"containerPort": 70000}],
        [("spec.containers[0].ports[0].containerPort", "Invalid value: 70000: must be between 1 and 65535, inclusive")],
    ),
    (
        "spec.containers[0].ports",
        [{"containerPort": 80, "protocol": "X"}],
        [("spec.containers[0].ports[0].protocol", 'Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"')],
    ),
    (
        "spec.containers[0].ports",
        [{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}],
        [("spec.containers[0].ports[1].name", 'Duplicate value: "a"')],
    ),
    case(
        "spec.restartPolicy",
        "Sometimes",
        'Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
    ),
    case(
        "spec.dnsPolicy",
        "X",
        ('Unsupported value: "X": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"'),
    ),
    case("spec.nodeName", "A b", f'Invalid value: "A b": {SUBDOMAIN}'),
    case(
        "spec.containers[0].imagePullPolicy",
        "Maybe",
        'Unsupported value: "Maybe": supported values: "Always", "IfNotPresent", "Never"',
    ),
    case("spec.nodeSelector", {"a": "b c"}, f'Invalid value: "b c": {VALUE}'),
    (
        "spec.containers[0].resources",
        {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
        [("spec.containers[0].resources.requests", 'Invalid value: "2": must be less than or equal to cpu limit of 1')],
    ),
    (
        "spec.containers[0].resources",
        {"requests": {"cpu": "-1"}},
        [("spec.containers[0].resources.requests[cpu]", 'Invalid value: "-1": must be greater than or equal to 0')],
    ),
    (
        "spec.containers[0].resources",
        {"requests": {"things": "1"}},
        [
            (
                "spec.containers[0].resources.requests[things]",
                'Invalid value: "things": must be a standard resource type or fully qualified',
            ),
            (
                "spec.containers[0].resources.requests[things]",
                'Invalid value: "things": must be a standard resource for containers',
            ),
        ],
    ),
    ("spec.containers[0].env", [{"name": ""}], [("spec.containers[0].env[0].name", "Required value")]),
    (
        "spec.containers[0].env",
        [{"name": "a=b"}],
        [
            (
                "spec.containers[0].env[0].name",
                (
                    'Invalid value: "a=b": a valid environment variable name must consist only of visible '
                    "ASCII characters other than '='"
                ),
            )
        ],
    ),
    case("spec.hostname", "A_b", f'Invalid value: "A_b": {LABEL}'),
    case("spec.subdomain", "A_b", f'Invalid value: "A_b": {LABEL}'),
    case("spec.activeDeadlineSeconds", 0, "Invalid value: 0: must be between 1 and 2147483647, inclusive"),
    (
        "spec.tolerations",
        [{"operator": "Equal"}],
        [
            (
                "spec.tolerations[0].operator",
                (
                    'Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match '
                    'all values and all keys"'
                ),
            )
        ],
    ),
    (
        "spec.topologySpreadConstraints",
        [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "X"}],
        [
            ("spec.topologySpreadConstraints[0].maxSkew", "Invalid value: 0: must be greater than zero"),
            ("spec.topologySpreadConstraints[0].topologyKey", "Required value: can not be empty"),
            (
                "spec.topologySpreadConstraints[0].whenUnsatisfiable",
                'Unsupported value: "X": supported values: "DoNotSchedule", "ScheduleAnyway"',
            ),
        ],
    ),
    (
        "spec.containers[0].volumeMounts",
        [{"name": "v", "mountPath": "/v"}],
        [("spec.containers[0].volumeMounts[0].name", 'Not found: "v"')],
    ),
    ("spec.volumes", [{"name": "v"}, {"name": "v"}], [("spec.volumes[1].name", 'Duplicate value: "v"')]),
    (
        "spec.readinessGates",
        [{"conditionType": "a b"}],
        [("spec.readinessGates[0].conditionType", f'Invalid value: "a b": {NAME}')],
    ),
]
NODES: Final[Cases] = [
    case("metadata.name", "Node", f'Invalid value: "Node": {SUBDOMAIN}'),
    (
        "spec.taints",
        [{"key": "a", "effect": "X"}],
        [
            (
                "metadata.taints[0].effect",
                'Unsupported value: "X": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
            )
        ],
    ),
    ("spec.taints", [{"key": "a"}], [("metadata.taints[0].effect", "Required value")]),
    (
        "spec.taints",
        [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}],
        [
            (
                "metadata.taints[1]",
                (
                    'Duplicate value: {"ObjectKey":"a","Value":"","Effect":"NoSchedule","TimeAdded":null}: taints '
                    "must be unique by key and effect pair"
                ),
            )
        ],
    ),
    (
        "spec.taints",
        [{"key": "", "effect": "NoSchedule"}],
        [
            ("metadata.taints[0].key", 'Invalid value: "": name part must be non-empty'),
            ("metadata.taints[0].key", f'Invalid value: "": {NAME}'),
        ],
    ),
    (
        "spec.podCIDRs",
        ["x"],
        [("spec.podCIDRs[0]", 'Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)')],
    ),
    case(
        "spec.podCIDRs",
        ["10.0.0.0/24", "10.0.1.0/24"],
        ('Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one CIDR for each IP family'),
    ),
    case("metadata.labels", {"a": "b c"}, f'Invalid value: "b c": {VALUE}'),
    (
        "spec.podCIDR",
        "10.0.0.1/24",
        [("spec.podCIDRs[0]", 'Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length')],
    ),
]
SLICES: Final[Cases] = [
    case("metadata.name", "Slice", f'Invalid value: "Slice": {SUBDOMAIN}'),
    case("addressType", "IPv5", 'Unsupported value: "IPv5": supported values: "FQDN", "IPv4", "IPv6"'),
    case("addressType", ABSENT, "Required value"),
    case("endpoints[0].addresses", [], "Required value: must contain at least 1 address"),
    (
        "endpoints[0].addresses",
        ["10.0.0.256"],
        [
            (
                "endpoints[0].addresses[0]",
                ('Invalid value: "10.0.0.256": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'),
            )
        ],
    ),
    (
        "endpoints[0].addresses",
        ["127.0.0.1"],
        [
            (
                "endpoints[0].addresses[0]",
                'Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)',
            )
        ],
    ),
    case(
        "endpoints[0].addresses",
        ["::1"],
        'Invalid value: "::1": must be an IPv4 address',
        ("endpoints[0].addresses[0]", 'Invalid value: "::1": may not be in the loopback range (127.0.0.0/8, ::1/128)'),
    ),
    (
        "endpoints[0].hints",
        {"forZones": [{"name": "a b"}]},
        [("endpoints[0].hints.forZones[0].name", f'Invalid value: "a b": {VALUE}')],
    ),
    (
        "endpoints[0].hints",
        {"forZones": [{"name": "a"}, {"name": "a"}]},
        [("endpoints[0].hints.forZones[1].name", 'Duplicate value: "a"')],
    ),
    case("endpoints[0].hostname", "A_b", f'Invalid value: "A_b": {LABEL}'),
    case("endpoints[0].nodeName", "A_b", f'Invalid value: "A_b": {SUBDOMAIN}'),
    case("ports[0].protocol", "X", 'Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"'),
    case("ports[0].name", "A_b", f'Invalid value: "A_b": {LABEL}'),
    ("ports[1]", {"name": "http", "port": 1}, [("ports[1].name", 'Duplicate value: "http"')]),
    (
        "endpoints[0].hints",
        {"forNodes": [{"name": "A_b"}]},
        [("endpoints[0].hints.forNodes[0].name", f'Invalid value: "A_b": {SUBDOMAIN}')],
    ),
]
LEASES: Final[Cases] = [
    case("metadata.name", "Lease", f'Invalid value: "Lease": {SUBDOMAIN}'),
    case("spec.leaseDurationSeconds", 0, "Invalid value: 0: must be greater than 0"),
    case("spec.leaseTransitions", -1, "Invalid value: -1: must be greater than or equal to 0"),
]
CORE_EVENTS: Final[Cases] = [
    case("involvedObject.namespace", "other", 'Invalid value: "other": does not match event.namespace'),
    (
        "eventTime",
        "2026-01-01T00:00:00.000000Z",
        [
            ("reportingComponent", "Required value"),
            ("reportingComponent", 'Invalid value: "": name part must be non-empty'),
            ("reportingComponent", f'Invalid value: "": {NAME}'),
            ("reportingInstance", "Required value"),
            ("action", "Required value"),
        ],
    ),
]
EVENTS: Final[Cases] = [
    case("eventTime", ABSENT, "Required value"),
    case(
        "reportingController",
        ABSENT,
        "Required value",
        ("reportingController", 'Invalid value: "": name part must be non-empty'),
        ("reportingController", f'Invalid value: "": {NAME}'),
    ),
    case("reportingController", "a b", f'Invalid value: "a b": {NAME}'),
    case("reportingInstance", ABSENT, "Required value"),
    case("reportingInstance", "x" * 129, 'Invalid value: "": can have at most 128 characters'),
    case("action", ABSENT, "Required value"),
    case("action", "x" * 129, 'Invalid value: "": can have at most 128 characters'),
    case("reason", ABSENT, "Required value"),
    case("reason", "x" * 129, 'Invalid value: "": can have at most 128 characters'),
    case("type", "Odd", 'Invalid value: "": has invalid value: Odd'),
    ("note", "x" * 1025, [("message", 'Invalid value: "": can have at most 1024 characters')]),
    (
        "series",
        {"count": 0, "lastObservedTime": "2026-01-01T00:00:00.000000Z"},
        [("series.count", 'Invalid value: "": should be at least 2')],
    ),
    ("series", {"count": 2}, [("series.lastObservedTime", "Required value")]),
    ("deprecatedCount", 2, [("count", 'Invalid value: "": needs to be unset')]),
    ("deprecatedSource", {"component": "x"}, [("source", 'Invalid value: "": needs to be unset')]),
]
NAMESPACES: Final[Cases] = [
    case("metadata.name", "Name.Space", f'Invalid value: "Name.Space": {LABEL}'),
    case(
        "metadata.name",
        LONG,
        f'Invalid value: "{LONG}": must be no more than 63 characters',
        ("metadata.labels", f'Invalid value: "{LONG}": must be no more than 63 bytes'),
    ),
    case(
        "spec.finalizers",
        ["mine"],
        ('Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified'),
    ),
]
