"""What an API server says of a Service that is not good: upstream's ``pkg/apis/core/validation`` (v1.36), its order
and its words, oddities included.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv6Address, ip_network
from typing import Any, Final

from zoneward.kube import formats
from zoneward.kube.names import HEADLESS, TOPOLOGY_AWARE_HINTS_ANNOTATION, TOPOLOGY_MODE_ANNOTATION
from zoneward.kube.objects import Service, ServiceSpec
from zoneward.kube.validation import (
    PROTOCOLS,
    FieldError,
    error,
    invalid,
    labels_errors,
    not_supported,
    validate_traffic_distribution,
)
from zoneward.sandbox.server.kinds import Object
from zoneward.sandbox.server.rules.metadata import label_name_problems, subdomain_name_problems

Spec = Mapping[str, Any]

TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
SOURCE_RANGES_ANNOTATION: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
MAX_AFFINITY_SECONDS: Final = 86400

_FAMILIES: Final = ("IPv4", "IPv6")
_FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_AFFINITIES: Final = ("ClientIP", "None")
_POLICIES: Final = ("Cluster", "Local")
_IP_MODES: Final = ("Proxy", "VIP")
_PORT_NUMBER: Final = "must be between 1 and 65535, inclusive"
_ONCE: Final = "may not change once set"
_ADDRESS_FIELDS: Final = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "type")


def service_errors(
    new: Object, *, old: Object | None = None, prefer_same_traffic_distribution: bool = True
) -> Iterator[FieldError]:
    """What is wrong beyond the metadata; ``old``: parts that are as they were are not judged again."""
    spec: Spec = new["spec"]
    before: Spec = old["spec"] if old is not None else {}
    type_, ports = spec.get("type", ""), spec.get("ports") or ()
    annotations: Mapping[str, str] = new["metadata"].get("annotations") or {}
    yield from _mode_errors(annotations)
    if not ports and type_ != "ExternalName" and spec.get("clusterIP") != HEADLESS:
        yield error("FieldValueRequired", "spec.ports")
    if type_ in ("LoadBalancer", "NodePort") and spec.get("clusterIP") == HEADLESS:
        problem = f"may not be set to 'None' for {type_} services"
        yield error("FieldValueInvalid", "spec.clusterIPs[0]", problem, value=HEADLESS)
    if type_ == "ExternalName":
        yield from _external_name_errors(spec)
    if ports != before.get("ports"):
        yield from _ports_errors(ports)
    if (selector := spec.get("selector")) and selector != before.get("selector"):
        yield from labels_errors(selector, "spec.selector")
    yield from _affinity_errors(spec)
    if any(spec.get(field) != before.get(field) for field in _ADDRESS_FIELDS):
        yield from cluster_ip_errors(spec)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        yield from _external_ip_errors(address, f"spec.externalIPs[{index}]")
    if type_ not in TYPES:
        yield not_supported("spec.type", type_, TYPES)
    if type_ != before.get("type") or ports != before.get("ports"):
        yield from _ports_together_errors(ports, type_)
    yield from _source_ranges_errors(spec, annotations)
    yield from _load_balancer_errors(spec)
    yield from _traffic_errors(spec)
    if (distribution := spec.get("trafficDistribution")) is not None:
        yield from validate_traffic_distribution(
            Service(spec=ServiceSpec(traffic_distribution=distribution)),
            prefer_same_traffic_distribution=prefer_same_traffic_distribution,
        )


def change_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """What may not change."""
    spec, before = new["spec"], old["spec"]
    names_both = spec.get("type") != "ExternalName" != before.get("type")
    is_headless = spec.get("clusterIP") == HEADLESS == before.get("clusterIP")
    if names_both and not is_headless:
        for field, primary, secondary in (
            ("clusterIPs", "primary clusterIP", "secondary clusterIP"),
            ("ipFamilies", "primary ipFamily", "secondary ipFamily"),
        ):
            has, had = spec.get(field) or [], before.get(field) or []
            if has != had:
                yield from _list_change_errors(has, had, field, primary, secondary, spec.get("ipFamilyPolicy"))
    if spec.get("type") == "LoadBalancer" == before.get("type"):
        class_ = spec.get("loadBalancerClass")
        if class_ != before.get("loadBalancerClass"):
            yield error("FieldValueInvalid", "spec.loadBalancerClass", _ONCE, value=class_)
        port = spec.get("healthCheckNodePort")
        is_checked = spec.get("externalTrafficPolicy") == "Local" == before.get("externalTrafficPolicy")
        if is_checked and port != before.get("healthCheckNodePort"):
            yield error("FieldValueForbidden", "spec.healthCheckNodePort", "field is immutable")


def _list_change_errors(
    has: Sequence[str], had: Sequence[str], field: str, primary: str, secondary: str, policy: str | None
) -> Iterator[FieldError]:
    if len(has) == len(had):
        for index, (now, then) in enumerate(zip(has, had, strict=True)):
            if now != then:
                place = index if field == "clusterIPs" else 0
                yield error("FieldValueInvalid", f"spec.{field}[{place}]", _ONCE, value=has)
        return
    if not had:
        return
    if not has:
        yield error("FieldValueInvalid", f"spec.{field}[0]", f"{primary} can not be unset", value=has)
        return
    if has[0] != had[0]:
        yield error("FieldValueInvalid", f"spec.{field}[0]", _ONCE, value=has)
    if len(has) == 1 and policy != "SingleStack":
        problem = f"must be set to 'SingleStack' when releasing the {secondary}"
        yield error("FieldValueInvalid", "spec.ipFamilyPolicy", problem, value=policy)


# --- families and cluster IPs -----------------------------------------------------------------------------------------


def cluster_ip_errors(spec: Spec) -> Iterator[FieldError]:
    """``ValidateServiceClusterIPsRelatedFields``, which upstream asks before it allocates, and again after it."""
    if spec.get("type") == "ExternalName":
        return
    families, policy = spec.get("ipFamilies") or [], spec.get("ipFamilyPolicy")
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            yield not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES)
        if family in families[:index]:
            yield error("FieldValueDuplicate", f"spec.ipFamilies[{index}]", value=family)
    if policy is not None and policy not in _FAMILY_POLICIES:
        yield not_supported("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES)
    addresses, first = spec.get("clusterIPs") or [], spec.get("clusterIP") or ""
    if addresses and not first:
        problem = "must be empty when `clusterIP` is not specified"
        yield error("FieldValueInvalid", "spec.clusterIPs", problem, value=addresses)
    elif addresses and addresses[0] != first:
        yield error("FieldValueInvalid", "spec.clusterIPs", "first value must match `clusterIP`", value=addresses)
    are_addresses = True
    for index, address in enumerate(addresses):
        if index == 0 and address == HEADLESS:
            if len(addresses) > 1:
                are_addresses = False
                problem = "'None' must be the first and only value"
                yield error("FieldValueInvalid", "spec.clusterIPs", problem, value=addresses)
            continue
        for problem in formats.address_problems(address, canonical=False):
            are_addresses = False
            yield error("FieldValueInvalid", f"spec.clusterIPs[{index}]", problem, value=address)
    if len(addresses) > 2:
        yield error("FieldValueInvalid", "spec.clusterIPs", "may only hold up to 2 values", value=addresses)
    if are_addresses and first != HEADLESS and addresses and addresses[0] != HEADLESS:
        yield from _family_errors(addresses, families)


def _family_errors(addresses: Sequence[str], families: Sequence[str]) -> Iterator[FieldError]:
    found = ["IPv6" if ":" in address else "IPv4" for address in addresses]
    if len(addresses) > 1 and len(set(found)) == 1:
        problem = "may specify no more than one IP for each IP family"
        yield error("FieldValueInvalid", "spec.clusterIPs", problem, value=addresses)
    for index, (family, wanted) in enumerate(zip(found, families, strict=False)):
        if family != wanted and wanted in _FAMILIES:
            problem = f"expected an {wanted} value as indicated by `ipFamilies[{index}]`"
            yield error("FieldValueInvalid", f"spec.clusterIPs[{index}]", problem, value=addresses[index])


def _external_ip_errors(address: str, field: str) -> Iterator[FieldError]:
    problems = tuple(formats.address_problems(address, canonical=False))
    parsed = formats.parse_address(address)
    if parsed is not None and not problems:
        problems = tuple(formats.destination_problems(address, parsed))
    yield from invalid(field, address, problems)


# --- ports ------------------------------------------------------------------------------------------------------------


def _ports_errors(ports: Sequence[Object]) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        field, name = f"spec.ports[{index}]", port.get("name", "")
        if not name:
            if len(ports) > 1:
                yield error("FieldValueRequired", f"{field}.name")
        else:
            yield from invalid(f"{field}.name", name, label_name_problems(name))
            if name in names:
                yield error("FieldValueDuplicate", f"{field}.name", value=name)
            names.add(name)
        if not 1 <= port["port"] <= 65535:
            yield error("FieldValueInvalid", f"{field}.port", _PORT_NUMBER, value=port["port"])
        if (protocol := port.get("protocol", "")) not in PROTOCOLS:
            yield not_supported(f"{field}.protocol", protocol, sorted(PROTOCOLS))
        target = port["targetPort"]
        if isinstance(target, str):
            yield from invalid(f"{field}.targetPort", target, port_name_problems(target))
        elif not 1 <= target <= 65535:
            yield error("FieldValueInvalid", f"{field}.targetPort", _PORT_NUMBER, value=target)
        if (protocol := port.get("appProtocol")) is not None:
            yield from invalid(f"{field}.appProtocol", protocol, formats.qualified_name_problems(protocol))


def port_name_problems(name: str) -> Iterator[str]:
    """The name of a container's port (an IANA service name), in lower case."""
    if formats.size(name) > 15:
        yield "must be no more than 15 characters"
    if not re.fullmatch("[-a-z0-9]+", name):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search("[a-z]", name):
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"


def _ports_together_errors(ports: Sequence[Object], type_: str) -> Iterator[FieldError]:
    if type_ == "ClusterIP":
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                problem = "may not be used when `type` is 'ClusterIP'"
                yield error("FieldValueForbidden", f"spec.ports[{index}].nodePort", problem)
    taken: dict[tuple[str, int], int] = {}
    for index, port in enumerate(ports):
        key = (port["protocol"], port.get("nodePort", 0))
        if not key[1]:
            continue
        # Where node ports are allocated, that is refused by who allocates, unless it is for the same port.
        if key in taken and (type_ not in ("LoadBalancer", "NodePort") or taken[key] == port["port"]):
            yield error("FieldValueDuplicate", f"spec.ports[{index}].nodePort", value=key[1])
        taken.setdefault(key, port["port"])
    met: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        key = (port["protocol"], port["port"])
        if key in met:
            yield error("FieldValueDuplicate", f"spec.ports[{index}]", value=_as_key(*key))
        met.add(key)


def _as_key(protocol: str, port: int) -> Object:
    return {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": port, "TargetPort": 0, "NodePort": 0}


# --- the rest of the spec ---------------------------------------------------------------------------------------------


def _mode_errors(annotations: Mapping[str, str]) -> Iterator[FieldError]:
    hints, mode = map(annotations.get, (TOPOLOGY_AWARE_HINTS_ANNOTATION, TOPOLOGY_MODE_ANNOTATION))
    if hints is not None and mode is not None and hints != mode:
        field = f"metadata.annotations[{TOPOLOGY_MODE_ANNOTATION}]"
        problem = f"must match annotations[{TOPOLOGY_AWARE_HINTS_ANNOTATION}] when both are specified"
        yield error("FieldValueInvalid", field, problem, value=mode)


def _external_name_errors(spec: Spec) -> Iterator[FieldError]:
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            yield error("FieldValueForbidden", f"spec.{field}", "may not be set for ExternalName services")
    if name := spec.get("externalName", "").removesuffix("."):
        yield from invalid("spec.externalName", name, subdomain_name_problems(name))
    else:
        yield error("FieldValueRequired", "spec.externalName")


def _affinity_errors(spec: Spec) -> Iterator[FieldError]:
    affinity = spec.get("sessionAffinity", "")
    if affinity not in _AFFINITIES:
        yield not_supported("spec.sessionAffinity", affinity, _AFFINITIES)
    elif affinity == "ClientIP":
        seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
        if not 0 < seconds <= MAX_AFFINITY_SECONDS:
            problem = f"must be greater than 0 and less than {MAX_AFFINITY_SECONDS}"
            field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            yield error("FieldValueInvalid", field, problem, value=seconds)


def _source_ranges_errors(spec: Spec, annotations: Mapping[str, str]) -> Iterator[FieldError]:
    """The annotation counts only where the field is empty. The field's name begins with a capital upstream."""
    if ranges := spec.get("loadBalancerSourceRanges"):
        fields = [(f"spec.LoadBalancerSourceRanges[{index}]", text) for index, text in enumerate(ranges)]
        field = "spec.LoadBalancerSourceRanges"
    elif (listed := annotations.get(SOURCE_RANGES_ANNOTATION)) is not None:
        field = f"metadata.annotations[{SOURCE_RANGES_ANNOTATION}]"
        fields = [(field, text) for text in listed.split(",")] if listed.strip() else []
    else:
        return
    if spec.get("type") != "LoadBalancer":
        yield error("FieldValueForbidden", field, "may only be used when `type` is 'LoadBalancer'")
    for place, text in fields:
        yield from invalid(place, text.strip(), network_problems(text.strip()))


def network_problems(text: str) -> Iterator[str]:
    """A CIDR, at most one problem."""
    address, _, length = text.partition("/")
    parsed = formats.parse_address(address)
    is_length = bool(re.fullmatch("[0-9]+", length))
    if parsed is None or not is_length or int(length) > parsed.max_prefixlen:
        yield "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    elif str(int(length)) != length or "must not have leading 0s" in formats.address_problems(address, canonical=False):
        yield "must not have leading 0s in IP or prefix length"
    elif isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        yield "must not have an IPv4-mapped IPv6 address"
    elif ip_network(f"{parsed}/{length}", strict=False).network_address != parsed:
        yield "must not have bits set beyond the prefix length"


def _load_balancer_errors(spec: Spec) -> Iterator[FieldError]:
    class_ = spec.get("loadBalancerClass")
    if spec.get("type") != "LoadBalancer":
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(field) is not None:
                yield error("FieldValueForbidden", f"spec.{field}", "may only be used when `type` is 'LoadBalancer'")
    elif class_ is not None:
        yield from invalid("spec.loadBalancerClass", class_, formats.qualified_name_problems(class_))


def _traffic_errors(spec: Spec) -> Iterator[FieldError]:
    type_, external = spec.get("type"), spec.get("externalTrafficPolicy", "")
    if type_ in ("NodePort", "LoadBalancer") or (type_ == "ClusterIP" and spec.get("externalIPs")):
        if external not in _POLICIES:
            yield not_supported("spec.externalTrafficPolicy", external, _POLICIES)
    elif external:
        problem = "may only be set for externally-accessible services"
        yield error("FieldValueInvalid", "spec.externalTrafficPolicy", problem, value=external)
    # A number that is none is refused by who allocates it.
    port = spec.get("healthCheckNodePort", 0)
    if port and not (type_ == "LoadBalancer" and external == "Local"):
        problem = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield error("FieldValueInvalid", "spec.healthCheckNodePort", problem, value=port)
    internal = spec.get("internalTrafficPolicy")
    if internal is not None and internal not in _POLICIES:
        yield not_supported("spec.internalTrafficPolicy", internal, _POLICIES)


# --- the status -------------------------------------------------------------------------------------------------------


def status_errors(new: Object) -> Iterator[FieldError]:
    """Of the load balancer. Conditions upstream takes as they come."""
    ingress = new["status"]["loadBalancer"].get("ingress") or ()
    if ingress and new["spec"].get("type") != "LoadBalancer":
        problem = "may only be used when `spec.type` is 'LoadBalancer'"
        yield error("FieldValueForbidden", "status.loadBalancer.ingress", problem)
        return
    for index, each in enumerate(ingress):
        field, address, mode = f"status.loadBalancer.ingress[{index}]", each.get("ip"), each.get("ipMode")
        if address:
            yield from invalid(f"{field}.ip", address, formats.address_problems(address, canonical=False))
            if mode not in _IP_MODES:
                yield not_supported(f"{field}.ipMode", mode or "", _IP_MODES)
        elif mode is not None:
            yield error("FieldValueForbidden", f"{field}.ipMode", "may not be specified when `ip` is not set")
        if name := each.get("hostname"):
            yield from invalid(f"{field}.hostname", name, _host_problems(name))


def _host_problems(name: str) -> Iterable[str]:
    yield from subdomain_name_problems(name)
    if formats.parse_address(name) is not None:
        yield "must be a DNS name, not an IP address"
