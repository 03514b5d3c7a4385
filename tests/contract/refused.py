"""What is wrong with new objects: a field, what it is set to, and which causes the server names for it.

All of it is taken from answers of kube-apiserver v1.36.3.
"""

from typing import Final

from tests.builders.objects import ABSENT

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
    case("spec.ports[0].name", "Http", f'Invalid value: "Http": {LABEL}'),
    ("spec.ports[1]", {"port": 81}, [("spec.ports[1].name", "Required value")]),
    ("spec.ports[1]", {"name": "http", "port": 81}, [("spec.ports[1].name", 'Duplicate value: "http"')]),
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
    case("spec.internalTrafficPolicy", "Nearest", 'Unsupported value: "Nearest": supported values: "Cluster", "Local"'),
    case(
        "spec.trafficDistribution",
        "PreferFar",
        ('Unsupported value: "PreferFar": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"'),
    ),
    case("spec.ports[0].nodePort", 30000, "Forbidden: may not be used when `type` is 'ClusterIP'"),
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
    case("metadata.labels", {"a b": "c"}, f'Invalid value: "a b": {NAME}'),
    case("metadata.labels", {"a": "b c"}, f'Invalid value: "b c": {VALUE}'),
    case("metadata.annotations", {"a b": "c"}, f'Invalid value: "a b": {NAME}'),
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
]
NODES: Final[Cases] = [case("metadata.name", "Node", f'Invalid value: "Node": {SUBDOMAIN}')]
ENDPOINTS: Final[Cases] = [
    case("metadata.name", "Cart", f'Invalid value: "Cart": {SUBDOMAIN}'),
    ("subsets[0].addresses", [], [("subsets[0]", "Required value: must specify `addresses` or `notReadyAddresses`")]),
    (
        "subsets[0].addresses[0].ip",
        "x",
        [
            (
                "subsets[0].addresses[0].ip",
                'Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
            ),
            ("subsets[0].addresses[0].ip", 'Invalid value: "x": must be a valid IP address'),
        ],
    ),
    case(
        "subsets[0].addresses[0].ip",
        "127.0.0.1",
        'Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)',
    ),
    case("subsets[0].addresses[0].hostname", "A_b", f'Invalid value: "A_b": {LABEL}'),
    case("subsets[0].addresses[0].nodeName", "A", f'Invalid value: "A": {SUBDOMAIN}'),
    case("subsets[0].ports[0].port", 0, "Invalid value: 0: must be between 1 and 65535, inclusive"),
    case("subsets[0].ports[0].protocol", "X", 'Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"'),
    case("subsets[0].ports[0].name", "A", f'Invalid value: "A": {LABEL}'),
    case("subsets[0].ports[0].appProtocol", "a b", f'Invalid value: "a b": {NAME}'),
    ("subsets[0].ports[1]", {"port": 81}, [("subsets[0].ports[1].name", "Required value")]),
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
]
